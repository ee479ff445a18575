"""Certify estimators, Pipelines and fitted searches, and charge ledgers for it."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_regressor
from sklearn.frozen import FrozenEstimator

from skfairdp.certificate.certificate import Certificate
from skfairdp.certificate.claims import NOT_INSTALLED, version_of
from skfairdp.certificate.composition import (
    counts_guarantee,
    model_privacy,
    refuse_other_unit,
    sorted_steps,
    with_counts,
)
from skfairdp.certificate.evaluation import (
    Evaluation,
    claims_of_mechanism,
    evaluate,
    leakage_remarks,
    without_bounds,
)
from skfairdp.certificate.evaluation_settings import EvaluationSettings, refuse_unsaid
from skfairdp.certificate.facts import (
    COUNTED,
    PUBLIC,
    UNKNOWN,
    Fact,
    known_facts,
    warn_of_guessed_outcome,
)
from skfairdp.certificate.holdout import (
    GroupedRows,
    check_answerable,
    check_positive,
    comparable_groups,
    one_row_each,
    refuse_training_rows,
)
from skfairdp.certificate.number_claims import ask_numbers, evaluate_numbers
from skfairdp.exceptions import UnboundModelError
from skfairdp.fairness.notions import Notion, get_notions
from skfairdp.fairness.number_notions import get_number_notions
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import BOOLEAN, check_values
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger, as_ledger
from skfairdp.privacy.ledger.findings import declare_public, record_void
from skfairdp.privacy.noise import NoiseSource
from skfairdp.protocol import CERTIFY, asked_many_times
from skfairdp.receipts.digests.digest import Bound
from skfairdp.receipts.receipt import receipt_of
from skfairdp.receipts.unwrap import Deployed, releases_rows, unwrap
from skfairdp.records.labels import count_rows
from skfairdp.records.persons import warn_of_ids
from skfairdp.records.rows import refuse_other_order
from skfairdp.records.stored_rows import with_columns_of


@contextmanager
def charged(
    book: PrivacyLedger | None,
    settings: EvaluationSettings,
    source: NoiseSource | None,
    name: str,
    X: Any,
) -> Iterator[EvaluationSettings]:
    """Charge an evaluation of a model before a block, and commit after it.

    Yields settings that say how many certificates the ledger has seen, this one included. A number
    beyond those that were planned is refused and given back, as nothing was shown yet.
    """
    if book is None:
        yield settings
        return
    cost, rows = None, None if settings.private else X
    if settings.count_epsilon is not None:
        assert source is not None
        asked: dict[str, Any] = {"public_sizes": settings.public_sizes, "protects": settings.unit}
        cost = counts_guarantee(settings.parts_of_epsilon, source=source, **asked)
    entry = book.reserve(cost, activity="certify", estimator=name, public_rows=rows)
    try:
        settings.check_index(settings.certificate_index or entry.ordinal)
    except BaseException:
        book.give_back(entry)
        raise
    if settings.certificate_index is None:
        settings = dataclasses.replace(settings, certificate_index=entry.ordinal, counted=True)
    with book.finishing(entry):
        yield settings


def tell_ledgers(
    deployed: Deployed, privacy: PrivacyGuarantee | None, public_steps: Sequence[str]
) -> None:
    """Mark the totals of the ledgers that training charged where they do not hold.

    A fit charges its own cost: it does not know a step before it that learned from rows without
    noise, or of exact scores that a search has shown.
    """
    # Declarations of one fit do not hold for the steps of another. Noise makes fits
    # distinguishable; without noise, a digest would reveal rows.
    parts = (part for _, part in deployed._ours() if getattr(part, "privacy_", None) is not None)
    receipts = [receipt_of(part) for part in parts if not part.privacy_.is_void]
    noisy = [None if receipt is None else receipt.digests for receipt in receipts]
    whose = f"found about the model of the fit {blake2b(repr(noisy).encode()).hexdigest()[:16]}"
    for ledger in _ledgers(deployed.trained):
        if privacy is not None and privacy.is_void:
            # What was put into a model after its fit says nothing about what the fit has shown.
            _, declared = sorted_steps(deployed.trained.leaves(), public_steps)
            others = {*deployed.changes, *declared}
            reasons = tuple(text for text in privacy.assumptions if text not in others)
            if reasons:
                found = dataclasses.replace(privacy, assumptions=(*reasons, whose))
                record_void(ledger, found, deployed.name)
        elif public_steps:
            without = model_privacy(deployed, ())
            if without is not None and without.is_void:
                known = (*without.assumptions, whose)
                without = dataclasses.replace(without, assumptions=known)
                declare_public(ledger, without, deployed.name)


def _ledgers(deployed: Deployed) -> tuple[PrivacyLedger, ...]:
    """Ledgers of all parts, also where another estimator holds one of skfairdp."""
    parts = [*deployed.searches, *(step for _, step in deployed.leaves()), deployed.final]
    held: list[Any] = []
    for part in parts:
        given = part.get_params(deep=True) if hasattr(part, "get_params") else {}
        books = (v for name, v in given.items() if name.rpartition("__")[2] == "ledger")
        held += [as_ledger(book) for book in books if book is not None]
        # These do not show the parameters of what they hold.
        parts += [v.estimator for v in given.values() if isinstance(v, FrozenEstimator)]
    return tuple(dict.fromkeys(held))


UNBOUND = "unbound"  # stands for the digest of a model that has none

LIBRARIES = ("dp-accounting", "numpy", "pandas", "scikit-learn", "scipy", "skorch", "torch")


@completed_by(CERTIFY)
@asked_many_times()
@np.errstate(all="ignore")  # numpy's warnings and errors about one number would reveal a row
def certify(
    model: object,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    sensitive_features: ArrayLike | None = None,
    person_ids: ArrayLike | None = None,
    notion: str | Notion | Sequence[str | Notion] = "demographic_parity",
    confidence_level: float = 0.95,
    bound: str = "exact",
    count_epsilon: float | None = None,
    scores: bool = False,
    cell_sizes: str = "private",
    holdout: str | None = None,
    groups: Sequence[Hashable] | None = None,
    pos_label: Hashable | None = None,
    n_certificates: int = 1,
    certificate_index: int | None = None,
    public_steps: Sequence[str] = (),
    count_noise: NoiseSource | None = None,
    ledger: str | PathLike[str] | PrivacyLedger | None = None,
    check_ids: bool = False,
) -> Certificate:
    """Certify the privacy and the fairness of a fitted model.

    With rows that were held out from training and selection it also bounds how far the deployed
    model's rates differ between groups in the population that the rows come from.

    Parameters
    ----------
    model : estimator, Pipeline or fitted search
        The fitted model as it is deployed. Earlier steps of a Pipeline belong to it.
    scores : bool, default=False
        Count the model's probabilities by group too, in even public bins: whether they are
        calibrated in each group, and the share of each above the median of all (the scoring rate of
        New York's Local Law 144). Needs `y` and a `predict_proba` of two classes. With
        `count_epsilon` a fourth of it pays for these counts, so the bound widens a little.
    cell_sizes : {"private", "public"}, default="private"
        Whether the number of rows of each (group, label) cell is public; used with
        `count_epsilon` only. Public sizes give narrower bounds.
    groups : sequence, optional
        Declared groups, in place of those that the model was fitted with.
    pos_label : scalar, optional
        Which of two classes is the positive outcome, the one that people would rather have; None:
        the second of ``classes_``, with a warning that it is a guess. Scikit-learn's conventions
        (0 and 1, -1 and 1, False and True) are no guess, unless a name sounds like a harm.
    n_certificates : int, default=1
        Number of certificates planned on the same held-out rows; they share the error
        probability.
    certificate_index : int, optional
        Which of several certificates on these rows this one is, counted from 1. None takes
        it from the ledger, if there is one.
    public_steps : sequence of str, default=()
        Names of earlier Pipeline steps that were fitted without protected rows. Any
        other step that learned from rows and is not ours voids the privacy claim.
    count_noise : NoiseSource, optional
        Where the noise of the counts comes from; None takes a fresh one seeded by the
        operating system.
    ledger : None, path or PrivacyLedger, default=None
        Where the cost of `count_epsilon` is charged before the rows are used, and certificates
        are counted: from the same rows where they are public, else under the ledger's name.
        None takes that of the model, or of the search that found it, if there is one.
    check_ids : bool, default=False
        Warn of columns of `X` that look like identifiers: people may have several rows, and ε then
        speaks of one. Names and how many values differ are looked at without noise. The warning
        is for you alone: no guarantee covers it, and the certificate does not contain it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skfairdp import certify
    >>> X, y = np.zeros((400, 1)), np.tile([0, 1, 1, 1], 100)
    >>> model = DummyClassifier().fit(X, y)
    >>> groups = np.repeat(["a", "b"], 200)
    >>> certificate = certify(model, X, sensitive_features=groups, holdout="public")
    >>> certificate.fairness[0].figure
    '0.015'
    >>> certificate.satisfies(tolerance=0.05)
    True
    """
    if X is not None:
        refuse_unsaid(holdout, count_epsilon)
    deployed = unwrap(model)
    name, ledger = deployed.name, ledger or deployed.ledger
    of_numbers = is_regressor(deployed.final)
    settings = EvaluationSettings(
        notions=() if of_numbers else get_notions(notion),
        number_notions=get_number_notions(notion) if of_numbers else (),
        confidence_level=confidence_level,
        bound=bound,
        count_epsilon=count_epsilon,
        scores=scores,
        cell_sizes=cell_sizes,
        holdout=holdout,
        persons=person_ids is not None,
        groups=None if groups is None else tuple(groups),
        positive=pos_label,
        n_certificates=n_certificates,
        certificate_index=certificate_index,
    )
    if X is None and any(part is not None for part in (y, sensitive_features, person_ids)):
        raise ValueError("y, sensitive_features or person_ids were given without X: pass the rows.")
    check_values(check_ids=(check_ids, BOOLEAN))
    refuse_other_order(X=X, y=y, sensitive_features=sensitive_features, person_ids=person_ids)
    if check_ids:
        warn_of_ids(X, persons_known=person_ids is not None)
    y, sensitive_features = with_columns_of(X, y, sensitive_features)
    if X is not None and groups is not None and sensitive_features is None:
        raise ValueError(
            "'groups' declares which groups there are, and the group of each row is not given: "
            "pass it as sensitive_features=, or leave groups out to certify privacy alone."
        )
    facts = known_facts(deployed, y, sensitive_features, pos_label)
    if X is not None:
        warn_of_guessed_outcome(deployed, y, pos_label)
    turned = check_positive(deployed, pos_label)
    privacy = model_privacy(deployed, public_steps)
    tell_ledgers(deployed, privacy, public_steps)
    evaluation = Evaluation((), None)
    measured: tuple[str, ...] = ()
    counted = False
    if X is not None:
        refuse_other_unit(privacy, settings)
        refuse_training_rows(deployed, X, settings)
        source = NoiseSource() if count_noise is None and settings.private else count_noise
        book, held_out = None if ledger is None else as_ledger(ledger), X
        if person_ids is not None:
            X, y, sensitive_features = one_row_each(X, y, sensitive_features, person_ids)
        comparable = comparable_groups(deployed, X, sensitive_features, settings)
        if isinstance(comparable, str):  # why nothing can be claimed, and nothing is looked at
            evaluation = Evaluation((), None if settings.private else count_rows(X), (comparable,))
        else:
            rows = GroupedRows(X, y, sensitive_features, comparable)
            evaluated: Callable[..., Evaluation]
            if of_numbers:
                evaluated = partial(evaluate_numbers, ask_numbers(deployed, rows, settings))
            else:
                check_answerable(deployed, X, y, settings)
                evaluated = partial(evaluate, deployed)
            with charged(book, settings, source, name, held_out) as settings:
                evaluation = evaluated(rows, settings, source)
            counted = True
            if not settings.of_training:
                facts = (*facts, Fact(COUNTED, *settings.counting))
            if not settings.private and (left := int((comparable.codes < 0).sum())):
                facts = (*facts, Fact(UNKNOWN, f"{left:,}, outside of the claim", PUBLIC))
            if settings.of_training:
                evaluation = without_bounds(evaluation)
        if not settings.private:
            measured = leakage_remarks(deployed, X, sensitive_features, confidence_level)
        trained = deployed.trained
        if any(map(releases_rows, (*(step for _, step in trained.leaves()), trained.final))):
            privacy = model_privacy(deployed, public_steps)  # held-out rows were released too
        if counted:
            privacy = with_counts(privacy, settings, source)
    try:
        bound_to, unbound = deployed.bound, ""
    except UnboundModelError as error:
        bound_to, unbound = Bound(UNBOUND, False, frozenset()), str(error)
    remarks = dict.fromkeys(text for claim in evaluation.fairness for text in claim.remarks)
    unverified = (f"{unbound} This certificate verifies no model.",) if unbound else ()
    return Certificate(
        privacy=privacy,
        fairness=(*evaluation.fairness, *claims_of_mechanism(deployed, settings.notions, turned)),
        model_digest=bound_to.digest,
        model_name=name,
        n_rows=evaluation.n_rows,
        remarks=(*remarks, *evaluation.reasons, *measured, *unverified),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=_versions(bound_to.libraries),
        accuracy=evaluation.accuracy,
        outcomes=evaluation.outcomes,
        errors=evaluation.errors,
        scores=evaluation.scores,
        facts=facts,
    )


def _versions(packages: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Versions of the usual libraries, and of others under whose names packages are installed."""
    found = {name: version_of(name) for name in ("skfairdp", *LIBRARIES)}
    others = {name: version_of(name) for name in sorted(packages)}
    found |= {name: version for name, version in others.items() if version != NOT_INSTALLED}
    return ("python", platform.python_version()), *found.items()
