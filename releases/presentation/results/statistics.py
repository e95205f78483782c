"""What the result page shows of a statistic: a number with its interval, a list, what was chosen, a distribution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa

from releases.display.charts.answers import date_marks, marginal_bars
from releases.engine.domain.counted import Counted
from releases.engine.domain.dates import Dates
from releases.engine.mechanisms.thresholds import ABOVE
from releases.engine.workload.kinds.quantiles import Quantiles
from releases.engine.workload.questions import Inquiry, dates_of
from releases.engine.workload.statistic import Part
from releases.presentation.results.rows import Answer
from releases.presentation.results.two_answers import TwoAnswers, two_answers
from releases.publication import files
from releases.publication.associations import Association
from releases.publication.headline import measured, unit_of, with_units
from releases.publication.ranges import range_chart
from releases.publication.region_maps import RegionMap, map_of, read_maps
from releases.publication.shares import MOST_CELLS, Whole
from releases.publication.totals import TOGETHER, of_groups
from releases.questions.base import AnswerShape, statistic_kind
from releases.questions.headline import number_text, value_text
from releases.schema.descriptions import Notes

#: Rows on the page; the rest is in the file.
MAX_SHOWN = 500
#: Bars in a chart.
MAX_DRAWN = 60
_NUMBERS = ("estimate", "lower", "upper")
_MEASURED = (AnswerShape.NUMBER, AnswerShape.NUMBERS, AnswerShape.DISTRIBUTION)


@dataclass(frozen=True, kw_only=True)
class ShownAnswer:
    """One answer in words: measured, with the ends of its interval; or chosen, with a value where that was paid for.

    Attributes:
        label: what it is of, in full; in a table `own`, below the title of its `part`, where there are several parts.
    """

    label: str
    part: str = ""
    own: str = ""
    estimate: str = ""
    lower: str = ""
    upper: str = ""
    chosen: str = ""
    value: str = ""
    share: str = ""

    @property
    def is_above(self) -> bool:
        return self.chosen == ABOVE


@dataclass(frozen=True, kw_only=True)
class ShownStatistic:
    """A statistic's answers as the page shows them.

    Attributes:
        is_of_points: whether the chart shows what was released as points, and not as bars.
    """

    shape: AnswerShape
    title: str
    answers: list[ShownAnswer]
    more: int
    chart: dict[str, Any] | None = None
    is_of_points: bool = False
    map: RegionMap | None = None
    unit: str = ""
    two: TwoAnswers | None = None
    associations: tuple[Association, ...] = ()
    of_dates: bool = False
    counted: Counted = Counted.ROWS

    @property
    def bounds(self) -> list[dict[str, str]]:
        """Of bounds alone: what each is of, the most it can be, and what was measured."""
        return [
            {"of": each.label, "most": self.counted.text(each.upper), "measured": each.estimate}
            for each in self.answers
        ]

    @property
    def template(self) -> str:
        """What shows answers of this shape; those with an interval each are lines of a table."""
        name = "table" if self.shape in (AnswerShape.NUMBERS, AnswerShape.DISTRIBUTION) else self.shape.value
        return f"results/shapes/_{name}.html"

    @property
    def halves(self) -> tuple[list[ShownAnswer], list[ShownAnswer]]:
        """Of odds the ratios, and the logarithms of these."""
        middle = len(self.answers) // 2
        return self.answers[:middle], self.answers[middle:]

    @property
    def chart_says(self) -> str:
        """What the chart of a single answer shows; of several their table says it."""
        if len(self.answers) != 1:
            return ""
        (each,) = self.answers
        return f"{each.label}: {each.estimate}, between {each.lower} and {each.upper}, on the range that it can have"

    @property
    def more_text(self) -> str:
        return f"{self.more:,}"

    @property
    def has_shares(self) -> bool:
        return any(each.share for each in self.answers)

    @property
    def is_chosen(self) -> bool:
        """Whether no number was released."""
        return any(each.chosen for each in self.answers)

    @property
    def has_values(self) -> bool:
        return any(each.value for each in self.answers)


def shown_statistic(
    inquiry: Inquiry,
    folder: Path,
    *,
    receipt: Mapping[str, Any],
    notes: Notes,
    first: str,
    second: str,
    is_proved: bool,
    associations: tuple[Association, ...] = (),
) -> ShownStatistic:
    """Read a published statistic's answers from its file.

    Args:
        first, second: the numbers of two answers that are set beside each other.
        is_proved: whether their intervals hold with the release's probability.
        associations: pairs of columns that were chosen, with their tables.
    """
    table = files.read_answers(folder)
    stored = table.slice(0, MAX_SHOWN).to_pylist()
    labels = (
        [row["of"] for row in stored]
        if inquiry.statistic.is_open
        else [_label(inquiry, part, row) for part in inquiry.families for row in part.labels(inquiry.universe)]
    )
    kind, statistic = statistic_kind(inquiry.statistic), inquiry.statistic
    whole = _whole(table) if kind.has_shares and inquiry.size > 1 else None
    shown_labels = with_units(inquiry, labels, notes)
    places = _places(inquiry, len(stored), notes)
    answers = [
        _shown(label, row, whole, part=part, own=own)
        for label, row, (part, own) in zip(shown_labels, stored, places, strict=False)
    ]
    answers = list(_with_even_decimals(_with_totals(inquiry, answers, table, receipt)))
    shape = kind.shape(statistic, chosen=bool(answers and answers[0].chosen), answers=inquiry.size)
    drawn = [{"label": label, **row} for label, row in zip(labels, stored, strict=False)]
    dates = dates_of(inquiry)
    on_range = _on_range(inquiry, drawn, notes) if shape in _MEASURED else None
    return ShownStatistic(
        shape=shape,
        title=inquiry.families[0].title(inquiry.universe) if len(inquiry.families) == 1 else "",
        answers=answers,
        more=table.num_rows - len(stored),
        chart=on_range or (_chart(inquiry, drawn, notes) if shape in _MEASURED else None),
        is_of_points=on_range is not None or dates is not None,
        map=map_of(
            read_maps(folder),
            inquiry,
            inquiry.families[0],
            files.reader(folder),
            first=0,
            unit=unit_of(inquiry, notes),
        )
        if len(inquiry.families) == 1
        else None,
        unit=unit_of(inquiry, notes),
        two=two_answers(
            [_measured(label, row, dates) for label, row in zip(labels, stored, strict=False)],
            first=first,
            second=second,
            unit=inquiry.universe.counted.many if kind.counts_rows else unit_of(inquiry, notes),
            is_count=kind.counts_rows,
            is_proved=is_proved,
            dates=dates,
        )
        if shape in (AnswerShape.DISTRIBUTION, AnswerShape.NUMBERS) and len(inquiry.families) == 1
        else None,
        associations=associations,
        of_dates=dates is not None,
        counted=inquiry.universe.counted,
    )


def _on_range(inquiry: Inquiry, drawn: list[dict[str, Any]], notes: Notes) -> dict[str, Any] | None:
    """Of a single number, or of several of one column."""
    if len(inquiry.families) < len(drawn) or not (len(drawn) == 1 or isinstance(inquiry.statistic, Quantiles)):
        return None
    return range_chart(inquiry, inquiry.families[0], drawn, notes)


def _chart(inquiry: Inquiry, drawn: list[dict[str, Any]], notes: Notes) -> dict[str, Any] | None:
    """Of numbers of one kind alone, which lie on one axis."""
    if len(inquiry.families) > 1 or not 1 < len(drawn) <= MAX_DRAWN:
        return None
    is_counts = statistic_kind(inquiry.statistic).counts_rows
    title = inquiry.families[0].title(inquiry.universe)
    if dates_of(inquiry) is not None:
        return date_marks(drawn, title=title, axis=title)
    axis = inquiry.universe.counted.many if is_counts else measured(inquiry, title, notes)
    return marginal_bars(drawn, title=title, unit=axis, is_counts=is_counts)


def _label(inquiry: Inquiry, part: Part, row: tuple[str, ...]) -> str:
    """What an answer is of: its part where it is alone in it, else its row, of several parts with the part's title."""
    title, own = part.title(inquiry.universe), ", ".join(row)
    if part.cells(inquiry.universe) == 1:
        return title
    return f"{title}: {own}" if len(inquiry.families) > 1 else own


