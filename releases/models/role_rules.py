"""What follows from the roles that people hold: the one place that says who may do what because of a role.

Who may work on which dataset is another question: its owner, and the group that it is shared with.
"""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import QuerySet

from releases.engine.errors import InvalidInput
from releases.models.roles import HeldRole, Person, Role


class NotAllowed(InvalidInput):
    """Somebody lacks the role that something needs."""

    def __init__(self, person: Person, needed: Role, *, what: str) -> None:
        held = roles_of(person)
        shown = ", ".join(role.label for role in Role if role in held) or "none"
        super().__init__("role", shown, f"must include {needed.label} for {what}")
        self.args = (
            f"You do not have the role {needed.label}, which is needed for {what}. "
            "An administrator of this site can give it to you.",
        )


def roles_of(person: Person) -> frozenset[Role]:
    """The roles that somebody holds; asked of the database once for each time that the person is read from it."""
    if not person.is_authenticated or not person.is_active:
        return frozenset()
    held: frozenset[Role] | None = person.__dict__.get("_roles")
    if held is None:
        stored = HeldRole.objects.filter(person=person.pk).values_list("role", flat=True)
        held = frozenset(Role(role) for role in stored)
        # For the time of a request: each reads its person again.
        person.__dict__["_roles"] = held
    return held


def may_ask(person: Person) -> bool:
    """Whether somebody may ask in sessions that are open to everybody who is signed in."""
    return Role.ANALYST in roles_of(person)


def may_upload(person: Person) -> bool:
    """Whether somebody may bring tables here."""
    return Role.CURATOR in roles_of(person)


def may_review(person: Person) -> bool:
    """Whether somebody may look at the reviewers' pages. `Organisation.lets_decide` says who may decide there."""
    return Role.REVIEWER in roles_of(person)


def may_administer(person: Person) -> bool:
    """Whether somebody may give roles, register connections and change the organisation's settings."""
    return Role.ADMINISTRATOR in roles_of(person)


def check_may_upload(person: Person) -> None:
    """
    Raises:
        NotAllowed: the person is no curator.
    """
    if not may_upload(person):
        raise NotAllowed(person, Role.CURATOR, what="uploading tables")


def check_may_administer(person: Person, *, what: str) -> None:
    """
    Raises:
        NotAllowed: the person is no administrator.
    """
    if not may_administer(person):
        raise NotAllowed(person, Role.ADMINISTRATOR, what=what)


def holders(role: Role) -> QuerySet[User]:
    """Everybody who holds a role and whose account is open."""
    return User.objects.filter(is_active=True, held_roles__role=role)
