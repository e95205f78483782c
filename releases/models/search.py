"""What the catalogue keeps beside releases. Imported through `models`."""

from __future__ import annotations

from django.db import models


class Searchable(models.Model):
    """What a release is found by beside its title and its dataset's, written in the transaction that publishes it.

    In a table of its own: SQLite would reach a column behind the release's result only through all pages of that
    result, and whatever reads a release would read the column with it. No page, program or file shows it.
    """

    release = models.OneToOneField(
        "releases.Release", on_delete=models.CASCADE, primary_key=True, related_name="searchable"
    )
    #: Folded, see ``publication/search_index.py``.
    text = models.TextField()

    def __str__(self) -> str:
        return f"words of {self.release}"
