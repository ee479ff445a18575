"""Certify estimators, Pipelines and fitted searches."""

from __future__ import annotations

import platform
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime
from os import PathLike

from numpy.typing import ArrayLike
from sklearn.base import is_regressor

from skfairdp.certificate.certificate import Certificate
from skfairdp.certificate.composition import model_privacy, refuse_other_unit, with_counts
from skfairdp.certificate.evaluation import (
    Evaluation,
    evaluate,
    leakage_remarks,
    without_bounds,
)
from skfairdp.certificate.evaluation_settings import EvaluationSettings
from skfairdp.certificate.facts import (
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
    warn_of_unprotected,
)
from skfairdp.certificate.json_document import NOT_INSTALLED, version_of
from skfairdp.certificate.ledger_charges import charged, tell_ledgers
from skfairdp.certificate.mechanism_claims import claims_of_mechanism
from skfairdp.certificate.number_claims import check_numbers_answerable, evaluate_numbers
from skfairdp.datasets.stored_rows import with_columns_of
from skfairdp.digests.digest import Bound
from skfairdp.exceptions import UnboundModelError
from skfairdp.fairness.notions import Notion, get_notions
from skfairdp.fairness.number_notions import get_number_notions
from skfairdp.labels import count_rows
from skfairdp.parameters import BOOLEAN, check_values
from skfairdp.persons import refuse_other_order, warn_of_ids
from skfairdp.privacy.ledger import PrivacyLedger, as_ledger
from skfairdp.privacy.noise import NoiseSource
from skfairdp.receipts.unwrap import releases_rows, unwrap

UNBOUND = "unbound"  # stands for the digest of a model that has none

LIBRARIES = ("dp-accounting", "numpy", "pandas", "scikit-learn", "scipy", "skorch", "torch")


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
    X : array-like, shape (n_rows, n_features), optional
        Held-out rows, as ``model.predict`` takes them.
    y : array-like, shape (n_rows,), optional
        Their labels, not needed for demographic parity; of a regressor their targets, by which
        errors are measured.
    sensitive_features : array-like, Series or DataFrame, optional
        Their groups, shape (n_rows,) or (n_rows, k); several columns form
        intersections. Rows with a missing value are outside the claim.
    person_ids : array-like, shape (n_rows,), optional
        Whose row it is, where a person may have several: one of each, drawn by a hash of the id, is
        counted, for rows of one person are not independent. Rates are then weighted by person.
    notion : str, Notion or list of them, default="demographic_parity"
        What is compared: "demographic_parity", "equal_opportunity",
        "equalized_odds", "accuracy_parity". Several share the error probability, so
        that all their bounds hold together. Of numbers: "distribution_gap", the largest
        Kolmogorov-Smirnov distance of predictions, for which "demographic_parity" stands too, and
        "mean_gap", the largest difference of means as a share of the range of ``target_bounds_``.
    confidence_level : float in (0, 1), default=0.95
        Probability that the bounds hold.
    bound : {"exact", "difference"}, default="exact"
        Bound for one pair of groups: an exact test, or Hoeffding\'s inequality, which is
        wider. Choose before seeing the predictions.
    count_epsilon : float, optional
        Protects the held-out rows: all counts are released once with discrete Laplace
        noise at this cost, in nats, which is added to the model's own as `holdout`
        says. None states the counts as they are: give ``holdout="public"`` with it.
    scores : bool, default=False
        Count the model's probabilities by group too, in even public bins: whether they are
        calibrated in each group, and the share of each above the median of all (the scoring rate of
        New York's Local Law 144). Needs `y` and a `predict_proba` of two classes. With
        `count_epsilon` a fourth of it pays for these counts, so the bound widens a little.
    cell_sizes : {"private", "public"}, default="private"
        Whether the number of rows of each (group, label) cell is public; used with
        `count_epsilon` only. Public sizes give narrower bounds.
    holdout : {"public", "per_record", "by_index", "by_person", "training"}, optional
        That held-out rows need no protection ("public"). Say so, or buy noisy counts: without
        either, rows are counted as they are, the certificate says that nobody called them public,
        and a private model's gives a warning. Or how a record went
        to training or hold-out: by a draw of its own ("per_record"), so that the larger of the
        two costs counts; by its position ("by_index"), as in ``train_test_split``, so that they
        compose (default with `count_epsilon`); with its person ("by_person"), which needs
        `person_ids`. "training": these are the rows that the model was trained on. Their rates
        are then a remark without a bound, for `count_epsilon` more. See
        docs/theory/certificate.md.
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

    Returns
    -------
    Certificate

    Raises
    ------
    sklearn.exceptions.NotFittedError
        When the model, or the best model of a search, is not fitted.
    UnknownGroupError
        When a row's group is not one the model was fitted with.
    ValueError
        When arguments contradict each other; when the model was trained on these rows, as far as
        this process knows, and `holdout` does not say so.

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
    deployed = unwrap(model)
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
    counting = None if X is None else settings.counting
    facts = known_facts(deployed, y, sensitive_features, pos_label, counting)
    if X is not None:
        warn_of_guessed_outcome(deployed, y, pos_label)
    turned = check_positive(deployed, pos_label)
    privacy = model_privacy(deployed, public_steps)
    tell_ledgers(deployed, privacy, public_steps)
    evaluation = Evaluation((), None)
    measured: tuple[str, ...] = ()
    if X is not None:
        refuse_other_unit(privacy, settings)
        refuse_training_rows(deployed, X, settings)
        warn_of_unprotected(privacy, settings)
        source = NoiseSource() if count_noise is None else count_noise
        book, held_out = as_ledger(ledger or deployed.ledger), X
        if person_ids is not None:
            X, y, sensitive_features = one_row_each(X, y, sensitive_features, person_ids)
        comparable = comparable_groups(deployed, X, sensitive_features, settings)
        if isinstance(comparable, str):  # why nothing can be claimed, and nothing is looked at
            evaluation = Evaluation((), None if settings.private else count_rows(X), (comparable,))
        else:
            check = check_numbers_answerable if of_numbers else check_answerable
            check(deployed, X, y, settings)
            with charged(book, settings, source, deployed.name, held_out) as settings:
                rows = GroupedRows(X, y, sensitive_features, comparable)
                evaluated = evaluate_numbers if of_numbers else evaluate
                evaluation = evaluated(deployed, rows, settings, source)
            if not settings.private and (left := int((comparable.codes < 0).sum())):
                facts = (*facts, Fact(UNKNOWN, f"{left:,}, outside of the claim", PUBLIC))
            if settings.of_training:
                privacy = with_counts(privacy, settings, source)
                evaluation = without_bounds(evaluation)
        if not settings.private:
            measured = leakage_remarks(deployed, X, sensitive_features, confidence_level)
        trained = deployed.trained
        if any(map(releases_rows, (*(step for _, step in trained.leaves()), trained.final))):
            privacy = model_privacy(deployed, public_steps)  # held-out rows were released too
        if evaluation.fairness:
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
        model_name=deployed.name,
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
