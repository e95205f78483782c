"""Questions and Result: a draft, and a release's own page with what can be done to it."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from releases import services
from releases.display.error_messages import in_words
from releases.display.paging import PaginatorByKey, chosen_page
from releases.engine.errors import InvalidInput
from releases.forms.buttons import VisibilityForm
from releases.forms.fields import in_one_line, sent_with
from releases.forms.questions import QuestionsForm
from releases.forms.releases import LikeForm, WorkloadForm
from releases.models import CERTIFICATE, Collection, Release, ReleaseQuerySet, ReleaseState
from releases.permissions import (
    get_dataset_for,
    get_own_release_for,
    get_release_for,
    says_if_withdrawn,
    signed_in,
    workload_of_release,
)
from releases.planning import comparison
from releases.presentation.releases.release_rows import release_rows
from releases.presentation.releases.release_status import release_status
from releases.presentation.results.answers import Wish
from releases.presentation.results.result_page import result_page
from releases.questions.base import Want
from releases.schema.descriptions import notes_of, table_of
from releases.views.common.live_validation import checked, is_check, undone_if_check
from releases.views.common.refused import refusals_shown
from releases.views.common.wizard import frame, not_ready, workload_of
from releases.views.releases.drafts import draft_or_result
from releases.views.releases.kinds import pages_of
from releases.views.releases.questions import (
    STATISTIC_ACTIONS,
    DraftQuestions,
    asked_statistic,
    changed_workload,
    place_of_work,
    question_context,
    saved_questions,
)
from releases.views.results.certificates import certification
from releases.views.results.citation import citation

PAGE_LENGTH = 50


def release_list(request: HttpRequest) -> HttpResponse:
    listed = Release.objects.for_list(request.user).with_review()
    page = chosen_page(PaginatorByKey(listed, PAGE_LENGTH), request.GET)
    return render(request, "releases/release_list.html", {"page": page, "releases": release_rows(page)})


@require_POST
def new_release(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """Begin a draft; with `like`, one that asks what an earlier release of the dataset asked."""
    dataset = get_dataset_for(request, dataset_id)
    if (elsewhere := not_ready(request, dataset)) is not None:
        return elsewhere
    earlier = _earlier_release(request)
    if earlier is not None and not earlier.kind.has_steps and earlier.dataset_id == dataset.pk:
        return redirect(pages_of(earlier).address_of_plan(earlier))
    release = services.releases.draft_release(dataset=dataset, by=signed_in(request))
    if earlier is not None and earlier.dataset_id == dataset.pk and earlier.workload:
        try:
            services.releases.set_questions(
                release=release, workload=earlier.workload, version=workload_of_release(request, earlier)
            )
            services.releases.set_choice(
                release=release,
                epsilon=earlier.epsilon,
                delta=earlier.delta,
                beta=earlier.beta,
                other_options=earlier.options,
            )
        except InvalidInput:
            messages.info(request, "The columns have changed since, so not everything could be taken over.")
    return redirect("questions", release_id=release.pk)


def _earlier_release(request: HttpRequest) -> Release | None:
    form = LikeForm(request.POST)
    if not form.is_valid():
        raise Http404
    like = form.cleaned_data["like"]
    return get_own_release_for(request, like) if like is not None else None


def questions(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Questions: counts built up one at a time or pasted, or one statistic."""
    release = draft_or_result(request, release_id)
    if isinstance(release, HttpResponse):
        return release
    asked = DraftQuestions.read(request, release)
    if asked.is_check and request.headers.get("HX-Request"):
        return render(request, "releases/_statistic_check.html", asked.said)
    form = WorkloadForm(sent_with(request.POST, "workload"))
    answer: HttpResponse | str = asked.problem
    if request.method == "POST" and not answer:
        answer = _answer(request, release, form, asked)
    if isinstance(answer, HttpResponse):
        return answer
    if is_check(request):
        return checked(request, form, problem=answer)
    return _questions_page(request, release, form, asked, problem=answer)


def _answer(request: HttpRequest, release: Release, form: WorkloadForm, asked: DraftQuestions) -> HttpResponse | str:
    """To what was sent; or what is wrong with it, empty where a form says so or the page has something to say first."""
    try:
        with undone_if_check(request):
            step = _ask(request, release, form, asked)
    except (InvalidInput, services.release_inputs.Refusal) as error:
        if not form.is_bound:
            return in_words(error)
        form.add_error("workload", in_words(error))
        return ""
    if is_check(request):
        return checked(request, form, says=_would_ask(release) if not form.errors else "")
    if not step:
        return ""
    address = reverse(step, args=[release.pk])
    if asked.action == "rows":
        return redirect(f"{address}?want={Want.ROWS}")
    return redirect(f"{address}#{place_of_work(asked.form)}" if step == "questions" else address)


