from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from skfairdp.fairness.bounds.head_claim import THEOREM2_NOTIONS, theorem2_guarantee
from skfairdp.fairness.bounds.head_noise import theorem2_bound

BASE = {"max_head_norm": 0.3, "max_grad_norm": 0.5, "learning_rate": 0.4, "noise_std": 1.7}


def test_single_model_is_the_error_function_of_reach_over_noise():
    reach, std = 0.3 + 0.4 * 0.5, 0.4 * 1.7
    assert theorem2_bound(**BASE) == pytest.approx(math.erf(reach / (std * math.sqrt(2))))


def test_heads_of_the_mean_form():
    n, reach, std = 5, 0.3 + 0.4 * 0.5, 0.4 * 1.7
    gibbs = theorem2_bound(**BASE, n_heads=n, prediction="gibbs")
    assert gibbs == pytest.approx(math.erf(reach / (n * std * math.sqrt(2))))
    mean = theorem2_bound(**BASE, n_heads=n, prediction="score_mean")
    assert mean == pytest.approx(math.erf(reach / (math.sqrt(n) * std * math.sqrt(2))))
    p = 0.5 + 0.5 * gibbs
    at_least = [sum(stats.binom.pmf(k, n, q) for k in (3, 4, 5)) for q in (p, 1 - p)]
    vote = theorem2_bound(**BASE, n_heads=n, prediction="vote")
    assert vote == pytest.approx(at_least[0] - at_least[1])
    assert gibbs < mean


def test_heads_of_the_sum_form():
    n, batch, groups = 4, 60.0, 3
    arguments = BASE | {"group_update": "sum", "expected_batch_size": batch, "n_groups": groups}
    std = 0.4 * 1.7
    single = (0.3 + 0.4 * batch * 0.5 / groups) / std
    assert theorem2_bound(**arguments) == pytest.approx(math.erf(single / math.sqrt(2)))
    ratio = (0.3 + 0.4 * batch * 0.5 / (groups * n)) / std
    gibbs = theorem2_bound(**arguments, n_heads=n, prediction="gibbs")
    assert gibbs == pytest.approx(math.erf(ratio / math.sqrt(2)))
    mean = theorem2_bound(**arguments, n_heads=n, prediction="score_mean")
    assert mean == pytest.approx(math.erf(ratio * math.sqrt(n) / math.sqrt(2)))


@pytest.mark.parametrize("prediction", ["score_mean", "vote", "gibbs"])
@pytest.mark.parametrize("n_heads", [1, 2, 5])
def test_bound_holds_for_the_worst_head_by_simulation(prediction, n_heads):
    """Two groups at opposite ends of the reach: the bound is what happens to them."""
    reach, head_std = 0.3 + 0.4 * 0.5, n_heads * 0.4 * 1.7
    rng = np.random.default_rng(0)
    draws = 200_000
    score = reach + head_std * rng.standard_normal((draws, n_heads))
    other = -reach + head_std * rng.standard_normal((draws, n_heads))

    def rate(s):
        if prediction == "score_mean":
            return (s.mean(axis=1) > 0).mean()
        share = (s > 0).mean(axis=1)
        return share.mean() if prediction == "gibbs" else (share >= 0.5).mean()

    bound = theorem2_bound(**BASE, n_heads=n_heads, prediction=prediction)
    # Hoeffding for a difference of two means of 200,000 draws, failure probability 1e-9.
    slack = math.sqrt(math.log(2e9) / draws)
    assert rate(score) - rate(other) == pytest.approx(bound, abs=slack)


def test_no_noise_gives_no_useful_bound():
    assert theorem2_bound(**(BASE | {"noise_std": 0.0})) == 1.0
    claim = theorem2_guarantee("equalized_odds", groups=("a", "b"), **(BASE | {"noise_std": 0.0}))
    assert claim.figure == "no useful bound"


def test_guarantee_says_that_it_is_not_about_the_released_model():
    claim = theorem2_guarantee("demographic_parity", groups=("a", "b"), **BASE)
    assert claim.scope == "training mechanism"
    assert claim.confidence_level is None
    assert any("not about the one model" in text for text in claim.assumptions)


def test_uncovered_notion_and_bad_arguments_are_refused():
    assert "accuracy_parity" not in THEOREM2_NOTIONS
    with pytest.raises(ValueError, match="Theorem 2"):
        theorem2_guarantee("accuracy_parity", groups=("a", "b"), **BASE)
    with pytest.raises(ValueError, match="expected_batch_size"):
        theorem2_bound(**BASE, group_update="sum")
    with pytest.raises(ValueError, match="group_update"):
        theorem2_bound(**BASE, group_update="median")
    with pytest.raises(ValueError, match="prediction"):
        theorem2_bound(**BASE, n_heads=2, prediction="median")
    with pytest.raises(ValueError, match="n_heads"):
        theorem2_bound(**BASE, n_heads=0)
