"""Common checks of scikit-learn on every public estimator, with fresh noise, against its tag."""

from __future__ import annotations

import pytest

from tests.common.test_scikit_learn_checks import made, public_estimators, unexpected


@pytest.mark.campaign
@pytest.mark.parametrize("kind", public_estimators(), ids=lambda kind: kind.__name__)
def test_no_check_fails_but_those_that_the_tag_names(kind: type) -> None:
    model = made(kind)
    short = {"max_epochs": 2, "n_answers": 20, "n_teachers": 10}
    known = model.get_params(deep=False)
    assert unexpected(model.set_params(**{k: v for k, v in short.items() if k in known})) == []
