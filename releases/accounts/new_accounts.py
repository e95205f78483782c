"""Accounts, wherever they are changed: on Django's pages or on a command line.

New ones get their first roles. That one is closed or opened, and who joins and leaves a group, is an event of the audit
log.
"""

from __future__ import annotations

from typing import Any

from allauth.core import context
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db.models.signals import m2m_changed, post_save, pre_save

from releases.ledger import audit_log
from releases.models import AuditAction, HeldRole, Role


def listen() -> None:
    """Hear of new accounts from Django, which tells of them in no other way."""
    post_save.connect(_made, sender=User, dispatch_uid="first roles")
    pre_save.connect(_changed, sender=User, dispatch_uid="closed accounts")
    m2m_changed.connect(_groups_changed, sender=User.groups.through, dispatch_uid="members of groups")


def _made(*, instance: User, created: bool, raw: bool, **_: Any) -> None:
    if not created or raw:
        return
    first = {Role(name) for name in settings.NEW_ACCOUNT_ROLES}
    if instance.is_superuser:
        # Somebody has to be the first who can give roles.
        first.add(Role.ADMINISTRATOR)
        audit_log.record(
            AuditAction.ROLES,
            actor=None,
            on=instance,
            detail="gave administrator, to a new superuser",
            facts={"role": Role.ADMINISTRATOR.value, "of": f"{Role.ADMINISTRATOR.value} of {instance.pk}"},
        )
    HeldRole.objects.bulk_create([HeldRole(person=instance, role=role) for role in sorted(first)])


def _changed(*, instance: User, raw: bool, **_: Any) -> None:
    before = User.objects.filter(pk=instance.pk).values_list("is_active", flat=True).first() if instance.pk else None
    if raw or before is None or before == instance.is_active:
        return
    action = AuditAction.OPEN_ACCOUNT if instance.is_active else AuditAction.CLOSE_ACCOUNT
    audit_log.record(action, actor=_who(), on=instance)


def _groups_changed(*, instance: User | Group, action: str, reverse: bool, pk_set: set[int] | None, **_: Any) -> None:
    if action == "pre_clear":
        members = instance.user_set if isinstance(instance, Group) else instance.groups
        pk_set = set(members.values_list("pk", flat=True))
    elif action not in ("post_add", "post_remove"):
        return
    said = AuditAction.JOIN_GROUP if action == "post_add" else AuditAction.LEAVE_GROUP
    for pk in sorted(pk_set or ()):
        person = User.objects.get(pk=pk) if reverse else instance
        group = instance if isinstance(instance, Group) else Group.objects.get(pk=pk)
        facts = {"group": group.pk, "group_name": group.name, "of": f"{person.pk} in {group.pk}"}
        audit_log.record(said, actor=_who(), on=person, detail=group.name, facts=facts)


def _who() -> User | None:
    """Who asks, on a page; None on a command line."""
    person = getattr(context.request, "user", None)
    return person if isinstance(person, User) else None
