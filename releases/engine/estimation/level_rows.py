"""The ways of a hierarchy, from its coarsest column to its finest: which bins go with those of the columns before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.levels import Hierarchy


@dataclass(frozen=True, kw_only=True, eq=False)
class FinerColumn:
    """One column of a hierarchy, behind those that are coarser.

    Attributes:
        name: of the column.
        size: how many bins it has.
        codes: ascending; of each beginning of a way up to this column the number of its beginning up to the column
            before, times `size`, plus its bin. The place of a code here is the number of that beginning.
    """

    name: str
    size: int
    codes: NDArray[np.int64]

    def after(self, place: NDArray[np.int64], bins: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of each row's beginning with its bin of this column; -1 where no way begins so.

        Args:
            place: the number of its beginning before; -1 where no way begins so.
        """
        wanted = place * self.size + bins
        found = np.minimum(np.searchsorted(self.codes, wanted), len(self.codes) - 1)
        return np.where((place >= 0) & (self.codes[found] == wanted), found, -1)

    def allowed(self, place: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of each row and bin whether some way begins so; places are 0 or more."""
        found = np.zeros((len(place), self.size), dtype=bool)
        for one in np.unique(place):
            first, behind = np.searchsorted(self.codes, [one * self.size, (one + 1) * self.size])
            found[np.ix_(place == one, self.codes[first:behind] - one * self.size)] = True
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Ways:
    """Those of one hierarchy, of which there is at least one."""

    hierarchy: Hierarchy
    steps: tuple[FinerColumn, ...]

    @staticmethod
    def of(hierarchy: Hierarchy) -> Ways:
        ways = np.array(hierarchy.ways, dtype=np.int64)
        place, steps = np.zeros(len(ways), dtype=np.int64), []
        for at in hierarchy.from_coarse_to_fine:
            attribute = hierarchy.attributes[at]
            codes, place = np.unique(place * attribute.size + ways[:, at], return_inverse=True)
            steps.append(FinerColumn(name=attribute.name, size=attribute.size, codes=codes))
        return Ways(hierarchy=hierarchy, steps=tuple(steps))

    @property
    def names(self) -> tuple[str, ...]:
        return self.hierarchy.names

    def places(self, bins: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
        """The number of each row's way, -1 where its bins are none."""
        place = np.zeros(len(bins[self.names[0]]), dtype=np.int64)
        for each in self.steps:
            place = each.after(place, bins[each.name])
        return place

    def beside_others(self, name: str, bins: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
        """Of each row and bin of one column whether it would have one of the ways with that bin, and its other bins."""
        size = next(each.size for each in self.steps if each.name == name)
        rows = len(bins[name])
        repeated = {other: np.repeat(each, size) for other, each in bins.items()}
        repeated[name] = np.tile(np.arange(size), rows)
        return (self.places(repeated) >= 0).reshape(rows, size)
