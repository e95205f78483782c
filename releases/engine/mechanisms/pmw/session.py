"""Live sessions: questions one at a time, as every session answers them, and by private multiplicative weights.

A session of private multiplicative weights keeps a public distribution h over the universe, at first uniform. Asked a
counting query f, it compares the true count f(D) with the public estimate ñ f(h) by the sparse vector technique. Below
the noisy threshold, the public estimate is the answer and nothing more is learned from the data than that it was near
enough. Above, the session pays: it answers by a fresh noisy count and moves h towards it, by one multiplicative-weights
step. All that can ever be paid, c such updates, was charged when the session was opened.

    h, ñ, the transcript           public: the state is a function of the transcript, so it can be replayed
    the noisy threshold, the data  secret: never shown, never exported

Hardt and Rothblum (2010), as in Dwork and Roth (2014), Algorithm 6, with the sparse vector of Lyu, Su and Li (2017),
Algorithm 1. The form proved here is tighter than theirs; the proof stands in ``online.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from math import ceil, prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.errors import EngineError, InvalidInput
from releases.engine.noise.discrete import discrete_laplace
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.possible import only_possible
from releases.engine.workload.queries import Count, Family

#: The exact count of a query: the only way a session touches data.
Truth = Callable[[Count], int]
#: Weights are brought back to size before they could overflow.
_LARGEST_TOTAL = 1e200
#: When the last state is made to agree with the answers: so many turns over all of them, until none moves by so many
#: rows, and no more turns than touch so many cells.
_MAX_TURNS = 50
_CLOSE_ENOUGH = 0.25
_MAX_TOUCHED = 4 * 10**9


class AnswerKind(StrEnum):
    """Where an answer came from. Public: it is part of what the mechanism releases."""

    PUBLIC = "from what is already public"
    PAID = "by a paid update"
    MEASURED = "by noise of its own"
    REPEATED = "asked before"

    @property
    def is_paid(self) -> bool:
        """Whether the answer was made from the data when the question was asked."""
        return self in (AnswerKind.PAID, AnswerKind.MEASURED)


class SessionOver(EngineError):
    """All updates are used and accuracy of further answers is not proved, so none is given."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """One question and its answer, as published.

    Attributes:
        query: the counting query.
        kind: where the answer came from.
        estimate: a whole count.
        half_width: the truth is within it, for all answers of the session at once, at its confidence.
        sign: for a paid update whether the public estimate was too low (1) or too high (-1), else 0.
        parts: what it took of a session's budget where each answer has a price, in parts of `noise.PARTS`; else 0.
    """

    query: Count
    kind: AnswerKind
    estimate: int
    half_width: float
    sign: int = 0
    parts: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerPrice:
    """What an answer will be, before it is asked for.

    Attributes:
        half_width: what it is within, in rows.
        parts: what it takes; 0 where answers have no price of their own.
    """

    half_width: float
    parts: int = 0


class AnswerNoise(Protocol):
    """The noise of paid answers."""

    def draw(self, size: int | tuple[int, ...], rng: Randomness) -> NDArray[np.int64]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """The public parameters that every session has.

    Attributes:
        updates: c, how many paid answers there are in all.
        questions: k, how many questions the bound speaks of; None where it speaks of all that there are.
        public_half_width: of an answer from the public state, at most.
        paid_half_width: of a paid answer, at most.
    """

    updates: int
    questions: int | None
    public_half_width: float
    paid_half_width: float

    @property
    def half_width(self) -> float:
        """What every answer is within, all at once."""
        return max(self.public_half_width, self.paid_half_width)

    @property
    def is_endless(self) -> bool:
        """Whether some questions are answered for nothing after all that were planned for."""
        return False

    @abstractmethod
    def are_settled(self, *, updates_left: int, cells: int, rows: float) -> bool:
        """Whether what is public proves that the next answer keeps its bound.

        Args:
            cells: of the universe.
            rows: what the number of rows is at most.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateRules(Rules):
    """The public parameters of private multiplicative weights; see ``online.py`` for how they are chosen.

    Attributes:
        threshold: T, in rows.
        threshold_scale: of the noise on the threshold.
        query_scale: of the noise on each comparison.
        renews_threshold: whether the threshold's noise is drawn again after each update (a new AboveThreshold).
        answer_noise: on paid answers.
        least_gap: rows by which the public estimate is off whenever an update is paid for.
    """

    questions: int
    threshold: int
    threshold_scale: Fraction
    query_scale: Fraction
    renews_threshold: bool
    answer_noise: AnswerNoise
    least_gap: float

    def are_settled(self, *, updates_left: int, cells: int, rows: float) -> bool:
        """With no update left: whether every query is proved to be answered well by the public state.

        Each update lowers the divergence from the true distribution by 2 (gap / n)^2 at least, for n the most rows
        there can be, from ln|X| at most and never below 0: so at most ln|X| n^2 / (2 gap^2) updates can happen, and
        if c is more than that, c have not.
        """
        return updates_left > 0 or self.updates > most_updates(cells, gap=self.least_gap, rows=rows)


