"""Replicates by the parametric bootstrap. Post-processing: no data are seen, nothing is spent, nothing is promised.

Rows x of the table are taken for a sample of n from a population p. A release is R(x): the plan's tables of x, noise of
its law, the fit, and whole rows of it. Its synthetic rows q_0 = R(x) are all that is known of p. So q_0 takes the place
of the population, and a replicate goes the whole way again: n rows x_r drawn from q_0 with replacement, and
q_r = R(x_r), with the plan that was published and noise of its own. How q_r differs from q_0 is how q_0 can be expected
to differ from p, by noise, fit, rounding and the choice of the sample together.

The only input that ever knew of people is q_0, which was released under the plan's guarantee, and whatever is made of a
released output has the same guarantee (Dwork and Roth 2014, Proposition 2.1). The plan's events happen to made-up rows,
so there is no one whom they would be charged for.

Source: Efron and Tibshirani (1993), "An introduction to the bootstrap", Section 6.5, for the parametric bootstrap;
Ferrando, Wang and Sheldon, AISTATS 2022, "Parametric bootstrap for differentially private confidence intervals", for
drawing the mechanism's noise again within it. Nothing is proved of its intervals for finite tables; where they are
offered was measured (`validity`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.errors import Infeasible, InvalidInput
from releases.engine.estimation.rounding import controlled_counts
from releases.engine.mechanisms.base import Plan
from releases.engine.noise.randomness import Randomness, uniform_below
from releases.engine.run import rows_to_make
from releases.engine.tables.counts import Tally, Texts, marginal

#: Few enough to be made while a release is written, and enough for a spread with 19 degrees of freedom.
NUMBER = 20


@dataclass(frozen=True, kw_only=True)
class DrawnCounts:
    """The `Counts` of rows drawn from synthetic rows. They have the columns of those; of others nothing is asked.

    Attributes:
        universe: of the plan.
        names: the columns, in universe order.
        table: counts, one axis a column.
    """

    universe: Universe
    names: tuple[str, ...]
    table: NDArray[np.int64]
    population: ClassVar[None] = None

    def marginal(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        return marginal(self.table, tuple(map(self.names.index, names)))

    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        return [self.marginal(names) for names in sets]

    def histogram(self) -> NDArray[np.int64]:
        return self.marginal(self.universe.names)

    def tally(self, names: tuple[str, ...]) -> Tally:
        raise InvalidInput("counts", ", ".join(names), "are of drawn rows, which have bins and no values")

    def texts(self, name: str) -> Texts:
        raise InvalidInput("counts", name, "are of drawn rows, which have bins and no values")


def draw_replicates(
    plan: Plan, rows: NDArray[np.int64], names: Sequence[str], *, rng: Randomness, number: int = NUMBER
) -> NDArray[np.int64]:
    """The counts of so many replicates, shape (number, *rows.shape).

    Args:
        plan: of the release.
        rows: counts of its synthetic rows over their columns, one axis a column; as many as the release says that the
            table has.
        names: of the columns, in universe order.
        rng: the operating system's randomness; a stream only in tests and simulations.

    Raises:
        Infeasible: there are no rows, or a run makes none.
        InvalidInput: the plan asks for columns that the rows do not have.
    """
    sample = int(rows.sum())
    if not sample:
        raise Infeasible("There are no synthetic rows to draw from.")
    made = []
    for _ in range(number):
        drawn = DrawnCounts(universe=plan.schema.universe, names=tuple(names), table=_drawn(rows, sample, rng))
        made.append(_released(plan, drawn, rng))
    return np.stack(made)


def _drawn(rows: NDArray[np.int64], sample: int, rng: Randomness) -> NDArray[np.int64]:
    """So many of the rows, drawn with replacement, each as likely as another."""
    chosen = uniform_below(int(rows.sum()), sample, rng)
    cells = np.searchsorted(np.cumsum(rows.reshape(-1)), chosen, side="right")
    return np.bincount(cells, minlength=rows.size).astype(np.int64).reshape(rows.shape)


def _released(plan: Plan, drawn: DrawnCounts, rng: Randomness) -> NDArray[np.int64]:
    """What the plan releases of drawn rows: the counts of its synthetic rows."""
    result = plan.run(drawn, rng=rng)
    if result.distribution is None:
        raise Infeasible("The plan makes no synthetic rows.")
    return controlled_counts(result.distribution.marginal(drawn.names), rows_to_make(plan, result), rng)
