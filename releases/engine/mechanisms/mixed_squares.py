"""Tables, running totals and single counts, made consistent by weighted least squares: each makes the others narrower.

`least_squares` has a closed form for tables alone. Here noise is drawn for any sums of cells: the answers, the ranges
of `laplace-tree`, the weighted sums of `gaussian-cumulative`.

Estimate. A table over the attributes C is x_C = Σ_{A ⊆ C} (⊗_{i in A} B_i ⊗_{i not in A} 1/d_i) θ_A, where the columns
of B_i are orthonormal and each add up to 0, and θ_A = (⊗_{i in A} B_iᵀ) x_A has the residual of A
(`workload.residuals`). So what noise was drawn for is X θ, the answers are Y θ, and with the variances V of the
independent draws z the best linear unbiased estimate of the answers from y = X θ + z is C y,

    C = Y (Xᵀ V^-1 X)^-1 Xᵀ V^-1

(Aitken, On Least Squares and Linear Combination of Observations, 1936). Only noisy numbers are used: it costs nothing.
A count joins where some table or running total has all its columns. Any other is left as it is: y itself, C = 1.

In C alone no variance counts as less than 10^-6 of the largest. C X = Y holds for any V, but in doubles only nearly:
without that, some answers would be off by more than their noise.

Bound. C X = Y, so the error of an answer is Σ c_j z_j with factors that follow from the questions and the noise alone.
Let g_j be c_j rounded to a multiple of a step h. Then |c_j - g_j| <= h/2, and the error is Σ g_j z_j, of a few hundred
different factors, whose exact law `bounds.combinations` has, and a rest. E exp(u Z) grows with |u| for a symmetric law,
so Chernoff's bound for Σ (h/2) z_j bounds the rest too. Of each answer's β/k a thousandth is for the rest, and h is so
small that its deviation is at most a thousandth of the answer's, or next to nothing beside all noise. The union bound
is over all k answers of the release, those left as they are too: all intervals share one β.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from math import prod, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.combinations import (
    DISCRETE_GAUSSIAN,
    NoiseCombination,
    SummandLaw,
    combination_quantile,
    quick_quantile,
)
from releases.engine.domain.universe import Universe
from releases.engine.mechanisms.least_squares import shares_of_answers
from releases.engine.workload.queries import Count, Family, Marginal, Prefix, Workload
from releases.engine.workload.residuals import Names, Residuals

Floats = NDArray[np.float64]
FORMULA = (
    r"\alpha = \min\left\{a : \Pr\left[\left|\textstyle\sum_j c_j Z_j\right| > a\right] \le \tfrac{\beta}{k}\right\},"
    r"\quad c = Y (X^{\top} V^{-1} X)^{-1} X^{\top} V^{-1}"
)
SOURCE = "Aitken, On Least Squares and Linear Combination of Observations (1936); the exact law of a weighted sum"
#: Draws times unknowns squared, and answers times draws: a second, and 32 MB.
_MAX_WORK, _MAX_FACTORS = 1.5e9, 4_000_000
_MAX_COLUMNS = 10
#: No draw counts as more than so much surer than another. With 10^12 answers about 10^7 rows were off by 300 before any
#: noise, with 10^6 by 0.0005.
_MAX_APART = 1e6
#: Of an answer's deviation and of its share of beta, for rounded factors; no step is less than this part of a factor.
_REST, _LEAST_STEP = 1e-3, 2.0**-40
#: How much is added to what is worked out in doubles.
_ROUNDED_UP = 1 + 1e-9
#: To bound one answer, and for a product and a sum of the matrices: measured.
_SECONDS_AN_ANSWER, _SECONDS_A_PRODUCT = 1e-3, 4e-10


class Measuring(Protocol):
    """What noise is drawn for in a family, where it is not its answers. Hashable."""

    @property
    def multiplier(self) -> int:
        """Of each answer, in a family of no running totals."""
        ...

    def matrix(self, family: Family, universe: Universe) -> Floats:
        """A line for each draw: the factors of the cells of the family's table."""
        ...


