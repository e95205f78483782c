"""What the result page shows of a statistic: a number with its interval, a list, what was chosen, a distribution."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from releases.engine.mechanisms.thresholds import ABOVE
from releases.engine.workload.largest_error import LargestError
from releases.engine.workload.questions import Inquiry
from releases.engine.workload.statistics import Mean, MostCommon, Quantile, Range, Sum, Survey, Threshold, Votes
from releases.presentation import charts
from releases.publication import files
from releases.schema.descriptions import UNIT, Notes

#: Rows on the page; the rest is in the file.
MOST_SHOWN = 500
#: Digits after the point on the page, at most.
_MOST_PLACES = 6


class Shape(StrEnum):
    """How a statistic is shown."""

    NUMBER = "number"
    NUMBERS = "numbers"
    CHOICE = "choice"
    RANGE = "range"
    LIST = "list"
    VALUES = "values"
    STREAM = "stream"
    DISTRIBUTION = "distribution"
    BOUND = "bound"


@dataclass(frozen=True, kw_only=True)
class ShownAnswer:
    """One answer in words: measured, with the ends of its interval; or chosen, with a value where that was paid for."""

    label: str
    estimate: str = ""
    lower: str = ""
    upper: str = ""
    chosen: str = ""
    value: str = ""

    @property
    def is_above(self) -> bool:
        return self.chosen == ABOVE


@dataclass(frozen=True, kw_only=True)
class ShownStatistic:
    """A statistic's answers as the page shows them."""

    shape: Shape
    title: str
    answers: list[ShownAnswer]
    more: int
    summary: str = ""
    chart: dict[str, Any] | None = None
    unit: str = ""

    @property
    def has_values(self) -> bool:
        return any(each.value for each in self.answers)


def shown_statistic(inquiry: Inquiry, folder: Path, notes: Notes) -> ShownStatistic:
    """Read a published statistic's answers from its file."""
    table = files.read_answers(folder)
    stored = table.slice(0, MOST_SHOWN).to_pylist()
    labels = (
        [row["of"] for row in stored]
        if inquiry.statistic.is_open
        else [
            part.title(inquiry.universe) if part.cells(inquiry.universe) == 1 else ", ".join(row)
            for part in inquiry.families
            for row in part.labels(inquiry.universe)
        ]
    )
    answers = [_shown(label, row) for label, row in zip(labels, stored, strict=False)]
    shape = _shape(inquiry, answers)
    drawn = [{"label": label, **row} for label, row in zip(labels, stored, strict=False)]
    return ShownStatistic(
        shape=shape,
        title=inquiry.families[0].title(inquiry.universe) if len(inquiry.families) == 1 else "",
        answers=answers,
        more=table.num_rows - len(answers),
        summary=_first_above(inquiry, answers) if shape is Shape.STREAM else "",
        chart=charts.marginal_bars(drawn, title=inquiry.families[0].title(inquiry.universe))
        if shape is Shape.DISTRIBUTION
        else None,
        unit=_unit(inquiry, notes),
    )


def _unit(inquiry: Inquiry, notes: Notes) -> str:
    """What the answers are measured in: the column's unit, of a statistic whose answers are values of one column."""
    statistic = inquiry.statistic
    if not isinstance(statistic, (Sum, Mean, Quantile, Range)) or len(statistic.attributes) != 1:
        return ""
    return notes.get(statistic.attributes[0], {}).get(UNIT, "")


def _shape(inquiry: Inquiry, answers: list[ShownAnswer]) -> Shape:
    statistic = inquiry.statistic
    if isinstance(statistic, Threshold):
        return Shape.STREAM
    if isinstance(statistic, LargestError):
        return Shape.BOUND
    if isinstance(statistic, MostCommon) and statistic.k > 1:
        return Shape.LIST
    if isinstance(statistic, Range):
        return Shape.RANGE
    if statistic.is_open:
        return Shape.VALUES
    if answers[0].chosen:
        return Shape.CHOICE
    if isinstance(statistic, (Survey, Votes)):
        return Shape.DISTRIBUTION
    return Shape.NUMBER if inquiry.size == 1 else Shape.NUMBERS


def _shown(label: str, row: dict[str, Any]) -> ShownAnswer:
    if "answer" in row:
        value = row.get("value")
        return ShownAnswer(label=label, chosen=row["answer"], value="" if value is None else number_text(value))
    return ShownAnswer(label=label, **{name: number_text(row[name]) for name in ("estimate", "lower", "upper")})


def _first_above(inquiry: Inquiry, answers: list[ShownAnswer]) -> str:
    statistic = inquiry.statistic
    assert isinstance(statistic, Threshold)
    first = next((each.label for each in answers if each.is_above), None)
    bar = f"{statistic.above:,} row{'' if statistic.above == 1 else 's'}"
    return f"None of them was found above {bar}." if first is None else f"The first above {bar} is “{first}”."


def number_text(value: float) -> str:
    """A number with its digits after the point, without idle noughts; a true minus before one below 0."""
    text = f"{abs(value):,.{_MOST_PLACES}f}".rstrip("0").rstrip(".")
    return f"−{text}" if value < 0 and text != "0" else text
