"""After a restored backup, or a loss of marks: a reviewer sees what is missing, and says that it goes on from there.

Nothing is given back, and nothing that may have been seen is made again. Of a budget, in one transaction:

    the ledger   what its mark knows is granted and booked as spent
    a release    of which more is remembered than the database knows
                   published, its files as they were   published with these files
                   a session with answers              closed: a worker publishes the answers that are known
                   any other                           failed, and its charge stays; that of a draft is booked with
                                                       the ledger
    a mark       that is missing or broken is written again as the ledger stands
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from releases.ledger import audit_log, chain, decisions, high_water_marks, ledger, record, refusals, stale_ledger
from releases.models import (
    AuditAction,
    Budget,
    Installation,
    Release,
    ReleaseState,
    RequestState,
    Searchable,
    Session,
)
from releases.models.stakes import refuse_stake
from releases.notifications import messages
from releases.publication.search_index import searchable
from releases.services import reapplying, session_closing
from releases.services.releases import enqueue
from releases.worker import leases

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from releases.ledger.decisions import Decision


@dataclass(frozen=True, kw_only=True, slots=True)
class Further:
    """A release of which more is remembered than the database knows, and what a reviewer's word makes of it."""

    release: Release
    what: str
    becomes: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingOfBudget:
    """What of one budget is missing."""

    budget: Budget
    mark: str
    releases: tuple[Further, ...]

    @property
    def is_lost(self) -> bool:
        """Whether the mark says nothing any more."""
        return bool(self.mark) and not _has_a_mark(self.budget)

    @property
    def in_words(self) -> str:
        """What is missing of the ledger, and what becomes of it; empty where nothing is."""
        if not self.mark:
            return ""
        if not self.is_lost:
            return f"{self.mark}. What is missing is booked as spent, and what was granted since is granted again."
        return (
            f"{self.mark}. A new mark is written from the ledger. If a backup was restored too, nothing knows what was "
            "spent after that backup was made, and it can be spent again: freeze the budget unless you are sure that "
            "none was."
        )


def missing_of(budget: Budget) -> MissingOfBudget | None:
    """What of a budget is missing; None where nothing is."""
    mark, found = stale_ledger.budget(budget), tuple(_further(Release.objects.filter(dataset__budget=budget)))
    return MissingOfBudget(budget=budget, mark=mark, releases=found) if mark or found else None


def all_missing() -> list[MissingOfBudget]:
    """What is missing of every budget."""
    found: dict[uuid.UUID, list[Further]] = {}
    for each in _further(Release.objects.filter(dataset__budget__isnull=False)):
        assert each.release.dataset.budget_id is not None
        found.setdefault(each.release.dataset.budget_id, []).append(each)
    budgets = [
        MissingOfBudget(budget=budget, mark=stale_ledger.budget(budget), releases=tuple(found.get(budget.pk, ())))
        for budget in Budget.objects.select_related("owner").order_by("created_at")
    ]
    return [each for each in budgets if each.mark or each.releases]


def _further(releases: QuerySet[Release]) -> Iterator[Further]:
    told = set(high_water_marks.told())
    unsettled = releases.filter(state__in=stale_ledger.UNSETTLED).order_by("created_at").values_list("pk", flat=True)
    on_disc = stale_ledger.with_results()
    asked = [pk for pk in unsettled if pk in told or str(pk) in on_disc]
    further = {pk: what for pk in asked if (what := stale_ledger.release(pk))}
    known = releases.select_related("dataset").in_bulk(list(further))
    for pk, what in further.items():
        if (release := known.get(pk)) is not None:
            yield Further(release=release, what=what, becomes=_becomes(release)[0])


def _becomes(release: Release) -> tuple[str, dict[str, Any] | None]:
    """What becomes of a release, in words, and the outcome with which it is published, if it is."""
    if release.status in (ReleaseState.DRAFT, ReleaseState.REVIEW):
        return "failed; plan another like it", None
    try:
        told = high_water_marks.story(release.pk)
    except high_water_marks.Unreadable:
        told = high_water_marks.Story()
    has_session = Session.objects.filter(release=release.pk).exists()
    if told.published is not None and not told.is_cancelled and has_session == release.kind.is_interactive:
        try:
            return "published again with the very files that it had", session_closing.published_before(
                release, told.published
            )
        except session_closing.NotTheFiles:
            return "failed, for its files are gone or changed; its charge stays", None
    if release.status is ReleaseState.OPEN and told.published is None and release.session.answers.exists():
        return "closed: the answers that are known are published", None
    if release.status is ReleaseState.CLOSING and told.published is None:
        return "closed: the answers that are known are published", None
    return "failed; its charge stays", None


