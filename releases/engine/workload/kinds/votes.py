"""Rows with a category in each of several columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.statistic import Part, Statistic, columns_named, fields_of, register, whole_number


@register
@dataclass(frozen=True, kw_only=True)
class Votes(Statistic):
    """How many rows have `category` in each of several columns, where a row counts in `ballots` of them at most.

    A row with more counts in the first `ballots` of its columns, in the order asked.
    """

    kind: ClassVar[str] = "votes"
    place: ClassVar[int] = 4
    category: str
    ballots: int

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> Votes:
        fields = fields_of(value, {"columns", "category", "ballots"}, field="votes")
        names = columns_named(fields.get("columns"), universe, field="votes.columns")
        category = fields.get("category")
        for name in names:
            if universe[name].is_numeric or category not in universe[name].categories:
                raise InvalidInput(
                    "votes.category", category, f"must be a category of every column; {name} has none such"
                )
        ballots = whole_number(fields.get("ballots", len(names)), 1, len(names), field="votes.ballots")
        return cls(attributes=names, category=str(category), ballots=ballots)

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        counted = universe[self.attributes[0]].counted
        name = f"{counted.many} with {self.category}, at most {self.ballots} a {counted.one}"
        return (Part(name=name, rows=self.attributes),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {self.kind: {"columns": list(self.attributes), "category": self.category, "ballots": self.ballots}}

    def tells_rows_apart(self, universe: Universe) -> bool:
        return any(universe[name].size > 1 for name in self.attributes)
