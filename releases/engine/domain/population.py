"""The population of a count: which rows count, how a person's rows are bounded, and which neighbours it hides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.domain.impossible import Combination
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Population:
    """What a table of counts is about. Two tables of one population have the same true total, and the same rows make
    it up; those of different ones need not agree in any cell. So fits, least squares and combined intervals take
    numbers of one population alone: see `one_population`.

    Attributes:
        counted: rows, or persons.
        unit, neighbours: whom noise on such counts hides, and among which tables.
        dropping: the columns that leave rows out by their declared rules, by name.
        left_out: the combinations of bins whose rows are left out.
        bounded_by: the columns whose values decide which rows of a person are kept, by name; none where no row of a
            person has to go.
        is_bounded_first: whether a person's rows are bounded before any of these rules leaves one out.
        beside: the population of other tables of the same counts: rows are counted in some, and persons in others.
    """

    counted: Counted
    unit: PrivacyUnit
    neighbours: NeighbouringRelation
    dropping: tuple[Attribute, ...]
    left_out: tuple[Combination, ...] = ()
    bounded_by: tuple[Attribute, ...] = ()
    is_bounded_first: bool = False
    beside: Population | None = None

    @property
    def rows_may_vanish(self) -> bool:
        """Whether a unit may have other numbers of counted rows, down to none, when its value is replaced.

        A row that is replaced stays a row unless a declared rule drops it. A person has from none to `max_rows` rows,
        whatever the columns are.
        """
        return bool(self.dropping or self.left_out) or self.unit.kind == "person"

    @property
    def total_is_public(self) -> bool:
        """Whether the number of counted rows is public: neighbours replace a unit, and it has one row in either."""
        return self.neighbours is NeighbouringRelation.REPLACE and not self.rows_may_vanish


def one_population(populations: Iterable[Population | None]) -> Population | None:
    """The population of numbers that are to be combined; None where all are of tables from elsewhere.

    Raises:
        InvalidInput: they are of several, as numbers of rows and of persons are.
    """
    found: list[Population | None] = []
    for each in chain.from_iterable(map(_apart, populations)):
        if not any(each is known or each == known for known in found):
            found.append(each)
    if len(found) != 1:
        rule = "must be of one: the same rows count, a person's are bounded alike, and the same neighbours are hidden"
        raise InvalidInput("population", f"{len(found)} populations", rule)
    return found[0]


def _apart(population: Population | None) -> tuple[Population | None, ...]:
    if population is None or population.beside is None:
        return (population,)
    return replace(population, beside=None), population.beside
