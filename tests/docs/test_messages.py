"""The page of messages holds what the package says, and its cures belong to messages."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from skfairdp import FairPathClassifier
from skfairdp.datasets import make_biased_gaussians

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def messages():
    pytest.importorskip("sphinx", reason="the page is built by Sphinx")
    sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
    try:
        import messages
    finally:
        sys.path.pop(0)
    return messages


def test_a_message_is_read_with_names_for_what_is_filled_in(messages, tmp_path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "module.py").write_text(
        'WHY = "it is too large"\n'
        "def f(name, values):\n"
        '    how = f"Say what {name} is."\n'
        '    raise ValueError(f"{name!r} of {len(values)} is wrong: {WHY}. {how}")\n'
        "def g():\n"
        '    warn_user("Nothing is protected here.", PrivacyWarning)\n'
        '    raise NotImplementedError("this is no message")\n'
    )
    found = [(m.room, m.kind, m.text) for m in messages.collect(tmp_path)]
    told = "‹name› of ‹values› is wrong: it is too large. Say what ‹name› is."
    assert found == [
        ("room", "ValueError", told),
        ("room", "PrivacyWarning", "Nothing is protected here."),
    ]


def test_a_message_that_is_raised_is_on_the_page(messages) -> None:
    data = make_biased_gaussians(n_samples=50, random_state=0)
    with pytest.raises(ValueError, match="needs the group of every row") as caught:
        FairPathClassifier().fit(data.data, data.target)
    said = [re.escape(m.text) for m in messages.collect() if "the group of every row" in m.text]
    patterns = [re.sub("‹[^›]*›", ".*", text) for text in said]
    assert any(re.fullmatch(pattern, str(caught.value)) for pattern in patterns)


def test_every_cure_belongs_to_a_message(messages) -> None:
    assert [cure.begins for cure, found in messages.cures() if not found] == []
    assert len(messages.cures()) == 23
