"""Settings of an evaluation on held-out rows, and the assumptions of its result."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from skfairdp.certificate.facts import AS_PUBLIC_ROWS, BOUGHT, WITH_NOISE
from skfairdp.fairness.derivation import level_of_one
from skfairdp.fairness.notions import Notion
from skfairdp.fairness.number_notions import NumberNotion
from skfairdp.foundation import assumptions
from skfairdp.foundation.figures import as_given
from skfairdp.foundation.parameters import (
    BOOLEAN,
    COUNT,
    NONE,
    PROBABILITY,
    Choice,
    Number,
    check_arguments,
)
from skfairdp.records.groups import Groups

SCORES_SHARE = 0.25  # of count_epsilon, where scores are counted too
HOLDOUTS = ("public", "per_record", "by_index", "by_person", "training")


def refuse_unsaid(
    holdout: str | None, count_epsilon: float | None, *, buy: str = "give count_epsilon"
) -> None:
    """Refuse held-out rows that nobody called public, and whose counts nobody buys.

    `buy` says how the caller buys noisy counts.
    """
    if holdout is not None or count_epsilon is not None:
        return
    raise ValueError(
        "holdout was not given, so nobody said whether the people in these rows need protection. "
        "Exact counts can reveal something about them. If the rows are public, give "
        f"holdout='public'. If not, {buy}, such as the epsilon of the training: counts are then "
        "released with noise. If the model was trained on these rows, give "
        "holdout='training' with count_epsilon."
    )


def parts_of_epsilon(epsilon: float, *, scores: bool) -> tuple[float, ...]:
    """Divide the epsilon of held-out rows between the tables that are counted."""
    if not scores:
        return (epsilon,)
    of_answers = (1.0 - SCORES_SHARE) * epsilon
    # The difference has no rounding error: one of its terms is half of the other or more.
    return of_answers, epsilon - of_answers


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Settings of an evaluation, fixed before the rows are looked at; see `skfairdp.certify`."""

    notions: tuple[Notion, ...]
    number_notions: tuple[NumberNotion, ...] = ()  # of a model that predicts numbers
    confidence_level: float = 0.95
    bound: str = "exact"
    count_epsilon: float | None = None
    scores: bool = False  # whether scores are counted by group too
    cell_sizes: str = "private"
    holdout: str | None = None
    persons: bool = False  # whether one row of each person is counted
    groups: Sequence[Hashable] | None = None
    positive: Hashable | None = None  # of two classes; None for the second
    n_certificates: int = 1
    certificate_index: int | None = None
    counted: bool = False  # whether a ledger has counted the certificates
    bounds_each: int = 1  # for every notion

    def __post_init__(self) -> None:
        check_arguments(
            vars(self),
            confidence_level=PROBABILITY,
            bound=Choice(("exact", "difference")),
            count_epsilon=(NONE, Number(1e-4, 1e3)),
            scores=BOOLEAN,
            cell_sizes=Choice(("private", "public")),
            holdout=(NONE, Choice(HOLDOUTS)),
            n_certificates=COUNT,
            certificate_index=(NONE, COUNT),
        )
        if not PROBABILITY.accepts(level := self.level_of_one_claim):
            raise ValueError(
                f"confidence_level={self.confidence_level!r} is too close to 0 or 1: the "
                f"confidence of each claim would be rounded to {level:g}. "
                "Give a number such as 0.95."
            )
        if self.scores and (self.public_sizes or self.of_training or self.number_notions):
            raise ValueError(
                "scores=True counts probabilities of held-out rows: it needs a classifier, "
                "cell_sizes='private' and no holdout='training'."
            )
        if self.private and self.bound != "exact":
            raise ValueError("bound='difference' has no form for noisy counts; use bound='exact'.")
        if not self.persons and self.holdout == "by_person":
            raise ValueError("holdout='by_person' holds out people with all rows: give person_ids.")
        if self.persons and self.holdout == "per_record":
            raise ValueError(
                "holdout='per_record' contradicts person_ids: rows of one person would be on both "
                "sides. Let each person find the side by a draw, and give holdout='by_person'."
            )
        if self.persons and self.public_sizes:
            raise ValueError(
                "cell_sizes='public' contradicts person_ids: which row of a person is counted is "
                "drawn, so sizes of cells are not public; leave cell_sizes='private'."
            )
        if self.of_training and not self.private:
            raise ValueError(
                "holdout='training' counts protected rows: give count_epsilon, which is added to "
                "what the training cost them."
            )
        if self.holdout is not None and self.private is (self.holdout == "public"):
            raise ValueError(
                f"holdout={self.holdout!r} contradicts count_epsilon={self.count_epsilon!r}: rows "
                "that need protection need count_epsilon, and public ones do not."
            )
        self.check_index(self.certificate_index)

    def check_index(self, certificate_index: int | None) -> None:
        """Refuse the number of a certificate beyond those that were planned."""
        if 1 < self.n_certificates < (certificate_index or 0):
            raise ValueError(
                f"certificate_index={certificate_index!r} must lie between 1 and n_certificates="
                f"{self.n_certificates!r}; a ledger counts the certificates on a data set."
            )

    @property
    def of_training(self) -> bool:
        """Whether the rows are said to be those that the model was trained on."""
        return self.holdout == "training"

    @property
    def private(self) -> bool:
        """Whether the held-out rows are protected."""
        return self.count_epsilon is not None

    @property
    def parts_of_epsilon(self) -> tuple[float, ...]:
        """Epsilon of the noisy table of answers and, where they are counted, of that of scores."""
        assert self.count_epsilon is not None
        return parts_of_epsilon(float(self.count_epsilon), scores=self.scores)

    @property
    def counting(self) -> tuple[str, str]:
        """How held-out rows are counted, and who said so: a value and a source of a fact."""
        if self.count_epsilon is not None:
            return f"{WITH_NOISE}{as_given(self.count_epsilon)}", BOUGHT
        return AS_PUBLIC_ROWS

    @property
    def unit(self) -> str:
        """Unit that noisy counts protect."""
        return "person" if self.persons else "record"

    @property
    def public_sizes(self) -> bool:
        """Whether the numbers of rows of the (group, label) cells are public."""
        return self.cell_sizes == "public"

    @property
    def claims(self) -> int:
        """Number of claims that share the error probability."""
        return (
            self.n_certificates * (len(self.notions) + len(self.number_notions)) * self.bounds_each
        )

    @property
    def level_of_one_claim(self) -> float:
        """Confidence of one claim with which all claims hold together."""
        return level_of_one(self.confidence_level, self.claims)


