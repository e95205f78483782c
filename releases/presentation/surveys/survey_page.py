"""A survey for the people who ask and for those who answer: its promise, its law, and what it told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Sum
from django.template.defaultfilters import floatformat
from django.utils.timezone import localtime

from releases.display.charts.answers import marginal_bars
from releases.engine.mechanisms.survey_sampler import NUMBERS, SurveyLaw
from releases.models import Survey, SurveyState
from releases.planning.epsilon_meaning import OF_A_REPORT, EpsilonMeaning, epsilon_meaning
from releases.services.surveys import BETA

#: Numbers of respondents for which a draft's page estimates the error.
_ESTIMATED = (100, 1_000, 10_000)
_BY_CHANCE = "Nobody, not even the organisation, can tell which."


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyPromise:
    """What every page says of the law: public, and known before anybody answers.

    Attributes:
        truth, other: of the numbers that are drawn, how many mean the true answer, and each of the others; with their
            chances.
        others: the answers that are not the true one; `otherwise` one of them.
        nobody_can_tell: empty where epsilon is so large that one can guess; `is_large` says so.
        ranges: numbers that are drawn by hand, from the first to the last, with what is reported for them.
        goes_round: after the last answer of the list comes the first again.
    """

    title: str
    question: str
    answers: tuple[str, ...]
    epsilon: str
    law: SurveyLaw
    numbers: int
    truth: str
    other: str
    truth_chance: str
    other_chance: str
    others: str
    otherwise: str
    nobody_can_tell: str
    is_large: bool
    ranges: tuple[tuple[str, str, str], ...]
    goes_round: bool
    meaning: EpsilonMeaning


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """One answer's line of the result, in people."""

    answer: str
    reports: int
    estimate: float
    lower: int
    upper: int

    def to_json(self) -> dict[str, Any]:
        return {"label": self.answer, "estimate": self.estimate, "lower": self.lower, "upper": self.upper}


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyResult:
    """What a closed survey told.

    Attributes:
        accuracy: how far every count can be from the truth, and of whom it is true; `of_whom` empty if nobody answered.
        rows: of each answer the estimate, its bounds and the reports, as they came in.
        readers: who can read it.
        chart: None where nobody answered.
    """

    accuracy: str
    of_whom: str
    respondents: str
    cost: str
    asked: str
    rows: tuple[tuple[str, str, str, str, str], ...]
    readers: str
    is_public: bool
    chart: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyPage:
    """A survey for its people and, once it is closed and public, for everybody.

    Attributes:
        says: what its state means, or what it is.
        address: of the form for respondents, while it is open, with `reports` so far.
        together: who works on it with whom; empty for a person alone.
        expected: of a draft, for so many respondents, within how many people every count will be.
        result: once it is closed.
    """

    promise: SurveyPromise
    is_own: bool
    says: str
    address: str
    reports: str
    opened_at: datetime | None
    together: str
    expected: tuple[tuple[str, str], ...]
    result: SurveyResult | None


def survey_promise(survey: Survey) -> SurveyPromise:
    law = survey.law
    others = law.answers - 1
    names = ["your own answer"]
    names += ["the other answer"] if others == 1 else [_steps(step) for step in range(1, law.answers)]
    meaning = epsilon_meaning(survey.epsilon, lead=OF_A_REPORT)
    return SurveyPromise(
        title=survey.title,
        question=survey.question,
        answers=tuple(survey.answers),
        epsilon=survey.epsilon,
        law=law,
        numbers=NUMBERS,
        truth=f"{law.truth:,}",
        other=f"{law.other:,}",
        truth_chance=_chance(law.truth),
        other_chance=_chance(law.other),
        others="the other answer" if others == 1 else f"each of the {others} others",
        otherwise="the other one" if others == 1 else f"one of the {others} others",
        nobody_can_tell="" if meaning.is_large else _BY_CHANCE,
        is_large=meaning.is_large,
        ranges=tuple(
            (_digits(first), _digits(last), name) for name, (first, last) in zip(names, law.ranges(), strict=True)
        ),
        goes_round=others > 1,
        meaning=meaning,
    )


