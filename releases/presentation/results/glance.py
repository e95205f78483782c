"""Columns at a glance: of each its bins, its quartiles and how many values are missing, from released counts alone.

The intervals of all counts hold at once, and what follows from them holds with them, for nothing more. With B rows
below an edge and A above it, the share q of the values is below the edge if and only if B (1 - q) >= A q; so a quartile
lies below the first edge where that holds of the least B and the largest A, and not below the last one where it fails
of the largest B and the least A.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Attribute, Schema
from releases.engine.workload.parsing import read_answered
from releases.engine.workload.queries import Marginal, Workload
from releases.publication import files

_QUARTILES = (("First quartile", 1, 4), ("Median", 1, 2), ("Third quartile", 3, 4))
#: Bars of a column in order; neighbours share one where there are more bins.
_MOST_BARS = 40
#: Bins without an order that are named: the largest ones.
_MOST_NAMED = 5
_HEIGHT = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class OneWay:
    """A table of one column of a published release: where its counts are among all of them."""

    attribute: Attribute
    folder: Path
    first: int


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
    """Where it is by the released counts, and between which edges it is with the confidence of the release."""

    name: str
    about: str
    within: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Glance:
    """What is shown of one column.

    Attributes:
        histogram: of bins in order; empty of others, which are `named`.
        first, last: the labels of the bins at both ends.
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


def one_way_tables(result: dict[str, Any], folder: Path) -> Iterator[OneWay]:
    """The tables of one column that a published release has answered, in its order."""
    receipt = result["receipt"]
    universe = Schema.from_json(receipt["schema"]).universe
    workload = read_answered(receipt["workload"], universe)
    if not isinstance(workload, Workload):
        return
    first = 0
    for family in workload.families:
        if isinstance(family, Marginal) and len(family.attributes) == 1:
            yield OneWay(attribute=universe[family.attributes[0]], folder=folder, first=first)
        first += family.cells(universe)


def glance(table: OneWay) -> Glance | None:
    """What to show of a column; None where the file of its answers is away."""
    attribute = table.attribute
    path = table.folder / f"{files.ANSWERS}.parquet"
    try:
        stored = files.stored_rows(path, table.first, table.first + attribute.size)
    except OSError:
        return None
    counts, lower, upper = (np.asarray(stored[name], dtype=float) for name in ("estimate", "lower", "upper"))
    return glance_of(attribute, counts=counts, lower=np.maximum(lower, 0), upper=np.maximum(upper, 0))


def glance_of(
    attribute: Attribute, *, counts: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> Glance:
    """
    Args:
        counts, lower, upper: of each bin, none below 0 in the last two.
    """
    inside = attribute.ranges if attribute.is_numeric else attribute.in_time
    labels = attribute.labels
    shares = _shares(np.maximum(counts, 0))
    largest = sorted(range(len(labels)), key=lambda place: -counts[place])[:_MOST_NAMED]
    quartiles: tuple[Quartile, ...] = ()
    if attribute.is_numeric:
        quartiles = tuple(_quartiles(attribute, counts[:inside], lower[:inside], upper[:inside]))
    return Glance(
        name=attribute.name,
        histogram=tuple(_histogram(labels[:inside], shares[:inside])),
        named=() if inside else tuple(_row(labels[place], shares[place]) for place in largest),
        first=labels[0],
        last=labels[inside - 1],
        width=0.9 * 100 * _together(inside) / inside if inside else 0,
        others=0 if inside else len(labels) - len(largest),
        quartiles=quartiles,
        missing=_missing(attribute, shares, lower, upper),
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


def _quartiles(
    attribute: Attribute, counts: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> Iterator[Quartile]:
    edges = np.asarray([float(edge) for edge in attribute.edges])
    for name, part, whole in _QUARTILES:
        low, high = quartile_within(lower, upper, part=part, whole=whole)
        about = quartile_about(counts, edges, share=part / whole)
        within = f"{attribute.edges[low].normalize():,f} to {attribute.edges[high].normalize():,f}"
        yield Quartile(
            name=name,
            about="" if about is None else _number(min(max(about, edges[low]), edges[high]), attribute.decimals),
            within=within,
        )


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


def _missing(
    attribute: Attribute, shares: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> str:
    if attribute.drops_missing:
        return "Rows without a value are not counted here."
    label = (attribute.missing_as if not attribute.has_grammar else "") or attribute.outside
    place = attribute.size - 1 if attribute.has_grammar else attribute.categories.index(label)
    others = [each for each in range(attribute.size) if each != place]
    low, high = (
        part / total if (total := part + rest) > 0 else blank
        for part, rest, blank in (
            (lower[place], upper[others].sum(), 0.0),
            (upper[place], lower[others].sum(), 1.0),
        )
    )
    said = f"{_percent(float(shares[place]))} ({_percent(low)} to {_percent(high)})"
    return f"Missing: {said}." if attribute.has_grammar else f"Missing values count as “{label}”: {said}."


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _number(value: float, decimals: int) -> str:
    return f"{value:,.{min(decimals, 2)}f}"
