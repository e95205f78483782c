"""What a release answers: counts, or one statistic; and the columns that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.dates import Dates
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.workload.queries import WORKLOAD_VERSION, Workload
from releases.engine.workload.statistic import Part, Statistic
from releases.engine.workload.weights import SurveyWeight


@dataclass(frozen=True, kw_only=True)
class Inquiry:
    """One statistic asked of a table, where a `Workload` asks for counts. Pages and files treat both alike."""

    is_counts: ClassVar[bool] = False
    universe: Universe
    statistic: Statistic

    def __post_init__(self) -> None:
        if self.statistic.needs_numbers:
            ordered = self.universe.ordered(self.universe.names)
            object.__setattr__(self, "universe", self.statistic.as_read(ordered.exactly(self.statistic.exact)))

    @property
    def is_offered(self) -> bool:
        return self.statistic.is_offered

    @property
    def is_open(self) -> bool:
        return self.statistic.is_open

    @property
    def kind(self) -> str:
        return self.statistic.kind

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the statistic reads, in the order asked."""
        return self.statistic.attributes

    @cached_property
    def families(self) -> tuple[Part, ...]:
        return self.statistic.parts(self.universe)

    @cached_property
    def size(self) -> int:
        return sum(part.cells(self.universe) for part in self.families)

    @property
    def tells_rows_apart(self) -> bool:
        return self.statistic.tells_rows_apart(self.universe)

    def to_json(self) -> dict[str, Any]:
        return {"version": WORKLOAD_VERSION, "queries": [self.statistic.to_json(self.universe)]}


#: What a release answers.
Question: TypeAlias = Workload | Inquiry


def dates_of(question: Question) -> Dates | None:
    """How the dates are declared that the answers are; None where the answers are no dates."""
    return next((each.dates for each in question.universe.attributes if each.is_exact), None)


def weight_of(question: Question) -> SurveyWeight | None:
    """How much rows count; None where all count alike."""
    return question.statistic.weight if isinstance(question, Inquiry) else None


def valued_columns(question: Question) -> list[Attribute]:
    """The columns whose values the answers are of: not those that make groups, nor that which says how much rows
    count, unless it is the only one."""
    weight = weight_of(question)
    found = [each for name in question.columns if (each := question.universe[name]).has_values]
    return [each for each in found if weight is None or each.name != weight.column] or found


def universe_asked(question: Question) -> Universe:
    """The universe of the columns that a question reads."""
    return question.universe.project(sorted(question.columns, key=question.universe.axis))


def of_columns_asked(schema: Schema, question: Question) -> tuple[Schema, Question]:
    """A schema of the columns that a question reads alone, and the question about it.

    A row that the rule of another column would drop is counted then, and every mechanism, also one that holds the whole
    universe, speaks of the same table: that of the columns asked about. Where states are
    asked, the schema is of states.
    """
    universe = universe_asked(question)
    return replace(schema, universe=universe), replace(question, universe=universe)


def renamed(question: Question, names: Mapping[str, str]) -> Question:
    """The same questions about columns of other names."""
    attributes = tuple(replace(each, name=names[each.name]) for each in question.universe.attributes)
    universe = Universe(attributes=attributes)

    def said(attributes: Sequence[str]) -> tuple[str, ...]:
        return tuple(names[each] for each in attributes)

    if not isinstance(question, Inquiry):
        families = tuple(replace(each, attributes=said(each.attributes)) for each in question.families)
        return replace(question, universe=universe, families=families)
    statistic: Any = question.statistic
    changed: dict[str, Any] = {"attributes": said(statistic.attributes)}
    if by := getattr(statistic, "by", ()):
        changed["by"] = names[by] if isinstance(by, str) else said(by)
    if statistic.weight is not None:
        changed["weight"] = replace(statistic.weight, column=names[statistic.weight.column])
    if hasattr(statistic, "predicates"):
        changed["predicates"] = tuple((said(columns), bins) for columns, bins in statistic.predicates)
    return replace(question, universe=universe, statistic=replace(statistic, **changed))
