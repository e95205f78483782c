"""The reviewer's queue: budgets and releases that wait for a decision, each on a page of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django import forms
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
from releases.forms.review import DecisionForm, ReleaseDecisionForm
from releases.ledger import refusals
from releases.models import (
    BudgetRequest,
    ReleaseRequest,
    RequestState,
)
from releases.permissions import may_decide, reviewers_only, signed_in
from releases.presentation.review.queue_page import queue_page
from releases.presentation.review.request_page import budget_request_page, release_request_page


@reviewers_only
def review_queue(request: HttpRequest) -> HttpResponse:
    return render(request, "review/review_queue.html", {"page": queue_page()})


@reviewers_only
def budget_request(request: HttpRequest, request_id: uuid.UUID) -> HttpResponse:
    """One request: what the data are, what is asked, what it would leave; and the decision."""
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
            approve=lambda: services.budgets.approve_request(
                request=asked,
                by=person,
                epsilon=given["epsilon"],
                delta=given["delta"],
                note=given["note"],
                match_reason=given["match_reason"],
            ),
            deny=lambda: services.budgets.deny_request(request=asked, by=person, note=given["note"]),
            ask_back=lambda: services.budgets.ask_back_request(request=asked, by=person, note=given["note"]),
            join=lambda: services.budgets.join_request(request=asked, to=form.named, by=person, note=given["note"]),
            consent=lambda: services.recognition.ask_consent(
                request=asked, about=form.named, by=person, note=given["note"]
            ),
        )
        if decided and form.pressed == "consent":
            messages.success(request, "The owner was asked, and answers you. The request waits.")
            return redirect("budget_request", request_id=asked.pk)
        if decided:
            messages.success(request, _said(asked))
            return redirect("review_queue")
    _bound_by_the_first(form, asked)
    context = {"page": budget_request_page(asked, form, by=signed_in(request)), "form": form}
    return render(request, "review/budget_request.html", context, status=400 if form.errors else 200)


@reviewers_only
def release_request(request: HttpRequest, request_id: uuid.UUID) -> HttpResponse:
    """One release: what the data are, what is asked of them, what it costs and what it would leave."""
    asked = get_object_or_404(
        ReleaseRequest.objects.select_related(
            "release__dataset__budget__owner", "release__dataset__owner", "requested_by", "first_by", "decided_by"
        ),
        pk=request_id,
    )
    form = ReleaseDecisionForm(request.POST or None, initial={"epsilon": asked.first_epsilon or asked.epsilon})
    if request.method == "POST" and form.is_valid():
        given, person = form.cleaned_data, _decider(request)
        decided = _decide(
            request,
            form,
            asked,
            approve=lambda: services.reviews.approve_release(
                request=asked, by=person, epsilon=given["epsilon"], note=given["note"]
            ),
            deny=lambda: services.reviews.deny_release(request=asked, by=person, note=given["note"]),
            ask_back=lambda: services.reviews.ask_back_release(request=asked, by=person, note=given["note"]),
        )
        if decided:
            messages.success(request, _said(asked))
            return redirect("review_queue")
    _bound_by_the_first(form, asked)
    context = {"page": release_request_page(asked, form, by=signed_in(request)), "form": form}
    return render(request, "review/release_request.html", context, status=400 if form.errors else 200)


def _bound_by_the_first(form: forms.Form, asked: BudgetRequest | ReleaseRequest) -> None:
    """What can still be granted at most: of two reviewers, the second is bound by the first."""
    if asked.first_by is not None and asked.state == RequestState.WAITING:
        form.fields["epsilon"].help_text = f"At most the {asked.first_epsilon} that {asked.first_by} approved."


def _decider(request: HttpRequest) -> Any:
    if not may_decide(request):
        raise PermissionDenied
    return signed_in(request)


def _decide(
    request: HttpRequest,
    form: DecisionForm | ReleaseDecisionForm,
    asked: BudgetRequest | ReleaseRequest,
    **verbs: Callable[[], object],
) -> bool:
    """Do what the pressed button says; what stands against it is said on the form, and False returned."""
    pressed = form.pressed
    verb = verbs.get(pressed)
    try:
        if verb is None:
            raise InvalidInput("decision", pressed, "must be to grant or to deny; press one of the buttons")
        verb()
    except services.review_decisions.DecidedBefore as error:
        asked.refresh_from_db()
        if _is_pressed_twice(asked, pressed, signed_in(request), form.cleaned_data):
            return True
        form.add_error(None, in_words(error))
        return False
    except (EngineError, refusals.LedgerRefusal, services.release_inputs.Refusal) as error:
        field = getattr(error, "field", None)
        form.add_error(field if field in {each.name for each in form.visible_fields()} else None, in_words(error))
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
