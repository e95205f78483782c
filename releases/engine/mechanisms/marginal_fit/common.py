"""What `marginal-fit` and `pmw` share: noisy tables, the distribution fitted to them, and its certified largest error.

The fit sees noisy tables only. Its answers are rounded to whole counts, which is what is released and what is
measured against the truth (`error_certificate`), so the bound speaks of the very numbers in the answers file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import inf, log, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.privacy import PrivacyBudget
from releases.engine.domain.schema import Schema
from releases.engine.errors import Unpriceable
from releases.engine.estimation.components import (
    MAX_CLIQUE_CELLS,
    ConnectedAttributes,
    Joint,
    Names,
    answers,
    are_levels_joined,
    connected_parts,
    distribution,
    joined_by_levels,
)
from releases.engine.estimation.fit import NoisyMarginal, fit_cliques, fit_marginals, fitted_effects, measured_rows
from releases.engine.estimation.junction import junction_tree
from releases.engine.estimation.marginals import Axes, marginal_tree
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.additive_noise import Noise
from releases.engine.mechanisms.base import (
    Plan,
    PlanRequest,
    Progress,
    infeasible,
    said_of_levels,
    too_many_cells,
    what_fits,
)
from releases.engine.mechanisms.budget_split import ACCOUNTING, Allowance
from releases.engine.mechanisms.error_certificate import Certificate
from releases.engine.mechanisms.histogram import most_bins_summed
from releases.engine.noise.discrete import LARGEST_SCALE
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import MAX_DENSE_CELLS, Counts
from releases.engine.tables.possible import nearest_possible, only_possible
from releases.engine.workload.queries import Family, Sensitivity, Workload, attributes_asked

#: Why a very small budget is refused. Below so much of epsilon or rho no share of it is worked out.
TOO_NOISY = "The budget is so small that the noise would not fit a 64-bit number."
_MIN_TO_SPEND = Fraction(1, 10**12)
#: Share of the budget for the number of rows, where it is private.
TOTAL_SHARE = Fraction(1, 40)
#: Bytes a cell of the largest part: its counts, the fitted weights, and one array of the same size at work.
BYTES_EACH = 24
#: A fit may take so many passes over the cells, within these bounds: seconds for a million cells, minutes for 10^8.
_MAX_CELL_PASSES = 4e9
_FEWEST_PASSES, _MAX_PASSES = 150, 1500
#: What a fit usually takes of the passes it may take, and seconds a cell and pass.
_DEFAULT_SHARE, _SECONDS_EACH = 0.7, 2.5e-9
#: Of one pass over cliques, seconds for each cell of a clique, each clique, each table of effects, each of its cells,
#: and each of these times the bins that it is multiplied with. Measured on six shapes of 300 to 5,000,000 cells.
_SECONDS_A_CLIQUE_CELL, _SECONDS_A_CLIQUE, _SECONDS_A_TABLE = 1.5e-8, 4e-5, 5e-6
_SECONDS_AN_EFFECT, _SECONDS_A_PRODUCT = 5e-8, 3e-10
#: What a fit on cliques usually takes, where it may: 584 to 1,374 were measured.
_USUAL_PASSES = 750
#: Bytes of a fit on cliques for a cell of these, and for a cell of a table of effects.
_BYTES_A_CLIQUE_CELL, _BYTES_AN_EFFECT = 40, 200
#: Columns of a part: designs keep sets of them in one word.
MOST_AXES = 62
#: Where every cell has noise of at most this variance, hardly one in a hundred is off by one: nothing is to be fitted.
_NEXT_TO_NOTHING = 0.01
#: Of the passes of a fit, what scaling it to possible cells takes beside; no cell is scaled by less at a time.
_SHARE_OF_SCALING, _LEAST_RATIO = 0.2, 1e-12
#: No interaction of more attributes than this is fitted.
_MAX_ORDER = 5


def usable_allowance(
    request: PlanRequest, *, spent_on: Callable[[PrivacyBudget, object], Allowance] = Allowance.of_whole_noise
) -> Allowance | Plan:
    """What can be spent, or the refusal where it is next to nothing."""
    try:
        allowance = spent_on(request.budget, request.options.get(ACCOUNTING.name))
    except Unpriceable as error:
        return infeasible(request, str(error))
    return allowance if allowance.amount >= _MIN_TO_SPEND else infeasible(request, TOO_NOISY)


def usable_parts(request: PlanRequest) -> tuple[ConnectedAttributes, ...] | Plan:
    """The parts of the workload, or the refusal where one has too many cells to hold or there is nothing to spend."""
    allowance = usable_allowance(request)
    if isinstance(allowance, Plan):
        return allowance
    parts = connected_parts(request.counts_asked)
    largest = max(parts, key=lambda part: part.universe.size)
    return too_many_cells(request, largest.universe, bytes_each=BYTES_EACH) or parts


def usable_tables(request: PlanRequest) -> tuple[ConnectedAttributes, ...] | Plan:
    """The parts of the workload, or the refusal where one can be held neither whole nor by the cliques of its junction
    tree, or there is nothing to spend."""
    allowance = usable_allowance(request)
    if isinstance(allowance, Plan):
        return allowance
    parts = connected_parts(request.counts_asked)
    for part in parts:
        if not part.is_whole and (len(part.universe.names) > MOST_AXES or not part.cliques):
            return infeasible(request, _too_large(part))
    return parts


def _too_large(part: ConnectedAttributes) -> str:
    """Why a part cannot be fitted, and what would make it fit."""
    names, shape = part.universe.names, part.universe.shape
    if len(names) > MOST_AXES:
        return (
            f"Its questions connect {len(names):,} columns, and the most is {MOST_AXES}. Ask about fewer columns, or "
            "connect fewer with one another."
        )
    return (
        f"Its questions connect {len(names):,} columns so closely that the tables to be held have more than "
        f"{MAX_CLIQUE_CELLS:,} cells. {what_fits(names, shape, lambda bins: _fits(bins, part.largest))}"
    )


def _fits(shape: Axes, sets: tuple[Axes, ...]) -> bool:
    return prod(shape) <= MAX_DENSE_CELLS or bool(junction_tree(shape, sets, MAX_CLIQUE_CELLS))


def split_total(allowance: Allowance, schema: Schema) -> tuple[Noise | None, Allowance]:
    """Noise on the number of rows, None where it is public, and what is left for the rest."""
    if schema.total_is_public:
        return None, allowance
    rows = schema.rows_of_unit
    noise = allowance.share(TOTAL_SHARE).noise(Sensitivity(l1=rows, l2_squared=rows * rows))
    return noise, allowance.share(1 - TOTAL_SHARE)


def refused_noise(request: PlanRequest, noises: Sequence[Noise]) -> Plan | None:
    """The refusal where noise would not fit 64 bits."""
    if all(0 < noise.variance < float(LARGEST_SCALE) ** 2 for noise in noises):
        return None
    return infeasible(request, TOO_NOISY)


@dataclass(frozen=True, kw_only=True)
class FittedTablesPlan(Plan):
    """A plan whose result is a distribution fitted to noisy tables.

    Attributes:
        certificate: how its largest error is measured.
        total_noise: on the number of rows; None where that is public.
        parts: that the workload falls into.
    """

    certificate: Certificate
    total_noise: Noise | None
    parts: tuple[ConnectedAttributes, ...] = field(repr=False)

    def _histograms(self, counts: Counts) -> list[NDArray[np.int64]]:
        return [part.histogram(counts) for part in self.parts]

    def _total(self, true_total: int, rng: Randomness) -> int:
        if self.total_noise is None:
            return true_total
        return max(1, true_total + int(self.total_noise.draw(1, rng)[0]))

    @cached_property
    def fitted_parts(self) -> tuple[ConnectedAttributes, ...]:
        """The parts, those joined that share a hierarchy."""
        return joined_by_levels(self.counts_asked.universe, self.parts)

    def _fitted(
        self, measured: Sequence[Sequence[NoisyMarginal]], total: int, progress: Callable[[float], None]
    ) -> tuple[list[Joint], float]:
        """The expected counts of each of the fitted parts, from its noisy tables, all to one number of rows; and that
        number.

        Args:
            measured: of each of `parts`.
        """
        variance = None if self.total_noise is None else self.total_noise.variance
        rows = measured_rows([each for tables in measured for each in tables], float(total), variance)
        home = {name: place for place, part in enumerate(self.fitted_parts) for name in part.universe.names}
        regrouped: list[list[NoisyMarginal]] = [[] for _ in self.fitted_parts]
        for part, tables in zip(self.parts, measured, strict=True):
            place = home[part.universe.names[0]]
            axes = self.fitted_parts[place].universe.axes(part.universe.names)
            regrouped[place] += [replace(each, axes=tuple(axes[axis] for axis in each.axes)) for each in tables]
        return fit_parts(self.fitted_parts, regrouped, rows, progress), rows

    @property
    def _said_of_levels(self) -> dict[str, str]:
        """From public inputs; nothing where no question is about a column and its level."""
        workload = self.counts_asked
        names = attributes_asked(workload.families, workload.universe)
        if not workload.universe.project(names).hierarchies:
            return {}
        return said_of_levels(add_up=are_levels_joined(workload.universe, self.fitted_parts))

    def _certified(
        self,
        weights: Sequence[Joint],
        rows: float,
        exact: Sequence[NDArray[np.int64]],
        rng: Randomness,
        notes: dict[str, Any],
    ) -> Result:
        """Answers and bound of the fitted weights, one table of expected counts a part."""
        released = [np.rint(each).astype(np.int64) for each in answers(self.counts_asked, self.fitted_parts, weights)]
        return Result(
            estimates=tuple(each.astype(np.float64) for each in released),
            bound=self.certificate.bound(released, exact, rng),
            total=float(round(rows)),
            distribution=distribution(self.fitted_parts, weights),
            notes=notes | self._said_of_levels,
        )


def fit_parts(
    parts: Sequence[ConnectedAttributes],
    measured: Sequence[Sequence[NoisyMarginal]],
    rows: float,
    progress: Callable[[float], None],
) -> list[Joint]:
    """The expected counts over each part, fitted to its noisy tables and to one number of rows."""
    whole = sum(part.cells for part in parts)
    weights: list[Joint] = []
    done = 0.0
    for part, tables in zip(parts, measured, strict=True):
        share = part.cells / whole
        reported = _within(progress, done, done + share)
        weights.append(
            _possible(part, _fitted(part, tables, rows, reported), rows)
            if part.is_whole
            else _fitted_cliques(part, tables, rows, reported)
        )
        done += share
    return weights


def _possible(part: ConnectedAttributes, weights: NDArray[np.float64], rows: float) -> NDArray[np.float64]:
    """Expected counts of possible cells alone, all to the same number of rows.

    A fit knows what hierarchies leave, and not what is declared impossible. There the fitted tables are kept as far as
    possible cells allow: these are scaled to one table after the other (Deming and Stephan 1940), so what comes out is
    the nearest to the fit in Kullback-Leibler divergence.
    """
    if not part.universe.is_limited:
        return weights
    kept = only_possible(part.universe, weights)
    kept *= rows / float(kept.sum())
    if not part.universe.impossible:
        return kept
    tree = marginal_tree(part.universe.shape, part.largest)
    wanted = [
        nearest_possible(part.universe.project(names_of(part, axes)), table)
        for axes, table in zip(tree.sets, tree.answer(weights), strict=True)
    ]
    held = tree.tables(tree.answer_vector(kept))
    for _ in range(max(1, int(most_passes(part.cells) * _SHARE_OF_SCALING / len(wanted)))):
        for place, table in enumerate(wanted):
            ratio = table * (rows / table.sum()) / np.where(held[place] > 0, held[place], 1.0)
            scaled = tree.scale_by_exp(kept, {place: np.log(np.maximum(ratio, _LEAST_RATIO))})
            kept *= rows / scaled.total
            held = tree.tables(scaled.answers * (rows / scaled.total))
    return kept


def _fitted(
    part: ConnectedAttributes, tables: Sequence[NoisyMarginal], rows: float, progress: Callable[[float], None]
) -> NDArray[np.float64]:
    """The expected counts over a part: even ones where nothing was measured, the cells themselves where all of them
    were and almost none has noise, else fitted ones; even ones again where no finite ones fit."""
    even = np.full(part.universe.shape, rows / part.universe.size)
    if not tables:
        return even
    if len(tables) == 1 and tables[0].table.ndim == even.ndim and tables[0].variance < _NEXT_TO_NOTHING:
        cells = without_excess(np.maximum(tables[0].table, 0.0), round(rows))
        return cells if cells.any() else even
    fit = fit_marginals(
        part.universe.shape,
        tables,
        total=rows,
        order=_order(part),
        passes=most_passes(part.fitted_cells),
        progress=progress,
        ways=part.ways,
    )
    # Noise far out in its tail can leave no finite fit. Then nothing is known of the part, and no run fails of it.
    is_usable = (fit.weights >= 0).all() and 0 < float(fit.weights.sum()) < inf
    return fit.weights if is_usable else even


def _fitted_cliques(
    part: ConnectedAttributes, tables: Sequence[NoisyMarginal], rows: float, progress: Callable[[float], None]
) -> tuple[NDArray[np.float64], ...]:
    """The same over the cliques of a part that is not held whole."""
    shape = part.universe.shape
    fitted = fit_cliques(
        shape,
        part.cliques,
        tables,
        total=rows,
        order=_order(part),
        passes=_clique_passes(part),
        progress=progress,
        ways=part.ways,
    )
    if all((each >= 0).all() and 0 < float(each.sum()) < inf for each in fitted):
        return fitted
    lengths = [tuple(shape[axis] for axis in clique.axes) for clique in part.cliques]
    return tuple(np.full(each, rows / prod(each)) for each in lengths)


def _order(part: ConnectedAttributes) -> int:
    return min(_MAX_ORDER, max(3, *map(len, part.sets)))


def without_excess(cells: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    """Whole counts with next to no noise, brought down to `rows` rows in all.

    Where hardly any cell has noise, what there is of it adds rows: an empty cell can be told too high and never too
    low. So the excess is made of cells that hold one row; of these the ones are emptied that the tables of every two
    attributes, without the row itself, make the least likely: by Kirkwood's product of p(x_i, x_j) over pairs and
    p(x_i)^-(d - 2) over attributes.
    """
    excess, singles = int(cells.sum()) - rows, np.flatnonzero(cells == 1)
    if excess <= 0 or cells.ndim < 2:
        return cells
    pairs = list(combinations(range(cells.ndim), 2))
    tree = marginal_tree(cells.shape, (*((axis,) for axis in range(cells.ndim)), *pairs))
    places = np.unravel_index(singles, cells.shape)
    likely = np.zeros(singles.size)
    for axes, table in zip(tree.sets, tree.answer(cells), strict=True):
        others = np.log(table[tuple(places[axis] for axis in axes)] - 0.5)
        likely += others if len(axes) == 2 else (2 - cells.ndim) * others
    kept = cells.copy()
    kept.flat[singles[np.argsort(likely, kind="stable")[:excess]]] = 0.0
    return kept


def most_passes(cells: int) -> int:
    return max(_FEWEST_PASSES, min(_MAX_PASSES, int(_MAX_CELL_PASSES / cells)))


def fit_seconds(parts: Sequence[ConnectedAttributes]) -> float:
    """What fitting usually takes; the marginals' own cells are worked on in every pass as well."""
    return sum(map(_seconds, parts))


