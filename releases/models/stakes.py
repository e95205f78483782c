"""Who has a stake in a table: its owner, whoever edited it, and whoever asked for something of it.

Somebody with a stake does not decide on the table, and sees nothing of what was recognised in its rows.
Imported through `models`.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import Q, QuerySet

from releases.models.budgets import Budget
from releases.models.datasets import Dataset
from releases.models.releases import Release
from releases.models.reviews import AuditAction, AuditEvent, BudgetRequest, ReleaseRequest
from releases.models.roles import Person

_EDITS = (
    AuditAction.UPLOAD,
    AuditAction.DECLARE,
    AuditAction.RENAME,
    AuditAction.SHARE,
    AuditAction.DELETE_ROWS,
)
#: Reviewers of old versions left this event where they granted a budget that the rows had already.
_JOINED = "the people of "
#: Of an identifier as text.
_LENGTH = 36


def tables_at_stake(person: Person) -> QuerySet[Dataset]:
    """The tables in which a person has a stake; none where one person does everything (`SEPARATION_OF_DUTIES`)."""
    if not settings.SEPARATION_OF_DUTIES:
        return Dataset.objects.none()
    edits = AuditEvent.objects.filter(actor=person.pk, action__in=_EDITS).exclude(detail__startswith=_JOINED)
    # Identifiers stand in the log as text with dashes, whatever the database makes of them.
    edited = [each for each in edits.values_list("object_id", flat=True).distinct() if len(each) == _LENGTH]
    released = Release.objects.filter(submitted_by=person.pk).values("dataset")
    reviewed = ReleaseRequest.objects.filter(requested_by=person.pk).values("release__dataset")
    asked = BudgetRequest.objects.filter(requested_by=person.pk).values("budget")
    return Dataset.objects.filter(
        Q(owner=person.pk) | Q(pk__in=edited) | Q(pk__in=released) | Q(pk__in=reviewed) | Q(budget__in=asked)
    )


def has_stake(person: Person, dataset: Dataset) -> bool:
    """Whether a person has a stake in one table."""
    return tables_at_stake(person).filter(pk=dataset.pk).exists()


def budgets_at_stake(person: Person) -> QuerySet[Budget]:
    """The budgets from which a table spends that a person has a stake in, and those of which they are the owner."""
    if not settings.SEPARATION_OF_DUTIES:
        return Budget.objects.none()
    own = Q(owner=person.pk) | Q(pk__in=BudgetRequest.objects.filter(requested_by=person.pk).values("budget"))
    return Budget.objects.filter(own | Q(datasets__in=tables_at_stake(person).values("pk"))).distinct()
