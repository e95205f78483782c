"""The distribution over the universe that best explains noisy marginals of the table.

Measure: the workload's marginals, with their lower orders (Gaussian) or joined into a few larger tables (Laplace), each
with a share of the budget that depends on the declared bins alone (`design`). Where delta allows both kinds
of noise, the one whose design leaves less of it on the marginals is taken. Fit: a log-linear distribution with a prior
(`fit`), which is post-processing. Where the joint table of connected columns is too large to hold, the same fit is made
on the cliques of a junction tree (`estimation.junction`), if these are small. Certify: the largest error of the fitted
answers is measured with a small share.

Privacy: one table moves by g or 2g in sum of absolute values when a unit of g rows is added or replaced; shares of
epsilon (Dwork and Roth 2014, Theorem 3.14) or rho (Bun and Steinke 2016, Lemma 1.7) add up to the budget.

Accuracy: nothing useful is proved of a fit before it is made. Expected is that it errs no more than the raw noisy
tables would in the best unbiased estimate (σ_q below); what is proved comes from the measured largest error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import ceil, prod, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.privacy import PureDP
from releases.engine.estimation.components import ConnectedAttributes, Names, counted, joined_by_levels
from releases.engine.estimation.fit import NoisyMarginal
from releases.engine.estimation.marginals import Axes, marginal_tree
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.additive_noise import Noise
from releases.engine.mechanisms.base import ROWS, Consistency, Mechanism, Plan, PlanRequest, Progress, Work, register
from releases.engine.mechanisms.budget_split import ACCOUNTING, Allowance
from releases.engine.mechanisms.error_certificate import MEASURE, Certificate
from releases.engine.mechanisms.histogram import histogram_sensitivity
from releases.engine.mechanisms.marginal_fit.common import (
    FittedTablesPlan,
    deviations_of_families,
    expected_bound,
    fit_bytes,
    fit_seconds,
    names_of,
    refused_noise,
    split_total,
    usable_tables,
    within,
)
from releases.engine.mechanisms.marginal_fit.design import (
    Share,
    cell_deviations,
    design_error,
    gaussian_design,
    gaussian_error,
    laplace_design,
    laplace_error,
)
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.queries import Sensitivity

#: Measured tables are as large as this at most.
_MAX_TABLE_CELLS = 10**7

#: The share of rows above which the noise on the tables asked about is too much for the fit to them: it loses to the
#: mixture where these are mostly noise, and wins where they are not. The limit was found on adult_reduced with 1,000 to
#: 48,842 rows at epsilon 0.3 to 3, by the product of the mean errors of pairs and triples. On three other tables (of
#: 2,000 to 48,842 rows and 6.6 x 10^4 to 3.9 x 10^6 cells) it chose the closer one in 12 of 15 cases, and in the others
#: one whose error product was 5 to 10% larger.
MOST_NOISE = 0.11

FORMULA = r"\alpha \approx \max_q \sigma_q \sqrt{2 \ln\tfrac{2k}{\beta}} + 2t"


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredTable:
    """A marginal to measure.

    Attributes:
        part: its position among the parts.
        axes: its attributes within the part.
        noise: what it is measured with.
    """

    part: int
    axes: Axes
    noise: Noise


@register
class MarginalFit(Mechanism):
    name = "marginal-fit"
    title = "Fit to noisy marginals"
    summary = (
        "Measures the tables the questions need with noise, and fits one distribution to all of them; "
        "usually the most accurate synthetic data."
    )
    source = (
        "McKenna, Sheldon and Miklau, ICML 2019 (Private-PGM), for the idea; the fit and the design are this site's"
    )
    options = (ROWS, MEASURE, ACCOUNTING)
    consistency = Consistency.ONE_TABLE
    drops_impossible = True
    #: Whether it spends all of epsilon where that leaves less noise than the rho of an epsilon and a delta.
    takes_epsilon: ClassVar[bool] = True

    def _plan(self, request: PlanRequest) -> Plan:
        parts = usable_tables(request)
        if isinstance(parts, Plan):
            return parts
        allowance, designs = _cheapest(request, parts, takes_epsilon=self.takes_epsilon)
        measured = Fraction(request.options["measure"], 100)
        certificate = Certificate.of(allowance.share(measured), schema=request.schema, beta=request.beta)
        total_noise, left = split_total(allowance.share(1 - measured), request.schema)
        tables = _tables(parts, designs, left, histogram_sensitivity(request.schema))
        noises = [*([total_noise] if total_noise else []), *(table.noise for table in tables), certificate.noise]
        if (refusal := refused_noise(request, noises)) is not None:
            return refusal
        widths = deviations_of_families(
            request.counts_asked, parts, _deviations(parts, tables), beta=float(request.beta)
        )
        return MarginalFitPlan(
            **request.inputs(),
            parts=parts,
            tables=tables,
            certificate=certificate,
            total_noise=total_noise,
            events=(allowance.event,) if allowance.is_one_event else tuple(noise.event for noise in noises),
            parameters=_parameters(parts, tables, allowance, certificate),
            expectation=expected_bound(request, widths, certificate, formula=FORMULA, source=self.source),
            work=_work(joined_by_levels(request.counts_asked.universe, parts)),
        )


def _cheapest(
    request: PlanRequest, parts: Sequence[ConnectedAttributes], *, takes_epsilon: bool
) -> tuple[Allowance, list[tuple[Share, ...]]]:
    """The budget in the currency of the noise that leaves less on the marginals, and each part's design for it."""
    shapes = [(part.universe.shape, part.largest) for part in parts]
    within = [tuple(clique.axes for clique in part.cliques) for part in parts]
    moved = histogram_sensitivity(request.schema)
    pure = Allowance(amount=request.budget.epsilon, is_pure=True)
    epsilon = float(request.budget.epsilon) / moved.l1
    laplace = [_laplace_design(*each, inside, epsilon) for each, inside in zip(shapes, within, strict=True)]
    if isinstance(request.budget, PureDP):
        return pure, laplace
    concentrated = Allowance.of_whole_noise(request.budget, request.options[ACCOUNTING.name])
    gaussian = [gaussian_design(*each) for each in shapes]
    by_laplace = sum(
        laplace_error(*each, design, epsilon=epsilon) for each, design in zip(shapes, laplace, strict=True)
    )
    by_gaussian = sum(gaussian_error(*each, design) for each, design in zip(shapes, gaussian, strict=True))
    if takes_epsilon and by_laplace < by_gaussian * sqrt(moved.l2_squared / concentrated.amount):
        return pure, laplace
    return concentrated, gaussian


