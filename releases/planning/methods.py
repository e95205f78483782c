"""The comparison of four ways as people see it: the numbers to begin with, tables, sentences and charts. No data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from releases.display.charts.ways import Overtaking, way_curves
from releases.display.math import typeset
from releases.engine.bounds import theory
from releases.engine.bounds.theory import Axis, Numbers, Way, WayBound
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.domain.schema import Schema
from releases.engine.workload.queries import all_marginals
from releases.planning import comparison
from releases.planning.curves import CurveTable
from releases.publication.receipt import percent

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "health_insurance.json"
#: People in the sample: it is published, so this is no secret.
SAMPLE_ROWS = 8_802
#: What the two kinds are called.
KINDS = {True: "Pure", False: "Approximate"}

_IN_WORDS = {
    Way.QUERIES: "noise on each answer",
    Way.HISTOGRAM: "noise on the histogram",
    Way.WEIGHTS: "multiplicative weights",
    Way.SMALL_DATABASE: "a small database",
}


@lru_cache(maxsize=2)
def sample_numbers(neighbours: NeighbouringRelation = NeighbouringRelation.REPLACE) -> Numbers:
    """The sample's universe and all its tables of two columns: adding a row changes one cell of each, replacing two."""
    described = json.loads(SAMPLE.read_text())
    schema = Schema.from_json({**described, "neighbours": neighbours.value})
    workload = all_marginals(schema.universe, 2)
    return Numbers(
        neighbours=neighbours,
        rows=SAMPLE_ROWS,
        cells=schema.universe.size,
        queries=workload.size,
        changed=workload.sensitivity(schema).l1,
        epsilon=Fraction(1),
        delta=Fraction(1, 10**6),
        beta=Fraction(1, 20),
    )


@dataclass(frozen=True, kw_only=True)
class WayRow:
    """One way in the table."""

    bound: WayBound
    numbers: Numbers

    @property
    def title(self) -> str:
        return self.bound.way.value

    @property
    def margin(self) -> str:
        return f"±\u00a0{count_text(self.bound.alpha)}"

    @property
    def share(self) -> str:
        """Of all rows; a bound of all of them says nothing."""
        share = self.bound.alpha / self.numbers.rows
        return "says nothing: no count is above n" if share >= 1 else f"{100 * share:.2g}%\u00a0of\u00a0n"

    @property
    def published(self) -> str:
        return "" if self.bound.published is None else f"±\u00a0{count_text(self.bound.published)}"

    @property
    def described(self) -> theory.Described:
        return theory.describe(self.bound.way, is_pure=self.bound.is_pure, neighbours=self.numbers.neighbours)

    @property
    def formula(self) -> str:
        return typeset(self.described.formula)

    @property
    def rate(self) -> str:
        return typeset(self.described.rate)


def tables(numbers: Numbers) -> list[dict[str, Any]]:
    """The bounds, pure and approximate."""
    found = theory.bounds(numbers)
    return [
        {"kind": title, "rows": [WayRow(bound=each, numbers=numbers) for each in found if each.is_pure == is_pure]}
        for is_pure, title in KINDS.items()
        if any(each.is_pure == is_pure for each in found)
    ]


@lru_cache(maxsize=64)
def along(numbers: Numbers, axis: Axis) -> list[dict[str, Any]]:
    """For each kind what happens along an axis: chart, sentences, crossings, and the curves as a table.

    It follows from the numbers alone, and is kept: most who come look at the sample's.
    """
    kinds = (True,) if numbers.delta == 0 else (True, False)
    return [
        {
            "kind": KINDS[is_pure],
            "id": f"{axis.value}-{KINDS[is_pure].lower()}-data",
            "chart": chart(numbers, axis, is_pure=is_pure),
            "sentences": list(sentences(numbers, axis, is_pure=is_pure)),
            "crossings": [
                {
                    "at": value_text(axis, each.at),
                    "before": each.before.value,
                    "after": each.after.value,
                    "margin": f"±\u00a0{count_text(each.alpha)}",
                }
                for each in theory.crossings(numbers, axis, is_pure=is_pure)
            ],
            "table": CurveTable(
                label=f"{KINDS[is_pure]} curves against {axis.value}",
                axis=axis.value,
                heads=tuple(way.value for way in Way),
                rows=tuple(_points(numbers, axis, is_pure)),
            ),
        }
        for is_pure in kinds
    ]