@dataclass(kw_only=True)
class SessionUnderWay(ABC):
    """A session under way. Made by its plan, or again from its transcript.

    Attributes:
        universe, rules: public, fixed.
        total: ñ, the public or paid-for number of rows.
        total_half_width: how far ñ can be from the true number.
        exchanges: the transcript so far.
        noisy_threshold: SECRET; 0 where there is none.
    """

    universe: Universe
    rules: Rules
    total: int
    total_half_width: float
    noisy_threshold: int = 0
    exchanges: list[Exchange] = field(default_factory=list)
    _weights: NDArray[np.float64] = field(init=False, repr=False)
    _sum: float = field(init=False, repr=False)
    _used: int = field(init=False, default=0)
    _asked: dict[Count, Exchange] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._weights = self._first()
        self._sum = float(self._weights.sum()) if self.universe.is_limited else 1.0
        replayed, self.exchanges = self.exchanges, []
        for exchange in replayed:
            self.record(exchange)

    def _first(self) -> NDArray[np.float64]:
        """The distribution before the first answer.

        No more than ln|X| from any distribution over possible cells, which is all that the number of updates needs.
        """
        return only_possible(self.universe, np.full(self.universe.shape, 1.0 / self.universe.size))

    @property
    def bought(self) -> NDArray[np.float64] | NDArray[np.int64] | None:
        """What was bought when it was opened, and is stored with it."""
        return None

    @property
    def updates_left(self) -> int:
        return self.rules.updates - self._used

    @property
    def questions_left(self) -> int | None:
        """None where their number has no limit."""
        return None if self.rules.questions is None else self.rules.questions - len(self.exchanges)

    @property
    def is_settled(self) -> bool:
        """Whether the next answer is proved to keep its bound."""
        return self.rules.are_settled(updates_left=self.updates_left, cells=self.universe.size, rows=self.most_rows)

    @property
    def is_used_up(self) -> bool:
        """Whether it answers no new question."""
        return not self.is_settled or self.questions_left == 0

    @property
    def most_rows(self) -> float:
        """What the number of rows is at most, at the session's confidence. Public."""
        return self.total + self.total_half_width

    def ask(self, query: Count, truth: Truth, *, rng: Randomness, within: int | None = None) -> Exchange:
        """Answer one question.

        Args:
            within: the error that the asker can accept, in rows; None for that of the session's bound.

        Raises:
            InvalidInput: no answer within so few rows is left. Nothing was asked of the data.
            SessionOver: no update is left and further answers are not proved, or all k questions were asked.
        """
        query = query.simplified(self.universe)
        before = self._asked.get(query)
        if before is not None and (within is None or before.half_width <= within):
            return replace(before, kind=AnswerKind.REPEATED, sign=0, parts=0)
        self._check_open()
        exchange = self._answer(query, truth, self.price(query, within), rng)
        self.record(exchange)
        return exchange

    def _check_open(self) -> None:
        if self.questions_left is not None and self.questions_left <= 0:
            raise SessionOver("All questions that the session's bound speaks of were asked.")
        if not self.is_settled:
            raise SessionOver("All paid updates are used; further answers would come without a proved bound.")

    def price(self, query: Count, within: int | None = None) -> AnswerPrice:
        """What an answer takes, and how close it is. From public facts and earlier answers alone.

        Raises:
            InvalidInput: no answer within so few rows is left.
            SessionOver: none is left that has a price.
        """
        offered = self._offered(query.simplified(self.universe), within)
        if within is not None and within < offered.half_width:
            raise InvalidInput(
                "within", within, f"must be at least {ceil(offered.half_width):,}: this session has no closer answer"
            )
        return offered

    @abstractmethod
    def _offered(self, query: Count, within: int | None) -> AnswerPrice:
        """The answer that there is within so few rows, or else the closest."""

    @abstractmethod
    def _answer(self, query: Count, truth: Truth, price: AnswerPrice, rng: Randomness) -> Exchange: ...

    def estimate(self, query: Count) -> int:
        """ñ f(h) as a whole count: public, free, and read off the query's slice of the universe alone."""
        return round(self.total * float(self._slice(query).sum()) / self._sum)

    @property
    def closest(self) -> tuple[Exchange, ...]:
        """The closest answer to each question that was asked."""
        return tuple(self._asked.values())

    def distribution(self) -> NDArray[np.float64]:
        """h, summing to 1. Public."""
        return self._weights / self._sum

    def agreeing(self) -> NDArray[np.float64]:
        """h moved to agree with every answer of the transcript, as far as they agree with one another. Public.

        An update moves h by one small step towards its answer, which is enough for the bound of what comes later and
        leaves h far from the answer itself. Here, after the last question, the cells of each paid query are scaled to
        its estimate and the others to the rest, in turns: iterative proportional fitting (Deming and Stephan 1940). A
        free answer is asked no more of than to stay within its half width.
        """
        weights = self.to_agree()
        if self.total <= 0:
            return weights
        # Multiplies every cell, so that a turn touches the cells of its query alone.
        whole = 1.0
        indices = [(each, self._index(each.query)) for each in self.closest]
        touched = sum(self._cells(each.query) for each in self.closest)
        for _ in range(min(_MAX_TURNS, max(1, _MAX_TOUCHED // max(touched, 1)))):
            moved = 0.0
            for exchange, index in indices:
                part = float(weights[index].sum()) * whole
                wanted = self._wanted(exchange, part)
                moved = max(moved, abs(wanted - part) * self.total)
                # A share of 0 or of everything cannot be scaled to another.
                if wanted == part or not 0 < part < 1:
                    continue
                others = (1 - wanted) / (1 - part)
                whole *= others
                weights[index] *= wanted / part / others
            weights *= whole / (whole * float(weights.sum()))
            whole = 1.0
            if moved < _CLOSE_ENOUGH:
                break
        return weights

    def to_agree(self) -> NDArray[np.float64]:
        """What follows from all but single answers, which it is moved to agree with then."""
        return self.distribution()

    def released(self) -> Iterator[tuple[Family, NDArray[np.float64], float]]:
        """What becomes a release when the session is closed: questions, their answers, and their half width."""
        for each in self.closest:
            yield each.query, np.asarray([float(each.estimate)]), each.half_width

    def _wanted(self, exchange: Exchange, part: float) -> float:
        """The share of the rows that a query's cells are to have, where they have `part` of them now."""
        least = 0.5 / self.total
        estimate = exchange.estimate / self.total
        if not exchange.kind.is_paid:
            reach = exchange.half_width / self.total
            estimate = min(max(part, estimate - reach), estimate + reach)
            if estimate == part:
                return part
        return min(max(estimate, least), 1 - least)

    def record(self, exchange: Exchange) -> None:
        """Add an exchange to the transcript and move the public state by it; replaying is nothing else."""
        self.exchanges.append(exchange)
        before = self._asked.get(exchange.query)
        if before is None or exchange.half_width < before.half_width:
            self._asked[exchange.query] = exchange
        if exchange.kind.is_paid:
            self._used += 1
            self._learn(exchange)

    def _learn(self, paid: Exchange) -> None:  # noqa: B027  a session may learn nothing
        """Move the public state by a paid answer."""

    def _slice(self, query: Count) -> NDArray[np.float64]:
        part: NDArray[np.float64] = self._weights[self._index(query)]
        return part

    def _index(self, query: Count) -> Any:
        """The cells of a query: a view where every attribute's bins are neighbours, else their open mesh."""
        chosen = dict(zip(query.attributes, query.bins, strict=True))
        bins = [chosen.get(name, tuple(range(size))) for name, size in zip(*self._names_and_sizes(), strict=True)]
        if all(high - low == 1 for each in bins for low, high in pairwise(each)):
            return tuple(slice(each[0], each[-1] + 1) for each in bins)
        return np.ix_(*bins)

    def _cells(self, query: Count) -> int:
        """How many cells a query sums."""
        chosen = dict(zip(query.attributes, query.bins, strict=True))
        return prod(len(chosen.get(name, range(size))) for name, size in zip(*self._names_and_sizes(), strict=True))

    def _names_and_sizes(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        return self.universe.names, self.universe.shape


@dataclass(kw_only=True)
class UpdateSession(SessionUnderWay):
    """Private multiplicative weights: answers from the public state, which each paid answer improves."""

    rules: UpdateRules

    @property
    def step(self) -> float:
        """η of an update, 4 gap / n for the largest n there can be, so that no table makes it overshoot."""
        return 4 * self.rules.least_gap / self.most_rows

    def _offered(self, query: Count, within: int | None) -> AnswerPrice:
        return AnswerPrice(half_width=self.rules.half_width)

    def _answer(self, query: Count, truth: Truth, price: AnswerPrice, rng: Randomness) -> Exchange:
        public = self.estimate(query)
        if self.updates_left == 0:
            return self._public(query, public)
        exact = truth(query)
        gap = exact - public
        noise = discrete_laplace(scale=self.rules.query_scale, size=2, rng=rng)
        if gap + int(noise[0]) >= self.noisy_threshold:
            sign = 1
        elif -gap + int(noise[1]) >= self.noisy_threshold:
            sign = -1
        else:
            return self._public(query, public)
        paid = exact + int(self.rules.answer_noise.draw(1, rng)[0])
        if self.rules.renews_threshold:
            self.noisy_threshold = draw_threshold(self.rules, rng)
        return Exchange(
            query=query,
            kind=AnswerKind.PAID,
            estimate=max(0, paid),
            half_width=self.rules.paid_half_width,
            sign=sign,
        )

    def _public(self, query: Count, estimate: int) -> Exchange:
        return Exchange(query=query, kind=AnswerKind.PUBLIC, estimate=estimate, half_width=self.rules.public_half_width)

    def _learn(self, paid: Exchange) -> None:
        factor = float(np.exp(paid.sign * self.step))
        index = self._index(paid.query)
        before = float(self._weights[index].sum())
        self._weights[index] *= factor
        self._sum += (factor - 1) * before
        if self._sum > _LARGEST_TOTAL or self._sum < 1 / _LARGEST_TOTAL:
            self._weights /= self._sum
            self._sum = float(self._weights.sum())


def draw_threshold(rules: UpdateRules, rng: Randomness) -> int:
    return rules.threshold + int(discrete_laplace(scale=rules.threshold_scale, size=1, rng=rng)[0])


def most_updates(cells: int, *, gap: float, rows: float) -> float:
    """How many updates can happen at most: ln|X| n² / (2 gap²), each update being off by `gap` rows at least."""
    return float(np.log(cells)) * rows * rows / (2 * gap * gap) if gap > 0 else float("inf")
