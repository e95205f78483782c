"""Tables, running totals and single counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from releases.engine.domain.attribute import MISSING, Attribute
from releases.engine.workload.queries import Prefix, Workload
from releases.engine.workload.questions import Question
from releases.questions.base import HALF_A_ROW, QuestionKind, Want, register
from releases.questions.headline import ReleasedAnswer, most_of, rows_of


@register
class CountsKind(QuestionKind):
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

    def headline(self, question: Any, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        family = question.families[part]
        if isinstance(family, Prefix):
            return _middle_of(question.universe[family.attributes[0]], answers)
        if len(answers) == 1:
            return f"“{family.title(question.universe)}”: {rows_of(answers[0])}"
        column = question.universe[family.attributes[0]]
        if column.state_of is not None and len(family.attributes) == 1 and MISSING in column.categories:
            none = answers[column.categories.index(MISSING)]
            return f"{none.counted.many.capitalize()} without a value of {column.name}: {rows_of(none)}"
        what = "value" if len(family.attributes) == 1 else "combination"
        return most_of(answers, f"The most frequent {what} of {' and '.join(family.attributes)}")


def _middle_of(attribute: Attribute, answers: Sequence[ReleasedAnswer]) -> str:
    """In which bins the median of a column lies, by its running totals c_1 <= ... <= c_m, the last of all rows.

    The median's bin is the first b with c_b >= c_m / 2. If every c lies in its interval, then upper_b >= lower_m / 2,
    so b is at least the first bin of which that is true, and at most the first with lower_b >= upper_m / 2.
    """
    total = answers[-1]
    first = next(place for place, each in enumerate(answers) if each.upper >= total.lower / 2)
    last = next((place for place, each in enumerate(answers) if each.lower >= total.upper / 2), len(answers) - 1)
    if last < first or (first == 0 and last == len(answers) - 1):
        return f"The noise hides where the median of {attribute.name} lies"
    if first == last:
        return f"The median of {attribute.name} lies in “{attribute.labels[first]}”"
    return f"The median of {attribute.name} lies in “{attribute.labels[first]}” to “{attribute.labels[last]}”"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
