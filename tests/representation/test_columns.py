"""Column types: how they are declared and read, and what decoders make of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skfairdp.representation.objective import ColumnsLikelihood, ColumnTypes

NAMES = ["age", "sex", "red", "blue"]


def test_columns_of_zeros_and_ones_are_bernoulli_and_constant_ones_are_what_they_look_like() -> (
    None
):
    X = np.array([[0.0, 3.0, 1.0, 0.5], [1.0, 3.0, 1.0, 1.0]])
    assert ColumnTypes.from_rows(X) == ColumnTypes(gaussian=(1, 3), bernoulli=(0, 2))


def test_declared_by_name_or_position() -> None:
    expected = ColumnTypes(gaussian=(0,), bernoulli=(1,), categorical=((2, 3),))
    named = {"bernoulli": ["sex"], "categorical": [["red", "blue"]]}
    placed = {"bernoulli": [1], "categorical": [[2, 3]], "gaussian": [0]}
    assert ColumnTypes.declared(named, NAMES) == expected
    assert ColumnTypes.declared(placed, NAMES) == expected
    assert ColumnTypes.declared("gaussian", NAMES).gaussian == (0, 1, 2, 3)
    assert ColumnTypes.declared("bernoulli", NAMES).bernoulli == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ({"bernoulli": ["job"]}, "'job', which is not a column"),
        ({"bernoulli": [4]}, "4, which is not a column"),
        ({"bernoulli": ["sex"], "gaussian": ["sex"]}, "'sex' twice"),
        ({"categorical": [["red", "sex"], ["sex"]]}, "'sex' twice"),
        ({"categorical": [[]]}, "empty list"),
        ({"poisson": ["age"]}, "'column_types' must be"),
        ("poisson", "'column_types' must be"),
    ],
)
def test_bad_declarations(declaration: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ColumnTypes.declared(declaration, NAMES)  # type: ignore[arg-type]


def test_variables_of_different_width_do_not_disturb_each_other() -> None:
    types = ColumnTypes(gaussian=(), bernoulli=(), categorical=((0, 1), (2, 3, 4)))
    likelihood = ColumnsLikelihood(types)
    stated = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    x = torch.tensor([[1.0, 0.0, 0.0, 1.0, 0.0]]).expand(4, -1)
    expected = stated[:, :2].log_softmax(1)[:, 0] + stated[:, 2:].log_softmax(1)[:, 1]
    assert torch.allclose(likelihood(stated, x), expected)
    (gradient,) = torch.autograd.grad(likelihood(stated, x).sum(), stated)
    assert gradient.isfinite().all()


def test_means_are_probabilities_where_columns_are_binary() -> None:
    types = ColumnTypes(gaussian=(0,), bernoulli=(1,), categorical=((2, 3),))
    mean = ColumnsLikelihood(types).mean(torch.tensor([[2.5, 0.0, 1.0, 1.0]]))
    assert mean.tolist() == [[2.5, 0.5, 0.5, 0.5]]
