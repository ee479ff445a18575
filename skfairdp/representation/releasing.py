"""Template of transformers that release representations: count, charge, state."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from dp_accounting.dp_event import SelfComposedDpEvent
from numpy.typing import ArrayLike, NDArray

from skfairdp.base import PrivateEstimator
from skfairdp.exceptions import PrivacyWarning, warn_user
from skfairdp.fairness.derivation import Derivation
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.kinds import KINDS, RELEASE
from skfairdp.fairness.notions import NOTIONS
from skfairdp.fairness.scopes import DOWNSTREAM
from skfairdp.foundation import assumptions
from skfairdp.foundation.figures import rounded_up, significant_up
from skfairdp.foundation.parameters import BOOLEAN
from skfairdp.foundation.scikit_learn import TransformerMixin
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import as_ledger
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.streams import GENERATOR
from skfairdp.receipts import Quote, RowFacts
from skfairdp.records.rows import refuse_other_order
from skfairdp.representation.bounds import (
    downstream_bound,
    group_information_bound,
    information_bound,
)
from skfairdp.representation.randomizers import LaplaceRandomizer, ResponseRandomizer
from skfairdp.representation.release_memory import ReleaseMemory, RowStreams

Randomizer = LaplaceRandomizer | ResponseRandomizer

# What a release promises, and for which neighbours.
_KIND: Any = {"adjacency": "local", "protects": "released_representation"}
NOTIONS_OF_RELEASES = tuple(n.name for n in NOTIONS.values() if n.compares_predictions)
_turn = threading.Lock()  # held while a release is counted and charged


def _fresh_turn() -> None:
    """In a forked process: its lock is free, also if a thread of the parent held it."""
    global _turn
    _turn = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_turn)


@dataclass
class ReleaseCount:
    """Number of releases of a fitted object, and their ledgers; it holds no row."""

    fresh: int = 0  # Releases with their own noise: calls without ids
    # Distinct hidden values of a person in calls with ids, at most: each is one release
    remembered: int = 0
    # Whether noise of any release could be repeated, and protects no person
    reproducible: bool = field(default=False, repr=False)
    # Releases with ids that were charged to a ledger's file and data set: another one is about
    # other people
    charged: dict[tuple[str, str], int] = field(default_factory=dict, repr=False)

    @property
    def total(self) -> int:
        """Most releases that there can be of one row of one person."""
        return self.fresh + self.remembered

    def _digest_state(self) -> dict[str, Any]:
        """Nothing: the next release does not depend on how many there were."""
        return {}


class ReleasesRepresentation(TransformerMixin, PrivateEstimator):
    """Template of transformers whose output is locally private.

    A fit ends in `_start_releasing`, and `_release` makes every release within `_releasing`.

    Parameters
    ----------
    export_key : bool
        Whether pickles keep the key that repeats releases; who has it can subtract the
        noise of all calls with ids.
    ledger : None, path or PrivacyLedger
        Where each release, and a fit that learns from rows, is charged before rows are used.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns, that of the ids not counted.
    memory_ : ReleaseMemory
        Repeats releases by id.
    privacy_ : PrivacyGuarantee or None
        What the releases so far promise to each person; None after ``epsilon=inf``.
    releases_ : ReleaseCount
        How often there was a release.
    """

    # As those of fit, which is composed with it.
    __metadata_request__transform: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    _releases_representation = True
    _parameters = {"export_key": (BOOLEAN,)}
    _views: ClassVar[tuple[str, ...]] = ()
    _released: ClassVar[tuple[str, ...]] = (
        "feature_names_in_",
        "memory_",
        "n_features_in_",
        "randomizer_",
        "releases_",
    )

    export_key: bool = False

    randomizer_: Randomizer = field(init=False)
    releases_: ReleaseCount = field(init=False)
    memory_: ReleaseMemory = field(init=False)

    def __sklearn_is_fitted__(self) -> bool:
        return "releases_" in vars(self)

    def transform(
        self,
        X: ArrayLike,
        *,
        ids: ArrayLike | None = None,
        sensitive_features: ArrayLike | None = None,
    ) -> NDArray[Any]:
        """Release rows, each by itself.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Numbers, with the column of ids where there is one.
        ids : array-like, shape (n_samples,), optional
            Who each row is about: integers or texts. A person with the same hidden value
            gets the same release again, at no further cost, however the row is written; each
            further hidden value of a person is another release, which is counted and charged.
            Without ids, every call is another release of all people
            in it, and costs `epsilon` again.
        sensitive_features : array-like, shape (n_samples,), optional
            Group of each row, for an encoder that sees it.

        Returns
        -------
        ndarray, shape (n_samples, n_components)
            Codes are of int64, all else of float64. Laplace noise leads out of the bounds.

        Raises
        ------
        ValueError
            `X` is not as it was at fit, an id is missing, or the key for ids was not
            exported with the pickle that this transformer comes from.
        BudgetExceededError
            The ledger has no room for another release. No row was used.
        """
        refuse_other_order(X=X, ids=ids, sensitive_features=sensitive_features)
        return self._release(X, ids, sensitive_features)

    def fit_transform(
        self, X: ArrayLike, y: Any = None, *, ids: ArrayLike | None = None, **fit_params: Any
    ) -> NDArray[Any]:
        """Fit, and release the same rows.

        Parameters
        ----------
        ids : array-like, shape (n_samples,), optional
            As in `transform`.
        **fit_params : dict
            As in `fit`.
        """
        groups = fit_params.get("sensitive_features")
        return self.fit(X, y, **fit_params).transform(X, ids=ids, sensitive_features=groups)

    def _release(self, X: Any, ids: Any, sensitive_features: Any = None) -> NDArray[Any]:
        raise NotImplementedError

    @property
    def privacy_(self) -> PrivacyGuarantee | None:  # type: ignore[override]
        """Guarantee of the releases so far to each person; None without noise."""
        if math.isinf(self.randomizer_.epsilon):
            return None
        return self._stated(max(self.releases_.total, 1))

    @property
    def _repeatable(self) -> bool:
        return self.releases_.reproducible or bool(self.reproducible_noise)

    def _release_quote(
        self, randomizer: Randomizer, facts: RowFacts, fitting: Quote | None = None
    ) -> Quote:
        """Price releases, in addition to a fit that learns from rows."""
        each = (
            "A release is without noise."
            if math.isinf(randomizer.epsilon)
            else f"Each release of a row costs its person ε = {significant_up(randomizer.epsilon)} "
            "in addition."
        )
        if fitting is not None:
            return replace(fitting, estimator=type(self).__name__, note=each)
        stated = None
        if not math.isinf(randomizer.epsilon):
            self.randomizer_, self.releases_ = randomizer, ReleaseCount()
            stated = self._stated(1)
        note = f"{each} A fit learns nothing from rows and costs nothing."
        return Quote(type(self).__name__, facts, stated, charge=None, note=note)

    def _start_releasing(self, randomizer: Randomizer) -> None:
        if math.isinf(randomizer.epsilon):
            warn_user("epsilon=inf releases without noise: nothing is protected.", PrivacyWarning)
        self.randomizer_ = randomizer
        self.releases_ = ReleaseCount()
        self.memory_ = ReleaseMemory(export_key=bool(self.export_key))

    @contextmanager
    def _releasing(
        self, ids: Any, hidden: Any, encoder_digest: str = ""
    ) -> Iterator[NoiseSource | RowStreams]:
        """Charge and count one release, and give its noise.

        Nothing may be shown of rows before this is entered, except the checks of their form.
        `ids`: None for fresh noise. `hidden`: vectors that the randomiser hides. `encoder_digest`:
        used with ids only.
        """
        charge: AbstractContextManager[None] = nullcontext()
        # Of two threads that count at once each would take the other's release for its own.
        with _turn:
            ledger, needed, known = as_ledger(self.ledger), 1, 0
            fresh = self._randomness()[1] if ids is None else None
            book = ("", "") if ledger is None else (str(ledger.path), ledger.data_set)
            if ids is not None:
                # Refuses bad ids before anything is charged.
                points = self.randomizer_.points(hidden)
                identity = self.randomizer_.identity
                streams = self.memory_.streams(ids, points, encoder_digest, identity)
                counted = self.memory_.count(streams)
                known = self.releases_.charged.get(book, 0)
                needed = counted.most - known
            if ledger is not None and needed > 0:
                noiseless = math.isinf(self.randomizer_.epsilon)
                void = PrivacyGuarantee.void("a release without noise (epsilon=inf)", **_KIND)
                stated = void if noiseless else self._stated(needed)
                entry = ledger.reserve(stated, activity="transform", estimator=type(self).__name__)
                charge = ledger.finishing(entry)
            # Counted before anything is shown: a release that fails on its way may have been seen.
            if fresh is not None:
                self.releases_.fresh += 1
                self.releases_.reproducible |= fresh.reproducible
            else:
                self.memory_.note(counted)
                self.releases_.remembered = max(self.releases_.remembered, counted.most)
                if ledger is not None:
                    self.releases_.charged[book] = max(known, counted.most)
        with charge:
            yield streams if fresh is None else fresh

    def _stated(self, n_releases: int) -> PrivacyGuarantee:
        epsilon, event = self.randomizer_.epsilon, self.randomizer_.event
        if self._repeatable:
            return PrivacyGuarantee.void(
                "reproducible_noise=True: anyone who knows the seed can subtract the noise",
                **_KIND,
            )
        if n_releases > 1 and event is not None:
            event = SelfComposedDpEvent(event, n_releases)
        return PrivacyGuarantee(
            epsilon=n_releases * epsilon,
            delta=0.0,
            **_KIND,
            accountant=f"pure: {n_releases} times ε = {significant_up(epsilon)}",
            event=event,
            assumptions=(
                *self._what_is_covered(),
                assumptions.RELEASES_COUNTED.format(
                    epsilon=significant_up(epsilon),
                    fresh=self.releases_.fresh,
                    remembered=self.releases_.remembered,
                ),
                assumptions.CHANGED_ROW,
                self._consequences(),
                assumptions.VALIDATION,
            ),
        )

    def _what_is_covered(self) -> tuple[str, ...]:
        """Assumptions of the guarantee; a subclass adds the source of its weights."""
        exact = (
            "the representation is rounded to a public grid and moved by discrete Laplace noise"
            if isinstance(self.randomizer_, LaplaceRandomizer)
            else "each code is answered by randomised response"
        )
        return (
            assumptions.EXACT_RELEASE.format(how=exact),
            assumptions.RELEASE_ALONE,
            assumptions.RELEASE_NOISE.format(name=GENERATOR, attacker=assumptions.ATTACKER),
        )

    def _consequences(self) -> str:
        epsilon, n_outputs = self.randomizer_.epsilon, None
        if isinstance(self.randomizer_, ResponseRandomizer):
            n_outputs = self.randomizer_.n_values**self.randomizer_.n_components
        row = information_bound(epsilon, n_outputs)
        group = group_information_bound(epsilon)
        return (
            f"it follows for one release Z of a row X: I(X;Z) ≤ {rounded_up(row, 4)} nats, and "
            f"I(S;Z) ≤ {rounded_up(min(row, group), 4)} nats for a group S of two, if Z is made "
            "from X alone"
        )

    def _mechanism_fairness(self, notion: str) -> list[FairnessGuarantee]:
        """Bounds on parity, opportunity and odds of every predictor from one release alone."""
        epsilon = self.randomizer_.epsilon
        if self._repeatable or math.isinf(epsilon) or notion not in NOTIONS_OF_RELEASES:
            return []
        return [
            FairnessGuarantee(
                notion=notion,
                bound=downstream_bound(epsilon),
                scope=DOWNSTREAM,
                method=KINDS[RELEASE].methods[DOWNSTREAM],
                assumptions=(
                    assumptions.ONE_RELEASE.format(epsilon=significant_up(epsilon)),
                    assumptions.NOT_FITTED_ON,
                    assumptions.FEATURES_ALONE if self._group_blind else assumptions.GROUP_TOO,
                ),
                derivation=Derivation.of(RELEASE, epsilon=epsilon),
            )
        ]