@dataclass(frozen=True, kw_only=True)
class MixedSquares:
    """How noisy numbers are put together.

    Attributes:
        workload: of any families that count the same rows.
        law: of the noise.
        variances: of the noise on what is measured of each family.
        measuring: of each family; None where noise is drawn for its answers.
    """

    workload: Workload
    law: SummandLaw
    variances: tuple[float, ...]
    measuring: tuple[Measuring | None, ...]

    def __post_init__(self) -> None:
        self.workload.check_same_rows()

    @property
    def can_combine(self) -> bool:
        """Whether there are few enough draws, and more than unknowns: else there is nothing to choose from."""
        widest = max(len(family.attributes) for family in self.workload.families)
        if widest > _MAX_COLUMNS or not self.sets or self.workload.size > _MAX_FACTORS:
            return False
        if self.unknowns**2 > _MAX_WORK or self.workload.size * self.unknowns > _MAX_FACTORS:
            return False
        draws = sum(self._draws)
        is_small = draws * self.unknowns**2 <= _MAX_WORK and draws * self.workload.size <= _MAX_FACTORS
        return is_small and draws > self.unknowns + sum(not joins for joins in self.joins)

    @cached_property
    def sets(self) -> tuple[Names, ...]:
        """The columns of tables and running totals."""
        return tuple(f.attributes for f in self.workload.families if not isinstance(f, Count))

    @cached_property
    def joins(self) -> tuple[bool, ...]:
        """Whether each family is put together with others."""
        known = [frozenset(names) for names in self.sets]
        return tuple(any(known_set.issuperset(f.attributes) for known_set in known) for f in self.workload.families)

    @cached_property
    def residuals(self) -> Residuals:
        return Residuals.of(self.workload.universe, self.sets)

    @property
    def unknowns(self) -> int:
        """How many numbers all joined tables follow from."""
        return sum(prod(size - 1 for size in self.residuals.shape(names)) for names in self.residuals.sets)

    @property
    def seconds(self) -> float:
        """That planning and a run take."""
        work = sum(self._draws) * (self.unknowns**2 + self.workload.size * self.unknowns)
        return self.workload.size * _SECONDS_AN_ANSWER + work * _SECONDS_A_PRODUCT

    @property
    def bytes(self) -> int:
        """Of memory."""
        return 32 * sum(self._draws) * (self.unknowns + self.workload.size)

    def half_widths(self, *, beta: float, of_each_table: bool = False) -> tuple[float, ...]:
        """What the errors of the answers of each family are within, all at once with probability 1 - beta.

        Args:
            of_each_table: each family has an equal part of beta, rather than each answer.
        """
        return _half_widths(self, shares_of_answers(self.workload, beta=beta, of_each_table=of_each_table))

    def combined(self, measured: Sequence[Floats]) -> tuple[Floats, ...]:
        """The consistent answers, from what was measured of each family."""
        return tuple(np.asarray(each) for each in self.workload.split(self.factors @ np.concatenate(measured)))

    @property
    def factors(self) -> Floats:
        """C: of each answer a line, of each draw a column. It stays as it is where all variances grow alike."""
        first, *others = weighed(self.variances)
        return _factors(self.workload, (1.0, *(each / first for each in others)), self.measuring)

    @property
    def variances_of_draws(self) -> Floats:
        return np.repeat(np.array(self.variances), self._draws)

    @cached_property
    def _draws(self) -> list[int]:
        """How many each family has."""
        universe = self.workload.universe
        return [
            family.cells(universe)
            if measuring is None or not isinstance(family, Prefix)
            else len(measuring.matrix(family, universe))
            for family, measuring in zip(self.workload.families, self.measuring, strict=True)
        ]

    def _found_factors(self) -> Floats:
        starts = np.cumsum([0, *(prod(d - 1 for d in self.residuals.shape(names)) for names in self.residuals.sets)])
        measured, answers = [], []
        for family, measuring, joins in zip(self.workload.families, self.measuring, self.joins, strict=True):
            if joins:
                table, own = self._table(family.attributes, starts), matrix_of(family, self.workload.universe)
                drawn = own if measuring is None else measuring.matrix(family, self.workload.universe)
                answers.append(own @ table)
                measured.append(drawn @ table)
        is_joined = np.repeat(self.joins, self._draws)
        precisions = 1 / self.variances_of_draws[is_joined]
        x, y = np.concatenate(measured), np.concatenate(answers)
        sizes = np.sqrt(precisions @ x**2)
        x, y = x / sizes, y / sizes
        weighted = x.T * precisions
        found = np.linalg.solve(weighted @ x, weighted)
        cells = [family.cells(self.workload.universe) for family in self.workload.families]
        whole = np.zeros((self.workload.size, is_joined.size))
        whole[np.ix_(np.repeat(self.joins, cells), is_joined)] = y @ found
        # What is left as it is has one draw an answer.
        alone = [m for m, joins in zip(self.measuring, self.joins, strict=True) if not joins]
        places = np.flatnonzero(~np.repeat(self.joins, cells)), np.flatnonzero(~is_joined)
        whole[places] = [1.0 if measuring is None else 1 / measuring.multiplier for measuring in alone]
        return whole

    def _table(self, names: Names, starts: NDArray[np.int64]) -> Floats:
        """The cells of a table by θ."""
        found = np.zeros((prod(self.residuals.shape(names)), int(starts[-1])))
        for place, part in self.residuals.parts(names):
            sides = [
                contrasts(size) if name in part else np.full((size, 1), 1 / size)
                for name, size in zip(names, self.residuals.shape(names), strict=True)
            ]
            found[:, starts[place] : starts[place + 1]] = reduce(
                lambda one, other: np.kron(one, other), sides, np.ones((1, 1))
            )
        return found


