"""Residuals over columns and their levels, put together by weighted least squares: finer tables add up to coarser ones.

`residual-queries` measures the residual P_A x_A of each set A of columns, with noise P_A z_A of variance v_A on the
cells, and takes all columns for crossed. Where several columns follow from one text (`domain.levels`), a residual of
region says of municipalities what their residual says too. As in `level_squares` let w run over the n ways, G_H sum
over those with the same bins of the columns H of hierarchies, U be the other columns, x_U the counts over ways and U,
centred over U. For A = H ∪ U the residual is (P_H G_H ⊗ I) x_U + noise of covariance v_A P_H ⊗ P_U, and P_H is its own
generalised inverse. So the best linear unbiased estimate (Aitken 1936) is

    x_U = M_U^- Σ_A G_Hᵀ y_A / v_A,    M_U = Σ_A G_Hᵀ P_H G_H / v_A,    the sums over all A = H ∪ U that are measured,

of covariance M_U^- ⊗ P_U, independent for different U. As P_H = ⊗ (I - J/d_i), J all ones, G_Hᵀ P_H G_H has in place
(w, w') the product over i in H of [w and w' have the same bin of i] - 1/d_i. Where the number of rows is public, N, the
estimate is of x - N/n, which adds up to 0: M_U is taken between such vectors.

A table over H and S has the answers Σ_{U ⊆ S} |U|/|S| G_H x_U. All G_H x_U can be estimated, for all subsets of H ∪ S
are measured, and with all K ⊆ H the lines of P_K G_K span those of G_H. The tables are sums of the same x, so they add
up.

*Never less precise.* The answers as residuals give them are linear and unbiased too, for every table that a row can be
counted in, so each has at least the variance of the best such estimate,

    Σ_{U ⊆ S} (|U|/|S|)² (G_H M_U^- G_Hᵀ)[h, h] Π_{i in U} (1 - 1/d_i).

Nothing but what is released anyway is used, so it costs nothing. The bound is that of `residual_queries`, with these
variances, and with the factors |U|/|S| (G_H M_U^- G_H'ᵀ P_H')[h, h'] / v_A Π_{i in U} ([same bin of i] - 1/d_i) that an
answer has on the cells of A = H' ∪ U for the distance between whole and normal noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from releases.engine.mechanisms.level_squares import (
    MAX_COLUMNS,
    MAX_FACTORS,
    MAX_TABLES,
    MAX_WAYS,
    LevelTables,
    WaysTable,
)
from releases.engine.workload.queries import Marginal, Workload
from releases.engine.workload.residuals import Names, Residuals, subsets, with_bins

Floats = NDArray[np.float64]
#: Ways cubed, times sets of other columns: a few seconds.
_MAX_CUBES = 3e9
#: Of the largest eigenvalue; those below are 0.
_SINGULAR = 1e-10
#: How much is added to what is worked out in doubles.
_ROUNDED_UP = 1 + 1e-9
#: Measured.
_SECONDS_A_CUBE, _SECONDS_A_FACTOR = 1e-9, 1e-8


@dataclass(frozen=True, kw_only=True)
class ResidualLevels(LevelTables):
    """How noisy residuals are put together.

    Attributes:
        workload: of marginals alone.
        measured: residuals.
        multipliers: of each; 0 for one that is public.
        lattice_variance: of the noise on each cell times its multiplier.
    """

    workload: Workload
    measured: Residuals
    multipliers: tuple[int, ...]
    lattice_variance: int

    @property
    def can_combine(self) -> bool:
        """Whether the questions are whole tables over several columns of a hierarchy, and few enough."""
        families = self.workload.families
        if not all(isinstance(each, Marginal) and len(each.attributes) <= MAX_COLUMNS for each in families):
            return False
        if len(families) > MAX_TABLES or not 0 < self.size <= MAX_WAYS or not self.hierarchies:
            return False
        return self.size**3 * len(self.residuals.sets) <= _MAX_CUBES and self._factors <= MAX_FACTORS

    @property
    def _factors(self) -> int:
        """How many are looked at for the bound."""
        lines = [min(table.lines, self.size) for table in self.tables]
        own = [prod(self.shape(self._of_levels(names))) for names in self.measured.sets]
        return sum(lines) * sum(own)

    @property
    def seconds(self) -> float:
        """That planning and a run take."""
        return self.size**3 * len(self.residuals.sets) * _SECONDS_A_CUBE + self._factors * _SECONDS_A_FACTOR

    @property
    def bytes(self) -> int:
        """Of memory."""
        return 8 * (self.size**2 * (len(self.residuals.sets) + 4) + 2 * self._factors)

    def half_widths(self, quantile: float) -> tuple[float, ...]:
        """What the errors of the answers of each family are within.

        Args:
            quantile: what all normal errors are within, in deviations.
        """
        return tuple(self._half_width(table, quantile) for table in self.tables)

    @property
    def variances(self) -> tuple[float, ...]:
        """The largest of an answer of each family."""
        return tuple(float(self._variances(table).max()) for table in self.tables)

    def combined(self, found: Mapping[Names, Floats]) -> tuple[Floats, ...]:
        """The consistent answers, from the noisy residuals."""
        estimates = {part: self._estimate(part, found) for part in self.residuals.sets}
        return tuple(self.answers_of(table, estimates) for table in self.tables)

    def _estimate(self, part: Names, found: Mapping[Names, Floats]) -> Floats:
        """x_U, shape (ways, bins of U)."""
        sums = np.zeros((self.size, *self.shape(part)))
        for names, precision in self._with(part):
            table = self.table_over(names)
            own = found[names].transpose(table.order).reshape(-1, *self.shape(part))
            sums += precision * own[table.line_of]
        if part or self._precision(()) > 0:
            return np.asarray(np.tensordot(self._inverses[part], sums, axes=1))
        even = np.full(self.size, float(found[()]) / self.size)
        return np.asarray(even + self._inverses[part] @ (sums - self._gram(part) @ even))

    def _with(self, part: Names) -> list[tuple[Names, float]]:
        """The residuals that have exactly these columns outside of hierarchies, with 1/v; none that is public."""
        every = ((names, self._precision(names)) for names in self.measured.sets if self._plain(names) == part)
        return [(names, precision) for names, precision in every if precision > 0]

    def _plain(self, names: Names) -> Names:
        return tuple(name for name in names if name not in self.ways)

    def _of_levels(self, names: Names) -> Names:
        return tuple(name for name in names if name in self.ways)

    def _precision(self, names: Names) -> float:
        return self.multipliers[self.measured.places[names]] ** 2 / self.lattice_variance

    def _gram(self, part: Names) -> Floats:
        """M_U, shape (ways, ways)."""
        found = np.zeros((self.size, self.size))
        for names, precision in self._with(part):
            own = np.full_like(found, precision)
            for name in self._of_levels(names):
                bins = self.ways[name]
                own *= (bins[:, None] == bins) - 1 / self.workload.universe[name].size
            found += own
        return found

    @cached_property
    def _inverses(self) -> dict[Names, Floats]:
        """M_U^- of each."""
        found = {}
        for part in self.residuals.sets:
            gram = self._gram(part)
            if not part and self._precision(()) == 0:
                for axis in (0, 1):
                    gram = gram - gram.mean(axis=axis, keepdims=True)
            values, vectors = np.linalg.eigh(gram)
            kept = values > _SINGULAR * max(values[-1], 0.0)
            found[part] = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        return found

    def _by_line(self, table: WaysTable, part: Names) -> tuple[NDArray[np.int64], Floats]:
        """The lines of a table that some way has, and G_H M_U^- of these, times |U|/|S|."""
        lines = np.unique(table.line_of)
        share = prod(self.shape(part)) / prod(self.shape(table.plain))
        return lines, share * (table.sums[lines] @ self._inverses[part])

    def _variances(self, table: WaysTable) -> Floats:
        """Of the answers on each line that some way has."""
        found = np.zeros(np.unique(table.line_of).size)
        for part in subsets(with_bins(self.workload.universe, table.plain)):
            lines, factors = self._by_line(table, part)
            share = prod(self.shape(part)) / prod(self.shape(table.plain))
            own = (table.sums[lines] @ factors.T).diagonal() * share
            found += own * prod(1 - 1 / size for size in self.shape(part))
        return np.maximum(found, 0.0)

    def _half_width(self, table: WaysTable, quantile: float) -> float:
        slack = np.zeros(np.unique(table.line_of).size)
        for part in subsets(with_bins(self.workload.universe, table.plain)):
            _, factors = self._by_line(table, part)
            spread = prod(2 * (1 - 1 / size) for size in self.shape(part))
            for names, precision in self._with(part):
                shape = self.shape(self._of_levels(names))
                own = (self.table_over(names).sums @ factors.T).T.reshape(-1, *shape)
                for axis in range(1, own.ndim):
                    own = own - own.mean(axis=axis, keepdims=True)
                lengths = np.abs(own).reshape(len(own), -1).sum(axis=1)
                slack += spread * precision * lengths / sqrt(precision * self.lattice_variance)
        return float((quantile * np.sqrt(self._variances(table)) + slack).max()) * _ROUNDED_UP
