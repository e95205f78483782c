"""Surveys under randomised response: put together by their people, answered by anybody who has the link, read.

The answering pages ask nobody who they are, and the randomising is done in the browser (`survey.js`) or by hand: what
comes in is a report, never an answer.
"""

from __future__ import annotations

import json
import uuid

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.paginator import Paginator
from django.core.signing import BadSignature, Signer
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from releases import services
from releases.display.error_messages import in_words
from releases.display.paging import chosen_page
from releases.engine.errors import InvalidInput
from releases.forms.buttons import VisibilityForm
from releases.forms.fields import in_one_line
from releases.forms.surveys import ReportForm, SurveyForm
from releases.ledger import audit_log
from releases.models import AuditAction, Survey, SurveyState
from releases.permissions import get_own_survey_for, get_survey_for, get_survey_to_answer, groups_to_choose, signed_in
from releases.presentation.surveys.survey_page import estimates_of, survey_page, survey_promise
from releases.publication import files
from releases.views.common.csv_exports import csv_response
from releases.views.common.refused import refusals_shown

PAGE_LENGTH = 50
#: Says in a respondent's own browser that it has sent a report.
COOKIE = "answered"
COOKIE_SECONDS = 366 * 24 * 3600


def survey_list(request: HttpRequest) -> HttpResponse:
    page = chosen_page(Paginator(Survey.objects.for_list(request.user), PAGE_LENGTH), request.GET)
    return render(request, "surveys/survey_list.html", {"page": page, "surveys": page.object_list})


def new_survey(request: HttpRequest) -> HttpResponse:
    person = signed_in(request)
    initial = {"epsilon": "1", "answers": "Yes\nNo"}
    form = SurveyForm(
        request.POST if request.method == "POST" else None,
        groups=groups_to_choose(signed_in(request), None),
        initial=initial,
    )
    if request.method == "POST" and form.is_valid():
        try:
            survey = services.surveys.draft_survey(owner=person, **form.given)
        except InvalidInput as error:
            form.add_error(error.field, in_words(error))
        else:
            return redirect("survey", survey_id=survey.pk)
    return render(request, "surveys/survey_new.html", {"form": form}, status=400 if form.errors else 200)


def change_survey(request: HttpRequest, survey_id: uuid.UUID) -> HttpResponse:
    """The draft's form again, filled with what it holds."""
    survey = get_own_survey_for(request, survey_id)
    if survey.status is not SurveyState.DRAFT and request.method != "POST":
        return redirect("survey", survey_id=survey.pk)
    initial = {
        "title": survey.title,
        "question": survey.question,
        "answers": "\n".join(survey.answers),
        "epsilon": survey.epsilon,
        "group": survey.group_id,
    }
    groups = groups_to_choose(signed_in(request), survey.group_id)
    form = SurveyForm(request.POST if request.method == "POST" else None, groups=groups, initial=initial)
    if form.is_valid():
        try:
            services.surveys.change_survey(survey=survey, **form.given)
        except InvalidInput as error:
            form.add_error(error.field, in_words(error))
        except services.release_inputs.Refusal as error:
            messages.error(request, in_words(error))
            return redirect("survey", survey_id=survey.pk)
        else:
            return redirect("survey", survey_id=survey.pk)
    context = {"form": form, "survey": survey}
    return render(request, "surveys/survey_new.html", context, status=400 if form.errors else 200)


@login_not_required
def survey_detail(request: HttpRequest, survey_id: uuid.UUID) -> HttpResponse:
    """A survey's page for its people, in every state; once closed and made public, its result for everybody."""
    survey = get_survey_for(request, survey_id)
    is_own = Survey.objects.visible_to(request.user).filter(pk=survey.pk).exists()
    address = request.build_absolute_uri(reverse("survey_answer", args=[survey.pk]))
    context = {"survey": survey, "page": survey_page(survey, is_own=is_own, address=address)}
    return render(request, "surveys/survey_detail.html", context)


@require_POST
def open_survey(request: HttpRequest, survey_id: uuid.UUID) -> HttpResponse:
    survey = get_own_survey_for(request, survey_id)
    with refusals_shown(request):
        services.surveys.open_survey(survey=survey, by=signed_in(request))
        messages.success(request, "Open. Give the link below to the people you ask.")
    return redirect("survey", survey_id=survey.pk)


@require_POST
def close_survey(request: HttpRequest, survey_id: uuid.UUID) -> HttpResponse:
    survey = get_own_survey_for(request, survey_id)
    with refusals_shown(request):
        services.surveys.close_survey(survey=survey, by=signed_in(request))
        messages.success(request, "Closed. Nobody can answer any more, and the result is below.")
    return redirect("survey", survey_id=survey.pk)


