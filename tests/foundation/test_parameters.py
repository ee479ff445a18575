"""Parameters that are declared in the class body, as dataclasses have them."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from typing import Any, ClassVar

import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone

from skfairdp import DPSGDClassifier
from skfairdp.foundation.parameters import COUNT, POSITIVE, WithParameters, fixed
from skfairdp.receipts.digests.digest import state_digest
from tests.common.roster import SETTINGS


class Steps(WithParameters):
    """Template.

    Parameters
    ----------
    net : object
        What is trained.
    rate : float
        Of learning.
    random_state : int or None
        Seed.
    """

    net: Any = dataclasses.field(kw_only=False)
    rate: float = 0.1
    random_state: int | None = None

    _parameters = {"rate": (POSITIVE,), "depth": (COUNT,)}

    loss_: float = dataclasses.field(init=False)
    _aside: int = dataclasses.field(init=False)


class Deep(Steps):
    """Has one more, and another default.

    Parameters
    ----------
    depth : int
        Layers.
    """

    depth: int = 3
    rate: float = 0.5


class Fixed(Deep):
    """Has one less."""

    depth: int = 4

    @property
    def rate(self) -> float:  # type: ignore[override]
        return 1.0 / self.depth


class ByHand(Deep):
    def __init__(self, net: Any, width: int = 2, **others: Any) -> None:
        super().__init__(net, **others)
        self.width = width


class Inherits(ByHand):
    note: str  # says a type, and is no parameter
    seen: ClassVar[list[int]] = []

    def predict(self, X: Any) -> Any:
        return X


def test_a_signature_has_what_the_bodies_declare() -> None:
    assert str(inspect.signature(Deep)) == (
        "(net: 'Any', *, rate: 'float' = 0.5, depth: 'int' = 3, "
        "random_state: 'int | None' = None) -> None"
    )
    assert [*inspect.signature(Fixed).parameters] == ["net", "depth", "random_state"]
    assert Deep.__init__.__qualname__ == "Deep.__init__"
    with pytest.raises(TypeError, match=r"Deep.__init__\(\) got an unexpected keyword argument"):
        Deep(1, width=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'net'"):
        Deep()  # type: ignore[call-arg]


def test_parameters_are_those_of_scikit_learn() -> None:
    deep = Deep("net", depth=5)
    assert deep.get_params() == {"net": "net", "rate": 0.5, "depth": 5, "random_state": None}
    assert clone(deep).get_params() == deep.get_params()
    assert pickle.loads(pickle.dumps(deep)).get_params() == deep.get_params()
    assert deep.set_params(rate=0.2).rate == 0.2
    assert repr(deep) == "Deep(depth=5, net='net', rate=0.2)"
    assert Fixed("net").rate == 0.25
    assert list(Deep._parameters) == ["rate", "depth"]
    assert list(Fixed._parameters) == ["depth"]


def test_a_constructor_by_hand_stays() -> None:
    made = Inherits("net", width=7, depth=1)
    assert (made.width, made.depth, made.rate) == (7, 1, 0.5)
    assert Inherits.__init__ is ByHand.__init__
    assert made.seen is Inherits.seen


def test_nothing_is_left_on_the_class() -> None:
    """No parameter can be read off the class, and no field passes for a fitted attribute."""
    assert not {"net", "rate", "depth", "loss_", "_aside"} & {*dir(Deep)}
    for kind in SETTINGS:
        held = {name for name in dir(kind) if isinstance(getattr(kind, name), dataclasses.Field)}
        assert held == set(), kind
    assert not hasattr(Deep("net"), "loss_")


def test_a_table_of_results_keeps_the_estimators_in_it() -> None:
    """A dataclass that holds a dataclass is taken apart with it."""

    @dataclasses.dataclass
    class Result:
        model: BaseEstimator
        score: float

    result = Result(DPSGDClassifier(), 0.9)
    assert isinstance(dataclasses.asdict(result)["model"], DPSGDClassifier)
    assert isinstance(pd.DataFrame([result])["model"][0], DPSGDClassifier)


def test_a_default_of_the_signature_is_described_and_bound() -> None:
    assert "rate : float, default=0.5\n    Of learning." in (Deep.__doc__ or "")
    assert "rate : float, default=0.1\n" in (Steps.__doc__ or "")

    def declared(default: int) -> type:
        class Own(Steps):
            depth: int = default

        return Own

    first, again, other = (state_digest(declared(depth)("net")) for depth in (3, 3, 4))
    assert first == again != other


class Slow(Steps):
    rate = fixed(0.2)


class Derived(Steps):
    @property
    def rate(self) -> float:  # type: ignore[override]
        return 0.2


def test_a_body_that_takes_a_parameter_away_is_heard_whatever_else_it_declares():
    for kind in (Slow, Derived):
        assert "rate" not in kind(None).get_params()
        assert kind(None).rate == 0.2


def test_a_constructor_by_hand_is_not_passed_over():
    class Quiet(ByHand):
        _aside = 1
        rate = 3.0  # what is written by hand decides

    assert Quiet(None, width=5).width == 5
    assert Quiet(None).rate == 0.5
    with pytest.raises(TypeError, match="ByHand wrote by hand"):

        class Loud(ByHand):
            colour: int = 1


def test_a_plain_attribute_that_would_take_a_parameter_away_is_refused():
    with pytest.raises(TypeError, match=r"'rate: <type> = ...'.*'rate = fixed\(...\)'"):

        class Forgotten(Steps):
            rate = 0.2

    with pytest.raises(TypeError, match="'rate' without an annotation"):

        class Shadowed(Steps):
            depth: int = 1

            def rate(self) -> float:
                return 0.2


def test_a_new_parameter_without_an_annotation_is_refused_where_its_check_is_declared():
    with pytest.raises(TypeError, match=r"'speed' in _parameters.*'speed: <type> = ...'"):

        class Forgotten(Steps):
            speed = 0.2
            _parameters = {"speed": (POSITIVE,)}

    class Constant(Steps):
        speed = fixed(0.2)
        _parameters = {"speed": (POSITIVE,), "of_a_subclass": (POSITIVE,)}

    assert "speed" not in Constant(None).get_params()


def test_a_default_that_all_instances_would_share_is_refused():
    with pytest.raises(TypeError, match="'steps' a list as its default"):

        class Shared(Steps):
            steps: list = []


class Listed(Steps):
    labels: ClassVar[int] = 3
    many: list = dataclasses.field(default_factory=list)


def test_attributes_of_the_class_and_made_defaults_are_what_they_are_called():
    assert Listed.labels == 3
    assert "labels" not in Listed(None).get_params()
    assert Listed(None).many == []
    assert Listed(None).many is not Listed(None).many
