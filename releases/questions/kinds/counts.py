"""Tables, running totals and single counts."""

from __future__ import annotations

from collections.abc import Sequence

from releases.engine.domain.universe import Attribute
from releases.engine.workload.queries import Workload
from releases.engine.workload.questions import Question
from releases.questions.base import HALF_A_ROW, Kind, Want, register


@register
class CountsKind(Kind):
    name = Workload.kind
    place = 0
    title = "Tables and counts"
    want = Want.TABLE
    phrases = {
        "count": "count",
        "marginal": "table",
        "marginals": "tables",
        "prefix": "running totals",
        "weight": "importance",
    }
    counts_rows = True
    is_about_bins = True

    def least_bound(self, columns: Sequence[Attribute], *, mechanism: str) -> float:
        return HALF_A_ROW

    def in_words(self, question: Question) -> str:
        """Such as ``55 tables of counts over 2 columns; 733 answers``."""
        assert isinstance(question, Workload)
        marginals: dict[int, int] = {}
        for family in question.families:
            if family.kind == "marginal":
                order = len(family.attributes)
                marginals[order] = marginals.get(order, 0) + 1
        counts = sum(family.kind == "count" for family in question.families)
        prefixes = sum(family.kind == "prefix" for family in question.families)
        parts = [
            f"{_counted(number, 'table')} of counts over {_counted(order, 'column')}"
            for order, number in sorted(marginals.items())
        ]
        parts += [f"running totals of {_counted(prefixes, 'column')}"] if prefixes else []
        parts += [_counted(counts, "single count")] if counts else []
        weights = sorted({family.weight for family in question.families})
        importance = f"; importance {weights[0]:,} to {weights[-1]:,}" if question.is_weighted else ""
        return f"{', '.join(parts)}; {_counted(question.size, 'answer')}{importance}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
