"""Live sessions: planned and opened by a curator, asked one question at a time, closed into a published release.

Nothing of the session's secret noisy threshold, and no true count, is in any page's context: pages are made from the
plan and from the transcript alone.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from releases import services
from releases.display.error_messages import in_words
from releases.display.paging import chosen_page
from releases.engine.domain.privacy import PrivacyBudget, privacy_budget
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import PlanChanged
from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.engine.mechanisms.pmw.session import AnswerKind, SessionOver
from releases.engine.workload.queries import Family
from releases.engine.workload.queries import Workload as AskedWorkload
from releases.forms.fields import in_one_line, sent_with, typed_or_first
from releases.forms.predicates import ConditionsForm
from releases.forms.releases import AskForm, AudienceForm, SessionDraftForm, SessionForm, SessionLinkForm, WithinForm
from releases.ledger import audit_log, refusals
from releases.ledger.balances import first_epsilon
from releases.models import (
    SESSION,
    Audience,
    AuditAction,
    Budget,
    Dataset,
    Release,
    ReleaseState,
    SavedWorkload,
    Session,
    WorkloadVersion,
)
from releases.permissions import (
    get_dataset_for,
    get_own_session_for,
    get_session_for,
    get_workload_for,
    signed_in,
    withdrawn_session,
)
from releases.planning.session_plans import every_way, planned_session
from releases.presentation.sessions.past_answers import PastAnswer, past_answer
from releases.presentation.sessions.sentences import session_sentence
from releases.presentation.sessions.session_list import session_rows
from releases.presentation.sessions.session_page import live_session, session_page
from releases.presentation.sessions.session_plan import session_plan
from releases.presentation.sessions.session_ways import WayShown, ways_shown
from releases.publication import files
from releases.publication.readme import name_of
from releases.services.session_questions import FreeAnswer, Offer
from releases.services.sessions import DEFAULT_QUESTIONS
from releases.views.common.csv_exports import csv_response
from releases.views.common.live_validation import status_of
from releases.views.common.refused import refusals_shown
from releases.views.common.wizard import budget_facts, not_ready

PAGE_LENGTH = 25
#: States in which a session's page shows what it has answered.
READABLE = (ReleaseState.OPEN, ReleaseState.CLOSING, ReleaseState.PUBLISHED, ReleaseState.FAILED)


def session_list(request: HttpRequest) -> HttpResponse:
    """The sessions one may ask in, open ones first."""
    page = chosen_page(Paginator(Session.objects.for_list(request.user), PAGE_LENGTH), request.GET)
    return render(request, "sessions/session_list.html", {"page": page, "rows": session_rows(page)})


def new_session(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """A session's plan, before anything is spent. All of it is in the address, so reload and back and another day work.

    A POST keeps the plan as a draft and goes on to the confirmation.
    """
    dataset = get_dataset_for(request, dataset_id)
    if (elsewhere := not_ready(request, dataset)) is not None:
        return elsewhere
    assert dataset.schema is not None
    form = SessionForm(
        typed_or_first(request.POST if request.method == "POST" else request.GET, first := _first(dataset.budget)),
        declared=dataset.schema.universe.names,
        workloads=[(str(each.pk), each.name) for each in SavedWorkload.objects.for_list(request.user)],
    )
    draft = SessionDraftForm(request.POST if request.method == "POST" else request.GET).given["draft"]
    plan, problem, ways = None, "", tuple[WayShown, ...]()
    if form.is_valid():
        try:
            listed = _listed(request, dataset.schema.universe, form)
            asked = _asked(dataset.schema, form, listed)
            plan = planned_session(form.cleaned_data["way"], *asked)
            if request.method == "POST" and not plan.infeasible:
                return redirect("confirm", release_id=_drafted(request, dataset, form, draft, listed).pk)
            ways = ways_shown(every_way(*asked), planned=plan.mechanism)
        except (InvalidInput, services.release_inputs.Refusal) as error:
            problem = in_words(error)
    context = {
        "dataset": dataset,
        "form": form,
        "opens_further": form.opens_further(first),
        "problem": problem,
        "draft": draft,
        **budget_facts(dataset.budget, dataset.schema if plan is None else plan.schema),
        "planned": session_plan(plan, dataset) if plan is not None else None,
        "ways": ways,
    }
    is_wrong = bool(form.errors or problem)
    return render(request, "sessions/session_new.html", context, status=status_of(request, is_wrong=is_wrong))


def _first(budget: Budget | None) -> dict[str, Any]:
    """What a person would try first."""
    return {
        "epsilon": first_epsilon(budget),
        "delta": "0",
        "beta": "0.05",
        "questions": DEFAULT_QUESTIONS,
        "population": 10_000,
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Listed:
    """What is answered when a session is opened, in the workload format, and the saved version that it is of."""

    questions: dict[str, Any]
    version: WorkloadVersion | None = None


def _listed(request: HttpRequest, universe: Universe, form: SessionForm) -> _Listed | None:
    """None where nothing is.

    Raises:
        InvalidInput: the workload does not fit the columns.
    """
    chosen = form.cleaned_data["listed"]
    if not chosen:
        return None
    if chosen in dict(SessionForm.TABLES):
        names = services.sessions.columns_of_session(universe, form.cleaned_data["columns"])
        return _Listed(questions=services.sessions.all_tables(names, columns=int(chosen)))
    version = get_workload_for(request, uuid.UUID(chosen)).latest
    return _Listed(questions=services.workloads.mapped_questions(version, universe, {}), version=version)


def _asked(
    schema: Schema, form: SessionForm, listed: _Listed | None
) -> tuple[Schema, PrivacyBudget, Fraction, tuple[tuple[str, Any], ...], AskedWorkload | None]:
    """What a plan of any way is made of, as arguments of `planned_session` after the way."""
    given = form.cleaned_data
    questions = None if listed is None else listed.questions
    asked = services.sessions.list_of_session(schema.universe, questions, given["columns"])
    names = services.sessions.columns_of_session(schema.universe, given["columns"])
    return (
        schema.project(names) if asked is None else replace(schema, universe=asked.universe),
        privacy_budget(epsilon=given["epsilon"], delta=given["delta"] or "0"),
        services.release_inputs.read_beta(given["beta"]),
        tuple((name, value) for name, value in form.options.items() if value is not None),
        asked,
    )


def _drafted(
    request: HttpRequest, dataset: Dataset, form: SessionForm, draft: uuid.UUID | None, listed: _Listed | None
) -> Release:
    """The draft that this plan was kept in before, changed; or a new one."""
    given = form.cleaned_data
    chosen: dict[str, Any] = {
        "epsilon": given["epsilon"],
        "delta": given["delta"] or "0",
        "beta": given["beta"],
        "options": form.options,
        "columns": given["columns"],
        "way": given["way"],
        "listed": None if listed is None else listed.questions,
        "version": None if listed is None else listed.version,
    }
    drafts = dataset.releases.filter(state=ReleaseState.DRAFT).of_kind(SESSION)
    kept = drafts.filter(pk=draft).first() if draft is not None else None
    if kept is None:
        return services.sessions.draft_session(
            dataset=dataset, by=signed_in(request), title=given["title"].strip(), **chosen
        )
    services.sessions.change_session(release=kept, **chosen)
    if given["title"].strip():
        services.releases.name_release(release=kept, title=given["title"])
    return kept


def address_of_session(release: Release) -> str:
    """Where a draft of a session is planned again, filled with what it holds."""
    options = (release.options or {}).get(release.mechanism, {})
    held = {
        "draft": release.pk,
        "title": release.title,
        "epsilon": release.epsilon,
        "delta": release.delta,
        "beta": release.beta,
        "way": release.mechanism,
    }
    queries = (release.workload or {"queries": [{"count": {}}]})["queries"]
    columns = tuple(dict.fromkeys(name for each in queries for name in each.get("marginal") or each.get("count") or ()))
    held |= options | {"columns": columns, "listed": _listed_in(release, columns)}
    return f"{reverse('new_session', args=[release.dataset_id])}?{urlencode(held, doseq=True)}"


def _listed_in(release: Release, columns: Collection[str]) -> str:
    """The choice that made a draft's list; empty where it has none."""
    if release.workload_version is not None:
        return str(release.workload_version.workload_id)
    tables = {
        frozenset(map(frozenset, services.sessions.column_sets(columns, columns=int(number)))): number
        for number, _ in SessionForm.TABLES
    }
    queries = (release.workload or {"queries": []})["queries"]
    return tables.get(frozenset(frozenset(each.get("marginal", ())) for each in queries), "")


