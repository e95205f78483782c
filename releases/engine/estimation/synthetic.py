"""Synthetic records: rows with values of the declared domain, made from a paid-for distribution.

Post-processing only. Nothing here sees data; the randomness merely spreads values within their bins.

Counts say how values get denser from one bin to the next, and values within a bin do so too. Counts c_i of bins that
hold w_i values in order have the densities d_i = c_i / w_i. Within bin i the density is the line

    f_i(t) = d_i (1 + s_i (2t - 1)),  t in [0, 1],  s_i in [-1, 1],

which keeps the count whatever s_i is. From bin i to the next the densities rise by
g_i = (d_(i+1) - d_i) / ((w_i + w_(i+1)) / 2) a value. The line of an inner bin rises by
2 g_(i-1) g_i / (g_(i-1) + g_i) a value where both have one sign, and not at all elsewhere, so that of equally wide bins
no line goes beyond the densities beside it (van Leer, Towards the ultimate conservative difference scheme II, J.
Comput. Phys. 14, 1974). The line of an outer bin falls outwards as the densities do and never rises: most distributions
end in a tail.

The counts are those of the rows that have the same bin of one other column, the one that says most of this one, and
some rows of the whole column beside them, so that noise does not bend a small group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.dates import SECONDS_OF_DAY, By, Dates
from releases.engine.domain.universe import Universe
from releases.engine.estimation.junction_rows import tree_rows
from releases.engine.estimation.mixture_rows import mixture_rows
from releases.engine.estimation.possible_rows import mend
from releases.engine.estimation.result import AnyComponent, Distribution, MixtureComponent, TreeComponent
from releases.engine.estimation.rounding import controlled_counts
from releases.engine.noise.randomness import Randomness, uniform_below

#: Synthetic rows are made of a noisy total up to here: noise alone must not decide how much memory, disc or time a run
#: takes. Both numbers are public, so where the limit lies tells nothing.
MAX_ROWS, MAX_BYTES = 10_000_000, 1 << 30
#: Of memory: for each row, for each of its columns, and for a category on top of its text. Measured at 0.6 to 0.75 of
#: this with two and with six columns, of numbers and of categories.
_BYTES_A_ROW, _BYTES_A_COLUMN = 64, 32
#: Rows whose values are drawn at a time: the numbers that this takes are as few as for so many rows.
_AT_A_TIME = 1 << 18
#: Of the whole column, beside the rows of a group, where the densities of its bins are compared.
_ROWS_BESIDE = 50
#: Rows by which it is decided which columns say most of each other, and the most cells of two.
_ROWS_COMPARED, _CELLS_COMPARED = 100_000, 4_096
#: Of a day and a second of it, as text: 19 characters, and what is put together to make them.
_BYTES_A_MOMENT = 64


def bytes_a_row(universe: Universe) -> int:
    """Of memory that a synthetic row takes while rows are made and written, at most. Its share of a file is less."""
    texts = [max(len(text.encode()) for text in each.categories) for each in universe.attributes if not each.is_numeric]
    moments = _BYTES_A_MOMENT * sum(each.dates is not None for each in universe.attributes)
    return _BYTES_A_ROW + _BYTES_A_COLUMN * len(universe.attributes) + sum(texts) + moments


def most_rows(universe: Universe) -> int:
    """The most synthetic rows that are made where nobody chose how many: a function of the declared columns alone."""
    return max(1, min(MAX_ROWS, MAX_BYTES // bytes_a_row(universe)))


@dataclass(frozen=True, kw_only=True)
class Records:
    """Synthetic rows, a column at a time.

    Attributes:
        columns: by attribute name, in universe order, those that the release tells of; a categorical column holds
            positions in the attribute's categories, an integer column whole numbers, a number column decimals within
            the bins, a column of dates days from 1970-01-01, or seconds where dates have a time of day.
        nothing: by name of an attribute with a bin for what is no number, or no date, which rows are in it; their
            values mean nothing.
        rows: how many there are.
    """

    columns: dict[str, NDArray[np.int64] | NDArray[np.float64]]
    rows: int
    nothing: dict[str, NDArray[np.bool_]] = field(default_factory=dict)


def synthetic_records(universe: Universe, distribution: Distribution, *, rows: int, rng: Randomness) -> Records:
    """Make `rows` records whose marginals follow the distribution as closely as whole rows can.

    They have the attributes that the distribution speaks of. Values made up for others would be taken for statistics.
    None has a combination that the universe declares impossible.
    """
    bins = synthetic_bins(universe, distribution, rows=rows, rng=rng)
    told = [each for each in universe.attributes if each.name in bins]
    telling = _most_telling(universe, bins)
    return Records(
        columns={each.name: values_of(each, bins[each.name], rng, beside=telling.get(each.name)) for each in told},
        rows=rows,
        nothing={
            each.name: bins[each.name] == each.ordered.size for each in told if each.has_grammar and each.missing_as
        },
    )


def synthetic_bins(
    universe: Universe, distribution: Distribution, *, rows: int, rng: Randomness
) -> dict[str, NDArray[np.int64]]:
    """The bins of the records that `synthetic_records` makes, by attribute."""
    bins: dict[str, NDArray[np.int64]] = {}
    for component in distribution.components:
        indices = _bins_of(component, rows, rng)
        bins.update(zip(component.names, (each.astype(np.int64) for each in indices), strict=True))
    mend(universe, distribution, bins, rng)
    return bins


def _bins_of(component: AnyComponent, rows: int, rng: Randomness) -> Iterable[NDArray[np.integer[Any]]]:
    """The bins of each attribute, row by row in random order."""
    if isinstance(component, MixtureComponent):
        return mixture_rows(component.mixture, rows, rng).T
    if isinstance(component, TreeComponent):
        return tree_rows(component.cliques, component.tables, rows, rng)
    counts = controlled_counts(component.weights, rows, rng).reshape(-1)
    held = np.flatnonzero(counts)
    cells = np.repeat(held, counts[held])
    return np.unravel_index(cells[_permutation(rows, rng)], component.weights.shape)


def values_of(
    attribute: Attribute, bins: NDArray[np.int64], rng: Randomness, *, beside: NDArray[np.int64] | None = None
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Values of these bins, denser towards the bins that hold more; of what is no number any value.

    Args:
        beside: of each row the bin of another column, where rows with the same one are alike.
    """
    if attribute.dates is not None:
        return _moments(attribute.dates, bins, rng, beside)
    if not attribute.is_numeric:
        return bins
    steps = np.array([int(edge.scaleb(attribute.decimals)) for edge in attribute.edges], dtype=np.int64)
    held = np.diff(steps)
    held[-1] += 1  # the last bin is closed at its upper edge
    places = _places_within(bins, np.append(held, 1), rng, ordered=attribute.ranges, beside=beside)
    values: NDArray[np.int64] = np.append(steps[:-1], 0)[bins] + places
    return values if attribute.kind is AttributeKind.INTEGER else values / 10.0**attribute.decimals