@transaction.atomic
def restore_ledger(*, budget: Budget, by: User) -> None:
    """After a restored backup: book what is missing of a budget, settle the releases that had gone further, and let
    the rest go on.

    Raises:
        LedgerRefusal: nothing is missing, or what was spent does not fit under what is granted.
        HasStake: the reviewer has a stake in the budget, so that somebody else has to look.
    """
    locked = Budget.objects.select_for_update().get(pk=budget.pk)
    refuse_stake(by, locked, to="restore")
    missing = missing_of(locked)
    if missing is None:
        raise refusals.LedgerRefusal("The database is not behind of this budget. There is nothing to restore.")
    for each in missing.releases:
        _settle(each.release, by=by)
    if _has_a_mark(locked) and missing.mark:
        ledger.restore(budget=locked, actor=by)
    elif missing.mark:
        ledger.acknowledge(locked)
    said = [missing.mark, *(f"{each.release.title}: {each.what}; {each.becomes}" for each in missing.releases)]
    audit_log.record(AuditAction.RESTORE, actor=by, on=budget, detail=". ".join(filter(None, said)))


@transaction.atomic
def acknowledge_marks(*, by: User, leave_out: Collection[int] = (), let_go_on: bool = False) -> list[str]:
    """Go on after a restored backup, or where the marks are lost, or know budgets that this database does not.

    Protective decisions of which the database does not know are made again. Marks of all budgets that lack one are
    written as the ledger is. Where the record is lost, nobody knows what was begun: what is unsettled ends, and its
    charge stays.

    Args:
        leave_out: the numbers of decisions that are not to be made again.
        let_go_on: where the record is lost, let queued releases and open sessions go on: nothing was done since.

    Returns:
        what could not be made again, in words.

    Raises:
        LedgerRefusal: there is nothing of the kind; or the marks are those of another database; or a decision that is
            forgotten took from this reviewer what they need to decide.
        HasStake: the reviewer has a stake in one of these budgets, or in what is left out.
    """
    own = Installation.objects.select_for_update().get(pk=Installation.own().pk)
    found = record.look()
    said = list(stale_ledger.installation(found))
    if not said:
        raise refusals.LedgerRefusal("The marks are those of this database. There is nothing to acknowledge.")
    if found.is_another:
        raise refusals.LedgerRefusal(f"{record.OF_ANOTHER.capitalize()}. An operator has to do that.")
    forgotten = reapplying.forgotten_decisions(own) if found.is_restored else []
    _check_not_concerned(by, forgotten)
    left_out = [each for each in forgotten if reapplying.waits_for_a_reviewer(each) and each.number in leave_out]
    chosen = [each for each in forgotten if each not in left_out]
    refuse_stake(by, *reapplying.subjects(left_out), to="leave out what was decided on")
    seen = [*map(str, stale_ledger.orphans(own)), *stale_ledger.unknown_results(own)]
    own.acknowledged = sorted({*own.acknowledged, *seen})
    own.save(update_fields=["acknowledged"])
    if found.is_lost:
        refuse_stake(by, *_without_a_mark(), to="acknowledge")
        _begin_marks_again(own)
    record.know_all(own)
    if found.is_lost and not let_go_on:
        said += [f"{each.title} {_end(each, by=by)}" for each in unsettled()]
    problems = reapplying.make_again(chosen)
    said += [f"again: {each.in_words}" for each in chosen]
    said += [f"left out: {each.in_words}" for each in left_out]
    audit_log.record(AuditAction.RESTORE, actor=by, on=own, detail=". ".join([*said, *problems]))
    return problems


def unsettled() -> list[Release]:
    """What a worker would begin, or people would ask, and may have done so already where the record is lost."""
    begun = Release.objects.filter(state__in=set(stale_ledger.UNSETTLED) - {ReleaseState.DRAFT, ReleaseState.REVIEW})
    return list(begun.select_related("dataset").order_by("created_at"))


def _check_not_concerned(by: User, forgotten: list[Decision]) -> None:
    own = [each for each in forgotten if each.model == User._meta.label and each.object == str(by.pk)]
    taken = (AuditAction.CLOSE_ACCOUNT, AuditAction.TAKE_ROLE, AuditAction.LEAVE_GROUP)
    if any(each.action in taken for each in own):
        raise refusals.LedgerRefusal(
            "After the backup was made, your account was closed, or a role or group was taken from you. Somebody else "
            "has to decide."
        )


