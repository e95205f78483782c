"""Columns at a glance: of each its bins, its quartiles and how many values are missing, from released counts alone.

The intervals of all counts hold at once, and what follows from them holds with them, for nothing more. With B rows
below an edge and A above it, the share q of the values is below the edge if and only if B (1 - q) >= A q; so a quartile
lies below the first edge where that holds of the least B and the largest A, and not below the last one where it fails
of the largest B and the least A.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.attribute import MISSING, Attribute
from releases.engine.domain.dates import Dates
from releases.engine.domain.schema import Schema
from releases.engine.workload.parsing import read_answered
from releases.engine.workload.queries import Marginal, Workload
from releases.models import Release
from releases.presentation.results.rows import Answer
from releases.publication.associations import Association, associations_of
from releases.publication.files import ANSWERS, folder_of, stored_rows
from releases.publication.shares import Whole
from releases.questions.headline import date_text
from releases.schema.descriptions import notes_of, with_unit

_QUARTILES = (("First quartile", 1, 4), ("Median", 1, 2), ("Third quartile", 3, 4))
#: Bars of a column in order; neighbours share one where there are more bins.
_MOST_BARS = 40
#: Bins without an order that are named: the largest ones.
_MOST_NAMED = 5
_HEIGHT = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class OneWay:
    """A table of one column of a published release: where its counts are among all of them.

    Attributes:
        heading: the column's name, with its unit where that is declared.
        states: how the values of that column read, by a release beside it; None where none has counted that.
    """

    attribute: Attribute
    folder: Path
    first: int
    heading: str
    states: OneWay | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BinCounts:
    """Released counts with the intervals that hold all at once, each from 0 on."""

    about: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def share(self, place: int) -> str:
        """Which part of all one of them is."""
        about, lower, upper = (each.tolist() for each in (np.maximum(self.about, 0), self.lower, self.upper))
        whole = Whole.of(about, lower, upper, rows=None)
        if whole is None:
            return "not known"
        return whole.text(Answer(labels=(), estimate=about[place], lower=lower[place], upper=upper[place]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One bar: where it begins and how long it is in its picture, and what it says."""

    label: str
    share: str
    at: float
    length: float
    rest: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Quartile:
    """Where it is by the released counts, and between which edges, or days, it is with the confidence of the
    release."""

    name: str
    about: str
    within: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Glance:
    """What is shown of one column.

    Attributes:
        histogram: of bins in order; empty of others, which are `named`.
        name: of the column, with its unit where that is declared.
        first, last: the labels of the bins at both ends; of dates the first and the last.
        width: of a bar of the histogram, of 100.
        others: how many bins are not among the named ones.
        missing: the share that is missing; or that such rows are not counted here.
    """

    name: str
    histogram: tuple[Bar, ...]
    named: tuple[Bar, ...]
    first: str
    last: str
    width: float
    others: int
    quartiles: tuple[Quartile, ...]
    missing: str


def one_way_tables(published: Iterable[tuple[Release, Any]]) -> list[OneWay]:
    """The tables of one column that published releases have answered with a proved bound, in their order."""
    found = [table for release, result in published if result for table in _tables(result, folder_of(release))]
    states = {each.attribute.state_of: each for each in found if each.attribute.state_of is not None}
    return [replace(each, states=states.get(each.attribute)) for each in found if each.attribute.state_of is None]


def _tables(result: dict[str, Any], folder: Path) -> Iterator[OneWay]:
    receipt = result["receipt"]
    if not Proof(receipt["bound"]["proof"]).is_unconditional:
        # Its intervals hold with no known probability, or under an assumption.
        return
    workload = read_answered(receipt["workload"], Schema.from_json(receipt["schema"]).universe)
    if not isinstance(workload, Workload):
        return
    first = 0
    for family in workload.families:
        if isinstance(family, Marginal) and len(family.attributes) == 1:
            (name,) = family.attributes
            heading = with_unit(name, notes_of(result))
            yield OneWay(attribute=workload.universe[name], folder=folder, first=first, heading=heading)
        first += family.cells(workload.universe)


def chosen_pairs(results: Iterable[Any]) -> list[Association]:
    """The pairs of columns that published releases have chosen and counted, in their order."""
    return [pair for result in results if result for pair in associations_of(result["receipt"])]


def glance(table: OneWay) -> Glance | None:
    """What to show of a column; None where the file of its answers is away."""
    try:
        counted = _counted(table)
        states = _counted(table.states) if table.states is not None else None
    except OSError:
        return None
    return replace(glance_of(table.attribute, counted, states=states), name=table.heading)


def _counted(table: OneWay) -> BinCounts:
    path = table.folder / f"{ANSWERS}.parquet"
    stored = stored_rows(path, table.first, table.first + table.attribute.size)
    about, lower, upper = (np.asarray(stored[name], dtype=float) for name in ("estimate", "lower", "upper"))
    return BinCounts(about=about, lower=np.maximum(lower, 0), upper=np.maximum(upper, 0))


