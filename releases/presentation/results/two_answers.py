"""Two answers of one table beside each other: how far apart the true ones are, and how many times one is the other.

It follows from what was released and costs nothing. All intervals of a release hold at once with probability 1 - beta:
x in [l, u] and y in [l', u']. Then x - y lies between l - u' and u - l', and, where 0 <= l and 0 < l', x / y between
l / u' and u / l', with the same probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from releases.engine.domain.dates import Dates
from releases.presentation.results.intervals import Interval
from releases.presentation.results.rows import Answer
from releases.questions.headline import number_text, span_text

#: Of more answers none are offered: nobody finds two in so long a list.
MOST_OFFERED = 300
#: Decimals that are written at most.
_MOST_PLACES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerChoice:
    """An answer that can be chosen."""

    number: str
    label: str
    is_first: bool
    is_second: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoAnswers:
    """What can be set beside each other, and what follows from the two that were chosen.

    Attributes:
        choices: the answers of the table.
        sentences: what follows; empty until two different answers are chosen.
    """

    choices: tuple[AnswerChoice, ...]
    sentences: tuple[str, ...]


def two_answers(
    answers: Sequence[Answer],
    *,
    first: str,
    second: str,
    unit: str,
    is_count: bool,
    is_proved: bool,
    dates: Dates | None = None,
) -> TwoAnswers | None:
    """
    Args:
        answers: all of one table, which measure one thing.
        first, second: the numbers of two, as the address has them; another text chooses none.
        unit: of the answers; empty where it is not known.
        is_count: whether true answers are whole and never below 0.
        is_proved: whether all intervals hold with the release's probability; else nothing is certain.
        dates: how the dates are declared that the answers number; None where they are no dates.

    Returns:
        None where there is nothing to compare.
    """
    if not 1 < len(answers) <= MOST_OFFERED or any(not is_measured(each) for each in answers):
        return None
    places = {str(place): place for place in range(len(answers))}
    one, other = places.get(first), places.get(second)
    chosen = one is not None and other is not None and one != other
    return TwoAnswers(
        choices=tuple(
            AnswerChoice(
                number=number,
                label=", ".join(answers[place].labels),
                is_first=place == (one or 0),
                is_second=place == (1 if other is None else other),
            )
            for number, place in places.items()
        ),
        sentences=(
            _sentences(answers[one], answers[other], unit=unit, is_count=is_count, is_proved=is_proved)
            if dates is None
            else _of_dates(answers[one], answers[other], dates, is_proved=is_proved)
        )
        if chosen and one is not None and other is not None
        else (),
    )


def is_measured(answer: Answer) -> bool:
    """Whether it is a number with an interval that ends."""
    ends = (answer.estimate, answer.lower, answer.upper)
    return all(each is not None and math.isfinite(each) for each in ends)


def _sentences(one: Answer, other: Answer, *, unit: str, is_count: bool, is_proved: bool) -> tuple[str, ...]:
    first, second = _interval(one), _interval(other)
    named, its_name = (f"“{', '.join(each.labels)}”" for each in (one, other))
    least, most = first.less(second, is_whole=is_count)
    places = 0 if is_count else _places((most - least) / 2)
    certain = "is certainly" if is_proved else "seems to be"
    verdict = (
        f"{named} {certain} larger than {its_name}."
        if least > 0
        else f"{named} {certain} smaller than {its_name}."
        if most < 0
        else f"The numbers do not show which of {named} and {its_name} is larger."
    )
    lies = "lies" if is_proved else "is expected to lie"
    of_unit = f" {unit}" if unit else ""
    about = _text(first.estimate - second.estimate, places, round)
    difference = (
        f"The difference, {named} less {its_name}, is about {about}{of_unit}; "
        f"the true one {lies} between {_text(least, places, math.floor)} and {_text(most, places, math.ceil)}."
    )
    return (verdict, difference, *_times(named, its_name, first, second, lies))


def _of_dates(one: Answer, other: Answer, dates: Dates, *, is_proved: bool) -> tuple[str, ...]:
    first, second = _interval(one), _interval(other)
    named, its_name = (f"“{', '.join(each.labels)}”" for each in (one, other))
    least, most = (round(end) for end in first.less(second, is_whole=True))
    certain, lies = ("is certainly", "lies") if is_proved else ("seems to be", "is expected to lie")
    verdict = (
        f"{named} {certain} later than {its_name}."
        if least > 0
        else f"{named} {certain} earlier than {its_name}."
        if most < 0
        else f"The dates do not show which of {named} and {its_name} is later."
    )
    apart = round(first.estimate - second.estimate)
    said = f"{named} is about {span_text(apart, dates)} after {its_name}"
    if apart < 0:
        said, least, most = f"{named} is about {span_text(-apart, dates)} before {its_name}", -most, -least
    if least == most:
        is_so = "is" if is_proved else "is expected to be"
        return verdict, f"{said}; the true time between them {is_so} {span_text(least, dates)}."
    between = f"between {span_text(least, dates)} and {span_text(most, dates)}"
    return verdict, f"{said}; the true time between them {lies} {between}."


def _times(named: str, its_name: str, one: Interval, other: Interval, lies: str) -> tuple[str, ...]:
    """How many times one is the other; nothing where the other may be 0 or either may be below."""
    if one.lower < 0 or other.lower <= 0:
        return ()
    places = _places(one.estimate / other.upper)
    about = _text(one.estimate / other.estimate, places, round)
    least = _text(one.lower / other.upper, places, math.floor)
    most = _text(one.upper / other.lower, places, math.ceil)
    return (f"{named} is about {about} times {its_name}; the true number of times {lies} between {least} and {most}.",)


def _interval(answer: Answer) -> Interval:
    assert answer.estimate is not None
    assert answer.lower is not None
    assert answer.upper is not None
    return Interval(estimate=answer.estimate, lower=answer.lower, upper=answer.upper)


def _places(size: float) -> int:
    """Decimals that show two digits of a number, two at least."""
    return min(max(2, 1 - math.floor(math.log10(size))), _MOST_PLACES) if size > 0 else 2


def _text(value: float, places: int, towards: Callable[[float], int]) -> str:
    scale = 10**places
    return number_text(towards(value * scale) / scale, places)
