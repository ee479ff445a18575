"""Relations of a guarantee: each with its words and its composition, in one record.

A guarantee is about two data sets that differ in one record (`Neighbours`), and protects
something of that record (`Protected`). To add one, add its record here, with what it implies
in another relation; all that accounts, states or prints reads the records, and
``tests/privacy/test_relations.py`` goes through them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dp_accounting import NeighboringRelation


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Difference between two neighbouring data sets."""

    words: str  # One sentence for readers
    # Relation under which dp_accounting knows a release's event; None: an event has no cost
    # here, and guarantees compose by their figures
    accounted: NeighboringRelation | None
    places: int = 1  # In how many places the record may show: 2 where another takes its place
    # Whether it leaves one cell and joins another: both directions are then charged together
    two_cells: bool = False
    shows_group: bool = False  # Whether neighbours agree in the record's group: not protected
    public_rows: bool = False  # Whether they agree in features and labels of all records
    not_claimed: tuple[str, ...] = ()  # What a reader might think is protected, and is not

    def __post_init__(self) -> None:
        """Refuse a number of places that the accountant of the relation would not charge."""
        replaced = self.accounted is NeighboringRelation.REPLACE_ONE
        if self.accounted is not None and (self.places == 2) != (replaced or self.two_cells):
            raise ValueError(
                "'places' must be 2 where a record is replaced or changes cells, and 1 elsewhere; "
                f"got {self.places!r} for {self.accounted}."
            )


@dataclass(frozen=True, kw_only=True)
class Protected:
    """Protected part of a record."""

    words: str  # For readers, after "protects"
    # For the sentence of a certificate, before "with ε = ..."; {records}: those that are meant
    clause: str
    whole_record: bool = False  # All of it: counts of held-out records are then counted in
    told_by: str = "the model"  # The release that reveals little about the protected people
    subject: str = "the training records"  # Whose privacy it is, for headings
    unit: str = "record"  # What neighbouring data sets differ in
    not_claimed: tuple[str, ...]  # What a reader might think is protected, and is not


NEIGHBOURS: dict[str, Neighbours] = {
    "add-remove": Neighbours(
        words="one record is added or removed; sizes were declared as public constants",
        accounted=NeighboringRelation.ADD_OR_REMOVE_ONE,
    ),
    "zero-out": Neighbours(
        words=(
            "one record is replaced by an empty record of the same group that contributes "
            "nothing; who is in which group, the group sizes and the set of class labels are "
            "treated as public"
        ),
        accounted=NeighboringRelation.REPLACE_SPECIAL,
        shows_group=True,
        not_claimed=("Secrecy of the number of records, of groups or of class labels.",),
    ),
    "replace-one": Neighbours(
        words="one record is replaced by another record of the same group",
        accounted=NeighboringRelation.REPLACE_ONE,
        places=2,
        shows_group=True,
    ),
    "change-attribute": Neighbours(
        words="the sensitive attribute of one record changes",
        # One cell loses a record and another gains it: the library knows each half.
        accounted=NeighboringRelation.ADD_OR_REMOVE_ONE,
        places=2,
        two_cells=True,
        public_rows=True,
    ),
    "local": Neighbours(
        words="one record is replaced by any other before it leaves its owner",
        accounted=None,
    ),
}

_OF_TRAINING = (
    "Privacy of people whose rows are only scored with the model.",
    "Secrecy of what is true of people in general: the model may reveal about a person what can "
    "be inferred from others like them.",
    "Privacy of this data set against other models trained on it: their costs compose, and only a "
    "ledger that all of them charge knows the total.",
)

