"""Kinds of bounds: one record each, with all that a claim of this kind needs.

A claim stores the counts and inputs that its bound follows from, so that a reader can compute
the bound again. To add a kind, add its record here, and make claims with it, as CONTRIBUTING.md
describes; storing, checking, printing and recomputing read the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skfairdp.fairness.bounds import stored, stored_numbers
from skfairdp.fairness.bounds.head_noise import HEAD_INPUTS, theorem2_bound
from skfairdp.fairness.scopes import (
    ANSWERED,
    ANY_POPULATION,
    AVERAGED,
    DEPLOYED,
    DOWNSTREAM,
    DOWNSTREAM_LIKE,
    TRAINING,
)

EXACT = "exact test"
HOEFFDING = "Hoeffding"
NOISY_COUNTS = "noisy counts"
OWN_MODELS = "models of the groups"
COUNTED = "counted"
RELEASE = "local release"
TOTAL_VARIATION = "total variation of codes"
LAST_STEP = "last head step"
WEIGHT_LENGTH = "length of the weights"
DISTRIBUTIONS = "distributions of predictions"
MEANS = "means of predictions"


@dataclass(frozen=True, kw_only=True)
class BoundKind:
    """Derivation of a bound from the figures that a claim stores."""

    # The scopes in which it proves something, each with the name of the method that a claim
    # prints; braces are filled in by the code that makes the claim
    methods: Mapping[str, str]
    # Names of the stored inputs, in addition to the counts. "claims" is how many claims share the
    # error probability; `bound` then gets `level`, the confidence of this one
    inputs: tuple[str, ...] = ()
    bound: Callable[..., float] = field(repr=False)  # Of the claim and, by name, its inputs
    estimate: Callable[..., float | None] = stored.largest_gap  # Of the claim alone
    # Interval of each cell's rate, of the claim and a confidence level; None: from its counts
    intervals: Callable[..., Any] | None = None
    # Whether the bound is the result of a search, and so differs in the last part of its figures
    # between versions of the library
    searched: bool = False
    # Whether the rows are counted in the inputs, and not as rates
    counts_in_inputs: bool = False
    # Whether the input "epsilon" was spent on the held-out rows, and so is part of the
    # certificate's total
    spends: bool = False


KINDS: dict[str, BoundKind] = {
    EXACT: BoundKind(
        methods={DEPLOYED: "exact, of each pair of groups"},
        inputs=("claims",),
        bound=stored.exact,
        searched=True,
    ),
    HOEFFDING: BoundKind(
        methods={
            DEPLOYED: "difference (Hoeffding)",
            AVERAGED: "Hoeffding, on the probabilities of the random predictions",
        },
        inputs=("claims",),
        bound=stored.hoeffding,
    ),
    NOISY_COUNTS: BoundKind(
        methods={DEPLOYED: "exact, from noisy counts of answers; sizes of groups are {cell_sizes}"},
        inputs=("claims", "epsilon", "public_sizes", "terms"),
        bound=stored.noisy_counts,
        intervals=stored.noisy_intervals,
        searched=True,
        spends=True,
    ),
    OWN_MODELS: BoundKind(
        methods={
            AVERAGED: "smoothing: every group's own model, and its distance to the common one"
        },
        inputs=("claims", "sums", "trials", "distances", "n_draws"),
        bound=stored.own_models,
    ),
    COUNTED: BoundKind(
        methods={
            ANSWERED: "counted; parity gate over {checked}, γ = {tolerance}, cold start "
            "{cold_start}"
        },
        bound=stored.counted,
        estimate=stored.counted_gap,
    ),
    RELEASE: BoundKind(
        methods={DOWNSTREAM: "tanh(ε/2) of a locally private release"},
        inputs=("epsilon",),
        bound=stored.local_release,
    ),
    TOTAL_VARIATION: BoundKind(
        methods={DOWNSTREAM_LIKE: "total variation of one code, by an exact test of each event"},
        inputs=("claims", "attenuation", "n_codes"),
        bound=stored.codes,
        estimate=stored.codes_estimate,
    ),
    LAST_STEP: BoundKind(
        methods={TRAINING: "noise of the last head step (FairDP Theorem 2, corrected)"},
        inputs=HEAD_INPUTS,
        bound=lambda claim, **inputs: theorem2_bound(**inputs),
    ),
    WEIGHT_LENGTH: BoundKind(
        methods={ANY_POPULATION: "smoothing: length of the released weights against the noise"},
        inputs=("norm", "std"),
        bound=stored.weight_length,
    ),
    DISTRIBUTIONS: BoundKind(
        methods={DEPLOYED: "{test} at every threshold, for each pair of groups"},
        inputs=("claims", "test", *stored_numbers.CELLS),
        bound=stored_numbers.distributions,
        estimate=stored_numbers.observed_distance,
        searched=True,
        counts_in_inputs=True,
    ),
    MEANS: BoundKind(
        methods={DEPLOYED: "limits of means, by {test_of_means}"},
        inputs=("claims", "test", "low", "high", *stored_numbers.CELLS),
        bound=stored_numbers.means,
        estimate=stored_numbers.observed_means,
        searched=True,
        counts_in_inputs=True,
    ),
}
