"""Several counts of one table together: between which numbers their true sum lies.

It follows from what was released and costs nothing. Let x_i be the true counts of a table that holds each counted row
once, and L_i <= x_i <= U_i for all i at once, with probability 1 - beta. Counts are whole and not below 0, so the sum
over some cells S lies between Σ_S ceil(max(L_i, 0)) and Σ_S floor(U_i), with the same probability. Where the number n
of all rows is public it also lies between n - Σ_R floor(U_j) and n - Σ_R ceil(max(L_j, 0)), over the other cells R.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from releases.presentation.results.rows import Answer
from releases.publication.shares import Whole
from releases.questions.headline import number_text

#: Of more answers none are offered to be ticked; a filter adds up any number of them.
MOST_TICKED = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerTick:
    """An answer that can be ticked."""

    number: str
    label: str
    is_ticked: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class AddedUp:
    """What can be added up, and what it comes to.

    Attributes:
        ticks: the answers of the table; empty where these are too many.
        sentence: the sum of those that are ticked; empty until there are two.
    """

    ticks: tuple[AnswerTick, ...]
    sentence: str


def added_up(
    answers: Sequence[Answer], ticked: Collection[str], *, whole: Whole | None, unit: str, is_proved: bool
) -> AddedUp | None:
    """
    Args:
        answers: all of one table, each row counted in one of them.
        ticked: their numbers, as the address has them; other texts tick none.
        whole: what shares are taken of, and how many rows there are where that is public.
        unit: what is counted.
        is_proved: whether all intervals hold with the release's probability.

    Returns:
        None where nobody would find the answers in so long a list, or there is one alone.
    """
    if not 1 < len(answers) <= MOST_TICKED:
        return None
    numbered = {str(place): each for place, each in enumerate(answers)}
    chosen = [each for number, each in numbered.items() if number in ticked]
    return AddedUp(
        ticks=tuple(
            AnswerTick(number=number, label=", ".join(each.labels), is_ticked=number in ticked)
            for number, each in numbered.items()
        ),
        sentence=sum_in_words(chosen, of=answers, whole=whole, unit=unit, is_proved=is_proved),
    )


def sum_in_words(
    chosen: Sequence[Answer], *, of: Sequence[Answer], whole: Whole | None, unit: str, is_proved: bool
) -> str:
    """Such as “Together these 3 answers come to about 120 rows; the true number lies between 110 and 131.”; empty of
    fewer than two, and of all."""
    if not 1 < len(chosen) < len(of):
        return ""
    estimate, lower, upper = (
        sum(getattr(each, name) or 0.0 for each in chosen) for name in ("estimate", "lower", "upper")
    )
    least, most = _ends(chosen)
    if whole is not None and whole.rows is not None:
        least_of_all, most_of_all = _ends(of)
        rows = round(whole.rows)
        least, most = max(least, rows - (most_of_all - most)), min(most, rows - (least_of_all - least))
    about = min(max(round(estimate), least), most)
    lies = "lies" if is_proved else "is expected to lie"
    together = Answer(labels=(), estimate=estimate, lower=lower, upper=upper)
    share = "" if whole is None else f", {whole.text(together)} of all"
    return (
        f"Together these {len(chosen)} answers come to about {number_text(about)} {unit}{share}; "
        f"the true number {lies} between {number_text(least)} and {number_text(most)}."
    )


def _ends(answers: Sequence[Answer]) -> tuple[int, int]:
    """Between which numbers the sum of their true counts lies."""
    least = sum(max(math.ceil(each.lower or 0.0), 0) for each in answers)
    return least, sum(math.floor(each.upper or 0.0) for each in answers)
