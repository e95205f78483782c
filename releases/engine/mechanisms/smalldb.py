"""The exponential mechanism over all small databases, drawn exactly (Blum, Ligett and Roth).

One database of m rows is chosen with probability proportional to exp(-ε L / (2 g m)), where L/m is its largest error in
counts over the questions once it is scaled to W rows, and released; every answer is read off it. See
`releases.engine.smalldb` for the law, how it is drawn without enumerating, and what is proved of it.

Privacy. W is the number of rows where that is public, else it is measured first with discrete Laplace noise. Given W
and a database y, one unit of g rows changes every |W q(y)/m - q(x)| by at most g, under either neighbouring relation,
so the choice has sensitivity g and is ε-DP of bounded range (McSherry and Talwar 2007). The error of the chosen
database is then measured again with discrete Laplace noise: a whole number of sensitivity g.

What is known before the release is the theorem for an assumed number of rows (`population`), which chooses m and is
labelled as an assumption. What is proved with the release is the smaller of the theorem for W and the measured error,
each with its tail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import log

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import DiscreteLaplaceEvent, Event, ExponentialMechanismEvent
from releases.engine.bounds.accuracy import Bound, Proof, laplace_max_quantile
from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.estimation.components import distribution
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import (
    ROWS,
    Consistency,
    InfeasiblePlan,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    Progress,
    Work,
    infeasible,
    register,
)
from releases.engine.mechanisms.budget_split import Allowance
from releases.engine.mechanisms.error_certificate import FORMULA, Certificate
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_laplace
from releases.engine.noise.randomness import Randomness
from releases.engine.smalldb import existence
from releases.engine.smalldb.candidates import Databases
from releases.engine.smalldb.strategies import MAX_ROWS, CountingShape, DrawSetting, NoShape, shape_of
from releases.engine.tables.counts import Counts, marginal
from releases.engine.tables.possible import only_possible
from releases.engine.workload.queries import Workload

POPULATION = Option(
    name="population",
    help="How many rows the table is assumed to have, to choose the size of the small database; public, never checked.",
    lowest=1,
    highest=10**12,
    default=10_000,
)
SIZE = Option(
    name="size",
    help="Rows of the small database; left empty, what proves most for the assumed population. More rows follow smooth "
    "data more closely, which the measured error will show, and prove less beforehand.",
    lowest=1,
    highest=MAX_ROWS,
)
DATABASES = Option(
    name="databases",
    help="Which small databases there are: multisets of cells of the universe, multisets of the kinds of cells that "
    "the questions tell apart (proves more), or sequences of rows (allows questions about separate columns).",
    choices=tuple(Databases),
    default=Databases.MULTISETS.value,
)
MEASURE = Option(
    name="measure",
    help="Percent of epsilon spent on measuring the largest error of what is released; 0 leaves the theorem alone.",
    lowest=0,
    highest=50,
    default=10,
)
#: Share of epsilon for the number of rows where it is private: the scale of its noise is g / (share epsilon) counts,
#: while the choice errs by (2 g / epsilon) ln|R|, with ln|R| of some hundreds; a twentieth keeps both terms small.
TOTAL_SHARE = Fraction(1, 20)
#: No table is believed to be larger: W enters 64-bit products with m.
_MAX_TOTAL = 10**14


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """How epsilon and beta are divided. None of it depends on data.

    Attributes:
        choice, total, measure: the parts of epsilon; `total` and `measure` are 0 where nothing is measured.
        beta_choice, beta_total, beta_measure: the parts of beta.
    """

    choice: Fraction
    total: Fraction
    measure: Fraction
    beta_choice: Fraction
    beta_total: Fraction
    beta_measure: Fraction

    @staticmethod
    def of(*, epsilon: Fraction, beta: Fraction, total_is_public: bool, measure: int) -> Split:
        total = Fraction(0) if total_is_public else epsilon * TOTAL_SHARE
        measured = epsilon * Fraction(measure, 100)
        # The measured error is usually what is stated, and it feels its tail most.
        tenth = beta / 10 if measure else beta / 2
        beta_total = Fraction(0) if total_is_public else tenth
        beta_measure = beta - tenth - beta_total if measure else Fraction(0)
        return Split(
            choice=epsilon - total - measured,
            total=total,
            measure=measured,
            beta_choice=beta - beta_total - beta_measure,
            beta_total=beta_total,
            beta_measure=beta_measure,
        )

    def certificate(self, schema: Schema) -> Certificate:
        """How the largest error is measured, where it is."""
        allowance = Allowance(amount=self.measure, is_pure=True)
        return Certificate.of(allowance, schema=schema, beta=self.beta_measure)

    def events(self) -> tuple[Event, ...]:
        noise = [DiscreteLaplaceEvent(noise_multiplier=1 / part) for part in (self.total, self.measure) if part]
        return (ExponentialMechanismEvent(epsilon=self.choice), *noise)


@register
class SmallDB(Mechanism):
    name = "smalldb"
    title = "Small database"
    summary = (
        "Chooses, among all databases of a few rows, one that answers every question well; for very many questions."
    )
    source = "Blum, Ligett and Roth, J. ACM 60 (2013); Dwork and Roth (2014), Algorithm 4, Theorems 3.11 and 4.2"
    options = (ROWS, POPULATION, SIZE, DATABASES, MEASURE)
    consistency = Consistency.ONE_TABLE
    drops_impossible = True

    def _plan(self, request: PlanRequest) -> Plan:
        options = request.options
        split = split_of(request)
        if (refusal := too_noisy(request, split)) is not None:
            return refusal
        shape = shape_of(request.counts_asked, Databases(options["databases"]))
        if isinstance(shape, NoShape):
            return infeasible(request, shape.reason)
        size = options["size"] or self._best_size(request, shape, split)
        if size > shape.most_rows:
            reason = (
                f"Databases of {size:,} rows cannot all be weighed for these questions; those of at most "
                f"{shape.most_rows:,} rows can."
            )
            return infeasible(request, reason)
        assumed = setting_of(
            request.schema,
            size,
            split,
            rows=options["population"],
            off=total_tail(request.schema, split),
        )
        return SmallDBPlan(
            **request.inputs(),
            shape=shape,
            size=size,
            split=split,
            events=split.events(),
            parameters=self._parameters(request, shape, size, split),
            expectation=self._expectation(request, shape, size, split),
            work=Work(
                cells=sum(part.kind_of_cell.size for part in shape.parts),
                seconds=shape.seconds(assumed),
                bytes=shape.bytes(assumed),
            ),
        )

    def _best_size(self, request: PlanRequest, shape: CountingShape, split: Split) -> int:
        most = shape.usual_rows
        return existence.best_size(
            fits=shape.fits(most),
            log_ratios=shape.log_ratios(most),
            rows=request.options["population"],
            unit=request.schema.rows_of_unit,
            epsilon=float(split.choice),
        )

    def _parameters(self, request: PlanRequest, shape: CountingShape, size: int, split: Split) -> dict[str, str]:
        described = {
            "small database": f"{size:,} rows ({Databases(shape.databases).value})",
            "structure": shape.title,
            "kinds of cells": f"{sum(part.cells_of_kind.size for part in shape.parts):,}",
            "candidates over those that fit": f"about 10^{shape.log_ratios(size)[-1] / log(10):.0f}",
            "assumed population": f"{request.options['population']:,}",
            "sensitivity": f"{request.schema.rows_of_unit} (of the largest error, in counts)",
            "epsilon of the choice": decimal_text(split.choice),
        }
        if split.total:
            described["epsilon of the total"] = decimal_text(split.total)
        if split.measure:
            described["epsilon of the measured error"] = decimal_text(split.measure)
        return described

    def _expectation(self, request: PlanRequest, shape: CountingShape, size: int, split: Split) -> Bound:
        """The theorem, for the assumed population."""
        population = request.options["population"]
        alpha = theorem(
            shape, size, split, rows=population, off=total_tail(request.schema, split), schema=request.schema
        )
        return Bound(
            beta=request.beta,
            half_widths=(alpha,) * len(request.counts_asked.families),
            proof=Proof.ASSUMED,
            formula=formula(shape, n=f"n = {population}"),
            source=self.source,
        )


def split_of(request: PlanRequest) -> Split:
    return Split.of(
        epsilon=request.budget.epsilon,
        beta=request.beta,
        total_is_public=request.schema.total_is_public,
        measure=request.options["measure"],
    )


def too_noisy(request: PlanRequest, split: Split) -> InfeasiblePlan | None:
    """The refusal where noise would not fit 64 bits."""
    scales = [request.schema.rows_of_unit / part for part in (split.total, split.measure) if part]
    if not any(scale > LARGEST_SCALE for scale in scales):
        return None
    return infeasible(request, "Epsilon is so small that the noise would not fit a 64-bit number.")


def total_tail(schema: Schema, split: Split) -> int:
    """At least |W - n| with probability 1 - beta_total. Cutting W moves it towards n, except that n = 0 gives W = 1."""
    if not split.total:
        return 0
    scale = schema.rows_of_unit / split.total
    return max(1, laplace_max_quantile(scale=scale, count=1, beta=float(split.beta_total)))


def setting_of(schema: Schema, size: int, split: Split, *, rows: int, off: int) -> DrawSetting:
    return DrawSetting(size=size, rows=rows, epsilon=split.choice, unit=schema.rows_of_unit, off=off)


def theorem(shape: CountingShape, size: int, split: Split, *, rows: float, off: float, schema: Schema) -> float:
    """The bound of `existence` for W = `rows`."""
    return existence.half_width(
        fit=float(shape.fits(size)[-1]),
        rows=rows,
        off=off,
        log_ratio=float(shape.log_ratios(size)[-1]),
        unit=schema.rows_of_unit,
        epsilon=float(split.choice),
        beta=float(split.beta_choice),
    )


def formula(shape: CountingShape, *, n: str) -> str:
    fit = existence.IN_LATEX[shape.rounding]
    return (
        rf"\alpha = {fit}\, n + |\tilde{{n}} - n| + \frac{{2 g}}{{\varepsilon}}"
        rf"\left(\ln\frac{{|R|}}{{|R_{{\min}}|}} + \ln\frac{{1}}{{\beta}}\right), \quad {n}"
    )


@dataclass(frozen=True, kw_only=True)
class SmallDBPlan(Plan):
    """See the head of this file.

    Attributes:
        size: m.
        split: of epsilon and beta.
        shape: how the databases are counted; a function of the workload and of the options.
    """

    size: int
    split: Split
    shape: CountingShape = field(compare=False, repr=False)

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Counting the table", 0.0)
        tables = [counts.marginal(part.universe.names) for part in self.shape.parts]
        exact = self._answers(tables)
        true_total = int(tables[0].sum())
        total = released_total(true_total, self.schema, self.split, rng)
        # Where the total is public, so is whether it was 0 and had to be cut to 1.
        off = total_tail(self.schema, self.split) if self.split.total else abs(total - true_total)
        setting = setting_of(self.schema, self.size, self.split, rows=total, off=off)
        kinds = [part.of_kinds(table) for part, table in zip(self.shape.parts, tables, strict=True)]
        # The same words and share at every pause: they are there so that the run can be stopped, and tell nothing.
        drawn = self.shape.draw(kinds, setting, rng, lambda: progress("Weighing all small databases", 0.1))
        progress("Answering", 0.9)
        answers = self._answers([part.gathered(each) for part, each in zip(self.shape.parts, drawn, strict=True)])
        bound = self._bound(total, off, self._measured(answers, exact, total, rng))
        spread = [part.spread(each) for part, each in zip(self.shape.parts, drawn, strict=True)]
        return Result(
            estimates=tuple(each.astype(np.float64) * (total / self.size) for each in answers),
            bound=bound,
            total=float(total),
            distribution=distribution(
                [part.universe for part in self.shape.parts],
                [only_possible(part.universe, each) for part, each in zip(self.shape.parts, spread, strict=True)],
            ),
            notes={"rows of the small database": self.size},
        )

    def _answers(self, tables: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """The answers of each family, from a table of counts for each part."""
        return answers_of(self.counts_asked, [part.universe for part in self.shape.parts], tables)

    def _measured(
        self, answers: list[NDArray[np.int64]], exact: list[NDArray[np.int64]], total: int, rng: Randomness
    ) -> float:
        """What the measured error proves."""
        if not self.split.measure:
            return float("inf")
        error = largest_error(answers, exact, size=self.size, total=total)
        return self.split.certificate(self.schema).proves(error, rng)

    def _bound(self, total: int, off: int, measured: float) -> Bound:
        proved = theorem(self.shape, self.size, self.split, rows=total, off=off, schema=self.schema)
        words = formula(self.shape, n="n = W")
        if measured < proved:
            words = FORMULA
        return Bound(
            beta=self.beta,
            half_widths=(min(proved, measured),) * len(self.counts_asked.families),
            proof=Proof.AFTER,
            formula=words,
            source=SmallDB.source,
        )


def answers_of(
    workload: Workload, universes: list[Universe], tables: list[NDArray[np.int64]]
) -> list[NDArray[np.int64]]:
    """The answers of each family from joint tables over some attributes each, that hold all a family needs."""

    def source(names: tuple[str, ...]) -> NDArray[np.int64]:
        for universe, table in zip(universes, tables, strict=True):
            if set(names) <= set(universe.names):
                return marginal(table, universe.axes(names))
        raise AssertionError(names)

    return workload.answer(source)


def released_total(true_total: int, schema: Schema, split: Split, rng: Randomness) -> int:
    """W: n itself where that is public, else n with noise; cut to 1 ... 10^14, which is post-processing."""
    if split.total:
        scale = schema.rows_of_unit / split.total
        true_total += int(discrete_laplace(scale=scale, size=1, rng=rng)[0])
    return min(max(1, true_total), _MAX_TOTAL)


def largest_error(answers: list[NDArray[np.int64]], exact: list[NDArray[np.int64]], *, size: int, total: int) -> int:
    """The largest |W q(y) / m - q(x)| in counts, rounded up to a whole number.

    Rounding up keeps the sensitivity at g: two numbers no more than g apart have ceilings no more than g apart.
    """
    off = max(int(np.abs(total * one - size * two).max()) for one, two in zip(answers, exact, strict=True))
    return -(-off // size)