def visibility(request: HttpRequest, survey_id: uuid.UUID) -> HttpResponse:
    """Who will see what, before a survey's result is made public; then that it is, or that it is private again."""
    survey = get_own_survey_for(request, survey_id)
    if request.method != "POST":
        if survey.status is not SurveyState.CLOSED or survey.is_public:
            return redirect("survey", survey_id=survey.pk)
        context = {
            "title": survey.title,
            "who": "Everybody who has the result’s address will be able to read and download it, signed in or not.",
            "what": "The question, the answers, the randomised reports counted by answer, the estimates with their "
            "error bars, and the receipt.",
            "what_not": "Any respondent's true answer, or who answered: the site has neither.",
            "privacy": "Nothing more is spent: every report was randomised before it was sent.",
            "back": reverse("survey", args=[survey.pk]),
        }
        return render(request, "results/make_public.html", context)
    form = VisibilityForm(request.POST)
    with refusals_shown(request):
        if not form.is_valid():
            messages.error(request, in_one_line(form))
        elif form.cleaned_data["public"] == form.YES:
            services.surveys.make_survey_public(survey=survey, by=signed_in(request))
            messages.success(request, "Public: everybody who has this page's address can read it, signed in or not.")
        else:
            services.surveys.make_survey_private(survey=survey, by=signed_in(request))
            messages.success(request, "Private again. Downloaded copies stay with those who have them.")
    return redirect("survey", survey_id=survey.pk)


@login_not_required
@never_cache
def answer(request: HttpRequest, survey_id: uuid.UUID, *, by_hand: bool = False) -> HttpResponse:
    """The form that respondents get. What they choose stays in their browser; what is posted is a randomised report."""
    survey = get_survey_to_answer(survey_id)
    if survey.status is SurveyState.CLOSED:
        return _closed(request, survey)
    has_answered = _has_answered(request, survey)
    problem, status = "", 200
    if request.method == "POST" and has_answered:
        status = 409
    elif request.method == "POST":
        try:
            services.surveys.accept_report(survey=survey, **ReportForm(request.POST).given)
        except InvalidInput as error:
            problem, status = in_words(error), 400
        except services.release_inputs.Refusal:
            return _closed(request, survey)
        else:
            return _remembering(redirect("survey_answer", survey_id=survey.pk), survey)
    promise = survey_promise(survey)
    context = {"survey": survey, "problem": problem, "was_refused": status == 409, "promise": promise}
    page = "survey_answered" if has_answered else "survey_by_hand" if by_hand else "survey_answer"
    return render(request, f"surveys/{page}.html", context, status=status)


def _closed(request: HttpRequest, survey: Survey) -> HttpResponse:
    status = 409 if request.method == "POST" else 200
    can_read = Survey.objects.readable_by(request.user).filter(pk=survey.pk, state=SurveyState.CLOSED).exists()
    return render(request, "surveys/survey_closed.html", {"survey": survey, "can_read": can_read}, status=status)


def _signer(survey: Survey) -> Signer:
    return Signer(salt=f"survey {survey.pk}")


def _has_answered(request: HttpRequest, survey: Survey) -> bool:
    try:
        _signer(survey).unsign(request.COOKIES.get(COOKIE, ""))
    except BadSignature:
        return False
    return True


def _remembering(response: HttpResponse, survey: Survey) -> HttpResponse:
    """Let the respondent's browser say that it has answered. It is the same cookie for everybody, and has no time."""
    response.set_cookie(
        COOKIE,
        _signer(survey).sign("yes"),
        max_age=COOKIE_SECONDS,
        path=reverse("survey_answer", args=[survey.pk]),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


@login_not_required
def reports_csv(request: HttpRequest, survey_id: uuid.UUID) -> StreamingHttpResponse:
    """The randomised reports, with what they are corrected to."""
    survey = _closed_survey_for(request, survey_id)
    heads = ["answer", "reports", "estimate", "lower", "upper"]
    rows = [
        [files.guarded(each.answer), each.reports, each.estimate, each.lower, each.upper]
        for each in estimates_of(survey)
    ]
    _record_download(request, survey, name="reports.csv")
    return csv_response("reports.csv", heads, rows)


@login_not_required
def receipt_json(request: HttpRequest, survey_id: uuid.UUID) -> HttpResponse:
    """All that is needed to judge the result and to work it out again."""
    survey = _closed_survey_for(request, survey_id)
    text = json.dumps(survey.result, indent=2, ensure_ascii=False) + "\n"
    _record_download(request, survey, name="receipt.json")
    response = HttpResponse(text, content_type="application/json")
    response["Content-Disposition"] = 'attachment; filename="receipt.json"'
    return response


def _closed_survey_for(request: HttpRequest, survey_id: uuid.UUID) -> Survey:
    survey = get_survey_for(request, survey_id)
    if survey.status is not SurveyState.CLOSED:
        raise Http404
    return survey


def _record_download(request: HttpRequest, survey: Survey, *, name: str) -> None:
    reader = signed_in(request) if request.user.is_authenticated else None
    audit_log.record(AuditAction.DOWNLOAD, actor=reader, on=survey, detail=name)
