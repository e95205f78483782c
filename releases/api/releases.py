"""Releases: drafted with their plans, submitted, and read."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.utils.timezone import localtime
from ninja import Router, Schema, Status
from ninja.errors import HttpError

from releases import services
from releases.api.answers import answer_of_plan, answer_of_release
from releases.api.paging import newest
from releases.engine.mechanisms.base import mechanisms
from releases.models import CHECK, PLAIN, SESSION, Release
from releases.permissions import (
    get_dataset_for,
    get_own_release_for,
    get_published_for,
    get_release_for,
    signed_in,
    taken_back,
)
from releases.planning import comparison
from releases.views.results.certificates import certificates_of, closer_of
from releases.views.results.downloads import file_of_release

router = Router()


class PlanIn(Schema):
    """How a release is to be made, whatever it asks."""

    epsilon: str
    delta: str = "0"
    beta: str = "0.05"
    mechanism: str = ""
    options: dict[str, Any] = {}
    title: str = ""


class ReleaseIn(PlanIn):
    workload: dict[str, Any]


class CertificateIn(Schema):
    epsilon: str
    delta: str = "0"
    beta: str = "0.05"
    what: str = ""
    means: list[str] = []


class SubmitIn(Schema):
    key: uuid.UUID
    reason: str = ""


class VisibilityIn(Schema):
    public: bool


@router.get("/mechanisms")
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


@router.post("/datasets/{uuid:dataset_id}/releases", response={201: Any})
def draft_release(request: HttpRequest, dataset_id: uuid.UUID, asked: ReleaseIn) -> Any:
    """Plan a release: nothing is spent and no data are touched. Answers with every mechanism's plan."""
    dataset = get_dataset_for(request, dataset_id)
    if dataset.schema is None:
        raise services.release_inputs.Refusal("Declare the columns and the protection first.")
    with services.planned_transactions.planned_atomically():
        kind = CHECK if asked.workload.get("states") is True else PLAIN
        release = services.releases.draft_release(dataset=dataset, by=signed_in(request), title=asked.title, kind=kind)
        _fill(release, asked)
    return Status(201, with_plans(request, release))


@router.get("/releases")
def list_releases(request: HttpRequest, before: datetime | None = None) -> Any:
    """The newest releases of the datasets one may work on; those made before a time, for the next part of the list."""
    return [
        {
            "id": str(each.pk),
            "title": each.title,
            "dataset": str(each.dataset_id),
            "state": each.state,
            "is_session": each.kind.is_interactive,
            "is_public": each.is_public,
            "created_at": each.created_at.isoformat(),  # to the microsecond: the next part begins before the last
        }
        for each in newest(Release.objects.for_list(request.user), by="created_at", before=before)
    ]


@router.put("/releases/{uuid:release_id}")
def change_draft(request: HttpRequest, release_id: uuid.UUID, asked: ReleaseIn) -> Any:
    """Plan a draft again. Answers as a new draft is answered."""
    release = get_own_release_for(request, release_id)
    if release.kind is SESSION:
        raise services.release_inputs.Refusal("It is the draft of a session; discard it and draft another.")
    with services.planned_transactions.planned_atomically():
        _fill(release, asked)
    return with_plans(request, release)


