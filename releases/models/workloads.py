"""What is stored of workloads: questions under a name, to be asked of one table after another.

Imported through `models`.
"""

from __future__ import annotations

import uuid
from functools import cached_property
from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group
from django.db import models
from django.db.models import Max, Q

from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.workload.parsing import read_question
from releases.engine.workload.questions import Question, universe_asked
from releases.models.append_only import AppendOnly


class WorkloadQuerySet(models.QuerySet["SavedWorkload"]):
    def visible_to(self, person: AbstractBaseUser | AnonymousUser) -> WorkloadQuerySet:
        """Those a person owns, or that are shared with a group of theirs."""
        if not person.is_authenticated:
            return self.none()
        return self.filter(Q(owner=person.pk) | Q(group__in=Group.objects.filter(user=person.pk).values("pk")))

    def for_list(self, person: AbstractBaseUser | AnonymousUser) -> WorkloadQuerySet:
        """By name, each with the number of its newest version and the time it was made."""
        return (
            self.visible_to(person)
            .select_related("owner", "group")
            .annotate(newest=Max("versions__number"), changed_at=Max("versions__made_at"))
            .order_by("name", "pk")
        )


class SavedWorkload(models.Model):
    """Questions under a name of their own. What is asked stands in its versions."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="workloads")
    group = models.ForeignKey(Group, on_delete=models.SET_NULL, null=True, blank=True, related_name="workloads")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = WorkloadQuerySet.as_manager()

    class Meta:
        db_table = "releases_workload"
        constraints: ClassVar = [models.UniqueConstraint(fields=["owner", "name"], name="one_workload_a_name")]

    def __str__(self) -> str:
        return self.name

    @property
    def latest(self) -> WorkloadVersion:
        return self.versions.latest("number")


class WorkloadVersion(models.Model):
    """What a workload asked from one edit to the next. Triggers refuse to change it."""

    workload = models.ForeignKey(SavedWorkload, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    #: In the workload format.
    questions = models.JSONField()
    #: The columns that the questions were written for, as in the schema format; nothing of any rows.
    columns = models.JSONField()
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    made_at = models.DateTimeField(auto_now_add=True)

    append_only = AppendOnly(
        name="workload_version",
        message="a version of a workload never changes; editing makes the next",
        may_be_deleted=True,
    )

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["workload", "number"], name="one_version_a_number")]

    def __str__(self) -> str:
        return f"{self.workload}, version {self.number}"

    @cached_property
    def question(self) -> Question:
        """What it asks, about the columns that it was written for."""
        universe = Schema.from_json({"version": 1, "columns": self.columns}).universe
        return read_question(self.questions, universe)

    @cached_property
    def needed(self) -> Universe:
        """The columns that the questions read."""
        return universe_asked(self.question)
