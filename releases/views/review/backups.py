"""After a restored backup, or a loss of marks: what is missing, and a reviewer's word that it goes on from there."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases import services
from releases.engine.errors import InvalidInput
from releases.forms.fields import in_one_line
from releases.forms.review import BackupsForm
from releases.ledger import refusals
from releases.permissions import may_decide, reviewers_only, signed_in
from releases.presentation.review.backups_page import backups_page
from releases.views.common.refused import refusals_shown

RESTORED = "What was missing is booked as spent, and what had gone further is settled. The rest goes on."


@reviewers_only
def backups(request: HttpRequest) -> HttpResponse:
    """What is remembered outside the database and not known to it, budget by budget."""
    if request.method == "POST":
        if not may_decide(request):
            raise PermissionDenied
        _act(request)
        return redirect("backups")
    page = backups_page(by=signed_in(request), may_decide=may_decide(request))
    return render(request, "review/backups.html", {"page": page})


def _act(request: HttpRequest) -> None:
    form, person = BackupsForm(request.POST), signed_in(request)
    if not form.is_valid():
        messages.error(request, in_one_line(form))
        return
    given = form.cleaned_data
    with refusals_shown(request, refusals.LedgerRefusal, InvalidInput):
        if given["budget"] is not None:
            services.restoring.restore_ledger(budget=given["budget"], by=person)
            messages.success(request, RESTORED)
        elif given["orphan"] is not None:
            into = given["people"]
            services.lost_budgets.settle_lost_budget(lost=given["orphan"], into=into, by=person)
            messages.success(request, "Noted." if into is None else f"Booked as spent of {into}.")
        else:
            problems = services.restoring.acknowledge_marks(
                by=person, leave_out=form.left_out, let_go_on=given["let_go_on"]
            )
            messages.success(request, "Noted. The installation goes on from what its database knows.")
            for each in problems:
                messages.warning(request, each)