def _moments(
    dates: Dates, bins: NDArray[np.int64], rng: Randomness, beside: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Days of the bins; where dates have a time of day, seconds of them, each second of a day as likely as another."""
    within = np.array([dates.within(index) for index in range(dates.size)] + [(0, 1, 1)], dtype=np.int64)
    first, _, apart = within[bins].T
    ordered = dates.size if dates.is_ordered else 0
    values: NDArray[np.int64] = first + apart * _places_within(bins, within[:, 1], rng, ordered=ordered, beside=beside)
    if dates.by is By.HOUR:
        values = values * SECONDS_OF_DAY + 3600 * bins + uniform_below(3600, len(bins), rng)
    elif dates.has_time:
        values = values * SECONDS_OF_DAY + uniform_below(SECONDS_OF_DAY, len(bins), rng)
    return values


def _most_telling(universe: Universe, bins: dict[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """Of each column the bins of the one that says most of it, by the mutual information of rows. Without columns of
    which none says anything, and those whose bins have no neighbours. Each pair is compared once."""
    told = [each for each in universe.attributes if each.name in bins]
    rows = len(next(iter(bins.values()), ()))
    if not rows:
        return {}
    apart = -(-rows // _ROWS_COMPARED)
    compared = {each.name: np.ascontiguousarray(bins[each.name][::apart]) for each in told}
    best: dict[str, float] = {}
    found: dict[str, NDArray[np.int64]] = {}
    for one, other in combinations(told, 2):
        ordered = [each for each in (one, other) if max(each.ranges, each.in_time) > 1]
        if not ordered or one.size * other.size > _CELLS_COMPARED:
            continue
        joint = np.bincount(
            compared[one.name] * other.size + compared[other.name], minlength=one.size * other.size
        ).reshape(one.size, other.size)
        share = joint / joint.sum()
        alone = share.sum(axis=1, keepdims=True) * share.sum(axis=0)
        held = share > 0
        # Less what as many cells of columns that are independent say on average (Miller 1955).
        by_chance = (one.size - 1) * (other.size - 1) / (2 * joint.sum())
        says = float((share[held] * np.log(share[held] / alone[held])).sum()) - by_chance
        for each in ordered:
            if says > best.get(each.name, 0.0):
                best[each.name] = says
                found[each.name] = bins[(other if each is one else one).name]
    return found


def _places_within(
    bins: NDArray[np.int64],
    values: NDArray[np.int64],
    rng: Randomness,
    *,
    ordered: int,
    beside: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """For each row the place of its value among those of its bin, from 0.

    Args:
        bins: of each row.
        values: how many each bin can hold.
        ordered: how many bins, the first ones, are in order; in others each value is as likely as another.
        beside: of each row the bin of another column.
    """
    beside = np.zeros_like(bins) if beside is None else beside
    groups = int(beside.max(initial=0)) + 1
    counts = np.bincount(beside * len(values) + bins, minlength=groups * len(values)).reshape(groups, -1)
    of_all = counts.sum(axis=0)
    slants = np.zeros(counts.shape)
    for group, held in zip(slants, counts, strict=True):
        around = held + of_all * (_ROWS_BESIDE / max(1, int(of_all.sum())))
        group[:ordered] = slants_of(around[:ordered], values[:ordered])
    places = np.empty(len(bins), dtype=np.int64)
    for start in range(0, len(bins), _AT_A_TIME):
        rows = slice(start, start + _AT_A_TIME)
        slant, many = slants[beside[rows], bins[rows]], values[bins[rows]]
        # Within (0, 1], however it is rounded.
        uniform = ((rng.words(len(slant)) >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
        # The inverse of the distribution function t (1 - s) + s t^2, without a difference of numbers that are near.
        share = 2 * uniform / ((1 - slant) + np.sqrt(np.square(1 - slant) + 4 * slant * uniform))
        places[rows] = np.minimum((share * many).astype(np.int64), many - 1)
    return places


def slants_of(counts: NDArray[np.int64] | NDArray[np.float64], values: NDArray[np.int64]) -> NDArray[np.float64]:
    """The slant s of the density within each bin: from -1, where it falls to nothing, over 0 to 1.

    Args:
        counts: of bins in order.
        values: how many each of them can hold.
    """
    slants = np.zeros(len(counts))
    if len(counts) < 2:
        return slants
    widths = values.astype(np.float64)
    density = counts / widths
    rises = np.diff(density) / ((widths[:-1] + widths[1:]) / 2)
    before, after = rises[:-1], rises[1:]
    alike = before * after > 0
    rise = np.zeros(len(counts))
    rise[1:-1][alike] = 2 / (1 / before[alike] + 1 / after[alike])
    rise[0], rise[-1] = max(rises[0], 0.0), min(rises[-1], 0.0)
    held = counts > 0
    slants[held] = np.clip(rise[held] * widths[held] / 2 / density[held], -1, 1)
    return slants


def _permutation(size: int, rng: Randomness) -> NDArray[np.intp]:
    return np.argsort(rng.words(size), kind="stable")
