"""Datasets: tables with their declarations, and who may see them."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Case, Q, When
from django.utils.functional import cached_property

from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.tables.facts import FileFacts
from releases.models.budgets import Budget
from releases.models.roles import Person


def groups_of(person: Person) -> models.QuerySet[Group, Any]:
    """As a subquery: a join would need a DISTINCT over whole rows, and releases are large."""
    return Group.objects.filter(user=person.pk).values("pk")


class DatasetQuerySet(models.QuerySet["Dataset"]):
    def visible_to(self, person: Person) -> DatasetQuerySet:
        """Those a person owns or shares a group with. Nobody else learns that a dataset exists."""
        if not person.is_authenticated:
            return self.none()
        return self.filter(Q(owner=person.pk) | Q(group__in=groups_of(person)))

    def of_population(self, budget: Budget) -> DatasetQuerySet:
        """The tables of one population, the one that it is named after first."""
        named = Case(When(title=budget.name, then=0), default=1)
        return self.filter(budget=budget).order_by(named, "created_at")

    def to_take_over(self, person: Person, dataset: Dataset) -> DatasetQuerySet:
        """Declared tables of a person, or of the group that works on a dataset, whose declaration it could take."""
        nearby = Q(owner=person.pk) | (Q(group=dataset.group_id) if dataset.group_id is not None else Q())
        declared = self.visible_to(person).filter(nearby).exclude(declared=None).exclude(pk=dataset.pk)
        return declared.select_related("budget").order_by("-created_at")

    def for_list(self, person: Person) -> DatasetQuerySet:
        return (
            self.visible_to(person)
            .select_related("budget", "owner", "group")
            .defer(
                "declared",
                "impossible",
                "columns",
                "catalogue",
                "description",
                "column_notes",
                "file_facts",
                "file_codebook",
            )
            .order_by("-created_at")
        )


class Dataset(models.Model):
    """One stored table with what its curator declared about it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    title = models.CharField(max_length=200)
    #: What the table is, for readers of its releases.
    description = models.TextField(blank=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="datasets")
    group = models.ForeignKey(Group, on_delete=models.SET_NULL, null=True, blank=True, related_name="datasets")
    #: Keyed fingerprint of the rows (see ``engine/tables/files/ingest.py``); equal for equal content.
    digest = models.CharField(max_length=64, db_index=True)
    columns = models.JSONField(help_text="names in the table's header")
    #: How its file was read (see ``engine/tables/facts.py``); empty of one that was read before this was noted.
    file_facts = models.JSONField(default=dict, blank=True)
    #: What the file or the database itself says of its columns, to be confirmed (see ``schema/file_codebook.py``).
    file_codebook = models.JSONField(default=list, blank=True)
    #: A Parquet file below the tables folder, or ``connection://NAME#schema.table`` of a connection.
    location = models.CharField(max_length=500)
    #: Of a table in a database: which server it was registered on, and each column's type then.
    catalogue = models.JSONField(default=dict, blank=True)
    #: SHA-256 of the stored file; empty of a table elsewhere, and of one that was missing when this was first noted.
    file_sha256 = models.CharField(max_length=64, blank=True)
    #: Declared columns as in the schema format, null until declared.
    declared = models.JSONField(null=True, blank=True)
    #: Combinations of bins that cannot occur, as in the schema format.
    impossible = models.JSONField(default=list, blank=True)
    #: By column its description and its unit, where there are any: for readers, and no part of the schema.
    column_notes = models.JSONField(default=dict, blank=True)
    budget = models.ForeignKey(Budget, on_delete=models.PROTECT, null=True, blank=True, related_name="datasets")
    created_at = models.DateTimeField(auto_now_add=True)
    #: Since when the table's file is gone for good; what was released of it, and its fingerprint, stay.
    rows_deleted_at = models.DateTimeField(null=True, blank=True)

    objects = DatasetQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["-created_at"], name="datasets_by_time")]

    def __str__(self) -> str:
        return self.title

    @cached_property
    def universe(self) -> Universe | None:
        if self.declared is None:
            return None
        columns = {"version": 1, "columns": self.declared, "impossible": self.impossible}
        return Schema.from_json(columns).universe

    @property
    def columns_read(self) -> list[str]:
        """The columns of the table that the declaration reads: those declared, and those of formulas."""
        read = [each["name"] for column in self.declared or [] for each in column.get("reads", [column])]
        return list(dict.fromkeys(read))

    @property
    def declared_of_table(self) -> int:
        """How many columns of the table are declared."""
        return len(self.declared or []) - len(self.made_columns)

    @property
    def made_columns(self) -> list[str]:
        """The declared columns that are made by formulas."""
        return [each["name"] for each in self.declared or [] if "formula" in each]

    @property
    def is_in_database(self) -> bool:
        """Whether its rows are in a database of their own, where they may change, and not on this server."""
        return "://" in self.location

    @property
    def connection(self) -> str:
        """The name of its database; empty of an uploaded table."""
        return self.location.partition("://")[2].partition("#")[0]

    @property
    def table(self) -> str:
        """Which table of its database it is; empty of an uploaded one."""
        return self.location.partition("#")[2] if self.is_in_database else ""

    @property
    def read_as(self) -> FileFacts:
        """How its file was read."""
        return FileFacts.from_json(self.file_facts)

    @property
    def schema(self) -> Schema | None:
        """The full schema, once columns and protection are both declared."""
        if self.universe is None or self.budget is None:
            return None
        return Schema(universe=self.universe, unit=self.budget.privacy_unit, neighbours=self.budget.relation)
