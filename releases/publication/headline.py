"""The sentence at the head of a result: what was found, made of released answers alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, repeat
from typing import Any

from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.counted import Counted
from releases.engine.domain.dates import Dates
from releases.engine.mechanisms.propose_test_release import NO_ANSWER
from releases.engine.workload.questions import Inquiry, Question, dates_of, valued_columns
from releases.publication.readme import confidence_of
from releases.questions.base import kind_of, statistic_kind
from releases.questions.headline import ReleasedAnswer
from releases.schema.descriptions import UNIT, Notes

#: Answers by column.
Rows = list[dict[str, Any]]
#: A part of more answers has no headline.
_MOST_ANSWERS = 10_000


def headline(
    question: Question,
    read: Callable[[int, int], Rows],
    receipt: dict[str, Any],
    notes: Notes,
    *,
    part: int | None = None,
) -> str:
    """What the answers to one part of the question say; empty where no sentence is made of them, or what it would
    claim is not proved.

    Args:
        read: the released answers from one place to before another, as their file has them.
        part: which; the kind's main part where it is not given.
    """
    kind, universe = kind_of(question), question.universe
    chosen = kind.main_part(question) if part is None else part
    family = question.families[chosen]
    first = sum(each.cells(universe) for each in question.families[:chosen])
    cells = receipt["answers"] if question.is_open else family.cells(universe)
    if cells > _MOST_ANSWERS or not Proof(receipt["bound"]["proof"]).can_be_said:
        return ""
    rows = read(first, first + cells)
    labels = islice(family.labels(universe), len(rows)) if not question.is_open else [()] * len(rows)
    dates, counted = dates_of(question), universe.counted_by(family.attributes)
    released = [_released(", ".join(label), row, dates, counted) for label, row in zip(labels, rows, strict=True)]
    if not all(each.is_chosen or math.isfinite(each.upper - each.lower) for each in released):
        return ""
    if any(each.chosen == NO_ANSWER for each in released):
        return ""
    sentence = kind.headline(question, chosen, released, unit=unit_of(question, notes))
    if not sentence:
        return ""
    is_measured = bool(released) and not released[0].is_chosen
    if not is_measured:
        return f"{sentence}."
    return f"{sentence}, with {confidence_of(receipt)} confidence. {kind.caution(question)}".strip()


def unit_of(question: Question, notes: Notes) -> str:
    """What the answers are measured in: the column's unit, of a statistic whose answers are values of one column."""
    valued = [each.name for each in valued_columns(question) if each.is_numeric]
    if not kind_of(question).has_columns_unit or len(valued) != 1:
        return ""
    return notes.get(valued[0], {}).get(UNIT, "")


def measured(question: Question, title: str, notes: Notes) -> str:
    """What an axis of such numbers is headed by."""
    return ", in ".join(filter(None, (title, unit_of(question, notes))))


def with_units(question: Question, labels: Iterable[str], notes: Notes) -> Iterator[str]:
    """What the answers of a statistic are of, each with its unit where these differ and are declared."""
    declared = {name: said.get(UNIT, "") for name, said in notes.items()}
    units = (
        statistic_kind(question.statistic).units(question.statistic, question.universe, declared)
        if isinstance(question, Inquiry)
        else ()
    )
    for label, unit in zip(labels, chain(units, repeat("")), strict=False):
        yield f"{label}, in {unit}" if unit else label


def _released(label: str, row: dict[str, Any], dates: Dates | None, counted: Counted) -> ReleasedAnswer:
    if "answer" in row:
        return ReleasedAnswer(label=label, chosen=row["answer"], counted=counted)
    about, lower, upper = (row[name] for name in ("estimate", "lower", "upper"))
    if dates is not None:
        about, lower, upper = map(dates.number, (about, lower, upper))
    return ReleasedAnswer(label=label, estimate=about, lower=lower, upper=upper, counted=counted)
