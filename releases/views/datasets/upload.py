"""Data, first half: a table is sent, and read by a worker while its owner may watch or leave."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from releases import services
from releases.display.durations import duration
from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.engine.tables.facts import FileFacts, UnreadableTable
from releases.engine.tables.files.progress import seconds_foretold
from releases.forms.uploads import UploadForm, UploadLinkForm, link_again
from releases.middleware.body_limit import takes_a_table
from releases.middleware.upload_limit import refused_table
from releases.models import Organisation, Upload
from releases.models.role_rules import NotAllowed
from releases.permissions import get_upload_for, signed_in
from releases.presentation.releases.release_status import upload_progress
from releases.services.uploads import Room
from releases.views.common.wizard import frame

_HUNDRED_MEGABYTES = 100 * 10**6


@takes_a_table
def upload(request: HttpRequest) -> HttpResponse:
    """The form, for curators. What the first bytes tell is told here; all the rest by a worker."""
    person = signed_in(request)
    try:
        room, why_not = services.uploads.check_upload(person), ""
    except NotAllowed as refusal:
        return render(request, "403.html", {"why": in_words(refusal)}, status=403)
    except services.uploads.NoRoom as refusal:
        room, why_not = services.uploads.room_of(person), in_words(refusal)
    form = _sent(request) if request.method == "POST" else UploadForm(initial=UploadLinkForm(request.GET).given)
    if form.is_bound and form.is_valid() and (received := _received(person, form)) is not None:
        page = reverse("upload_detail", args=[received.pk])
        if request.headers.get("X-Requested-With") == "XMLHttpRequest":
            # A redirect would be followed by the script, and what the page says once would be said to nobody.
            return HttpResponse(status=201, headers={"Location": page})
        return redirect(page)
    has_databases = bool(services.connections.connections())
    # What was sent is answered with its own faults, and keeps its fields.
    why_not = "" if form.is_bound else why_not
    context = {"form": form, "why_not": why_not, "has_databases": has_databases, **_limits(room), **frame("data")}
    return render(request, "datasets/upload.html", context, status=400 if form.errors else 200)


def _limits(room: Room) -> dict[str, Any]:
    """How large a table may be, and how long reading one takes."""
    cap = Organisation.current().upload_cap_bytes
    return {
        "cap": _megabytes(cap),
        "cap_bytes": min(cap, room.left),
        "too_large": _too_large(cap, room),
        "room": room.in_words,
        "frees_room": services.uploads.FREES_ROOM,
        "csv_time": duration(seconds_foretold(_HUNDRED_MEGABYTES)),
        "parquet_time": duration(seconds_foretold(_HUNDRED_MEGABYTES, is_parquet=True)),
    }


def _sent(request: HttpRequest) -> UploadForm:
    """What was sent, with the reason where its table was refused before it was read to its end."""
    form = UploadForm(request.POST, request.FILES)
    if (refused := refused_table(request)) is not None:
        form.errors.pop("table", None)
        form.add_error("table", in_words(refused))
    return form


def _received(person: User, form: UploadForm) -> Upload | None:
    """The upload that now waits for a worker; None where it was refused, which the form then says."""
    given = form.cleaned_data
    sent = {"source": Path(given["table"].temporary_file_path()), "name": given["table"].name}
    try:
        return services.uploads.receive_upload(owner=person, title=given["title"], facts=given["facts"], **sent)
    except services.uploads.NoRoom as error:
        form.add_error("table", in_words(error))
    except UnreadableTable as error:
        form.add_error("table", f"{form.cleaned_data['table'].name}: {in_words(error)}")
    except InvalidInput as error:
        form.refuse(error)
    return None


def _too_large(cap: int, room: Room) -> str:
    """What is shown of a file that is larger than what is taken, before it is sent."""
    if room.left < cap:
        return f"It does not fit. {room.in_words} {services.uploads.FREES_ROOM}"
    return (
        f"It has more than {_megabytes(cap)}, the most that a table may have here. Write it as Parquet, which is far"
        " smaller than CSV, or leave out the columns that you will not ask about."
    )


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MB"


def upload_detail(request: HttpRequest, upload_id: uuid.UUID) -> HttpResponse:
    """How far it is, or why it was refused; once it is stored, what its columns can hold."""
    upload = get_upload_for(request, upload_id)
    if upload.dataset is not None:
        return redirect("columns", dataset_id=upload.dataset.pk)
    return render(request, "datasets/upload_detail.html", {**_status(upload), **frame("data")})


def upload_status(request: HttpRequest, upload_id: uuid.UUID) -> HttpResponse:
    """The fragment that an upload's page asks for until it is stored, refused or failed."""
    upload = get_upload_for(request, upload_id)
    response = render(request, "datasets/_upload_status.html", _status(upload))
    if upload.status.is_final:
        response["HX-Refresh"] = "true"
    return response


@require_POST
def discard_upload(request: HttpRequest, upload_id: uuid.UUID) -> HttpResponse:
    """Stop it, or put it away."""
    upload = get_upload_for(request, upload_id)
    try:
        services.uploads.discard_upload(upload=upload)
    except services.datasets.Kept as error:
        messages.error(request, in_words(error))
        return redirect("upload_detail", upload_id=upload.pk)
    if not upload.status.is_final:
        messages.success(request, f"{upload.title} was not stored, and the file was deleted.")
    return redirect("dataset_list")


def _status(upload: Upload) -> dict[str, object]:
    return {
        "upload": upload,
        "again": link_again(upload.title, FileFacts.from_json(upload.file_facts)),
        "progress": upload_progress(upload),
    }