def weighed(variances: Sequence[float]) -> tuple[float, ...]:
    """By which variances noisy numbers are weighed."""
    least = max(variances) / _MAX_APART
    return tuple(max(each, least) for each in variances)


def contrasts(size: int) -> Floats:
    """Orthonormal columns that each add up to 0: as many less one."""
    places = np.arange(1, size)
    found = np.where(np.arange(size)[:, None] < places, 1.0, 0.0)
    found[places, places - 1] = -places
    return np.asarray(found / np.sqrt(places * (places + 1.0)))


def matrix_of(family: Family, universe: Universe) -> Floats:
    """The answers by the cells of its table."""
    cells = prod(universe[name].size for name in family.attributes)
    if isinstance(family, Marginal):
        return np.eye(cells)
    if isinstance(family, Prefix):
        return np.tri(cells)
    return family.adjoint(np.ones(1), tuple(universe[name].size for name in family.attributes)).reshape(1, -1)


@lru_cache(maxsize=2)
def _factors(
    workload: Workload, variances: tuple[float, ...], measuring: tuple[Measuring | None, ...]
) -> NDArray[np.float64]:
    squares = MixedSquares(workload=workload, law=DISCRETE_GAUSSIAN, variances=variances, measuring=measuring)
    return squares._found_factors()


@lru_cache(maxsize=32)
def _half_widths(squares: MixedSquares, shares: tuple[float, ...]) -> tuple[float, ...]:
    cells = [family.cells(squares.workload.universe) for family in squares.workload.families]
    variances = squares.variances_of_draws
    errors = (
        RoundedErrors.of(factors, variances, np.ones(variances.size))
        for factors in np.split(squares.factors, np.cumsum(cells)[:-1])
    )
    return tuple(each.half_width(law=squares.law, beta=share) for each, share in zip(errors, shares, strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundedErrors:
    """The errors of some answers, by rounded factors, and the rest: as at the head of this file.

    Attributes:
        errors: different ones, the one of the largest deviation first.
        rest: of each of them.
    """

    errors: tuple[NoiseCombination, ...]
    rest: NoiseCombination

    @staticmethod
    def of(factors: Floats, variances_of_draws: Floats, many: Floats) -> RoundedErrors:
        """
        Args:
            factors: of each answer a line, of each kind of draw a column.
            variances_of_draws: of each kind.
            many: how many draws of each kind there are.
        """
        variances, of_draw = np.unique(variances_of_draws, return_inverse=True)
        numbers = np.bincount(of_draw, weights=many).astype(np.float64)
        deviations = np.sqrt(factors**2 @ (many * variances_of_draws))
        step = 2 * _REST * float(deviations.min()) / sqrt(float(numbers @ variances))
        step = max(step, _LEAST_STEP * float(np.abs(factors).max()))
        rounded = np.rint(np.abs(factors) / step).astype(np.int64) * variances.size + of_draw
        found: dict[tuple[bytes, bytes], NoiseCombination] = {}
        for line in rounded[np.argsort(-deviations)]:
            kept = line >= variances.size
            kinds, kind_of = np.unique(line[kept], return_inverse=True)
            counts = np.bincount(kind_of, weights=many[kept]).astype(np.float64)
            if (key := (kinds.tobytes(), counts.tobytes())) not in found:
                found[key] = NoiseCombination(
                    factors=(kinds // variances.size) * step,
                    variances=variances[kinds % variances.size],
                    numbers=counts,
                )
        rest = NoiseCombination(factors=np.full(variances.size, step / 2), variances=variances, numbers=numbers)
        return RoundedErrors(errors=tuple(found.values()), rest=rest)

    @property
    def key(self) -> bytes:
        """The same for the same errors."""
        every = (np.concatenate([e.factors, e.variances, e.numbers]) for e in (*self.errors, self.rest))
        return np.concatenate(list(every)).tobytes()

    def scaled(self, unit: float) -> RoundedErrors:
        """The same where every variance is so many times as large."""
        errors, rest = (
            (replace(each, variances=each.variances * unit) for each in some) for some in (self.errors, (self.rest,))
        )
        return RoundedErrors(errors=tuple(errors), rest=next(rest))

    def half_width(self, *, law: SummandLaw, beta: float) -> float:
        """What each of the errors is within with probability 1 - beta."""
        widest = 0.0
        for error in self.errors:
            # The quick bound is never narrower: where it is within the widest, so is the exact one.
            if quick_quantile(error, law=law, beta=beta * (1 - _REST)) > widest:
                found = combination_quantile(error, law=law, beta=beta * (1 - _REST), least=widest)
                widest = max(widest, found)
        return (widest + quick_quantile(self.rest, law=law, beta=beta * _REST)) * _ROUNDED_UP
