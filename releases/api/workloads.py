"""Workloads: questions saved under a name, read, edited, shared, and held against a dataset's columns."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema, Status

from releases import services
from releases.api.datasets import GroupIn
from releases.api.paging import newest
from releases.api.releases import PlanIn, choose, with_plans
from releases.engine.errors import InvalidInput
from releases.models import Release, ReleaseState, SavedWorkload, WorkloadVersion
from releases.permissions import get_dataset_for, get_own_release_for, get_workload_for, own_group, signed_in

router = Router()


class WorkloadIn(Schema):
    release: uuid.UUID
    name: str
    description: str = ""
    group: str | None = None


class ChangeIn(Schema):
    since: int
    name: str | None = None
    description: str | None = None
    workload: dict[str, Any] | None = None


class VersionIn(Schema):
    release: uuid.UUID


class UseIn(PlanIn):
    """A dataset, its columns for those of the workload that are called otherwise there, and the release's plan."""

    dataset: uuid.UUID
    version: int | None = None
    columns: dict[str, str] = {}


@router.get("/workloads")
def list_workloads(request: HttpRequest, before: datetime | None = None) -> Any:
    """The newest workloads that one owns or shares, at most 100; those made before a time, for the next part."""
    found = newest(SavedWorkload.objects.for_list(request.user), by="created_at", before=before)
    return [{**_named(each), "version": each.newest} for each in found]  # type: ignore[attr-defined]


@router.post("/workloads", response={201: Any})
def save_workload(request: HttpRequest, asked: WorkloadIn) -> Any:
    """Save what a draft or a release asks as a new workload."""
    person = signed_in(request)
    workload = services.workloads.save_workload(
        release=get_own_release_for(request, asked.release),
        name=asked.name,
        description=asked.description,
        group=own_group(person, asked.group),
        by=person,
    )
    return Status(201, _workload(workload, workload.latest))


@router.get("/workloads/{uuid:workload_id}")
def show_workload(request: HttpRequest, workload_id: uuid.UUID, version: int | None = None) -> Any:
    """What it asks and the columns it needs, in its newest version or the one of a number."""
    workload = get_workload_for(request, workload_id)
    return _workload(workload, _version(workload, version))


@router.put("/workloads/{uuid:workload_id}")
def edit_workload(request: HttpRequest, workload_id: uuid.UUID, change: ChangeIn) -> Any:
    """Change the name, the description or the questions; `since` is the number of the version that was read.

    Other questions make the next version. No release changes by it.
    """
    workload = get_workload_for(request, workload_id)
    version = services.workloads.edit_workload(
        workload=workload,
        by=signed_in(request),
        since=change.since,
        name=change.name,
        description=change.description,
        questions=change.workload,
    )
    return _workload(get_workload_for(request, workload_id), version)


@router.delete("/workloads/{uuid:workload_id}", response={204: None})
def discard_workload(request: HttpRequest, workload_id: uuid.UUID) -> Any:
    """Delete a workload of one's own that no release was submitted with."""
    services.workloads.discard_workload(workload=get_workload_for(request, workload_id), by=signed_in(request))
    return Status(204, None)


@router.put("/workloads/{uuid:workload_id}/group")
def share_workload(request: HttpRequest, workload_id: uuid.UUID, shared: GroupIn) -> Any:
    """Let a group of one's own, by its name, use and edit a workload; null takes it back."""
    person, workload = signed_in(request), get_workload_for(request, workload_id)
    services.workloads.share_workload(workload=workload, group=own_group(person, shared.group), by=person)
    return _workload(workload, workload.latest)


@router.post("/workloads/{uuid:workload_id}/versions", response={201: Any})
def save_workload_version(request: HttpRequest, workload_id: uuid.UUID, asked: VersionIn) -> Any:
    """Save what a draft or a release asks as the next version; the newest again, where it asks the same."""
    workload, release = get_workload_for(request, workload_id), get_own_release_for(request, asked.release)
    version = services.workloads.save_version(workload=workload, release=release, by=signed_in(request))
    return Status(201, _workload(workload, version))


