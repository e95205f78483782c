"""Levels: runs of neighbouring bins of an attribute, counted as one where few rows are in each.

A noisy table tells little of a cell with fewer rows than its noise, and costs as much to fit as any other. So triples
count levels: a bin that holds enough rows is a level by itself, and lighter neighbours are merged until they hold as
many. What is within a level follows from pairs. The rule looks at released numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.estimation.marginals import Axes


@dataclass(frozen=True, kw_only=True, eq=False)
class Levels:
    """The levels of several attributes.

    Attributes:
        bins: of each attribute.
        starts: of each attribute the first bin of each level, rising from 0.
    """

    bins: tuple[int, ...]
    starts: tuple[NDArray[np.int64], ...]

    @staticmethod
    def of_bins(shape: Sequence[int]) -> Levels:
        """Each bin by itself."""
        return Levels(bins=tuple(shape), starts=tuple(np.arange(length) for length in shape))

    @staticmethod
    def merged(counts: Sequence[NDArray[np.float64]], *, least: float, most: int) -> Levels:
        """
        Args:
            counts: rows in each bin of each attribute, as released.
            least: rows of a level, where its neighbours leave it so many.
            most: levels of an attribute; it merges more where `least` would leave it more.
        """
        starts = []
        for table in counts:
            found, wanted = _starts(table, least), max(least, 1.0)
            while len(found) > most:
                wanted *= 1.5
                found = _starts(table, wanted)
            starts.append(found)
        return Levels(bins=tuple(map(len, counts)), starts=tuple(starts))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Levels of each attribute."""
        return tuple(map(len, self.starts))

    @cached_property
    def _stacked_starts(self) -> NDArray[np.int64]:
        firsts = np.concatenate([[0], np.cumsum(self.bins)[:-1]])
        return np.concatenate([first + each for first, each in zip(firsts, self.starts, strict=True)])

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        return np.diff(self._stacked_starts, append=sum(self.bins))

    def sums(self, stacked: NDArray[Any]) -> NDArray[Any]:
        """Sums over the bins of each level, of what has one row a bin, all attributes below each other."""
        if len(self._lengths) == len(stacked):
            return stacked
        return np.add.reduceat(stacked, self._stacked_starts, axis=0)

    def spread(self, by_level: NDArray[Any]) -> NDArray[Any]:
        """What has one row a level, with one row a bin."""
        return by_level if len(by_level) == sum(self.bins) else np.repeat(by_level, self._lengths, axis=0)

    def table(self, table: NDArray[Any], axes: Axes) -> NDArray[Any]:
        """A marginal of bins, over these attributes, as one of levels."""
        for place, axis in enumerate(axes):
            if self.shape[axis] < self.bins[axis]:
                table = np.add.reduceat(table, self.starts[axis], axis=place)
        return table


def _starts(counts: NDArray[np.float64], least: float) -> NDArray[np.int64]:
    starts, held = [0], 0.0
    for place, count in enumerate(counts.tolist()):
        # A bin with enough rows begins a level, and so does what follows a level that has enough.
        if place and (held >= least or (count >= least and held > 0)):
            starts.append(place)
            held = 0.0
        held += max(count, 0.0)
    return np.array(starts, dtype=np.int64)
