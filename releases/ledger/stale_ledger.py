"""Whether the database knows less than `high_water_marks`, outside it: a backup was restored, or marks were lost.

Asked of three things, and each answers why in one sentence, or nothing where all is well:

    of the installation   the folder is gone or another's; a mark is of a budget that the database does not know
    of a budget           its mark is ahead of its ledger, missing or broken
    of a release          more had become of it than its row says

Nothing is run, asked, closed, given back, granted or charged while the installation, its budget, or it itself is
behind. A reviewer puts that right (``services/restoring.py``).

What is remembered is read before the database: it is written after the commit of a ledger entry or a claim, so a
database that is read later knows it already. What became of a release is written before the commit instead, so whoever
asks while another may change the release either holds its row's lock or, as a worker before a claim, may be wrong only
towards waiting.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from releases.ledger import high_water_marks
from releases.models import Budget, EntryKind, Installation, LedgerEntry, Release, ReleaseState, SessionAnswer

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
    own, is_new = Installation.objects.get_or_create(id=1)
    if is_new:
        # Marks without a database that knows itself are those of a transaction that was lost; or this database is
        # older than its first entry, and then they tell of budgets that it does not know.
        whose = high_water_marks.installation()
        if whose is None:
            high_water_marks.belong_to(own.key)
        else:
            own.key = whose
            own.save(update_fields=["key"])
    high_water_marks.begin(budget.pk)


def installation() -> Iterator[str]:
    """What is wrong with the marks as a whole."""
    yield from _folder()
    for budget_id in orphans():
        yield f"the marks know a budget that this database does not: {_described(budget_id)}"


def _folder() -> Iterator[str]:
    try:
        whose = high_water_marks.installation()
    except high_water_marks.Unreadable as error:
        yield f"the marks cannot be read: {error}"
        return
    own = Installation.objects.first()
    if own is not None and whose is None:
        yield "the folder of the marks, or a part of it, is gone"
    elif own is not None and whose != own.key:
        yield "the marks are those of another installation"


def is_folder_lost() -> bool:
    return any(_folder())


def orphans() -> list[uuid.UUID]:
    """The budgets with entries that the marks know and the database does not, but for those that were seen to."""
    known = high_water_marks.marked()
    unknown = known - set(Budget.objects.values_list("pk", flat=True))
    own = Installation.objects.first() if unknown else None
    seen = set(own.acknowledged) if own is not None else set()
    return sorted(each for each in unknown if str(each) not in seen and _has_entries(each))


def _has_entries(budget_id: uuid.UUID) -> bool:
    try:
        mark = high_water_marks.read(budget_id)
    except high_water_marks.Unreadable:
        return True
    return mark is not None and mark.sequence > 0


def _described(budget_id: uuid.UUID) -> str:
    try:
        mark = high_water_marks.read(budget_id)
    except high_water_marks.Unreadable:
        mark = None
    if mark is None:
        return f"{budget_id}, and what was spent of it cannot be read"
    spent = "something" if any(mark.totals.columns().values()) else "nothing"
    return f"{mark.name or budget_id}. It was granted after the backup was made, and {spent} was spent of it"


def budget(asked: Budget) -> str:
    """What is wrong with a budget's mark, or how far its ledger is behind."""
    try:
        mark = high_water_marks.read(asked.pk)
    except high_water_marks.Unreadable as error:
        return f"its mark cannot be read: {error}"
    sequence, head = Budget.objects.values_list("sequence", "head").get(pk=asked.pk)
    if mark is None:
        # Looked for once more: it is made before the first entry is committed.
        return "its mark is missing" if sequence and high_water_marks.read(asked.pk) is None else ""
    if sequence < mark.sequence:
        return f"the database is older than the mark beside it: it has {sequence} of {mark.sequence} entries"
    marked: str | None = head
    if 0 < mark.sequence < sequence:
        entries = LedgerEntry.objects.filter(budget=asked.pk, sequence=mark.sequence)
        marked = entries.values_list("hash", flat=True).first()
    if mark.sequence and marked is not None and marked != mark.hash:
        return f"the database is older than the mark beside it: entry {mark.sequence} is another one"
    return ""


def release(release_id: uuid.UUID) -> str:
    """What more had become of a release than its row says."""
    try:
        told = high_water_marks.story(release_id)
    except high_water_marks.Unreadable as error:
        told, broken = high_water_marks.Story(), str(error)
    else:
        broken = ""
        if told == high_water_marks.Story():
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
    return "; ".join(_further(release_id, state, attempts, told))


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
    if any(installation()):
        return f"After a restored backup, the database does not match what was recorded outside it. {UNTIL_A_REVIEWER}"
    if of is not None and budget(of):
        return f"After a restored backup, this budget does not match what was recorded outside it. {UNTIL_A_REVIEWER}"
    if and_release is not None and (what := release(and_release)):
        return f"A backup was restored. Of this release: {what}. {UNTIL_A_REVIEWER}"
    return ""
