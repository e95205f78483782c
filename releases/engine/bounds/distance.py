"""How many rows one table of counts is away from another, and synthetic rows as tables of counts.

Let r and a be counts over the same cells, A = sum (r_c - a_c)+ and B = sum (a_c - r_c)+. The distance

    E(r, a) = max(A, B)

is the least number of rows that must be changed, added or removed to make one table the other: min(A, B) are changed
and the |A - B| that are left are added or removed. Two facts make it the number to measure.

**It moves by at most g** when a privacy unit of g rows is added, removed or replaced, whatever r is. One row added to
cell c lowers A by 0 to 1 and raises B by 0 to 1; removed, the other way round. A row that moves from one cell to
another does one of these in each, so it changes A and B by at most 1. A row that comes to count, or counts no longer,
is one that is added or removed. So one row moves E by at most 1, and g rows by at most g. (Half the sum of |r_c - a_c|
moves by 1/2 where a row is added, but says nothing of shares while the number of rows is private; where rows are
replaced it moves as E does.)

**It bounds the total variation of shares without knowing how many rows the table has.** Let N = sum r_c > 0 and
n = sum a_c > 0, M = max(N, n). As min(x/N, y/n) >= min(x, y)/M for x, y >= 0,

    TV = 1 - sum min(r_c/N, a_c/n) <= 1 - sum min(r_c, a_c)/M = (M - sum min(r_c, a_c))/M = E/M <= E/N,

for A = N - sum min and B = n - sum min. N is that of the published rows, so E/N is known where E is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput

#: Of `ScaledRows`: with the counts of any table beside them, products still fit 64 bits.
MAX_ROWS, MAX_STANDS_FOR = 10**8, 10**10


def rows_apart(published: NDArray[np.int64], exact: NDArray[np.int64]) -> int:
    """E(published, exact) as above, both in the same unit."""
    difference = published - exact
    too_many = int(difference[difference > 0].sum())
    return max(too_many, too_many - int(difference.sum()))


def distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The same of numbers that are not whole, of what is released alone.

    It is a norm of the difference, so what is within u of the truth and d from something else leaves that at least
    d - u from the truth.
    """
    difference = one - other
    return float(max(np.maximum(difference, 0).sum(), np.maximum(-difference, 0).sum()))


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledRows:
    """Synthetic rows, of which all together are taken for as many rows as the table is said to have.

    A count of theirs is theirs times `stands_for` / `rows`. It is given times `rows`, so it is whole.

    Attributes:
        bins: of every column the number of the bin, one a row.
        stands_for: how many rows of the table they are taken for.
    """

    bins: Mapping[str, NDArray[Any]]
    stands_for: int

    @property
    def rows(self) -> int:
        return len(next(iter(self.bins.values())))

    def table(self, names: tuple[str, ...], universe: Universe) -> NDArray[np.int64]:
        """Counts over some columns, flat, times `rows`."""
        shape = universe.project(names).shape
        cells = self.bins[names[0]].astype(np.int64)
        for name, size in zip(names[1:], shape[1:], strict=True):
            cells = cells * size + self.bins[name]
        return np.bincount(cells, minlength=prod(shape)) * np.int64(self.stands_for)

    def check(self, universe: Universe, names: tuple[str, ...]) -> None:
        """See that they have columns, and bins that are declared.

        Raises:
            InvalidInput: they have not, or are too many to compare exactly.
        """
        if not set(names) <= set(self.bins):
            raise InvalidInput("synthetic rows", ", ".join(self.bins), f"must have the columns {', '.join(names)}")
        if not 0 < self.rows <= MAX_ROWS or not 0 < self.stands_for <= MAX_STANDS_FOR:
            said = f"{self.rows:,} rows for {self.stands_for:,}"
            raise InvalidInput("synthetic rows", said, f"must be 1 to {MAX_ROWS:,} for 1 to {MAX_STANDS_FOR:,}")
        for name in names:
            column = self.bins[name]
            if len(column) != self.rows or column.min() < 0 or column.max() >= universe[name].size:
                raise InvalidInput("synthetic rows", name, "must hold a declared bin in every row")