@lru_cache(maxsize=64)
def _laplace_design(
    shape: Axes, wanted: tuple[Axes, ...], within: tuple[Axes, ...], epsilon: float
) -> tuple[Share, ...]:
    largest = max(prod(shape[axis] for axis in axes) for axes in wanted)
    return laplace_design(shape, wanted, epsilon=epsilon, most_cells=max(_MAX_TABLE_CELLS, largest), within=within)


def _deviations(parts: Sequence[ConnectedAttributes], tables: Sequence[MeasuredTable]) -> list[dict[Axes, float]]:
    """Of one cell of each wanted marginal, were it estimated without prior from the tables alone."""
    return [
        cell_deviations(
            part.universe.shape,
            part.largest,
            [(table.axes, table.noise.variance) for table in tables if table.part == position],
        )
        for position, part in enumerate(parts)
    ]


def _tables(
    parts: Sequence[ConnectedAttributes],
    designs: Sequence[tuple[Share, ...]],
    allowance: Allowance,
    sensitivity: Sensitivity,
) -> tuple[MeasuredTable, ...]:
    """All tables with their noise; parts share the budget by the roots of their wanted marginals' cells."""
    roots = [sum(sqrt(prod(part.universe.shape[axis] for axis in axes)) for axes in part.largest) for part in parts]
    listed = [
        (position, share.axes, share.share * root / sum(roots))
        for position, (design, root) in enumerate(zip(designs, roots, strict=True))
        for share in design
    ]
    amounts = allowance.shares([share for _, _, share in listed])
    return tuple(
        MeasuredTable(part=position, axes=axes, noise=amount.noise(sensitivity))
        for (position, axes, _), amount in zip(listed, amounts, strict=True)
    )


