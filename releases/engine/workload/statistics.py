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

from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Universe
from releases.engine.workload.queries import Count


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
        asked = tuple(Count(attributes=names, bins=bins).title(universe) for names, bins in self.predicates)
        return (Part(name=f"which counts pass {self.above:,} rows, until {self.answers} have", rows=asked),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
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


Predicates = tuple[tuple[tuple[str, ...], tuple[tuple[int, ...], ...]], ...]


def _tell_rows_apart(predicates: Predicates, universe: Universe) -> bool:
    return any(Count(attributes=names, bins=bins).tells_rows_apart(universe) for names, bins in predicates)


def columns_used(predicates: Predicates, universe: Universe) -> tuple[str, ...]:
    used = {name for names, _ in predicates for name in names}
    return tuple(sorted(used, key=universe.axis))
