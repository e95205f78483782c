"""Boundaries of regions, read from a GeoJSON file (RFC 7946) that a curator uploads: public shapes of a column's
labels.

Which shape belongs to which label follows from the declaration alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from releases.engine.domain.attribute import Attribute
from releases.engine.errors import InvalidInput

#: What a file may come to, beside the megabyte of every form. A page that shows a map sends all points of it.
MAX_FEATURES, MAX_POINTS = 2_000, 20_000
#: Points are rounded to four decimals of a degree, eleven metres.
_UNIT = 10**4
_SIMPLIFY = "simplify the shapes first, for example with mapshaper.org or QGIS"
_DEGREES = "must be longitude and latitude in degrees (WGS 84); convert other coordinates, such as metres, first"

#: The polygons of a region, each an outer ring and its holes: as of a GeoJSON MultiPolygon, but outer rings clockwise
#: and holes the other way, for on a sphere that is how d3-geo and Vega know the inside of a ring.
Shape: TypeAlias = list[list[list[list[float]]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Boundaries:
    """
    Attributes:
        shapes: by label the shape of its region.
        named_by: the property of the file whose values are labels.
        left_out: what that property says of the shapes that belong to no label.
    """

    shapes: dict[str, Shape]
    named_by: str
    left_out: tuple[str, ...]


def can_be_mapped(attribute: Attribute) -> bool:
    """Whether a column's labels can be regions: categories that were listed."""
    return not attribute.has_grammar and attribute.state_of is None


def read_boundaries(given: Mapping[str, Any], labels: Sequence[str]) -> Boundaries:
    """The shapes of a file whose regions have these labels.

    The regions are named by the property, or the identifier, whose values are the most of the labels, in capitals or
    not. Everything else that the file says of them is dropped. A ring of no area at four decimals is too small to see.

    Raises:
        InvalidInput: the file is no FeatureCollection, none of its shapes has a label, two have the same, or a shape
            that has one is not made of closed rings of longitude and latitude; or there are too many.
    """
    if given.get("type") != "FeatureCollection":
        raise InvalidInput("type", given.get("type"), "must be FeatureCollection")
    features = given.get("features")
    if not isinstance(features, list) or not all(isinstance(each, dict) for each in features):
        raise InvalidInput("features", type(features).__name__, "must be a list of objects")
    if len(features) > MAX_FEATURES:
        rule = f"must be at most {MAX_FEATURES:,}; leave out regions that are not in the column"
        raise InvalidInput("features", len(features), rule)
    named_by, names = _names_of(features, labels)
    label_of = _matching(labels)
    places: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        label = label_of(name)
        if label is not None and places.setdefault(label, place) != place:
            rule = f"names feature {places[label]} too; a region in several parts must be one feature, a MultiPolygon"
            raise InvalidInput(f"feature {place}, {named_by}", name, rule)
    read = _Reader()
    return Boundaries(
        shapes={label: read.shape(place, features[place - 1]) for label, place in places.items()},
        named_by=named_by,
        left_out=tuple(dict.fromkeys(name or "no name" for name in names if label_of(name) is None)),
    )


def labels_without(shapes: Mapping[str, object], labels: Iterable[str]) -> tuple[str, ...]:
    """The labels of a column that are not on its map."""
    return tuple(each for each in labels if each not in shapes)


