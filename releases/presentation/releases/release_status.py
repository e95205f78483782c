"""What becomes of a release or an upload by itself, and what can be done about it now."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse

from releases import services
from releases.display.durations import SHARE_THAT_TELLS, duration
from releases.engine.tables.files.progress import seconds_foretold
from releases.models import Release, ReleaseState, Upload, UploadState
from releases.presentation.review.said import Said, said_of_release

#: While these last, a worker has the release or will take it.
_WITH_A_WORKER = (ReleaseState.QUEUED, ReleaseState.RUNNING, ReleaseState.CLOSING)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressBar:
    """A bar with its words.

    Attributes:
        value: from 0 to 1; empty where how far it is may depend on the data.
        left: how long it still takes; empty where that is not known.
        note: what is said of the time instead.
    """

    label: str
    value: str
    left: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseStatus:
    """A release that is not published.

    Attributes:
        state: its chip.
        address: what is fetched until nothing changes by itself; empty where nothing does.
        progress: how far it is; None where no worker has it.
        without_page: what happens when the page is closed.
        shows_actions: whether what can be done is part of this answer. A button that still holds is left alone.
        said: of a cancelled release without steps, what the reviewer said.
    """

    state: ReleaseState
    meaning: str
    address: str
    progress: ProgressBar | None
    without_page: str
    shows_actions: bool
    said: Said | None
    can_be_taken_back: bool
    can_be_cancelled: bool
    can_be_planned_again: bool


def release_status(release: Release, *, is_own: bool, is_part: bool = False) -> ReleaseStatus:
    """
    Args:
        is_part: it replaces a part of a page that is shown already.
    """
    state = release.status
    is_moving = not state.is_final and state is not ReleaseState.REVIEW
    is_cancelled = state is ReleaseState.CANCELLED and not release.kind.has_steps
    rest = "you get a notice when it is done" if state is ReleaseState.CLOSING else "the release goes on"
    return ReleaseStatus(
        state=release.shown_state,
        meaning=release.meaning,
        address=reverse("release_status", args=[release.pk]) if is_moving else "",
        progress=_progress_of(release, is_own=is_own) if state in _WITH_A_WORKER else None,
        without_page=f"You can close this page; {rest}.",
        shows_actions=not is_part or state is not ReleaseState.QUEUED or bool(release.attempts),
        said=said_of_release(release) if is_own and is_cancelled else None,
        can_be_taken_back=is_own and state is ReleaseState.REVIEW,
        can_be_cancelled=is_own and release.can_be_cancelled,
        can_be_planned_again=is_own and state.is_final,
    )


def _progress_of(release: Release, *, is_own: bool) -> ProgressBar:
    if is_own and release.status is ReleaseState.QUEUED and services.execution.is_behind(release.pk):
        label = "Waiting until a reviewer has checked the restored backup"
    elif release.is_under_way:
        return ProgressBar(label="In progress", value="")
    elif release.is_held:
        label = "Waiting until the budget is unfrozen"
    else:
        label = release.step or "Waiting for a worker"
    done = "" if release.status is ReleaseState.QUEUED else _done(release.share_done)
    return ProgressBar(label=f"{label}{done}", value=f"{release.share_done:.3f}")


def upload_progress(upload: Upload) -> ProgressBar:
    """How far the reading of an upload is."""
    is_read = upload.status is UploadState.READING
    done = _done(upload.share_done) if is_read else ""
    # Another attempt begins again, and would count up.
    is_first = upload.attempts == int(is_read)
    left = duration(upload.seconds_left) if is_read and is_first and upload.seconds_left is not None else ""
    label = f"{upload.step or 'Waiting for a worker'}{done}{f', {left} left' if left else ''}"
    return ProgressBar(
        label=label,
        value=f"{upload.share_done:.3f}",
        left=left,
        note=_time_of(upload) if is_first and not left else "",
    )


def _time_of(upload: Upload) -> str:
    """What is said of the time before it is known how much is left, and where that is more than was said."""
    if upload.share_done >= SHARE_THAT_TELLS:
        return "It takes longer than expected."
    foretold = duration(seconds_foretold(upload.size, is_parquet=upload.is_parquet))
    return f"A file of this size takes {foretold} to read on a server with little else to do."


def _done(share: float) -> str:
    return f", {round(100 * share)}% done"
