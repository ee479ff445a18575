"""Fitted nets as ONNX files, which run without Python and name the certificate they belong to."""

from __future__ import annotations

import json
import warnings
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from skfairdp.certificate import Certificate, certify
from skfairdp.inprocessing.fair_numbers.objective import NumberAndChances
from skfairdp.inprocessing.fair_numbers.regressor import FairPathRegressor
from skfairdp.inprocessing.fair_numbers.transport import shifts
from skfairdp.inprocessing.fair_path.points import PathClassifier
from skfairdp.inprocessing.fair_path.scores import Chances, Scores
from skfairdp.inprocessing.gradient import GradientClassifier
from skfairdp.inprocessing.regressor import GradientRegressor
from skfairdp.interchange.additive_graphs import (
    additive_graph,
    additive_model,
    columns_of_inputs,
)
from skfairdp.records.numbers import TargetBounds
from skfairdp.records.stored_rows import LARGEST

# What decides about a row: a class that answers by its own methods is another model.
_OF_NUMBERS = ("predict", "_scaled")
_OF_FAIR_NUMBERS = ("predict", "_known", "_outputs", "_moved")
_OF_PATHS = ("predict_proba", "predict", "decision_function", "_scores", "_scored")

_OTHERWISE = (
    "The ONNX file would answer {} of {} made-up rows otherwise than 'model', or not at all: its "
    "net draws at random, or its answer for one row depends on others. Use a net whose answer for "
    "a row is a function of that row alone."
)


