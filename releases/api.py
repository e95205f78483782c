"""The REST API: the same services as the pages, for programs.

A program signs in with a token (`Authorization: Bearer ...`), made and revoked on its owner's page; a page's own script
with the session's cookie and the CSRF token. Objects one may not see are a 404, as on the pages. What is wrong with a
value is answered with 400 and its field, value and rule; what cannot be done now, with 409 and the reason.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from django.contrib.auth.models import User
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.core.paginator import Paginator
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.timezone import localtime
from ninja import Body, File, Form, Query, Schema, Status
from ninja.files import UploadedFile
from ninja.security import HttpBearer, django_auth

from releases import descriptions, ledger, planning, services, spending
from releases.api_errors import Api, TextParser, answer_in_json
from releases.archive import download_names
from releases.engine import universe
from releases.engine.errors import EngineError, InvalidInput
from releases.engine.filters import Policy
from releases.engine.ingest import UnreadableTable
from releases.engine.mechanisms.base import mechanisms
from releases.models import (
    Audience,
    BudgetRequest,
    Dataset,
    LedgerEntry,
    Release,
    ReleaseRequest,
    Session,
    TokenScope,
    Upload,
)
from releases.receipt import spent
from releases.views.access import (
    get_dataset_for,
    get_own_release_for,
    get_own_session_for,
    get_release_for,
    get_session_for,
    get_upload_for,
)
from releases.views.catalogue import Listed, found_in_catalogue, listed
from releases.views.certificates import certificates_of
from releases.views.downloads import file_of_release
from releases.views.sessions import transcript

#: Releases in one answer; older ones are asked for by the time of the last.
MOST_LISTED = 100
#: Public releases in one page of the catalogue.
MOST_CATALOGUED = 50


class TokenAuth(HttpBearer):
    """Signs in the owner of a token that was not revoked and has not ended."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        found = services.use_token(token)
        if found is None:
            return None
        if found.is_ended and found.ends_at is not None:
            on = localtime(found.ends_at)
            ended = f"The token “{found.name}” ended on {on:%Y-%m-%d}. Make another under Tokens for programs."
            raise TokenRefused(401, ended)
        if found.scope == TokenScope.READ and request.method not in _READING:
            raise TokenRefused(403, f"The token “{found.name}” is for reading only, and this would change something.")
        request.user = found.user
        return found.user


class TokenRefused(Exception):
    """A token that is known and does not open what was asked for. The text is for its owner."""

    def __init__(self, status: int, said: str) -> None:
        self.status = status
        super().__init__(said)


#: Every operation that changes something has another.
_READING = ("GET", "HEAD", "OPTIONS")


api = Api(
    parser=TextParser(),
    title="dpweb",
    version="1",
    auth=[TokenAuth(), django_auth],
    docs_url=None,  # its page would load scripts from elsewhere
    urls_namespace="api",
)


# What comes in


class TitleIn(Schema):
    title: str


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


class CertificateIn(Schema):
    epsilon: str
    delta: str = "0"
    beta: str = "0.05"
    what: str = ""


class SubmitIn(Schema):
    key: uuid.UUID
    reason: str = ""


class VisibilityIn(Schema):
    public: bool


class PopulationIn(Schema):
    other: uuid.UUID


class SessionIn(Schema):
    epsilon: str
    delta: str = "0"
    beta: str = "0.05"
    options: dict[str, Any] = {}
    columns: list[str] = []
    title: str = ""


class QuestionIn(Schema):
    query: dict[str, Any]


class AudienceIn(Schema):
    audience: str


# What is public


@api.get("/catalogue", auth=None)
def show_catalogue(request: HttpRequest, q: str = "", page: Annotated[int, Query(ge=1)] = 1) -> Any:
    """The releases that everybody may read and download, the newest first; no token is needed.

    Searched by all words of `q`, in any order, in titles, datasets and columns. A page beyond the last is empty.
    """
    paginator = Paginator(found_in_catalogue(q).with_files().with_cost(), MOST_CATALOGUED)
    shown = listed(paginator.page(page)) if page <= paginator.num_pages else []
    return {
        "count": paginator.count,
        "page": page,
        "pages": paginator.num_pages,
        "releases": [_catalogued(request, each) for each in shown],
    }


