"""Privacy cost of a search of scikit-learn to the people in its rows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from sklearn.model_selection import PredefinedSplit

from skfairdp.certificate.search_fits import fits_of_search
from skfairdp.foundation.assumptions import VALIDATION_ROWS
from skfairdp.foundation.figures import epsilon_text, significant_up
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.receipts.unwrap import charges_privacy, unwrap


@dataclass(frozen=True)
class SearchCost:
    """Cost of a search, its scores and its fits.

    Parameters
    ----------
    privacy : PrivacyGuarantee or None
        What the whole search promises. Its epsilon is infinite where scores were
        compared without noise; None for a search over fits without noise.
    fits : PrivacyGuarantee or None
        What its fits alone would promise, were the scores public; None where the cost of
        the candidates cannot be read off the search.
    n_fits : int or None
        Fits that a row takes part in, at most, the refit included; None where unknown, or
        secret.
    sentence : str
        Both in words.
    """

    privacy: PrivacyGuarantee | None
    fits: PrivacyGuarantee | None
    n_fits: int | None
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def search_cost(search: Any, *, public_validation: bool = False) -> SearchCost:
    """State the cost of a fitted search.

    Each fit is another release about the rows in its training folds, and the fits
    compose. The scores of scikit-learn's searches are exact figures about validation rows,
    which no finite epsilon covers.

    Parameters
    ----------
    search : fitted search
        A GridSearchCV, RandomizedSearchCV or halving search of scikit-learn over an
        estimator of skfairdp or a Pipeline that ends in one; or a `PrivateSearchCV`.
    public_validation : bool, default=False
        Whether the validation rows are public, which is possible with a PredefinedSplit
        only: in other splits they are training rows of other fits.

    Returns
    -------
    SearchCost

    Raises
    ------
    ValueError
        If the validation rows cannot be public.
    TypeError
        If `search` is not a fitted search over an estimator of skfairdp.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skfairdp import DPSGDClassifier
    >>> from skfairdp.model_selection import search_cost
    >>> X, y = make_classification(600, random_state=0)
    >>> grid = {"max_grad_norm": [0.5, 1.0]}
    >>> search = GridSearchCV(DPSGDClassifier(max_epochs=2), grid, cv=3).fit(X, y)
    >>> cost = search_cost(search)
    >>> cost.privacy.epsilon, cost.n_fits, bool(1.0 < cost.fits.epsilon < 5.0)
    (inf, 5, True)
    """
    if not hasattr(search, "best_estimator_"):
        raise TypeError(
            f"search_cost takes a fitted search with a best_estimator_; got {type(search).__name__}"
            ". Fit it first, with refit=True."
        )
    deployed = unwrap(search)
    own = next((s for s in deployed.searches if charges_privacy(s)), None)
    if own is not None and all(map(charges_privacy, deployed.searches)):
        said, stated = "The search was made without noise: nothing is private.", own.privacy_
        if stated is not None and stated.is_void:
            said = f"Nothing is promised: {stated.assumptions[0]}."
        elif stated is not None:
            said = (
                f"The whole search, choice included, costs ε = {epsilon_text(stated.epsilon)} at "
                f"δ = {significant_up(stated.delta)}; how many candidates it fitted is secret."
            )
        return SearchCost(stated, None, None, said)
    if not charges_privacy(deployed.final):
        raise TypeError(
            f"the search ended in {type(deployed.final).__name__}, which is not an estimator of "
            "skfairdp: nothing bounds what its fits reveal."
        )
    if public_validation and type(search.cv) is not PredefinedSplit:
        raise ValueError(
            f"public_validation=True contradicts cv={search.cv!r}: its validation rows are "
            "training rows of other fits. Give a PredefinedSplit whose one fold holds public rows."
        )
    if deployed.final.privacy_ is None:
        return SearchCost(None, None, None, "The fits were made without noise: nothing is private.")
    fits, refit = fits_of_search(search, deployed.final), deployed.final.privacy_
    scores = (
        f"{type(search).__name__} compared exact scores of its validation rows, so the whole "
        "search is not private: no finite ε covers a figure without noise."
    )
    about: dict[str, Any] = {"adjacency": refit.adjacency, "protects": refit.protects}
    if fits is None:
        reason = "What each of its fits cost cannot be read off the search."
        text = reason if public_validation else f"{scores} {reason}"
        void = PrivacyGuarantee.void(text, **about)
        return SearchCost(void, None, None, void.assumptions[0])
    alone = fits.costs()
    if public_validation:
        rests_on = (*fits.privacy.assumptions, VALIDATION_ROWS)
        stated = dataclasses.replace(fits.privacy, assumptions=rests_on)
        return SearchCost(stated, fits.privacy, fits.n_fits, f"{alone}; {VALIDATION_ROWS}.")
    void = PrivacyGuarantee.void(scores, delta=refit.delta, **about)
    return SearchCost(void, fits.privacy, fits.n_fits, f"{scores} {alone}, were the scores public.")
