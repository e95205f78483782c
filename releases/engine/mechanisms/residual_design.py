"""How precisely to measure each residual: the least total or the least largest variance of the answers asked for.

Let residual A cost c_A for noise of variance 1, and give answer r the variance m_rA v_A where its own noise has
variance v_A. The cost is Σ c_A / v_A.

*Least total variance*, Σ_r w_r² n_r Σ_A m_rA v_A over n_r answers of weight w_r: with s_A = Σ_r w_r² n_r m_rA it is
Σ s_A v_A, which by Cauchy and Schwarz is least for v_A proportional to √(c_A / s_A) (Xiao et al. 2023, Theorem 6).

*Least largest variance*, max_r w_r² Σ_A m_rA v_A: whatever the shares λ_r >= 0, Σ λ_r = 1, no choice makes the largest
less than the least of Σ_r λ_r w_r² Σ_A m_rA v_A, which is the problem above. Where shares are found whose best choice
gives all answers with λ_r > 0 the same weighted variance, and no other more, both are equal and nothing is better. The
shares are sought by multiplying each by the variance its answer has (Silvey, Titterington and Torsney 1978). The search
decides what is asked for only, never what it costs, so it may stop early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from releases.engine.workload.queries import Workload
from releases.engine.workload.residuals import Residuals, accepted, lengths_in, variances_in

#: Of cumulative counts over many bins so many are looked at in the search.
_MAX_KINDS = 65
#: The search ends once no variance is so much above the least possible, or after so many steps.
_CLOSE = 1.0005
_MAX_STEPS = 300
#: Shares are multiplied by the ratio of variances raised to this.
_PACE = 1.5


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What noise on residuals does to the answers of a workload, by kind of answer.

    Attributes:
        factors: of the variance; a line for each kind, a column for each residual.
        lengths: of what one unit of the lattice on all cells of a residual can do, likewise.
        numbers: how many answers are of each kind.
        families: to which family of the workload each kind belongs.
        weights: of its answers.
    """

    factors: csr_matrix
    lengths: csr_matrix
    numbers: NDArray[np.float64]
    families: NDArray[np.int64]
    weights: NDArray[np.float64]

    @staticmethod
    def of(workload: Workload, residuals: Residuals) -> Answers:
        universe = workload.universe
        factors, lengths, kinds, columns, families, numbers = [], [], [], [], [], []
        first = 0
        for place, family in enumerate(workload.families):
            bins = accepted(family, universe)
            chosen = np.unique(np.linspace(0, len(bins) - 1, _MAX_KINDS).round().astype(np.int64))
            bins = bins[chosen]
            own = np.arange(first, first + len(bins))
            for column, part in residuals.parts(family.attributes):
                factors.append(variances_in(bins, family.attributes, part, universe))
                lengths.append(lengths_in(bins, family.attributes, part, universe))
                kinds.append(own)
                columns.append(np.full(len(own), column))
            families.extend([place] * len(own))
            numbers.extend([family.cells(universe) / len(own)] * len(own))
            first += len(own)
        at = (np.concatenate(kinds), np.concatenate(columns))
        shape = (first, len(residuals.sets))
        return Answers(
            factors=csr_matrix((np.concatenate(factors), at), shape=shape),
            lengths=csr_matrix((np.concatenate(lengths), at), shape=shape),
            numbers=np.array(numbers),
            families=np.array(families),
            weights=np.array(workload.weights, dtype=np.float64)[families],
        )


def variances(answers: Answers, costs: NDArray[np.float64], *, is_largest: bool) -> NDArray[np.float64]:
    """The best variance for each residual, up to a common factor; 0 where it costs nothing."""
    weighted = answers.weights**2
    if not is_largest:
        return _best(answers.factors.T @ (weighted * answers.numbers), costs)
    shares = answers.numbers / answers.numbers.sum()
    chosen = _best(answers.factors.T @ (weighted * shares), costs)
    for _ in range(_MAX_STEPS):
        had = weighted * (answers.factors @ chosen)
        mean = float(shares @ had)
        if mean == 0 or had.max() <= _CLOSE * mean:
            break
        shares = shares * (had / mean) ** _PACE
        shares /= shares.sum()
        chosen = _best(answers.factors.T @ (weighted * shares), costs)
    return chosen


def _best(slopes: NDArray[np.float64], costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """v_A proportional to √(c_A / s_A), of cost 1. A residual that hardly matters gets at most 10^8 of the least."""
    floor = 1e-16 * float(slopes.max())
    found = np.sqrt(costs / np.maximum(slopes, floor))
    spent = float(np.sum(np.divide(costs, found, out=np.zeros_like(costs), where=found > 0)))
    return np.asarray(found * spent)


def multipliers(variances_wanted: Sequence[float], *, least: int, most: int) -> tuple[int, ...]:
    """Whole numbers nearly proportional to 1/√v, the smallest `least` unless another would pass `most`; 0 for v = 0."""
    roots = np.sqrt(np.asarray(variances_wanted))
    noisy = roots[roots > 0]
    if not noisy.size:
        return (0,) * len(roots)
    scale = min(least * float(noisy.max()), most * float(noisy.min()))
    return tuple(max(1, round(scale / root)) if root > 0 else 0 for root in roots.tolist())
