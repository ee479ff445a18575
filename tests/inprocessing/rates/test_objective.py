"""The loss whose costs follow the constraints."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.modules import MLP
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from skfairdp.inprocessing.rates.constraints import RateConstraints
from skfairdp.inprocessing.rates.objective import CostObjective

KINDS = {
    "one logit": (nn.BCEWithLogitsLoss(), 2, (20, 1)),
    "flat logit": (nn.BCEWithLogitsLoss(), 2, (20,)),
    "two logits": (nn.CrossEntropyLoss(), 2, (20, 2)),
    "four logits": (nn.CrossEntropyLoss(), 4, (20, 4)),
}


def objective(criterion: nn.Module, n_classes: int, *, scale: float = 1.0) -> CostObjective:
    constraints = RateConstraints("demographic_parity", range(n_classes), 3, 0.1)
    made = CostObjective(objective_for(criterion), constraints)
    coefficients = scale * np.random.default_rng(0).normal(size=constraints.shape)
    made.set_coefficients(coefficients, torch.zeros((), dtype=torch.float64))
    return made


def drawn(n_classes: int, shape: tuple) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    output = 3 * torch.randn(shape, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, n_classes, (shape[0],), generator=generator)
    groups = torch.randint(0, 3, (shape[0],), generator=generator)
    return output, labels, groups * n_classes + labels


@pytest.mark.parametrize("kind", KINDS)
def test_the_closed_form_gradient_is_that_of_autograd(kind) -> None:
    criterion, n_classes, shape = KINDS[kind]
    made = objective(criterion, n_classes)
    output, labels, cells = drawn(n_classes, shape)
    leaf = output.clone().requires_grad_()
    (expected,) = torch.autograd.grad(made(leaf, labels, cells).sum(), leaf)
    assert torch.allclose(made.gradient(output, labels, cells), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_without_constraints_it_is_the_ordinary_loss(kind) -> None:
    criterion, n_classes, shape = KINDS[kind]
    made = objective(criterion, n_classes, scale=0.0)
    output, labels, cells = drawn(n_classes, shape)
    target = labels.double() if isinstance(criterion, nn.BCEWithLogitsLoss) else labels
    plain = objective_for(criterion)
    assert torch.allclose(made(output, labels, cells), plain(output, target))


def test_probabilities_give_the_same_losses_as_their_logits() -> None:
    output, labels, cells = drawn(4, (20, 4))
    of_logits = objective(nn.CrossEntropyLoss(), 4)(output, labels, cells)
    made = objective(nn.NLLLoss(), 4)
    assert made.gradient(output.softmax(dim=1), labels, cells) is None
    assert torch.allclose(made(output.softmax(dim=1), labels, cells), of_logits)


def test_a_record_of_no_cell_has_no_loss() -> None:
    made = objective(nn.BCEWithLogitsLoss(), 2)
    output = torch.ones(1, 1, dtype=torch.float64)
    nowhere = torch.tensor([6])
    assert float(made(output, torch.tensor([1]), nowhere)) == 0.0
    assert float(made.gradient(output, torch.tensor([1]), nowhere)) == 0.0


def test_the_minimiser_takes_the_cheaper_decision() -> None:
    """At one x, records of all cells mixed: sign of the best logit = cheaper class."""
    rng = np.random.default_rng(4)
    constraints = RateConstraints("demographic_parity", [0, 1], 2, 0.1)
    for _ in range(50):
        made = CostObjective(objective_for(nn.BCEWithLogitsLoss()), constraints)
        A = rng.normal(size=constraints.shape)
        made.set_coefficients(A, torch.zeros((), dtype=torch.float64))
        shares = rng.dirichlet(np.ones(4)).reshape(2, 2)
        costs = (shares[:, :, None] * (1.0 - np.eye(2) + A)).sum(axis=(0, 1))
        # At logit 0 the mean gradient points away from the cheaper class.
        zero = torch.zeros(4, 1, dtype=torch.float64)
        slope = made.gradient(zero, torch.tensor([0, 1, 0, 1]), torch.arange(4)).numpy()
        assert np.sign(shares.reshape(-1) @ slope[:, 0]) == np.sign(costs[1] - costs[0])


@pytest.mark.parametrize("criterion", [nn.BCEWithLogitsLoss(), nn.CrossEntropyLoss()], ids=str)
@pytest.mark.parametrize("threshold", [0.02, 0.3, 0.5, 0.9])
def test_with_a_threshold_the_minimiser_costs_least(threshold, criterion) -> None:
    """At one x the sign of the best logit is that of the cheaper decision, and eta - t if alone."""
    rng = np.random.default_rng(5)
    constraints = RateConstraints("demographic_parity", [0, 1], 2, 0.1)
    made = CostObjective(objective_for(criterion), constraints, threshold)
    for scale in np.repeat([0.0, 1.0], 50):
        A = scale * rng.normal(size=constraints.shape)
        made.set_coefficients(A, torch.zeros((), dtype=torch.float64))
        shares = rng.dirichlet(np.ones(4)).reshape(2, 2)
        of_mistakes = np.array([[0.0, 2.0 * threshold], [2.0 - 2.0 * threshold, 0.0]])
        costs = (shares[:, :, None] * (of_mistakes + A)).sum(axis=(0, 1))
        output = torch.zeros(4, 1 if isinstance(criterion, nn.BCEWithLogitsLoss) else 2)
        slope = made.gradient(output, torch.tensor([0, 1, 0, 1]), torch.arange(4)).numpy()
        up = (shares.reshape(-1) @ slope)[-1]  # falls where the second class is cheaper
        assert np.sign(up) == np.sign(costs[1] - costs[0])
        if not scale:
            assert np.sign(up) == np.sign(threshold - shares[:, 1].sum())


def test_a_threshold_of_one_half_counts_errors_as_before() -> None:
    constraints = RateConstraints("demographic_parity", [0, 1], 2, 0.1)
    made = CostObjective(objective_for(nn.BCEWithLogitsLoss()), constraints)
    assert np.array_equal(made._errors, 1.0 - np.eye(2))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fused_and_functional_paths_agree(n_classes) -> None:
    class Hidden(nn.Module):  # not recognised as a stack of linear layers
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, X: torch.Tensor) -> torch.Tensor:
            return self.inner(X) * 1.0

    criterion = nn.BCEWithLogitsLoss() if n_classes == 2 else nn.CrossEntropyLoss()
    torch.manual_seed(0)
    module = MLP(5, n_outputs=1 if n_classes == 2 else n_classes).double()
    made = objective(criterion, n_classes)
    X = torch.randn(20, 5, dtype=torch.float64)
    _, labels, cells = drawn(n_classes, (20, 1))
    sums = []
    for net, path in ((module, "fused"), (Hidden(module), "functional")):
        clipper = make_clipper(net, flatten(net), made)
        assert clipper.path == path
        weights = torch.ones(20, dtype=torch.float64)
        sums.append(clipper.clipped_sums(X, (labels, cells), 0.7, weights).clone())
    assert torch.allclose(sums[0], sums[1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    "criterion",
    [
        nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0)),
        nn.BCEWithLogitsLoss(weight=torch.tensor(2.0)),
        nn.CrossEntropyLoss(weight=torch.ones(2)),
        nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.CrossEntropyLoss(ignore_index=1),
        nn.NLLLoss(weight=torch.ones(2)),
    ],
    ids=str,
)
def test_criteria_that_set_costs_themselves_are_refused(criterion) -> None:
    with pytest.raises(ValueError, match="plain criterion"):
        objective(criterion, 2)
