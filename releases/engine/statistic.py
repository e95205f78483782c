"""Statistics other than counts: what can be asked of a table beyond linear queries. A release answers one of them.

Each says what is asked, in public terms only. Which mechanisms answer it, with which sensitivity and noise, stands in
``mechanisms/``. Numbers are fixed points in units of their last place (`Attribute.decimals`), so that a sum does not
depend on the order of its terms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, ClassVar

from releases.engine.errors import InvalidInput
from releases.engine.privacy import decimal_text, exact
from releases.engine.universe import Universe, number


@dataclass(frozen=True, kw_only=True)
class Part:
    """Numbers or choices of one answer that share a bound.

    Attributes:
        name: what they are of, as a title.
        rows: what each is of, one label each.
    """

    name: str
    rows: tuple[str, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """The heading under which the rows stand."""
        return ("of",)

    def cells(self, universe: Universe) -> int:
        return len(self.rows)

    def title(self, universe: Universe) -> str:
        return self.name

    def labels(self, universe: Universe) -> Iterator[tuple[str, ...]]:
        for row in self.rows:
            yield (row,)


@dataclass(frozen=True, kw_only=True)
class Statistic(ABC):
    """One question about some attributes.

    Attributes:
        attributes: the columns it reads, in the order asked.
    """

    kind: ClassVar[str]
    #: Whether the answer is chosen from a list (a category, a value, above or below) rather than measured.
    is_choice: ClassVar[bool] = False
    #: Whether it is a list of chosen things whose length is an answer too.
    is_open: ClassVar[bool] = False
    attributes: tuple[str, ...]

    @abstractmethod
    def parts(self, universe: Universe) -> tuple[Part, ...]:
        """What the answer consists of."""

    @abstractmethod
    def to_json(self, universe: Universe) -> dict[str, Any]: ...

    def tells_rows_apart(self, universe: Universe) -> bool:
        """Whether it can come out otherwise for another table of as many rows."""
        return True


@dataclass(frozen=True, kw_only=True)
class Sum(Statistic):
    """The sum of each numeric column, over all rows."""

    kind: ClassVar[str] = "sum"

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return tuple(Part(name=f"sum of {name}", rows=(name,)) for name in self.attributes)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: list(self.attributes)}


@dataclass(frozen=True, kw_only=True)
class Mean(Statistic):
    """The mean of each numeric column: a sum over a count, both paid for."""

    kind: ClassVar[str] = "mean"

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return tuple(Part(name=f"mean of {name}", rows=(name,)) for name in self.attributes)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: list(self.attributes)}


@dataclass(frozen=True, kw_only=True)
class SecondMoments(Statistic):
    """The Gram matrix of numeric columns: the sum over rows of each product of two of them."""

    kind: ClassVar[str] = "second_moments"

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The entries of the upper triangle, row by row."""
        return tuple(combinations_with_replacement(self.attributes, 2))

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return tuple(Part(name=f"sum of {one} × {other}", rows=(f"{one} × {other}",)) for one, other in self.pairs())

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: list(self.attributes)}


@dataclass(frozen=True, kw_only=True)
class Votes(Statistic):
    """How many rows have `category` in each of several columns, where a row counts in `ballots` of them at most.

    A row with more counts in the first `ballots` of its columns, in the order asked.
    """

    kind: ClassVar[str] = "votes"
    category: str
    ballots: int

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return (Part(name=f"rows with {self.category}, at most {self.ballots} a row", rows=self.attributes),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: {"columns": list(self.attributes), "category": self.category, "ballots": self.ballots}}

    def tells_rows_apart(self, universe: Universe) -> bool:
        return any(universe[name].size > 1 for name in self.attributes)


