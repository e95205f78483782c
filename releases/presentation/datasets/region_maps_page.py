"""The page on which the regions of columns are shown, and their boundaries uploaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from releases.engine.domain.universe import Universe
from releases.models import Dataset
from releases.publication.region_maps import MAX_CHARACTERS, RegionMap, named, preview
from releases.schema.boundaries import Boundaries, can_be_mapped


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnMap:
    """The map of one column.

    Attributes:
        id: of its drawing.
        number: how many of its categories are on it.
        map: without numbers; None where none of its categories is on it any more.
    """

    column: str
    id: str
    number: str
    map: RegionMap | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionMapsPage:
    """
    Attributes:
        maps: those that are there.
        columns: those that can have one.
    """

    maps: Sequence[ColumnMap]
    columns: Sequence[str]


def region_maps_page(dataset: Dataset, universe: Universe) -> RegionMapsPage:
    columns = [each.name for each in universe.attributes if can_be_mapped(each)]
    maps = []
    for place, each in enumerate(dataset.boundaries.order_by("column")):
        labels = universe[each.column].labels if each.column in columns else ()
        on_map = sum(label in each.shapes for label in labels)
        maps.append(
            ColumnMap(
                column=each.column,
                id=f"map-{place}",
                number=f"{on_map:,} of {len(labels):,} categories are on the map.",
                map=preview(each.column, each.shapes, labels),
            )
        )
    return RegionMapsPage(maps=maps, columns=columns)


def said_of(column: str, read: Boundaries, number: int) -> str:
    """What was read from a file, for who uploaded it."""
    left_out = named("Left out, since they are no category", read.left_out)
    by = read.named_by[:MAX_CHARACTERS]
    said = f"The map of {column} has {len(read.shapes):,} of {number:,} categories, found by “{by}”."
    return f"{said} {left_out}".strip()