def _parameters(
    parts: Sequence[ConnectedAttributes],
    tables: Sequence[MeasuredTable],
    allowance: Allowance,
    certificate: Certificate,
) -> dict[str, str]:
    deviations = sorted(sqrt(table.noise.variance) for table in tables)
    return {
        "tables measured": f"{len(tables):,}",
        "noise": "discrete Laplace" if allowance.is_pure else "discrete Gaussian",
        "standard deviations": " to ".join(dict.fromkeys(f"{each:,.1f}" for each in (deviations[0], deviations[-1]))),
        "cells fitted": f"{sum(part.cells for part in parts):,}",
        **({"tables fitted": _cliques_in_words(parts)} if any(part.cliques for part in parts) else {}),
        "budget": allowance.in_words(),
        "deviation of the measured largest error": f"{sqrt(certificate.noise.variance):,.1f}",
    }


def _cliques_in_words(parts: Sequence[ConnectedAttributes]) -> str:
    cliques = [clique for part in parts for clique in part.cliques]
    return f"{len(cliques):,}, of at most {max(len(each.axes) for each in cliques)} columns, joined by what they share"


def _work(parts: Sequence[ConnectedAttributes]) -> Work:
    held = sum(map(fit_bytes, parts))
    return Work(cells=sum(part.cells for part in parts), seconds=0.5 + fit_seconds(parts), bytes=held + (64 << 20))


@dataclass(frozen=True, kw_only=True)
class MarginalFitPlan(FittedTablesPlan):
    """See the head of this file.

    Attributes:
        tables: to measure, in this order.
    """

    tables: tuple[MeasuredTable, ...] = field(repr=False)

    @property
    def is_on_cliques(self) -> bool:
        """Whether some part is too large to be held whole."""
        return any(part.cliques for part in self.parts)

    @property
    def least_rows(self) -> int:
        """Of how many rows on a table is fitted more closely than by the mixture, which noise misleads less."""
        return ceil(self.noise_in_rows / MOST_NOISE)

    def suits(self, rows: int) -> bool:
        """Whether it is to be taken for a table of so many rows, rather than the mixture. A chain of small groups that
        no memory holds whole is always its own: of a chain of pairs it had an error of 0.030, the mixture 0.050."""
        return self.is_on_cliques or rows >= self.least_rows

    @property
    def noise_in_rows(self) -> float:
        """The noise that is left on the tables asked about (`design_error`), in the part where it is most."""
        return max(
            design_error(
                part.universe.shape,
                part.largest,
                [(table.axes, table.noise.variance) for table in self.tables if table.part == position],
            )
            for position, part in enumerate(self.parts)
        )

    def measured_tables(self, result: Result) -> list[Names]:
        return [names_of(self.parts[table.part], table.axes) for table in self.tables]

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Counting the table", 0.0)
        asked: dict[Names, NDArray[np.int64]] = {}
        truths = []
        for position, part in enumerate(self.parts):
            mine = tuple(table.axes for table in self.tables if table.part == position)
            found = _counted(part, counts, [*part.sets, *mine])
            asked.update(zip(part.asked, found, strict=False))
            truths.append(found[len(part.sets) :])
        exact = self.counts_asked.answer(asked.__getitem__)
        total = self._total(int(next(iter(asked.values())).sum()), rng)
        progress("Measuring", 0.1)
        measured = [self._measure(position, tables, rng) for position, tables in enumerate(truths)]
        del truths
        weights, rows = self._fitted(measured, total, within(progress, "Fitting", 0.2, 0.95))
        return self._certified(weights, rows, exact, rng, {})

    def _measure(self, position: int, exact: Sequence[NDArray[np.int64]], rng: Randomness) -> list[NoisyMarginal]:
        mine = [table for table in self.tables if table.part == position]
        return [
            NoisyMarginal(
                axes=table.axes,
                table=(values + table.noise.draw(values.shape, rng)).astype(np.float64),
                variance=table.noise.variance,
                population=self.schema.population,
            )
            for table, values in zip(mine, exact, strict=True)
        ]


def _counted(part: ConnectedAttributes, counts: Counts, sets: Sequence[Axes]) -> list[NDArray[np.int64]]:
    """The exact marginals over `sets`: from the joint table, where it can be held."""
    once = tuple(dict.fromkeys(sets))
    if part.is_whole:
        histogram = part.histogram(counts)
        tables = marginal_tree(histogram.shape, once).answer(histogram)
    else:
        tables = list(counted(counts, [names_of(part, axes) for axes in once], part.universe))
    found = dict(zip(once, tables, strict=True))
    return [found[axes] for axes in sets]
