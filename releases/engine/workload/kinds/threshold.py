"""A stream of counts, each compared with a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from releases.engine.domain.universe import Universe
from releases.engine.workload.predicates import Predicates, columns_used, read_predicates, tell_rows_apart
from releases.engine.workload.queries import Count
from releases.engine.workload.statistic import Part, Statistic, fields_of, register, whole_number


@register
@dataclass(frozen=True, kw_only=True)
class Threshold(Statistic):
    """A stream of counts, each asked in turn: is it above a public threshold? It stops after `answers` times yes.

    Attributes:
        predicates: the counts asked, in order, as in `LargestCount`.
        above: the threshold, in rows.
        answers: after so many times yes it stops.
    """

    kind: ClassVar[str] = "threshold"
    place: ClassVar[int] = 10
    is_choice: ClassVar[bool] = True
    predicates: Predicates
    above: int
    answers: int = 1

    @classmethod
    def read(cls, word: str, value: object, universe: Universe) -> Threshold:
        fields = fields_of(value, {"counts", "above", "answers"}, field="threshold")
        predicates = read_predicates(fields.get("counts"), universe, field="threshold.counts")
        return cls(
            attributes=columns_used(predicates, universe),
            predicates=predicates,
            above=whole_number(fields.get("above"), 0, 10**12, field="threshold.above"),
            answers=whole_number(fields.get("answers", 1), 1, len(predicates), field="threshold.answers"),
        )

    def parts(self, universe: Universe) -> tuple[Part, ...]:
        asked = tuple(Count(attributes=names, bins=bins).title(universe) for names, bins in self.predicates)
        many = universe[self.attributes[0]].counted.many
        return (Part(name=f"which counts pass {self.above:,} {many}, until {self.answers} have", rows=asked),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        counts = [Count(attributes=names, bins=bins).to_json(universe)["count"] for names, bins in self.predicates]
        return {self.kind: {"counts": counts, "above": self.above, "answers": self.answers}}

    def tells_rows_apart(self, universe: Universe) -> bool:
        return tell_rows_apart(self.predicates, universe)
