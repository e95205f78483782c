"""The REST API: the same services as the pages, for programs.

A program signs in with a token (`Authorization: Bearer ...`), made and revoked on its owner's page; a page's own script
with the session's cookie and the CSRF token. Objects one may not see are a 404, as on the pages. What is wrong with a
value is answered with 400 and its field, value and rule; what cannot be done now, with 409 and the reason.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.db import transaction
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from ninja import Body, File, Form, NinjaAPI, Schema, Status
from ninja.errors import ValidationError
from ninja.files import UploadedFile
from ninja.security import HttpBearer, django_auth

from releases import ledger, planning, services
from releases.engine import universe
from releases.engine.errors import EngineError, InvalidInput
from releases.engine.filters import Policy
from releases.engine.ingest import UnreadableTable
from releases.engine.mechanisms.base import mechanisms
from releases.models import Dataset, Release
from releases.views.access import get_dataset_for, get_own_release_for, get_release_for
from releases.views.releases import download


class TokenAuth(HttpBearer):
    """Signs in the owner of a token that was not revoked."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        owner = services.owner_of_token(token)
        if owner is not None:
            request.user = owner
        return owner


api = NinjaAPI(
    title="dpweb",
    version="1",
    auth=[TokenAuth(), django_auth],
    docs_url=None,  # its page would load scripts from elsewhere
    urls_namespace="api",
)


# What comes in


class BudgetIn(Schema):
    epsilon: str
    delta: str = "0"
    policy: str = Policy.ZCDP.value
    reason: str = ""


class ReleaseIn(Schema):
    workload: dict[str, Any]
    epsilon: str
    delta: str = "0"
    beta: str = "0.05"
    mechanism: str = ""
    options: dict[str, Any] = {}
    title: str = ""


class SubmitIn(Schema):
    key: uuid.UUID


# Datasets


@api.get("/datasets")
def list_datasets(request: HttpRequest) -> Any:
    """The datasets one may work on."""
    found = Dataset.objects.visible_to(request.user).select_related("budget").order_by("-created_at")
    return [_dataset(each) for each in found]


@api.post("/datasets", response={201: Any})
def upload_dataset(request: HttpRequest, title: Form[str], table: File[UploadedFile]) -> Any:
    """Upload a CSV or Parquet file."""
    assert isinstance(table, TemporaryUploadedFile)
    source = Path(table.temporary_file_path())
    return Status(201, _dataset(services.ingest_dataset(owner=_person(request), title=title, source=source)))


@api.get("/datasets/{uuid:dataset_id}")
def show_dataset(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    return _dataset(get_dataset_for(request, dataset_id))


@api.put("/datasets/{uuid:dataset_id}/schema")
def declare_schema(request: HttpRequest, dataset_id: uuid.UUID, declared: Body[dict[str, Any]]) -> Any:
    """Declare columns, unit and neighbours, in the schema format."""
    dataset = get_dataset_for(request, dataset_id)
    read = universe.Schema.from_json(declared)
    with transaction.atomic():
        services.declare_universe(dataset=dataset, columns=read.to_json()["columns"], by=_person(request))
        services.declare_protection(dataset=dataset, unit=read.unit, neighbours=read.neighbours, by=_person(request))
    return _dataset(get_dataset_for(request, dataset_id))


@api.post("/datasets/{uuid:dataset_id}/budget-requests", response={201: Any})
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
        by=_person(request),
    )
    return Status(201, {"state": made.state})


# Releases


@api.get("/mechanisms")
def list_mechanisms(request: HttpRequest) -> Any:  # noqa: ARG001  the framework passes it
    return [
        {
            "name": each.name,
            "title": each.title,
            "summary": each.summary,
            "source": each.source,
            "answers": [kind.kind for kind in each.answers] or ["counts"],
            "options": [
                {"name": option.name, "help": option.help, "default": option.default} for option in each.options
            ],
        }
        for each in mechanisms().values()
    ]


