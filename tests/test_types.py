"""Types of the public estimators, as a type checker reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RIGHT = """
from skfairdp import (
    DPAdditiveRegressor,
    DPSGDClassifier,
    DPSGDRegressor,
    FairPathClassifier,
    LaplaceTransformer,
    PATEClassifier,
    PrivateFairEncoder,
    PrivateTableEncoder,
)

DPSGDClassifier(epsilon=1.0, max_epochs=3).set_params(epsilon=2.0).get_params()
FairPathClassifier(tolerance=0.1)
DPSGDRegressor(target_bounds=(0.0, 1.0))
DPAdditiveRegressor(loss="huber")
PATEClassifier(n_teachers=10)
PrivateTableEncoder(0.1)
PrivateFairEncoder(epsilon=1.0)
LaplaceTransformer(1.0, bound=0.5)
"""
WRONG = {
    "DPSGDClassifier": "epsilonn=1.0",
    "FairPathClassifier": "tolerence=0.1",
    "DPSGDRegressor": "bounds=(0.0, 1.0)",
    "DPAdditiveRegressor": "losss='huber'",
    "PATEClassifier": "teachers=10",
    "PrivateTableEncoder": "bins=4",
    "PrivateFairEncoder": "eps=1.0",
    "LaplaceTransformer": "bounds=0.5",
}


@pytest.mark.slow
def test_a_misspelt_parameter_is_a_type_error_and_a_right_one_is_none(tmp_path: Path) -> None:
    lines = [f"{name}({given})  # line of {name}" for name, given in WRONG.items()]
    start = RIGHT.count("\n") + 1
    (tmp_path / "settings.py").write_text(RIGHT + "\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    ran = subprocess.run(
        [*command, "--cache-dir", str(tmp_path / "cache"), str(tmp_path / "settings.py")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    reported = [line for line in ran.stdout.splitlines() if "settings.py:" in line]
    errors = [line for line in reported if ": error:" in line]
    assert len(errors) == len(WRONG), ran.stdout + ran.stderr
    for place, (name, given) in enumerate(WRONG.items()):
        assert f"settings.py:{start + place}:" in errors[place]
        parameter = given.split("=")[0]
        assert f'Unexpected keyword argument "{parameter}" for "{name}"' in errors[place]