def _questions_page(
    request: HttpRequest, release: Release, form: WorkloadForm, asked: DraftQuestions, *, problem: str
) -> HttpResponse:
    context = question_context(release, asked)
    context |= {
        "form": form,
        "opens_json": bool(form.errors or asked.stale or not context["is_ticked"]),
        "problem": problem,
        "said": asked.said,
        "saved": saved_questions(request, release) if asked.want is Want.SAME else [],
        "taken_from": workload_of_release(request, release),
        **frame("questions", release.dataset, release),
    }
    return render(
        request, "releases/questions.html", context, status=400 if problem or form.errors or asked.is_refused else 200
    )


def _take_over(request: HttpRequest, release: Release) -> str:
    """Ask what another draft or release asks."""
    earlier = _earlier_release(request)
    if earlier is not None:
        services.releases.set_questions(
            release=release, workload=earlier.workload, version=workload_of_release(request, earlier)
        )
    return "questions"


def _go_on(release: Release, form: QuestionsForm) -> str:
    """Keep what was typed beside the questions, and compare."""
    if not release.workload:
        raise services.release_inputs.Refusal("Add at least one question before you compare mechanisms.")
    if form.is_weighed:
        services.releases.set_questions(release=release, workload=changed_workload(release, form))
    return "compare"


def _would_ask(release: Release) -> str:
    """All that a draft would ask once what was checked is sent."""
    workload = workload_of(release)
    return f"Asked then: {comparison.questions_text(workload)}." if workload is not None else ""


def _ask(request: HttpRequest, release: Release, form: WorkloadForm, asked: DraftQuestions) -> str:
    """Store what was asked. The step to go to; none where the page has something to say first."""
    if form.is_bound:
        if not form.is_valid():
            return ""
        workload = form.cleaned_data["workload"]
    elif asked.action == "name":
        services.releases.name_release(release=release, title=asked.form.sent["title"].strip()[:200])
        return "questions"
    elif asked.action == "take":
        return _take_over(request, release)
    elif asked.action == "next":
        return _go_on(release, asked.form)
    elif asked.statistic is None or asked.action not in STATISTIC_ACTIONS:
        workload = changed_workload(release, asked.form)
    elif asked.action == "ask" and asked.statistic.is_valid():
        workload = asked_statistic(asked.statistic)
    else:
        return ""
    services.releases.set_questions(release=release, workload=workload)
    return "compare" if asked.action in ("ask", "rows") else "questions"


