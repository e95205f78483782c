"""Roles, given and taken by administrators. Every change is an event of the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from releases.engine.errors import InvalidInput
from releases.ledger import audit_log
from releases.models import AuditAction, HeldRole, Role
from releases.models.role_rules import NotAllowed

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class LastAdministrator(InvalidInput):
    """Without this one, nobody could give roles any more."""

    def __init__(self, person: User) -> None:
        super().__init__("role", Role.ADMINISTRATOR.value, "must be held by somebody whose account is open")
        self.args = (
            f"{person} is the only administrator, and without one nobody could give roles. "
            "Make somebody else an administrator first.",
        )


@transaction.atomic
def give_role(*, person: User, role: Role, by: User | None) -> bool:
    """Give somebody a role; returns whether they did not have it yet.

    Args:
        by: an administrator; None for the command line.

    Raises:
        NotAllowed: who gives it is no administrator.
    """
    _administrators(by)
    _, is_new = HeldRole.objects.get_or_create(person=person, role=role)
    if is_new:
        audit_log.record(
            AuditAction.ROLES, actor=by, on=person, detail=f"gave {role.label}", facts=_facts(person, role)
        )
    return is_new


@transaction.atomic
def take_role(*, person: User, role: Role, by: User | None) -> bool:
    """Take a role from somebody; returns whether they had it.

    Raises:
        NotAllowed: who takes it is no administrator.
        LastAdministrator: it is the role of the only administrator.
    """
    if _administrators(by) == {person.pk} and role is Role.ADMINISTRATOR:
        raise LastAdministrator(person)
    taken, _ = HeldRole.objects.filter(person=person, role=role).delete()
    if taken:
        audit_log.record(
            AuditAction.TAKE_ROLE, actor=by, on=person, detail=f"took {role.label}", facts=_facts(person, role)
        )
    return bool(taken)


def _facts(person: User, role: Role) -> dict[str, str]:
    return {"role": role.value, "of": f"{role.value} of {person.pk}"}


def _administrators(by: User | None) -> set[int]:
    """The administrators with open accounts, locked, so that no two of them take the role from each other at once.

    Raises:
        NotAllowed: somebody who is none of them changes a role.
    """
    held = HeldRole.objects.filter(role=Role.ADMINISTRATOR, person__is_active=True)
    found = {each.person_id for each in held.select_for_update(of=("self",)).order_by("pk")}
    if by is not None and by.pk not in found:
        raise NotAllowed(by, Role.ADMINISTRATOR, what="giving and taking roles")
    return found
