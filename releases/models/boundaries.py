"""Boundaries of the regions that a column's labels name: public, and no part of the schema.

Imported through `models`.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class RegionBoundaries(models.Model):
    """The map of one column of a table. A release keeps a copy of the one that was there when it was made."""

    dataset = models.ForeignKey("releases.Dataset", on_delete=models.CASCADE, related_name="boundaries")
    column = models.TextField()
    #: By label the shape of its region (see ``schema/boundaries.py``).
    shapes = models.JSONField()
    uploaded_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["dataset", "column"], name="one_map_a_column")]

    def __str__(self) -> str:
        return f"map of {self.column} of {self.dataset}"