def sentences(numbers: Numbers, axis: Axis, *, is_pure: bool) -> Iterator[str]:
    """Which way has the smallest bound where, in words."""
    for way, start, end in theory.stretches(numbers, axis, is_pure=is_pure):
        yield (
            f"From {value_text(axis, start)} to {value_text(axis, end)} the smallest bound is that of {_IN_WORDS[way]}."
        )


def value_text(axis: Axis, value: float) -> str:
    return f"n\u00a0=\u00a0{round(value):,}" if axis is Axis.ROWS else f"epsilon\u00a0=\u00a0{value:.4g}"


def count_text(alpha: float) -> str:
    """A bound in rows, rounded up; a power of ten where it has more digits than anybody reads."""
    if alpha < 10:
        return f"{ceil(alpha * 10 - 1e-9) / 10:g}"
    if alpha < 10**15:
        return f"{ceil(alpha):,}"
    power = floor(log10(alpha))
    return f"{ceil(alpha / 10 ** (power - 1)) / 10:g} × 10^{power}"


def meaning_text(numbers: Numbers) -> str:
    """What the numbers speak of."""
    if numbers.neighbours is NeighbouringRelation.REPLACE:
        return (
            "Neighbours replace one row, so n is public; a query has a value from 0 to 1 on each row, and replacing a "
            "row changes at most s of the k answers."
        )
    return (
        "Neighbours add or remove one row, so n is private and what is said of it here is a guess; a query has a value "
        "from 0 to 1 on each row, and a row changes at most s of the k answers. Where n is needed, a twentieth of the "
        "budget measures it first."
    )


def numbers_text(numbers: Numbers) -> str:
    """The numbers in one line."""
    return (
        f"n = {numbers.rows:,}, |X| = {comparison.cells_text(numbers.cells)}, k = {numbers.queries:,}, "
        f"s = {numbers.changed:,}, epsilon = {float(numbers.epsilon):g}, delta = {float(numbers.delta):g}, "
        f"{percent(1 - numbers.beta)} confidence"
    )