def _places(inquiry: Inquiry, number: int, notes: Notes) -> Iterator[tuple[str, str]]:
    """Of each answer the title of its part and its row there; empty where it is known by its label alone."""
    if inquiry.statistic.is_open or len(inquiry.families) == 1:
        return repeat(("", ""), number)
    rows = [(part, ", ".join(row)) for part in inquiry.families for row in part.labels(inquiry.universe)]
    titles = with_units(inquiry, (part.title(inquiry.universe) for part, _ in rows), notes)
    return (
        (title, own) if part.cells(inquiry.universe) > 1 else ("", "")
        for (part, own), title in zip(rows, titles, strict=True)
    )


def _whole(table: pa.Table) -> Whole | None:
    """What the shares of all answers are taken of."""
    numbers = [table.column(name).to_pylist() for name in _NUMBERS]
    return Whole.of(*numbers, rows=None)


def _shown(label: str, row: dict[str, Any], whole: Whole | None, *, part: str, own: str) -> ShownAnswer:
    if "answer" in row:
        value = row.get("value")
        return ShownAnswer(label=label, chosen=row["answer"], value="" if value is None else number_text(value))
    share = "" if whole is None else whole.text(Answer(labels=(label,), **{name: row[name] for name in _NUMBERS}))
    numbers = {name: value_text(row[name]) for name in _NUMBERS}
    return ShownAnswer(label=label, part=part, own=own, share=share, **numbers)


