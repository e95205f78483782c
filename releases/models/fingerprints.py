"""What is stored of tables to recognise their rows. Imported through `models`."""

from __future__ import annotations

from django.db import models


class Fingerprint(models.Model):
    """What tells a table's rows in another dress. Keyed: without the installation's key it tells nothing.

    Which tables are alike is stored nowhere: it is found when a reviewer looks who may know it.
    """

    dataset = models.OneToOneField(
        "releases.Dataset", on_delete=models.CASCADE, primary_key=True, related_name="fingerprint"
    )
    #: Whether there are so many distinct rows that an equal file is evidence of the same people; null until taken.
    is_telling = models.BooleanField(null=True)
    #: Of the declared columns, as they are counted (see ``engine/tables/fingerprint.py``); empty where too few rows are
    #: distinct to be evidence of anything; null until taken.
    digest = models.CharField(max_length=64, null=True, db_index=True)  # noqa: DJ001  null is not yet known
    #: Of all columns; null until taken.
    sketch = models.BinaryField(null=True)
    #: How often a worker began to take each; of the digest, since the columns were declared.
    digest_attempts = models.PositiveSmallIntegerField(default=0)
    sketch_attempts = models.PositiveSmallIntegerField(default=0)

    def __str__(self) -> str:
        return f"fingerprint of {self.dataset}"
