"""Maps of a table's columns: which shape belongs to which of a column's categories. Public, and counted by nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.db import transaction

from releases.engine.errors import InvalidInput
from releases.ledger import audit_log
from releases.models import AuditAction, Dataset, RegionBoundaries
from releases.schema.boundaries import Boundaries, can_be_mapped, read_boundaries

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@transaction.atomic
def declare_boundaries(
    *, dataset: Dataset, column: str, given: Mapping[str, Any], by: User | None = None
) -> Boundaries:
    """Take the map of a column from a GeoJSON file, in place of the one that is there. Releases keep theirs.

    Raises:
        InvalidInput: the column has no declared categories, or the file breaks a rule (see ``schema/boundaries.py``).
    """
    universe = dataset.universe
    if universe is None or column not in universe.names or not can_be_mapped(universe[column]):
        raise InvalidInput("column", column, "must be a declared column of categories")
    labels = universe[column].labels
    read = read_boundaries(given, labels)
    RegionBoundaries.objects.update_or_create(dataset=dataset, column=column, defaults={"shapes": read.shapes})
    said = f"a map of {column}, with {len(read.shapes):,} of {len(labels):,} categories"
    audit_log.record(AuditAction.DECLARE, actor=by, on=dataset, detail=said)
    return read


@transaction.atomic
def remove_boundaries(*, dataset: Dataset, column: str, by: User | None = None) -> None:
    """Show a column on no map in releases from now on. One that is gone already stays so."""
    removed, _ = RegionBoundaries.objects.filter(dataset=dataset, column=column).delete()
    if removed:
        audit_log.record(AuditAction.DECLARE, actor=by, on=dataset, detail=f"no map of {column}")


def take_boundaries(*, dataset: Dataset, source: Dataset, columns: Iterable[str], pairs: Mapping[str, str]) -> None:
    """Take another table's maps of some columns that have none here. Called inside a transaction.

    Args:
        columns: by their names here.
        pairs: by the name there, that of a column that is called otherwise here.
    """
    wanted = set(columns) - set(dataset.boundaries.values_list("column", flat=True))
    RegionBoundaries.objects.bulk_create(
        RegionBoundaries(dataset=dataset, column=pairs.get(each.column, each.column), shapes=each.shapes)
        for each in source.boundaries.all()
        if pairs.get(each.column, each.column) in wanted
    )
