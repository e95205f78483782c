"""Datasets: sent and read by a worker, declared, and given a budget."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from django.core.files.uploadedfile import TemporaryUploadedFile
from django.db import transaction
from django.http import HttpRequest
from ninja import Body, File, Form, Router, Schema, Status
from ninja.files import UploadedFile

from releases import descriptions, services, spending
from releases.api.answers import answer_of_request
from releases.engine import universe
from releases.engine.errors import InvalidInput
from releases.engine.filters import Policy
from releases.models import BudgetRequest, Dataset, Upload
from releases.views.access import get_dataset_for, get_upload_for, signed_in

router = Router()


class TitleIn(Schema):
    title: str


class GroupIn(Schema):
    group: str | None


class BudgetIn(Schema):
    epsilon: str
    delta: str = "0"
    policy: str = Policy.ZCDP.value
    reason: str = ""


class PopulationIn(Schema):
    other: uuid.UUID


@router.get("/datasets")
def list_datasets(request: HttpRequest) -> Any:
    """The datasets one may work on."""
    visible = Dataset.objects.visible_to(request.user).select_related("budget", "owner", "group")
    found = list(visible.order_by("-created_at"))
    budgets = {each.budget.pk: each.budget for each in found if each.budget is not None}
    rows = {row.budget.pk: row for row in spending.standings(budgets.values())}
    return [_dataset(each, rows[each.budget.pk] if each.budget is not None else None) for each in found]


@router.post("/datasets", response={202: Any})
def upload_dataset(request: HttpRequest, title: Form[str], table: File[UploadedFile]) -> Any:
    """Upload a CSV or Parquet file, which a worker reads. The dataset gets the identifier of the upload."""
    assert isinstance(table, TemporaryUploadedFile)
    source = Path(table.temporary_file_path())
    return Status(202, _upload(services.receive_upload(owner=signed_in(request), title=title, source=source)))


@router.get("/uploads/{uuid:upload_id}")
def show_upload(request: HttpRequest, upload_id: uuid.UUID) -> Any:
    """How far a table that one sent is, why it was refused, or which dataset it is now."""
    return _upload(get_upload_for(request, upload_id))


@router.delete("/uploads/{uuid:upload_id}", response={204: None})
def discard_upload(request: HttpRequest, upload_id: uuid.UUID) -> Any:
    """Stop an upload, or put one away that was refused or has failed. Its file is deleted."""
    services.discard_upload(upload=get_upload_for(request, upload_id))
    return Status(204, None)


@router.get("/datasets/{uuid:dataset_id}")
def show_dataset(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    return _dataset(get_dataset_for(request, dataset_id))


@router.put("/datasets/{uuid:dataset_id}/title")
def rename_dataset(request: HttpRequest, dataset_id: uuid.UUID, named: TitleIn) -> Any:
    """Call a dataset something else."""
    services.rename_dataset(dataset=get_dataset_for(request, dataset_id), title=named.title, by=signed_in(request))
    return _dataset(get_dataset_for(request, dataset_id))


@router.put("/datasets/{uuid:dataset_id}/group")
def share_dataset(request: HttpRequest, dataset_id: uuid.UUID, shared: GroupIn) -> Any:
    """Let a group of one's own, by its name, work on a dataset; null takes it back."""
    person = signed_in(request)
    group = person.groups.filter(name=shared.group).first()
    if shared.group is not None and group is None:
        raise InvalidInput("group", shared.group, "must be the name of a group that you belong to")
    services.share_dataset(dataset=get_dataset_for(request, dataset_id), group=group, by=person)
    return _dataset(get_dataset_for(request, dataset_id))


