"""After a restored backup, or a loss of marks: what is missing, and a reviewer's word that it goes on from there."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from releases import checks, services
from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.ledger import ledger, record, stale_ledger
from releases.models import Budget
from releases.permissions import may_decide, reviewers_only, signed_in

RESTORED = "What was missing is booked as spent, and what had gone further is settled. The rest goes on."


@reviewers_only
def backups(request: HttpRequest) -> HttpResponse:
    """What is remembered outside the database and not known to it, budget by budget."""
    if request.method == "POST":
        if not may_decide(request):
            raise PermissionDenied
        _act(request)
        return redirect("backups")
    found = record.look()
    forgotten = services.forgotten_decisions(found.own) if found.is_restored else []
    context = {
        "installation": list(stale_ledger.installation(found)),
        "found": found,
        "final": [each for each in forgotten if services.waits_for_a_reviewer(each)],
        "made": [each for each in forgotten if not services.waits_for_a_reviewer(each)],
        "unsettled": services.unsettled() if found.fault and not found.is_another else [],
        "lost": _lost(request),
        "all_budgets": Budget.objects.exclude(epsilon="").select_related("owner").order_by("name"),
        "budgets": services.all_missing(),
        "inside": checks.marks_inside_the_data(),
        "may_decide": may_decide(request),
    }
    return render(request, "review/backups.html", context)


def _lost(request: HttpRequest) -> list[tuple[Any, Any]]:
    """Budgets that the database does not know, each with the tables of the same rows for whoever decides."""
    if not may_decide(request):
        return [(each, []) for each in services.lost_budgets()]
    viewer = signed_in(request)
    return [(each, services.same_rows_as_lost(each, viewer=viewer)) for each in services.lost_budgets()]


def _act(request: HttpRequest) -> None:
    try:
        if chosen := request.POST.get("budget"):
            budget = get_object_or_404(Budget, pk=_uuid(chosen))
            services.restore_ledger(budget=budget, by=signed_in(request))
            messages.success(request, RESTORED)
        elif orphan := request.POST.get("orphan"):
            _settle(request, orphan)
        else:
            problems = services.acknowledge_marks(
                by=signed_in(request), leave_out=_left_out(request), let_go_on="let_go_on" in request.POST
            )
            messages.success(request, "Noted. The installation goes on from what its database knows.")
            for each in problems:
                messages.warning(request, each)
    except (ledger.LedgerRefusal, InvalidInput) as error:
        messages.error(request, in_words(error))


def _left_out(request: HttpRequest) -> set[int]:
    """What was listed and is not ticked any more. What was not listed is made again."""
    listed, ticked = (request.POST.getlist(name) for name in ("listed", "again"))
    return {int(each) for each in set(listed) - set(ticked) if each.isdecimal()}


def _settle(request: HttpRequest, orphan: str) -> None:
    chosen = request.POST.get("people", "")
    budget = get_object_or_404(Budget, pk=_uuid(chosen)) if chosen not in ("", "nobody") else None
    if not chosen:
        messages.error(request, "Say whose people they are first.")
        return
    services.settle_lost_budget(lost=_uuid(orphan), into=budget, by=signed_in(request))
    messages.success(request, "Noted." if budget is None else f"Booked as spent of {budget}.")


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)
