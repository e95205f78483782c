"""Collections: releases of one dataset that were planned together, under one epsilon and one simultaneous bound.

Imported through `models`. Each part is a release like any other, with a charge and a result of its own.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models

from releases.models.datasets import Dataset
from releases.models.releases import Release
from releases.models.roles import Person


class CollectionQuerySet(models.QuerySet["Collection"]):
    def visible_to(self, person: Person) -> CollectionQuerySet:
        """Those of which a person may see a part."""
        parts = CollectionPart.objects.filter(release__in=Release.objects.visible_to(person))
        return self.filter(pk__in=parts.values("collection"))

    def editable_by(self, person: Person) -> CollectionQuerySet:
        """Those with a part that a person may work on."""
        parts = CollectionPart.objects.filter(release__in=Release.objects.editable_by(person))
        return self.filter(pk__in=parts.values("collection"))


class ShareRule(models.TextChoices):
    """What the weights of a collection's parts say of their epsilons."""

    EPSILON = "epsilon", "twice the epsilon"
    ERROR = "error", "half the error"


class Collection(models.Model):
    """What several releases were planned with."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    dataset = models.ForeignKey(Dataset, on_delete=models.PROTECT, related_name="collections")
    title = models.CharField(max_length=200)
    #: For all parts together; each part has its own share of it, and of beta.
    epsilon = models.CharField(max_length=40)
    beta = models.CharField(max_length=40)
    share_rule = models.CharField(max_length=10, choices=ShareRule.choices, default=ShareRule.EPSILON)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="collections")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = CollectionQuerySet.as_manager()

    def __str__(self) -> str:
        return self.title


class CollectionPart(models.Model):
    """One release of a collection. A draft that is discarded leaves it."""

    collection = models.ForeignKey(Collection, on_delete=models.PROTECT, related_name="parts")
    release = models.OneToOneField(Release, on_delete=models.CASCADE, related_name="part")
    #: Its place on the pages.
    place = models.PositiveSmallIntegerField()
    #: Its share beside those of the others, as it was typed.
    weight = models.CharField(max_length=40, default="1")
    #: Whether synthetic rows are wanted of it, rather than the answers.
    is_for_rows = models.BooleanField(default=False)

    class Meta:
        ordering: ClassVar = ["place"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["collection", "place"], name="one_part_a_place")]

    def __str__(self) -> str:
        return f"{self.collection}, part {self.place + 1}"
