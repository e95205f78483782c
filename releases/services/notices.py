"""What people do with their notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from releases.ledger import audit_log
from releases.models import AuditAction, MailChoice, Notice

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def read_notices(*, person: User) -> None:
    """Put away all that a person's first page shows; their notices' own page keeps it."""
    Notice.objects.for_home(person).update(read_at=timezone.now())


@transaction.atomic
def choose_mail(*, person: User, wants_mail: bool) -> None:
    """Say whether one's notices come by e-mail too. Links to set a new password come in any case."""
    MailChoice.objects.update_or_create(user=person, defaults={"wants_mail": wants_mail})
    audit_log.record(
        AuditAction.NOTICES, actor=person, on=person, detail="notices by e-mail too" if wants_mail else "no e-mail"
    )
