"""Bins and categories of any table, learned under ε without a declaration."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skfairdp.base import Planned, PrivateEstimator
from skfairdp.base.predictors import FRESH_RELEASES, expecting
from skfairdp.engine.table_release import TableRelease
from skfairdp.exceptions import UtilityWarning, warn_user
from skfairdp.foundation.assumptions import CELLS, COLUMNS, COUNTED_CELLS, one_row_each, seed_known
from skfairdp.foundation.parameters import (
    BOOLEAN,
    MAPPING,
    NONE,
    SEQUENCE,
    Choice,
    Number,
    check_parameters,
)
from skfairdp.preprocessing.binner import ENCODINGS
from skfairdp.preprocessing.cells import (
    days,
    month_and_weekday,
    names_of_parts,
    read_cells,
    refuse_dtype,
)
from skfairdp.preprocessing.columns import (
    checked,
    column,
    column_names,
    interval,
    positions_of,
    refuse_categories,
)
from skfairdp.preprocessing.levels import Categories, Levels, LevelsMixin, public_intervals
from skfairdp.preprocessing.table_levels import MOST_ROWS, learned_levels, table_plan
from skfairdp.privacy.accounting.plan_cost import guarantee
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource, noise_text
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import check_delta
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from skfairdp.receipts.quoted import NOISELESS
from skfairdp.records import Given
from skfairdp.records.identifier_names import looks_like_an_identifier
from skfairdp.records.stored_rows import StoredRows, made_up, refuse_changes

KINDS = ("any", "number", "category", "date", "drop")
_PUBLIC = "public"  # kind of a column whose bounds or categories are declared


class PrivateTableEncoder(LevelsMixin, Planned, PrivateEstimator):
    """Learn bins and categories of a table under ε; nothing has to be declared.

    Every column gets levels: bins of about as many rows each where it holds numbers, the
    categories that are common enough where it holds text, and a level for missing values. They
    are learned from noisy counts, and all that later steps see of the table are these levels.

    Parameters
    ----------
    epsilon : float, default=0.1
        Privacy budget of the whole table in nats, at least 1e-4. Infinity learns without noise,
        for comparison.
    delta : float, default=1e-7
        Probability in (0, 1/n) that the privacy loss exceeds `epsilon`. Half of it is set
        aside for categories of one row that are shown nevertheless.
    n_bins : int, default=64
        Bins of a column of numbers, about, from 2 to 1024; fewer where rows are few.
    columns : mapping of column to kind, tuple or list, or None, default=None
        What is declared, keyed by column label for a DataFrame and by integer position for an
        array: a kind ("number", "category", "date", "drop", or "any", which is chosen by noisy
        counts as that of an undeclared column), public bounds as a tuple
        (low, high), or public categories as a list. Bounds and categories cost nothing. Kinds that
        are not declared are chosen by noisy counts of numbers, texts and dates. A dropped column
        is not looked at.
    id_columns : sequence of columns, default=()
        Identifiers, which are dropped. A column whose name is that of an identifier has to be
        here or in `columns`.

    Attributes
    ----------
    date_columns_ : tuple of str
        Columns that were read as dates, and became three each.
    plan_ : Plan
        Everything the accountant charged.

    See Also
    --------
    skfairdp.preprocessing.PublicBinner : Bins of declared bounds, which cost nothing.
    skfairdp.DPAdditiveClassifier : A glass box on the levels.

    Notes
    -----
    Each cell is read by itself as a number, a text, or missing, so that a single "n/a" does not
    change what the others are. Texts that are not common enough, and unseen ones, share the level
    "(other)". In a column of numbers, a cell that is none is missing. A column in which nothing
    is common enough has one level. A column of dates ("2026-03-01", or a dtype of dates) becomes
    three: bins of the days since 1970-01-01, and month and weekday, which cost nothing.

    References
    ----------
    A. Korolova, K. Kenthapadi, N. Mishra and A. Ntoulas, "Releasing Search Queries and Clicks
    Privately", WWW 2009, for noisy counts with a threshold; the proof for what is done here is
    in the documentation's page on tables.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skfairdp.preprocessing import PrivateTableEncoder
    >>> city = np.where(np.arange(20_000) % 4, "Oslo", "Bonn")
    >>> flats = pd.DataFrame({"city": city, "rooms": np.arange(20_000) % 5})
    >>> flats.loc[0, "city"] = "Svolvær"
    >>> encoder = PrivateTableEncoder().fit(flats)
    >>> encoder.levels_[0][1].known
    ('Bonn', 'Oslo')
    >>> bool(encoder.privacy_.epsilon <= 0.1)
    True
    """

    epsilon: float = field(default=0.1, kw_only=False)
    delta: float = 1e-7
    n_bins: int = 64
    columns: Mapping[Any, str] | None = None
    id_columns: Sequence[Hashable] = ()
    encoding: str = "levels"
    sparse_output: bool | str = "auto"

    _parameters = {
        "epsilon": (Number(1e-4, finite=False),),
        "n_bins": (Number(2, 1024, integer=True),),
        "columns": (MAPPING, NONE),
        "id_columns": (SEQUENCE,),
        "encoding": (Choice(ENCODINGS),),
        "sparse_output": (BOOLEAN, Choice(("auto",))),
    }
    _nets: ClassVar[tuple[str, ...]] = ()
    _takes_persons = True
    _views: ClassVar[tuple[str, ...]] = ("plan_", "privacy_")

    date_columns_: tuple[str, ...] = field(init=False)
    levels_: tuple[tuple[str, Levels], ...] = field(init=False)
    n_features_in_: int = field(init=False)

    def fit(
        self,
        X: ArrayLike | pd.DataFrame,
        y: object = None,
        *,
        sensitive_features: ArrayLike | None = None,
        person_ids: ArrayLike | None = None,
    ) -> Self:
        """Learn the levels of each column.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n_samples, n_features)
            Private rows: numbers, text, missing values, in any mixture. Of a `numpy.memmap` and of
            `skfairdp.datasets.ParquetRows` one column at a time is in memory.
        y : None
            Ignored.
        sensitive_features : None
            Ignored; a column of `X` is protected whatever it holds.
        person_ids : array-like, shape (n_samples,), optional
            Whose row it is, where a person may have several: one of them, drawn by chance, is
            counted, and the promise is about all of them.
        """
        return super().fit(X, y, sensitive_features=None, person_ids=person_ids)  # type: ignore[arg-type]

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        check_parameters(self, self._parameters)
        X = checked(self, given.X, reset=True, mixed=True)
        names = column_names(X)
        kinds = self._kinds(names)
        some = made_up(X) if isinstance(X, StoredRows) else X
        for place, kind in enumerate(kinds):
            if kind != "drop":
                refuse_dtype(column(some, place), names[place])
        kept = [place for place, kind in enumerate(kinds) if kind not in ("drop", _PUBLIC)]
        persons, noise = given.persons(len(X)), self._randomness()[1]
        if len(X) > MOST_ROWS:
            raise ValueError(
                "X has more rows than exact noise is proved for, about 8 million; fit on a part "
                "that was drawn without looking at the rows."
            )
        facts = RowFacts.of(len(X), None, persons, unit=given.unit, columns=tuple(names))
        quote = self._priced(facts, noise)
        plan = quote.plan
        assert plan is not None
        charge(quote.charge)  # before a cell reaches the engine
        counted: Any = slice(None)
        if persons is not None:  # before texts are listed: of a person's, one occurs
            counted = persons.one_row_each(noise.sampling.integers)
        # One column at a time: its cells take more memory than the column.
        cells = lru_cache(maxsize=1)(lambda at: read_cells(column(X, kept[at]).iloc[counted]))
        release = TableRelease(cells, plan, noise)
        segments = iter(plan.segments)
        levels: list[tuple[str, Levels]] = []
        dates: list[str] = []
        labels = self._labels()
        for place, kind in enumerate(kinds):
            if kind == "drop":
                continue
            if kind == _PUBLIC:
                levels.append((labels[place], self._public_levels(names[place])))
                continue
            found = learned_levels(release, segments, kept.index(place), kind, self.n_bins)
            of_date = len(found) > 1
            dates += [labels[place]] * of_date
            parts = names_of_parts(labels[place]) if of_date else (labels[place],)
            levels += zip(parts, found, strict=True)
        release.meter.finish()
        if isinstance(X, StoredRows):
            refuse_changes(X)
        blank = [label for label, found in levels if found == Categories(())]
        if blank:  # what was released says so
            warn_user(
                f"Nothing was learned of {', '.join(map(repr, blank))}: none of the values there "
                "is seen often enough, so all of them are '(other)', which tells a model nothing. "
                "Write dates as 2026-03-01 or 1.3.2026, and numbers without units; join rare "
                "values; declare public categories (of a file: by --schema); or leave such columns "
                "out (--drop).",
                UtilityWarning,
            )
        self.levels_, self.date_columns_ = tuple(levels), tuple(dates)
        return Receipt(quote)

    def _priced(self, facts: RowFacts, noise: NoiseSource) -> Quote:
        named = zip(facts.columns, self._kinds(list(facts.columns)), strict=True)
        kept = [(name, kind) for name, kind in named if kind not in ("drop", _PUBLIC)]
        plan = table_plan(kept, self.epsilon, self.delta)
        check_delta(self.delta, facts.n, public=False)
        stated = self._guarantee(plan, noise, facts.unit)
        name, crowd = type(self).__name__, float(facts.n)
        return Quote(name, facts, stated, plan, charge=stated or NOISELESS, crowd=crowd)

    def _facts_of_fit(self, facts: RowFacts) -> RowFacts:
        if not facts.columns:
            raise ValueError(
                "'columns' is needed, the names of the table's columns: each is counted. For an "
                "array give 'n_features'."
            )
        return super()._facts_of_fit(facts)

    def _kinds(self, names: list[Hashable]) -> list[str | None]:
        """Declared kind of each column; None where it has to be learned."""
        given = dict(self.columns or {})
        wrong = {n: k for n, k in given.items() if not isinstance(k, tuple | list) | (k in KINDS)}
        if wrong:
            raise ValueError(
                f"'columns' must map columns to one of {KINDS}, to a tuple (low, high) or to a "
                f"list of categories; got {wrong!r}."
            )
        declared = {n: k if isinstance(k, str) else _PUBLIC for n, k in given.items()}
        for name, kind in declared.items():
            if kind == _PUBLIC:
                self._public_levels(name)
        positions_of(declared, names, "columns")
        positions_of(self.id_columns, names, "id_columns")
        declared |= dict.fromkeys(self.id_columns, "drop")
        alike = [n for n in names if n not in declared and looks_like_an_identifier(n)]
        if alike:
            raise ValueError(
                f"Columns {alike!r} have names of identifiers, which only identify people. List "
                "them in id_columns, which drops them, or declare their kind in columns."
            )
        texts = [str(name) for name in names]
        if len(set(texts)) < len(texts):
            raise ValueError("'X' has several columns of one name; rename them.")
        kinds = [None if declared.get(n) == "any" else declared.get(n) for n in names]
        if all(kind in ("drop", _PUBLIC) for kind in kinds):
            raise ValueError(
                "Every column is dropped or public, and nothing is left to learn: keep at least "
                "one, or take PublicBinner."
            )
        return kinds

    def _public_levels(self, name: Hashable) -> Levels:
        declared: Any = (self.columns or {})[name]
        if isinstance(declared, list):
            refuse_categories({name: declared})
            cells = read_cells(pd.Series(declared, dtype=object))
            texts, distinct = cells.as_texts()
            return Categories(tuple(distinct[text] for text in texts))
        low, high = interval(declared, f"columns[{name!r}]", largest=1e300)
        return public_intervals(low, high, self.n_bins)

    def _guarantee(self, plan: Plan, noise: NoiseSource, unit: str) -> PrivacyGuarantee | None:
        if plan.noiseless:
            return None
        if noise.reproducible:
            return PrivacyGuarantee.void(seed_known(), adjacency="add-remove", protects=unit)
        return guarantee(
            plan,
            protects=unit,
            budget=self.epsilon,
            assumptions=(
                COLUMNS,
                noise_text(noise),
                *one_row_each(persons=unit == "person"),
                COUNTED_CELLS,
                CELLS,
            ),
        )

    def transform(self, X: ArrayLike | pd.DataFrame) -> pd.DataFrame | NDArray[np.float64]:
        """Find the level of each cell; rows on disk are read in one pass.

        Returns
        -------
        DataFrame or ndarray of float64
            As `encoding` says.
        """
        check_is_fitted(self)
        X = checked(self, X, reset=False, mixed=True)
        known = dict(self.levels_)
        tables: list[pd.DataFrame] = []
        for part in X.chunks() if isinstance(X, StoredRows) else (X,):
            codes: list[NDArray[np.int64]] = []
            for place, label in enumerate(self._labels()):
                if label in self.date_columns_:
                    day = days(read_cells(column(part, place)))
                    first = known[names_of_parts(label)[0]].codes(day)
                    codes += [first, *month_and_weekday(day)]
                elif label in known:
                    level, cells = known[label], read_cells(column(part, place))
                    if isinstance(level, Categories):
                        texts, distinct = cells.as_texts()
                        among = level.codes(np.array([*distinct, ""], dtype=object))
                        codes.append(np.where(texts < 0, -1, among[texts]))
                    else:
                        codes.append(level.codes(cells.numbers))
            tables.append(self._frame(codes, getattr(part, "index", None)))
        return self._output(tables, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = not self.reproducible_noise
        return expecting(tags, FRESH_RELEASES if tags.non_deterministic else {})
