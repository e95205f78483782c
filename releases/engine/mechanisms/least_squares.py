"""Answers with noise, made consistent by weighted least squares: what tables have in common is taken from all of them.

Let y_S = x_S + z_S be the noisy marginals, z_S independent with variance v_S in each cell. Of y_S each residual
(`workload.residuals`) is one piece: summed to the columns A and centred, P_A y, with noise of covariance
(v_S |S| / |A|) P_A, uncorrelated with the other pieces of the same table. So the best linear unbiased estimate of a
residual is the mean of its pieces by precision w_S,A = |A| / (|S| v_S), its covariance is P_A / W_A, W_A = sum of
w_S,A, and an answer is the sum of its residuals spread evenly. Nothing but noisy answers is used, so it costs nothing.

Bound for discrete Gaussian noise of deviation at least 2. Let an answer's error be E = sum of c_i Z_i, with variance
τ² = sum of c_i² v_i. Z_i is made of the same uniform number as a normal N_i of the same variance; then |Z_i - N_i| <= 1
(`residual_queries`). Both laws are symmetric, so D_i = Z_i - N_i has mean 0, and the D_i are independent. Then
E = sum of c_i N_i + sum of c_i D_i, and

*   of k normal variables of deviations τ_r, however they depend on one another, all are within u τ_r with probability
    Pr[|N| <= u]^k at least (Šidák 1967): 1 - 99 β / 100;
*   a sum of c_i D_i is beyond s with probability at most 2 exp(-s² / (2 sum of c_i²)) (Hoeffding 1963, Lemma 1), and
    sum of c_i² <= τ² / v, v the least v_i. With s = (τ / sqrt(v)) sqrt(2 ln(200 k / β)) that is at most β / (100 k).

So all k errors are within u τ_r + s_r at once with probability 1 - β, whatever N and D have to do with one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import normal_max_quantile
from releases.engine.estimation.residuals import marginal_of
from releases.engine.workload.queries import Marginal, Workload
from releases.engine.workload.residuals import Names, Residuals, accepted, variances_in

FORMULA = (
    r"\alpha = u\,\tau + \tfrac{\tau}{\sigma} \sqrt{2 \ln\tfrac{200 k}{\beta}},"
    r"\quad \Pr[|N| \le u]^k = 1 - \tfrac{99}{100} \beta,"
    r"\quad \tau^2 = \sum_{A \subseteq S} \tfrac{1}{W_A} \prod_{i \in A} \left(1 - \tfrac{1}{d_i}\right)"
    r" \prod_{i \in S \setminus A} \tfrac{1}{d_i^2}"
)
SOURCE = "Derived; Šidák (1967) for the normal part, Hoeffding (1963), Lemma 1, for the rest"
#: Of beta, for what discrete noise differs from normal noise.
_SHARE = 0.01
#: The least variance for which the proof holds, and how much is added to what is worked out in doubles.
LEAST_VARIANCE, _ROUNDED_UP = 4.0, 1 + 1e-9
#: No more residuals are put together.
_MAX_RESIDUALS, _MAX_COLUMNS = 50_000, 10


@dataclass(frozen=True, kw_only=True)
class LeastSquares:
    """How noisy marginals are put together.

    Attributes:
        workload: of marginals alone.
        variances: of the noise on an answer of each.
    """

    workload: Workload
    variances: tuple[float, ...]

    @staticmethod
    def can_combine(workload: Workload) -> bool:
        """Whether the questions are whole tables, and few enough."""
        families = workload.families
        if not all(isinstance(family, Marginal) and len(family.attributes) <= _MAX_COLUMNS for family in families):
            return False
        return sum(1 << len(family.attributes) for family in families) <= _MAX_RESIDUALS

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
    def pieces(self) -> int:
        """How many residuals all tables have."""
        return sum(1 << len(family.attributes) for family in self.workload.families)

    def _pieces(self) -> list[tuple[int, int, float]]:
        """Each residual of each table: its place, the table's, and its precision."""
        cells = self.residuals.cells
        return [
            (place, position, cells[place] / (family.cells(self.workload.universe) * variance))
            for position, (family, variance) in enumerate(zip(self.workload.families, self.variances, strict=True))
            for place, _ in self.residuals.parts(family.attributes)
        ]

    @cached_property
    def answer_variances(self) -> tuple[float, ...]:
        """τ² of an answer of each table."""
        universe, found = self.workload.universe, []
        for family in self.workload.families:
            bins = accepted(family, universe)
            own = np.zeros(len(bins))
            for place, part in self.residuals.parts(family.attributes):
                own += variances_in(bins, family.attributes, part, universe) / self.precisions[place]
            found.append(float(own.max()) * _ROUNDED_UP)
        return tuple(found)

    def half_widths(self, *, beta: float) -> tuple[float, ...]:
        """What the errors of all answers of discrete Gaussian noise are within, all at once with 1 - beta."""
        size = self.workload.size
        normal = normal_max_quantile(count=size, beta=(1 - _SHARE) * beta)
        rest = sqrt(2 * log(2 * size / (_SHARE * beta)) / min(self.variances))
        return tuple(sqrt(each) * (normal + rest) * _ROUNDED_UP for each in self.answer_variances)

    def combined(self, noisy: Sequence[NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
        """The consistent answers, from noisy ones of each table."""
        found: dict[Names, NDArray[np.float64]] = {
            names: np.zeros(self.residuals.shape(names)) for names in self.residuals.sets
        }
        for place, position, precision in self._pieces():
            names, attributes = self.residuals.sets[place], self.workload.families[position].attributes
            table = noisy[position].reshape(tuple(self.workload.universe[name].size for name in attributes))
            gone = tuple(axis for axis, name in enumerate(attributes) if name not in names)
            kept = [name for name in attributes if name in names]
            own = table.sum(axis=gone).transpose([kept.index(name) for name in names])
            for axis in range(own.ndim):
                own = own - own.mean(axis=axis, keepdims=True)
            found[names] += own * (precision / self.precisions[place])
        answers = self.workload.answer(lambda names: marginal_of(self.residuals, names, found))
        return tuple(np.asarray(each, dtype=np.float64) for each in answers)
