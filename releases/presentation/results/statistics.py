"""What the result page shows of a statistic: a number with its interval, a list, what was chosen, a distribution."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from releases.display import charts
from releases.engine.mechanisms.thresholds import ABOVE
from releases.engine.workload.questions import Inquiry
from releases.engine.workload.statistic import Part
from releases.publication import files
from releases.questions.base import Shape, kind_of, statistic_kind
from releases.schema.descriptions import UNIT, Notes

#: Rows on the page; the rest is in the file.
MAX_SHOWN = 500
#: Digits after the point on the page, at most.
_MAX_PLACES = 6


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
    def template(self) -> str:
        """What shows answers of this shape; those with an interval each are lines of a table."""
        name = "table" if self.shape in (Shape.NUMBERS, Shape.DISTRIBUTION) else self.shape.value
        return f"results/shapes/_{name}.html"

    @property
    def more_text(self) -> str:
        return f"{self.more:,}"

    @property
    def has_values(self) -> bool:
        return any(each.value for each in self.answers)


def shown_statistic(inquiry: Inquiry, folder: Path, notes: Notes) -> ShownStatistic:
    """Read a published statistic's answers from its file."""
    table = files.read_answers(folder)
    stored = table.slice(0, MAX_SHOWN).to_pylist()
    labels = (
        [row["of"] for row in stored]
        if inquiry.statistic.is_open
        else [_label(inquiry, part, row) for part in inquiry.families for row in part.labels(inquiry.universe)]
    )
    answers = [_shown(label, row) for label, row in zip(labels, stored, strict=False)]
    kind, statistic = statistic_kind(inquiry.statistic), inquiry.statistic
    shape = kind.shape(statistic, chosen=bool(answers and answers[0].chosen), answers=inquiry.size)
    drawn = [{"label": label, **row} for label, row in zip(labels, stored, strict=False)]
    return ShownStatistic(
        shape=shape,
        title=inquiry.families[0].title(inquiry.universe) if len(inquiry.families) == 1 else "",
        answers=answers,
        more=table.num_rows - len(answers),
        summary=kind.summary(statistic, ((each.label, each.chosen or each.estimate) for each in answers)),
        chart=charts.marginal_bars(drawn, title=inquiry.families[0].title(inquiry.universe))
        if shape is Shape.DISTRIBUTION
        else None,
        unit=_unit(inquiry, notes),
    )


def _label(inquiry: Inquiry, part: Part, row: tuple[str, ...]) -> str:
    """What an answer is of: its part where it is alone in it, else its row, of several parts with the part's title."""
    title, own = part.title(inquiry.universe), ", ".join(row)
    if part.cells(inquiry.universe) == 1:
        return title
    return f"{title}: {own}" if len(inquiry.families) > 1 else own


def _unit(inquiry: Inquiry, notes: Notes) -> str:
    """What the answers are measured in: the column's unit, of a statistic whose answers are values of one column."""
    valued = [name for name in inquiry.columns if inquiry.universe[name].is_numeric]
    if not kind_of(inquiry).has_columns_unit or len(valued) != 1:
        return ""
    return notes.get(valued[0], {}).get(UNIT, "")


def _shown(label: str, row: dict[str, Any]) -> ShownAnswer:
    if "answer" in row:
        value = row.get("value")
        return ShownAnswer(label=label, chosen=row["answer"], value="" if value is None else number_text(value))
    return ShownAnswer(label=label, **{name: number_text(row[name]) for name in ("estimate", "lower", "upper")})


def number_text(value: float) -> str:
    """A number with its digits after the point, without idle noughts; a true minus before one below 0."""
    text = f"{abs(value):,.{_MAX_PLACES}f}".rstrip("0").rstrip(".")
    return f"−{text}" if value < 0 and text != "0" else text