# Datasets


@api.get("/datasets")
def list_datasets(request: HttpRequest) -> Any:
    """The datasets one may work on."""
    found = list(Dataset.objects.visible_to(request.user).select_related("budget").order_by("-created_at"))
    budgets = {each.budget.pk: each.budget for each in found if each.budget is not None}
    rows = {row.budget.pk: row for row in spending.standings(budgets.values())}
    return [_dataset(each, rows[each.budget.pk] if each.budget is not None else None) for each in found]


@api.post("/datasets", response={202: Any})
def upload_dataset(request: HttpRequest, title: Form[str], table: File[UploadedFile]) -> Any:
    """Upload a CSV or Parquet file, which a worker reads. The dataset gets the identifier of the upload."""
    assert isinstance(table, TemporaryUploadedFile)
    source = Path(table.temporary_file_path())
    return Status(202, _upload(services.receive_upload(owner=_person(request), title=title, source=source)))


@api.get("/uploads/{uuid:upload_id}")
def show_upload(request: HttpRequest, upload_id: uuid.UUID) -> Any:
    """How far a table that one sent is, why it was refused, or which dataset it is now."""
    return _upload(get_upload_for(request, upload_id))


@api.delete("/uploads/{uuid:upload_id}", response={204: None})
def discard_upload(request: HttpRequest, upload_id: uuid.UUID) -> Any:
    """Stop an upload, or put one away that was refused or has failed. Its file is deleted."""
    services.discard_upload(upload=get_upload_for(request, upload_id))
    return Status(204, None)


