"""Answers with noise, made consistent by weighted least squares: what tables have in common is taken from all of them.

Let y_S = x_S + z_S be the noisy marginals, z_S independent with variance v_S in each cell. Of y_S each residual
(`workload.residuals`) is one piece: summed to the columns A and centred, P_A y, with noise of covariance
(v_S |S| / |A|) P_A, uncorrelated with the other pieces of the same table. So the best linear unbiased estimate of a
residual is the mean of its pieces by precision w_S,A = |A| / (|S| v_S), its covariance is P_A / W_A, W_A = sum of
w_S,A, and an answer is the sum of its residuals spread evenly. Nothing but noisy answers is used, so it costs nothing.

A table need not be measured to be answered: one that a measured table contains has all its residuals there, W_A > 0 for
each, and the estimate of x_S is the same sum over A ⊆ S. Below, T goes over the measured tables, and S over those that
are answered; that S is among the T is nowhere used.

Bound. An answer is a sum Σ c_j y_j of noisy cells with known c_j, so its error is Σ c_j z_j, and the exact law of that
(`bounds.combinations`) and the union bound over all k answers give the half widths: before the release, for the c_j
follow from the questions and the noise alone. Where each of t tables has an equal part of β, an answer of one with k_T
answers has β/(t k_T) in place of β/k. A cell t of table T that agrees with the cell s of S in exactly the
attributes D of those I that both have has

    c = 1/(|T| v_T) Σ_{A ⊆ I} |A|²/(|S| W_A) Π_{i in A} ([i in D] - 1/d_i)

(the residual A of x_S is spread over |S|/|A| cells, its piece of T has the share w_T,A / W_A, and P_A has the product
as its entry; no A outside of I is in both), and there are |T| Π_{i in I, not D} (d_i - 1) / Π_{i in I} d_i such cells.
It is the same for all cells s of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.combinations import NoiseCombination, SummandLaw, combination_quantile
from releases.engine.estimation.residuals import marginal_of
from releases.engine.workload.queries import Marginal, Workload
from releases.engine.workload.residuals import Names, Residuals, accepted, subsets, variances_in, with_bins

FORMULA = (
    r"\alpha = \min\left\{a : \Pr\left[\left|\textstyle\sum_j c_j Z_j\right| > a\right] \le \tfrac{\beta}{k}\right\},"
    r"\quad \textstyle\sum_j c_j^2 \operatorname{Var} Z_j = \sum_{A \subseteq S} \tfrac{1}{W_A}"
    r" \prod_{i \in A} \left(1 - \tfrac{1}{d_i}\right) \prod_{i \in S \setminus A} \tfrac{1}{d_i^2}"
)
SOURCE = "Derived; the exact law of a weighted sum of noise"
#: No more tables, and residuals of all of them, are put together.
_MAX_TABLES, _MAX_PIECES, _MAX_COLUMNS = 300, 50_000, 10
#: To put together one residual of one table, measured on 43,648.
_SECONDS_A_PIECE = 7e-5
#: How much is added to what is worked out in doubles.
_ROUNDED_UP = 1 + 1e-9


def shares_of_answers(workload: Workload, *, beta: float, of_each_table: bool) -> tuple[float, ...]:
    """With which probability an answer of each family may be outside of its interval: together beta."""
    if not of_each_table:
        return (beta / workload.size,) * len(workload.families)
    tables = len(workload.families)
    return tuple(beta / (tables * family.cells(workload.universe)) for family in workload.families)


@dataclass(frozen=True, kw_only=True)
class NoisyMarginals:
    """Marginals, and the noise on each: what is put together.

    Attributes:
        workload: of marginals alone, which count the same rows.
        law: of the noise.
        variances: of the noise on an answer of each.
    """

    workload: Workload
    law: SummandLaw
    variances: tuple[float, ...]

    def __post_init__(self) -> None:
        self.workload.check_same_rows()

    @property
    def relative(self) -> tuple[float, ...]:
        """Variances in units of the first: what follows from them stays as it is where all grow alike."""
        return tuple(each / self.variances[0] for each in self.variances)


@dataclass(frozen=True, kw_only=True)
class LeastSquares(NoisyMarginals):
    """How noisy marginals are put together, all columns crossed.

    Attributes:
        measured: what noise is on, each of `variances` in one of its families: tables that contain those of `workload`;
            None where noise is on these.
    """

    measured: Workload | None = None

    def __post_init__(self) -> None:
        both = (*self.workload.families, *self.tables.families)
        replace(self.workload, families=both).check_same_rows()

    @property
    def tables(self) -> Workload:
        """What noise is on."""
        return self.measured or self.workload

    @staticmethod
    def can_combine(workload: Workload) -> bool:
        """Whether the questions are whole tables, and few enough."""
        families = workload.families
        if not all(isinstance(family, Marginal) and len(family.attributes) <= _MAX_COLUMNS for family in families):
            return False
        if len(families) > _MAX_TABLES:
            return False
        return sum(1 << len(family.attributes) for family in families) <= _MAX_PIECES

    @cached_property
    def residuals(self) -> Residuals:
        return Residuals.of(self.workload.universe, self.workload.marginals)

    @cached_property
    def precisions(self) -> NDArray[np.float64]:
        """W_A of each residual."""
        found = np.zeros(len(self.residuals.sets))
        for place, _, precision in self._pieces():
            found[place] += precision
        return found

    @property
    def seconds(self) -> float:
        """That a run takes more."""
        return sum(1 << len(family.attributes) for family in self.tables.families) * _SECONDS_A_PIECE

    @property
    def bytes(self) -> int:
        """Of memory that a run takes more: next to none."""
        return 0

    def _pieces(self) -> list[tuple[int, int, float]]:
        """Each residual of each measured table that an answer has: its place, the table's, and its precision."""
        cells, places = self.residuals.cells, self.residuals.places
        return [
            (places[part], position, cells[places[part]] / (family.cells(self.workload.universe) * variance))
            for position, (family, variance) in enumerate(zip(self.tables.families, self.variances, strict=True))
            for part in subsets(with_bins(self.workload.universe, family.attributes))
            if part in places
        ]

    @property
    def answer_variances(self) -> tuple[float, ...]:
        """τ² of an answer of each table."""
        return tuple(each.deviation**2 for each in self.errors)

    def most_variance(self) -> float:
        """The largest τ², by the formula above, which is quicker than from the errors."""
        universe, found = self.workload.universe, 0.0
        for family in self.workload.families:
            names = family.attributes
            parts = (
                variances_in(accepted(family, universe), names, part, universe)[0] / self.precisions[place]
                for place, part in self.residuals.parts(names)
            )
            found = max(found, sum(parts))
        return found

    @cached_property
    def errors(self) -> tuple[NoiseCombination, ...]:
        """The error of an answer of each table. Its factors stay as they are where all variances grow alike."""
        alike = _errors(self.workload, self.measured, self.law, self.relative)
        return tuple(replace(each, variances=each.variances * self.variances[0]) for each in alike)

    def _errors(self) -> tuple[NoiseCombination, ...]:
        universe = self.workload.universe
        tables, asked = (
            [with_bins(universe, family.attributes) for family in each.families]
            for each in (self.tables, self.workload)
        )
        own = {name: place for place, name in enumerate(sorted({name for names in tables for name in names}))}
        has = np.zeros((len(tables), len(own)), dtype=np.int64)
        for place, names in enumerate(tables):
            has[place, [own[name] for name in names]] = 1
        cells = np.array([prod(self.residuals.shape(names)) for names in tables], dtype=np.float64)
        return tuple(self._error(names, has[:, [own[name] for name in names]], cells) for names in asked)

    def _error(self, names: Names, shared: NDArray[np.int64], cells: NDArray[np.float64]) -> NoiseCombination:
        """That of a cell of a table S.

        Args:
            names: of S.
            shared: for each table T a line, which of them it has.
            cells: of each T.
        """
        variances = np.array(self.variances)
        bins = np.array(self.residuals.shape(names), dtype=np.int64)
        # |A|² / (|S| W_A) of all A: an axis of two for each attribute, in A or not. Then, over I and D, an axis of
        # three: not in I, in I and the cells differ, in D.
        parts = np.empty((2,) * len(names))
        for chosen in np.ndindex(parts.shape):
            place = self.residuals.places[tuple(n for n, is_in in zip(names, chosen, strict=True) if is_in)]
            parts[chosen] = self.residuals.cells[place] ** 2 / (bins.prod() * self.precisions[place])
        states: NDArray[np.float64] = np.ones(())
        for axis, size in enumerate(bins):
            spread = np.array([[1, 0], [1, -1 / size], [1, 1 - 1 / size]])
            parts = np.moveaxis(np.tensordot(spread, parts, axes=(1, axis)), 0, axis)
            states = np.multiply.outer(states, np.array([1.0, (size - 1) / size, 1 / size]))
        found = []
        codes = shared @ (1 << np.arange(len(names)))
        for code in np.unique(codes).tolist():
            of = codes == code
            at = tuple(slice(1, 3) if code >> axis & 1 else 0 for axis in range(len(names)))
            factors = np.multiply.outer(1 / (cells[of] * variances[of]), np.abs(parts[at]).ravel())
            numbers = np.multiply.outer(cells[of], states[at].ravel())
            found.append(np.stack([factors, np.broadcast_to(variances[of][:, None], factors.shape), numbers]))
        kinds = np.concatenate([each.reshape(3, -1) for each in found], axis=1)
        kinds = kinds[:, (kinds[0] > 0) & (kinds[2] > 0)]
        (factors, variances), which = np.unique(kinds[:2], axis=1, return_inverse=True)
        numbers = np.bincount(which.ravel(), weights=kinds[2]).astype(np.float64)
        return NoiseCombination(factors=factors, variances=variances, numbers=numbers)

    def half_widths(self, *, beta: float, of_each_table: bool = False) -> tuple[float, ...]:
        """What the errors of all answers are within, all at once with probability 1 - beta.

        Args:
            of_each_table: each table has an equal part of beta, rather than each answer.
        """
        shares = shares_of_answers(self.workload, beta=beta, of_each_table=of_each_table)
        # Tables that look alike among the others have one half width.
        keys = [
            (np.concatenate([each.factors, each.variances, each.numbers]).tobytes(), share)
            for each, share in zip(self.errors, shares, strict=True)
        ]
        errors = dict(zip(keys, self.errors, strict=True))
        found = {key: combination_quantile(error, law=self.law, beta=key[1]) for key, error in errors.items()}
        return tuple(found[key] * _ROUNDED_UP for key in keys)

    def combined(self, noisy: Sequence[NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
        """The consistent answers, from noisy ones of each measured table."""
        found: dict[Names, NDArray[np.float64]] = {
            names: np.zeros(self.residuals.shape(names)) for names in self.residuals.sets
        }
        for place, position, precision in self._pieces():
            names, attributes = self.residuals.sets[place], self.tables.families[position].attributes
            table = noisy[position].reshape(tuple(self.workload.universe[name].size for name in attributes))
            gone = tuple(axis for axis, name in enumerate(attributes) if name not in names)
            kept = [name for name in attributes if name in names]
            own = table.sum(axis=gone).transpose([kept.index(name) for name in names])
            for axis in range(own.ndim):
                own = own - own.mean(axis=axis, keepdims=True)
            found[names] += own * (precision / self.precisions[place])
        answers = self.workload.answer(lambda names: marginal_of(self.residuals, names, found))
        return tuple(np.asarray(each, dtype=np.float64) for each in answers)


@lru_cache(maxsize=4)
def _errors(
    workload: Workload, measured: Workload | None, law: SummandLaw, variances: tuple[float, ...]
) -> tuple[NoiseCombination, ...]:
    """The errors, kept for the points of a curve, whose variances differ by a factor."""
    return LeastSquares(workload=workload, measured=measured, law=law, variances=variances)._errors()
