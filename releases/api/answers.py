"""What several operations answer with: a dataset, a release, a plan, a request."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from releases.ledger import reports
from releases.models import BudgetRequest, Dataset, LedgerEntry, Release, ReleaseRequest
from releases.permissions import workload_of_release
from releases.planning import comparison
from releases.publication.archive import download_names
from releases.publication.receipt import counted_in_words
from releases.views.results.citation import address_of


def answer_of_release(request: HttpRequest, release: Release, *, is_own: bool = True) -> dict[str, Any]:
    review = release.last_review if is_own else None
    saved = workload_of_release(request, release)
    own = {"epsilon": release.epsilon, "delta": release.delta, "cost": _cost(release)} if is_own else {}
    return {
        "id": str(release.pk),
        "title": release.title,
        "address": address_of(request, release),
        **own,
        "dataset": str(release.dataset_id),
        "state": release.shown_state,
        "meaning": release.meaning,
        "step": release.shown_step,
        "share_done": release.share_done,
        "mechanism": release.mechanism,
        "is_session": release.kind.is_interactive,
        "is_public": release.is_public,
        "review": answer_of_request(review) if review is not None else None,
        "rows_counted": counted_in_words(release.result["receipt"]) if release.result else "",
        "files": download_names(release.result) if release.result else [],
        "saved": {"id": str(saved.workload_id), "version": saved.number} if saved is not None else None,
        "certifies": str(release.certifies_id) if release.certifies_id else None,
    }


def answer_of_dataset(dataset: Dataset, row: reports.BudgetBalance | None = None) -> dict[str, Any]:
    budget = dataset.budget
    if row is None and budget is not None:
        (row,) = reports.standings([budget])
    return {
        "id": str(dataset.pk),
        "title": dataset.title,
        "created_at": dataset.created_at.isoformat(),
        "owner": str(dataset.owner),
        "group": dataset.group.name if dataset.group else None,
        "description": dataset.description,
        "columns": dataset.columns,
        "column_notes": dataset.column_notes,
        "file": dataset.file_facts,
        "schema": dataset.schema.to_json() if dataset.schema is not None else None,
        "budget": None if row is None else _budget(row),
    }


def answer_of_plan(row: comparison.ComparedPlan) -> dict[str, Any]:
    return {
        "mechanism": row.plan.mechanism,
        "why_not": row.why_not,
        "bound": row.bound.to_json() if row.bound else None,
        "says": row.sentence if row.can_be_chosen else "",
        "cost": row.cost,
        "seconds": row.plan.work.seconds,
        "bytes": row.plan.work.bytes,
        "most_synthetic_rows": row.plan.most_synthetic_rows,
        "parameters": {**row.plan.parameters, **row.plan.limits},
    }


def answer_of_request(asked: BudgetRequest | ReleaseRequest) -> dict[str, Any]:
    return {
        "state": asked.state,
        "epsilon": asked.epsilon,
        "delta": asked.delta,
        "granted_epsilon": asked.granted_epsilon,
        "granted_delta": asked.granted_delta,
        "note": asked.note,
        "requested_at": asked.requested_at.isoformat(),
    }


def _cost(release: Release) -> dict[str, str] | None:
    """What was charged for a release, in each form; None where nothing is."""
    entry = LedgerEntry.objects.charges_that_stand().filter(release=release).first()
    return None if entry is None else reports.charge_amounts(entry)


def _budget(row: reports.BudgetBalance) -> dict[str, Any]:
    budget = row.budget
    used, reserved, _ = row.sums
    return {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "policy": budget.policy,
        "is_frozen": budget.is_frozen,
        "spent": {"percent": row.spent, **used},
        "reserved": {"percent": row.reserved, **reserved},
        "left": {"percent": row.left, **row.left_over},
    }
