"""Gives new accounts their first roles, wherever they are made: on Django's pages or on a command line."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models.signals import post_save

from releases.ledger import audit_log
from releases.models import AuditAction, HeldRole, Role


def listen() -> None:
    """Hear of new accounts from Django, which tells of them in no other way."""
    post_save.connect(_made, sender=User, dispatch_uid="first roles")


def _made(*, instance: User, created: bool, raw: bool, **_: Any) -> None:
    if not created or raw:
        return
    first = {Role(name) for name in settings.NEW_ACCOUNT_ROLES}
    if instance.is_superuser:
        # Somebody has to be the first who can give roles.
        first.add(Role.ADMINISTRATOR)
        audit_log.record(AuditAction.ROLES, actor=None, on=instance, detail="gave administrator, to a new superuser")
    HeldRole.objects.bulk_create([HeldRole(person=instance, role=role) for role in sorted(first)])