@router.get("/workloads/{uuid:workload_id}/releases")
def list_workload_releases(request: HttpRequest, workload_id: uuid.UUID, before: datetime | None = None) -> Any:
    """The submitted releases that one may read, newest first, at most 100, with the error bounds of published ones."""
    workload = get_workload_for(request, workload_id)
    found = Release.objects.for_workload(workload, request.user)
    return [_release(each) for each in newest(found, by="created_at", before=before)]


@router.post("/workloads/{uuid:workload_id}/releases", response={201: Any})
def use_workload(request: HttpRequest, workload_id: uuid.UUID, asked: UseIn) -> Any:
    """Draft a release of a dataset that asks what a workload asks. Nothing is spent. Answers with every plan."""
    version = _version(get_workload_for(request, workload_id), asked.version)
    dataset = get_dataset_for(request, asked.dataset)
    with services.planned_transactions.planned_atomically():
        release = services.workloads.use_workload(
            version=version, dataset=dataset, columns=asked.columns, title=asked.title, by=signed_in(request)
        )
        choose(release, asked)
    return Status(201, with_plans(request, release))


@router.get("/workloads/{uuid:workload_id}/fit/{uuid:dataset_id}")
def fit_workload(request: HttpRequest, workload_id: uuid.UUID, dataset_id: uuid.UUID, columns: str = "{}") -> Any:
    """For each column that a workload needs, whether the dataset has one that fits, and if not, why.

    `columns` is a JSON object from the workload's columns to the dataset's, for those of another name.
    """
    version = get_workload_for(request, workload_id).latest
    dataset = get_dataset_for(request, dataset_id)
    if dataset.universe is None:
        raise services.release_inputs.Refusal("Declare the dataset's columns first.")
    fits = services.workloads.column_fits(version, dataset.universe, _columns(columns))
    suggested = services.workloads.suggested_columns(version, dataset.universe)
    return [
        {
            "needs": each.needed.to_json(),
            "column": each.column,
            "fits": not each.reason,
            "why_not": each.reason,
            "is_declared_alike": each.is_declared_alike,
            "suggested": suggested[each.needed.name],
        }
        for each in fits
    ]


def _version(workload: SavedWorkload, number: int | None) -> WorkloadVersion:
    """The version of a number; the newest where none is given.

    Raises:
        InvalidInput: there is none of that number.
    """
    if number is None:
        return workload.latest
    found = workload.versions.filter(number=number).first() if 0 < number < 2**31 else None
    if found is None:
        raise InvalidInput("version", number, f"must be from 1 to {workload.latest.number}")
    return found


def _columns(text: str) -> dict[str, str]:
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    if not isinstance(read, dict) or not all(isinstance(each, str) for each in read.values()):
        raise InvalidInput("columns", text, "must be a JSON object from names to names")
    return read


def _named(workload: SavedWorkload) -> dict[str, Any]:
    return {
        "id": str(workload.pk),
        "name": workload.name,
        "description": workload.description,
        "owner": str(workload.owner),
        "group": workload.group.name if workload.group else None,
        "created_at": workload.created_at.isoformat(),
    }


def _workload(workload: SavedWorkload, version: WorkloadVersion) -> dict[str, Any]:
    return {
        **_named(workload),
        "version": version.number,
        "workload": version.questions,
        "columns": [each.to_json() for each in version.needed.attributes],
    }


def _release(release: Any) -> dict[str, Any]:
    is_published = release.status is ReleaseState.PUBLISHED
    names = ("alpha", "beta", "says", "proof")
    return {
        "id": str(release.pk),
        "title": release.title,
        "dataset": release.dataset.title,
        "version": release.workload_version.number,
        "state": release.shown_state,
        "epsilon": release.epsilon,
        "created_at": release.created_at.isoformat(),
        "published_at": release.published_at.date().isoformat() if is_published else None,
        "bound": {name: getattr(release, f"bound_{name}") for name in names} if is_published else None,
    }