def _points(numbers: Numbers, axis: Axis, is_pure: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every tenth point of the curves, in words."""
    curves = [dict(theory.curve(way, numbers, axis, is_pure=is_pure)) for way in Way]
    values = list(curves[0])
    for value in values[:: max(1, (len(values) - 1) // 6)]:
        yield value_text(axis, value).split("\u00a0")[-1], tuple(count_text(curve[value]) for curve in curves)


# The chart


def chart(numbers: Numbers, axis: Axis, *, is_pure: bool) -> dict[str, Any]:
    """Bounds along an axis, with every crossing marked."""
    curves = {way.value: theory.curve(way, numbers, axis, is_pure=is_pure) for way in Way}
    ends = [value for value, _ in next(iter(curves.values()))]
    return way_curves(
        curves,
        overtakings=[
            Overtaking(
                at=each.at,
                alpha=each.alpha,
                words=f"{value_text(axis, each.at)}: {each.after.value} overtakes {each.before.value}",
            )
            for each in theory.crossings(numbers, axis, is_pure=is_pure)
        ],
        all_rows=[(end, end if axis is Axis.ROWS else float(numbers.rows)) for end in (min(ends), max(ends))],
        axis="n, rows in the table" if axis is Axis.ROWS else "epsilon",
    )


# The document

_AREA = re.compile(r"\bclip(\d+)\b")
#: The charts in files of their own: on paper, in a font that the library that draws them brings along.
_LOOK = {
    "background": "white",
    "font": "Liberation Sans",
    "axis": {"titleFontWeight": 400, "gridColor": "#dcd9d0"},
    "legend": {"orient": "top", "columns": 2, "labelLimit": 400},
    "point": {"color": "#20262e"},
    "range": {"category": ["#17605b", "#a3611a", "#6c7fb8", "#b0568a"]},
}


def documents(numbers: Numbers, *, command: str) -> dict[str, str]:
    """The comparison as files: a page in Markdown and its charts.

    Args:
        command: that makes them, which the page names.
    """
    import vl_convert  # large, and no page needs it

    charts = {
        _chart_name(numbers, axis, table["kind"]): _numbered_from_one(
            vl_convert.vegalite_to_svg(
                chart(numbers, axis, is_pure=table["kind"] == KINDS[True]) | {"width": 480},
                config=_LOOK,
                allowed_base_urls=[],
            )
        )
        for axis in Axis
        for table in tables(numbers)
    }
    page = "\n".join([*_heading(numbers, command), *_bound_tables(numbers), *_overtaking(numbers)])
    return {f"{_name(numbers)}.md": page + "\n", **{name: drawn + "\n" for name, drawn in charts.items()}}


def _numbered_from_one(svg: str) -> str:
    """A chart whose areas do not depend on the charts before it: the library numbers them through all it draws."""
    before = min(int(number) for number in _AREA.findall(svg)) - 1
    return _AREA.sub(lambda found: f"clip{int(found[1]) - before}", svg)


def _heading(numbers: Numbers, command: str) -> Iterator[str]:
    yield "# Four ways of releasing many counts"
    yield ""
    yield f"Written by `{command}`; every number below comes from `releases/engine/bounds/theory.py`, where each bound"
    yield "is proved. The page `/ways/` of the site works it out for other numbers."
    yield ""
    yield f"Here {numbers_text(numbers)}."
    yield ""
    yield f"{meaning_text(numbers)} A bound holds for all k answers at once."
    yield ""


def _bound_tables(numbers: Numbers) -> Iterator[str]:
    for table in tables(numbers):
        yield f"## {table['kind']} bounds"
        yield ""
        yield "| way | bound, in rows | share | as published | rate | what it comes to |"
        yield "|---|---:|---|---:|---|---|"
        for row in table["rows"]:
            rate = row.described.rate.replace("|", r"\vert ")
            cells = (row.title, row.margin, row.share, row.published or "–", f"${rate}$", row.bound.chosen)
            yield f"| {' | '.join(cells)} |"
        yield ""
        for row in table["rows"]:
            yield f"**{row.title}.** {row.described.source}."
            yield ""
            yield f"$${row.described.formula}$$"
            yield ""


def _overtaking(numbers: Numbers) -> Iterator[str]:
    for axis in Axis:
        yield f"## Which overtakes which, against {axis.value}"
        yield ""
        for each in along(numbers, axis):
            yield f"### {each['kind']}, against {axis.value}"
            yield ""
            yield f"![{each['kind']} bounds against {axis.value}]({_chart_name(numbers, axis, each['kind'])})"
            yield ""
            yield from each["sentences"]
            yield ""
            yield "| at | overtakes | is overtaken | both |"
            yield "|---|---|---|---:|"
            for crossing in each["crossings"]:
                yield f"| {crossing['at']} | {crossing['after']} | {crossing['before']} | {crossing['margin']} |"
            yield ""
            yield f"| {axis.value} | {' | '.join(each['table'].heads)} |"
            yield f"|---:|{'---:|' * len(each['table'].heads)}"
            for value, alphas in each["table"].rows:
                yield f"| {value} | {' | '.join(alphas)} |"
            yield ""
    yield "Above the dotted line of a chart a bound is larger than n and says nothing."


def _name(numbers: Numbers) -> str:
    """Of the page, which its charts' names begin with."""
    return "four_ways" if numbers.neighbours is NeighbouringRelation.REPLACE else "four_ways_private_n"


def _chart_name(numbers: Numbers, axis: Axis, kind: str) -> str:
    return f"{_name(numbers)}_{axis.value}_{kind.lower()}.svg"
