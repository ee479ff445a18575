"""Assumptions of certificates: each sentence once, with the code that keeps it true.

``assumptions.toml`` holds the sentences by place; each is a constant of this module. The code that
states a sentence fills in its braces.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.resources import files
from string import Template
from types import SimpleNamespace

OWNER = "the party that collects the rows"
CERTIFIER = "the party that certifies the model"
DEPLOYER = "the party that deploys the model"


def _read() -> tuple[dict[str, str], dict[str, str]]:
    """Sentences by name, and the place of each: code, or a person."""
    people = {"owner": OWNER, "certifier": CERTIFIER, "deployer": DEPLOYER}
    text = files("skfairdp.foundation").joinpath("assumptions.toml").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    kept: dict[str, str] = {}
    for place, sentences in tomllib.loads(text).items():
        for name, sentence in sentences.items():
            found[name] = Template(" ".join(sentence.split())).substitute(found)
            if place != "phrases":
                kept[found[name]] = people.get(place, place)
    return found, kept


# Where each sentence is kept.
_FOUND, PLACES = _read()
_says = SimpleNamespace(**_FOUND)


def __getattr__(name: str) -> str:
    """Look up a sentence by its name in the file."""
    try:
        return _FOUND[name]
    except KeyError:
        raise AttributeError(f"assumptions.toml has no sentence {name!r}") from None


NOISE = "noise from {name}, for {attacker}; it is {how}"
DECLARED, READ_OFF = "declared", "taken from the rows and public"
SEED = (
    "reproducible_noise=True ties {what} to random_state: anyone who knows or guesses the seed can "
)
FOLDS_BY_POSITION = _says.BY_POSITION.format(
    what="folds were cut", instead="search with cv=RecordSplit()"
)
HELD_OUT_BY_POSITION = _says.BY_POSITION.format(
    what="The rows were held out",
    instead="let each record find its part by itself (RecordSplit), and certify with "
    "holdout='per_record'.",
)
LAST_STEP = (_says.LAST_STEP_AVERAGED, _says.LAST_STEP_HEAD, _says.LAST_STEP_PLAIN)


def is_arithmetic(text: str) -> bool:
    """Whether a sentence is about noise or floating point; the last opening is of older files."""
    return text.startswith(("noise from ", "the contribution of a row ", "what a row adds "))


def closed_sets(*, labels: bool | None = None, groups: bool | None = None) -> tuple[str, ...]:
    """Say whether class labels and groups were declared; None leaves one out."""
    known = {"class labels": labels, "groups": groups}
    return tuple(
        _says.SET.format(name=name, known=DECLARED if declared else READ_OFF)
        for name, declared in known.items()
        if declared is not None
    )


CLOSED_SETS = frozenset(
    text for known in (True, False) for text in closed_sets(labels=known, groups=known)
)


def through_noise(
    noisy: str = "sums", what: str = "rows reach the model", *, persons: bool = False
) -> str:
    """State that rows, or their protected part, reach a model through noise alone."""
    unit = _says.PERSONS if persons else _says.ONE_ROW_ONE_PERSON
    return f"{unit}; {_says.NOISE_ALONE.format(what=what, noisy=noisy)}"


def one_row_each(*, persons: bool) -> tuple[str, ...]:
    """Say that a person has one row, or that one of a person's rows is used."""
    return (_says.PERSONS, _says.DRAWN_ROW) if persons else (_says.ONE_ROW_ONE_PERSON,)


def starts(method: str = "fit") -> str:
    """Say where the guarantee starts."""
    return _says.START.format(method=method)


def seed_known(what: str = "the noise", undo: str = "subtract it") -> str:
    """Say why reproducible noise is no protection."""
    return SEED.format(what=what) + undo


def of_training(
    noise: str,
    *,
    labels: bool | None,
    groups: bool | None,
    what: str = "rows reach the model",
    also: Iterable[str] = (),
    persons: bool = False,
) -> tuple[str, ...]:
    """List the assumptions of training by noisy sums; `noise` names the source of the noise."""
    sets = closed_sets(labels=labels, groups=groups)
    through = through_noise(what=what, persons=persons)
    arithmetic = _says.MEAN_OF_ROWS if persons else _says.ARITHMETIC
    return (*sets, *also, noise, arithmetic, through, starts())


def of_attribute(
    protected: str, noise: str, *, groups: bool, also: Iterable[str] = ()
) -> tuple[str, ...]:
    """List the assumptions of training that protects the sensitive attribute alone."""
    (groups_known,) = closed_sets(groups=groups)
    return (
        f"protects {protected}",
        f"{groups_known}; {_says.GROUP_SIZES_HIDDEN}",
        *also,
        noise,
        _says.ARITHMETIC,
        through_noise(what="the attribute reaches the model"),
    )


def held_out_rows(how: str, *, with_labels: bool, persons: bool = False) -> Iterable[str]:
    """List the assumptions of every bound from held-out rows; `how` says how rates are counted."""
    recorded = _says.RECORDED.format(what="Labels and groups are" if with_labels else "Groups are")
    drawn = _says.INDEPENDENT_PERSONS if persons else _says.INDEPENDENT_ROWS
    rows = (drawn, _says.UNUSED_ROWS)
    return (*rows, how, recorded, _says.SIZES_GIVEN, _says.SAME_DEPLOYMENT)