def session_detail(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """The analyst's page: ask by clicking or as text, the answer, what is left, and everything asked so far."""
    session = _readable(request, release_id)
    if isinstance(session, HttpResponse):
        return session
    plan = _readable_plan(request, session)
    if isinstance(plan, HttpResponse):
        return plan
    form, within = AskForm(sent_with(request.POST, "query")), WithinForm(request.POST)
    typed = ConditionsForm(request.POST, universe=plan.schema.universe)
    problem, status, known, offer = "", 200, None, None
    if request.method == "POST":
        asked = _ask(request, session, plan, form, typed, within)
        if isinstance(asked, services.sessions.Answered):
            return _answered(request, session, plan, asked)
        if isinstance(asked, FreeAnswer):
            known = asked
        elif isinstance(asked, Offer):
            offer = asked
        else:
            problem, status = asked
    link = SessionLinkForm(request.GET).given
    live = live_session(session, plan, person=signed_in(request), problem=problem, known=known, offer=offer, **link)
    if request.headers.get("HX-Request") and not request.headers.get("HX-History-Restore-Request"):
        # Typed fields stand outside of the part that is replaced; an answer that is no success would not be shown.
        return render(request, "sessions/_session_live.html", {"live": live})
    sent = typed if request.method == "POST" else None
    page = session_page(session, plan, live, typed=sent, is_text=form.is_bound, within=within["within"].data or "")
    return render(request, "sessions/session.html", {"page": page, "ask_form": form}, status=status)


def _readable(request: HttpRequest, release_id: uuid.UUID) -> Session | HttpResponse:
    """The session; or a page that says that it was withdrawn."""
    try:
        live = get_session_for(request, release_id)
    except Http404:
        if (gone := withdrawn_session(request, release_id)) is None:
            raise
        return render(request, "sessions/session_withdrawn.html", {"release": gone.release}, status=410)
    if live.release.status not in READABLE:
        raise Http404
    return live


def _ask(
    request: HttpRequest,
    live: Session,
    plan: OnlinePlan,
    form: AskForm,
    typed: ConditionsForm,
    wanted: WithinForm,
) -> services.sessions.Answered | FreeAnswer | Offer | tuple[str, int]:
    """The answer; or that of a finished release, where that is at least as near; or what an answer within the error
    that was typed would take, until it is agreed to; or what is wrong with the question, with the status that says so.
    """
    try:
        for each in (form, wanted):
            if each.is_bound and not each.is_valid():
                return in_one_line(each), 400
        query = form.cleaned_data["query"] if form.is_bound else typed.predicate()
        within, person = wanted.cleaned_data["within"], signed_in(request)
        return services.session_questions.answer_or_offer(
            session=live,
            plan=plan,
            query=query,
            by=person,
            within=within,
            anyway=form.is_bound and form.cleaned_data["anyway"],
            agreed=bool(wanted.cleaned_data["agreed"]),
        )
    except InvalidInput as error:
        return in_words(error), 400
    except (SessionOver, refusals.LedgerRefusal, services.release_inputs.Refusal) as error:
        return in_words(error), 409


def _readable_plan(request: HttpRequest, live: Session) -> OnlinePlan | HttpResponse:
    """The plan that was charged; or, where this version of the software would plan otherwise, a page that says so.

    To go on by other rules than those that were charged could cost more than was charged.
    """
    try:
        return services.sessions.plan_of_session(live)
    except PlanChanged as error:
        return render(
            request, "sessions/session_unreadable.html", {"release": live.release, "error": error}, status=409
        )


def _answered(
    request: HttpRequest, session: Session, plan: OnlinePlan, answered: services.sessions.Answered
) -> HttpResponse:
    """The answer is stored; show it in place, or at an address of its own."""
    again = answered.exchange.kind is AnswerKind.REPEATED
    shown = {"answer": answered.sequence} | ({"again": 1} if again else {})
    address = f"{reverse('session', args=[session.pk])}?{urlencode(shown)}#answer"
    if not request.headers.get("HX-Request"):
        return redirect(address)
    page = SessionLinkForm(request.GET).given["page"]
    live = live_session(session, plan, person=signed_in(request), page=page, answer=answered.sequence, again=again)
    if live.over:
        # Nothing more can be asked, so the fields to ask with must go too.
        return HttpResponse(headers={"HX-Redirect": address})
    response = render(request, "sessions/_session_live.html", {"live": live})
    # Loaded again, the page shows the same answer, and asks nothing.
    response["HX-Replace-Url"] = address.removesuffix("#answer")
    return response


@require_POST
def session_audience(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Who may ask."""
    live = get_own_session_for(request, release_id)
    form = AudienceForm(request.POST)
    if not form.is_valid():
        messages.error(request, in_one_line(form))
        return redirect("session", release_id=live.pk)
    audience = Audience(form.cleaned_data["audience"])
    with refusals_shown(request):
        services.sessions.let_ask(session=live, audience=audience, by=signed_in(request))
        messages.success(request, f"From now on {audience.label} may ask.")
    return redirect("session", release_id=live.pk)


@require_POST
def session_close(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """End the asking; a worker publishes what was answered, and the release's page follows it."""
    live = get_own_session_for(request, release_id)
    try:
        services.session_closing.close_session(session=live, by=signed_in(request))
    except (services.release_inputs.Refusal, PlanChanged) as error:
        messages.error(request, in_words(error))
        return redirect("session", release_id=live.pk)
    messages.success(request, "Nobody can ask any more. What it answered becomes a release; the budget stays spent.")
    return redirect("release_detail", release_id=live.pk)


def transcript(request: HttpRequest, release_id: uuid.UUID, form: str) -> HttpResponse | StreamingHttpResponse:
    """Every question and answer so far, as CSV or JSON."""
    live = get_session_for(request, release_id)
    if live.release.status not in READABLE:
        raise Http404
    plan = _readable_plan(request, live)
    if isinstance(plan, HttpResponse):
        return plan
    answers = [past_answer(each, live, plan.schema.universe) for each in live.told(request.user).order_by("sequence")]
    audit_log.record(AuditAction.DOWNLOAD, actor=signed_in(request), on=live.release, detail=f"transcript.{form}")
    told_apart = f"{name_of(live.release.title, str(live.pk))}-transcript.{form}"
    if form == "csv":
        heads = ["number", "question", "query", "estimate", "lower", "upper", "answered"]
        return csv_response(told_apart, heads, _lines(answers))
    bought = services.session_state.bought_answers(live, plan) if live.lets_ask(request.user) else []
    response = HttpResponse(_as_json(live, plan, answers, bought), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{told_apart}"'
    return response


def _lines(answers: list[PastAnswer]) -> Iterator[list[Any]]:
    for each in answers:
        stored = each.stored
        title = files.guarded(each.title)
        yield [stored.sequence, title, each.query, stored.estimate, each.lower, each.upper, AnswerKind(stored.kind)]


def _as_json(
    live: Session, plan: OnlinePlan, answers: list[PastAnswer], bought: list[tuple[Family, list[float], float]]
) -> str:
    """The transcript with what is needed to judge it. The sign of an update is public: it moved the public state."""
    universe = plan.schema.universe
    whole = {
        "version": 1,
        "session": str(live.pk),
        "title": live.release.title,
        "dataset": live.release.dataset.title,
        "schema": plan.schema.to_json(),
        "epsilon": live.release.epsilon,
        "delta": live.release.delta,
        "beta": live.release.beta,
        "accuracy": session_sentence(plan),
        "total": {"estimate": live.total, "half_width": live.total_half_width},
        "bought": [
            {**family.to_json(universe), "estimates": estimates, "half_width": half_width}
            for family, estimates, half_width in bought
        ],
        "answers": [
            {
                "number": each.stored.sequence,
                "count": each.stored.query,
                "estimate": each.stored.estimate,
                "half_width": each.stored.half_width,
                "answered": each.stored.kind,
                "sign": each.stored.sign,
            }
            for each in answers
        ],
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
