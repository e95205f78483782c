"""Whether a bound says anything: held against the rows there are assumed to be, or the range an answer lies in anyway.

Public inputs only: a number of rows here is somebody's guess, typed for the comparison, and never looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, log10
from typing import Any

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.domain.privacy import PrivacyBudget
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.engine.mechanisms.prepared_baseline import within_if_prepared
from releases.engine.workload.questions import valued_columns, weight_of
from releases.engine.workload.statistic import asks_statistic
from releases.publication.receipt import counted_by, rows_text
from releases.questions.base import kind_of

#: Mechanisms' options that say how many rows there are, as somebody guesses.
GUESSES = ("population", "expected_rows")
#: From so many times on, that a prepared release is closer than a session must not be overlooked.
_MUCH_BETTER = 3


def guessed_rows(options: Mapping[str, Mapping[str, Any]]) -> int | None:
    """The number of rows that was typed for a draft, by the options it keeps for each mechanism."""
    found = (given[name] for given in options.values() for name in GUESSES if given.get(name))
    return next(found, None)


def assumed_rows(plan: Plan, guess: int | None) -> int | None:
    """The rows a plan is held against: what its mechanism assumes, or else the guess typed for the comparison."""
    own = next((plan.options[name] for name in GUESSES if plan.options.get(name)), None)
    return own or guess


def says_little(alpha: float, rows: int, counted: Counted = Counted.ROWS) -> str:
    """How much answers within `alpha` of the truth say of so many rows, where it is next to nothing; else empty.

    Half the rows, said of every count, is never off by more than half of them.
    """
    if alpha < rows / 2:
        return ""
    much = "nothing" if alpha >= rows else "almost nothing"
    return f"of about {rows:,} {counted.many}: the answers would say {much}"


def says_little_of_range(plan: Plan, alpha: float) -> str:
    """The same of a mean or a quantile: the middle of the declared range is never off by more than half of it."""
    if not kind_of(plan.workload).is_within_range:
        return ""
    columns = valued_columns(plan.workload)
    widest, of_dates = max(map(_width, columns)), columns[0].dates
    if alpha < widest / 2:
        return ""
    much = "nothing" if alpha >= widest else "almost nothing"
    wide = f"{widest:,g} wide" if of_dates is None else f"{of_dates.span(round(widest))} long"
    return f"the declared range is {wide}: the answer would say {much}"


def most_of_answers(plan: Plan, *, unit: str, rows: int | None) -> float | None:
    """The width of what answers can be, in the unit of their bound; None where public facts do not say it.

    Args:
        rows: how many there are, as somebody guesses.
    """
    kind = kind_of(plan.workload)
    if unit == plan.schema.counted.many:
        return rows
    if kind.is_within_range:
        return max(map(_width, valued_columns(plan.workload)))
    if kind.is_total and rows is not None:
        columns, weight = valued_columns(plan.workload), weight_of(plan.workload)
        is_weighted = weight is not None and weight.column not in [each.name for each in columns]
        often = float(weight.cap) if weight is not None and is_weighted else 1
        return rows * often * max(_scaled(max(abs(each.lowest), abs(each.highest)), each) for each in columns)
    return None


def _width(attribute: Attribute) -> float:
    return _scaled(attribute.highest - attribute.lowest, attribute)


def _scaled(value: int, attribute: Attribute) -> float:
    return float(Fraction(value, 10**attribute.decimals))


def says_little_of_released(receipt: Mapping[str, Any]) -> str:
    """The same of a published release of counts, held against the number of rows that it has itself released; one that
    describes no table, and so has no synthetic rows, has released none."""
    bound, rows = receipt["bound"], round(receipt["total"]["estimate"])
    queries = receipt["workload"]["queries"]
    if bound["says"] or not receipt["synthetic_rows"] or bound["alpha"] < rows / 2 or asks_statistic(queries):
        return ""
    much = "nothing" if bound["alpha"] >= rows else "almost nothing"
    counted = counted_by(receipt)
    within = rows_text(bound["alpha"], counted)
    return (
        f"Its counts are within {within} of the truth, and there are about {max(rows, 0):,} {counted.many}: most "
        f"intervals reach from 0, so the table says {much}."
    )


def useful_from(alpha: float) -> int:
    """The least number of rows, to two digits, of which answers within `alpha` say something."""
    least = 2 * alpha
    unit = 10 ** max(0, int(log10(least)) - 1) if least >= 1 else 1
    return max(1, ceil(least / unit) * unit)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A session's questions asked together in one release instead, for the same epsilon.

    Attributes:
        questions: how many.
        session: what every answer of the session is within.
        ways: titles of the mechanisms with what every answer would be within, the best first.
        counted: what the bounds are of.
    """

    questions: int
    session: float
    ways: tuple[tuple[str, float], ...]
    counted: Counted = Counted.ROWS

    @property
    def best(self) -> float:
        return self.ways[0][1]

    @property
    def times(self) -> float:
        """How many times as wide as that the session's bound is."""
        return self.session / max(self.best, 0.5)

    @property
    def times_text(self) -> str:
        return f"{self.times:,.1f}" if self.times < 10 else f"{self.times:,.0f}"

    @property
    def is_better(self) -> bool:
        return self.best < self.session

    @property
    def is_much_better(self) -> bool:
        return self.times >= _MUCH_BETTER

    @property
    def session_margin(self) -> str:
        return rows_text(self.session, self.counted)

    @property
    def margins(self) -> list[tuple[str, str]]:
        return [(title, rows_text(alpha, self.counted)) for title, alpha in self.ways]

    @property
    def sentence(self) -> str:
        asked = "the one question" if self.questions == 1 else f"the same {self.questions:,} questions"
        best, session = rows_text(self.best, self.counted), self.session_margin
        if not self.is_better:
            return (
                f"Asked together in one release, {asked} would have an error of at most {best}, whatever they are; "
                f"the session's bound is {session}."
            )
        return (
            f"Asked together in one release, {asked} would have an error of at most {best} instead of {session}, "
            "whatever they are. Open a session only if the questions cannot be known beforehand."
        )


def prepared(plan: OnlinePlan) -> Prepared | None:
    """The yardstick of a session's plan; None where nothing is known of its bound, or it begins with a list."""
    if plan.expectation is None or plan.rules.questions is None or plan.answers_at_start:
        return None
    bounds = _within_if_prepared(plan.schema, plan.rules.questions, plan.budget, plan.beta)
    ways = sorted(((mechanism(name).title, alpha) for name, alpha in bounds.items()), key=lambda way: way[1])
    return Prepared(
        questions=plan.rules.questions,
        session=plan.expectation.alpha,
        ways=tuple(ways),
        counted=plan.schema.counted,
    )


@lru_cache(maxsize=64)
def _within_if_prepared(schema: Schema, questions: int, budget: PrivacyBudget, beta: Fraction) -> dict[str, float]:
    return within_if_prepared(schema, questions=questions, budget=budget, beta=beta)
