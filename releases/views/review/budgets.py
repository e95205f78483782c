"""The budget board: what privacy is gone, where, to whom and for what."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render

from releases import services
from releases.display.paging import chosen_page
from releases.engine.errors import InvalidInput
from releases.forms.fields import in_one_line
from releases.forms.review import BoardFilterForm, BudgetActionForm, BudgetLinkForm, FreezeForm
from releases.ledger import audit_log, refusals, reports
from releases.models import (
    AuditAction,
    Budget,
    BudgetAlert,
    Dataset,
    LedgerEntry,
)
from releases.permissions import may_decide, reviewers_only, signed_in
from releases.presentation.review.board_page import board_page, board_table
from releases.presentation.review.budget_page import budget_page, privacy_losses
from releases.publication.files import guarded
from releases.views.common.csv_exports import csv_response
from releases.views.common.refused import refusals_shown
from releases.views.review.backups import RESTORED

PAGE_LENGTH = 25
MAX_ALERTS = 8


@reviewers_only
def budget_board(request: HttpRequest) -> HttpResponse:
    form = BoardFilterForm(request.GET)
    wanted = form.cleaned_data if form.is_valid() else {}
    charges = _charges(wanted)
    page = chosen_page(Paginator(_budgets(wanted, charges), PAGE_LENGTH), request.GET)
    if BudgetLinkForm(request.GET).given["tighter"]:
        reports.work_out(page)
        if request.headers.get("HX-Request"):
            return render(request, "review/_board_table.html", {"table": board_table(page)})
    filters = form.address if form.is_valid() else ""
    dates = {name: wanted.get(name) for name in ("since", "until")}
    board = board_page(page, charges, _alerts(_budgets(wanted, charges)), filters=filters, **dates)
    context = {"form": form, "page": page, "board": board, "filters": filters}
    return render(request, "review/budget_board.html", context, status=400 if form.errors else 200)


@reviewers_only
def board_csv(request: HttpRequest) -> HttpResponseBase:
    """The board's budgets under the same filters: each amount as a number; none where there is no such form."""
    form = BoardFilterForm(request.GET)
    if not form.is_valid():
        return budget_board(request)
    budgets = _budgets(form.cleaned_data, _charges(form.cleaned_data))
    audit_log.record(AuditAction.EXPORT, actor=signed_in(request), detail="budgets.csv")
    heads = ["budget", "owner", "policy", "epsilon", "delta", "spent_percent", "reserved_percent", "left_percent"]
    sums = ("spent", "reserved", "strict")
    heads += [f"{each}_{amount}" for each in sums for amount in ("epsilon", "delta", "rho")]
    heads += ["left_epsilon", "left_delta", "after_the_fact_epsilon", "after_the_fact_delta", "frozen", "frozen_reason"]
    return csv_response("budgets.csv", heads, _board_lines(budgets))


def _board_lines(budgets: QuerySet[Budget]) -> Iterator[list[Any]]:
    paginator = Paginator(budgets, 200)
    for number in paginator.page_range:
        for row in reports.standings(paginator.page(number)):
            budget = row.budget
            yield [
                guarded(budget.name),
                guarded(str(budget.owner)),
                budget.policy,
                budget.epsilon,
                budget.delta,
                row.spent,
                row.reserved,
                row.left,
                *(amount for sums in row.sums for amount in sums.values()),
                *row.left_over.values(),
                *row.figure_after_the_fact,
                "yes" if budget.is_frozen else "no",
                guarded(budget.frozen_reason) if budget.is_frozen else "",
            ]


def _charges(wanted: dict[str, Any]) -> QuerySet[LedgerEntry]:
    """The charges that the filters choose."""
    charges = LedgerEntry.objects.charges_that_stand()
    if wanted.get("since"):
        charges = charges.filter(made_at__gte=wanted["since"])
    if wanted.get("until"):
        charges = charges.filter(made_at__lte=wanted["until"])
    if wanted.get("person"):
        charges = charges.filter(actor__username__icontains=wanted["person"])
    if wanted.get("dataset"):
        named = Dataset.objects.filter(budget=OuterRef("budget"), title__icontains=wanted["dataset"])
        charges = charges.filter(Q(budget__name__icontains=wanted["dataset"]) | Exists(named))
    return charges


