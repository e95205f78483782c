"""The budget board: what privacy is gone, where, to whom and for what."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from releases import services
from releases.display import charts
from releases.display.charts import StepPoint
from releases.display.error_messages import in_words
from releases.engine.accounting.accountant import DELTA_PLACES, EPSILON_PLACES
from releases.engine.accounting.filters import CLOSED, Policy
from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Schema
from releases.engine.errors import InvalidInput
from releases.engine.workload.parsing import read_answered
from releases.forms.fields import POLICY_TITLES
from releases.forms.review import BoardFilterForm, FreezeForm
from releases.ledger import audit_log, ledger, reports
from releases.models import (
    SESSION,
    Audience,
    AuditAction,
    AuditEvent,
    Budget,
    BudgetAlert,
    Dataset,
    EntryKind,
    LedgerEntry,
    Release,
    ReleaseRequest,
    ReleaseState,
)
from releases.models.stakes import what_separates
from releases.permissions import may_decide, reviewers_only, signed_in
from releases.planning.comparison import questions_text
from releases.publication.files import guarded
from releases.views.common.csv_exports import csv_response
from releases.views.common.wizard import protection_text
from releases.views.review.backups import RESTORED

PAGE_LENGTH = 25
ENTRIES_LENGTH = 10
#: Entries that one budget's curve shows; what came before is its beginning.
MAX_DRAWN = 20
#: Curves in one chart, people and mechanisms in one table: more cannot be told apart.
MAX_CURVES = 6
MAX_USES = 20
MAX_ALERTS = 8
#: Releases told one by one beside a budget, and questions read to say what one asks.
MAX_RELEASED = 5
_MAX_READ = 2_000


@reviewers_only
def budget_board(request: HttpRequest) -> HttpResponse:
    form = BoardFilterForm(request.GET)
    wanted = form.cleaned_data if form.is_valid() else {}
    charges = _charges(wanted)
    page = Paginator(_budgets(wanted, charges), PAGE_LENGTH).get_page(request.GET.get("page"))
    rows = reports.standings(page)
    if "tighter" in request.GET:
        reports.work_out(page)
        if request.headers.get("HX-Request"):
            return render(request, "review/_board_table.html", {"rows": rows})
    busiest = sorted(rows, key=lambda row: row.used, reverse=True)[:MAX_CURVES]
    people, mechanisms = reports.uses(charges)
    context = {
        "form": form,
        "page": page,
        "rows": rows,
        "is_more_to_work_out": any(reports.known_tighter(row.budget) is None for row in rows),
        "alerts": _alerts(_budgets(wanted, charges)),
        "people": people[:MAX_USES],
        "mechanisms": mechanisms[:MAX_USES],
        "filters": filters_of(request) if form.is_valid() else "",
        **_chart([row.budget for row in busiest if row.used], wanted),
    }
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


def _chart(budgets: list[Budget], wanted: dict[str, Any]) -> dict[str, Any]:
    points = reports.steps(budgets, since=wanted.get("since"), until=wanted.get("until")) if budgets else []
    return _drawn(points, budgets, wanted)


def _drawn(points: list[StepPoint], budgets: list[Budget], wanted: dict[str, Any]) -> dict[str, Any]:
    charged = [point for point in points if not point.is_start]
    if not charged:
        return {}
    until = timezone.localtime(wanted.get("until") or timezone.now())
    chart = charts.spending_steps(points, until=until, places=reports.places(budgets))
    return {"points": charged, "chart": chart}


def filters_of(request: HttpRequest) -> str:
    """The filters as they stand, for links to other pages and to the export."""
    return urlencode(
        [(name, value) for name, value in request.GET.items() if value and name not in ("page", "tighter")]
    )


@reviewers_only
def budget_detail(request: HttpRequest, budget_id: uuid.UUID) -> HttpResponse:
    """One budget: its bar, its latest history, a page of its ledger; freeze, unfreeze, restore, verify."""
    budget = get_object_or_404(Budget.objects.select_related("owner"), pk=budget_id)
    form = FreezeForm(request.POST if request.POST.get("action") in ("freeze", "unfreeze") else None)
    if request.method == "POST" and _act(request, budget, form):
        return redirect("budget_detail", budget_id=budget.pk)
    if "tighter" in request.GET:
        figures = {"tighter": reports.tighter(budget), "asked": True, "row": reports.standings([budget])[0]}
        if request.headers.get("HX-Request"):
            return render(request, "review/_tighter_figures.html", figures)
    else:
        figures = {}
    people, mechanisms = reports.uses_of(budget)
    entries = budget.entries.select_related("release", "actor").defer("release__plan", "release__result")
    page = Paginator(entries.order_by("-sequence"), ENTRIES_LENGTH).get_page(request.GET.get("page"))
    missing = services.missing_of(budget)
    context = {
        **figures,
        **_verified(request, budget),
        **_history(budget),
        "form": form,
        "row": reports.standings([budget])[0],
        "protection": protection_text(budget),
        "policy": POLICY_TITLES[Policy(budget.policy)],
        "page": page,
        "entries": [{**entry_row(entry), "is_whole": ledger.is_whole(entry)} for entry in page],
        "missing": missing,
        "people": people,
        "mechanisms": mechanisms,
        "may_decide": may_decide(request),
        # Of what can be decided here.
        "stake": what_separates(signed_in(request), budget) if missing or budget.is_frozen else None,
        "matches": services.recognised(budget, by=signed_in(request), only_the_same=True),
        "tables": budget.datasets.select_related("owner").defer("declared", "columns").order_by("created_at"),
        "released": _released(budget),
    }
    return render(request, "review/budget_detail.html", context, status=400 if form.errors else 200)


def _verified(request: HttpRequest, budget: Budget) -> dict[str, Any]:
    """What is wrong with its ledger. Every entry is read and priced for that, so it is done when somebody asks."""
    is_verified = "verify" in request.GET
    return {"is_verified": is_verified, "faults": list(ledger.verify(budget)) if is_verified else []}


def _history(budget: Budget) -> dict[str, Any]:
    """The chart of its latest charges."""
    points = reports.latest_steps(budget, most=MAX_DRAWN)
    # A line that begins with something used leaves out what came before.
    leaves_out = bool(points) and points[0].is_start and bool(points[0].used)
    return {"most_drawn": MAX_DRAWN if leaves_out else None, **_drawn(points, [budget], {})}


def _released(budget: Budget) -> list[dict[str, Any]]:
    """The newest releases that were charged: what was asked, for how much, why, and who can read it."""
    charged = LedgerEntry.objects.charges_that_stand().filter(budget=budget).select_related("actor", "release__dataset")
    newest = charged.defer("detail", "release__plan", "release__workload").order_by("-sequence")
    entries = list(newest[:MAX_RELEASED])
    released = [entry.release_id for entry in entries if entry.release_id is not None]
    asked = ReleaseRequest.objects.filter(release__in=released).exclude(reason="").order_by("requested_at")
    reasons = dict(asked.values_list("release", "reason"))
    # Of those that needed no review: the log alone holds what was said with them.
    submitted = AuditEvent.objects.filter(action=AuditAction.SUBMIT, object_id__in=[str(pk) for pk in released])
    for number, detail in submitted.order_by("pk").values_list("object_id", "detail"):
        if said := detail.partition(audit_log.BEFORE_A_REASON)[2]:
            reasons[uuid.UUID(number)] = said
    return [
        {
            "entry": entry,
            "release": entry.release,
            "share": reports.share_of_charge(budget, entry),
            "cost": reports.charge_text(entry),
            "asked": _asked(entry.release),
            "reason": reasons.get(entry.release.pk, ""),
            "readers": _readers(entry.release),
        }
        for entry in entries
        if entry.release is not None
    ]


def _asked(release: Release) -> str:
    """What a release answers, in one line; nothing where its columns changed before it was run."""
    if release.kind is SESSION:
        return "a live session"
    if release.result is None:
        return ""
    receipt = release.result["receipt"]
    if len(receipt["workload"]["queries"]) > _MAX_READ:
        return f"{receipt['answers']:,} answers"
    return questions_text(read_answered(receipt["workload"], Schema.from_json(receipt["schema"]).universe))


def _readers(release: Release) -> str:
    if release.status is ReleaseState.WITHDRAWN:
        return "nobody any more: withdrawn"
    if release.status in (ReleaseState.OPEN, ReleaseState.CLOSING):
        return release.session.get_audience_display()
    if release.status is not ReleaseState.PUBLISHED:
        return f"nobody: {release.status.label}"
    if release.is_public:
        return "everybody: public"
    if release.kind is SESSION and release.session.audience == Audience.EVERYBODY:
        return "the dataset's people; what it answered, everybody who signs in"
    return "the dataset's people"


def _act(request: HttpRequest, budget: Budget, form: FreezeForm) -> bool:
    """Do what the button says; False where the form has something to say first."""
    if not may_decide(request):
        raise PermissionDenied
    action, person = request.POST.get("action"), signed_in(request)
    if form.is_bound and not form.is_valid():
        return False
    try:
        if action == "freeze":
            if services.freeze_budget(budget=budget, by=person, reason=form.cleaned_data["reason"]):
                messages.success(request, "Frozen: no release can be charged to this budget.")
            else:
                messages.info(
                    request, "The budget was frozen before, for the reason shown here. Your reason was not recorded."
                )
        elif action == "unfreeze":
            if services.unfreeze_budget(budget=budget, by=person, reason=form.cleaned_data["reason"]):
                messages.success(request, "Unfrozen: releases can be charged again.")
            else:
                messages.info(request, "The budget was not frozen any more. Your reason was not recorded.")
        elif action == "restore":
            services.restore_ledger(budget=budget, by=person)
            messages.success(request, RESTORED)
    except (ledger.LedgerRefusal, services.Refusal, InvalidInput) as error:
        messages.error(request, in_words(error))
    return True


def entry_row(entry: LedgerEntry) -> dict[str, Any]:
    """A ledger entry with its amounts as decimals; a grant has none, and says up to how much may be spent."""
    granted = granted_by(entry)
    if granted is not None:
        epsilon, delta, rho = granted
        return {
            "entry": entry,
            "epsilon": f"up to {epsilon}",
            "delta": f"up to {delta}" if delta != "0" else "–",
            "rho": f"up to {rho}" if rho else "–",
            "why": entry.detail.get("why", ""),
        }
    return {
        "entry": entry,
        "epsilon": _amount_text(entry.epsilon, EPSILON_PLACES),
        "delta": _amount_text(entry.delta, DELTA_PLACES),
        "rho": _amount_text(entry.rho, EPSILON_PLACES),
    }


def granted_by(entry: LedgerEntry) -> tuple[str, str, str] | None:
    """Epsilon, delta and rho, if any, that a grant set the budget to; None for every other entry."""
    # Grants of old say only what may be spent in the forms that are booked.
    if entry.kind != EntryKind.GRANT or "epsilon" not in entry.detail:
        return None
    rho = entry.detail["caps"].get("rho", 0)
    return entry.detail["epsilon"], entry.detail["delta"] or "0", _decimal(rho, EPSILON_PLACES) if rho else ""


def decimal_amounts(entry: LedgerEntry) -> list[str]:
    """What an entry adds as epsilon, delta and rho; empty where the release had no such form."""
    amounts = (entry.epsilon, EPSILON_PLACES), (entry.delta, DELTA_PLACES), (entry.rho, EPSILON_PLACES)
    return [_decimal(units, places) for units, places in amounts]


def _decimal(units: int, places: int) -> str:
    return "" if abs(units) >= CLOSED else decimal_text(Fraction(units, 10**places), places=places)


def _amount_text(units: int, places: int) -> str:
    """A booked amount; a dash where there is none, and a word where the release had no such form."""
    if units == 0:
        return "–"
    return _decimal(units, places) or "no such form"
