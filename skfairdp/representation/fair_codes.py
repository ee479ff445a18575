"""Fair codes: the score of the optimal fair classifier, cut into levels that are released."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from skfairdp.engine.optimizers import copy_module
from skfairdp.exceptions import PrivacyWarning
from skfairdp.inprocessing.fair_path.classifier import FairPathClassifier
from skfairdp.inprocessing.fair_path.scores import Chances, Scores
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.receipts import Charge, Quote
from skfairdp.records import Given
from skfairdp.records.labels import encode_labels
from skfairdp.representation.planning import RAW, path_of
from skfairdp.representation.randomizers import ResponseRandomizer
from skfairdp.representation.training import refuse_mixing_encoder

_INSIDE = 1.0 - 1e-12


class PathCodes(nn.Module):
    """The score of a fitted path, ``2 eta - 1 - multiplier * s``, as an encoder of one number.

    Its box is [-1, 1], which k code words cut into equal levels; a word w stands for the
    chance ``(1 + w) / 2`` of the second class. The path is left as it is.
    """

    def __init__(self, path: FairPathClassifier) -> None:
        super().__init__()
        chances = Chances(copy_module(path.module_), path._rates, len(path.direction_))
        self.scores = Scores(chances, path.direction_)
        self._multiplier = path.multiplier_

    def encode(self, x: Tensor) -> Tensor:
        """Score rows, shape (B, 1), as numbers whose hyperbolic tangent is the score."""
        label, gap = self.scores(x).unbind(1)
        score = (label - self._multiplier * gap).clamp(-_INSIDE, _INSIDE)
        return torch.atanh(score).unsqueeze(1)

    def predict_utility(self, z: Tensor) -> Tensor:
        """Logits of the two classes for code words, shape (B, 2)."""
        return torch.log(torch.cat([1.0 - z, 1.0 + z], dim=1))


def fit_codes(
    encoder: Any, given: Given, charge: Charge, groups: tuple[Any, ...] | None
) -> tuple[ResponseRandomizer, Quote]:
    """Fit and cut the score of an encoder by its settings.

    Result: what its codes go through, and the quote that the path kept to.
    """
    if given.person_ids is not None:
        raise ValueError(
            "PrivateFairEncoder got person_ids, but fair codes are trained row by row: "
            "pass one row of each person, or leave person_ids out."
        )
    if encoder.noise != "randomized_response":
        raise ValueError(
            "objective='fair_codes' releases codes, which Laplace noise cannot hide: set "
            f"noise='randomized_response'; got {encoder.noise!r}."
        )
    encode_labels(given.y, encoder.classes, multiclass=False)  # a code is a level of one score
    X = encoder._with_groups(given.X, given.sensitive_features, groups)
    private = bool(encoder.train_privately)
    path = path_of(encoder, encoder._randomness()[0])
    void = None if private else PrivacyGuarantee.void(RAW)
    with warnings.catch_warnings():
        # The promise says it.
        warnings.filterwarnings("ignore", "epsilon=inf trains", PrivacyWarning)
        rows = Given(X, given.y, given.sensitive_features)
        path._fit_under(rows, Charge(path, within=charge, stated=void))
    encoder.module_ = PathCodes(path).double().eval()
    refuse_mixing_encoder(encoder.module_, X.shape[1])
    k = encoder.n_codes
    encoder.bound_, encoder.output_, encoder.column_types_ = 1.0, "codes", None
    encoder.codebook_ = (np.arange(1.0, 2.0 * k, 2.0) / k - 1.0)[None]
    encoder.classes_, encoder.path_ = path.classes_, path
    negative, positive = path.decided_.sum(axis=(0, 2))
    most = k - 1 if positive > negative else 0
    kept = path.receipt_.quote
    assert kept is not None
    quote = kept if private else replace(kept, privacy=void, plan=None, charge=void, sizes=None)
    randomizer = ResponseRandomizer(float(encoder.epsilon), 1, k, encoder.majority_share, most)
    return randomizer, replace(quote, estimator=type(encoder).__name__)
