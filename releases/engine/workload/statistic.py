"""What every statistic other than counts has in common, and the register of them. A release answers one of them.

Each kind says what is asked, in public terms only, and stands in one module of ``kinds/``. Which mechanisms answer it,
with which sensitivity and noise, stands in ``mechanisms/``. Numbers are fixed points in units of their last place
(`Attribute.decimals`), so that a sum does not depend on the order of its terms.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, ClassVar, TypeVar

from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.weights import SurveyWeight


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
    #: Among the kinds as people are told of them: the least comes first.
    place: ClassVar[int]
    #: By which words a workload asks for it; its kind where there is none other.
    words: ClassVar[tuple[str, ...]] = ()
    #: Whether people may ask for it; what a certificate asks is written for them.
    is_offered: ClassVar[bool] = True
    #: Whether the answer is chosen from a list (a category, a value, above or below) rather than measured.
    is_choice: ClassVar[bool] = False
    #: Whether it is a list of chosen things whose length is an answer too.
    is_open: ClassVar[bool] = False
    #: Whether a row without a number in one of its columns does not count.
    needs_numbers: ClassVar[bool] = True
    #: Whether it can be about tables that each count rows of their own: a certificate of a release that has them is.
    takes_own_rows: ClassVar[bool] = False
    attributes: tuple[str, ...]

    @property
    def weight(self) -> SurveyWeight | None:
        """How much rows count; None where all count alike."""
        return None

    @property
    def exact(self) -> tuple[str, ...]:
        """The columns whose dates count by themselves, and not by their bins."""
        return ()

    @classmethod
    @abstractmethod
    def read(cls, word: str, value: object, universe: Universe) -> Statistic:
        """Read what follows one of the words in a workload.

        Raises:
            InvalidInput: naming the field, the value and the rule.
        """

    @abstractmethod
    def parts(self, universe: Universe) -> tuple[Part, ...]:
        """What the answer consists of."""

    @abstractmethod
    def to_json(self, universe: Universe) -> dict[str, Any]: ...

    def as_read(self, universe: Universe) -> Universe:
        """The universe in which its columns are read as it needs them."""
        return universe

    def tells_rows_apart(self, universe: Universe) -> bool:
        """Whether it can come out otherwise for another table of as many rows."""
        return True


#: By how many columns at most a statistic is asked for in groups.
MAX_GROUPING = 3


@dataclass(frozen=True, kw_only=True)
class OfNumbers(Statistic):
    """A number for each of some numeric columns, over all rows or in each group of them.

    Attributes:
        by: columns of categories; each combination of their categories is a group. Empty where it is of all rows.
        weight: how much rows count; None where all count alike.
    """

    by: tuple[str, ...] = ()
    weight: SurveyWeight | None = None

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> OfNumbers:
        if not isinstance(value, dict):
            return cls(attributes=numeric_columns(value, universe, field=word))
        fields = fields_of(value, {"columns", "by", "weighted_by"}, field=word)
        names = numeric_columns(fields.get("columns"), universe, field=f"{word}.columns")
        if "weighted_by" not in fields:
            by = _group_columns(fields.get("by"), universe, field=f"{word}.by")
            return cls(attributes=(*names, *by), by=by)
        by, weight = by_and_weight(fields, universe, word=word)
        if weight.column in names:
            raise InvalidInput(f"{word}.weighted_by", weight.column, "must be another column than those it weighs")
        return cls(attributes=(*names, *by, weight.column), by=by, weight=weight)

    @property
    def of(self) -> tuple[str, ...]:
        """The numeric columns."""
        return self.attributes[: len(self.attributes) - len(self.by) - (self.weight is not None)]

    @property
    def noun(self) -> str:
        """What the numbers are, before the name of their column."""
        return f"{self.kind} of" if self.weight is None else f"weighted {self.kind} of"

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        if not self.by:
            return tuple(Part(name=f"{self.noun} {name}", rows=(name,)) for name in self.of)
        labels, by = group_labels(self.by, universe), " and ".join(self.by)
        return tuple(Part(name=f"{self.noun} {name} by {by}", rows=labels) for name in self.of)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        beside = self.grouping_and_weight()
        return {self.kind: {"columns": list(self.of), **beside} if beside else list(self.of)}

    def grouping_and_weight(self) -> dict[str, Any]:
        """Its groups and its weight, as the workload format has them."""
        by = {"by": list(self.by)} if self.by else {}
        return by if self.weight is None else by | {"weighted_by": self.weight.to_json()}

    def as_read(self, universe: Universe) -> Universe:
        return universe if self.weight is None else self.weight.as_read(universe)


def by_and_weight(fields: Mapping[str, Any], universe: Universe, *, word: str) -> tuple[tuple[str, ...], SurveyWeight]:
    """The columns that make groups, of which there need be none, and the weight."""
    by = _group_columns(fields["by"], universe, field=f"{word}.by") if "by" in fields else ()
    return by, SurveyWeight.read(fields.get("weighted_by"), universe, field=f"{word}.weighted_by")


def group_labels(by: Iterable[str], universe: Universe) -> tuple[str, ...]:
    """What the groups are called: every combination of the categories of those columns, the last column's first."""
    return tuple(", ".join(labels) for labels in product(*(universe[name].labels for name in by)))


