"""The law of a survey in whole numbers: randomised response that a browser, or a person with dice, can draw exactly.

Of M = 10^9 numbers T stand for the true answer and O for each of the k - 1 others, T + (k - 1) O = M. A respondent
draws one of the M numbers evenly and reports what it stands for, so the report is the true answer with probability
T/M and each other one with O/M: direct encoding (Wang, Blocki, Li and Jha 2017), k = 2 being Warner's (1965). One
report's law under two answers differs by the factor T/O at most; O is the least whole number for which T/O <= e^ε is
proved by integer arithmetic. So the report is ε-DP for its respondent, and the stated epsilon is an upper bound.

The draw does not depend on the answer: a number stands for a shift s down the list of answers, s = 0 for the first T
numbers and s = 1, ..., k - 1 for the next O each, and the report is (answer + s) mod k.

With r_j of N reports naming answer j, E r_j = O/M N + (T - O)/M c_j for c_j true answers j, so that
(M r_j - O N) / (T - O) is unbiased: no rounding of the law is left out of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy as np

from releases.engine.arithmetic.intervals import ceil_div, exp_interval, log_interval
from releases.engine.domain.privacy import decimal_text
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.randomized_response import Collected

#: M: nine decimal digits, which a person can draw one by one, and less than 2**32, of which a browser draws a word.
NUMBERS = 10**9
#: A longer list is read by nobody, and its reports say next to nothing.
FEWEST_ANSWERS, MAX_ANSWERS = 2, 20
#: Below, T - O is too few of the M numbers to tell answers apart; above, nearly every report is the truth.
MIN_EPSILON, MAX_EPSILON = Fraction(1, 100), Fraction(10)
SOURCE = "Warner, Randomized Response (1965); Wang, Blocki, Li and Jha (2017), direct encoding"
#: Bits at which e^ε is enclosed: far more than T and O have.
_PRECISION = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyLaw:
    """How many of the M numbers stand for what.

    Attributes:
        answers: k, how many there are to choose from.
        truth: T, the numbers that stand for the true answer.
        other: O, those that stand for each other one.
    """

    answers: int
    truth: int
    other: int

    def __post_init__(self) -> None:
        _check_answers(self.answers)
        if not 1 <= self.other < self.truth:
            raise InvalidInput("truth", self.truth, f"must be above {self.other:,}, the numbers of each other answer")
        if self.truth + (self.answers - 1) * self.other != NUMBERS:
            raise InvalidInput("truth", self.truth, f"must add up to {NUMBERS:,} with those of the other answers")

    @classmethod
    def of(cls, *, epsilon: Fraction, answers: int) -> SurveyLaw:
        """The law that tells the truth most often of those for which ε-DP is proved.

        T/O = M/O - (k - 1) <= e^ε where O >= M / (e^ε + k - 1).

        Raises:
            InvalidInput: an argument is out of range.
        """
        _check_answers(answers)
        if isinstance(epsilon, bool) or not isinstance(epsilon, (int, Fraction)):
            raise InvalidInput("epsilon", str(epsilon), "must be an exact rational")
        if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
            least, most = decimal_text(MIN_EPSILON), decimal_text(MAX_EPSILON)
            raise InvalidInput("epsilon", decimal_text(Fraction(epsilon)), f"must be from {least} to {most}")
        lo, _ = exp_interval(epsilon, precision=_PRECISION)
        other = ceil_div(NUMBERS << _PRECISION, lo + ((answers - 1) << _PRECISION))
        return cls(answers=answers, truth=NUMBERS - (answers - 1) * other, other=other)

    def proves(self, *, epsilon: Fraction) -> bool:
        """Whether T <= e^ε O, and so ε-DP, is certain: decided by integers."""
        lo, _ = exp_interval(epsilon, precision=_PRECISION)
        return self.truth << _PRECISION <= self.other * lo

    def shift(self, drawn: int) -> int:
        """How far down the list the report is from the answer, for one of the M numbers."""
        if isinstance(drawn, bool) or not isinstance(drawn, int) or not 0 <= drawn < NUMBERS:
            raise InvalidInput("drawn", drawn, f"must be a whole number from 0 to {NUMBERS - 1}")
        return 0 if drawn < self.truth else 1 + (drawn - self.truth) // self.other

    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The first and the last number of every shift, in order."""
        starts = [0, *(self.truth + step * self.other for step in range(self.answers))]
        return tuple((first, after - 1) for first, after in pairwise(starts))

    def estimates(self, reports: list[int]) -> list[Fraction]:
        """Unbiased estimates of how many respondents have each answer, exactly; they add up to N.

        Args:
            reports: how many reports name each answer.
        """
        self._check_reports(reports)
        total = sum(reports)
        return [Fraction(NUMBERS * each - self.other * total, self.truth - self.other) for each in reports]

    def intervals(self, reports: list[int], *, beta: float) -> list[tuple[int, int]]:
        """For each answer the fewest and the most respondents who can have it: all hold with probability 1 - beta.

        The exact law of a report count is inverted (`Collected.intervals`) at ln(T/O), with which e^ε = T/O.
        """
        self._check_reports(reports)
        lo, _ = log_interval(Fraction(self.truth, self.other), precision=_PRECISION)
        rate = Fraction(lo, 1 << _PRECISION)
        collected = Collected.all_known(np.array(reports, dtype=np.int64), epsilon=rate)
        return [(int(least), int(most)) for least, most in collected.intervals(beta=beta)]

    def half_width(self, *, respondents: int, beta: float) -> float:
        """What every estimate is within, with probability 1 - beta, whatever the answers: known before any is given.

        By Bernstein: the report count is a sum of n independent coins of variance v at most, its deviation t has
        t <= √(2 n v ln(1/β')) + (2/3) ln(1/β'), and the estimate is off by t M / (T - O); β' is β / 2k, or β / 2
        where there are two answers, whose counts add up to n.
        """
        told, false = self.truth / NUMBERS, self.other / NUMBERS
        variance = max(told * (1 - told), false * (1 - false))
        tests = 1 if self.answers == 2 else self.answers
        odds = log(2 * tests / beta)
        return (sqrt(2 * respondents * variance * odds) + 2 * odds / 3) * NUMBERS / (self.truth - self.other)

    def to_json(self) -> dict[str, Any]:
        return {"numbers": NUMBERS, "truth": self.truth, "each_other": self.other, "answers": self.answers}

    def _check_reports(self, reports: list[int]) -> None:
        if len(reports) != self.answers or any(each < 0 for each in reports):
            raise InvalidInput("reports", str(reports), f"must be {self.answers} numbers, none below 0")


def _check_answers(answers: int) -> None:
    if isinstance(answers, bool) or not isinstance(answers, int) or not FEWEST_ANSWERS <= answers <= MAX_ANSWERS:
        raise InvalidInput("answers", answers, f"must be {FEWEST_ANSWERS} to {MAX_ANSWERS} in number")
