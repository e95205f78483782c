"""One sentence that says what was found, in the unit of the answers, from released answers alone.

What it claims holds whenever every true value lies in its interval, so it holds with the bound's confidence: two
groups are set apart only where their intervals are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from releases.engine.domain.counted import Counted
from releases.engine.domain.dates import Dates

#: Digits of an interval's half width that are said.
_DIGITS = 2
#: Values that a sentence names at most.
MOST_NAMED = 5
#: Decimals of a number that says nothing of how sure it is.
_PLACES = 6
#: Decimals that are kept at most.
_MOST_PLACES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasedAnswer:
    """One released answer: an estimate with the interval that holds the truth, or what was chosen; and of what."""

    label: str
    estimate: float = math.nan
    lower: float = -math.inf
    upper: float = math.inf
    chosen: str = ""
    counted: Counted = Counted.ROWS

    @property
    def is_chosen(self) -> bool:
        return math.isnan(self.estimate)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """What numbers are of.

    Attributes:
        noun: with its article, such as ``The average income``.
        unit: what they are measured in; empty where that is not known.
        dates: how the dates are declared that they number; None where they are no dates.
    """

    noun: str
    unit: str = ""
    dates: Dates | None = None

    def about(self, answer: ReleasedAnswer) -> str:
        """A number and where its truth lies."""
        return f"{self.noun} is about {self.said(answer)}; the true value {self.lies(answer)}"

    def said(self, answer: ReleasedAnswer) -> str:
        """The estimate, with as many digits as its interval bears."""
        return self.text(answer.estimate, self._places(answer))

    def between(self, answer: ReleasedAnswer) -> str:
        """The interval, rounded outwards."""
        places = self._places(answer)
        lower, upper = ends(answer, places)
        if self.dates is not None and lower == upper:
            return f"on {self.text(upper, places)}"
        first = number_text(lower, places) if self.dates is None else self._first_date(lower, upper, self.dates)
        return f"between {first} and {self.text(upper, places)}"

    def lies(self, answer: ReleasedAnswer) -> str:
        """Where the truth lies, after its name."""
        lower, upper = ends(answer, self._places(answer))
        return f"is {self.text(upper, self._places(answer))}" if lower == upper else f"lies {self.between(answer)}"

    def text(self, value: float, places: int) -> str:
        if self.dates is not None:
            return date_text(self.dates.value(round(value)))
        return f"{number_text(value, places)} {self.unit}".strip()

    def _places(self, answer: ReleasedAnswer) -> int:
        """Dates are whole numbers."""
        return _places(answer) if self.dates is None else 0

    def _first_date(self, lower: float, upper: float, dates: Dates) -> str:
        """Without its year where the second date has the same."""
        first, second = dates.value(round(lower)), dates.value(round(upper))
        is_one_year = first.year == second.year and not dates.has_time
        return f"{first:%-d %B}" if is_one_year else date_text(first)

    def of_groups(self, answers: Sequence[ReleasedAnswer]) -> str:
        """The two groups whose intervals are furthest apart; that none can be told apart where all intervals meet."""
        if len(answers) == 1:
            return self.about(answers[0])
        high, low = max(answers, key=lambda each: each.lower), min(answers, key=lambda each: each.upper)
        if high.lower <= low.upper:
            meeting = ReleasedAnswer(label="", estimate=high.lower, lower=high.lower, upper=low.upper)
            return f"{self.noun} may be the same in all groups: {self.between(meeting)}"
        more = "higher" if self.dates is None else "later"
        return (
            f"{self.noun} is {more} for “{high.label}”, {self.between(high)}, than for “{low.label}”, "
            f"{self.between(low)}"
        )


def most_of(answers: Sequence[ReleasedAnswer], what: str) -> str:
    """Which of several groups has the most rows or persons, where their intervals say so.

    Args:
        what: what is named, such as ``The most frequent value of region``.
    """
    first = max(answers, key=lambda each: each.estimate)
    if first.lower <= 0:
        return "No count is certainly above 0"
    others = max((each.upper for each in answers if each is not first), default=-math.inf)
    verb = "is" if first.lower > others else "may be"
    return f"{what} {verb} “{first.label}”: {rows_of(first)}"


def rows_of(answer: ReleasedAnswer) -> str:
    """A number of rows or persons and where the truth lies."""
    places = _places(answer)
    about = f"about {number_text(answer.estimate, places)} {answer.counted.many}"
    return f"{about}; the true number {Measure(noun='').lies(answer)}"


def ends(answer: ReleasedAnswer, places: int) -> tuple[float, float]:
    """Both ends of the interval, rounded outwards."""
    scale = 10**places
    return math.floor(round(answer.lower * scale, 6)) / scale, math.ceil(round(answer.upper * scale, 6)) / scale


def date_text(value: date) -> str:
    """Such as ``3 May 2021``, and ``3 May 2021, 14:05:09``."""
    day = f"{value.day} {value:%B} {value.year:04d}"
    return f"{day}, {value:%H:%M:%S}" if isinstance(value, datetime) else day


def span_text(value: int, dates: Dates) -> str:
    """How far one date is after another, in words; with a true minus where it is before."""
    return f"−{dates.span(-value)}" if value < 0 else dates.span(value)


def value_text(value: float | date) -> str:
    """A number, or a date, as released."""
    return date_text(value) if isinstance(value, date) else number_text(value)


def number_text(value: float, places: int = _PLACES) -> str:
    """With its decimals, without idle noughts, and with a true minus."""
    text = f"{abs(value):,.{places}f}"
    text = text.rstrip("0").rstrip(".") if places else text
    return f"−{text}" if value < 0 and text.strip("0.,") else text


def _places(answer: ReleasedAnswer) -> int:
    """Decimals that show two digits of the half width."""
    half = (answer.upper - answer.lower) / 2
    if not 0 < half < math.inf:
        return 2 if half else _MOST_PLACES
    return max(0, min(_DIGITS - 1 - math.floor(math.log10(half)), _MOST_PLACES))
