r"""The pairs of columns that go together most: chosen by the exponential mechanism, then counted with noise.

Of each column bins are put together to a few levels, by what is declared alone (`levels_of`). For a pair with counts
n_ij of its levels, a_i and b_j of each column's, and n of all rows,

    h = sum over i, j of max(n_ij - a_i b_j / n, 0) = n TV(joint, product),    h = 0 where n = 0,

is the least number of rows in which the table would have to differ from the product of its margins. The score of a pair
is floor(h) - p, where p is half of what the noise on its table is expected to come to over all its cells, rounded up: a
public number, which keeps pairs of many cells from being chosen for what their table could not show.

Sensitivity of floor(h). Let one row (i, j) be added to n >= 1 rows. With u, v the margins and E the unit matrix of its
cell, n_ij - a_i b_j / n as a matrix changes by

    E - [(u + e_i)(v + e_j)^T / (n + 1) - u v^T / n] = (n e_i - u)(n e_j - v)^T / (n (n + 1)),

a product of two vectors, of l1 norms 2 (n - u_i) and 2 (n - v_j). So its l1 norm is at most 4 n / (n + 1) < 4. The
matrix sums to 0 before and after, so h, half of its l1 norm, changes by less than 2; from n = 0 it stays 0. A unit of g
rows that comes or goes changes h by less than 2 g, one that is replaced by less than 4 g (its rows go, others come).
Two numbers less than m apart, m whole, have floors at most m apart. The scores move either way, so nothing is monotone
and the exponent is epsilon score / (2 Delta) with Delta = 2 g under add or remove and 4 g under replace. Nothing has to
be released beforehand to score with: the margins in h are the true ones, which the proof covers.

k pairs are chosen one after the other, each among those that are left: k exponential mechanisms (McSherry and Talwar
2007, Theorem 6). Their tables get noise on every cell, together one release of whole numbers: a row is in one cell of
each table, so a unit of g rows moves k tables by at most k g in l1 and by k g^2 in squared l2 under add or remove, and
by twice that under replace. Parts of a pure budget add up as epsilon; those of an approximate one as rho, where a
choice of epsilon_0 costs epsilon_0^2 / 8 (Cesar and Rogers 2021, Lemma 3.2). What is chosen later, and which tables are
measured, may depend on what was chosen before: both compositions are adaptive. As much noise is drawn whatever is
chosen, for the largest table of any pair.

Accuracy. Half of beta is for the choices: as for `exponential-choice`, each misses the best score left by more than
alpha_0 with probability at most 1 - (1 - beta / 2)^(1 / k). Scores differ from h by a floor and by p, so no pair not
named above a place has h more than alpha_0 + max p - min p + 1 above that of the pair named there. A quarter is for all
cells of the tables, and a quarter for sums of cells: of every row of a table, of the other rows in every column, and of
all other rows. From these follows what is said in words. With low and high ends of counts, the share of rows of level i
that have level j is at least low_ij / high_i and at most high_ij / low_i, and the same of the other rows; it is said
that j is more frequent in i only where the least of the one is above the most of the other.

Source: the score is, in rows, the function R of Zhang, Cormode, Procopiuc, Srivastava and Xiao, PrivBayes (2017). They
bound its sensitivity where a row is replaced and the number of rows is fixed; the bound above is derived. Choosing
tables by the exponential mechanism less the expected noise is from McKenna, Mullins, Sheldon and Miklau, AIM (2022).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import ceil, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import ExponentialMechanismEvent, RepeatedEvent
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.bounds.selection_error import exponential_miss, least_alpha, share_of_each
from releases.engine.domain.counted import Counted
from releases.engine.domain.privacy import NeighbouringRelation, decimal_text
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.additive_noise import Noise
from releases.engine.mechanisms.base import Mechanism, Option, Plan, PlanRequest, Progress, Work, infeasible, register
from releases.engine.mechanisms.choices import TOO_MUCH_NOISE, statistic_of
from releases.engine.mechanisms.marginal_fit.common import refused_noise, usable_allowance
from releases.engine.noise.discrete import LARGEST_SCALE
from releases.engine.noise.randomness import Randomness
from releases.engine.noise.selection import exponential_mechanism
from releases.engine.tables.counts import Counts
from releases.engine.workload.kinds.strongest_associations import StrongestAssociations, level_labels, levels_of
from releases.engine.workload.queries import Sensitivity

Table = NDArray[np.int64]
#: Under which name the tables are among a result's notes.
TABLES = "associations"
CHOOSING = Option(
    name="choosing",
    help="How many per cent of the budget choose the pairs; the rest is for the counts of the pairs chosen.",
    lowest=10,
    highest=90,
    default=50,
)
#: Cells that are counted in one reading of the table.
_CELLS_AT_ONCE = 8_000_000
#: Above so many rows products of counts do not fit 64 bits.
_MOST_ROWS = 1 << 31
#: Shares that are said are rounded outwards to so many parts.
_PARTS = 10_000
#: Seconds for each pair and each cell, of 50,000 rows.
_SECONDS_A_PAIR, _SECONDS_A_CELL = 3e-4, 1e-8


@register
class AssociationChoice(Mechanism):
    name = "strongest-associations"
    title = "Pairs chosen by the exponential mechanism, with noisy tables"
    summary = (
        "Compares every pair of columns with what it would be if they had nothing to do with each other, names those "
        "that are furthest from it, and counts them with noise."
    )
    source = "Score after PrivBayes (2017), choice after McSherry and Talwar (2007), Theorem 6"
    options = (CHOOSING,)
    answers = (StrongestAssociations,)
    joins_all_columns = False

    def _plan(self, request: PlanRequest) -> Plan:
        statistic, universe = request.statistic, request.schema.universe
        assert isinstance(statistic, StrongestAssociations)
        allowance = usable_allowance(request)
        if isinstance(allowance, Plan):
            return allowance
        choosing = Fraction(int(request.options[CHOOSING.name] or 0), 100)
        epsilon = allowance.share(choosing / statistic.k).epsilon_of_choice
        noise = allowance.share(1 - choosing).noise(tables_sensitivity(request.schema, tables=statistic.k))
        if refused := refused_noise(request, [noise]):
            return refused
        sensitivity = score_sensitivity(request.schema)
        if not epsilon or 2 * sensitivity / epsilon > LARGEST_SCALE:
            return infeasible(request, TOO_MUCH_NOISE)
        shapes = _shapes(statistic, universe)
        penalties = tuple(ceil(one * other * sqrt(noise.variance / (2 * pi))) for one, other in shapes)
        reach = _Reach.of(noise, shapes, tables=statistic.k, beta=float(request.beta))
        rate = float(epsilon) / (2 * sensitivity)
        missed = _missed(len(shapes), rate, statistic.k, beta=float(request.beta) / 2)
        alpha = missed + max(penalties) - min(penalties) + 1
        return AssociationPlan(
            **request.inputs(),
            epsilon=epsilon,
            sensitivity=sensitivity,
            noise=noise,
            penalties=penalties,
            reach=reach,
            events=(RepeatedEvent(event=ExponentialMechanismEvent(epsilon=epsilon), times=statistic.k), noise.event),
            parameters={
                "pairs compared": f"{len(shapes):,}",
                "pairs chosen": f"{statistic.k:,}",
                "levels of a column, at most": f"{max(max(shape) for shape in shapes):,}",
                "share of the budget for choosing": f"{decimal_text(choosing * 100)}%",
                "epsilon of each choice": decimal_text(epsilon),
                "sensitivity of a score": str(sensitivity),
                **noise.parameters,
                "largest error of a count in the tables": f"{reach.cell:,.0f} {request.schema.counted.many}",
            },
            bound=_bound(request, statistic.k, alpha, reach),
            work=_work(statistic, universe),
        )


def score_sensitivity(schema: Schema) -> int:
    """Delta, the most a score moves between neighbours, in rows: see the head of this file."""
    return (2 if schema.neighbours is NeighbouringRelation.ADD_REMOVE else 4) * schema.rows_of_unit


def tables_sensitivity(schema: Schema, *, tables: int) -> Sensitivity:
    """The most that so many tables move together."""
    cells = 1 if schema.neighbours is NeighbouringRelation.ADD_REMOVE else 2
    rows = schema.rows_of_unit
    return Sensitivity(l1=cells * tables * rows, l2_squared=cells * tables * rows * rows)


def association(table: Table) -> int:
    """floor(h) of a table of counts, exact."""
    n = int(table.sum())
    if n == 0:
        return 0
    exact: NDArray[Any] = table.astype(object) if n > _MOST_ROWS else table
    apart = n * exact - np.multiply.outer(exact.sum(axis=1), exact.sum(axis=0))
    return int(np.maximum(apart, 0).sum()) // n


def in_levels(table: Table, universe: Universe, pair: tuple[str, str]) -> Table:
    """A table of bins as one of levels."""
    for axis, name in enumerate(pair):
        table = np.add.reduceat(table, [low for low, _ in levels_of(universe[name])], axis=axis)
    return table


@dataclass(frozen=True, kw_only=True)
class _Reach:
    """What noise exceeds with a probability that is shared out beforehand.

    Attributes:
        noise: on a cell.
        cell: what no cell exceeds, of all tables.
        beta: of each sum of cells.
        most_cells: of the largest table of any pair.
    """

    noise: Noise
    cell: float
    beta: float
    most_cells: int

    @staticmethod
    def of(noise: Noise, shapes: Sequence[tuple[int, int]], *, tables: int, beta: float) -> _Reach:
        cells = max(one * other for one, other in shapes)
        sums = tables * max(one * (other + 2) for one, other in shapes)
        cell = noise.largest(count=tables * cells, beta=beta / 4)
        return _Reach(noise=noise, cell=cell, beta=beta / 4 / sums, most_cells=cells)

    def of_sum(self, cells: int) -> float:
        """What no sum of so many cells exceeds."""
        return self.noise.sum(count=cells, beta=self.beta)


@dataclass(frozen=True, kw_only=True)
class AssociationPlan(Plan):
    """See the head of this file.

    Attributes:
        epsilon: of each choice.
        sensitivity: of a score.
        noise: on every cell of the tables.
        penalties: of each pair, in rows.
        reach: of the noise.
    """

    epsilon: Fraction
    sensitivity: int
    noise: Noise
    penalties: tuple[int, ...] = field(repr=False)
    reach: _Reach = field(repr=False)

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        """`chosen` are the pairs; their tables are in the notes. Estimates are zeros: their scores are not released."""
        statistic, universe = statistic_of(self), self.schema.universe
        assert isinstance(statistic, StrongestAssociations)
        pairs = statistic.pairs
        progress("Counting the pairs", 0.0)
        scores = np.array([association(table) for table in _tables(counts, pairs, progress)], dtype=np.int64)
        scores -= np.array(self.penalties, dtype=np.int64)
        left, chosen = np.arange(scores.size), []
        progress("Choosing", 0.9)
        for _ in range(statistic.k):
            place = exponential_mechanism(
                scores[left], epsilon=self.epsilon, sensitivity=Fraction(self.sensitivity), rng=rng
            )
            chosen.append(pairs[left[place]])
            left = np.delete(left, place)
        progress("Adding noise", 0.95)
        drawn = self.noise.draw((statistic.k, self.reach.most_cells), rng)
        exact = counts.marginals(chosen)
        tables = []
        for pair, table, noise in zip(chosen, exact, drawn, strict=True):
            levels = in_levels(table, universe, pair)
            tables.append(self._noted(pair, levels + noise[: levels.size].reshape(levels.shape)))
        assert self.bound is not None
        return Result(
            estimates=(np.zeros(statistic.k),),
            bound=self.bound,
            total=0.0,
            chosen=tuple(" × ".join(pair) for pair in chosen),
            notes={TABLES: tables},
        )

    def _noted(self, pair: tuple[str, str], noisy: Table) -> dict[str, Any]:
        attributes = [self.schema.universe[name] for name in pair]
        labels = [list(level_labels(each)) for each in attributes]
        found = more_frequent(noisy, self.reach)
        return {
            "columns": list(pair),
            "levels": labels,
            "bins": [[list(level) for level in levels_of(each)] for each in attributes],
            "counts": noisy.tolist(),
            "half_width": self.reach.cell,
            "more_frequent": found,
        }


def _tables(counts: Counts, pairs: Sequence[tuple[str, str]], progress: Progress) -> Iterator[Table]:
    """The tables of levels, with so many tables of bins at once as fit."""
    universe, starts, held = counts.universe, [0], 0
    for place, (one, other) in enumerate(pairs):
        cells = universe[one].size * universe[other].size
        if held and held + cells > _CELLS_AT_ONCE:
            starts.append(place)
            held = 0
        held += cells
    for first, after in pairwise([*starts, len(pairs)]):
        progress("Counting the pairs", 0.9 * first / len(pairs))
        for pair, table in zip(pairs[first:after], counts.marginals(pairs[first:after]), strict=True):
            yield in_levels(table, universe, pair)


def more_frequent(noisy: Table, reach: _Reach) -> dict[str, Any] | None:
    """The level of the second column that is surely more frequent in a level of the first than in all others, with
    both shares and their ends; of several the one of the largest sure difference. None where there is none.
    """
    rows, columns = noisy.shape
    in_row, in_column, n = noisy.sum(axis=1), noisy.sum(axis=0), int(noisy.sum())
    best: tuple[float, dict[str, Any]] | None = None
    for i in range(rows):
        whole = _ends(int(in_row[i]), reach.of_sum(columns))
        others = _ends(n - int(in_row[i]), reach.of_sum((rows - 1) * columns))
        for j in range(columns):
            count, besides = int(noisy[i, j]), int(in_column[j] - noisy[i, j])
            here = _share(count, _ends(count, reach.cell), int(in_row[i]), whole)
            there = _share(besides, _ends(besides, reach.of_sum(rows - 1)), n - int(in_row[i]), others)
            if here is None or there is None or here[1] <= there[2]:
                continue
            if best is None or here[1] - there[2] > best[0]:
                best = here[1] - there[2], {"first": i, "second": j, "share": here, "others": there}
    return best[1] if best else None


def _ends(count: int, reach: float) -> tuple[float, float]:
    return max(count - reach, 0.0), max(count + reach, 0.0)


def _share(count: int, ends: tuple[float, float], whole: int, of: tuple[float, float]) -> list[float] | None:
    """About which share it is, and between which it is; None where there may be no rows to have a share of."""
    if of[0] <= 0:
        return None
    low = np.floor(ends[0] / of[1] * _PARTS) / _PARTS
    high = min(np.ceil(ends[1] / of[0] * _PARTS) / _PARTS, 1.0)
    return [min(max(round(count / whole, 4), float(low)), float(high)), float(low), float(high)]


def _shapes(statistic: StrongestAssociations, universe: Universe) -> list[tuple[int, int]]:
    """Levels of both columns of each pair."""
    levels = {name: len(levels_of(universe[name])) for name in statistic.attributes}
    return [(levels[one], levels[other]) for one, other in statistic.pairs]


def _missed(candidates: int, rate: float, rounds: int, *, beta: float) -> int:
    each = share_of_each(beta, rounds=rounds)
    return least_alpha(lambda off: exponential_miss(candidates=candidates, rate=rate, gap=off + 1), beta=each)


def _bound(request: PlanRequest, number: int, alpha: int, reach: _Reach) -> Bound:
    return Bound(
        beta=request.beta,
        half_widths=(float(alpha),),
        proof=Proof.BEFORE,
        formula=r"\alpha = \left\lceil \frac{2 \Delta}{\varepsilon_0} \ln \frac{(m - 1)(1 - \beta_k)}{\beta_k}"
        r" \right\rceil + \max p - \min p, \quad \Delta = 2 g \text{ or } 4 g,"
        r" \quad \beta_k = 1 - (1 - \beta / 2)^{1/k}",
        source="Derived; as of the exponential mechanism on counts",
        says=_says(number, alpha, ceil(reach.cell), request.schema.counted),
    )


def _says(number: int, alpha: int, cell: int, counted: Counted) -> str:
    one = ("the one named", "its table", "it")
    named, its, them = one if number == 1 else ("one named before it or instead", "their tables", "them")
    return (
        f"no pair goes together by over {counted.text(alpha)} more than {named}, every count in {its} is within "
        f"{counted.text(cell)} of the truth, and every share that is said of {them} is between its ends, all at once. "
        f"How much two columns go together is counted in {counted.many} that would have to change for them to have "
        f"nothing to do with each other."
    )


def _work(statistic: StrongestAssociations, universe: Universe) -> Work:
    sizes = [universe[name].size for name in statistic.attributes]
    cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
    pairs, largest = len(statistic.pairs), sorted(sizes)[-2] * max(sizes)
    at_once = min(cells, max(_CELLS_AT_ONCE, largest))
    return Work(
        cells=at_once,
        seconds=0.5 + pairs * _SECONDS_A_PAIR + cells * _SECONDS_A_CELL,
        bytes=at_once * 8 + pairs * 2_000 + (64 << 20),
    )
