"""A mixture of products: a distribution over any number of attributes, whose every marginal has a closed form.

    p(x) = sum over components k of s_k P_1(x_1 | k) ... P_d(x_d | k)

It is held as the shares s, shape (K,), and the conditionals P_a stacked into one matrix, shape (sum of bins, K). So
memory grows with the number of bins and not with that of cells, and all two-way marginals are one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from releases.engine.errors import InvalidInput
from releases.engine.estimation.levels import Levels
from releases.engine.estimation.marginals import Axes

Floats = NDArray[np.float32]

#: Numbers held at once while a marginal is worked out.
_WORKED_ON = 1 << 23


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixture:
    """See the head of this file.

    Attributes:
        shape: bins of each attribute.
        shares: of the components, not negative, with sum 1; shape (K,).
        stacked: the conditionals, one attribute below the other; each column of an attribute sums to 1.
    """

    shape: tuple[int, ...]
    shares: Floats
    stacked: Floats

    def __post_init__(self) -> None:
        if self.stacked.shape != (sum(self.shape), len(self.shares)):
            raise InvalidInput("stacked", self.stacked.shape, "must have one row a bin and one column a component")
        for name in ("shares", "stacked"):
            values = getattr(self, name)
            if not np.isfinite(values).all() or (values < 0).any():
                raise InvalidInput(name, values.shape, "must hold finite numbers, none below 0")

    @staticmethod
    def product(tables: Sequence[NDArray[np.float64]]) -> Mixture:
        """Independent attributes, from weights of their bins."""
        stacked = np.concatenate([table / table.sum() for table in tables])[:, None].astype(np.float32)
        return Mixture(shape=tuple(map(len, tables)), shares=np.ones(1, dtype=np.float32), stacked=stacked)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first row of each attribute among the stacked ones, and behind them how many there are."""
        return (0, *np.cumsum(self.shape).tolist())

    def conditionals(self, axis: int) -> Floats:
        """P_a, shape (bins, K)."""
        return self.stacked[self.starts[axis] : self.starts[axis + 1]]

    def merged(self, levels: Levels) -> Mixture:
        """The mixture of the levels."""
        return Mixture(shape=levels.shape, shares=self.shares, stacked=levels.sums(self.stacked))

    def marginal(self, axes: Axes) -> NDArray[np.float64]:
        """The probabilities of a marginal, one axis an attribute, in the order given."""
        if not axes:
            return np.array(float(self.shares.sum()))
        lengths = [self.shape[axis] for axis in axes]
        last = max(range(len(axes)), key=lengths.__getitem__)
        others = [axis for place, axis in enumerate(axes) if place != last]
        table = self._table(others, axes[last]).reshape([self.shape[axis] for axis in others] + [lengths[last]])
        return np.moveaxis(table, -1, last)

    def _table(self, others: Sequence[int], last: int) -> NDArray[np.float64]:
        """The marginal over `others` (rows) and `last` (columns), some bins of the first of `others` at a time."""
        right = self.conditionals(last).T
        if not others:
            return (self.shares @ right)[None].astype(np.float64)
        each = prod(self.shape[axis] for axis in others[1:])
        table = np.empty((self.shape[others[0]] * each, self.shape[last]))
        step = max(1, _WORKED_ON // (each * len(self.shares)))
        for first in range(0, self.shape[others[0]], step):
            left = self.conditionals(others[0])[first : first + step] * self.shares
            for axis in others[1:]:
                left = (left[:, None, :] * self.conditionals(axis)).reshape(-1, len(self.shares))
            table[first * each : first * each + len(left)] = left @ right
        return table
