"""The certificate's ε is what an independent integral gets from the plan that was carried out."""

from __future__ import annotations

from typing import Any

import pytest

from skfairdp import certify
from tests.common.roster import build, every_estimator, once, people
from tests.privacy.oracle import oracle_epsilons


@every_estimator
@pytest.mark.parametrize("parameters", [{}, {"epsilon": None, "noise_multiplier": 1.1}], ids=str)
def test_epsilon_is_that_of_the_plan(name: str, parameters: dict) -> None:
    model = once(name, **parameters)
    privacy = certify(model).privacy
    expected = oracle_epsilons(model.plan_, model.delta)
    # The oracle is within 0.3 % of the truth (its docstring); the certificate is never below it.
    assert privacy.delta == model.delta
    assert max(expected.values()) * 0.997 <= privacy.epsilon <= max(expected.values()) * 1.02
    if not name.startswith("DP-SGD"):
        for group, epsilon in privacy.per_group.items():
            assert expected[group] * 0.997 <= epsilon <= expected[group] * 1.02
    if not parameters:
        assert 0.97 <= privacy.epsilon <= 1.0


@every_estimator
def test_repeatable_noise_voids_the_certificate(name: str) -> None:
    model = once(name, random_state=0, reproducible_noise=True)
    certificate = certify(model)
    assert certificate.privacy.epsilon == float("inf")
    assert "reproducible_noise" in " ".join(certificate.privacy.assumptions)
    assert not certificate.satisfies(epsilon=1e9)


@every_estimator
def test_the_clipping_norm_takes_part_in_training(name: str) -> None:
    """A plan that states another norm than `max_grad_norm` leaves the parameter without effect."""
    seeded: dict[str, Any] = {"random_state": 0, "reproducible_noise": True}
    X, y, groups = people()
    model = once(name, **seeded)
    again = build(name, **seeded).fit(X, y, sensitive_features=groups)
    other = build(name, max_grad_norm=0.01, **seeded).fit(X, y, sensitive_features=groups)
    assert weights(again) == weights(model)
    assert weights(other) != weights(model)


def weights(model: Any) -> list[list[float]]:
    return [weight.flatten().tolist() for weight in model.module_.parameters()]


@every_estimator
def test_infinite_epsilon_warns_and_promises_nothing(name: str) -> None:
    from skfairdp.exceptions import PrivacyWarning

    X, y, groups = people()
    with pytest.warns(PrivacyWarning, match="epsilon=inf"):
        model = build(name, epsilon=float("inf")).fit(X, y, sensitive_features=groups)
    assert model.privacy_ is None
    certificate = model.certify()
    assert certificate.privacy is None
    assert not certificate.satisfies(epsilon=1e9)
    assert model.score(X, y) > 0.5
