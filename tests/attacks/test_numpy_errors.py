"""A setting of numpy's must not let one record end, or warn in, what reads private rows.

``np.errstate(all="raise")`` turns the underflow of one tiny number into an error after the charge.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from skfairdp import DPSGDClassifier, FunctionalMechanismClassifier, certify

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(200, 3)).clip(-3, 3)
LABELS = (ROWS[:, 0] > 0).astype(int)
GROUPS = np.resize(["a", "b"], 200)
TINY = np.where(np.arange(200)[:, None] == 7, 5e-324, ROWS)
MODELS = {
    "sums of moments": lambda: FunctionalMechanismClassifier((-3.0, 3.0)),
    "net": lambda: DPSGDClassifier(max_epochs=1, progress=False),
}
pytestmark = pytest.mark.parametrize("kind", MODELS)


def silently(setting: str) -> np.errstate:
    warnings.simplefilter("error")
    return np.errstate(all=setting)


@pytest.mark.parametrize("setting", ["raise", "warn"])
def test_a_record_of_the_smallest_numbers_ends_no_fit(kind, setting) -> None:
    with silently(setting):
        MODELS[kind]().fit(TINY, LABELS)


@pytest.mark.parametrize("setting", ["raise", "warn"])
def test_a_held_out_record_of_the_smallest_numbers_ends_no_certificate(kind, setting) -> None:
    model = MODELS[kind]().fit(ROWS[100:], LABELS[100:])
    rows = TINY[:100]
    with silently(setting):
        certify(
            model,
            rows,
            LABELS[:100],
            sensitive_features=GROUPS[:100],
            groups=["a", "b"],
            count_epsilon=1.0,
        )


def test_the_setting_is_the_callers_again_afterwards(kind) -> None:
    with np.errstate(all="raise"):
        MODELS[kind]().fit(ROWS, LABELS)
        with pytest.raises(FloatingPointError):
            np.float64(1e-300) * np.float64(1e-300)
