"""Datasets: sent and read by a worker, declared, and given a budget."""

from __future__ import annotations

import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.files.uploadedfile import TemporaryUploadedFile
from django.db import transaction
from django.http import HttpRequest
from ninja import Body, File, Form, Router, Schema, Status
from ninja.files import UploadedFile

from releases import services
from releases.api.answers import answer_of_dataset, answer_of_request
from releases.api.paging import newest
from releases.engine.accounting.filters import Policy
from releases.engine.domain import schema
from releases.engine.errors import InvalidInput
from releases.engine.tables.facts import FileFacts
from releases.ledger import reports
from releases.models import Dataset, RequestState, Upload
from releases.permissions import get_dataset_for, get_upload_for, own_group, signed_in
from releases.schema import descriptions
from releases.schema.boundaries import labels_without

router = Router()


class UploadIn(Schema):
    title: str
    separator: str = ""
    encoding: str = ""
    decimal: str = ""
    thousands: str = ""
    quote: str = ""
    has_header: str = "yes"
    locale: str = ""
    number_names: str = "no"
    sheet: str = ""
    header_row: str = "1"
    member: str = ""


class TitleIn(Schema):
    title: str


class GroupIn(Schema):
    group: str | None


class BudgetIn(Schema):
    epsilon: str
    delta: str = "0"
    policy: str = Policy.ZCDP.value
    reason: str = ""


class BoundariesIn(Schema):
    column: str
    boundaries: dict[str, Any] | None


class PopulationIn(Schema):
    other: uuid.UUID


@router.get("/datasets")
def list_datasets(request: HttpRequest, before: datetime | None = None) -> Any:
    """The newest datasets one may work on, at most 100; those made before a time, for the next part of the list."""
    visible = Dataset.objects.visible_to(request.user).select_related("budget", "owner", "group")
    found = newest(visible, by="created_at", before=before)
    budgets = {each.budget.pk: each.budget for each in found if each.budget is not None}
    rows = {row.budget.pk: row for row in reports.standings(budgets.values())}
    return [answer_of_dataset(each, rows[each.budget.pk] if each.budget is not None else None) for each in found]


@router.post("/datasets", response={202: Any})
def upload_dataset(request: HttpRequest, sent: Form[UploadIn], table: File[UploadedFile]) -> Any:
    """Upload a file with a table, which a worker reads. The dataset gets the identifier of the upload. The other fields
    say how the file is written."""
    assert isinstance(table, TemporaryUploadedFile)
    received = services.uploads.receive_upload(
        owner=signed_in(request),
        title=sent.title,
        source=Path(table.temporary_file_path()),
        name=table.name or "",
        facts=FileFacts.from_json(sent.dict(exclude={"title"}, exclude_defaults=True)),
    )
    return Status(202, _upload(received))


@router.get("/uploads/{uuid:upload_id}")
def show_upload(request: HttpRequest, upload_id: uuid.UUID) -> Any:
    """How far a table that one sent is, why it was refused, or which dataset it is now."""
    return _upload(get_upload_for(request, upload_id))


@router.delete("/uploads/{uuid:upload_id}", response={204: None})
def discard_upload(request: HttpRequest, upload_id: uuid.UUID) -> Any:
    """Stop an upload, or put one away that was refused or has failed. Its file is deleted."""
    services.uploads.discard_upload(upload=get_upload_for(request, upload_id))
    return Status(204, None)