def holdout_assumptions(
    settings: EvaluationSettings, groups: Groups, with_labels: bool, how: str, classes: Sequence
) -> Iterator[str]:
    """List the assumptions of a bound from held-out rows; `how` says how rates are counted."""
    yield from assumptions.held_out_rows(how, with_labels=with_labels, persons=settings.persons)
    if len(classes) == 2:
        # As text: scikit-learn sorts labels, so that "deny" is positive and "approve" is not.
        yield assumptions.POSITIVE_OUTCOME.format(other=classes[0], positive=classes[1])
    if groups.outside:
        names = ", ".join(map(str, groups.outside))
        yield f"Outside the claim, because other groups were declared: {names}."
    if settings.count_epsilon is not None:
        yield "Rows without a listed group are outside the claim; their number is private."
        if with_labels and any(notion.needs_labels for notion in settings.notions):
            yield (
                "Comparisons with true labels leave out rows whose label is not one of the model's "
                "classes; their number is private."
            )
        if classes:
            yield f"An answer that is not one of the model's classes counts as {classes[0]!r}."
        else:
            yield "A prediction that is not a number counts as the smallest."
        yield assumptions.NOISY_COUNTS.format(epsilon=as_given(settings.parts_of_epsilon[0]))
        if settings.public_sizes:
            yield assumptions.PUBLIC_CELLS
    else:
        if dropped := int((groups.codes < 0).sum()):
            yield f"Rows without a group are outside the claim: {dropped} were left out."
        yield assumptions.PUBLIC_ROWS
    if settings.claims > 1:
        kinds = " times bounds of each" if settings.bounds_each > 1 else ""
        yield assumptions.SHARED_ERROR.format(claims=settings.claims, kinds=kinds)
    if settings.certificate_index is not None:
        among = "about these people" if settings.private else "on these held-out rows"
        if settings.counted and settings.private:
            among = "from protected rows under the ledger's name, which does not look at the rows"
        elif settings.counted:
            among += (
                ", whatever their order and name in the ledger (others that share some of them are "
                "counted apart)"
            )
        several = (
            f" of {settings.n_certificates} that were planned."
            if settings.n_certificates > 1
            else ". The confidence holds for one certificate that was fixed beforehand, not for "
            "the best of several."
        )
        yield f"This is certificate number {settings.certificate_index} {among}{several}"
