"""Who has a stake in what a reviewer decides: the one place that says so, for every decision there is.

The owner of the data, who asked, who drafted or changed it, and who has edited a table of the population. What the
audit log has of somebody is never undone by leaving a group. Of a draft nobody records who changed it, so everybody
who may, which is the dataset's group, counts as one who did.

``audit_log.record`` refuses to record a decision of somebody with a stake, so no service can make one without this
rule; the services ask first, to say it before anything is done.
"""

from __future__ import annotations

import uuid
from enum import Enum

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Model, Q, QuerySet

from releases.engine.errors import InvalidInput
from releases.models.audit import AuditAction, AuditEvent
from releases.models.budgets import Budget
from releases.models.datasets import Dataset
from releases.models.ledger import Installation
from releases.models.releases import Release
from releases.models.requests import BudgetRequest, ReleaseRequest
from releases.models.sessions import Session

#: What only a reviewer without a stake may do. To freeze is none: it protects, so whoever reviews may stop a budget.
DECISIONS = frozenset(
    {
        AuditAction.FIRST_APPROVAL,
        AuditAction.APPROVE,
        AuditAction.DENY,
        AuditAction.ASK_BACK,
        AuditAction.UNFREEZE,
        AuditAction.RESTORE,
        AuditAction.JOIN,
        AuditAction.ASK_CONSENT,
    }
)
#: Events that make nobody an editor: a reviewer's or a reader's. Every other one does.
_NO_EDITS = DECISIONS | {
    AuditAction.FREEZE,
    AuditAction.VERIFY,
    AuditAction.EXPORT,
    AuditAction.DOWNLOAD,
    # After a restored backup these are recorded in the name of the reviewer who lets the rest go on.
    AuditAction.PUBLISH,
    AuditAction.FAIL,
    AuditAction.CLOSE,
}


#: Reviewers of old versions left an event of this detail where they granted a budget that the rows had already.
_JOINED = "the people of "
#: Of an identifier as text.
_LENGTH = 36


class Stake(Enum):
    """Why somebody cannot decide: in words about them, and to them."""

    ASKED = "asked for it", "You asked for this"
    OWNS = "owns the data", "You own the data"
    AUTHOR = "drafted or changed it", "You drafted or changed this"
    GROUP = "is in the group that works on it", "You are in the group that works on this"
    EDITED = "has edited the data or a release of them", "You have edited the data or a release of them"

    @property
    def of_them(self) -> str:
        return self.value[0]

    @property
    def to_them(self) -> str:
        return self.value[1]


class HasStake(InvalidInput):
    """Somebody else has to decide it. Nothing was done."""

    def __init__(self, person: User, stake: Stake, *, to: str) -> None:
        super().__init__("reviewer", str(person), f"{stake.of_them}; somebody else has to {to} it")
        self.stake = stake


def stake_of(person: User, subject: Model) -> Stake | None:
    """What keeps somebody from deciding on a request, budget, dataset, release or session; None where nothing does.

    Raises:
        TypeError: nobody has said yet who has a stake in such an object.
    """
    match subject:
        case BudgetRequest() | ReleaseRequest() if subject.requested_by_id == person.pk:
            return Stake.ASKED
        case BudgetRequest():
            return _in_population(person, subject.budget)
        case ReleaseRequest():
            return _in_release(person, subject.release)
        case Release():
            return _in_release(person, subject)
        case Session():
            return _in_release(person, subject.release)
        case Budget():
            return _in_population(person, subject)
        case Dataset():
            return _in_dataset(person, subject)
        case Installation():
            return None
    raise TypeError(f"Who has a stake in a {subject._meta.verbose_name} is not known.")


def what_separates(person: User, subject: Model) -> Stake | None:
    """The stake that keeps somebody from deciding here; None also where one person does everything."""
    return stake_of(person, subject) if settings.SEPARATION_OF_DUTIES else None


def refuse_stake(person: User, *subjects: Model, to: str = "decide") -> None:
    """
    Raises:
        HasStake: the person has a stake in one of these, and duties are separated here.
    """
    for subject in subjects:
        if (stake := what_separates(person, subject)) is not None:
            raise HasStake(person, stake, to=to)


def _in_release(person: User, release: Release) -> Stake | None:
    dataset = release.dataset
    if release.submitted_by_id == person.pk or _has_edited(person, Q(object_id=str(release.pk))):
        return Stake.AUTHOR
    if dataset.owner_id != person.pk and person.groups.filter(pk=dataset.group_id).exists():
        return Stake.GROUP
    return _in_dataset(person, dataset)


def _in_dataset(person: User, dataset: Dataset) -> Stake | None:
    if dataset.owner_id == person.pk:
        return Stake.OWNS
    # As it is now: the table may have joined another budget since it was read.
    if (budget := Budget.objects.filter(datasets=dataset.pk).first()) is not None:
        return _in_population(person, budget)
    return _in_tables(person, [dataset.pk])


def _in_population(person: User, budget: Budget) -> Stake | None:
    owners = dict(budget.datasets.values_list("pk", "owner"))
    if person.pk in (budget.owner_id, *owners.values()):
        return Stake.OWNS
    if budget.requests.filter(requested_by=person.pk).exists():
        return Stake.ASKED
    return _in_tables(person, list(owners), budget.pk)


def _in_tables(person: User, tables: list[uuid.UUID], *further: uuid.UUID) -> Stake | None:
    """Whether somebody has released from these tables, or edited them or something further."""
    if Release.objects.filter(_released_by(person), dataset__in=tables).exists():
        return Stake.EDITED
    return Stake.EDITED if _has_edited(person, Q(object_id__in=[str(each) for each in (*tables, *further)])) else None


def _has_edited(person: User, objects: Q) -> bool:
    return _edits(person).filter(objects).exists()


def _edits(person: User) -> QuerySet[AuditEvent]:
    made = AuditEvent.objects.filter(actor=person.pk).exclude(action__in=_NO_EDITS)
    return made.exclude(detail__startswith=_JOINED)


def _released_by(person: User) -> Q:
    return Q(submitted_by=person.pk) | Q(pk__in=ReleaseRequest.objects.filter(requested_by=person.pk).values("release"))


def budgets_at_stake(person: User) -> QuerySet[Budget]:
    """The budgets in whose population a person has a stake; none where one person does everything.

    The same rule as `stake_of` a budget, for all of them at once.
    """
    if not settings.SEPARATION_OF_DUTIES:
        return Budget.objects.none()
    # The log holds identifiers as text with dashes, whatever the database makes of them.
    edited = [each for each in _edits(person).values_list("object_id", flat=True).distinct() if len(each) == _LENGTH]
    released = Release.objects.filter(_released_by(person)).values("dataset")
    tables = Dataset.objects.filter(Q(owner=person.pk) | Q(pk__in=edited) | Q(pk__in=released))
    asked = BudgetRequest.objects.filter(requested_by=person.pk).values("budget")
    own = Q(owner=person.pk) | Q(pk__in=edited) | Q(pk__in=asked)
    return Budget.objects.filter(own | Q(datasets__in=tables.values("pk"))).distinct()
