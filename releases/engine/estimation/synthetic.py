"""Synthetic records: rows with values of the declared domain, made from a paid-for distribution.

Post-processing only. Nothing here sees data; the randomness merely spreads values within their bins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
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
    return Records(
        columns={each.name: values_of(each, bins[each.name], rng) for each in told},
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
    attribute: Attribute, bins: NDArray[np.int64], rng: Randomness
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Values of these bins, each value of a bin as likely as another; of what is no number any value."""
    if attribute.dates is not None:
        return _moments(attribute.dates, bins, rng)
    if not attribute.is_numeric:
        return bins
    steps = [int(edge.scaleb(attribute.decimals)) for edge in attribute.edges]
    steps[-1] += 1  # the last bin is closed at its upper edge
    values = np.empty(len(bins), dtype=np.int64)
    order = np.argsort(bins, kind="stable")
    present, starts = np.unique(bins[order], return_index=True)
    for index, members in zip(present, np.split(order, starts[1:]), strict=True):
        low, high = (steps[index], steps[index + 1]) if index < attribute.ranges else (0, 1)
        values[members] = low + uniform_below(high - low, len(members), rng)
    return values if attribute.kind is AttributeKind.INTEGER else values / 10.0**attribute.decimals


def _moments(dates: Dates, bins: NDArray[np.int64], rng: Randomness) -> NDArray[np.int64]:
    """Days of the bins, each as likely as another; where dates have a time of day, seconds of them."""
    within = np.array([dates.within(index) for index in range(dates.size)] + [(0, 1, 1)], dtype=np.int64)
    first, many, apart = within[bins].T
    values: NDArray[np.int64] = first + apart * _below(many, rng)
    if dates.by is By.HOUR:
        values = values * SECONDS_OF_DAY + 3600 * bins + uniform_below(3600, len(bins), rng)
    elif dates.has_time:
        values = values * SECONDS_OF_DAY + uniform_below(SECONDS_OF_DAY, len(bins), rng)
    return values


def _below(many: NDArray[np.int64], rng: Randomness) -> NDArray[np.int64]:
    """For each number one below it, each equally likely."""
    values = np.empty(len(many), dtype=np.int64)
    for number in np.unique(many):
        members = many == number
        values[members] = uniform_below(int(number), int(members.sum()), rng)
    return values


def _permutation(size: int, rng: Randomness) -> NDArray[np.intp]:
    return np.argsort(rng.words(size), kind="stable")
