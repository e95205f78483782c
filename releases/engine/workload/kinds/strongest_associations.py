"""The pairs of columns that go together most."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb
from typing import Any, ClassVar

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.tables.counts import MAX_DENSE_CELLS
from releases.engine.workload.statistic import Part, Statistic, columns_named, fields_of, register, whole_number

#: Levels of a column at most: neighbouring bins are put together. More would be lost in noise and in a small chart.
MOST_LEVELS = 6
#: Pairs that are named at most: each has a table of its own, and they share its part of the budget.
MOST_NAMED = 6
#: Pairs that are compared at most, and cells that their tables of bins have together: some minutes of counting.
MOST_PAIRS, _MOST_CELLS = 150_000, 2_000_000_000
_FEWEST_COLUMNS = 3


@register
@dataclass(frozen=True, kw_only=True)
class StrongestAssociations(Statistic):
    """The `k` pairs among some columns that go together most, each with a table of its counts.

    How much two columns go together is measured in rows: n times the total variation distance between the table of both
    and the product of the tables of each, over their levels (`levels_of`). It is 0 where they are independent.
    """

    kind: ClassVar[str] = "strongest_associations"
    place: ClassVar[int] = 13
    is_choice: ClassVar[bool] = True
    needs_numbers: ClassVar[bool] = False
    k: int = 3

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> StrongestAssociations:
        fields = fields_of(value, {"columns", "k"}, field=word)
        names = columns_named(fields.get("columns"), universe, field=f"{word}.columns")
        if refusal := refused(names, universe):
            raise InvalidInput(f"{word}.columns", f"{len(names):,} columns", refusal)
        most = min(MOST_NAMED, comb(len(names), 2) - 1)
        return cls(attributes=names, k=whole_number(fields.get("k", min(3, most)), 1, most, field=f"{word}.k"))

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """What is chosen from."""
        return tuple(combinations(self.attributes, 2))

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        places = tuple(f"place {place}" for place in range(1, self.k + 1))
        return (Part(name="strongest associations", rows=places),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: {"columns": list(self.attributes), "k": self.k}}


def refused(names: tuple[str, ...], universe: Universe) -> str:
    """What these columns must be for their pairs to be compared; empty where they are it. From public facts alone."""
    if len(names) < _FEWEST_COLUMNS:
        return f"must be at least {_FEWEST_COLUMNS}; of two, ask for the counts of both"
    if any(universe[name].size < 2 for name in names):
        return "must have at least two bins each"
    if comb(len(names), 2) > MOST_PAIRS:
        return f"must have at most {MOST_PAIRS:,} pairs"
    sizes = [universe[name].size for name in names]
    if (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2 > _MOST_CELLS:
        return f"must have at most {_MOST_CELLS:,} cells in all pairs together; declare wider bins"
    first, second = sorted(sizes)[-2:]
    if first * second > MAX_DENSE_CELLS:
        return f"must have at most {MAX_DENSE_CELLS:,} cells in each pair; declare wider bins"
    return ""


def levels_of(attribute: Attribute) -> tuple[tuple[int, int], ...]:
    """The first and the last bin of each level: `MOST_LEVELS` at most, of neighbours in the declared order.

    The bin for what is no number, or no date, is a level of its own.
    """
    inside = (attribute.ranges if attribute.is_numeric else attribute.in_time) or attribute.size
    apart = range(inside, attribute.size)
    number = min(inside, MOST_LEVELS - len(apart))
    cuts = [inside * place // number for place in range(number + 1)]
    return (*((low, high - 1) for low, high in pairwise(cuts)), *((bin, bin) for bin in apart))


def level_labels(attribute: Attribute) -> tuple[str, ...]:
    """How the levels are written: the bin, or the first and the last of several."""
    labels = attribute.labels
    return tuple(" … ".join(dict.fromkeys((labels[low], labels[high]))) for low, high in levels_of(attribute))
