"""Noise on the histogram once, when a session is opened: then every counting question is answered for nothing.

Discrete Laplace noise of scale Δ1/ε on every cell of the universe; Δ1 is g for a unit of g rows, or 2 g where
neighbours replace rows. An answer is the sum of its noisy cells, 0 where that is below 0.

**Privacy.** ε-DP (Dwork and Roth 2014, Theorem 3.6) for what is bought at the start. Answers are post-processing: after
the opening the table is not read.

**Accuracy.** With probability 1 - β every counting query over the universe keeps its own half width, which grows with
the cells that it sums (``bounds/all_counts.py``). That is one event of the noise alone, so it holds for any number of
questions, each chosen after the answers before it. The noise of cells that are known to be empty is left out; a sum of
fewer such draws is nearer to 0. Cutting an answer at 0 brings it nearer to what is not below 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.bounds.all_counts import widest_count, width_of_count
from releases.engine.domain.universe import Universe
from releases.engine.mechanisms.additive_noise import LaplaceNoise
from releases.engine.mechanisms.base import (
    ROWS,
    Consistency,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    Work,
    infeasible,
    register,
    too_many_cells,
)
from releases.engine.mechanisms.histogram import histogram_sensitivity, nearest_counts
from releases.engine.mechanisms.pmw.online import POPULATION, QUESTIONS, OnlinePlan, Opened, SessionSetting
from releases.engine.mechanisms.pmw.session import AnswerKind, AnswerPrice, Exchange, Rules, SessionUnderWay, Truth
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.tables.possible import clear_impossible, clear_outside_levels, only_possible
from releases.engine.workload.queries import Count

#: Cells that are kept with a session.
MAX_CELLS = 2**22


@dataclass(frozen=True, kw_only=True, slots=True)
class HistogramRules(Rules):
    """The public parameters of a session that answers from a noisy histogram.

    Attributes:
        noise: on every cell.
        beta: the probability that any answer that there is leaves its half width.
    """

    noise: LaplaceNoise
    beta: float

    def are_settled(self, *, updates_left: int, cells: int, rows: float) -> bool:
        return True

    def width_of(self, query: Count, universe: Universe) -> float:
        """What the answer to a question is within."""
        return width_of_count(query.simplified(universe), universe, scale=self.noise.scale, beta=self.beta)


@dataclass(kw_only=True)
class HistogramSession(SessionUnderWay):
    """Answers are sums of noisy cells.

    Attributes:
        noisy_cells: released when the session was opened.
    """

    rules: HistogramRules
    noisy_cells: NDArray[np.int64]

    @property
    def bought(self) -> NDArray[np.int64]:
        return self.noisy_cells

    def _first(self) -> NDArray[np.float64]:
        """The possible counts with the released total that are nearest to the noisy ones, as a distribution."""
        nearest = nearest_counts(self.noisy_cells.astype(np.float64), float(max(self.total, 1)))
        possible = only_possible(self.universe, nearest)
        return possible / float(possible.sum())

    def _offered(self, query: Count, within: int | None) -> AnswerPrice:
        return AnswerPrice(half_width=self.rules.width_of(query, self.universe))

    def _answer(self, query: Count, truth: Truth, price: AnswerPrice, rng: Randomness) -> Exchange:
        return Exchange(query=query, kind=AnswerKind.PUBLIC, estimate=self.estimate(query), half_width=price.half_width)

    def estimate(self, query: Count) -> int:
        return max(0, int(self.noisy_cells[self._index(query)].sum()))

    def agreeing(self) -> NDArray[np.float64]:
        """Its first state: nothing more was learned."""
        return self.distribution()


@dataclass(frozen=True, kw_only=True)
class HistogramOnlinePlan(OnlinePlan):
    """A session that buys a noisy histogram when it is opened."""

    rules: HistogramRules

    def half_width_of(self, query: Count) -> float:
        return self.rules.width_of(query, self.schema.universe)

    def expected_error(self, query: Count) -> float:
        return self.rules.noise.mean(count=query.summed(self.schema.universe))

    def _open(self, counts: Counts, total: int, total_half_width: float, rng: Randomness) -> SessionUnderWay:
        exact = counts.histogram()
        noisy = exact + self.rules.noise.draw(exact.shape, rng)
        # No counted row is there, which is public.
        clear_impossible(self.schema.universe, noisy, self.schema.universe.left_out)
        clear_outside_levels(self.schema.universe, noisy)
        return self.resumed(Opened(total=total, total_half_width=total_half_width, bought=noisy), [])

    def resumed(self, stored: Opened, exchanges: list[Exchange]) -> SessionUnderWay:
        assert stored.bought is not None
        return HistogramSession(
            universe=self.schema.universe,
            rules=self.rules,
            total=stored.total,
            total_half_width=stored.total_half_width,
            noisy_cells=stored.bought.astype(np.int64).reshape(self.schema.universe.shape),
            exchanges=exchanges,
        )


@register
class HistogramOnline(Mechanism):
    name: ClassVar[str] = "histogram-online"
    title: ClassVar[str] = "Laplace noise on the histogram, live"
    summary: ClassVar[str] = (
        "Adds noise to every cell of the universe when the session is opened, then answers any question for nothing."
    )
    source: ClassVar[str] = "Dwork and Roth (2014), Theorem 3.6; the union bound over all counting queries"
    options: ClassVar[tuple[Option, ...]] = (ROWS, QUESTIONS, POPULATION)
    consistency: ClassVar[Consistency | None] = Consistency.NOISY_CELLS
    drops_impossible = True
    is_offered = False

    def _plan(self, request: PlanRequest) -> Plan:
        universe = request.schema.universe
        if (refusal := too_many_cells(request, universe, bytes_each=24)) is not None:
            return refusal
        if universe.size > MAX_CELLS:
            return infeasible(
                request,
                f"A session keeps every noisy cell of the universe, and there are {universe.size:,}; the most is "
                f"{MAX_CELLS:,}.",
            )
        setting = SessionSetting.of(request, questions=request.counts_asked.size, is_concentrated=False)
        noise = LaplaceNoise(epsilon=setting.epsilon, l1_sensitivity=histogram_sensitivity(request.schema).l1)
        width = widest_count(universe.shape, scale=noise.scale, beta=setting.beta_of_answers)
        return HistogramOnlinePlan(
            **request.inputs(),
            rules=HistogramRules(
                updates=0,
                questions=None,
                public_half_width=float(np.ceil(width)),
                paid_half_width=0.0,
                noise=noise,
                beta=setting.beta_of_answers,
            ),
            total_noise=setting.total_noise,
            events=setting.with_total(noise.event),
            parameters={**noise.parameters, "cells": f"{universe.size:,}"},
            expectation=Bound(
                beta=request.beta,
                half_widths=(float(np.ceil(width)),) * len(request.counts_asked.families),
                proof=Proof.BEFORE,
                formula=_FORMULA,
                source=self.source,
            ),
            work=Work(cells=universe.size, seconds=0.5 + universe.size * 2.5e-7, bytes=universe.size * 32),
        )


_FORMULA = (
    r"\alpha = \max_q \min\left\{w : \Pr\left[\left|\textstyle\sum_{c \in q} X_c\right| > w\right]"
    r" \le \beta e^{-L(q)}\right\},\quad \sum_q e^{-L(q)} \le 1"
)
