"""The reviewer's queue: budgets and releases that wait for a decision, each on a page of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from releases import services
from releases.display.error_messages import in_words
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import exact
from releases.engine.errors import EngineError, InvalidInput
from releases.engine.mechanisms.base import Plan, PlanChanged, plan_from_json
from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.forms.fields import POLICY_TITLES
from releases.forms.review import DecisionForm, ReleaseDecisionForm
from releases.ledger import ledger, reports
from releases.models import (
    POLICY_MEANING,
    Budget,
    BudgetRequest,
    Organisation,
    ReleaseRequest,
    ReleaseState,
    RequestState,
)
from releases.models.stakes import what_separates
from releases.permissions import may_decide, reviewers_only, signed_in
from releases.planning import comparison
from releases.planning.epsilon_meaning import epsilon_meaning
from releases.planning.usefulness import prepared
from releases.presentation.review.queue_page import queue_page
from releases.presentation.sessions.sentences import session_words
from releases.publication.receipt import percent, protection_text, rules_in_words


@reviewers_only
def review_queue(request: HttpRequest) -> HttpResponse:
    return render(request, "review/review_queue.html", {"page": queue_page()})


@reviewers_only
def budget_request(request: HttpRequest, request_id: uuid.UUID) -> HttpResponse:
    """One request: what the data are, what is asked, what it would leave; approve, approve less, deny, ask back."""
    asked = get_object_or_404(
        BudgetRequest.objects.select_related("budget__owner", "requested_by", "first_by", "decided_by"), pk=request_id
    )
    policy = Policy(asked.budget.policy)
    amounts = {"epsilon": asked.first_epsilon or asked.epsilon, "delta": asked.first_delta or asked.delta}
    form = DecisionForm(request.POST or None, initial=amounts, policy=policy)
    if request.method == "POST" and form.is_valid():
        given, person = form.cleaned_data, _decider(request)
        decided = _decide(
            request,
            form,
            asked,
            approve=lambda: services.approve_request(
                request=asked, by=person, epsilon=given["epsilon"], delta=given["delta"], note=given["note"]
            ),
            deny=lambda: services.deny_request(request=asked, by=person, note=given["note"]),
            ask_back=lambda: services.ask_back_request(request=asked, by=person, note=given["note"]),
            join=lambda: services.join_request(request=asked, to=_named(request), by=person, note=given["note"]),
            consent=lambda: services.ask_consent(request=asked, about=_named(request), by=person, note=given["note"]),
        )
        if decided and request.POST["decision"].startswith("consent"):
            messages.success(request, "The owner was asked, and answers you. The request waits.")
            return redirect("budget_request", request_id=asked.pk)
        if decided:
            messages.success(request, _said(asked))
            return redirect("review_queue")
    context = {
        **_request_context(request, asked, form, asked.budget),
        **_budget_of(asked),
        **_recognition(asked, signed_in(request)),
    }
    return render(request, "review/budget_request.html", context, status=400 if form.errors else 200)


def _budget_of(asked: BudgetRequest) -> dict[str, Any]:
    budget = asked.budget
    return {
        "standing": reports.standings([budget])[0] if budget.is_granted else None,
        "datasets": budget.datasets.select_related("owner"),
    }


def _recognition(asked: BudgetRequest, person: User) -> dict[str, Any]:
    """What else may be about the same people, as far as this reviewer may know, while the request waits."""
    if asked.state != RequestState.WAITING:
        return {}
    matches = services.recognised(asked.budget, by=person)
    return {
        "matches": [*matches, *services.alike_by_columns(asked.budget, besides=matches)],
        "is_recognised": bool(matches),
        "has_same_rows": any(each.has_budget_of_same_rows for each in matches),
        "is_compared": services.is_compared(asked.budget),
        "is_incomparable": services.is_incomparable(asked.budget),
        "why_not_approve": services.why_not_approve(person, asked.budget),
        "asked_lately": services.requests_lately(asked.requested_by),
        "most_asked": settings.BUDGET_REQUESTS_PER_PERSON,
        "days": services.REQUESTS_COUNTED_DAYS,
    }


@reviewers_only
def release_request(request: HttpRequest, request_id: uuid.UUID) -> HttpResponse:
    """One release: what the data are, what is asked of them, what it costs and what it would leave."""
    asked = get_object_or_404(
        ReleaseRequest.objects.select_related(
            "release__dataset__budget__owner", "release__dataset__owner", "requested_by", "first_by", "decided_by"
        ),
        pk=request_id,
    )
    release = asked.release
    budget = release.dataset.budget
    assert budget is not None, "a plan was made, so the protection is declared"
    form = ReleaseDecisionForm(request.POST or None, initial={"epsilon": asked.first_epsilon or asked.epsilon})
    if request.method == "POST" and form.is_valid():
        given, person = form.cleaned_data, _decider(request)
        decided = _decide(
            request,
            form,
            asked,
            approve=lambda: services.approve_release(
                request=asked, by=person, epsilon=given["epsilon"], note=given["note"]
            ),
            deny=lambda: services.deny_release(request=asked, by=person, note=given["note"]),
            ask_back=lambda: services.ask_back_release(request=asked, by=person, note=given["note"]),
        )
        if decided:
            messages.success(request, _said(asked))
            return redirect("review_queue")
        release = asked.release
    context = {
        **_request_context(request, asked, form, budget),
        "release": release,
        "dataset": release.dataset,
        "matches": services.recognised(budget, by=signed_in(request)) if asked.state == RequestState.WAITING else [],
        "standing": reports.standings([budget])[0] if budget.is_granted else None,
        **_plan_context(asked, budget),
    }
    return render(request, "review/release_request.html", context, status=400 if form.errors else 200)


def _plan_context(asked: ReleaseRequest, budget: Budget) -> dict[str, Any]:
    """What the plan says that was asked for, whatever became of its release since."""
    stored = asked.asked_plan
    if stored is None and asked.release.status is not ReleaseState.DRAFT:
        # Requests of old kept no plan of their own.
        stored = asked.release.plan
    if not stored:
        return {}
    try:
        plan = plan_from_json(stored)
    except PlanChanged as error:
        return {"why_no_plan": in_words(error)}
    waits = asked.state == RequestState.WAITING
    row = comparison.compared([plan], budget)[0]
    return {
        "row": row,
        "meaning": epsilon_meaning(asked.first_epsilon or asked.epsilon, delta=asked.delta, price=row.price),
        "questions": comparison.questions_text(plan.workload),
        "attributes": plan.schema.universe.attributes,
        "about": comparison.universe_text(plan.workload),
        "rules": rules_in_words(plan.schema.universe),
        "would_leave": row.leaves if waits else None,
        "why_it_waits": _why_it_waits(asked, plan) if waits else "",
        "prepared": prepared(plan) if isinstance(plan, OnlinePlan) else None,
        "confidence": percent(1 - plan.beta),
        **session_words(asked.release, plan),
    }


def _why_it_waits(asked: ReleaseRequest, plan: Plan) -> str:
    why = services.why_it_waits(release=asked.release, plan=plan, by=asked.requested_by)
    if why is None:
        return "It waits because it was above what could pass without a review when it was asked for."
    return f"It waits because {why.in_words(str(asked.requested_by))}."


def _request_context(
    request: HttpRequest, asked: BudgetRequest | ReleaseRequest, form: forms.Form, budget: Budget
) -> dict[str, Any]:
    policy = Policy(budget.policy)
    # What can still be granted at most: of two reviewers, the second is bound by the first.
    most = asked.first_epsilon or asked.epsilon
    organisation = Organisation.current()
    if asked.first_by is not None and asked.state == RequestState.WAITING:
        form.fields["epsilon"].help_text = f"At most the {most} that {asked.first_by} approved."
    return {
        "asked": asked,
        "form": form,
        "protection": protection_text(budget),
        "policy": POLICY_TITLES[policy],
        "policy_meaning": POLICY_MEANING[policy],
        "most": most,
        "meaning": epsilon_meaning(most, delta=asked.first_delta or asked.delta),
        "may_decide": organisation.lets_decide(request.user),
        "reviewers": organisation.reviewers,
        "is_two_person": organisation.is_two_person,
        "stake": what_separates(signed_in(request), asked),
        "is_mine": asked.requested_by_id == request.user.pk,
        "is_first": asked.first_by_id == request.user.pk,
    }


def _named(request: HttpRequest) -> uuid.UUID:
    """The budget or table that the pressed button names."""
    named = request.POST.get("decision", "").partition(":")[2]
    try:
        return uuid.UUID(named)
    except ValueError:
        raise InvalidInput("decision", named, "must name what is shown on the page; press one of the buttons") from None


def _decider(request: HttpRequest) -> Any:
    if not may_decide(request):
        raise PermissionDenied
    return signed_in(request)


def _decide(
    request: HttpRequest, form: forms.Form, asked: BudgetRequest | ReleaseRequest, **verbs: Callable[[], object]
) -> bool:
    """Do what the pressed button says; what stands against it is said on the form, and False returned."""
    pressed = request.POST.get("decision", "").partition(":")[0]
    verb = verbs.get(pressed)
    try:
        if verb is None:
            raise InvalidInput("decision", pressed, "must be to grant or to deny; press one of the buttons")
        verb()
    except services.DecidedBefore as error:
        asked.refresh_from_db()
        if _is_pressed_twice(asked, pressed, signed_in(request), form.cleaned_data):
            return True
        form.add_error(None, in_words(error))
        return False
    except (EngineError, ledger.LedgerRefusal, services.Refusal) as error:
        field = getattr(error, "field", None)
        form.add_error(field if field in form.fields else None, in_words(error))
        # Nothing was stored, so the page must not show what was about to be.
        asked.refresh_from_db()
        return False
    return True


def _is_pressed_twice(asked: BudgetRequest | ReleaseRequest, pressed: str, person: User, given: dict[str, Any]) -> bool:
    """Whether what stands is what this person pressed: the second click of two is told what the first one did."""
    if asked.decided_by_id != person.pk or asked.state != _LEADS_TO.get(pressed):
        return False
    if given["note"].strip() not in ("", asked.note):
        return False
    if pressed == "join" or asked.state != RequestState.APPROVED or not asked.granted_epsilon:
        return True
    return _is_granted(asked, given)


def _is_granted(asked: BudgetRequest | ReleaseRequest, given: dict[str, Any]) -> bool:
    """Whether the amounts typed are those that were granted."""
    typed = given["epsilon"] or asked.epsilon, given.get("delta") or asked.granted_delta or "0"
    granted = asked.granted_epsilon, asked.granted_delta or "0"
    return all(
        exact(one, field="amount") == exact(other, field="amount") for one, other in zip(typed, granted, strict=True)
    )


_LEADS_TO = {
    "approve": RequestState.APPROVED,
    "deny": RequestState.DENIED,
    "ask_back": RequestState.ASKED_BACK,
    "join": RequestState.APPROVED,
}


def _said(asked: BudgetRequest | ReleaseRequest) -> str:
    if asked.state == RequestState.WAITING:
        return "Approved by you; a second reviewer has to approve it too."
    if isinstance(asked, ReleaseRequest) and asked.state == RequestState.APPROVED:
        granted = exact(asked.granted_epsilon or asked.epsilon, field="epsilon")
        if granted < exact(asked.epsilon, field="epsilon"):
            return (
                f"Approved for epsilon {asked.granted_epsilon} instead of {asked.epsilon}. It is a draft again: "
                f"{asked.requested_by} has to confirm it before it is released."
            )
    return f"The request was {asked.get_state_display()}."