def _seconds(part: ConnectedAttributes) -> float:
    if part.cliques:
        return min(_USUAL_PASSES, _clique_passes(part)) * _pass_over_cliques(part)
    cells = part.fitted_cells + 4 * part.tree.cells
    scaling = max(len(part.largest), _SHARE_OF_SCALING * most_passes(part.cells)) if part.universe.impossible else 0
    return (_DEFAULT_SHARE * most_passes(cells) + scaling) * (cells * _SECONDS_EACH + 1e-4)


def _clique_passes(part: ConnectedAttributes) -> int:
    """As many as a joint table may take that takes as long a pass."""
    return most_passes(int(_pass_over_cliques(part) / _SECONDS_EACH))


def _pass_over_cliques(part: ConnectedAttributes) -> float:
    """Seconds of one pass, from its counted work."""
    shape, effects = part.universe.shape, fitted_effects(part.sets, _order(part))
    cells = [prod(shape[axis] for axis in axes) for axes in effects]
    products = sum(each * sum(shape[axis] for axis in axes) for each, axes in zip(cells, effects, strict=True))
    return (
        part.fitted_cells * _SECONDS_A_CLIQUE_CELL
        + len(part.cliques) * _SECONDS_A_CLIQUE
        + len(effects) * _SECONDS_A_TABLE
        + sum(cells) * _SECONDS_AN_EFFECT
        + products * _SECONDS_A_PRODUCT
    )


