"""What is stored of tables to recognise their rows. Imported through `models`."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Share(models.TextChoices):
    """How much of the smaller table is in the other one too, as coarsely as a reviewer needs it."""

    FEW = "few", "some of the rows"
    HALF = "half", "half of the rows or more"
    ALL = "all", "about all of the rows"


class Fingerprint(models.Model):
    """What tells a table's rows in another dress. Keyed: without the installation's key it tells nothing."""

    dataset = models.OneToOneField(
        "releases.Dataset", on_delete=models.CASCADE, primary_key=True, related_name="fingerprint"
    )
    #: Of the declared columns, as they are counted (see ``engine/tables/fingerprint.py``); null until taken.
    digest = models.CharField(max_length=64, null=True, db_index=True)  # noqa: DJ001  null is not yet known
    #: Of all columns; null until taken.
    sketch = models.BinaryField(null=True)
    #: How often a worker began to take each; of the digest, since the columns were declared.
    digest_attempts = models.PositiveSmallIntegerField(default=0)
    sketch_attempts = models.PositiveSmallIntegerField(default=0)

    def __str__(self) -> str:
        return f"fingerprint of {self.dataset}"


class Relative(models.Model):
    """Two tables that have rows in common, once from either side. For reviewers alone."""

    one = models.ForeignKey("releases.Dataset", on_delete=models.CASCADE, related_name="relatives")
    other = models.ForeignKey("releases.Dataset", on_delete=models.CASCADE, related_name="+")
    share = models.CharField(max_length=4, choices=Share)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["one", "other"], name="relatives_once")]

    def __str__(self) -> str:
        return f"{self.get_share_display()} of {self.one} and {self.other}"
