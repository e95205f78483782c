"""Tables over a column and its levels, made consistent by weighted least squares: finer tables add up to coarser ones.

`least_squares` takes all columns for crossed. Where several columns follow from one text (`domain.levels`), a table
over region is a sum of one over municipality, and this knows it.

Let w run over the ways of the asked columns of hierarchies: the combinations of their bins that a row can have; P be
the other columns. All tables are sums of x, counts over w and the bins of P. For a table T over the columns H of
hierarchies and S of P let G_T sum over the ways with the same bins of H: one line for each combination of these, one
column for each way. Summed to U ⊆ S and centred there (`workload.residuals`), y_T says G_T x_U, with noise of precision
p_T,U = |U| / (|S| v_T) on each line, independent of what y_T says of other U. So the best linear unbiased estimate is

    x_U = M_U^- Σ_T p_T,U G_Tᵀ y_T,U,    M_U = Σ_T p_T,U G_Tᵀ G_T,    the sums over all T with U ⊆ S,

M^- a generalised inverse, and the answers are the G_T x_U spread evenly over S without U, added up over U (Aitken
1936). They are the same for every such inverse, for the lines of G_T are among the sums of lines of M_U. A combination
of bins that is in no way is 0 without error. Nothing but noisy answers is used, so it costs nothing. As in
`mixed_squares`, no v_T counts in p as less than 10^-6 of the largest.

Bound. The answer at (h, s) of T has on the draw at (h', s') of T', that agrees with s in exactly the columns D of those
I that both have, the factor

    c = Σ_{U ⊆ I} |U|/|S| p_T',U (G_T M_U^- G_T'ᵀ)[h, h'] Π_{i in U} ([i in D] - 1/d_i),

and there are |S'| / |I| Π_{i in I, not D} (d_i - 1) such s'. So it is the same for all s, and the exact law of Σ c z
and the union bound over all answers give the half widths, as in `mixed_squares`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from releases.engine.bounds.combinations import DISCRETE_GAUSSIAN
from releases.engine.domain.levels import Hierarchy
from releases.engine.mechanisms.least_squares import NoisyMarginals, shares_of_answers
from releases.engine.mechanisms.mixed_squares import RoundedErrors, weighed
from releases.engine.workload.queries import Marginal, Workload
from releases.engine.workload.residuals import Names, Residuals, subsets, with_bins

Floats = NDArray[np.float64]
#: More ways, tables, columns of one, and factors in all are not put together: seconds, and 600 MB.
MAX_WAYS, MAX_TABLES, MAX_COLUMNS, MAX_FACTORS = 1000, 100, 6, 20_000_000
#: Of the largest eigenvalue; those below are 0.
_SINGULAR = 1e-10
#: Inverses kept.
_KEPT = 16
#: Measured.
_SECONDS_A_FACTOR, _SECONDS_A_CUBE = 2e-7, 2e-10


class LevelTables:
    """Marginals over columns of hierarchies and others: what of each table a way is."""

    workload: Workload

    @cached_property
    def hierarchies(self) -> tuple[Hierarchy, ...]:
        return _asked(self.workload)

    @cached_property
    def ways(self) -> dict[str, NDArray[np.int64]]:
        """By column of these hierarchies its bin in each way of all of them together."""
        found: dict[str, NDArray[np.int64]] = {}
        grid = np.indices([len(each.ways) for each in self.hierarchies]).reshape(len(self.hierarchies), -1)
        for each, chosen in zip(self.hierarchies, grid, strict=True):
            found |= zip(each.names, np.array(each.ways, dtype=np.int64)[chosen].T, strict=True)
        return found

    def answers_of(self, table: WaysTable, found: dict[Names, Floats]) -> Floats:
        """Those of a table, from the counts over ways and each set of other columns, centred over these."""
        shape = self.shape(table.plain)
        answers = np.zeros((table.lines, *shape))
        for part in subsets(with_bins(self.workload.universe, table.plain)):
            own = table.sums @ found[part].reshape(self.size, -1)
            own = own.reshape(table.lines, *(s if n in part else 1 for n, s in zip(table.plain, shape, strict=True)))
            answers += own / (prod(shape) / prod(self.shape(part)))
        turned = answers.reshape([self.shape(table.attributes)[axis] for axis in table.order])
        return turned.transpose(np.argsort(table.order)).reshape(-1)

    @cached_property
    def tables(self) -> tuple[WaysTable, ...]:
        """Those that are asked for."""
        return tuple(self.table_over(family.attributes) for family in self.workload.families)

    def table_over(self, attributes: Names) -> WaysTable:
        of_levels = tuple(name for name in attributes if name in self.ways)
        plain = tuple(sorted(set(attributes) - set(self.ways), key=self.workload.universe.axis))
        shape = self.shape(of_levels)
        bins = [self.ways[name] for name in of_levels]
        line_of = np.ravel_multi_index(bins, shape) if bins else np.zeros(self.size, dtype=np.int64)
        order = tuple(attributes.index(name) for name in (*of_levels, *plain))
        return WaysTable(attributes=attributes, plain=plain, order=order, lines=prod(shape), line_of=line_of)

    @cached_property
    def residuals(self) -> Residuals:
        """Of the other columns."""
        return Residuals.of(self.workload.universe, [table.plain for table in self.tables])

    @property
    def size(self) -> int:
        """How many ways there are."""
        return prod(len(each.ways) for each in self.hierarchies)

    def shape(self, names: Names) -> tuple[int, ...]:
        return tuple(self.workload.universe[name].size for name in names)


class LevelSquares(NoisyMarginals, LevelTables):
    """How noisy marginals are put together, some columns levels of others."""

    @staticmethod
    def can_combine(workload: Workload) -> bool:
        """Whether the questions are whole tables over several columns of a hierarchy, and few enough."""
        families = workload.families
        if not all(isinstance(each, Marginal) and len(each.attributes) <= MAX_COLUMNS for each in families):
            return False
        if len(families) > MAX_TABLES or not _asked(workload):
            return False
        # No bound is asked of this one.
        squares = LevelSquares(workload=workload, law=DISCRETE_GAUSSIAN, variances=(1.0,) * len(families))
        return 0 < squares.size <= MAX_WAYS and sum(squares._factors) <= MAX_FACTORS

    @property
    def seconds(self) -> float:
        """That planning and a run take."""
        return sum(self._factors) * _SECONDS_A_FACTOR + len(self.residuals.sets) * self.size**3 * _SECONDS_A_CUBE

    @property
    def bytes(self) -> int:
        """Of memory."""
        return 32 * max(self._factors) + 8 * self.size**2 * (_KEPT + 4)

    def half_widths(self, *, beta: float, of_each_table: bool = False) -> tuple[float, ...]:
        """What the errors of all answers are within, all at once with probability 1 - beta.

        Args:
            of_each_table: each table has an equal part of beta, rather than each answer.
        """
        shares = shares_of_answers(self.workload, beta=beta, of_each_table=of_each_table)
        unit = self.variances[0]
        errors = _errors(self.workload, self.relative)
        # Tables that look alike among the others have one half width.
        keys = [(each.key, share) for each, share in zip(errors, shares, strict=True)]
        found = {
            key: each.scaled(unit).half_width(law=self.law, beta=key[1])
            for key, each in dict(zip(keys, errors, strict=True)).items()
        }
        return tuple(found[key] for key in keys)

    def combined(self, noisy: Sequence[Floats]) -> tuple[Floats, ...]:
        """The consistent answers, from noisy ones of each table."""
        sums = {names: np.zeros((self.size, *self.shape(names))) for names in self.residuals.sets}
        for table, answers, variance in zip(self.tables, noisy, weighed(self.relative), strict=True):
            own = answers.reshape(self.shape(table.attributes)).transpose(table.order)
            own = own.reshape(-1, *self.shape(table.plain))
            for part in subsets(with_bins(self.workload.universe, table.plain)):
                gone = tuple(axis for axis, name in enumerate(table.plain, start=1) if name not in part)
                said = own.sum(axis=gone)
                for axis in range(1, said.ndim):
                    said = said - said.mean(axis=axis, keepdims=True)
                sums[part] += self._precision(table, part, variance) * said[table.line_of]
        found = {names: np.tensordot(self._inverse(names), each, axes=1) for names, each in sums.items()}
        return tuple(self.answers_of(table, found) for table in self.tables)

    @property
    def _factors(self) -> list[int]:
        """How many each table needs."""
        sets = [(set(with_bins(self.workload.universe, each.plain)), each.lines) for each in self.tables]
        return [sum(many * other << len(one & two) for two, other in sets) for one, many in sets]

    def _precision(self, table: WaysTable, part: Names, variance: float) -> float:
        return prod(self.shape(part)) / (prod(self.shape(table.plain)) * variance)

    def _inverse(self, part: Names) -> Floats:
        """M_U^-, shape (ways, ways)."""
        said = []
        for table, variance in zip(self.tables, weighed(self.relative), strict=True):
            if set(part) <= set(table.plain):
                said.append((table.line_of.tobytes(), self._precision(table, part, variance)))
        return _inverse(tuple(said))

    def _errors_of(self, table: WaysTable) -> RoundedErrors:
        """Those of the answers of a table; the variances are relative ones."""
        lines = np.unique(table.line_of)
        blocks, variances, many = [], [], []
        for other, variance, counts_as in zip(self.tables, self.relative, weighed(self.relative), strict=True):
            shared = tuple(n for n in with_bins(self.workload.universe, table.plain) if n in other.plain)
            sizes = self.shape(shared)
            by_part = {part: self._between(table, other, part, counts_as)[lines] for part in subsets(shared)}
            for agreeing in subsets(shared):
                signs = {
                    part: prod((n in agreeing) - 1 / s for n, s in zip(shared, sizes, strict=True) if n in part)
                    for part in by_part
                }
                blocks.append(sum((signs[part] * each for part, each in by_part.items()), start=np.zeros(())))
                apart = prod(s - 1 for n, s in zip(shared, sizes, strict=True) if n not in agreeing)
                cells = prod(self.shape(other.plain)) // prod(sizes) * apart
                variances.append(np.full(other.lines, variance))
                many.append(np.full(other.lines, float(cells)))
        counted = np.concatenate(many)
        used = counted > 0
        factors = np.concatenate(blocks, axis=1)[:, used]
        return RoundedErrors.of(factors, np.concatenate(variances)[used], counted[used])

    def _between(self, table: WaysTable, other: WaysTable, part: Names, variance: float) -> Floats:
        """|U|/|S| p (G_T M_U^- G_T'ᵀ), shape (lines of one, lines of the other)."""
        found = other.sums @ (table.sums @ self._inverse(part)).T
        share = prod(self.shape(part)) / prod(self.shape(table.plain))
        return np.asarray(share * self._precision(other, part, variance) * found.T)


@dataclass(frozen=True, kw_only=True, eq=False)
class WaysTable:
    """A table, by ways.

    Attributes:
        plain: its columns that are in no hierarchy.
        order: of its axes, those of hierarchies first.
        lines: combinations of bins of its columns of hierarchies.
        line_of: which of them each way has.
    """

    attributes: Names
    plain: Names
    order: tuple[int, ...]
    lines: int
    line_of: NDArray[np.int64]

    @cached_property
    def sums(self) -> csr_array:
        """G_T, shape (lines, ways)."""
        ways = self.line_of.size
        return csr_array((np.ones(ways), (self.line_of, np.arange(ways))), shape=(self.lines, ways))


def _asked(workload: Workload) -> tuple[Hierarchy, ...]:
    """The hierarchies of which several columns are asked about."""
    names = {name for family in workload.families for name in family.attributes}
    return workload.universe.project(name for name in workload.universe.names if name in names).hierarchies


@lru_cache(maxsize=_KEPT)
def _inverse(said: tuple[tuple[bytes, float], ...]) -> Floats:
    """A generalised inverse of Σ p Gᵀ G.

    Ways that no table tells apart are one unknown, the first of them. Where some tables tell all of these apart, their
    precisions are a multiple of the identity, and the other tables change it by a matrix of low rank (Woodbury 1950).

    Args:
        said: of each table the line of each way, and p.
    """
    lines = np.stack([np.frombuffer(line_of, dtype=np.int64) for line_of, _ in said])
    _, first = np.unique(lines, axis=1, return_index=True)
    own = lines[:, first]
    finest, columns = 0.0, [np.zeros((first.size, 0))]
    for line, (_, precision) in zip(own, said, strict=True):
        distinct = np.unique(line)
        if distinct.size == line.size:
            finest += precision
        else:
            columns.append(np.sqrt(precision) * (line[:, None] == distinct))
    others = np.concatenate(columns, axis=1)
    found = np.zeros((lines.shape[1], lines.shape[1]))
    if finest:
        small = finest * np.eye(others.shape[1]) + others.T @ others
        found[np.ix_(first, first)] = (np.eye(first.size) - others @ np.linalg.solve(small, others.T)) / finest
    else:
        values, vectors = np.linalg.eigh(others @ others.T)
        kept = values > _SINGULAR * values[-1]
        found[np.ix_(first, first)] = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    return found


@lru_cache(maxsize=4)
def _errors(workload: Workload, variances: tuple[float, ...]) -> tuple[RoundedErrors, ...]:
    """The errors, kept for the points of a curve, whose variances differ by a factor."""
    squares = LevelSquares(workload=workload, law=DISCRETE_GAUSSIAN, variances=variances)
    return tuple(map(squares._errors_of, squares.tables))
