"""Whether the database knows less than `high_water_marks`, outside it: a backup was restored, or marks were lost.

Asked of three things, and each answers why in one sentence, or nothing where all is well:

    of the installation   the folder is gone or another's; the record is further than the database, or was cut; a mark,
                          or results on disc, are of what the database does not know
    of a budget           its mark is ahead of its ledger, missing or broken
    of a release          more had become of it than its row says, or results of it lie on disc that nobody knows of

Nothing is run, asked, closed, given back, granted or charged while the installation, its budget, or it itself is
behind. A reviewer puts that right (``services/restoring.py``).

What is remembered is read before the database: it is written after the commit of a ledger entry or a claim, so a
database that is read later knows it already. What became of a release is written before the commit instead, so whoever
asks while another may change the release either holds its row's lock or, as a worker before a claim, may be wrong only
towards waiting.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from releases.ledger import chain, high_water_marks, record
from releases.models import (
    Attempt,
    Budget,
    EntryKind,
    Installation,
    LedgerEntry,
    Release,
    ReleaseState,
    SessionAnswer,
)

#: Where a release can still be run, asked, closed or given back.
UNSETTLED = (
    ReleaseState.DRAFT,
    ReleaseState.REVIEW,
    ReleaseState.QUEUED,
    ReleaseState.RUNNING,
    ReleaseState.OPEN,
    ReleaseState.CLOSING,
)
#: Said to whoever wants something while anything of it is behind.
UNTIL_A_REVIEWER = "Nothing goes on until a reviewer has looked at it, on the page Backups."


def begin(budget: Budget) -> None:
    """Before a budget's first entry: its mark, and with the first of all whose marks these are. Inside a transaction.

    An entry that is not committed after all leaves a mark of nothing behind, which says nothing of any database.
    """
    own = Installation.own()
    if chain.whose() is None:
        chain.belong_to(own.key)
    high_water_marks.begin(budget.pk)


def installation(found: record.Found | None = None) -> Iterator[str]:
    """What is wrong with the marks as a whole.

    Args:
        found: by `record.look`, where the caller has looked.
    """
    found = found or record.look()
    if found.fault:
        yield found.fault
    if found.is_another:
        return
    for budget_id in orphans(found.own):
        yield f"the marks know a budget that this database does not: {described(budget_id)}"
    if unknown := unknown_results(found.own):
        some = ", ".join(unknown[:5])
        yield f"results lie on disc of {len(unknown):,} releases that this database does not know: {some}"


def orphans(own: Installation) -> list[uuid.UUID]:
    """The budgets with entries that only the marks know, without those that a reviewer has seen."""
    return [each for each in lost_budgets() if str(each) not in own.acknowledged]


def lost_budgets() -> list[uuid.UUID]:
    """The budgets with entries that the marks know and the database does not, until a reviewer has said whose people
    they are."""
    unknown = high_water_marks.marked() - set(Budget.objects.values_list("pk", flat=True))
    settled = set(Installation.own().settled) if unknown else set()
    return sorted(each for each in unknown if str(each) not in settled and _has_entries(each))


#: When the folder of the results had changed last as it was seen to hold nothing unknown, and how many lines of the
#: record the database knew then. One that knows fewer is an older one, and may not know what lies there.
_clean: dict[Path, tuple[int, int]] = {}


def unknown_results(own: Installation) -> list[str]:
    """Releases whose results lie on disc, which this database does not know, and which no reviewer has seen."""
    folder = Path(settings.RELEASES_DIR)
    try:
        changed = folder.stat().st_mtime_ns
        before, number = _clean.get(folder, (None, 0))
        if before == changed and own.number >= number:
            return []
        found = {uuid.UUID(name) for name in os.listdir(folder) if len(name) == 36 and (folder / name).is_dir()}
    except FileNotFoundError:
        return []
    known = set(Release.objects.values_list("pk", flat=True)) if found else set()
    unknown = sorted(str(each) for each in found - known if str(each) not in own.acknowledged)
    if not unknown:
        _clean[folder] = changed, own.number
    return unknown


def with_results() -> set[str]:
    """The releases of which results lie on disc."""
    try:
        return set(os.listdir(settings.RELEASES_DIR))
    except FileNotFoundError:
        return set()


def unknown_folders(release_id: uuid.UUID) -> list[str]:
    """Folders of results of one release that no attempt on record has made, whole or in part."""
    try:
        names = set(os.listdir(Path(settings.RELEASES_DIR) / str(release_id)))
    except (FileNotFoundError, NotADirectoryError):
        return []
    known: set[str] = set()
    with suppress(high_water_marks.Unreadable):
        known |= high_water_marks.story(release_id).tokens
    if names - known:
        known |= {str(each) for each in Attempt.objects.filter(release=release_id).values_list("token", flat=True)}
    # A folder that is not complete has an ending after the token of its attempt.
    return sorted(name for name in names - known if name.partition(".")[0] not in known)


def _has_entries(budget_id: uuid.UUID) -> bool:
    try:
        mark = high_water_marks.read(budget_id)
    except high_water_marks.Unreadable:
        return True
    return mark is not None and mark.sequence > 0


def described(budget_id: uuid.UUID) -> str:
    try:
        mark = high_water_marks.read(budget_id)
    except high_water_marks.Unreadable:
        mark = None
    if mark is None:
        return f"{budget_id}, and what was spent of it cannot be read"
    spent = "something" if any(mark.totals.columns().values()) else "nothing"
    owner = f" of {mark.owner['name']}" if mark.owner else ""
    return f"{mark.name or budget_id}{owner}. It was granted after the backup was made, and {spent} was spent of it"


def budget(asked: Budget) -> str:
    """What is wrong with a budget's mark, or how far its ledger is behind."""
    try:
        mark = high_water_marks.read(asked.pk)
    except high_water_marks.Unreadable as error:
        return f"its mark cannot be read: {error}"
    sequence, head = Budget.objects.values_list("sequence", "head").get(pk=asked.pk)
    if mark is None:
        # Looked for again: it is made before the first entry is committed.
        return "its mark is missing" if sequence and high_water_marks.read(asked.pk) is None else ""
    if sequence < mark.sequence:
        return f"the database is older than its mark: it has {sequence} of {mark.sequence} entries"
    marked: str | None = head
    if 0 < mark.sequence < sequence:
        entries = LedgerEntry.objects.filter(budget=asked.pk, sequence=mark.sequence)
        marked = entries.values_list("hash", flat=True).first()
    if mark.sequence and marked is not None and marked != mark.hash:
        return f"the database is older than its mark: entry {mark.sequence} is another one"
    return ""