def _group_columns(value: object, universe: Universe, *, field: str) -> tuple[str, ...]:
    names = columns_named(value, universe, field=field)
    for name in names:
        if universe[name].is_numeric:
            raise InvalidInput(field, name, "must be a column of categories")
    if len(names) > MAX_GROUPING:
        raise InvalidInput(field, ", ".join(names), f"must be at most {MAX_GROUPING} columns")
    return names


Kind = TypeVar("Kind", bound=type[Statistic])
_registry: list[type[Statistic]] = []


def register(kind: Kind) -> Kind:
    """Make a statistic known by its words."""
    _registry.append(kind)
    return kind


@cache
def statistics_by_word() -> dict[str, type[Statistic]]:
    """Every statistic by each word that asks for it."""
    package = importlib.import_module("releases.engine.workload.kinds")
    for module in pkgutil.iter_modules(package.__path__, prefix=f"{package.__name__}."):
        importlib.import_module(module.name)
    ordered = sorted(_registry, key=lambda kind: kind.place)
    return {word: kind for kind in ordered for word in kind.words or (kind.kind,)}


def offered_words() -> tuple[str, ...]:
    """The words by which people may ask for a statistic."""
    return tuple(word for word, kind in statistics_by_word().items() if kind.is_offered)


def asks_statistic(queries: Iterable[Mapping[str, Any]]) -> bool:
    """Whether queries of the workload format ask for a statistic; the others ask for counts."""
    return any(word in query for query in queries for word in statistics_by_word())


# Reading parts of the workload format


def fields_of(value: object, known: set[str], *, field: str) -> dict[str, Any]:
    """An object with no other fields than those known."""
    if not isinstance(value, dict):
        raise InvalidInput(field, value, f"must be an object with {', '.join(sorted(known))}")
    unknown = set(value) - known
    if unknown:
        raise InvalidInput(field, ", ".join(sorted(map(str, unknown))), "is not a known field")
    return value


def columns_named(value: object, universe: Universe, *, field: str) -> tuple[str, ...]:
    """Declared columns, each once."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed:
        raise InvalidInput(field, value, "must name declared columns")
    for name in listed:
        if not isinstance(name, str) or name not in universe.names:
            raise InvalidInput(field, name, "must name a declared column")
        if listed.count(name) > 1:
            raise InvalidInput(field, name, "is named twice")
    return tuple(listed)


def numeric_columns(value: object, universe: Universe, *, field: str) -> tuple[str, ...]:
    """Declared columns of numbers, each once."""
    names = columns_named(value, universe, field=field)
    for name in names:
        if not universe[name].is_numeric:
            raise InvalidInput(field, name, "must be a numeric column")
    return names


def ranked_column(value: object, universe: Universe, *, field: str) -> tuple[str, ...]:
    """A declared column of numbers or of dates, whose values have an order."""
    names = columns_named([value], universe, field=field)
    if not universe[names[0]].is_numeric and universe[names[0]].dates is None:
        raise InvalidInput(field, names[0], "must be a column of numbers or of dates")
    return names


def whole_number(value: object, low: int, high: int, *, field: str) -> int:
    """A whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidInput(field, value, f"must be a whole number from {low:,} to {high:,}")
    return value