@login_not_required
@says_if_withdrawn
def release_detail(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Result: progress while it runs, then answers, chart, receipt and downloads."""
    release = get_release_for(request, release_id)
    if release.status is ReleaseState.DRAFT:
        is_planned = not release.kind.has_steps or release.is_approved_draft
        return redirect("confirm" if is_planned else "questions", release_id=release.pk)
    if release.status is ReleaseState.OPEN:
        return redirect("session", release_id=release.pk)
    is_own = Release.objects.editable_by(request.user).filter(pk=release.pk).exists()
    taken_from = workload_of_release(request, release)
    context: dict[str, Any] = {
        "is_own": is_own,
        "status": release_status(release, is_own=is_own),
        "can_be_saved": is_own and not services.workloads.why_not_saved(release),
        **(frame("result", release.dataset, release) if is_own else {"release": release, "dataset": release.dataset}),
    }
    if release.status in (ReleaseState.PUBLISHED, ReleaseState.WITHDRAWN) and release.result is not None:
        context["page"] = result_page(release, wish=Wish.read(request.GET), taken_from=taken_from, is_own=is_own)
        if release.status is ReleaseState.PUBLISHED:
            context["citation"] = citation(request, release)
    context |= certification(request, release, is_own=is_own)
    if context.get("closer"):
        context["page"] = context["page"].with_synthetic_first()
    return render(request, "results/release_detail.html", context)


@login_not_required
def status(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """The fragment that a running release's page asks for until it is done."""
    release = get_release_for(request, release_id)
    is_own = Release.objects.editable_by(request.user).filter(pk=release.pk).exists()
    context = {
        "release": release,
        "status": release_status(release, is_own=is_own, is_part=True),
        "is_own": is_own,
        "is_part": True,
    }
    response = render(request, "releases/_status.html", context)
    if release.status.is_final:
        response["HX-Refresh"] = "true"
    return response


@require_POST
def attack(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Let a worker attack what the plan makes of invented tables."""
    release = get_own_release_for(request, release_id)
    with refusals_shown(request):
        services.disclosure_tests.ask_for_test(release=release, by=signed_in(request))
    return redirect(f"{reverse('release_detail', args=[release.pk])}#attack")


@require_POST
def discard_draft(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    release = get_own_release_for(request, release_id)
    try:
        services.releases.discard_draft(release=release, by=signed_in(request))
    except services.release_inputs.Refusal as error:
        messages.error(request, in_words(error))
        return redirect("release_detail", release_id=release.pk)
    messages.success(request, f"The draft {release.title} was discarded. Nothing was spent on it.")
    return redirect("dataset_detail", dataset_id=release.dataset_id)


@require_POST
def cancel(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    release = get_own_release_for(request, release_id)
    try:
        services.releases.cancel_release(release=release, by=signed_in(request))
    except services.release_inputs.Refusal as error:
        if release.status not in (ReleaseState.DRAFT, ReleaseState.CANCELLED):
            messages.error(request, in_words(error))
        # Else the first of two presses on the button has done it, and said so.
    else:
        if release.status is ReleaseState.DRAFT:
            messages.success(request, "Taken back: it is a draft again, and nothing was charged.")
        else:
            messages.success(request, "Cancelled before any data were touched; the charge was given back.")
    return redirect("release_detail", release_id=release.pk)


def visibility(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Who will see what, before a release is made public; then that it is, or that it is private again."""
    release = get_own_release_for(request, release_id)
    if request.method != "POST":
        if release.status is not ReleaseState.PUBLISHED or release.is_public or release.result is None:
            return redirect("release_detail", release_id=release.pk)
        return render(request, "results/make_public.html", _made_public(release))
    form = VisibilityForm(request.POST)
    with refusals_shown(request):
        if not form.is_valid():
            messages.error(request, in_one_line(form))
        elif form.cleaned_data["public"] == form.YES:
            with transaction.atomic():
                services.releases.make_public(release=release, by=signed_in(request))
                for certificate in _private_certificates(release):
                    if str(certificate.pk) in form.cleaned_data["certificates"]:
                        services.releases.make_public(release=certificate, by=signed_in(request))
            messages.success(request, "Public: everybody can read and download it, signed in or not.")
        else:
            services.releases.make_private(release=release, by=signed_in(request))
            messages.success(request, "Private again. Downloaded copies stay with those who have them.")
    return redirect("release_detail", release_id=release.pk)


def _private_certificates(release: Release) -> ReleaseQuerySet:
    return release.certificates.filter(state=ReleaseState.PUBLISHED, is_public=False).order_by("published_at")


def _made_public(release: Release) -> dict[str, Any]:
    """What the page says that asks whether a release is to be public."""
    assert release.result is not None
    receipt = release.result["receipt"]
    answers, rows = receipt["answers"], receipt["synthetic_rows"]
    seen = [f"The title, with that of the dataset, “{release.dataset.title}”"]
    if (planned_with := Collection.objects.filter(parts__release=release).first()) is not None:
        seen.append(f"that it was planned with others as “{planned_with.title}”")
    few = {0: "that nothing was found", 1: "its one answer with its error bound"}
    seen.append(few.get(answers, f"all {answers:,} answers with error bounds"))
    if rows:
        seen.append(f"{rows:,} synthetic rows")
    seen.append("the receipt, with the columns asked about and their categories and bins, the mechanism and its price")
    if table_of(release.result) or notes_of(release.result):
        seen.append("what was said of the table and its columns when it was made")
    if release.kind is CERTIFICATE:
        seen.append("which release it certifies, and what was asked there")
    return {
        "title": release.title,
        "who": "Everybody will be able to read and download it, signed in or not, and it is in the catalogue.",
        "what": f"{'; '.join(seen)}.",
        "what_not": "Any row of the table, other releases of it, or what is left of its budget.",
        "privacy": "Nothing more is spent: what it says was paid for when it was made, however many people read it.",
        "certificates": _private_certificates(release),
        "back": reverse("release_detail", args=[release.pk]),
    }


@require_POST
def withdraw(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    release = get_own_release_for(request, release_id)
    with refusals_shown(request):
        services.releases.withdraw_release(release=release, by=signed_in(request))
        messages.success(request, "Withdrawn. The budget stays spent: what was learned cannot be unlearned.")
    return redirect("release_detail", release_id=release.pk)
