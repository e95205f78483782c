"""Budget: what may be spent on a population in all."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from releases import services
from releases.display.error_messages import in_words
from releases.engine.accounting.filters import Policy
from releases.engine.errors import InvalidInput, Unpriceable
from releases.forms.budgets import BudgetForm
from releases.forms.fields import POLICY_TITLES
from releases.ledger import person_limits, refusals, reports
from releases.models import POLICY_MEANING, Budget, BudgetRequest, Dataset, Organisation, RequestState
from releases.permissions import get_dataset_for, signed_in
from releases.planning.epsilon_meaning import epsilon_scale
from releases.views.common.live_validation import checked, is_check, undone_if_check
from releases.views.common.refused import refusals_shown
from releases.views.common.wizard import frame


def budget(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    dataset = get_dataset_for(request, dataset_id)
    if dataset.budget is None:
        messages.info(request, "Say first whom to protect.")
        return redirect("protection", dataset_id=dataset.pk)
    held = dataset.budget
    organisation = Organisation.current()
    shown = _shown(request, held)
    suggested = {"epsilon": held.epsilon or organisation.default_epsilon or "3"}
    if (again := _said_back(shown)) is not None:
        suggested = {"epsilon": again.epsilon, "delta": again.delta}
    form = BudgetForm(request.POST or None, initial={"policy": Policy(held.policy), **suggested})
    if request.method == "POST" and form.is_valid() and _is_asked(request, dataset, form):
        messages.success(request, f"The request waits for a reviewer. {_until_then(held)}")
        return redirect("dataset_detail", dataset_id=dataset.pk)
    if is_check(request):
        return checked(request, form)
    context = {
        "form": form,
        "limit": _limit(held, organisation, signed_in(request)),
        "scale": epsilon_scale(),
        **_facts(held, shown),
        **frame("budget", dataset),
    }
    return render(request, "datasets/budget.html", context, status=400 if form.errors else 200)


def _facts(held: Budget, shown: QuerySet[BudgetRequest]) -> dict[str, Any]:
    """What was granted, by which rule, and what was asked for."""
    policy = Policy(held.policy)
    return {
        "budget": held,
        "row": reports.standings([held])[0] if held.is_granted else None,
        "policy": {"value": policy.value, "title": POLICY_TITLES[policy], "meaning": POLICY_MEANING[policy]},
        # Amounts that were asked for under one rule do not add up with those of another.
        "policy_is_fixed": held.is_settled,
        "waiting": shown.filter(state=RequestState.WAITING).first(),
        "said_back": _said_back(shown),
    }


def _until_then(held: Budget) -> str:
    return f"Until then epsilon {held.epsilon} stays granted." if held.is_granted else "Nothing can be released before."


def _is_asked(request: HttpRequest, dataset: Dataset, form: BudgetForm) -> bool:
    """Ask a reviewer for it. False where it was only checked, or something is wrong, which the form then says."""
    given = form.cleaned_data
    try:
        with undone_if_check(request):
            services.budgets.request_budget(
                dataset=dataset,
                epsilon=given["epsilon"],
                delta=given["delta"] or "0",
                policy=Policy(given["policy"]),
                reason=given["reason"],
                by=signed_in(request),
            )
    except (InvalidInput, Unpriceable) as error:
        field = getattr(error, "field", None)
        form.add_error(field if field in form.fields else None, in_words(error))
    return not form.errors and not is_check(request)


@require_POST
def take_back(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """Ask no longer for what waits for a reviewer."""
    dataset = get_dataset_for(request, dataset_id)
    shown = _shown(request, dataset.budget) if dataset.budget is not None else BudgetRequest.objects.none()
    waiting = shown.filter(state=RequestState.WAITING).first()
    with refusals_shown(request):
        if waiting is not None:
            services.budgets.take_back_request(request=waiting, by=signed_in(request))
            messages.success(request, "The request was taken back. You can ask again at any time.")
        else:
            messages.info(request, "No request waits for a reviewer any more.")
    return redirect("budget", dataset_id=dataset.pk)


def _limit(budget: Budget, organisation: Organisation, person: User) -> str:
    """How much one person may spend, and how much this one has; empty where there is no limit."""
    most = organisation.most_share_per_person
    if most is None or not budget.is_granted:
        return ""
    own = refusals.share_text(person_limits.share_of_person(budget, person))
    return f"One person may spend at most {refusals.limit_text(most)} of it; you have spent {own}."


def _shown(request: HttpRequest, budget: Budget) -> QuerySet[BudgetRequest]:
    """What was asked for tables that a person may see: others may spend from the same budget unseen."""
    return budget.requests.of_tables(budget.datasets.visible_to(request.user))


def _said_back(requests: QuerySet[BudgetRequest]) -> BudgetRequest | None:
    """The last request, where a reviewer returned it with a question or denied it, and nothing was asked for since."""
    last = requests.order_by("-requested_at").first()
    return last if last is not None and last.state in (RequestState.ASKED_BACK, RequestState.DENIED) else None
