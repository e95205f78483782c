"""Private multiplicative weights offline (MWEM): measure, one after the other, the marginals that are worst answered.

Each of T rounds chooses a marginal that is not measured yet by the exponential mechanism, the score being the sum over
its cells of the absolute error of what is known so far, less what noise of a measurement would add; measures the whole
marginal with noise; and updates a distribution over the universe by multiplicative weights over all measurements so
far. What is released at the end is the distribution fitted to all measurements (`fit`), which is post-processing, and
its certified largest error.

    p  <-  p exp(ln((y_S + s) / (n p_S + s))) / normaliser       for each measured marginal S with noisy counts y_S >= 0

is a multiplicative-weights step whose rate is held back by s, the noise's standard deviation: cells that noise drowns
hardly move.

Privacy. Rounding n p_S to whole counts makes scores whole; a unit of g rows added moves one by g at most, replaced by
2g, so a choice with ε' is ε'-DP and ε'²/8-zCDP (McSherry and Talwar 2007; Cesar and Rogers 2021); a measured
marginal moves by the same. The number of rows (where it is private), T choices, T measurements and the measured largest
error have shares of epsilon or rho that add up to the budget, also as each choice depends on what came before.

Accuracy. Hardt, Ligett and McSherry (2012, Theorem 2.2) prove an error of 2 n √(ln|X|/T) + 10 T ln|Q|/ε with
probability 1 - 2T/|Q| for the average of the iterates of the form that measures one query a round: more than the table
holds unless it is very large, and nothing of a fit. The plan shows it, and the smaller finite bound of the same form
(`bounds.theory`), for the assumed number of rows. Where every table is measured, it is expected that the fit errs no
more than their noise; where some are not, nothing is. What is proved comes from the measured largest error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, pi, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import Event, ExponentialMechanismEvent, RepeatedEvent
from releases.engine.bounds.theory import LARGEST_CELLS, LARGEST_QUERIES, Numbers, Way, alpha, theorem_of_weights
from releases.engine.domain.population import Population
from releases.engine.domain.privacy import NeighbouringRelation, PureDP, decimal_text
from releases.engine.estimation.components import ConnectedAttributes, answers, joined_by_levels
from releases.engine.estimation.fit import NoisyMarginal
from releases.engine.estimation.marginals import MarginalTree, marginal_tree
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.additive_noise import LaplaceNoise, Noise
from releases.engine.mechanisms.base import (
    ROWS,
    Consistency,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    Progress,
    Work,
    register,
)
from releases.engine.mechanisms.budget_split import Allowance
from releases.engine.mechanisms.error_certificate import MEASURE, Certificate
from releases.engine.mechanisms.histogram import histogram_sensitivity
from releases.engine.mechanisms.marginal_fit.common import (
    BYTES_EACH,
    FittedTablesPlan,
    expected_bound,
    fit_bytes,
    fit_seconds,
    names_of,
    refused_noise,
    split_total,
    usable_parts,
    within,
)
from releases.engine.noise.randomness import Randomness
from releases.engine.noise.selection import exponential_mechanism
from releases.engine.tables.counts import Counts
from releases.engine.tables.possible import only_possible
from releases.engine.workload.queries import Sensitivity

ROUNDS = Option(
    name="rounds",
    help="How many tables are chosen and measured; left empty, more the larger epsilon and the assumed number of rows "
    "are against the tables' cells. Never more than there are.",
    lowest=1,
    highest=1_000,
)
POPULATION = Option(
    name="population",
    help="How many rows the table is assumed to have, to choose the number of rounds; public, never checked.",
    lowest=1,
    highest=10**12,
    default=50_000,
)
#: Share of the rounds' budget for the choices.
CHOICE_SHARE = Fraction(1, 10)
#: Rounds are √(ε N / c) with Laplace noise, with N rows and c cells in a table on average; with Gaussian noise, which
#: grows with the root of the rounds only, four times the square of that. On Adult (35 tables of 427 cells, 48,842 rows)
#: this is within a tenth of the best number at epsilon 0.1, 1 and 10.
_GAUSSIAN_ROUNDS = 4
#: In each round every measurement is worked in so often.
_CYCLES = 2
#: Seconds a cell for one update that answers all marginals again.
_SECONDS_EACH_UPDATE = 1.5e-9

FORMULA = r"\alpha \approx \min\left\{m : \Pr\left[\max_{c \le C} |X_c| > m\right] \le \beta\right\} + 2t"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rounds:
    """How a budget is split among the steps. None of it depends on data.

    Attributes:
        number: T.
        choice: epsilon of each choice.
        score: by how much a score can move.
        table: noise on each measured marginal.
    """

    number: int
    choice: Fraction
    score: int
    table: Noise

    def events(self) -> tuple[Event, ...]:
        each = (ExponentialMechanismEvent(epsilon=self.choice), self.table.event)
        return tuple(RepeatedEvent(event=event, times=self.number) for event in each)


@register
class PrivateMultiplicativeWeights(Mechanism):
    name = "pmw"
    title = "Private multiplicative weights"
    summary = (
        "Finds out round by round which table is answered worst and measures that one; for many questions at a "
        "small epsilon."
    )
    source = (
        "Hardt, Ligett and McSherry, A Simple and Practical Algorithm for Differentially Private Data Release (2012)"
    )
    options = (ROWS, ROUNDS, POPULATION, MEASURE)
    consistency = Consistency.ONE_TABLE
    drops_impossible = True

    def _plan(self, request: PlanRequest) -> Plan:
        parts = usable_parts(request)
        if isinstance(parts, Plan):
            return parts
        allowance = Allowance.of(request.budget)
        measured = Fraction(request.options["measure"], 100)
        certificate = Certificate.of(allowance.share(measured), schema=request.schema, beta=request.beta)
        cells = sorted(
            (prod(part.universe.shape[axis] for axis in axes) for part in parts for axes in part.largest), reverse=True
        )
        total_noise, left = split_total(allowance.share(1 - measured), request.schema)
        rounds = _rounds(left, histogram_sensitivity(request.schema), _how_many(request, cells))
        noises = [*([total_noise] if total_noise else []), rounds.table, certificate.noise]
        if (refusal := refused_noise(request, noises)) is not None:
            return refusal
        width = rounds.table.largest(count=sum(cells[: rounds.number]), beta=float(request.beta))
        return PMWPlan(
            **request.inputs(),
            parts=parts,
            rounds=rounds,
            certificate=certificate,
            total_noise=total_noise,
            events=(*([total_noise.event] if total_noise else []), *rounds.events(), certificate.noise.event),
            parameters={
                **_parameters(parts, rounds, allowance, certificate, len(cells)),
                "proved of one query a round, averaged": _proved(request),
            },
            # Of a table that is not measured nothing is expected, and the bound is of all answers.
            expectation=None
            if rounds.number < len(cells)
            else expected_bound(
                request,
                (width,) * len(request.counts_asked.families),
                certificate,
                formula=FORMULA,
                source=self.source,
            ),
            work=_work(parts, joined_by_levels(request.counts_asked.universe, parts), rounds),
        )


def _how_many(request: PlanRequest, cells: Sequence[int]) -> int:
    """The number of rounds asked for, else one that suits the tables and epsilon; never more than there are tables."""
    asked = request.options["rounds"]
    if asked is None:
        rows = request.options["population"] / request.schema.rows_of_unit
        signal = float(request.budget.epsilon) * rows * len(cells) / sum(cells)
        pure = isinstance(request.budget, PureDP)
        asked = max(1, round(sqrt(signal) if pure else _GAUSSIAN_ROUNDS * signal))
    return min(int(asked), len(cells))


def _rounds(allowance: Allowance, moved: Sensitivity, number: int) -> Rounds:
    return Rounds(
        number=number,
        choice=allowance.share(CHOICE_SHARE / number).epsilon_of_choice,
        score=moved.l1,
        table=allowance.share((1 - CHOICE_SHARE) / number).noise(moved),
    )


def _parameters(
    parts: Sequence[ConnectedAttributes],
    rounds: Rounds,
    allowance: Allowance,
    certificate: Certificate,
    candidates: int,
) -> dict[str, str]:
    return {
        "rounds": _rounds_in_words(rounds.number, candidates),
        "tables left to the fit": (
            f"{candidates - rounds.number:,}, which may be further off than is expected of the others"
            if rounds.number < candidates
            else "none"
        ),
        "noise": "discrete Laplace" if allowance.is_pure else "discrete Gaussian",
        "standard deviation of a measured cell": f"{sqrt(rounds.table.variance):,.1f}",
        "epsilon of each choice": decimal_text(rounds.choice),
        "sensitivity of the score": str(rounds.score),
        "cells fitted": f"{sum(part.universe.size for part in parts):,}",
        "budget": allowance.in_words(),
        "deviation of the measured largest error": f"{sqrt(certificate.noise.variance):,.1f}",
    }


def _rounds_in_words(rounds: int, tables: int) -> str:
    if rounds == tables:
        return "1, for the one table" if tables == 1 else f"{rounds:,}, one for every table"
    return f"{rounds:,} of {tables:,} tables"


def _proved(request: PlanRequest) -> str:
    """What is proved of the average of iterates that measure a query a round; of another release than this one."""
    workload, rows = request.counts_asked, request.options["population"]
    # Here the relation says whether the number of rows is public: that of people may be where that of rows is not.
    public = request.schema.total_is_public
    numbers = Numbers(
        neighbours=NeighbouringRelation.REPLACE if public else NeighbouringRelation.ADD_REMOVE,
        rows=rows,
        cells=max(2, min(workload.universe.size, LARGEST_CELLS)),
        queries=min(workload.size, LARGEST_QUERIES),
        changed=1,
        epsilon=request.budget.epsilon / request.schema.rows_of_unit,
        delta=Fraction(0),
        beta=request.beta,
    )
    finite = alpha(Way.WEIGHTS, numbers, is_pure=True)
    published = theorem_of_weights(replace(numbers, neighbours=NeighbouringRelation.REPLACE))
    theorem = "" if published is None else f"; {ceil(published):,} by Theorem 2.2, where their number is public"
    return f"within {ceil(finite):,} of {rows:,} assumed {request.schema.counted.many}{theorem}"


def _work(parts: Sequence[ConnectedAttributes], fitted: Sequence[ConnectedAttributes], rounds: Rounds) -> Work:
    cells = sum(part.universe.size for part in parts)
    updates = _CYCLES * rounds.number * (rounds.number + 1) / 2
    seconds = 0.5 + fit_seconds(fitted) + updates * cells * _SECONDS_EACH_UPDATE
    held = max(cells * BYTES_EACH, sum(map(fit_bytes, fitted)))
    return Work(cells=cells, seconds=seconds, bytes=held + (64 << 20))


@dataclass(frozen=True, kw_only=True)
class PMWPlan(FittedTablesPlan):
    """See the head of this file.

    Attributes:
        rounds: the split of the budget.
    """

    rounds: Rounds

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Counting the table", 0.0)
        histograms = self._histograms(counts)
        exact = answers(self.counts_asked, self.parts, histograms)
        total = self._total(int(histograms[0].sum()), rng)
        known = [KnownPart(part, total, sqrt(self.rounds.table.variance)) for part in self.parts]
        truths = [each.tree.tables(each.tree.answer_vector(one)) for each, one in zip(known, histograms, strict=True)]
        del histograms
        chosen = []
        for number in range(self.rounds.number):
            progress("Choosing and measuring", 0.05 + 0.45 * number / self.rounds.number)
            position, table = self._choose(known, truths, rng)
            truth = truths[position][table]
            known[position].learn(table, truth + self.rounds.table.draw(truth.shape, rng))
            chosen.append(" × ".join(names_of(self.parts[position], known[position].tree.sets[table])))
        measured = [each.measurements(self.rounds.table.variance, self.schema.population) for each in known]
        del known, truths  # their weights, before the fit makes its own
        weights, rows = self._fitted(measured, total, within(progress, "Fitting", 0.5, 0.95))
        return self._certified(weights, rows, exact, rng, {"tables chosen, in order": chosen})

    def _choose(
        self, known: Sequence[KnownPart], truths: Sequence[Sequence[NDArray[np.int64]]], rng: Randomness
    ) -> tuple[int, int]:
        """The part and table of an unmeasured marginal that is answered badly, by the exponential mechanism."""
        places = [
            (part, table)
            for part, tables in enumerate(truths)
            for table in range(len(tables))
            if table not in known[part].measured
        ]
        mean = sqrt(self.rounds.table.variance * (0.5 if self._is_pure else 2 / pi))  # of the noise's size
        scores = [
            int(np.abs(truths[part][table] - known[part].answer(table)).sum()) - round(mean * truths[part][table].size)
            for part, table in places
        ]
        index = exponential_mechanism(
            np.array(scores, dtype=np.int64),
            epsilon=self.rounds.choice,
            sensitivity=Fraction(self.rounds.score),
            rng=rng,
        )
        return places[index]

    @property
    def _is_pure(self) -> bool:
        return isinstance(self.rounds.table, LaplaceNoise)


class KnownPart:
    """What is known of one part so far: its noisy tables, and a distribution made of them by multiplicative weights.

    Args:
        part: whose largest asked marginals can be learned.
        rows: released number of rows, to which the weights sum.
        spread: standard deviation of the noise.
    """

    def __init__(self, part: ConnectedAttributes, rows: int, spread: float) -> None:
        self.tree: MarginalTree = marginal_tree(part.universe.shape, part.largest)
        self.rows, self.spread = rows, spread
        self.weights = only_possible(part.universe, np.full(part.universe.shape, rows / part.universe.size))
        self.weights *= rows / float(self.weights.sum()) if part.universe.is_limited else 1.0
        self.measured: dict[int, NDArray[np.int64]] = {}
        self._answers = self.tree.answer_vector(self.weights)

    def answer(self, table: int) -> NDArray[np.int64]:
        """The present answers of a marginal, in whole counts."""
        return np.rint(self.tree.tables(self._answers)[table]).astype(np.int64)

    def learn(self, table: int, noisy: NDArray[np.int64]) -> None:
        """Take in a measurement: it first, then all so far by turns."""
        self.measured[table] = noisy
        self._update(table)
        for _ in range(_CYCLES - 1):
            for each in self.measured:
                self._update(each)

    def _update(self, table: int) -> None:
        target = np.maximum(self.measured[table], 0)
        step = np.log((target + self.spread) / (self.tree.tables(self._answers)[table] + self.spread))
        scaled = self.tree.scale_by_exp(self.weights, {table: step})
        back = self.rows / scaled.total
        self.weights *= back
        self._answers = scaled.answers * back

    def measurements(self, variance: float, population: Population) -> list[NoisyMarginal]:
        """Everything measured."""
        return [
            NoisyMarginal(
                axes=self.tree.sets[table], table=noisy.astype(np.float64), variance=variance, population=population
            )
            for table, noisy in self.measured.items()
        ]