def _names_of(features: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> tuple[str, list[str]]:
    """The property that names the regions, and what it says of each; an empty text where it says nothing."""
    said = [_properties(each) for each in features]
    label_of = _matching(labels)
    found: dict[str, set[str]] = {}
    for each in said:
        for name, value in each.items():
            label = label_of(_text(value)) if name.isprintable() else None
            found.setdefault(name, set()).update(() if label is None else (label,))
    best = max(found, key=lambda name: len(found[name]), default="")
    if not found.get(best):
        first = ", ".join(labels[:3])
        rule = f"must have a value that is one of the column's categories, such as {first}"
        raise InvalidInput("properties", ", ".join(found) or "none", rule)
    return best, [_text(each.get(best)) for each in said]


def _properties(feature: Mapping[str, Any]) -> dict[str, Any]:
    """What the file says of a region, its identifier included."""
    own, properties = {"id": feature["id"]} if "id" in feature else {}, feature.get("properties")
    return own | (properties if isinstance(properties, dict) else {})


def _text(value: object) -> str:
    """A name or a number, such as a code of a region, as a label writes it."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    text = str(value).strip() if isinstance(value, str) or is_number else ""
    return text if text.isprintable() else ""


def _matching(labels: Sequence[str]) -> Callable[[str], str | None]:
    """What finds the label of a name: that label, or the only one that differs in capitals alone."""
    many = Counter(each.casefold() for each in labels)
    alike = {each.casefold(): each for each in labels if many[each.casefold()] == 1}
    exact = set(labels)
    return lambda name: name if name in exact else alike.get(name.casefold())


class _Reader:
    """Reads shapes, and counts their points together."""

    def __init__(self) -> None:
        self._points = 0

    def shape(self, place: int, feature: Mapping[str, Any]) -> Shape:
        where, geometry = f"feature {place}", feature.get("geometry")
        kind = geometry.get("type") if isinstance(geometry, dict) else None
        if not isinstance(geometry, dict) or kind not in ("Polygon", "MultiPolygon"):
            raise InvalidInput(f"{where}, geometry", kind, "must be a Polygon or a MultiPolygon")
        coordinates = geometry.get("coordinates")
        polygons = self._list([coordinates] if kind == "Polygon" else coordinates, where, "polygons")
        read = [self._polygon(self._list(each, where, "rings"), where) for each in polygons]
        shape = [rings for rings in read if rings]
        if not shape:
            raise InvalidInput(f"{where}, geometry", "no area", "must be larger than a few metres")
        return shape

    def _polygon(self, rings: list[Any], where: str) -> list[list[list[float]]]:
        outer, *holes = (
            self._ring(self._list(ring, where, "points"), where, is_outer=not number)
            for number, ring in enumerate(rings)
        )
        return [outer, *filter(None, holes)] if outer else []

    def _ring(self, points: list[Any], where: str, *, is_outer: bool) -> list[list[float]]:
        """The ring in its direction; empty where it has no area."""
        self._points += len(points)
        if self._points > MAX_POINTS:
            raise InvalidInput("points", f"more than {MAX_POINTS:,}", f"must be at most {MAX_POINTS:,}; {_SIMPLIFY}")
        ring = [_position(each, where) for each in points]
        if len(ring) < 4 or ring[0] != ring[-1]:
            rule = "must have four or more, the last of them the first again"
            raise InvalidInput(f"{where}, coordinates", f"a ring of {len(ring)} points", rule)
        kept = [ring[0], *(each for before, each in pairwise(ring) if each != before)]
        # Twice the area under the edges, exactly; positive of a ring that runs clockwise.
        area = sum((x2 - x1) * (y2 + y1) for (x1, y1), (x2, y2) in pairwise(kept))
        if not area:
            return []
        return [[x / _UNIT, y / _UNIT] for x, y in (kept if (area > 0) is is_outer else reversed(kept))]

    @staticmethod
    def _list(value: object, where: str, of: str) -> list[Any]:
        if not isinstance(value, list) or not value:
            rule = f"must be a list of {of}, not an empty one"
            raise InvalidInput(f"{where}, coordinates", type(value).__name__, rule)
        return value


def _position(value: object, where: str) -> tuple[int, int]:
    """Longitude and latitude in ten thousandths of a degree; a height is left out."""
    numbers = value[:2] if isinstance(value, list) else []
    if len(numbers) < 2 or not all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers):
        raise InvalidInput(f"{where}, coordinates", value, _DEGREES)
    longitude, latitude = numbers
    # False of what is not a number, too.
    if not (-180 <= longitude <= 180 and -90 <= latitude <= 90):
        raise InvalidInput(f"{where}, coordinates", f"{longitude}, {latitude}", _DEGREES)
    return round(longitude * _UNIT), round(latitude * _UNIT)
