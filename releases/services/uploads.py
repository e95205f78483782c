"""Tables on their way in: received within a request, read by a worker, and a dataset in the end.

    receive      the request's file gets a name of its own beside its row; what the first bytes tell is told at once
    claim        waiting (or lapsed) -> reading, under a lease (see ``worker/leases.py``)
    store        reading with our token -> stored; the table gets its place and the dataset its row with it, or nothing
    reconcile    a lapsed lease goes back to those that wait; after the last attempt it has failed; files that belong to
                 nothing are deleted

The received file is deleted as soon as it is stored, refused, failed or discarded.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Sum
from django.utils import timezone

from releases.display.durations import Countdown
from releases.display.error_messages import in_words
from releases.engine.errors import Cancelled, InvalidInput
from releases.engine.tables.facts import FileFacts
from releases.engine.tables.files.kinds import PARQUET
from releases.models import Dataset, Upload, UploadState
from releases.models.role_rules import check_may_upload
from releases.notifications import messages
from releases.services import reading
from releases.services.datasets import Kept, keep_dataset, read_table, read_title, table_file, upload_limits
from releases.storage.private_files import FILE, private_folder
from releases.worker import leases
from releases.worker.failures import log_failure
from releases.worker.runner import OverLimit

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet

    from releases.engine.tables.files.ingest import Ingested

logger = logging.getLogger(__name__)

#: A file that nobody has written to for so long, and that belongs to no upload, is left over from a process that died.
_LEFT_OVER_SECONDS = 3600
#: Said of a table that takes more time or memory to read than it may.
TOO_MUCH = (
    "The table takes more time or memory to read than this site gives to one table. Send it with fewer columns or "
    "rows, or ask an administrator of the site for more."
)
_UNDER_WAY = (UploadState.WAITING, UploadState.READING)


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """What one person's uploads come to: tables with their rows still here, as large as they were sent, and files on
    their way in."""

    number: int
    size: int

    @property
    def left(self) -> int:
        """Bytes that another file may have."""
        if self.number >= settings.MAX_UPLOADS_PER_PERSON:
            return 0
        return int(max(0, settings.MAX_UPLOAD_BYTES_PER_PERSON - self.size))

    @property
    def in_words(self) -> str:
        tables = "1 table that you uploaded is" if self.number == 1 else f"{self.number:,} tables that you uploaded are"
        return (
            f"{tables} here, {megabytes(self.size)} in all. One person may have "
            f"{settings.MAX_UPLOADS_PER_PERSON:,} tables, {megabytes(settings.MAX_UPLOAD_BYTES_PER_PERSON)} in all."
        )


class NoRoom(InvalidInput):
    """A person has as many tables here as one may, or as large ones."""

    def __init__(self, room: Room, *, sent: str) -> None:
        if room.number >= settings.MAX_UPLOADS_PER_PERSON:
            why = "Another does not fit."
            super().__init__("table", sent, f"must be one of {settings.MAX_UPLOADS_PER_PERSON:,} of yours at most")
        else:
            why = "This file does not fit."
            super().__init__("table", sent, f"must have at most the {room.left:,} bytes that are left to you")
        self.args = (f"{room.in_words} {why} {FREES_ROOM}",)


#: Said wherever room is short.
FREES_ROOM = (
    "To free space, delete the rows of a dataset, delete a dataset that nothing was charged for, or stop an upload."
)


def megabytes(size: int) -> str:
    """Of 2^20 bytes, as in the settings."""
    return f"{size / 2**20:,.1f}".removesuffix(".0") + " MB"


def room_of(person: User) -> Room:
    """What a person's uploads come to now."""
    come_to = Upload.objects.taking_room(person).aggregate(number=Count("pk"), size=Sum("size", default=0))
    return Room(**come_to)


def check_upload(person: User, *, size: int = 0) -> Room:
    """Whether a person may bring a table, and what they have here already.

    Args:
        size: of the file in bytes; 0 where it is not known yet.

    Raises:
        NotAllowed: the person is no curator.
        NoRoom: the person has as much here as one may.
    """
    check_may_upload(person)
    room = room_of(person)
    if room.left < max(size, 1):
        raise NoRoom(room, sent=f"{size:,} bytes" if size else "another table")
    return room


