"""Noise on fewer and larger tables than those asked for, which are put together from them by least squares.

One row changes one cell of each table, so noise on each of m tables has a scale of m times that on one. Fewer tables
have less noise in a cell, and a table that is added up from a larger one has the noise of several cells. All tables of
three of seven columns lie in twenty of four columns. There the scale is 20 and not 35, and where the fourth column has
two values, an answer adds up two cells; what tables have in common is taken from all of them.

The designs that are compared:

*   *Joined*: to each table asked for the k columns of fewest values are joined, k = 0, 1, ...
*   *Covering*: to the largest of the tables asked for, those of k = 0 or 1, columns are added one by one, each time the
    one by which most of the others come to lie in it for each of its values, up to 2, 4, ... times its cells. Then the
    same of those that do not lie in it yet.

A table that another one contains is left out. Only columns that tables asked for connect are put in one table, so that
what is fitted to the tables is as large as before. That of the least largest variance by least squares
(`least_squares`) is taken, once of all and once of the joined ones; then that of the two with the narrower bound. All
follows from the declared columns and the questions.

Where tables count rows of their own (`Universe.own_rows`), each group of those that count the same ones, or the same
persons (`Workload.by_rules`), has its own design. All tables of a group have the same columns whose rules leave rows
out: they are what makes it a group. Any other column of the group leaves out none, so a larger table of the group's
columns counts the group's rows. The answers of a group are made of its own larger tables alone, and β is shared as in
`squares_by_rules`, whose proof asks only that the noise of each group is its own. With m tables in a group, of which an
answer has at most the deviation τ where all noise has deviation 1, weights w in proportion to τ make the noise of each
group 1/w, and the largest deviations of all groups the sum of all m τ, up to a factor: the least that is possible, for
the scales s of the groups may be such that the sum of m/s is 1, so that by Cauchy and Schwarz the greatest of s τ is at
least the sum of m τ, whatever they are. The weights are rounded to whole numbers.

Privacy: that of noise on the larger tables as if they were asked for, calibrated to their sensitivity, times their
weights (`Workload.weighted_sensitivity`). All else is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from math import gcd, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.bounds.combinations import DISCRETE_LAPLACE
from releases.engine.domain.universe import Universe
from releases.engine.estimation.components import connected_parts
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.additive_noise import LaplaceNoise, Noise
from releases.engine.mechanisms.agreement import answers_in_words, of_each_table, of_tables_formula, said_of
from releases.engine.mechanisms.answers import (
    COUNTED_BY_OWN,
    AnswersPlan,
    described_parts,
    noise_parameters,
    plan_work,
    with_noise,
)
from releases.engine.mechanisms.base import Option, Plan, PlanRequest
from releases.engine.mechanisms.least_squares import LeastSquares
from releases.engine.mechanisms.level_squares import LevelSquares
from releases.engine.mechanisms.squares_by_rules import SquaresByRules, share_of_beta
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.queries import Marginal, Workload, unweighted
from releases.engine.workload.residuals import Names

ASKED, LARGER, JOINED = "asked", "larger", "joined"
MEASURED = Option(
    name="measured",
    help="Which tables get noise: “asked” for those asked for, or “larger” for fewer, larger ones, from which those "
    "asked for are put together so that they agree; “joined” looks only for those to which the same columns are added. "
    "Left to the mechanism, as “agree” is, it is what makes the proved bound narrower.",
    choices=(ASKED, LARGER, JOINED),
    before=ASKED,
)
NO_LARGER = (
    "No larger tables are known that would do better, or answers are not to agree. Choose “asked” for the tables that "
    "get noise."
)
#: No more cells get noise, unless the tables asked for have more.
_MAX_CELLS = 1_000_000
#: Of the variance: a difference that is no rounding.
_BETTER = 1 - 1e-9
#: Residuals of tables asked for, times designs compared: about half a second.
_MAX_WORK = 20_000
#: How many times the cells of a table asked for a covering one may have; from so many tables on none is sought.
_COVERS, _MOST_COVERED = (2, 4, 8, 16, 32), 300
#: The largest weight of a group.
_MOST_WEIGHT = 20


@dataclass(frozen=True, kw_only=True)
class LargerTablesPlan(AnswersPlan):
    """Independent noise on tables that contain those asked for.

    Attributes:
        noise: on each cell of a table of weight 1.
        tables: that get noise.
        groups: how the answers of each group of tables that count the same rows are put together.
    """

    noise: Noise
    tables: Workload
    groups: tuple[LeastSquares, ...]

    @property
    def together(self) -> LeastSquares | SquaresByRules:
        workload = _alike(self.counts_asked)
        if not workload.universe.own_rows:
            return self.groups[0]
        return SquaresByRules(workload=workload, groups=self.groups, measured=self.tables)

    @property
    def answer_variances(self) -> Sequence[float]:
        return self.in_order([each.answer_variances for each in self.groups])

    def in_order(self, found: Iterable[Sequence[float]]) -> tuple[float, ...]:
        """Numbers of the families of each group, in the order asked."""
        families = [family for each in self.groups for family in each.workload.families]
        of_family = dict(zip(families, chain.from_iterable(found), strict=True))
        return tuple(of_family[family] for family in _alike(self.counts_asked).families)

    def measured_tables(self, result: Result) -> Sequence[tuple[str, ...]]:
        return self.tables.marginals

    def measured(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        return with_noise(self.tables, self.noise, counts, rng)

    def answered(self, measured: tuple[NDArray[np.float64], ...]) -> tuple[NDArray[np.float64], ...]:
        return self.together.combined(measured)

    def noisy_answers(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        return self.answered(self.measured(counts, rng))

    def fitted_to(
        self, measured: tuple[NDArray[np.float64], ...]
    ) -> tuple[Workload, tuple[NDArray[np.float64], ...], Sequence[float]]:
        return self.tables, measured, [self.noise.of_weight(weight).variance for weight in self.tables.weights]


def plan_of_larger(request: PlanRequest, *, is_joined: bool = False) -> LargerTablesPlan | None:
    """The plan of noise on larger tables; None where those asked for are best, or nothing is known of others.

    The variance says which of many designs is good, and the bound which of the best of either kind is narrower.

    Args:
        is_joined: whether they are joined ones, of tables that count the same rows.
    """
    kinds = (True,) if is_joined else (False, True)
    found = dict.fromkeys(larger_tables(request.counts_asked, is_joined=kind) for kind in kinds)
    plans = [_plan_of(request, tables) for tables in found if tables is not None]
    return min(plans, key=_largest_half_width, default=None)


def _largest_half_width(plan: Plan) -> float:
    assert plan.bound is not None
    return max(plan.bound.half_widths)


def _plan_of(request: PlanRequest, tables: Workload) -> LargerTablesPlan:
    workload = _alike(request.counts_asked)
    noise = LaplaceNoise.within(request.budget, tables.weighted_sensitivity(request.schema))
    variances = {
        family: noise.of_weight(weight).variance for family, weight in zip(tables.families, tables.weights, strict=True)
    }
    groups = tuple(
        LeastSquares(
            workload=asked,
            measured=measured,
            law=noise.law,
            variances=tuple(variances[family] for family in measured.families),
        )
        for asked, measured in zip(workload.by_rules, tables.by_rules, strict=True)
    )
    parts, each_table = described_parts(tables), of_each_table(request.options)
    plan = LargerTablesPlan(
        **request.inputs(),
        noise=noise,
        tables=tables,
        groups=groups,
        events=(noise.weighted_event if tables.is_weighted else noise.event,),
        parameters={
            **noise_parameters(noise, tables.weights, of_weight="on tables of weight"),
            "tables with noise": f"{len(tables.families):,}, of {tables.size:,} cells together",
            **({"rows counted": COUNTED_BY_OWN} if workload.universe.own_rows else {}),
            **({"synthetic rows": "fitted to these tables; no bound is proved for them"} if parts else {}),
            **noise.beside(request.budget),
        },
    )
    together = plan.together
    formula, source = said_of(together)
    widths = []
    for group in groups:
        beta = float(request.beta)
        if len(groups) > 1:
            beta = share_of_beta(group.workload, workload, beta=beta, of_each_table=each_table)
        widths.append(group.half_widths(beta=beta, of_each_table=each_table))
    return replace(
        plan,
        parameters={**plan.parameters, "answers": answers_in_words(together)},
        bound=Bound(
            beta=request.beta,
            half_widths=plan.in_order(widths),
            proof=Proof.BEFORE,
            formula=of_tables_formula(formula) if each_table else formula,
            source=source,
        ),
        work=plan_work(tables.size + workload.size, parts, laws=len(set(tables.weights)), together=together),
    )


def _alike(workload: Workload) -> Workload:
    """The same questions, all of weight 1."""
    return replace(workload, families=tuple(map(unweighted, workload.families)))


@lru_cache(maxsize=64)
def larger_tables(workload: Workload, *, is_joined: bool = False) -> Workload | None:
    """The tables to put noise on, with their weights, one group after another; None where those asked for are best, or
    nothing is known of others.

    Args:
        workload: of questions of one weight.
        is_joined: whether they are joined ones, of tables that count the same rows.
    """
    if workload.is_weighted or (is_joined and workload.universe.own_rows):
        return None
    asked = _alike(workload).by_rules
    if not all(LeastSquares.can_combine(group) and not LevelSquares.can_combine(group) for group in asked):
        return None
    found = [_best(group, is_joined=is_joined) for group in asked]
    if all(tables == group.marginals for group, (tables, _) in zip(asked, found, strict=True)):
        return None
    most = max(deviation for _, deviation in found)
    weights = [max(1, round(_MOST_WEIGHT * deviation / most)) for _, deviation in found]
    families = [
        Marginal(attributes=names, weight=weight // gcd(*weights))
        for (tables, _), weight in zip(found, weights, strict=True)
        for names in tables
    ]
    return replace(workload, families=tuple(families))


def _best(workload: Workload, *, is_joined: bool) -> tuple[tuple[Names, ...], float]:
    """The tables to put noise on, of those that count the same rows, and the largest deviation of an answer where that
    of the noise is 1."""
    asked, universe = workload.marginals, workload.universe
    found = {asked: _most_variance(workload, asked)}
    designs = 1 + len(workload.columns)
    if designs * sum(1 << len(names) for names in asked) <= _MAX_WORK:
        for tables in _designs(workload, is_joined=is_joined):
            cells = sum(prod(universe[name].size for name in names) for names in tables)
            if tables in found or cells > max(_MAX_CELLS, workload.size):
                continue
            if LeastSquares.can_combine(_of(workload, tables)):
                found[tables] = _most_variance(workload, tables)
    best = min(found, key=lambda tables: found[tables])
    if found[best] >= _BETTER * found[asked]:
        best = asked
    return best, sqrt(found[best]) / len(best)


def _designs(workload: Workload, *, is_joined: bool) -> Iterator[tuple[Names, ...]]:
    parts = connected_parts(workload)
    for count in range(1 + len(workload.columns)):
        yield _ordered(workload.universe, _joined(workload, count))
    if is_joined or len(workload.families) > _MOST_COVERED:
        return
    sizes = {name: workload.universe[name].size for name in workload.columns}
    for count in (0, 1):
        joined = _joined(workload, count)
        for times in _COVERS:
            own = [[each for each in joined if each <= set(part.universe.names)] for part in parts]
            yield _ordered(workload.universe, [block for sets in own for block in _covering(sets, sizes, times)])


def _of(workload: Workload, tables: tuple[Names, ...]) -> Workload:
    return replace(workload, families=tuple(Marginal(attributes=names) for names in tables))


def _most_variance(workload: Workload, tables: tuple[Names, ...]) -> float:
    """The largest variance of an answer, in units of that of noise on one table alone."""
    variances = (float(len(tables)) ** 2,) * len(tables)
    squares = LeastSquares(workload=workload, measured=_of(workload, tables), law=DISCRETE_LAPLACE, variances=variances)
    return squares.most_variance()


def _joined(workload: Workload, count: int) -> list[frozenset[str]]:
    """The tables with the columns of fewest values joined to each, so many of all that are asked about."""
    universe = workload.universe
    fewest = sorted(workload.columns, key=lambda name: (universe[name].size, universe.axis(name)))[:count]
    return [
        frozenset(names) | (set(fewest) & set(part.universe.names))
        for part in connected_parts(workload)
        for names in part.asked
    ]


def _covering(sets: Sequence[frozenset[str]], sizes: dict[str, int], times: int) -> Iterator[frozenset[str]]:
    """Sets in one of which each of these lies, of at most so many times the cells of the largest that is left.

    Args:
        sets: of columns, in an order that is kept among equals.
        sizes: of all columns.
    """

    def cells(names: Iterable[str]) -> int:
        return prod(sizes[name] for name in names)

    columns = [name for name in sizes if any(name in each for each in sets)]
    left = sorted(dict.fromkeys(sets), key=cells, reverse=True)
    while left:
        block = left[0]
        most = times * cells(block)
        while others := [name for name in columns if name not in block and cells(block | {name}) <= most]:
            # First by how many lie in it, then by how many nearly do.
            gained = [
                (
                    sum(each <= block | {name} for each in left) / sizes[name],
                    sum(len(each - block - {name}) == 1 for each in left),
                )
                for name in others
            ]
            block |= {others[gained.index(max(gained))]}
        yield block
        left = [each for each in left if not each <= block]


def _ordered(universe: Universe, sets: Iterable[frozenset[str]]) -> tuple[Names, ...]:
    """Those that no other one contains."""
    each_once = list(dict.fromkeys(sets))
    largest = [each for each in each_once if not any(each < other for other in each_once)]
    return tuple(tuple(sorted(each, key=universe.axis)) for each in largest)