def release(release_id: uuid.UUID) -> str:
    """What more had become of a release than its row says."""
    on_disc = unknown_folders(release_id)
    try:
        told = high_water_marks.story(release_id)
    except high_water_marks.Unreadable as error:
        told, broken = high_water_marks.Story(), str(error)
    else:
        broken = ""
        if told == high_water_marks.Story() and not on_disc:
            return ""
    row = Release.objects.filter(pk=release_id).values_list("state", "attempts", "folder").first()
    if row is None:
        # It was charged, so its budget's mark knows more than the database, or the budget itself is not known.
        return ""
    state, attempts, folder = ReleaseState(row[0]), row[1], row[2]
    if broken:
        return f"its record cannot be read: {broken}" if state in UNSETTLED else ""
    if state is ReleaseState.CANCELLED:
        given_back = LedgerEntry.objects.filter(release=release_id, kind=EntryKind.RETURN).exists()
        return "it was given back, and a worker had begun it" if told.claims and given_back else ""
    if state in (ReleaseState.PUBLISHED, ReleaseState.WITHDRAWN):
        is_other = told.published is not None and folder not in told.folders
        return "other files of it were published before" if is_other else ""
    if state is ReleaseState.FAILED:
        return ""
    found = list(_further(release_id, state, attempts, told))
    if on_disc:
        found.append("results of it lie on disc that no attempt on record has made")
    return "; ".join(found)


def _further(release_id: uuid.UUID, state: ReleaseState, attempts: int, told: high_water_marks.Story) -> Iterator[str]:
    if told.claims > attempts:
        yield f"a worker had begun it (attempt {told.claims}; the database knows {attempts or 'of none'})"
    # One that is being closed touches no data: it publishes the answers that are known.
    is_asked = bool(told.answers) and state is not ReleaseState.CLOSING
    answers = SessionAnswer.objects.filter(session=release_id).count() if is_asked else told.answers
    if told.answers > answers:
        yield f"it had answered {told.answers} questions; the database knows {answers or 'of none'}"
    if told.is_opened and state not in (ReleaseState.OPEN, ReleaseState.CLOSING):
        yield "it was open"
    if told.is_cancelled:
        yield "it had been cancelled and given back"
    # While a worker holds it or it waits for one, the next attempt publishes these very files and nothing else.
    if told.published and state not in (ReleaseState.QUEUED, ReleaseState.RUNNING, ReleaseState.CLOSING):
        yield "its result had been published"


def begun(release_id: uuid.UUID) -> str:
    """Why a release that no worker has claimed, says the database, must not be given back.

    That it was cancelled before is no reason: where that was committed, its budget's mark knows.
    """
    try:
        told = high_water_marks.story(release_id)
    except high_water_marks.Unreadable as error:
        return f"Its record outside the database cannot be read: {error}. {UNTIL_A_REVIEWER}"
    if told.claims or told.answers or told.is_opened or told.published:
        return f"A backup was restored; a worker had begun this release. {UNTIL_A_REVIEWER}"
    return ""


def refusal(of: Budget | None = None, *, and_release: uuid.UUID | None = None) -> str:
    """Why nothing of a budget, or nothing of one release of it, may go on; empty where it may.

    Said to people who may know of this release alone. What is missing of the installation or of the budget, which
    others may share, is said to reviewers on the page Backups.
    """
    found = record.look()
    if found.is_another:
        return "The marks folder belongs to another database. Nothing goes on until an operator has set MARKS_DIR."
    if any(installation(found)):
        return f"After a restored backup, the database does not match what was recorded outside it. {UNTIL_A_REVIEWER}"
    if of is not None and budget(of):
        return f"After a restored backup, this budget does not match what was recorded outside it. {UNTIL_A_REVIEWER}"
    if and_release is not None and (what := release(and_release)):
        return f"A backup was restored. Of this release: {what}. {UNTIL_A_REVIEWER}"
    return ""
