"""Which roles people hold. Imported through `models`; the rules that follow from them are in `roles`."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models

Person = AbstractBaseUser | AnonymousUser


class Role(models.TextChoices):
    """What people may be on this site. A person may hold several roles."""

    ANALYST = "analyst", "analyst"
    CURATOR = "curator", "curator"
    REVIEWER = "reviewer", "reviewer"
    ADMINISTRATOR = "administrator", "administrator"

    @property
    def meaning(self) -> str:
        return {
            Role.ANALYST: "asks in the live sessions that are open to everybody here.",
            Role.CURATOR: "uploads tables.",
            Role.REVIEWER: "sees every budget, the ledger and the audit log, and decides requests.",
            Role.ADMINISTRATOR: "gives roles, registers connections, and changes the organisation’s settings.",
        }[self]


class HeldRole(models.Model):
    """That a person has a role."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="held_roles")
    role = models.CharField(max_length=15, choices=Role)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["person", "role"], name="each_role_once")]

    def __str__(self) -> str:
        return f"{self.person}: {self.role}"