@router.delete("/releases/{uuid:release_id}", response={204: None})
def discard_draft(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """Discard a draft. Nothing was spent on it."""
    services.releases.discard_draft(release=get_own_release_for(request, release_id), by=signed_in(request))
    return Status(204, None)


@router.get("/releases/{uuid:release_id}")
def show_release(request: HttpRequest, release_id: uuid.UUID) -> Any:
    with _says_if_gone(release_id):
        release = get_release_for(request, release_id)
    # What a reviewer wrote is for the dataset's people, not for every reader of a public release.
    return answer_of_release(
        request, release, is_own=Release.objects.editable_by(request.user).filter(pk=release.pk).exists()
    )


@router.post("/releases/{uuid:release_id}/submit", response={202: Any})
def submit_release(request: HttpRequest, release_id: uuid.UUID, submitted: SubmitIn) -> Any:
    """Charge the budget and queue the release. The same key again charges nothing again.

    Where the organisation wants a review first, nothing is charged. Reviewers read the reason, before or afterwards.
    """
    release = get_own_release_for(request, release_id)
    services.releases.submit_release(release=release, key=submitted.key, by=signed_in(request), reason=submitted.reason)
    release.refresh_from_db()
    return Status(202, answer_of_release(request, release))


@router.post("/releases/{uuid:release_id}/cancel")
def cancel_release(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """Cancel what no worker has started and get the charge back, or take back what waits for a reviewer."""
    release = get_own_release_for(request, release_id)
    services.releases.cancel_release(release=release, by=signed_in(request))
    return answer_of_release(request, release)


@router.post("/releases/{uuid:release_id}/visibility")
def set_visibility(request: HttpRequest, release_id: uuid.UUID, wanted: VisibilityIn) -> Any:
    """Let everybody read a published release, or the dataset's people only."""
    release = get_own_release_for(request, release_id)
    change = services.releases.make_public if wanted.public else services.releases.make_private
    change(release=release, by=signed_in(request))
    release.refresh_from_db()
    return answer_of_release(request, release)


@router.post("/releases/{uuid:release_id}/withdraw")
def withdraw_release(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """Show a published release no longer. The budget stays spent."""
    release = get_own_release_for(request, release_id)
    services.releases.withdraw_release(release=release, by=signed_in(request))
    release.refresh_from_db()
    return answer_of_release(request, release)


@router.post("/releases/{uuid:release_id}/certificates", response={201: Any})
def draft_certificate(request: HttpRequest, release_id: uuid.UUID, asked: CertificateIn) -> Any:
    """Plan a certificate of a published release of counts: how far it is from the truth at most, measured with noise.

    Nothing is spent before the draft that is answered with is submitted, like any release.
    """
    of = get_own_release_for(request, release_id)
    draft = services.certificates.draft_certificate(of=of, by=signed_in(request), **asked.dict())
    (row,) = comparison.compared([services.releases.plan_of(release=draft)], budget=of.dataset.budget)
    return Status(201, {**answer_of_release(request, draft), "plan": answer_of_plan(row)})


@router.get("/releases/{uuid:release_id}/receipt")
def show_receipt(request: HttpRequest, release_id: uuid.UUID) -> Any:
    """The receipt as it was published, and what was certified of the release since."""
    with _says_if_gone(release_id):
        release = get_release_for(request, release_id)
    certificates = certificates_of(request, release)
    receipt = _result(release)["receipt"]
    closer = closer_of(release, certificates)
    return {
        **receipt,
        "certificates": [each.to_json() for each in certificates],
        "synthetic_rows_are_closer": closer.sentence if closer else "",
    }


@router.get("/releases/{uuid:release_id}/files/{name}")
def download_file(request: HttpRequest, release_id: uuid.UUID, name: str) -> HttpResponseBase:
    """One of the files that the release lists."""
    with _says_if_gone(release_id):
        get_published_for(request, release_id)
    return file_of_release(request, release_id, name)


@contextmanager
def _says_if_gone(release_id: uuid.UUID) -> Iterator[None]:
    """As the pages say it: whoever has cited a release may learn that it was taken back and since when, and no more."""
    try:
        yield
    except Http404:
        if (gone := taken_back(release_id)) is None:
            raise
        release, since = gone
        ended = "and was withdrawn on" if release.withdrawn_at else "until"
        on = f"{localtime(since):%Y-%m-%d}"
        raise HttpError(410, f"This release was public {ended} {on}. Its numbers are no longer given out.") from None


def _fill(release: Release, asked: ReleaseIn) -> None:
    services.releases.set_questions(release=release, workload=asked.workload)
    choose(release, asked)


def choose(release: Release, asked: PlanIn) -> None:
    """Set what a draft may spend and what it is run by."""
    services.releases.set_choice(
        release=release,
        epsilon=asked.epsilon,
        delta=asked.delta,
        beta=asked.beta,
        mechanism_name=asked.mechanism,
        options=asked.options,
        title=asked.title,
    )


def with_plans(request: HttpRequest, release: Release) -> dict[str, Any]:
    """A draft, and every mechanism's plan for it."""
    release.refresh_from_db()
    plans = comparison.compared(services.releases.compare(release=release), budget=release.dataset.budget)
    return {**answer_of_release(request, release), "plans": [answer_of_plan(row) for row in plans]}


def _result(release: Release) -> dict[str, Any]:
    if release.result is None:
        raise Http404
    result: dict[str, Any] = release.result
    return result