def fit_bytes(part: ConnectedAttributes) -> int:
    """What fitting a part holds at most."""
    if not part.cliques:
        return part.cells * BYTES_EACH
    effects = fitted_effects(part.sets, _order(part))
    cells = sum(prod(part.universe.shape[axis] for axis in axes) for axes in effects)
    return part.cells * _BYTES_A_CLIQUE_CELL + cells * _BYTES_AN_EFFECT


def expected_bound(
    request: PlanRequest, widths: Sequence[float], certificate: Certificate, *, formula: str, source: str
) -> Bound:
    """What the certificate is expected to say where the fit errs no more than `widths`: its noise may add its tail."""
    return Bound(
        beta=request.beta,
        half_widths=tuple(width + 2 * certificate.tail for width in widths),
        proof=Proof.EXPECTED,
        formula=formula,
        source=source,
    )


def deviations_of_families(
    workload: Workload, parts: Sequence[ConnectedAttributes], deviations: Sequence[Mapping[Axes, float]], *, beta: float
) -> list[float]:
    """For each family the tail, all at once with 1 - beta, of normal errors with the given deviation in each cell.

    Args:
        deviations: for each part, of one cell of each of its largest marginals.
    """
    quantile = sqrt(2 * log(2 * workload.size / beta))
    return [quantile * _deviation(family, parts, deviations) for family in workload.families]


def _deviation(
    family: Family, parts: Sequence[ConnectedAttributes], deviations: Sequence[Mapping[Axes, float]]
) -> float:
    """Of the family's answer that sums most cells, from the covering marginal that gives the least."""
    names = set(family.attributes)
    position = next(i for i, part in enumerate(parts) if names <= set(part.universe.names))
    shape, axes = parts[position].universe.shape, parts[position].universe.axes(family.attributes)
    summed = most_bins_summed(family, [shape[axis] for axis in axes])
    return min(
        deviation * sqrt(summed * prod(shape[axis] for axis in set(each) - set(axes)))
        for each, deviation in deviations[position].items()
        if set(axes) <= set(each)
    )


def names_of(part: ConnectedAttributes, axes: Axes) -> Names:
    return tuple(part.universe.names[axis] for axis in axes)


def within(progress: Progress, step: str, first: float, last: float) -> Callable[[float], None]:
    """Report a share of one step as a share of the whole."""
    return _within(lambda share: progress(step, share), first, last)


def _within(progress: Callable[[float], None], first: float, last: float) -> Callable[[float], None]:
    return lambda share: progress(first + (last - first) * min(max(share, 0.0), 1.0))
