"""What is stored of columns beside what is declared: typed and not declared yet, and codebooks under a name.

Imported through `models`.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group
from django.db import models
from django.db.models import Q


class KeptColumns(models.Model):
    """What a person has typed about a table's columns and not declared, however wrong: theirs alone, so that people
    who share a table never overwrite one another. It declares nothing."""

    dataset = models.ForeignKey("releases.Dataset", on_delete=models.CASCADE, related_name="kept_columns")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    #: The form as it was typed: what the table is, and each column's fields by its name; null where none was.
    typed = models.JSONField(null=True)
    #: The codebook as it was pasted.
    codebook = models.TextField(blank=True)
    #: What was declared then; where that has changed since, somebody declared in between.
    declared = models.JSONField(null=True)
    kept_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["dataset", "person"], name="kept_once_by_each_person"),
        ]

    def __str__(self) -> str:
        return f"columns of {self.dataset}, as {self.person} typed them"

    @property
    def is_overtaken(self) -> bool:
        """Whether the columns were declared otherwise since."""
        return bool(self.declared != self.dataset.declared)


class CodebookQuerySet(models.QuerySet["Codebook"]):
    def visible_to(self, person: AbstractBaseUser | AnonymousUser) -> CodebookQuerySet:
        """Those a person saved, or that are shared with a group of theirs."""
        if not person.is_authenticated:
            return self.none()
        groups = Group.objects.filter(user=person.pk).values("pk")
        return self.filter(Q(owner=person.pk) | Q(group__in=groups))

    def for_menu(self, person: AbstractBaseUser | AnonymousUser) -> CodebookQuerySet:
        return self.visible_to(person).select_related("owner", "group").order_by("name", "-saved_at")


class Codebook(models.Model):
    """Declared columns under a name of their own, to be filled in for other tables; nothing of any rows."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="codebooks")
    group = models.ForeignKey(Group, on_delete=models.SET_NULL, null=True, blank=True, related_name="codebooks")
    #: As in the schema format, with descriptions and units.
    columns = models.JSONField()
    saved_at = models.DateTimeField(auto_now_add=True)

    objects = CodebookQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["owner", "name"], name="one_codebook_a_name")]

    def __str__(self) -> str:
        return self.name
