"""How held-out rows are evaluated, and what the result rests on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from skfairdp.fairness.derivation import level_of_one
from skfairdp.fairness.groups import Groups
from skfairdp.fairness.notions import Notion
from skfairdp.figures import as_given

__all__ = ["Terms", "holdout_assumptions"]


@dataclass(frozen=True)
class Terms:
    """How an evaluation is made; fixed before the rows are looked at.

    Parameters
    ----------
    notions : tuple of Notion
        What is compared.
    confidence_level : float
        Probability that all bounds of all planned certificates hold.
    bound : {"exact", "difference"}
        Interval of one pair of cells.
    count_epsilon : float or None
        Privacy cost of the table of counts; None for counts without noise.
    public_sizes : bool
        Whether the numbers of rows of the (group, label) cells are public.
    groups : tuple or None
        Declared groups.
    n_certificates : int
        Number of certificates planned on these rows.
    certificate_index : int or None
        Which of several this one is, from 1.
    counted : bool, default=False
        Whether a ledger has counted that.
    bounds_each : int, default=1
        Bounds that are made for every notion.
    """

    notions: tuple[Notion, ...]
    confidence_level: float
    bound: str
    count_epsilon: float | None
    public_sizes: bool
    groups: tuple[Hashable, ...] | None
    n_certificates: int
    certificate_index: int | None
    counted: bool = False
    bounds_each: int = 1

    @property
    def claims(self) -> int:
        """Number of claims that share the error probability."""
        return self.n_certificates * len(self.notions) * self.bounds_each

    @property
    def level_of_one_claim(self) -> float:
        """Confidence of one claim, such that all of them hold together."""
        return level_of_one(self.confidence_level, self.claims)


def holdout_assumptions(
    terms: Terms, groups: Groups, with_labels: bool, how: str, classes: Sequence[Any]
) -> tuple[str, ...]:
    """What must be true for a bound from held-out rows to hold.

    Parameters
    ----------
    terms : Terms
        How the evaluation is made.
    groups : Groups
        Groups of the held-out rows.
    with_labels : bool
        Whether true labels were given.
    how : str
        What the rates count.
    classes : sequence
        Labels of the model.

    Returns
    -------
    tuple of str
    """
    private = terms.count_epsilon is not None
    texts = [
        "The held-out rows are independent draws from the population that the claim is about, one "
        "row a person.",
        "They were used neither to train nor to select the model or its key: figures from such "
        "rows would bound nothing.",
        how,
        ("Labels and groups are" if with_labels else "Groups are") + " as recorded.",
        "The number of held-out rows of each group (and true label, where it matters) is taken as "
        "given.",
        "The model is deployed with the preprocessing, threshold, way of predicting and key that "
        "were certified.",
    ]
    if len(classes) == 2:
        # As text: scikit-learn sorts labels, so that "deny" is positive and "approve" is not.
        texts.append(f"The positive outcome is {classes[1]!r}, and the other one {classes[0]!r}.")
    dropped = int((groups.codes < 0).sum())
    if private:
        texts.append("Rows without a listed group are outside the claim; their number is private.")
    elif dropped:
        texts.append(f"Rows without a group are outside the claim: {dropped} were left out.")
    if private:
        assert terms.count_epsilon is not None
        texts.append(
            "Estimate and counts are the noisy ones; the bound allows for the noise "
            f"(ε = {as_given(terms.count_epsilon)} for each held-out row)."
        )
        if terms.public_sizes:
            texts.append("The numbers of rows of the (group, label) cells are public.")
    else:
        texts.append("The held-out rows were declared public: nothing here protects them.")
    if terms.claims > 1:
        kinds = " times bounds of each" if terms.bounds_each > 1 else ""
        texts.append(
            f"The error probability is shared by {terms.claims} claims on these rows (planned "
            f"certificates times notions{kinds}), so all of them hold together with the stated "
            "confidence."
        )
    if terms.certificate_index is not None:
        texts.append(
            f"This is certificate number {terms.certificate_index} {_on_what(terms)}"
            + (
                f" of {terms.n_certificates} that were planned."
                if terms.n_certificates > 1
                else "; the confidence is that of one certificate fixed beforehand, not of the "
                "best among several."
            )
        )
    return tuple(texts)


def _on_what(terms: Terms) -> str:
    """What the number of a certificate counts."""
    if not terms.counted:
        return "on these held-out rows"
    if terms.count_epsilon is not None:
        return "from protected rows under the ledger's name, which does not look at the rows"
    return (
        "on these held-out rows, whatever their order and name in the ledger (others that share "
        "some of them are counted apart)"
    )