def _with_totals(
    inquiry: Inquiry, answers: Sequence[ShownAnswer], table: pa.Table, receipt: Mapping[str, Any]
) -> Iterator[ShownAnswer]:
    """After the groups of each part what they are together, where something can be said of it."""
    if inquiry.statistic.is_open:
        yield from answers
        return
    first = 0
    for part in inquiry.families:
        cells = part.cells(inquiry.universe)
        shown = answers[first : first + cells]
        yield from shown
        # As many as a report adds up.
        every = table.slice(first, cells).to_pylist() if shown and cells <= MOST_CELLS else []
        total = of_groups(inquiry, part, every, receipt)
        if total is not None:
            numbers = {name: value_text(total[name]) for name in _NUMBERS}
            yield ShownAnswer(label=TOGETHER, part=shown[0].part, own=TOGETHER if shown[0].part else "", **numbers)
        first += cells


def _with_even_decimals(answers: Iterable[ShownAnswer]) -> Iterator[ShownAnswer]:
    """The same; in each part all numbers have as many decimals as the one that has most, so that they are in line."""
    answers, most = list(answers), dict[str, int]()
    for each in answers:
        for name in _NUMBERS:
            most[each.part] = max(most.get(each.part, 0), len(getattr(each, name).partition(".")[2]))
    for each in answers:
        places = most[each.part]
        yield replace(each, **{name: _with_decimals(getattr(each, name), places) for name in _NUMBERS})


def _with_decimals(text: str, places: int) -> str:
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals:0<{places}}" if places and text[-1:].isdigit() else text


def _measured(label: str, row: dict[str, Any], dates: Dates | None) -> Answer:
    about, lower, upper = (row.get(name) for name in _NUMBERS)
    if dates is not None and about is not None:
        about, lower, upper = (dates.number(row[name]) for name in _NUMBERS)
    return Answer(labels=(label,), estimate=about, lower=lower, upper=upper)