PROTECTED: dict[str, Protected] = {
    "record": Protected(
        words="everything about one training record",
        clause="the {records} are protected",
        whole_record=True,
        not_claimed=_OF_TRAINING,
    ),
    "person": Protected(
        words="everything about one person, all rows",
        clause="the people behind the {records}, with all their rows, are protected",
        whole_record=True,
        subject="the people in the training records",
        unit="person",
        not_claimed=(
            *_OF_TRAINING,
            "Privacy of a person who is in the data under several ids.",
        ),
    ),
    "sensitive_features": Protected(
        words=(
            "the sensitive attribute only; features and labels have no protection, and a "
            "feature that predicts the attribute reveals it"
        ),
        clause="the sensitive features of the training records are protected",
        not_claimed=(
            *_OF_TRAINING,
            "Protection of features and labels: only who has which sensitive attribute is "
            "protected, and a feature that predicts it reveals it.",
        ),
    ),
    "released_representation": Protected(
        words="one record behind its released representation",
        clause="each person is protected in what was released of them, and in nothing else,",
        told_by="the releases",
        subject="what was released",
        not_claimed=(
            "Privacy of the people whose rows the weights were learned from, beyond what is "
            "assumed above.",
            "Privacy of what reaches others in another way than through a release: labels, "
            "groups, further columns.",
            "Privacy after further releases, which cost more, or releases that were not counted.",
        ),
    ),
}

_REMOVED, _BLANKED = ("add-remove", "record"), ("zero-out", "record")
_PERSON_REMOVED, _PERSON_BLANKED = ("add-remove", "person"), ("zero-out", "person")
_ATTRIBUTE = "change-attribute", "sensitive_features"
_LOCAL = "local", "released_representation"

# What a guarantee of the first relation says in the second. "event": the same events. "twice":
# whatever changes about a record, it is removed and another one added. "figures": the same
# epsilon and delta, for the owner's record is replaced by any other, a blank one too, before it is
# released. A pair that is not here says nothing.
IMPLIED: dict[tuple[tuple[str, str], tuple[str, str]], str] = {
    (_REMOVED, _BLANKED): "event",
    (_PERSON_REMOVED, _PERSON_BLANKED): "event",
    # Another row, or none: the person is removed, and added with the other rows.
    (_PERSON_REMOVED, _REMOVED): "twice",
    (_PERSON_REMOVED, _BLANKED): "twice",
    (_PERSON_BLANKED, _BLANKED): "twice",
    (_REMOVED, _ATTRIBUTE): "twice",
    (_REMOVED, _LOCAL): "twice",
    (_LOCAL, _ATTRIBUTE): "figures",
    (_LOCAL, _BLANKED): "figures",
}


class _Words(Mapping[str, str]):
    """Descriptions of relations or of protected parts, by name."""

    def __init__(self, records: Mapping[str, Neighbours | Protected]) -> None:
        self._records = records

    def __getitem__(self, name: str) -> str:
        return self._records[name].words

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


ADJACENCIES: Mapping[str, str] = _Words(NEIGHBOURS)
PROTECTS: Mapping[str, str] = _Words(PROTECTED)


def accounted(adjacency: str) -> NeighboringRelation | None:
    """Relation under which dp_accounting knows the events of a plan; None where none does."""
    record = NEIGHBOURS.get(adjacency)
    return None if record is None else record.accounted


def protected_text(protects: str, adjacency: str) -> str:
    """Name the protected part of a record, without parts that neighbours share."""
    record = PROTECTED[protects]
    if not record.whole_record or not NEIGHBOURS[adjacency].shows_group:
        return record.words
    return record.words + (" except its group" if record.unit == "record" else ", except the group")


def neighbours_text(protects: str, adjacency: str) -> str:
    """Describe the difference between neighbouring data sets."""
    words, unit = NEIGHBOURS[adjacency].words, PROTECTED[protects].unit
    if unit == "record":
        return words
    return words.replace("an empty record", "an empty one").replace(
        "one record", f"one {unit}, with all rows,"
    )


def check_name(parameter: str, name: str, allowed: Mapping[str, object]) -> None:
    """Raise a ValueError that names the parameter unless `name` is one of `allowed`."""
    if name not in allowed:
        raise ValueError(f"{parameter}={name!r} is not known: use one of {sorted(allowed)}")
