"""Result of an audit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from skfairdp.foundation.figures import as_given, percent_text, significant_down, significant_up


@dataclass(frozen=True)
class AuditResult:
    """Empirical lower bound on epsilon, with the claim that it tests.

    Parameters
    ----------
    method : {"one-run", "many-run"}
        How the evidence was gathered.
    epsilon_lower_bound : float
        Lower confidence bound on the true epsilon at `delta`, in nats.
    claimed_epsilon : float
        Epsilon that the certificate claims, in nats; infinity if it claims nothing.
    delta : float
        The delta of both figures.
    confidence_level : float
        Probability that the lower bound is not above the true epsilon.
    p_value : float
        Probability of evidence at least as strong if the claim were true; of many runs, also at
        larger deltas than `delta`.
    adjacency : str
        Relation that was tested; canaries are added or left out: "add-remove".
    settings : mapping of str to int, float or str
        Numbers of canaries, guesses and runs.
    """

    method: str
    epsilon_lower_bound: float
    claimed_epsilon: float
    delta: float
    confidence_level: float
    p_value: float
    adjacency: str = "add-remove"
    settings: Mapping[str, int | float | str] = field(default_factory=dict, hash=False)

    @property
    def refutes_claim(self) -> bool:
        """Whether the claim is refuted at the confidence level."""
        return self.p_value <= 1.0 - self.confidence_level

    def __str__(self) -> str:
        claim = (
            "no finite epsilon is claimed"
            if math.isinf(self.claimed_epsilon)
            else f"claimed epsilon {significant_up(self.claimed_epsilon, 4)}, "
            f"p-value {significant_up(self.p_value, 2)}"
        )
        verdict = "The claim is not refuted. That is no proof: a stronger attack may exist."
        if self.refutes_claim:
            larger = self.epsilon_lower_bound <= self.claimed_epsilon
            how = " by what the release shows at a larger delta" if larger else ""
            verdict = f"The claim is refuted{how}: the implementation or its accounting is wrong."
        details = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return (
            f"{self.method} audit ({self.adjacency}): with {percent_text(self.confidence_level)} "
            f"confidence epsilon >= {significant_down(self.epsilon_lower_bound, 4)} at delta = "
            f"{as_given(self.delta)}; "
            f"{claim}.\n{verdict}\n({details})"
        )