def incoming_folder() -> Path:
    """Received files that are no table yet: on the disc of the tables, where giving a file its place is instant."""
    return Path(settings.TABLES_DIR) / "incoming"


def receive_upload(*, owner: User, title: str, source: Path, name: str = "", facts: FileFacts | None = None) -> Upload:
    """Keep a file that was sent and leave the rest to a worker.

    Args:
        source: the file on disc; it may be deleted afterwards.
        name: of the file as it was sent. It is not kept.
        facts: how the file is written, as declared.

    Raises:
        InvalidInput: the title breaks its rule.
        NotAllowed: the owner is no curator. Nothing is kept.
        NoRoom: the owner has as much here as one person may. Nothing is kept.
        UnreadableTable: the first bytes, the header or a Parquet file's directory tell that it is no table that can be
            read. Nothing is kept.
    """
    title = read_title(title, what="the table is")
    start = reading.upload_start(source, table=upload_limits(), name=name, facts=facts or FileFacts())
    folder = private_folder(incoming_folder())
    kept = folder / f"{uuid.uuid4().hex}.received"
    try:
        os.link(source, kept)
    except OSError:
        # Another disc, or one that knows no second names.
        shutil.copyfile(source, kept)
        kept.chmod(FILE)
    try:
        size = kept.stat().st_size
        with transaction.atomic():
            # Held until the commit, so that of two files that come at once the second is counted with the first.
            check_upload(User.objects.select_for_update(no_key=True).get(pk=owner.pk), size=size)
            upload = Upload.objects.create(
                title=title,
                owner=owner,
                location=kept.name,
                size=size,
                is_parquet=start.kind == PARQUET,
                file_facts=start.facts.to_json(),
                lease_until=leases.next_hint(),
            )
            enqueue_upload(upload.pk)
    except BaseException:
        kept.unlink(missing_ok=True)
        raise
    return upload


class _Progress(leases.LeaseProgress):
    """Writes as well how long it still takes."""

    def __init__(self, ours: QuerySet[Upload]) -> None:
        super().__init__(ours)
        self.begun = monotonic()
        self.countdown = Countdown()

    def beside(self) -> dict[str, Any]:
        return {"seconds_left": self.countdown.left(monotonic() - self.begun, self.share)}


def execute_upload(*, upload_id: uuid.UUID | str) -> bool:
    """Read a received file and make a dataset of it. Returns whether this call did.

    Called twice, by two workers, or for an upload in any other state, it does nothing the second time.
    """
    from releases.engine.tables.facts import UnreadableTable

    token = _claim(upload_id)
    if token is None:
        return False
    upload = Upload.objects.select_related("owner").get(pk=upload_id)
    held = _held(upload.pk, token)
    # Of this attempt alone: a worker that lost its lease may still be writing its own.
    made = incoming_folder() / f"{token.hex}.parquet"
    try:
        with leases.heartbeat(held, what=f"upload {upload.pk}"):
            ingested = read_table(
                incoming_folder() / upload.location,
                made,
                facts=FileFacts.from_json(upload.file_facts),
                progress=_Progress(held),
            )
            return _store(upload, token, made, ingested)
    except Cancelled:
        return False
    except UnreadableTable as error:
        # What was declared of the file is named as its form names it.
        is_declared = error.field != "table"
        said = in_words(InvalidInput(error.field, error.value, error.rule)) if is_declared else str(error)
        _end(upload, held, UploadState.REFUSED, refusal=said)
        return False
    except OverLimit:
        # Another attempt would take as much, and hold up the others as long.
        _end(upload, held, UploadState.REFUSED, refusal=TOO_MUCH)
        return False
    except Exception as error:  # noqa: BLE001  every failure path gives one constant outcome
        log_failure(logger, f"upload {upload.pk}", error)
        _fail(upload, held)
        return False
    finally:
        for left in (made, made.with_suffix(".partial")):
            left.unlink(missing_ok=True)