@dataclass(frozen=True, kw_only=True)
class MostCommon(Statistic):
    """The `k` bins of one column that most rows have, in falling order."""

    kind: ClassVar[str] = "most_common"
    is_choice: ClassVar[bool] = True
    k: int = 1

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        (name,) = self.attributes
        if self.k == 1:
            return (Part(name=f"most common {name}", rows=(name,)),)
        places = tuple(f"place {place}" for place in range(1, self.k + 1))
        return (Part(name=f"{self.k} most common of {name}", rows=places),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: self.attributes[0]} if self.k == 1 else {"top": {"column": self.attributes[0], "k": self.k}}


@dataclass(frozen=True, kw_only=True)
class LargestCount(Statistic):
    """Which of several predicates most rows meet. A row may meet any number of them.

    Attributes:
        predicates: for each candidate its attributes and, for each, the accepted bins.
    """

    kind: ClassVar[str] = "largest_count"
    is_choice: ClassVar[bool] = True
    predicates: tuple[tuple[tuple[str, ...], tuple[tuple[int, ...], ...]], ...]

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return (Part(name=f"largest of {len(self.predicates)} counts", rows=("largest",)),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        from releases.engine.workload import Count

        return {
            self.kind: [
                Count(attributes=names, bins=bins).to_json(universe)["count"] for names, bins in self.predicates
            ]
        }

    def tells_rows_apart(self, universe: Universe) -> bool:
        return _tell_rows_apart(self.predicates, universe)


@dataclass(frozen=True, kw_only=True)
class Quantile(Statistic):
    """A value of a numeric column with a share `at` of the rows at or below it; 1/2 is the median."""

    kind: ClassVar[str] = "quantile"
    at: Fraction = Fraction(1, 2)

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        (name,) = self.attributes
        word = "median" if self.at == Fraction(1, 2) else f"{decimal_text(self.at * 100, places=6)}% quantile"
        return (Part(name=f"{word} of {name}", rows=(name,)),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        if self.at == Fraction(1, 2):
            return {"median": self.attributes[0]}
        return {self.kind: {"column": self.attributes[0], "at": decimal_text(self.at, places=12)}}


@dataclass(frozen=True, kw_only=True)
class Range(Statistic):
    """Two values of a numeric column with a share `inside` of the rows from one to the other, and as many of the rest
    below the lower as above the upper: the quantiles at (1 - inside) / 2 and (1 + inside) / 2.
    """

    kind: ClassVar[str] = "range"
    is_choice: ClassVar[bool] = True
    inside: Fraction = Fraction(98, 100)

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The shares of the rows at or below either end."""
        return (1 - self.inside) / 2, (1 + self.inside) / 2

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        (name,) = self.attributes
        share = decimal_text(self.inside * 100, places=6)
        return (Part(name=f"range that holds {share}% of {name}", rows=("lowest", "highest")),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: {"column": self.attributes[0], "inside": decimal_text(self.inside, places=12)}}


@dataclass(frozen=True, kw_only=True)
class Categories(Statistic):
    """Values of a categorical column that are not declared as its categories and that many rows have: which there are,
    not how many rows have each.
    """

    kind: ClassVar[str] = "categories"
    is_choice: ClassVar[bool] = True
    is_open: ClassVar[bool] = True

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        return (Part(name=f"values of {self.attributes[0]} that are not declared", rows=self.attributes),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: self.attributes[0]}


@dataclass(frozen=True, kw_only=True)
class Threshold(Statistic):
    """A stream of counts, each asked in turn: is it above a public threshold? It stops after `answers` times yes.

    Attributes:
        predicates: the counts asked, in order, as in `LargestCount`.
        above: the threshold, in rows.
        answers: after so many times yes it stops.
    """

    kind: ClassVar[str] = "threshold"
    is_choice: ClassVar[bool] = True
    predicates: tuple[tuple[tuple[str, ...], tuple[tuple[int, ...], ...]], ...]
    above: int
    answers: int = 1

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        from releases.engine.workload import Count

        asked = tuple(Count(attributes=names, bins=bins).title(universe) for names, bins in self.predicates)
        return (Part(name=f"which counts pass {self.above:,} rows, until {self.answers} have", rows=asked),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        from releases.engine.workload import Count

        counts = [Count(attributes=names, bins=bins).to_json(universe)["count"] for names, bins in self.predicates]
        return {self.kind: {"counts": counts, "above": self.above, "answers": self.answers}}

    def tells_rows_apart(self, universe: Universe) -> bool:
        return _tell_rows_apart(self.predicates, universe)


@dataclass(frozen=True, kw_only=True)
class Survey(Statistic):
    """How many rows have each category of one column, where every row's own answer is randomised."""

    kind: ClassVar[str] = "survey"

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        (name,) = self.attributes
        return (Part(name=f"randomised answers to {name}", rows=universe[name].labels),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: self.attributes[0]}


def read_statistic(kind: str, value: object, universe: Universe) -> Statistic:
    """Read one statistic of the workload format.

    Raises:
        InvalidInput: naming the field, the value and the rule.
    """
    return _READERS[kind](value, universe)


def _read_sum(value: object, universe: Universe) -> Statistic:
    return Sum(attributes=_numeric(value, universe, field="sum"))


def _read_mean(value: object, universe: Universe) -> Statistic:
    return Mean(attributes=_numeric(value, universe, field="mean"))


def _read_second_moments(value: object, universe: Universe) -> Statistic:
    return SecondMoments(attributes=_numeric(value, universe, field="second_moments"))


def _read_votes(value: object, universe: Universe) -> Statistic:
    fields = _fields(value, {"columns", "category", "ballots"}, field="votes")
    names = _names(fields.get("columns"), universe, field="votes.columns")
    category = fields.get("category")
    for name in names:
        if universe[name].is_numeric or category not in universe[name].categories:
            raise InvalidInput("votes.category", category, f"must be a category of every column; {name} has none such")
    ballots = _whole(fields.get("ballots", len(names)), 1, len(names), field="votes.ballots")
    return Votes(attributes=names, category=str(category), ballots=ballots)


def _read_most_common(value: object, universe: Universe) -> Statistic:
    return MostCommon(attributes=_names([value], universe, field="most_common"))


def _read_top(value: object, universe: Universe) -> Statistic:
    fields = _fields(value, {"column", "k"}, field="top")
    names = _names([fields.get("column")], universe, field="top.column")
    return MostCommon(attributes=names, k=_whole(fields.get("k", 1), 1, universe[names[0]].size, field="top.k"))


def _read_largest_count(value: object, universe: Universe) -> Statistic:
    predicates = _predicates(value, universe, field="largest_count")
    if len(predicates) < 2:
        raise InvalidInput("largest_count", len(predicates), "must hold at least two predicates")
    return LargestCount(attributes=_used(predicates, universe), predicates=predicates)


def _read_median(value: object, universe: Universe) -> Statistic:
    return Quantile(attributes=_numeric([value], universe, field="median"))


def _read_quantile(value: object, universe: Universe) -> Statistic:
    fields = _fields(value, {"column", "at"}, field="quantile")
    names = _numeric([fields.get("column")], universe, field="quantile.column")
    at = exact(str(number(fields.get("at"), field="quantile.at")), field="quantile.at")
    if not 0 < at < 1:
        raise InvalidInput("quantile.at", fields.get("at"), "must be above 0 and below 1")
    return Quantile(attributes=names, at=at)


def _read_range(value: object, universe: Universe) -> Statistic:
    fields = _fields(value, {"column", "inside"}, field="range")
    names = _numeric([fields.get("column")], universe, field="range.column")
    inside = exact(str(number(fields.get("inside"), field="range.inside")), field="range.inside")
    if not 0 < inside < 1:
        raise InvalidInput("range.inside", fields.get("inside"), "must be above 0 and below 1 (0.98 for 98%)")
    return Range(attributes=names, inside=inside)


def _read_categories(value: object, universe: Universe) -> Statistic:
    names = _names([value], universe, field="categories")
    if universe[names[0]].is_numeric:
        raise InvalidInput("categories", names[0], "must be a categorical column")
    return Categories(attributes=names)


def _read_threshold(value: object, universe: Universe) -> Statistic:
    fields = _fields(value, {"counts", "above", "answers"}, field="threshold")
    predicates = _predicates(fields.get("counts"), universe, field="threshold.counts")
    return Threshold(
        attributes=_used(predicates, universe),
        predicates=predicates,
        above=_whole(fields.get("above"), 0, 10**12, field="threshold.above"),
        answers=_whole(fields.get("answers", 1), 1, len(predicates), field="threshold.answers"),
    )


def _read_survey(value: object, universe: Universe) -> Statistic:
    names = _names([value], universe, field="survey")
    if universe[names[0]].size < 2:
        raise InvalidInput("survey", names[0], "must have at least two bins")
    return Survey(attributes=names)


def _read_largest_error(value: object, universe: Universe) -> Statistic:
    # Imported here: it is a question about a workload, and a workload's reader comes here for its statistics.
    from releases.engine.largest_error import read_largest_error

    return read_largest_error(value, universe)


_READERS = {
    "sum": _read_sum,
    "mean": _read_mean,
    "second_moments": _read_second_moments,
    "votes": _read_votes,
    "most_common": _read_most_common,
    "top": _read_top,
    "largest_count": _read_largest_count,
    "median": _read_median,
    "quantile": _read_quantile,
    "range": _read_range,
    "categories": _read_categories,
    "threshold": _read_threshold,
    "survey": _read_survey,
    "largest_error": _read_largest_error,
}
#: The words by which a workload asks for a statistic.
STATISTIC_WORDS = tuple(_READERS)
#: Those of them that a person may choose; what a certificate asks is written for them.
OFFERED_WORDS = tuple(word for word in STATISTIC_WORDS if word != "largest_error")


def _fields(value: object, known: set[str], *, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(field, value, f"must be an object with {', '.join(sorted(known))}")
    unknown = set(value) - known
    if unknown:
        raise InvalidInput(field, ", ".join(sorted(map(str, unknown))), "is not a known field")
    return value


def _names(value: object, universe: Universe, *, field: str) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed:
        raise InvalidInput(field, value, "must name declared columns")
    for name in listed:
        if not isinstance(name, str) or name not in universe.names:
            raise InvalidInput(field, name, "must name a declared column")
        if listed.count(name) > 1:
            raise InvalidInput(field, name, "is named twice")
    return tuple(listed)


def _numeric(value: object, universe: Universe, *, field: str) -> tuple[str, ...]:
    names = _names(value, universe, field=field)
    for name in names:
        if not universe[name].is_numeric:
            raise InvalidInput(field, name, "must be a numeric column")
    return names


def _whole(value: object, low: int, high: int, *, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidInput(field, value, f"must be a whole number from {low:,} to {high:,}")
    return value


_Predicates = tuple[tuple[tuple[str, ...], tuple[tuple[int, ...], ...]], ...]


def _predicates(value: object, universe: Universe, *, field: str) -> _Predicates:
    from releases.engine.workload import read_count

    if not isinstance(value, list) or not value:
        raise InvalidInput(field, value, "must be a list of predicates")
    counts = [read_count(each, universe) for each in value]
    return tuple((count.attributes, count.bins) for count in counts)


def _tell_rows_apart(predicates: _Predicates, universe: Universe) -> bool:
    from releases.engine.workload import Count

    return any(Count(attributes=names, bins=bins).tells_rows_apart(universe) for names, bins in predicates)


def _used(predicates: _Predicates, universe: Universe) -> tuple[str, ...]:
    used = {name for names, _ in predicates for name in names}
    return tuple(sorted(used, key=universe.axis))