def survey_page(survey: Survey, *, is_own: bool, address: str) -> SurveyPage:
    """
    Args:
        address: of the form for respondents.
    """
    is_open = survey.status is SurveyState.OPEN
    reports = survey.tallies.aggregate(number=Sum("number"))["number"] if is_open else 0
    return SurveyPage(
        promise=survey_promise(survey),
        is_own=is_own,
        says=survey.status.meaning if is_own else "A survey under randomised response.",
        address=address if is_open else "",
        reports=f"{reports or 0:,}",
        opened_at=survey.opened_at,
        together=f"{survey.group} works on it with {survey.owner}." if survey.group else "",
        expected=_expected(survey.law) if survey.status is SurveyState.DRAFT else (),
        result=_result(survey) if survey.status is SurveyState.CLOSED else None,
    )


def estimates_of(survey: Survey) -> list[Estimate]:
    result = survey.result
    assert result is not None
    return [
        Estimate(answer=answer, reports=reports, estimate=estimate, lower=lower, upper=upper)
        for answer, reports, estimate, (lower, upper) in zip(
            result["answers"], result["reports"], result["estimates"], result["intervals"], strict=True
        )
    ]


def _result(survey: Survey) -> SurveyResult:
    result, estimates = survey.result, estimates_of(survey)
    assert result is not None
    assert survey.opened_at is not None
    assert survey.closed_at is not None
    number = result["respondents"]
    first, last = (f"{localtime(at):%-d %B %Y}" for at in (survey.opened_at, survey.closed_at))
    group = f" and {survey.group}" if survey.group else ""
    chart = marginal_bars([each.to_json() for each in estimates], title="answer", unit="people")
    return SurveyResult(
        accuracy=result["bound"]["sentence"] if number else "Nobody answered.",
        of_whom=f"The truth is how many of the {number:,} people who answered have each answer, if each answered once "
        "and as the form asks. Of people who did not answer it says nothing."
        if number
        else "",
        respondents=f"{number:,}",
        cost=result["cost"],
        asked=last if result["opened"] == result["closed"] else f"{first} to {last}",
        rows=tuple(
            (
                each.answer,
                str(floatformat(each.estimate, "1g")),
                f"{each.lower:,}",
                f"{each.upper:,}",
                f"{each.reports:,}",
            )
            for each in estimates
        ),
        readers="Everybody who has this page's address can read and download it."
        if survey.is_public
        else f"Only {survey.owner}{group} can read it.",
        is_public=survey.is_public,
        chart=chart if number else None,
    )


def _expected(law: SurveyLaw) -> tuple[tuple[str, str], ...]:
    """How accurate the result will be at the least, for so many respondents."""
    rows = []
    for respondents in _ESTIMATED:
        width = law.half_width(respondents=respondents, beta=float(BETA))
        # Half of the people, said of every answer, is never off by more than half of them.
        useless = ": of no use" if width >= respondents / 2 else ""
        rows.append((f"{respondents:,}", f"{int(-(-width // 1)):,} people of the truth{useless}"))
    return tuple(rows)


def _steps(step: int) -> str:
    return "the next answer below yours" if step == 1 else f"the answer {step} places below yours"


def _chance(numbers: int) -> str:
    """A share of the M numbers as people say it; never a certainty that there is not."""
    share = 100 * numbers / NUMBERS
    return f"{share:.1f}%" if 1 <= share <= 99 else f"{share:.3g}%" if share < 1 else f"{share:.4f}%"


def _digits(number: int) -> str:
    """All nine digits, in threes."""
    text = f"{number:09d}"
    return " ".join(text[start : start + 3] for start in range(0, 9, 3))