@router.delete("/datasets/{uuid:dataset_id}", response={204: None})
def discard_dataset(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    """Forget a table that nothing was charged for, with its drafts and its file."""
    services.discard_dataset(dataset=get_dataset_for(request, dataset_id), by=signed_in(request))
    return Status(204, None)


@router.delete("/datasets/{uuid:dataset_id}/rows", response={204: None})
def delete_rows(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    """Delete a table's file for good; its releases, its charges and its fingerprint stay."""
    services.delete_rows(dataset=get_dataset_for(request, dataset_id), by=signed_in(request))
    return Status(204, None)


@router.put("/datasets/{uuid:dataset_id}/schema")
def declare_schema(request: HttpRequest, dataset_id: uuid.UUID, declared: Body[dict[str, Any]]) -> Any:
    """Declare columns, unit and neighbours, in the schema format; with `description` and `unit` of columns, and
    `description` of the table, where something is to be said to readers."""
    dataset = get_dataset_for(request, dataset_id)
    said = descriptions.apart(declared)
    read = universe.Schema.from_json(said.schema)
    with transaction.atomic():
        services.declare_universe(dataset=dataset, columns=read.to_json()["columns"], by=signed_in(request))
        services.declare_protection(dataset=dataset, unit=read.unit, neighbours=read.neighbours, by=signed_in(request))
        services.describe_dataset(
            dataset=dataset, notes=said.notes, description=said.description, by=signed_in(request)
        )
    return _dataset(get_dataset_for(request, dataset_id))


@router.post("/datasets/{uuid:dataset_id}/budget-requests", response={201: Any})
def ask_for_budget(request: HttpRequest, dataset_id: uuid.UUID, asked: BudgetIn) -> Any:
    """Ask a reviewer for a budget."""
    dataset = get_dataset_for(request, dataset_id)
    if asked.policy not in {each.value for each in Policy}:
        raise InvalidInput("policy", asked.policy, f"must be one of {', '.join(each.value for each in Policy)}")
    made = services.request_budget(
        dataset=dataset,
        epsilon=asked.epsilon,
        delta=asked.delta,
        policy=Policy(asked.policy),
        reason=asked.reason,
        by=signed_in(request),
    )
    return Status(201, answer_of_request(made))


@router.get("/datasets/{uuid:dataset_id}/budget-requests")
def list_budget_requests(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    """What was asked for, newest first, and what a reviewer made of it."""
    budget = get_dataset_for(request, dataset_id).budget
    return [answer_of_request(each) for each in budget.requests.order_by("-requested_at")] if budget else []


@router.post("/datasets/{uuid:dataset_id}/budget-requests/take-back")
def take_back_budget_request(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    """Ask no longer for what no reviewer has decided yet."""
    waiting = BudgetRequest.objects.for_review().filter(budget__datasets=get_dataset_for(request, dataset_id)).first()
    if waiting is None:
        raise services.Refusal("No request waits for a reviewer.")
    services.take_back_request(request=waiting, by=signed_in(request))
    return answer_of_request(waiting)


@router.put("/datasets/{uuid:dataset_id}/population")
def join_population(request: HttpRequest, dataset_id: uuid.UUID, joined: PopulationIn) -> Any:
    """Say that the table is about the people of another: from then on both spend from one budget."""
    dataset = get_dataset_for(request, dataset_id)
    services.join_population(dataset=dataset, other=get_dataset_for(request, joined.other), by=signed_in(request))
    return _dataset(get_dataset_for(request, dataset_id))


def _upload(upload: Upload) -> dict[str, Any]:
    return {
        "id": str(upload.pk),
        "title": upload.title,
        "state": upload.state,
        "meaning": upload.status.meaning,
        "step": upload.step,
        "share_done": upload.share_done,
        "refusal": upload.refusal,
        "dataset": str(upload.dataset_id) if upload.dataset_id else None,
    }


def _dataset(dataset: Dataset, row: spending.Standing | None = None) -> dict[str, Any]:
    budget = dataset.budget
    if row is None and budget is not None:
        (row,) = spending.standings([budget])
    return {
        "id": str(dataset.pk),
        "title": dataset.title,
        "owner": str(dataset.owner),
        "group": dataset.group.name if dataset.group else None,
        "description": dataset.description,
        "columns": dataset.columns,
        "column_notes": dataset.column_notes,
        "schema": dataset.schema.to_json() if dataset.schema is not None else None,
        "budget": None if row is None else _budget(row),
    }


def _budget(row: spending.Standing) -> dict[str, Any]:
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
