"""One fairness claim with everything that a reader needs to judge it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from skfairdp.fairness.notions import get_notion

__all__ = [
    "ANSWERED",
    "ANY_POPULATION",
    "AVERAGED",
    "AVERAGED_RATES",
    "CellCount",
    "DEPLOYED",
    "DOWNSTREAM",
    "FairnessGuarantee",
    "SCOPES",
    "TRAINING",
    "json_label",
    "label_from_json",
    "rounded_up",
]

DEPLOYED = "deployed model"
AVERAGED = "averaged over its draws"
ANY_POPULATION = "any population"
TRAINING = "training mechanism"
DOWNSTREAM = "any downstream predictor"
ANSWERED = "answered queries"
SCOPES = (DEPLOYED, AVERAGED, ANY_POPULATION, TRAINING, DOWNSTREAM, ANSWERED)
AVERAGED_RATES = (
    "Rates are averaged over the draws that decide for a row. A draw is fixed by a key and the "
    "person's row, so people with equal rows share it: where few different rows exist, the rates "
    "under the one key that is deployed can differ from the average by any amount."
)
# Statements about people like those who were held out; the others hold for everybody.
_FROM_ROWS = (DEPLOYED, AVERAGED)
# How earlier versions derived what they called bounds on the deployed model. Counts with noise
# may have been of draws made for the count, which the file doesn't say.
_AVERAGES = {
    "Hoeffding, on the probabilities": AVERAGED,
    "smoothing: every group's own model": AVERAGED,
    "exact, from noisy counts with": AVERAGED,
    "smoothing: length of the released weights": ANY_POPULATION,
}


@dataclass(frozen=True)
class CellCount:
    """Counts of one cell behind a claim.

    Parameters
    ----------
    group : hashable
        Group label.
    stratum : str
        What the rate is conditioned on; empty where on nothing.
    successes : float
        Rows that count as a success; a sum of probabilities for a randomised predictor,
        a noisy count where `noisy`.
    trials : float
        Rows of the cell.
    noisy : bool, default=False
        Whether noise protects the rows behind the counts.
    low, high : float or None, default=None
        Interval of 95 % of this cell's rate, where it can't be computed from the counts alone
        because the noise counts too.
    """

    group: Hashable
    stratum: str
    successes: float
    trials: float
    noisy: bool = False
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", label_from_json(json_label(self.group)))


@dataclass(frozen=True)
class FairnessGuarantee:
    """An upper bound on the largest difference of rates between two groups.

    Parameters
    ----------
    notion : str
        Which rates: a name of `skfairdp.fairness.notions.NOTIONS`.
    bound : float in [0, 1]
        The largest difference is at most this.
    scope : str
        What the claim is about.

        * "deployed model": the answers of this very model, with the key of its random
          draws if it has one, to people like those held out. Counted.
        * "averaged over its draws": the same people, and the average over all keys that
          the model's draws could have had.
        * "any population": that average, whoever the people are.
        * "training mechanism": the average over the noise of training.
        * "any downstream predictor": whatever is predicted from a private release,
          averaged over its noise.
        * "answered queries": the answers that a parity gate has let pass, and nobody
          else.
    method : str
        How the bound was derived.
    estimate : float or None
        Largest observed difference, where rows were observed.
    confidence_level : float or None
        Probability that the bound holds over the draw of the held-out rows; None for a
        claim without statistical error, which the first two scopes always have.
    groups : tuple
        Labels of the groups that are compared.
    counts : tuple of CellCount
        The counts behind the bound.
    assumptions : tuple of str
        What must be true for the claim to hold.

    Examples
    --------
    >>> from skfairdp.fairness.guarantee import FairnessGuarantee
    >>> claim = FairnessGuarantee("demographic_parity", 0.1042, "deployed model", "exact",
    ...                           confidence_level=0.95, groups=("F", "M"))
    >>> claim.informative, claim.figure
    (True, '0.105')
    """

    notion: str
    bound: float
    scope: str
    method: str
    estimate: float | None = None
    confidence_level: float | None = None
    groups: tuple[Hashable, ...] = ()
    counts: tuple[CellCount, ...] = ()
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        get_notion(self.notion)
        if self.scope not in SCOPES:
            raise ValueError(f"scope={self.scope!r} is not known; use one of {SCOPES}.")
        if (self.confidence_level is None) is (self.scope in _FROM_ROWS):
            raise ValueError(
                f"confidence_level={self.confidence_level!r} contradicts scope={self.scope!r}: "
                f"bounds of the scopes {_FROM_ROWS} are estimated from rows, and no others are."
            )
        if not 0.0 <= self.bound <= 1.0:
            raise ValueError(f"bound={self.bound!r} must lie between 0 and 1.")
        # Labels that JSON does not know are kept as text, so that a stored claim equals itself.
        labels = tuple(label_from_json(json_label(group)) for group in self.groups)
        object.__setattr__(self, "groups", labels)
        object.__setattr__(self, "counts", tuple(self.counts))
        object.__setattr__(self, "assumptions", tuple(self.assumptions))

    @property
    def informative(self) -> bool:
        """False when the bound excludes nothing at the printed precision."""
        return float(rounded_up(self.bound)) < 1.0

    @property
    def figure(self) -> str:
        """The bound for printing: rounded up, or "no useful bound"."""
        return rounded_up(self.bound) if self.informative else "no useful bound"

    @property
    def rates(self) -> str:
        """The compared rates in words."""
        return get_notion(self.notion).rates

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of JSON types.

        Returns
        -------
        dict
        """
        return asdict(self) | {
            "groups": [json_label(group) for group in self.groups],
            "counts": [asdict(count) | {"group": json_label(count.group)} for count in self.counts],
            "assumptions": list(self.assumptions),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild a guarantee from `to_dict`.

        Parameters
        ----------
        values : mapping
            What `to_dict` returned, perhaps after a round trip through JSON. What an
            earlier version said of the deployed model, and is true of an average over
            draws, is read as that.

        Returns
        -------
        FairnessGuarantee
        """
        content = dict(values)
        if content["scope"] == DEPLOYED:
            found = (s for start, s in _AVERAGES.items() if content["method"].startswith(start))
            content["scope"] = next(found, DEPLOYED)
        content["groups"] = tuple(label_from_json(group) for group in content["groups"])
        content["counts"] = tuple(
            CellCount(**(count | {"group": label_from_json(count["group"])}))
            for count in content["counts"]
        )
        return cls(**content)


def rounded_up(value: float, digits: int = 3) -> str:
    """Print a number with `digits` decimals, never smaller than it is.

    Parameters
    ----------
    value : float
        A number, such as an upper bound.
    digits : int, default=3
        Number of decimals.

    Returns
    -------
    str
    """
    scale = 10**digits
    # The slack forgives the last bits of a value that is a round decimal.
    return f"{math.ceil(value * scale - 1e-9) / scale:.{digits}f}"


def json_label(label: Hashable) -> Any:
    """Group label as JSON types; anything but text, numbers and tuples becomes text.

    Parameters
    ----------
    label : hashable
        Group label.

    Returns
    -------
    str, int, float, bool, None or list
    """
    if isinstance(label, tuple):
        return [json_label(part) for part in label]
    return label if isinstance(label, str | int | float | bool | None) else str(label)


def label_from_json(value: Any) -> Hashable:
    """Group label from JSON types.

    Parameters
    ----------
    value : str, int, float, bool, None or list
        What `json_label` returned.

    Returns
    -------
    hashable
    """
    return tuple(label_from_json(part) for part in value) if isinstance(value, list) else value