@router.get("/datasets/{uuid:dataset_id}")
def show_dataset(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    return answer_of_dataset(get_dataset_for(request, dataset_id))


@router.put("/datasets/{uuid:dataset_id}/title")
def rename_dataset(request: HttpRequest, dataset_id: uuid.UUID, named: TitleIn) -> Any:
    """Call a dataset something else."""
    services.datasets.rename_dataset(
        dataset=get_dataset_for(request, dataset_id), title=named.title, by=signed_in(request)
    )
    return answer_of_dataset(get_dataset_for(request, dataset_id))


@router.put("/datasets/{uuid:dataset_id}/group")
def share_dataset(request: HttpRequest, dataset_id: uuid.UUID, shared: GroupIn) -> Any:
    """Let a group of one's own, by its name, work on a dataset; null takes it back."""
    person = signed_in(request)
    group = own_group(person, shared.group)
    services.datasets.share_dataset(dataset=get_dataset_for(request, dataset_id), group=group, by=person)
    return answer_of_dataset(get_dataset_for(request, dataset_id))


@router.delete("/datasets/{uuid:dataset_id}", response={204: None})
def discard_dataset(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    """Forget a table that nothing was charged for, with its drafts and its file."""
    services.datasets.discard_dataset(dataset=get_dataset_for(request, dataset_id), by=signed_in(request))
    return Status(204, None)


@router.delete("/datasets/{uuid:dataset_id}/rows", response={204: None})
def delete_rows(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    """Delete a table's file for good; its releases, its charges and its fingerprint stay."""
    services.datasets.delete_rows(dataset=get_dataset_for(request, dataset_id), by=signed_in(request))
    return Status(204, None)


@router.put("/datasets/{uuid:dataset_id}/schema")
def declare_schema(request: HttpRequest, dataset_id: uuid.UUID, declared: Body[dict[str, Any]]) -> Any:
    """Declare columns, unit and neighbours, in the schema format; with `description` and `unit` of columns, and
    `description` of the table, where something is to be said to readers. Combinations of bins that cannot occur, in
    `impossible`, stay as they are where that is left out."""
    dataset = get_dataset_for(request, dataset_id)
    said = descriptions.apart(declared)
    read = schema.Schema.from_json(said.schema)
    with transaction.atomic():
        services.datasets.declare_schema_columns(
            dataset=dataset, schema=read, says_impossible="impossible" in said.schema, by=signed_in(request)
        )
        services.datasets.declare_protection(
            dataset=dataset, unit=read.unit, neighbours=read.neighbours, by=signed_in(request)
        )
        services.codebooks.describe_dataset(
            dataset=dataset, notes=said.notes, description=said.description, by=signed_in(request)
        )
    return answer_of_dataset(get_dataset_for(request, dataset_id))


@router.put("/datasets/{uuid:dataset_id}/boundaries")
def declare_boundaries(request: HttpRequest, dataset_id: uuid.UUID, drawn: BoundariesIn) -> Any:
    """Show the regions of a column on a map, from a GeoJSON FeatureCollection in longitude and latitude; null removes
    the map. Says which labels are not on it, and which shapes were left out."""
    dataset, person = get_dataset_for(request, dataset_id), signed_in(request)
    if drawn.boundaries is None:
        services.boundaries.remove_boundaries(dataset=dataset, column=drawn.column, by=person)
        return {"column": drawn.column, "named_by": None, "not_on_map": None, "left_out": None}
    read = services.boundaries.declare_boundaries(
        dataset=dataset, column=drawn.column, given=drawn.boundaries, by=person
    )
    assert dataset.universe is not None
    missing = labels_without(read.shapes, dataset.universe[drawn.column].labels)
    return {"column": drawn.column, "named_by": read.named_by, "not_on_map": missing, "left_out": read.left_out}


@router.post("/datasets/{uuid:dataset_id}/budget-requests", response={201: Any})
def ask_for_budget(request: HttpRequest, dataset_id: uuid.UUID, asked: BudgetIn) -> Any:
    """Ask a reviewer for a budget."""
    dataset = get_dataset_for(request, dataset_id)
    if asked.policy not in {each.value for each in Policy}:
        raise InvalidInput("policy", asked.policy, f"must be one of {', '.join(each.value for each in Policy)}")
    made = services.budgets.request_budget(
        dataset=dataset,
        epsilon=asked.epsilon,
        delta=asked.delta,
        policy=Policy(asked.policy),
        reason=asked.reason,
        by=signed_in(request),
    )
    return Status(201, answer_of_request(made))


@router.get("/datasets/{uuid:dataset_id}/budget-requests")
def list_budget_requests(request: HttpRequest, dataset_id: uuid.UUID, before: datetime | None = None) -> Any:
    """What was asked for, newest first, at most 100, and what a reviewer made of it; before a time, for the rest."""
    budget = get_dataset_for(request, dataset_id).budget
    if budget is None:
        return []
    shown = budget.requests.of_tables(budget.datasets.visible_to(request.user))
    return [answer_of_request(each) for each in newest(shown, by="requested_at", before=before)]


@router.post("/datasets/{uuid:dataset_id}/budget-requests/take-back")
def take_back_budget_request(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    """Ask no longer for what no reviewer has decided yet."""
    budget = get_dataset_for(request, dataset_id).budget
    waiting = None
    if budget is not None:
        shown = budget.requests.of_tables(budget.datasets.visible_to(request.user))
        waiting = shown.filter(state=RequestState.WAITING).first()
    if waiting is None:
        raise services.release_inputs.Refusal("No request waits for a reviewer.")
    services.budgets.take_back_request(request=waiting, by=signed_in(request))
    return answer_of_request(waiting)


@router.put("/datasets/{uuid:dataset_id}/population")
def join_population(request: HttpRequest, dataset_id: uuid.UUID, joined: PopulationIn) -> Any:
    """Say that the table is about the people of another: from then on both spend from one budget."""
    dataset = get_dataset_for(request, dataset_id)
    services.datasets.join_population(
        dataset=dataset, other=get_dataset_for(request, joined.other), by=signed_in(request)
    )
    return answer_of_dataset(get_dataset_for(request, dataset_id))


def _upload(upload: Upload) -> dict[str, Any]:
    return {
        "id": str(upload.pk),
        "title": upload.title,
        "state": upload.state,
        "meaning": upload.meaning,
        "step": upload.step,
        "share_done": upload.share_done,
        "refusal": upload.refusal,
        "dataset": str(upload.dataset_id) if upload.dataset_id else None,
    }