@api.get("/datasets/{uuid:dataset_id}")
def show_dataset(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    return _dataset(get_dataset_for(request, dataset_id))


@api.put("/datasets/{uuid:dataset_id}/title")
def rename_dataset(request: HttpRequest, dataset_id: uuid.UUID, named: TitleIn) -> Any:
    """Call a dataset something else."""
    services.rename_dataset(dataset=get_dataset_for(request, dataset_id), title=named.title, by=_person(request))
    return _dataset(get_dataset_for(request, dataset_id))


@api.delete("/datasets/{uuid:dataset_id}", response={204: None})
def discard_dataset(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    """Forget a table that nothing was charged for, with its drafts and its file."""
    services.discard_dataset(dataset=get_dataset_for(request, dataset_id), by=_person(request))
    return Status(204, None)


@api.delete("/datasets/{uuid:dataset_id}/rows", response={204: None})
def delete_rows(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    """Delete a table's file for good; its releases, its charges and its fingerprint stay."""
    services.delete_rows(dataset=get_dataset_for(request, dataset_id), by=_person(request))
    return Status(204, None)


@api.put("/datasets/{uuid:dataset_id}/schema")
def declare_schema(request: HttpRequest, dataset_id: uuid.UUID, declared: Body[dict[str, Any]]) -> Any:
    """Declare columns, unit and neighbours, in the schema format; with `description` and `unit` of columns, and
    `description` of the table, where something is to be said to readers."""
    dataset = get_dataset_for(request, dataset_id)
    said = descriptions.apart(declared)
    read = universe.Schema.from_json(said.schema)
    with transaction.atomic():
        services.declare_universe(dataset=dataset, columns=read.to_json()["columns"], by=_person(request))
        services.declare_protection(dataset=dataset, unit=read.unit, neighbours=read.neighbours, by=_person(request))
        services.describe_dataset(dataset=dataset, notes=said.notes, description=said.description, by=_person(request))
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
    return Status(201, _request(made))


@api.get("/datasets/{uuid:dataset_id}/budget-requests")
def list_budget_requests(request: HttpRequest, dataset_id: uuid.UUID) -> Any:
    """What was asked for, newest first, and what a reviewer made of it."""
    budget = get_dataset_for(request, dataset_id).budget
    return [_request(each) for each in budget.requests.order_by("-requested_at")] if budget else []


@api.put("/datasets/{uuid:dataset_id}/population")
def join_population(request: HttpRequest, dataset_id: uuid.UUID, joined: PopulationIn) -> Any:
    """Say that the table is about the people of another: from then on both spend from one budget."""
    dataset = get_dataset_for(request, dataset_id)
    services.join_population(dataset=dataset, other=get_dataset_for(request, joined.other), by=_person(request))
    return _dataset(get_dataset_for(request, dataset_id))


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
        if each.is_offered
    ]


@api.post("/datasets/{uuid:dataset_id}/releases", response={201: Any})
def draft_release(request: HttpRequest, dataset_id: uuid.UUID, asked: ReleaseIn) -> Any:
    """Plan a release: nothing is spent and no data are touched. Answers with every mechanism's plan."""
    dataset = get_dataset_for(request, dataset_id)
    if dataset.schema is None:
        raise services.Refusal("Declare the columns and the protection first.")
    with transaction.atomic():
        release = services.draft_release(dataset=dataset, by=_person(request), title=asked.title)
        _fill(release, asked)
    return Status(201, _with_plans(request, release))


@api.get("/releases")
def list_releases(request: HttpRequest, before: datetime | None = None) -> Any:
    """The newest releases of the datasets one may work on; those made before a time, for the next part of the list."""
    listed = Release.objects.for_list(request.user)
    if before is not None:
        listed = listed.filter(created_at__lt=before)
    return [
        {
            "id": str(each.pk),
            "title": each.title,
            "dataset": str(each.dataset_id),
            "state": each.state,
            "is_session": each.is_session,
            "is_public": each.is_public,
            "created_at": each.created_at,
        }
        for each in listed[:MOST_LISTED]
    ]


@api.put("/releases/{uuid:release_id}")
def change_draft(request: HttpRequest, release_id: uuid.UUID, asked: ReleaseIn) -> Any:
    """Plan a draft anew. Answers as a new draft is answered."""
    release = get_own_release_for(request, release_id)
    if release.is_session:
        raise services.Refusal("It is the draft of a session; discard it and draft another.")
    with transaction.atomic():
        _fill(release, asked)
    return _with_plans(request, release)


@api.delete("/releases/{uuid:release_id}", response={204: None})
def discard_draft(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """Discard a draft. Nothing was spent on it."""
    services.discard_draft(release=get_own_release_for(request, release_id), by=_person(request))
    return Status(204, None)


@api.get("/releases/{uuid:release_id}")
def show_release(request: HttpRequest, release_id: uuid.UUID) -> Any:
    release = get_release_for(request, release_id)
    # What a reviewer wrote is for the dataset's people, not for every reader of a public release.
    return _release(request, release, is_own=Release.objects.editable_by(request.user).filter(pk=release.pk).exists())


@api.post("/releases/{uuid:release_id}/submit", response={202: Any})
def submit_release(request: HttpRequest, release_id: uuid.UUID, submitted: SubmitIn) -> Any:
    """Charge the budget and queue the release. The same key again charges nothing again.

    Where the organisation wants a review first, nothing is charged. Reviewers read the reason, before or afterwards.
    """
    release = get_own_release_for(request, release_id)
    services.submit_release(release=release, key=submitted.key, by=_person(request), reason=submitted.reason)
    release.refresh_from_db()
    return Status(202, _release(request, release))


@api.post("/releases/{uuid:release_id}/cancel")
def cancel_release(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """Cancel what no worker has started and get the charge back, or take back what waits for a reviewer."""
    release = get_own_release_for(request, release_id)
    services.cancel_release(release=release, by=_person(request))
    return _release(request, release)


@api.post("/releases/{uuid:release_id}/visibility")
def set_visibility(request: HttpRequest, release_id: uuid.UUID, wanted: VisibilityIn) -> Any:
    """Let everybody read a published release, or the dataset's people only."""
    release = get_own_release_for(request, release_id)
    change = services.make_public if wanted.public else services.make_private
    change(release=release, by=_person(request))
    release.refresh_from_db()
    return _release(request, release)


@api.post("/releases/{uuid:release_id}/withdraw")
def withdraw_release(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """Show a published release no longer. The budget stays spent."""
    release = get_own_release_for(request, release_id)
    services.withdraw_release(release=release, by=_person(request))
    release.refresh_from_db()
    return _release(request, release)


@api.post("/releases/{uuid:release_id}/certificates", response={201: Any})
def draft_certificate(request: HttpRequest, release_id: uuid.UUID, asked: CertificateIn) -> Any:
    """Plan a certificate of a published release of counts: how far it is from the truth at most, measured with noise.

    Nothing is spent before the draft that is answered with is submitted, like any release.
    """
    of = get_own_release_for(request, release_id)
    draft = services.draft_certificate(of=of, by=_person(request), **asked.dict())
    (row,) = planning.compared([services.plan_of(release=draft)], budget=of.dataset.budget)
    return Status(201, {**_release(request, draft), "plan": _plan(row)})


@api.get("/releases/{uuid:release_id}/receipt")
def show_receipt(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """The receipt as it was published, and what was certified of the release since."""
    release = get_release_for(request, release_id)
    return {
        **_result(release)["receipt"],
        "certificates": [each.to_json() for each in certificates_of(request, release)],
    }


@api.get("/releases/{uuid:release_id}/files/{name}")
def download_file(request: HttpRequest, release_id: uuid.UUID, name: str) -> HttpResponseBase:
    """One of the files that the release lists."""
    return file_of_release(request, release_id, name)


# Live sessions


@api.post("/datasets/{uuid:dataset_id}/sessions", response={201: Any})
def draft_session(request: HttpRequest, dataset_id: uuid.UUID, asked: SessionIn) -> Any:
    """Plan a session: nothing is spent. It is submitted as a release, and opened by a worker under that one charge."""
    dataset = get_dataset_for(request, dataset_id)
    release = services.draft_session(
        dataset=dataset,
        by=_person(request),
        title=asked.title,
        epsilon=asked.epsilon,
        delta=asked.delta,
        beta=asked.beta,
        options=asked.options,
        columns=asked.columns,
    )
    plans = planning.compared([services.plan_of(release=release)], budget=dataset.budget)
    return Status(201, {**_release(request, release), "plans": [_plan(row) for row in plans]})


@api.get("/sessions/{uuid:release_id}")
def show_session(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """How many questions and updates are left."""
    return _session(get_session_for(request, release_id))


@api.post("/sessions/{uuid:release_id}/questions")
def ask_session(request: HttpRequest, release_id: uuid.UUID, asked: QuestionIn) -> Any:
    """Ask how many rows meet a condition, as in the workload format. Asking costs nothing more."""
    live = get_session_for(request, release_id)
    answered = services.ask_session(session=live, query=asked.query, by=_person(request))
    return {
        "number": answered.sequence,
        "estimate": answered.exchange.estimate,
        "half_width": answered.exchange.half_width,
        "answered": answered.exchange.kind.value,
        "updates_left": answered.updates_left,
        "questions_left": answered.questions_left,
    }


@api.put("/sessions/{uuid:release_id}/audience")
def set_audience(request: HttpRequest, release_id: uuid.UUID, wanted: AudienceIn) -> Any:
    """Say who may ask."""
    live = get_own_session_for(request, release_id)
    if wanted.audience not in Audience.values:
        raise InvalidInput("audience", wanted.audience, f"must be one of {', '.join(Audience.values)}")
    services.let_ask(session=live, audience=Audience(wanted.audience), by=_person(request))
    live.refresh_from_db()
    return _session(live)


@api.post("/sessions/{uuid:release_id}/close")
def close_session(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """End the asking. The session is closing until a worker has published what was answered; follow it as a release."""
    live = get_own_session_for(request, release_id)
    return _release(request, services.close_session(session=live, by=_person(request)))


@api.get("/sessions/{uuid:release_id}/transcript")
def show_transcript(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """Every question and answer so far."""
    services.plan_of_session(get_session_for(request, release_id))
    return transcript(request, release_id, form="json")


# What goes out


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


def _request(asked: BudgetRequest | ReleaseRequest) -> dict[str, Any]:
    return {
        "state": asked.state,
        "epsilon": asked.epsilon,
        "delta": asked.delta,
        "granted_epsilon": asked.granted_epsilon,
        "granted_delta": asked.granted_delta,
        "note": asked.note,
    }


def _catalogued(request: HttpRequest, each: Listed) -> dict[str, Any]:
    release: Any = each.release
    address = _address(request, release)
    bound = {part: getattr(release, f"bound_{part}") for part in ("alpha", "beta", "says", "proof")}
    return {
        "id": str(release.pk),
        "title": release.title,
        "dataset": release.dataset.title,
        "mechanism": release.mechanism,
        "is_session": release.is_session,
        # What was charged, in the form that is said first: a pure release spends none of the delta that it was allowed.
        "epsilon": "",
        "delta": "",
        **spent({"cost": release.cost}),
        "bound": bound if bound["alpha"] is not None else None,
        "published_at": release.published_at,
        "address": address,
        "files": {name: f"{address}files/{name}" for name in download_names({"files": release.published_files})},
        "certificates": [
            {"id": str(one.release.pk), "says": one.says, "confidence": one.confidence} for one in each.certificates
        ],
    }


def _session(live: Session) -> dict[str, Any]:
    standing = services.standing(live, services.plan_of_session(live))
    return {
        "id": str(live.pk),
        "title": live.release.title,
        "state": live.release.state,
        "audience": live.audience,
        "questions": standing.questions,
        "questions_left": standing.questions_left,
        "updates": standing.updates,
        "updates_left": standing.updates_left,
        "over": standing.over,
    }


def _fill(release: Release, asked: ReleaseIn) -> None:
    services.set_questions(release=release, workload=asked.workload)
    services.set_choice(
        release=release,
        epsilon=asked.epsilon,
        delta=asked.delta,
        beta=asked.beta,
        mechanism_name=asked.mechanism,
        options=asked.options,
        title=asked.title,
    )


def _with_plans(request: HttpRequest, release: Release) -> dict[str, Any]:
    release.refresh_from_db()
    plans = planning.compared(services.compare(release=release), budget=release.dataset.budget)
    return {**_release(request, release), "plans": [_plan(row) for row in plans]}


def _release(request: HttpRequest, release: Release, *, is_own: bool = True) -> dict[str, Any]:
    review = release.last_review if is_own else None
    own = {"epsilon": release.epsilon, "delta": release.delta, "cost": _cost(release)} if is_own else {}
    return {
        "id": str(release.pk),
        "title": release.title,
        "address": _address(request, release),
        **own,
        "dataset": str(release.dataset_id),
        "state": release.state,
        "meaning": release.meaning,
        "step": release.step,
        "share_done": release.share_done,
        "mechanism": release.mechanism,
        "is_session": release.is_session,
        "is_public": release.is_public,
        "review": _request(review) if review is not None else None,
        "files": download_names(release.result) if release.result else [],
        "certifies": str(release.certifies_id) if release.certifies_id else None,
    }


def _address(request: HttpRequest, release: Release) -> str:
    return request.build_absolute_uri(reverse("release_detail", args=[release.pk]))


def _cost(release: Release) -> dict[str, str] | None:
    """What was charged for a release, in each form; None where nothing is."""
    entry = LedgerEntry.objects.charges_that_stand().filter(release=release).first()
    return None if entry is None else spending.charge_amounts(entry)


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


answer_in_json(api)


@api.exception_handler(TokenRefused)
def _token_refused(request: HttpRequest, error: TokenRefused) -> HttpResponse:
    return api.create_response(request, {"message": str(error)}, status=error.status)


def _refused(request: HttpRequest, error: Any) -> HttpResponse:
    return api.create_response(request, {"message": str(error)}, status=409)


for _kind in (services.Refusal, services.Kept, ledger.LedgerRefusal, EngineError, UnreadableTable):
    api.add_exception_handler(_kind, _refused)


#: For the site's table of contents. Programs are told 401, where pages send people to sign in.
api_urls = api.urls
for _pattern in api_urls[0]:
    _pattern.callback.login_required = False  # type: ignore[union-attr]