def _begin_marks_again(own: Installation) -> None:
    """Marks and a record from what there is. Until the commit nothing of the installation goes on."""
    chain.belong_to(own.key)
    chain.begin_again()
    for budget in _without_a_mark():
        ledger.acknowledge(budget)


def _without_a_mark() -> list[Budget]:
    return [budget for budget in Budget.objects.filter(sequence__gt=0) if not _has_a_mark(budget)]


def _end(release: Release, *, by: User) -> str:
    """End a release of which nobody knows how far it had come; its charge stays. Returns what became of it."""
    session = Session.objects.select_for_update().filter(release=release.pk).first()
    release = Release.objects.select_for_update().select_related("dataset").get(pk=release.pk)
    high_water_marks.note_seen(release.pk, stale_ledger.unknown_folders(release.pk))
    if session is not None and session.answers.exists():
        if release.status is ReleaseState.OPEN:
            session_closing.begin_closing(session, by=by)
        return "closed with the answers that are known"
    values: dict[str, Any] = {"run_token": None, "lease_until": None, "step": "", "share_done": 1.0}
    Release.objects.filter(pk=release.pk).update(state=ReleaseState.FAILED, **values)
    release.refresh_from_db()
    audit_log.record(AuditAction.FAIL, actor=by, on=release, detail="after a restored backup, without its record")
    messages.release_ended(release)
    return "failed"


def _withdraw_again(release: Release) -> None:
    """What had been withdrawn is published again for the record, and shown to nobody."""
    last = [
        each for each in decisions.after(0) if each.action is AuditAction.WITHDRAW and each.object == str(release.pk)
    ]
    if last:
        withdrawn = {"state": ReleaseState.WITHDRAWN, "is_public": False, "withdrawn_at": last[-1].at}
        Release.objects.filter(pk=release.pk).update(**withdrawn)


def _has_a_mark(budget: Budget) -> bool:
    try:
        return high_water_marks.read(budget.pk) is not None
    except high_water_marks.Unreadable:
        return False


def _settle(release: Release, *, by: User) -> None:
    """The row of a release as far as it is known to have come. Its session is locked first, as by an answer."""
    session = Session.objects.select_for_update().filter(release=release.pk).first()
    release = Release.objects.select_for_update().select_related("dataset").get(pk=release.pk)
    if not stale_ledger.release(release.pk):
        # What was remembered of it was not committed yet when it was looked at.
        return
    becomes, outcome = _becomes(release)
    try:
        told = high_water_marks.story(release.pk)
    except high_water_marks.Unreadable:
        told = high_water_marks.Story()
        transaction.on_commit(lambda: high_water_marks.set_aside(release.pk))
    # No worker that ran before the backup was restored has it from here on.
    values: dict[str, Any] = {"attempts": max(release.attempts, told.claims), "run_token": None, "lease_until": None}
    values |= {"step": "", "share_done": 1.0}
    if unknown := stale_ledger.unknown_folders(release.pk):
        high_water_marks.note_seen(release.pk, unknown)
    now = timezone.now()
    if outcome is not None and told.published is not None:
        values |= {"state": ReleaseState.PUBLISHED, "result": outcome, "folder": told.published.folder}
        Release.objects.filter(pk=release.pk).change(published_at=now, **values)
        Searchable.objects.get_or_create(release_id=release.pk, defaults={"text": searchable(outcome)})
        Session.objects.filter(pk=release.pk).update(closed_at=now)
        action = AuditAction.PUBLISH
        _withdraw_again(release)
    elif becomes.startswith("closed"):
        assert session is not None
        if release.status is ReleaseState.OPEN:
            session_closing.begin_closing(session, by=by)
        values |= {"lease_until": leases.next_hint(), "share_done": 0.0}
        Release.objects.filter(pk=release.pk).update(**values)
        enqueue(release.pk)
        return
    else:
        release.reviews.filter(state=RequestState.WAITING).update(state=RequestState.TAKEN_BACK)
        Release.objects.filter(pk=release.pk).update(state=ReleaseState.FAILED, **values)
        action = AuditAction.FAIL
    release.refresh_from_db()
    audit_log.record(action, actor=by, on=release, detail="after a restored backup")
    messages.release_ended(release)
