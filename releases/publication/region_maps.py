"""Answers on a map: whose regions can be drawn, from boundaries that a release keeps beside its answers.

Boundaries were declared. A release has those that were there when it was made, whatever is uploaded later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from releases.display.charts.maps import feature, region_map
from releases.engine.workload.queries import Family, Marginal
from releases.engine.workload.questions import Inquiry, Question, dates_of
from releases.engine.workload.statistic import Part
from releases.publication.headline import Rows
from releases.questions.base import kind_of
from releases.schema.boundaries import Shape, can_be_mapped, labels_without

if TYPE_CHECKING:
    from releases.models import Dataset

BOUNDARIES = "boundaries.json"
#: Names in a sentence, and characters of each.
_MAX_NAMED, MAX_CHARACTERS = 20, 60

#: By column and label the shape of a region.
Maps = Mapping[str, Mapping[str, Shape]]


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionMap:
    """A map, and which labels are not on it, in a sentence; empty where all are."""

    chart: dict[str, Any]
    missing: str


def column_of(question: Question, family: Family | Part) -> str:
    """The column whose labels the answers to a part of a question are of, one number each; empty where none is."""
    if isinstance(question, Inquiry):
        # Groups are of one column or several; a choice and a date have no place on a scale of colours.
        by = getattr(question.statistic, "by", ())
        names = (by,) if isinstance(by, str) and by else tuple(by)
        if question.statistic.is_choice or dates_of(question) is not None or not kind_of(question).has_one_axis:
            return ""
    else:
        names = family.attributes if isinstance(family, Marginal) else ()
    if len(names) != 1 or not can_be_mapped(question.universe[names[0]]):
        return ""
    has_a_number_each = not isinstance(family, Part) or family.rows == question.universe[names[0]].labels
    return names[0] if has_a_number_each else ""


def boundaries_of(dataset: Dataset, question: Question) -> str:
    """The boundaries that a release of a question keeps: by column GeoJSON; empty where nothing of it is on a map."""
    columns = {name for family in question.families if (name := column_of(question, family))}
    kept: dict[str, Any] = {}
    for each in dataset.boundaries.filter(column__in=columns).order_by("column"):
        labels = [label for label in question.universe[each.column].labels if label in each.shapes]
        features = [feature(each.shapes[label]) | {"properties": {"label": label}} for label in labels]
        if features:
            kept[each.column] = {"type": "FeatureCollection", "features": features}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":")) + "\n" if kept else ""


def read_maps(folder: Path) -> Maps:
    """The boundaries that a release kept; none of one that has no map."""
    try:
        kept = json.loads((folder / BOUNDARIES).read_text())
    except FileNotFoundError:
        return {}
    return {
        column: {each["properties"]["label"]: each["geometry"]["coordinates"] for each in listed["features"]}
        for column, listed in kept.items()
    }


def map_of(
    maps: Maps, question: Question, family: Family | Part, read: Callable[[int, int], Rows], *, first: int, unit: str
) -> RegionMap | None:
    """All answers to a part of a question on the map of its column; None where it has none.

    Args:
        read: the released answers from one place to before another.
        first: the place of its first answer.
        unit: of the numbers, where they do not count rows.
    """
    column = column_of(question, family)
    if column not in maps:
        return None
    universe, is_counts = question.universe, kind_of(question).counts_rows
    labels = universe[column].labels
    drawn = [
        {"label": label, **{name: row.get(name) for name in ("estimate", "lower", "upper")}}
        for label, row in zip(labels, read(first, first + family.cells(universe)), strict=True)
    ]
    chart = region_map(
        drawn,
        maps[column],
        title=family.title(universe),
        unit=universe.counted_by(family.attributes).many if is_counts else unit,
        is_counts=is_counts,
    )
    return RegionMap(chart=chart, missing=not_on_map(maps[column], labels))


def preview(column: str, shapes: Mapping[str, Shape], labels: Sequence[str]) -> RegionMap | None:
    """A column's map without any numbers; None where none of its labels is on it."""
    if not any(label in shapes for label in labels):
        return None
    chart = region_map([{"label": label} for label in labels], shapes, title=column)
    return RegionMap(chart=chart, missing=not_on_map(shapes, labels))


def not_on_map(shapes: Mapping[str, Shape], labels: Sequence[str]) -> str:
    """Which labels have no shape, in a sentence; empty where all have one."""
    return named("Not on the map", labels_without(shapes, labels))


def named(what: str, names: Sequence[str]) -> str:
    """Some names in a sentence, the first ones of many; empty for none."""
    more = len(names) - _MAX_NAMED
    said = ", ".join(each[:MAX_CHARACTERS] for each in names[:_MAX_NAMED])
    return f"{what}: {said}{f' and {more:,} more' if more > 0 else ''}." if names else ""