def save_onnx(
    model: Any, path: str | PathLike[str], *, certificate: Certificate | None = None
) -> None:
    """Write a fitted net, or an additive model with its bins, as an ONNX file.

    The file has one input, ``X`` (float32, any number of rows of the features that the
    estimator itself gets), and two outputs: ``place`` (int64, shape (n,)), the place of the
    predicted class among the classes, and ``probabilities`` (float64, shape (n, n_classes)).
    A regressor's has the output ``prediction`` (float64, shape (n,)) in units of the target.
    A row that the estimator refuses, because a value is missing, infinite or above 1e18 in size,
    gets NaN and a place beyond the last class. Its metadata hold ``classes`` or
    ``target_bounds`` (JSON), ``privacy`` (the certificate's sentence), ``certificate`` (JSON)
    and ``model_digest``. Steps of a pipeline before the estimator are not part of it: export or
    repeat them where the file is run.

    The file of an additive model is in float64, holds its bins and categories, and has two inputs,
    of which it may lack one: ``X`` (float64), columns of numbers, where NaN is a missing value,
    and ``texts`` (string), columns of categories, where an empty text is one. ``columns`` in the
    metadata names the columns of each, in order. A further output is ``contributions`` (float64,
    shape (n, n_parts)), with the columns of `explain`, whose sum is the score.

    Parameters
    ----------
    model : estimator
        Fitted, and one whose answers are those of a single net: DPSGDClassifier, DPSGDFClassifier,
        ImportanceSamplingDPSGDClassifier, DPFermiClassifier, LagrangianDualClassifier,
        RateConstrainedClassifier, FairPathClassifier, DPSGDRegressor or a FairPathRegressor that
        predicts without groups. Or a DPAdditiveClassifier or DPAdditiveRegressor with declared
        bounds, or a Pipeline of a PublicBinner or PrivateTableEncoder and one of them.
    path : str or path
        File to write.
    certificate : Certificate, optional
        Of this very model. None: what it claims without rows, which is privacy.

    Raises
    ------
    ImportError
        Without onnx and onnxscript.
    TypeError
        For a model that is neither additive nor one that answers by a single net.
    ValueError
        For a certificate of another model, a net that torch's exporter does not take, such as
        one of images, or a file that answers made-up rows otherwise than the model, such as that
        of a net that draws at random or looks at the number of rows. Nothing is written.

    Notes
    -----
    A certificate speaks of the model in Python. Other runtimes round differently, so rows that
    lie on a threshold to about 1e-6 may be answered otherwise. Scores of an additive model are
    the same to the last bit, and probabilities differ by rounding alone. Its texts and numbers
    are taken as they are: what ``PrivateTableEncoder`` does before (white space off the ends of
    texts, texts that are numbers, dates) is repeated where the file is run.

    Examples
    --------
    >>> from skfairdp.interchange import save_onnx
    >>> save_onnx(model, "model.onnx", certificate=certificate)  # doctest: +SKIP
    """
    additive = additive_model(model)
    answer = None if additive is not None else _answer(model)
    if certificate is None:
        certificate = certify(model)
    elif not certificate.verify(model):
        raise ValueError(
            "'certificate' is not that of 'model', or speaks of other weights: pass the one that "
            "certify() returned for this fitted model, without a pipeline around it."
        )
    try:
        import onnx
        import onnxscript  # noqa: F401  (torch's exporter needs it)
    except ImportError as error:
        raise ImportError("ONNX files need pip install skfairdp[onnx]") from error
    facts = {
        **_targets(model if answer is not None else additive),
        "privacy": certificate.sentence,
        "certificate": certificate.to_json(),
        "model_digest": certificate.model_digest,
    }
    if answer is None:
        file = additive_graph(additive)
        onnx.helper.set_model_props(file, facts | columns_of_inputs(additive))
        onnx.save_model(file, Path(path))
        return
    with warnings.catch_warnings():
        for kind in (FutureWarning, DeprecationWarning):
            warnings.simplefilter("ignore", kind)  # what the exporter itself will have to change
        try:
            program = torch.onnx.export(
                answer,
                (torch.zeros(2, model.n_features_in_),),
                input_names=["X"],
                output_names=answer.names,
                dynamic_shapes=({0: torch.export.Dim("n")},),
                dynamo=True,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            raise ValueError(
                f"For rows of {model.n_features_in_} numbers the net of 'model' cannot be written: "
                "torch's exporter does not take it, nor nets of images, or that decide by values."
            ) from error
    assert program is not None  # the old exporter alone returns nothing
    _check_answers(program.model_proto, model)
    parts: list[Any] = [program.model.graph, *program.model.functions.values()]
    for node in (node for part in parts for node in part.all_nodes()):
        node.metadata_props.clear()  # where on this machine the code lies that made it
    program.model.metadata_props.update(facts)
    program.save(Path(path))


def _check_answers(file: Any, model: Any) -> None:
    """Refuse a file that answers made-up rows otherwise than the model in Python."""
    from onnx.reference import ReferenceEvaluator

    run, rng = ReferenceEvaluator(file).run, np.random.default_rng(0)
    form = (100, model.n_features_in_)
    # Numbers, codes of an embedding, which takes no others, and a row by itself.
    kinds = rng.standard_normal(form), rng.integers(0, 2, form), np.zeros((1, form[1]))
    for made_up in kinds:
        rows = pd.DataFrame(made_up.astype(np.float32))
        rows.columns = getattr(model, "feature_names_in_", rows.columns)
        try:
            answers = model.predict(rows)
        except (IndexError, RuntimeError):
            continue  # the net takes no such rows
        try:
            found, *chances = run(None, {"X": rows.to_numpy()})
        except (TypeError, ValueError):  # shapes of another number of rows
            raise ValueError(_OTHERWISE.format(len(rows), len(rows))) from None
        if isinstance(model, GradientRegressor):
            low, high = model.target_bounds_
            apart = np.abs(found - answers) > 1e-3 * (high - low)
        else:
            apart = model.classes_[found] != answers
            apart |= (np.abs(chances[0] - model.predict_proba(rows)) > 1e-3).any(axis=1)
        if apart.mean() > 0.05:
            raise ValueError(_OTHERWISE.format(apart.sum(), len(rows)))


def _targets(model: Any) -> dict[str, str]:
    """Classes of the outputs, or bounds of numbers."""
    if isinstance(model, GradientRegressor):
        return {"target_bounds": json.dumps(list(model.target_bounds_))}
    return {"classes": json.dumps(model.classes_.tolist())}


def _answer(model: Any) -> _Answer:
    check_is_fitted(model)
    kind = type(model)
    if all(getattr(kind, name, None) is getattr(PathClassifier, name) for name in _OF_PATHS):
        threshold = float(model.threshold)
        chances = Chances(model.module_, model._rates, len(model.direction_), threshold)
        how = float(model.multiplier_), 2.0 * threshold
        return _PathAnswer(Scores(chances, model.direction_), how).eval()
    if all(getattr(kind, n, None) is getattr(GradientRegressor, n) for n in _OF_NUMBERS):
        return _NumberAnswer(model.module_, TargetBounds(*model.target_bounds_)).eval()
    if all(getattr(kind, n, None) is getattr(FairPathRegressor, n) for n in _OF_FAIR_NUMBERS):
        if not model._group_blind:
            raise TypeError(
                "'model' predicts with the groups of the rows (group_at_predict='raw'), and the "
                "ONNX file has rows alone as input. Fit with group_at_predict='none'."
            )
        moves = model.multiplier_ * model.unit_ * shifts(model._table().scores, 0.0)
        moved = _Moved(NumberAndChances(model.module_), torch.from_numpy(moves))
        return _NumberAnswer(moved, TargetBounds(*model.target_bounds_)).eval()
    if not (isinstance(model, GradientClassifier) and model._decides_by_parameters):
        raise TypeError(
            f"'model' is a {kind.__name__}, whose answers are not those of one net. Pass a fitted "
            "estimator that learns by gradients, such as DPSGDClassifier or DPSGDRegressor; of a "
            "pipeline the last."
        )
    return _Answer(model.module_, model.link_, getattr(model, "threshold_", None)).eval()


class _Answer(nn.Module):
    """Classes and their probabilities, as `skfairdp.engine.inference.probabilities` has them."""

    names: tuple[str, ...] = ("place", "probabilities")

    def __init__(self, module: nn.Module, how: Any, threshold: float | None = None) -> None:
        super().__init__()
        self.module, self.how = module, how  # the net's link, figures of a path, or bounds
        self.threshold = threshold  # of a fit with costs

    def forward(self, X: Tensor) -> Any:
        refused = ~(X.abs() <= LARGEST).flatten(1).all(dim=1)  # NaN among them
        *places, figures = self._answers(X)
        unknown = refused[:, None] if places else refused
        marked = (torch.where(refused, figures.shape[1], place) for place in places)
        return *marked, torch.where(unknown, torch.nan, figures)

    def _answers(self, X: Tensor) -> tuple[Tensor, ...]:
        output = self.module(X).unsqueeze(1).flatten(1).double()
        if self.how == "logit":
            positive = 0.5 * (1.0 + torch.tanh(0.5 * output))
            found = torch.cat([1.0 - positive, positive], dim=1)
        elif self.how == "softmax":
            found = torch.softmax(output, dim=1)
        else:
            found = output / output.sum(dim=1, keepdim=True)
        if self.threshold is None:
            return found.argmax(dim=1), found
        return (found[:, 1] > self.threshold).long(), found


class _PathAnswer(_Answer):
    def _answers(self, X: Tensor) -> tuple[Tensor, ...]:
        gains, costs = self.module(X).chunk(2, dim=1)
        multiplier, twice = self.how
        adjusted = gains - multiplier * costs
        if gains.shape[1] > 1:  # of several classes, whose gains are their chances
            return adjusted.argmax(dim=1), gains
        positive = (0.5 * (twice + gains)).clamp(0.0, 1.0)
        return (adjusted[:, 0] > 0.0).long(), torch.cat([1.0 - positive, positive], dim=1)


class _Moved(nn.Module):
    """Scores of a blind regressor, moved by what is expected of the group."""

    def __init__(self, known: nn.Module, moves: Tensor) -> None:
        super().__init__()
        self.known, self.moves = known, moves

    def forward(self, X: Tensor) -> Tensor:
        known = self.known(X)
        moved = known[:, 0].clip(-1.0, 1.0) + known[:, 1:] @ self.moves
        return moved.clip(-1.0, 1.0)[:, None]


class _NumberAnswer(_Answer):
    names = ("prediction",)

    def _answers(self, X: Tensor) -> tuple[Tensor, ...]:
        scaled = self.module(X).unsqueeze(1).flatten(1).double()[:, 0]
        return (self.how.unscaled(scaled),)
