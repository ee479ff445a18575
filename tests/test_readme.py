"""The README is true and short: its code runs, its commands exist; the catalogue is complete."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import sklearn
from sklearn.base import BaseEstimator

import skfairdp

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def scikit_learn_config() -> Iterator[None]:
    before = sklearn.get_config()
    yield
    sklearn.set_config(**before)


# The noise of about one fit of 150 leaves the start of a path above the tolerance.
@pytest.mark.filterwarnings("ignore:The path does not keep:skfairdp.exceptions.FairnessWarning")
@pytest.mark.usefixtures("scikit_learn_config")
def test_python_blocks_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "readme.py"
    for block in blocks("python"):
        source.write_text(block, encoding="utf-8")
        names = runpy.run_path(str(source), run_name="__main__")
        # An example whose model approves everybody would show a gap of 0 and mislead.
        assert set(names["model"].predict(names["X_held"])) == {0, 1}
    assert "With 95 % confidence" in capsys.readouterr().out


def test_there_are_two_commands_and_ci_runs_the_second() -> None:
    main_job, tests = (block.strip() for block in blocks("bash"))
    steps = [shlex.split(step) for step in main_job.split("&&")]
    assert steps[0] == ["python3", "-m", "venv", ".venv"]
    assert (ROOT / steps[-1][-1]).is_file()
    # .ci/run finds the test command with this very pattern and runs what it finds.
    pattern = re.search(r"grep -E '(.+?)' README\.md", (ROOT / ".ci/run").read_text())
    assert pattern is not None
    found = [line for line in README.splitlines() if re.search(pattern[1], line)]
    assert found == [tests]


def test_installed_extras_exist() -> None:
    import configparser

    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    known = set(setup["options.extras_require"])
    for names in re.findall(r'-e "\.\[([\w,]+)\]"', README):
        assert set(names.split(",")) <= known


def public_estimators() -> set[str]:
    return {
        name
        for name in skfairdp.__all__
        if isinstance(getattr(skfairdp, name), type)
        and issubclass(getattr(skfairdp, name), BaseEstimator)
    }


def test_it_is_read_in_two_minutes_and_offers_five_choices() -> None:
    assert len(README.split()) <= 550
    choices = re.findall(r"\| `(\w+)` \|$", README, re.MULTILINE)
    assert 0 < len(choices) <= 5
    assert choices[0] == "FairPathClassifier"
    assert set(choices) <= public_estimators()


def test_the_catalogue_lists_every_public_estimator() -> None:
    catalogue = (ROOT / "docs/catalogue.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", catalogue, re.MULTILINE)
    assert sorted(listed) == sorted(public_estimators())
    assert f"[All {len(listed)}](docs/catalogue.md)" in README