def _budgets(wanted: dict[str, Any], charges: QuerySet[LedgerEntry]) -> QuerySet[Budget]:
    """The budgets that the filters choose: by name, and by charges where a date or a person is given."""
    budgets = Budget.objects.select_related("owner").order_by("name", "created_at", "pk")
    if wanted.get("dataset"):
        named = Dataset.objects.filter(budget=OuterRef("pk"), title__icontains=wanted["dataset"])
        budgets = budgets.filter(Q(name__icontains=wanted["dataset"]) | Exists(named))
    if wanted.get("since") or wanted.get("until") or wanted.get("person"):
        budgets = budgets.filter(Exists(charges.filter(budget=OuterRef("pk"))))
    return budgets


def _alerts(budgets: QuerySet[Budget]) -> list[BudgetAlert]:
    """The highest threshold that each of these budgets has passed at its present size, the latest first."""
    higher = BudgetAlert.objects.filter(
        budget=OuterRef("budget"), epsilon=OuterRef("epsilon"), percent__gt=OuterRef("percent")
    )
    present = Exists(Budget.objects.filter(pk=OuterRef("budget"), epsilon=OuterRef("epsilon")))
    alerts = BudgetAlert.objects.filter(~Exists(higher), present)
    # First those few that have one at all: to choose budgets by their charges takes a while.
    alerted = list(alerts.values_list("budget", flat=True).distinct())
    if not alerted:
        return []
    chosen = budgets.filter(pk__in=alerted).order_by().values("pk")
    return list(alerts.filter(budget__in=chosen).select_related("budget").order_by("-raised_at")[:MAX_ALERTS])


@reviewers_only
def budget_detail(request: HttpRequest, budget_id: uuid.UUID) -> HttpResponse:
    """One budget: its bar, its latest history, a page of its ledger; freeze, unfreeze, restore, verify."""
    budget = get_object_or_404(Budget.objects.select_related("owner"), pk=budget_id)
    form = FreezeForm()
    if request.method == "POST":
        form = FreezeForm(request.POST)
        if _act(request, budget, form):
            return redirect("budget_detail", budget_id=budget.pk)
    link = BudgetLinkForm(request.GET).given
    if link["tighter"] and request.headers.get("HX-Request"):
        return render(request, "review/_tighter_figures.html", {"losses": privacy_losses(budget)})
    page = budget_page(
        budget,
        by=signed_in(request),
        may_decide=may_decide(request),
        number=link["page"],
        wants_losses=link["tighter"],
        wants_verified=link["verify"],
    )
    context = {"page": page, "form": form}
    return render(request, "review/budget_detail.html", context, status=400 if form.errors else 200)


def _act(request: HttpRequest, budget: Budget, form: FreezeForm) -> bool:
    """Do what the button says; False where the form has something to say first."""
    if not may_decide(request):
        raise PermissionDenied
    button, person = BudgetActionForm(request.POST), signed_in(request)
    if not button.is_valid():
        messages.error(request, in_one_line(button))
        return True
    action = button.cleaned_data["action"]
    if action != button.RESTORE and not form.is_valid():
        return False
    with refusals_shown(request, refusals.LedgerRefusal, InvalidInput):
        if action == button.FREEZE:
            if services.budgets.freeze_budget(budget=budget, by=person, reason=form.cleaned_data["reason"]):
                messages.success(request, "Frozen: no release can be charged to this budget.")
            else:
                messages.info(
                    request, "The budget was frozen before, for the reason shown here. Your reason was not recorded."
                )
        elif action == button.UNFREEZE:
            if services.budgets.unfreeze_budget(budget=budget, by=person, reason=form.cleaned_data["reason"]):
                messages.success(request, "Unfrozen: releases can be charged again.")
            else:
                messages.info(request, "The budget was not frozen any more. Your reason was not recorded.")
        else:
            services.restoring.restore_ledger(budget=budget, by=person)
            messages.success(request, RESTORED)
    return True
