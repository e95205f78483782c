"""Surveys under randomised response: put together, opened, answered by people in their browsers, closed for good.

A report comes in already randomised, so no budget of a dataset is charged: it was private before anybody held it. What
is stored of it is that there is one more of its kind, and nothing of who sent it or when; nor is it in the audit log.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from releases.engine.domain.privacy import decimal_text, exact
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.survey_sampler import FEWEST_ANSWERS, MAX_ANSWERS, SOURCE, SurveyLaw
from releases.ledger import audit_log
from releases.models import AuditAction, Survey, SurveyState, SurveyTally
from releases.publication.build_info import SOFTWARE
from releases.publication.receipt import percent
from releases.services.release_inputs import Refusal

if TYPE_CHECKING:
    from django.contrib.auth.models import User

RECEIPT_VERSION = 1
#: All error bars of a result hold at once with probability 1 - beta.
BETA = Fraction(1, 20)
#: Texts longer than this are no answers to choose from.
_LONGEST_ANSWER = 200
_LONGEST_EPSILON = 30


@transaction.atomic
def draft_survey(
    *, owner: User, title: str, question: str, answers: list[str], epsilon: str, group: Group | None = None
) -> Survey:
    """Begin a survey; nobody but its people sees it before it is opened.

    Raises:
        InvalidInput: a value breaks its rule.
    """
    return Survey.objects.create(
        owner=owner, group=group, **_checked(title=title, question=question, answers=answers, epsilon=epsilon)
    )


@transaction.atomic
def change_survey(
    *, survey: Survey, title: str, question: str, answers: list[str], epsilon: str, group: Group | None
) -> None:
    """Change a draft.

    Raises:
        InvalidInput: a value breaks its rule.
        Refusal: it was opened.
    """
    checked = _checked(title=title, question=question, answers=answers, epsilon=epsilon)
    locked = _locked(survey)
    if locked.status is not SurveyState.DRAFT:
        raise Refusal("An opened survey cannot be changed: respondents were promised what it says.")
    for name, value in {**checked, "group": group}.items():
        setattr(locked, name, value)
    locked.save(update_fields=[*checked, "group"])
    survey.refresh_from_db()


@transaction.atomic
def open_survey(*, survey: Survey, by: User | None) -> None:
    """Let people answer. The question, the answers and the law are fixed from here on.

    Raises:
        Refusal: it was opened before.
    """
    locked = _locked(survey)
    if locked.status is not SurveyState.DRAFT:
        raise Refusal("Only a draft can be opened.")
    law = locked.law
    if not law.proves(epsilon=locked.exact_epsilon):
        raise Refusal(f"No proof that its law keeps epsilon {locked.epsilon}, so it is not opened.")
    SurveyTally.objects.bulk_create(
        [SurveyTally(survey=locked, answer=answer) for answer in range(len(locked.answers))]
    )
    locked.truth, locked.other = law.truth, law.other
    locked.state, locked.opened_at = SurveyState.OPEN, timezone.now()
    locked.save(update_fields=["truth", "other", "state", "opened_at"])
    audit_log.record(AuditAction.OPEN_SURVEY, actor=by, on=locked, detail=_cost(locked))
    survey.refresh_from_db()


@transaction.atomic
def accept_report(*, survey: Survey, report: str) -> None:
    """Count one randomised report. Nothing else of it is kept, and nothing of its sender is asked.

    Args:
        report: the place in the list of answers that the report names, as it came in.

    Raises:
        InvalidInput: it is not such a place.
        Refusal: the survey is not open.
    """
    # The lock makes every report fall before or after the closing, which reads the tallies.
    locked = _locked(survey)
    places = len(locked.answers)
    if locked.status is not SurveyState.OPEN:
        raise Refusal("The survey is not open, so nothing was taken.")
    if not (report.isascii() and report.isdecimal() and len(report) <= 2 and int(report) < places):
        raise InvalidInput("report", report or "nothing", f"must be the number of an answer, from 0 to {places - 1}")
    SurveyTally.objects.filter(survey=locked, answer=int(report)).update(number=F("number") + 1)


@transaction.atomic
def close_survey(*, survey: Survey, by: User | None) -> None:
    """End it for good, and work out the result: once, from the randomised reports alone.

    Raises:
        Refusal: it is not open.
    """
    locked = _locked(survey)
    if locked.status is not SurveyState.OPEN:
        raise Refusal("Only an open survey can be closed.")
    reports = list(locked.tallies.order_by("answer").values_list("number", flat=True))
    locked.state, locked.closed_at = SurveyState.CLOSED, timezone.now()
    locked.result = _result(locked, reports)
    locked.save(update_fields=["state", "closed_at", "result"])
    audit_log.record(AuditAction.CLOSE_SURVEY, actor=by, on=locked, detail=f"{sum(reports):,} reports")
    survey.refresh_from_db()


@transaction.atomic
def make_survey_public(*, survey: Survey, by: User | None) -> None:
    """Let everybody read the result.

    Raises:
        Refusal: it is not closed.
    """
    _show(survey, is_public=True, by=by)


@transaction.atomic
def make_survey_private(*, survey: Survey, by: User | None) -> None:
    """Let only the survey's people read the result.

    Raises:
        Refusal: it is not closed.
    """
    _show(survey, is_public=False, by=by)


def _show(survey: Survey, *, is_public: bool, by: User | None) -> None:
    if not Survey.objects.filter(pk=survey.pk, state=SurveyState.CLOSED).update(is_public=is_public):
        raise Refusal("Only a closed survey has a result to show.")
    action = AuditAction.MAKE_PUBLIC if is_public else AuditAction.MAKE_PRIVATE
    audit_log.record(action, actor=by, on=survey)
    survey.refresh_from_db()


def _locked(survey: Survey) -> Survey:
    return Survey.objects.select_for_update().get(pk=survey.pk)


def _cost(survey: Survey) -> str:
    return f"epsilon {survey.epsilon} for each respondent, local model"


def _checked(*, title: str, question: str, answers: list[str], epsilon: str) -> dict[str, Any]:
    """The four values without their margins, each by its rule."""
    title, question, epsilon = title.strip(), question.strip(), epsilon.strip()
    texts = [each.strip() for each in answers if each.strip()]
    if not 0 < len(title) <= 200:
        raise InvalidInput("title", title, "must say what the survey is, in at most 200 characters")
    if not 0 < len(question) <= 500:
        raise InvalidInput("question", question, "must ask something, in at most 500 characters")
    if not FEWEST_ANSWERS <= len(texts) <= MAX_ANSWERS:
        raise InvalidInput("answers", len(texts), f"must be {FEWEST_ANSWERS} to {MAX_ANSWERS} in number, one a line")
    for each in texts:
        if len(each) > _LONGEST_ANSWER:
            raise InvalidInput("answers", each, f"must be at most {_LONGEST_ANSWER} characters long")
        if sum(other.casefold() == each.casefold() for other in texts) > 1:
            raise InvalidInput("answers", each, "must be in the list once only")
    if len(epsilon) > _LONGEST_EPSILON:
        raise InvalidInput("epsilon", epsilon, f"must be at most {_LONGEST_EPSILON} characters long")
    value = exact(epsilon, field="epsilon")
    SurveyLaw.of(epsilon=value, answers=len(texts))
    # As a plain decimal, in full: so short a text has no more places.
    return {
        "title": title,
        "question": question,
        "answers": texts,
        "epsilon": decimal_text(value, places=_LONGEST_EPSILON),
    }


def _result(survey: Survey, reports: list[int]) -> dict[str, Any]:
    """The receipt: everything needed to judge the result and to work it out again."""
    assert survey.opened_at is not None
    assert survey.closed_at is not None
    law = survey.law
    estimates = law.estimates(reports)
    intervals = law.intervals(reports, beta=float(BETA))
    # Rounded up: a smaller number of people would not be true.
    half_width = ceil(max(abs(end - each) for each, ends in zip(estimates, intervals, strict=True) for end in ends))
    return {
        "version": RECEIPT_VERSION,
        "survey": str(survey.pk),
        "title": survey.title,
        "question": survey.question,
        "answers": survey.answers,
        "epsilon": survey.epsilon,
        "cost": _cost(survey),
        "model": "local: every answer was randomised by its respondent before it was sent",
        "law": law.to_json(),
        "source": SOURCE,
        "reports": reports,
        "respondents": sum(reports),
        "estimates": [round(float(each), 3) for each in estimates],
        "intervals": [list(each) for each in intervals],
        "bound": {
            "beta": str(float(BETA)),
            "half_width": half_width,
            "sentence": bound_sentence(len(reports), half_width),
            "speaks_of": "the people who answered, if each answered once and by the law",
        },
        "opened": survey.opened_at.date().isoformat(),
        "closed": survey.closed_at.date().isoformat(),
        "software": dict(SOFTWARE),
    }


def bound_sentence(answers: int, half_width: int) -> str:
    """The one sentence on accuracy."""
    counts = "both counts are" if answers == 2 else f"every one of the {answers} counts is"
    people = "1 person" if half_width == 1 else f"{half_width:,} people"
    return f"With probability {percent(1 - BETA)}, {counts} within {people} of the truth, all at once."