@api.post("/datasets/{uuid:dataset_id}/releases", response={201: Any})
def draft_release(request: HttpRequest, dataset_id: uuid.UUID, asked: ReleaseIn) -> Any:
    """Plan a release: nothing is spent and no data are touched. Answers with every mechanism's plan."""
    dataset = get_dataset_for(request, dataset_id)
    if dataset.schema is None:
        raise services.Refusal("Declare the columns and the protection first.")
    with transaction.atomic():
        release = services.draft_release(dataset=dataset, by=_person(request), title=asked.title)
        services.set_questions(release=release, workload=asked.workload)
        services.set_choice(
            release=release,
            epsilon=asked.epsilon,
            delta=asked.delta,
            beta=asked.beta,
            mechanism_name=asked.mechanism,
            options=asked.options,
        )
    release.refresh_from_db()
    plans = [_plan(row) for row in planning.compared(services.compare(release=release), budget=dataset.budget)]
    return Status(201, {**_release(release), "plans": plans})


@api.get("/releases/{uuid:release_id}")
def show_release(request: HttpRequest, release_id: uuid.UUID) -> Any:
    return _release(get_release_for(request, release_id))


@api.post("/releases/{uuid:release_id}/submit", response={202: Any})
def submit_release(request: HttpRequest, release_id: uuid.UUID, submitted: SubmitIn) -> Any:
    """Charge the budget and queue the release. The same key again charges nothing again."""
    release = get_own_release_for(request, release_id)
    services.submit_release(release=release, key=submitted.key, by=_person(request))
    release.refresh_from_db()
    return Status(202, _release(release))


@api.get("/releases/{uuid:release_id}/receipt")
def show_receipt(request: HttpRequest, release_id: uuid.UUID) -> Any:
    return _result(get_release_for(request, release_id))["receipt"]


@api.get("/releases/{uuid:release_id}/files/{name}")
def download_file(request: HttpRequest, release_id: uuid.UUID, name: str) -> FileResponse:
    """One of the files that the release lists."""
    return download(request, release_id, name)


# What goes out


def _dataset(dataset: Dataset) -> dict[str, Any]:
    budget = dataset.budget
    return {
        "id": str(dataset.pk),
        "title": dataset.title,
        "columns": dataset.columns,
        "schema": dataset.schema.to_json() if dataset.schema is not None else None,
        "budget": None
        if budget is None
        else {"epsilon": budget.epsilon, "delta": budget.delta, "policy": budget.policy, "is_frozen": budget.is_frozen},
    }


def _release(release: Release) -> dict[str, Any]:
    return {
        "id": str(release.pk),
        "title": release.title,
        "dataset": str(release.dataset_id),
        "state": release.state,
        "meaning": release.status.meaning,
        "step": release.step,
        "share_done": release.share_done,
        "mechanism": release.mechanism,
        "files": list(release.result["files"]) if release.result else [],
    }


def _plan(row: planning.ComparedPlan) -> dict[str, Any]:
    return {
        "mechanism": row.plan.mechanism,
        "why_not": row.why_not,
        "bound": row.bound.to_json() if row.bound else None,
        "says": row.sentence if row.can_be_chosen else "",
        "cost": row.cost,
        "seconds": row.plan.work.seconds,
        "bytes": row.plan.work.bytes,
        "parameters": dict(row.plan.parameters),
    }


def _result(release: Release) -> dict[str, Any]:
    if release.result is None:
        raise Http404
    result: dict[str, Any] = release.result
    return result


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


# What is refused


@api.exception_handler(InvalidInput)
def _invalid(request: HttpRequest, error: InvalidInput) -> HttpResponse:
    said = {"field": error.field, "value": str(error.value)[:200], "rule": error.rule, "message": str(error)}
    return api.create_response(request, said, status=400)


@api.exception_handler(ValidationError)
def _unreadable(request: HttpRequest, error: ValidationError) -> HttpResponse:
    wrong = error.errors[0]
    field = ".".join(str(part) for part in wrong["loc"][1:])
    said = {"field": field, "rule": wrong["msg"], "message": f"{field}: {wrong['msg']}"}
    return api.create_response(request, said, status=400)


def _refused(request: HttpRequest, error: Any) -> HttpResponse:
    return api.create_response(request, {"message": str(error)}, status=409)


for _kind in (services.Refusal, ledger.LedgerRefusal, EngineError, UnreadableTable):
    api.add_exception_handler(_kind, _refused)


#: For the site's table of contents. Programs are told 401, where pages send people to sign in.
api_urls = api.urls
for _pattern in api_urls[0]:
    _pattern.callback.login_required = False  # type: ignore[union-attr]
