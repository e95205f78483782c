"""After a restored backup, or a loss of marks: what is missing, and a reviewer's word that it goes on from there."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from releases import checks, services
from releases.display.error_messages import in_words
from releases.ledger import ledger, stale_ledger
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
    context = {
        "installation": list(stale_ledger.installation()),
        "is_folder_lost": stale_ledger.is_folder_lost(),
        "budgets": services.all_missing(),
        "inside": checks.marks_inside_the_data(),
        "may_decide": may_decide(request),
    }
    return render(request, "releases/backups.html", context)


def _act(request: HttpRequest) -> None:
    try:
        if chosen := request.POST.get("budget"):
            budget = get_object_or_404(Budget, pk=_uuid(chosen))
            services.restore_ledger(budget=budget, by=signed_in(request))
            messages.success(request, RESTORED)
        else:
            services.acknowledge_marks(by=signed_in(request))
            messages.success(request, "Noted. The installation goes on from what its database knows.")
    except ledger.LedgerRefusal as error:
        messages.error(request, in_words(error))


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)
