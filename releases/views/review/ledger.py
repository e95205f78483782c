"""The whole ledger with the state of its chain, and the log of who did what."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render

from releases import services
from releases.display.paging import chosen_page
from releases.forms.review import LogFilterForm
from releases.ledger import audit_log as log
from releases.models import AuditAction, AuditEvent, LedgerEntry
from releases.permissions import reviewers_only, signed_in
from releases.presentation.review.ledger_rows import decimal_amounts, granted_by, last_verified, ledger_row
from releases.publication.files import guarded
from releases.views.common.csv_exports import csv_response

PAGE_LENGTH = 50


@reviewers_only
def ledger_page(request: HttpRequest) -> HttpResponse:
    """Every entry, the newest first; those on the page are checked against their own hashes as it is made."""
    if request.method == "POST":
        verified = services.organisation.verify_ledgers(by=signed_in(request))
        if verified.faults:
            messages.error(request, "The ledger does not add up.")
        else:
            messages.success(request, f"Verified: {verified.in_words}.")
        return redirect("ledger")
    page = chosen_page(Paginator(LedgerEntry.objects.for_ledger_page(), PAGE_LENGTH), request.GET)
    context = {"page": page, "rows": [ledger_row(entry) for entry in page], "verified": last_verified()}
    return render(request, "review/ledger.html", context)


@reviewers_only
def ledger_csv(request: HttpRequest) -> StreamingHttpResponse:
    """The whole ledger as CSV: amounts as decimals, and as they are booked, in whole units that the heads name."""
    log.record(AuditAction.EXPORT, actor=signed_in(request), detail="ledger.csv")
    heads = ["budget", "sequence", "kind", "release", "actor", "granted_epsilon", "granted_delta", "granted_rho"]
    heads += ["epsilon", "delta", "rho", "epsilon in 1e-12", "delta in 1e-18", "rho in 1e-12", "rho_delta in 1e-18"]
    heads += ["made_at", "hash"]
    rows = (
        [
            guarded(entry.budget.name),
            entry.sequence,
            entry.kind,
            entry.release_id or "",
            guarded(str(entry.actor)),
            *(granted_by(entry) or ("", "", "")),
            *decimal_amounts(entry),
            entry.epsilon,
            entry.delta,
            entry.rho,
            entry.rho_delta,
            entry.made_at.isoformat(),
            entry.hash,
        ]
        for entry in LedgerEntry.objects.for_ledger_page().iterator(chunk_size=1000)
    )
    return csv_response("ledger.csv", heads, rows)


@reviewers_only
def audit_log(request: HttpRequest) -> HttpResponse:
    form = LogFilterForm(request.GET)
    events = _events(form.cleaned_data) if form.is_valid() else AuditEvent.objects.none()
    page = chosen_page(Paginator(events, PAGE_LENGTH), request.GET)
    context = {"form": form, "page": page, "filters": form.address}
    return render(request, "review/audit_log.html", context, status=400 if form.errors else 200)


@reviewers_only
def audit_csv(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """The log under the same filters."""
    form = LogFilterForm(request.GET)
    if not form.is_valid():
        page = Paginator(AuditEvent.objects.none(), PAGE_LENGTH).get_page(1)
        return render(request, "review/audit_log.html", {"form": form, "page": page}, status=400)
    log.record(AuditAction.EXPORT, actor=signed_in(request), detail="audit-log.csv")
    rows = (
        [
            event.at.isoformat(),
            guarded(str(event.actor or "")),
            event.action,
            event.kind,
            event.object_id,
            guarded(event.name),
            guarded(event.detail),
        ]
        for event in _events(form.cleaned_data).iterator(chunk_size=1000)
    )
    return csv_response("audit-log.csv", ["at", "person", "action", "kind", "object", "name", "detail"], rows)


def _events(wanted: dict[str, Any]) -> QuerySet[AuditEvent]:
    events: QuerySet[AuditEvent] = AuditEvent.objects.for_log_page()
    if wanted["since"]:
        events = events.filter(at__gte=wanted["since"])
    if wanted["until"]:
        events = events.filter(at__lte=wanted["until"])
    if wanted["person"]:
        events = events.filter(actor__username__icontains=wanted["person"])
    if wanted["action"]:
        events = events.filter(action=wanted["action"])
    if wanted["thing"]:
        events = events.filter(Q(name__icontains=wanted["thing"]) | Q(object_id=wanted["thing"]))
    return events