def discard_upload(*, upload: Upload) -> None:
    """Stop an upload that is under way, or put one away that was refused or has failed; the file is deleted.

    Raises:
        Kept: it is a dataset already.
    """
    deleted, _ = Upload.objects.filter(pk=upload.pk).exclude(state=UploadState.STORED).delete()
    if not deleted:
        raise Kept("It is stored already. Delete the dataset on its own page instead.")
    messages.upload_gone(upload.pk)
    _remove_file(upload)


def reconcile_uploads() -> int:
    """Put right what killed workers, lost messages and requests that broke off have left; returns how many uploads
    were moved."""
    now, moved = timezone.now(), 0
    moved += leases.hint_again(Upload.objects.filter(state=UploadState.WAITING), enqueue_upload)
    for upload in Upload.objects.filter(state=UploadState.READING, lease_until__lt=now):
        moved += _fail(upload, _held(upload.pk, upload.run_token), lapsed_before=now)
    _remove_left_over()
    return moved


def enqueue_upload(upload_id: uuid.UUID) -> None:
    """Tell a worker after the commit; a lost message is sent again by `reconcile_uploads`."""
    leases.hint("releases.read_upload", upload_id=str(upload_id))


def _held(upload_id: uuid.UUID, token: uuid.UUID | None) -> QuerySet[Upload]:
    """The upload while the worker with this token reads it."""
    return Upload.objects.filter(pk=upload_id, state=UploadState.READING, run_token=token)


def _claim(upload_id: uuid.UUID | str) -> uuid.UUID | None:
    claimable = Upload.objects.filter(pk=upload_id, state=UploadState.WAITING, attempts__lt=settings.MAX_ATTEMPTS)
    return leases.claim(claimable, running=UploadState.READING)


def _store(upload: Upload, token: uuid.UUID, made: Path, ingested: Ingested) -> bool:
    """The upload's state, the dataset and its table, all or none of them."""
    with transaction.atomic():
        ours = _held(upload.pk, token).update(
            state=UploadState.STORED,
            dataset=upload.pk,
            location="",
            run_token=None,
            lease_until=None,
            step="",
            share_done=1.0,
        )
        if ours != 1:
            return False
        # Killed from here to the commit, it leaves a table without a row, which the next attempt overwrites.
        made.replace(table_file(upload.pk))
        keep_dataset(number=upload.pk, owner=upload.owner, title=upload.title, ingested=ingested)
        messages.upload_ended(Upload.objects.get(pk=upload.pk))
    _remove_file(upload)
    return True


def _end(upload: Upload, held: QuerySet[Upload], state: UploadState, *, refusal: str) -> bool:
    with transaction.atomic():
        if held.update(state=state, refusal=refusal, run_token=None, lease_until=None, step="", location="") != 1:
            return False
        messages.upload_ended(Upload.objects.get(pk=upload.pk))
    _remove_file(upload)
    return True


def _fail(upload: Upload, held: QuerySet[Upload], *, lapsed_before: datetime | None = None) -> bool:
    """Give an attempt up: back to those that wait, or failed for good after the last one."""
    if lapsed_before is not None:
        held = held.filter(lease_until__lt=lapsed_before)
    with transaction.atomic():
        state = leases.give_up(held, waiting=UploadState.WAITING, failed=UploadState.FAILED)
        if state == UploadState.FAILED:
            Upload.objects.filter(pk=upload.pk).update(location="")
            messages.upload_ended(Upload.objects.get(pk=upload.pk))
    if state == UploadState.FAILED:
        _remove_file(upload)
    return state is not None


def _remove_file(upload: Upload) -> None:
    """Delete what was received, and what an attempt that was killed while it stored may have left."""
    if upload.location:
        (incoming_folder() / upload.location).unlink(missing_ok=True)
    if not Dataset.objects.filter(pk=upload.pk).exists():
        table_file(upload.pk).unlink(missing_ok=True)


def _remove_left_over() -> None:
    folder = incoming_folder()
    if not folder.is_dir():
        return
    long_ago = time.time() - _LEFT_OVER_SECONDS
    old = [path for path in folder.iterdir() if _written_at(path) < long_ago]
    if not old:
        return
    expected = set(Upload.objects.filter(state__in=_UNDER_WAY).values_list("location", flat=True))
    for path in old:
        if path.name not in expected:
            path.unlink(missing_ok=True)


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()
