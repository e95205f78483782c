"""The comparison of four ways as people see it: the numbers to begin with, tables, sentences and charts. No data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from django.utils.safestring import mark_safe

from releases.display.math import typeset
from releases.engine.bounds import theory
from releases.engine.bounds.theory import Axis, Crossing, Numbers, Way, WayBound
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
#: Less than half a row is no error; a logarithm has no place for it.
_LEAST = 0.5
_WIDTH, _HEIGHT = 520, 410
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 16, 78, 46


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
class Row:
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
        {"kind": title, "rows": [Row(bound=each, numbers=numbers) for each in found if each.is_pure == is_pure]}
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
            # Made of numbers and words of our own alone.
            "svg": mark_safe(chart(numbers, axis, is_pure=is_pure)),  # noqa: S308
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


def chart(numbers: Numbers, axis: Axis, *, is_pure: bool, style: str = "") -> str:
    """Bounds along an axis as SVG, both axes logarithmic, with every crossing marked.

    Args:
        style: a style sheet of its own, for a file that stands alone; pages have theirs in site.css.
    """
    curves = {
        way: [(value, max(alpha, _LEAST)) for value, alpha in theory.curve(way, numbers, axis, is_pure=is_pure)]
        for way in Way
    }
    crossed = theory.crossings(numbers, axis, is_pure=is_pure)
    scale = _Scale.of(numbers, axis, list(curves.values()))
    title = f"{KINDS[is_pure]} bounds against {axis.value}"
    parts = [
        f'<svg class="ways-chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{title}; the tables say the same">',
        f'<style>{style}</style><rect class="paper" width="{_WIDTH}" height="{_HEIGHT}"/>' if style else "",
        *_axes(scale, axis),
        _vacuous(numbers, axis, scale),
        *(_line(number, curve, scale) for number, curve in enumerate(curves.values(), start=1)),
        *(_mark(each, scale) for each in crossed),
        *_legend(),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """From numbers to places: both axes are logarithmic."""

    x: tuple[float, float]
    y: tuple[float, float]

    @staticmethod
    def of(numbers: Numbers, axis: Axis, curves: Sequence[Sequence[tuple[float, float]]]) -> _Scale:
        xs = [value for value, _ in curves[0]]
        ys = [alpha for curve in curves for _, alpha in curve]
        # A bound far above n says nothing, so the picture ends soon above it.
        most = max(xs) if axis is Axis.ROWS else float(numbers.rows)
        top = 10 ** ceil(log10(min(max(ys), 3 * most)))
        return _Scale(x=(min(xs), max(xs)), y=(min(10 ** floor(log10(min(ys))), top / 10), top))

    def across(self, value: float) -> float:
        low, high = map(log10, self.x)
        share = 0.5 if high == low else (log10(value) - low) / (high - low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def down(self, alpha: float) -> float:
        low, high = map(log10, self.y)
        return _HEIGHT - _BOTTOM - (log10(alpha) - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)


def _axes(scale: _Scale, axis: Axis) -> Iterator[str]:
    bottom = _HEIGHT - _BOTTOM
    for power in range(ceil(log10(scale.y[0]) - 1e-9), floor(log10(scale.y[1]) + 1e-9) + 1):
        y = scale.down(10.0**power)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
        yield f'<text class="end" x="{_LEFT - 8}" y="{y + 4:.1f}">{_power_text(power)}</text>'
    for power in range(ceil(log10(scale.x[0]) - 1e-9), floor(log10(scale.x[1]) + 1e-9) + 1):
        x = scale.across(10.0**power)
        yield f'<path class="grid" d="M{x:.1f} {bottom}v6"/>'
        yield f'<text class="middle" x="{x:.1f}" y="{bottom + 20}">{_power_text(power)}</text>'
    yield f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{_WIDTH - _RIGHT}"/>'
    name = "n, rows in the table" if axis is Axis.ROWS else "epsilon"
    yield f'<text class="middle" x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" y="{_HEIGHT - 8}">{name}</text>'
    yield f'<text x="4" y="{_TOP - 14}">bound, in rows</text>'


def _vacuous(numbers: Numbers, axis: Axis, scale: _Scale) -> str:
    """The line on which a bound equals n, above which it says nothing."""
    ends = scale.x if axis is Axis.ROWS else (float(numbers.rows),) * 2
    points = list(zip(scale.x, ends, strict=True))
    return (
        f'<path class="vacuous" d="{_path(points, scale)}"><title>above this line a bound says nothing</title></path>'
    )


def _line(number: int, curve: Sequence[tuple[float, float]], scale: _Scale) -> str:
    return f'<path class="way way-{number}" d="{_path(curve, scale)}"/>'


def _path(curve: Sequence[tuple[float, float]], scale: _Scale) -> str:
    """The curve as far as it lies in the picture, cut off where it leaves it."""
    low, high = scale.y
    steps = []
    is_inside = False
    for (x1, y1), (x2, y2) in pairwise(curve):
        cut = [_cut((x1, y1), (x2, y2), edge) for edge in (low, high) if min(y1, y2) < edge < max(y1, y2)]
        inner = sorted(
            [point for point in ((x1, y1), (x2, y2), *cut) if low * (1 - 1e-9) <= point[1] <= high * (1 + 1e-9)]
        )
        if len(inner) < 2:
            is_inside = False
            continue
        places = [f"{scale.across(x):.1f} {scale.down(y):.1f}" for x, y in (inner[0], inner[-1])]
        steps.append(f"L{places[1]}" if is_inside else f"M{places[0]}L{places[1]}")
        is_inside = inner[-1] == (x2, y2)
    return "".join(steps)


def _cut(one: tuple[float, float], other: tuple[float, float], edge: float) -> tuple[float, float]:
    """Where a straight line in logarithms meets a height."""
    share = (log10(edge) - log10(one[1])) / (log10(other[1]) - log10(one[1]))
    return float(10 ** (log10(one[0]) + share * (log10(other[0]) - log10(one[0])))), edge


def _mark(crossing: Crossing, scale: _Scale) -> str:
    if not scale.y[0] <= crossing.alpha <= scale.y[1]:
        return ""
    said = f"{value_text(crossing.axis, crossing.at)}: {crossing.after.value} overtakes {crossing.before.value}"
    x, y = scale.across(crossing.at), scale.down(crossing.alpha)
    return f'<circle class="crossing" cx="{x:.1f}" cy="{y:.1f}" r="5"><title>{escape(said)}</title></circle>'


def _legend() -> Iterator[str]:
    for number, way in enumerate(Way, start=1):
        x, y = (4 if number % 2 else _WIDTH // 2), 14 + 20 * ((number - 1) // 2)
        yield f'<path class="way way-{number}" d="M{x} {y}h26"/><text x="{x + 32}" y="{y + 4}">{way.value}</text>'


def _power_text(power: int) -> str:
    if -3 <= power <= 3:
        return f"{10.0**power:g}"
    if power in (4, 5, 6):
        return f"{10**power:,}"
    return f'10<tspan dy="-5" font-size="10">{power}</tspan>'


# The document

#: The charts' colours in a file of their own, light and dark.
_STYLE = (
    ".paper{fill:#fff}text{fill:#20262e;font:14px sans-serif}.end{text-anchor:end}.middle{text-anchor:middle}"
    "path{fill:none}.grid{stroke:#dcd9d0}.axis,.vacuous{stroke:#5a6470}.vacuous{stroke-dasharray:2 4}"
    ".way{stroke-width:2.25}.way-1{stroke:#17605b}.way-2{stroke:#a3611a;stroke-dasharray:8 3}"
    ".way-3{stroke:#6c7fb8;stroke-dasharray:2 2}.way-4{stroke:#b0568a;stroke-dasharray:9 3 2 3}"
    ".crossing{fill:#fff;stroke:#20262e;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){.paper{fill:#14181c}text{fill:#dfe4e8}.grid{stroke:#333b43}"
    ".axis,.vacuous{stroke:#9aa6b0}.way-1{stroke:#7ccac1}.way-2{stroke:#e0a35c}.crossing{fill:#14181c;stroke:#dfe4e8}}"
)


def documents(numbers: Numbers, *, command: str) -> dict[str, str]:
    """The comparison as files: a page in Markdown and its charts.

    Args:
        command: that makes them, which the page names.
    """
    charts = {
        _chart_name(numbers, axis, table["kind"]): chart(
            numbers, axis, is_pure=table["kind"] == KINDS[True], style=_STYLE
        )
        for axis in Axis
        for table in tables(numbers)
    }
    page = "\n".join([*_heading(numbers, command), *_bound_tables(numbers), *_overtaking(numbers)])
    return {f"{_name(numbers)}.md": page + "\n", **{name: drawn + "\n" for name, drawn in charts.items()}}


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
