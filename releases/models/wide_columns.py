"""What lists do not read."""

from __future__ import annotations

#: Columns of a release and its dataset that take much room and that no list shows.
WIDE = (
    "options",
    "dataset__declared",
    "dataset__columns",
    "dataset__catalogue",
    "dataset__column_notes",
    "dataset__file_facts",
    "dataset__file_codebook",
)
