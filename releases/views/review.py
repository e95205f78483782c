"""The reviewer's pages: requests to decide, budgets to watch, the ledger."""

from __future__ import annotations

import csv
import uuid
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from releases import ledger, planning, services
from releases.engine.accountant import DELTA_PLACES, EPSILON_PLACES
from releases.engine.errors import InvalidInput, Unpriceable
from releases.engine.filters import CLOSED, Policy, report
from releases.engine.privacy import decimal_text, exact
from releases.forms import POLICY_TITLES, DecisionForm
from releases.models import POLICY_MEANING, Budget, BudgetRequest, LedgerEntry, RequestState
from releases.services.datasets import FORMULA_STARTS
from releases.views.access import signed_in, staff_only
from releases.views.wizard import budget_text, protection_text

PAGE_LENGTH = 50


@staff_only
def review_queue(request: HttpRequest) -> HttpResponse:
    decided = BudgetRequest.objects.exclude(state=RequestState.WAITING).select_related("budget", "decided_by")
    return render(
        request,
        "releases/review_queue.html",
        {"requests": BudgetRequest.objects.for_review(), "decided": decided.order_by("-decided_at")[:20]},
    )


@staff_only
def budget_request(request: HttpRequest, request_id: uuid.UUID) -> HttpResponse:
    """One request: what the data are, what is asked, what it would leave; approve, approve less, or deny."""
    asked = get_object_or_404(BudgetRequest.objects.select_related("budget", "requested_by"), pk=request_id)
    policy = Policy(asked.budget.policy)
    form = DecisionForm(request.POST or None, initial={"epsilon": asked.epsilon, "delta": asked.delta}, policy=policy)
    if request.method == "POST" and form.is_valid():
        given, person, decision = form.cleaned_data, signed_in(request), request.POST.get("decision")
        try:
            if decision == "deny":
                services.deny_request(request=asked, by=person, note=given["note"])
            elif decision == "approve":
                services.approve_request(
                    request=asked, by=person, epsilon=given["epsilon"], delta=given["delta"], note=given["note"]
                )
            else:
                raise InvalidInput("decision", decision, "must be to grant or to deny; press one of the buttons")
        except (InvalidInput, Unpriceable, ledger.LedgerRefusal) as error:
            field = getattr(error, "field", None)
            form.add_error(field if field in form.fields else None, str(error))
        else:
            messages.success(request, f"The request is {asked.get_state_display()}.")
            return redirect("review_queue")
    epsilon = exact(asked.epsilon, field="epsilon")
    context = {
        "asked": asked,
        "form": form,
        "protection": protection_text(asked.budget),
        "policy": POLICY_TITLES[policy],
        "policy_meaning": POLICY_MEANING[policy],
        "granted": budget_text(asked.budget) if asked.budget.is_granted else "",
        "datasets": asked.budget.datasets.select_related("owner"),
        "beliefs": planning.belief_table(epsilon),
        "is_large": epsilon >= planning.LARGE_EPSILON,
    }
    return render(request, "releases/budget_request.html", context, status=400 if form.errors else 200)


@staff_only
def budget_board(request: HttpRequest) -> HttpResponse:
    budgets = Budget.objects.select_related("owner").order_by("name", "created_at")
    page = Paginator(budgets, PAGE_LENGTH).get_page(request.GET.get("page"))
    return render(request, "releases/budget_board.html", {"page": page, "rows": [_board_row(each) for each in page]})


@staff_only
def budget_detail(request: HttpRequest, budget_id: uuid.UUID) -> HttpResponse:
    """One budget: its bar, its ledger with the state of the chain; freeze, unfreeze, restore."""
    budget = get_object_or_404(Budget.objects.select_related("owner"), pk=budget_id)
    if request.method == "POST":
        action = request.POST.get("action")
        try:
            if action == "freeze":
                services.freeze_budget(budget=budget)
                messages.success(request, "Frozen: no release can be charged to this budget.")
            elif action == "unfreeze":
                services.unfreeze_budget(budget=budget)
                messages.success(request, "Unfrozen: releases can be charged again.")
            elif action == "restore":
                services.restore_ledger(budget=budget, by=signed_in(request))
                messages.success(request, "What was missing is booked as spent.")
        except ledger.LedgerRefusal as error:
            messages.error(request, str(error))
        return redirect("budget_detail", budget_id=budget.pk)
    entries = budget.entries.select_related("release", "actor").order_by("-sequence")
    page = Paginator(entries, PAGE_LENGTH).get_page(request.GET.get("page"))
    return render(
        request,
        "releases/budget_detail.html",
        {
            "row": _board_row(budget),
            "protection": protection_text(budget),
            "policy": POLICY_TITLES[Policy(budget.policy)],
            "page": page,
            "entries": [_entry_row(entry) for entry in page],
            "faults": list(ledger.verify(budget)),
            "went_back": ledger.went_back(budget),
        },
    )


def _entry_row(entry: LedgerEntry) -> dict[str, Any]:
    """A ledger entry with its amounts as decimals."""
    return {
        "entry": entry,
        "epsilon": _amount_text(entry.epsilon, EPSILON_PLACES),
        "delta": _amount_text(entry.delta, DELTA_PLACES),
        "rho": _amount_text(entry.rho, EPSILON_PLACES),
    }


def _amount_text(units: int, places: int) -> str:
    """A booked amount; a dash where there is none, and a word where the release had no such form."""
    if units == 0:
        return "–"
    if abs(units) >= CLOSED:
        return "no such form"
    return decimal_text(Fraction(units, 10**places), places=places)


@staff_only
def ledger_csv(request: HttpRequest) -> StreamingHttpResponse:
    """The whole ledger as CSV, in 10^-12 (epsilon, rho) and 10^-18 (delta)."""
    heads = [
        "budget",
        "sequence",
        "kind",
        "release",
        "actor",
        "epsilon",
        "delta",
        "rho",
        "rho_delta",
        "made_at",
        "hash",
    ]

    class Line:
        def write(self, text: str) -> str:
            return text

    def lines() -> Iterator[str]:
        writer = csv.writer(Line())
        yield writer.writerow(heads)
        for entry in LedgerEntry.objects.for_ledger_page().iterator(chunk_size=1000):
            yield writer.writerow(
                [
                    _guarded(entry.budget.name),
                    entry.sequence,
                    entry.kind,
                    entry.release_id or "",
                    _guarded(str(entry.actor)),
                    entry.epsilon,
                    entry.delta,
                    entry.rho,
                    entry.rho_delta,
                    entry.made_at.isoformat(),
                    entry.hash,
                ]
            )

    response = StreamingHttpResponse(lines(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="ledger.csv"'
    return response


def _guarded(text: str) -> str:
    """Text that people chose, so that no spreadsheet takes it for a formula."""
    return f"'{text}" if text[:1] in FORMULA_STARTS or not text[:1].isprintable() else text


def _board_row(budget: Budget) -> dict[str, Any]:
    """A budget in numbers: the strict total, the cap, and how much of it is used."""
    if not budget.is_granted:
        return {"budget": budget, "share": 0}
    caps, spent = budget.caps, budget.totals
    used = max(
        min(
            max(getattr(spent, limit.column) / limit.cap if limit.cap else 0 for limit in branch.limits)
            for branch in caps.branches
        ),
        0,
    )
    try:
        stated = report(spent, caps)
    except Unpriceable:
        stated = None
    return {
        "budget": budget,
        "share": round(100 * min(used, 1), 1),
        "left": ledger.remaining(budget),
        "left_text": ledger.epsilon_text(ledger.remaining(budget).pure_epsilon),
        "stated": stated,
    }