def glance_of(attribute: Attribute, counted: BinCounts, *, states: BinCounts | None = None) -> Glance:
    """
    Args:
        counted: each bin.
        states: each way that a value reads.
    """
    inside, dates = attribute.ranges if attribute.is_numeric else attribute.in_time, attribute.dates
    labels = attribute.labels
    shares = _shares(np.maximum(counted.about, 0))
    largest = sorted(range(len(labels)), key=lambda place: -counted.about[place])[:_MOST_NAMED]
    return Glance(
        name=attribute.name,
        histogram=tuple(_histogram(labels[:inside], shares[:inside])),
        named=() if inside else tuple(_row(labels[place], shares[place]) for place in largest),
        first=labels[0] if dates is None else date_text(dates.first),
        last=labels[inside - 1] if dates is None else date_text(dates.last),
        width=0.9 * 100 * _together(inside) / inside if inside else 0,
        others=0 if inside else len(labels) - len(largest),
        quartiles=tuple(_quartiles(attribute, counted, inside)) if inside else (),
        missing=_missing(attribute, counted, states),
    )


def _shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    total = counts.sum()
    return counts / total if total > 0 else np.zeros_like(counts)


def _row(label: str, share: float) -> Bar:
    return Bar(label=label, share=_percent(share), at=0, length=round(100 * share, 2), rest=0)


def _together(bins: int) -> int:
    """Neighbours that share a bar."""
    return -(-bins // _MOST_BARS)


def _histogram(labels: Sequence[str], shares: NDArray[np.float64]) -> Iterator[Bar]:
    if not labels:
        return
    together = _together(len(labels))
    starts = range(0, len(labels), together)
    sums = [float(shares[start : start + together].sum()) for start in starts]
    highest = max(sums) or 1.0
    for start, share in zip(starts, sums, strict=True):
        ends = dict.fromkeys((labels[start], labels[min(start + together, len(labels)) - 1]))
        length = round(_HEIGHT * share / highest, 2)
        at = round(100 * start / len(labels), 2)
        yield Bar(label=" … ".join(ends), share=_percent(share), at=at, length=length, rest=round(_HEIGHT - length, 2))


def _quartiles(attribute: Attribute, counted: BinCounts, inside: int) -> Iterator[Quartile]:
    counts, lower, upper = (each[:inside] for each in (counted.about, counted.lower, counted.upper))
    dates = attribute.dates
    edges = np.asarray([float(edge) for edge in (attribute.edges if dates is None else dates.days)])
    for name, part, whole in _QUARTILES:
        low, high = quartile_within(lower, upper, part=part, whole=whole)
        found = quartile_about(counts, edges, share=part / whole)
        about = None if found is None else min(max(found, edges[low]), edges[high])
        if dates is None:
            said = "" if about is None else _number(about, attribute.decimals)
            ends = tuple(f"{attribute.edges[place].normalize():,f}" for place in (low, high))
        else:
            # A bin of days ends before the day on which the next one begins.
            last = dates.days[high] - 1
            said = "" if about is None else _day(dates, min(floor(about), last))
            ends = (_day(dates, dates.days[low]), _day(dates, last))
        yield Quartile(name=name, about=said, within=" to ".join(ends))


def _day(dates: Dates, day: int) -> str:
    return date_text(date.fromisoformat(dates.day(day)))


def quartile_within(
    lower: NDArray[np.float64], upper: NDArray[np.float64], *, part: int, whole: int
) -> tuple[int, int]:
    """The edges, by number, that a quantile lies between wherever every count lies in its interval."""
    below_least, below_most = np.cumsum(lower), np.cumsum(upper)
    above_least, above_most = below_least[-1] - below_least, below_most[-1] - below_most
    surely_below = below_least * (whole - part) >= above_most * part
    surely_not = below_most * (whole - part) < above_least * part
    # Where nothing is known to be there, the last edge is the only one that all values are below.
    surely_below[-1] = True
    low = int(np.flatnonzero(surely_not).max(initial=-1)) + 1
    return low, int(np.flatnonzero(surely_below)[0]) + 1


def quartile_about(counts: NDArray[np.float64], edges: NDArray[np.float64], *, share: float) -> float | None:
    """Where a quantile is if values are spread evenly in each bin; None where no row was counted."""
    running = np.maximum.accumulate(np.maximum(np.cumsum(counts), 0))
    wanted = share * running[-1]
    if wanted <= 0:
        return None
    place = int(np.searchsorted(running, wanted))
    before = running[place - 1] if place else 0.0
    inside = (wanted - before) / (running[place] - before)
    return float(edges[place] + inside * (edges[place + 1] - edges[place]))


def _missing(attribute: Attribute, counted: BinCounts, states: BinCounts | None) -> str:
    if states is not None:
        return f"Missing: {states.share(attribute.states.index(MISSING))}."
    if attribute.drops_missing:
        return f"{attribute.counted.many.capitalize()} without a value are not counted here."
    if attribute.has_grammar:
        return f"Missing: {counted.share(attribute.size - 1)}."
    label = attribute.missing_as or attribute.outside
    return f"Missing values count as “{label}”: {counted.share(attribute.categories.index(label))}."


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _number(value: float, decimals: int) -> str:
    return f"{value:,.{min(decimals, 2)}f}"
