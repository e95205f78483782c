"""The pairs of columns that a release chose and counted, as pages, reports and files show them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from releases.display.charts.tables import heat_map
from releases.engine.domain.counted import Counted
from releases.engine.mechanisms.strongest_associations import TABLES
from releases.publication.receipt import counted_by

ASSOCIATIONS = "associations.csv"
_HEADS = ("pair", "first_column", "first_value", "second_column", "second_value", "estimate", "lower", "upper")


@dataclass(frozen=True, kw_only=True, slots=True)
class Association:
    """One pair.

    Attributes:
        columns: both.
        cells: in order, the values of both, and the released count with its ends, none below 0.
        counted: what they count.
        sentence: what is certain of it, in words.
        chart: its heat map.
    """

    columns: tuple[str, str]
    cells: tuple[tuple[tuple[str, str], tuple[int, int, int]], ...]
    counted: str
    sentence: str
    chart: dict[str, Any]

    @property
    def title(self) -> str:
        return " × ".join(self.columns)


def associations_of(receipt: Mapping[str, Any]) -> tuple[Association, ...]:
    """The pairs of a release, in the order chosen; none of a release of another kind."""
    if not (noted := receipt["notes"].get(TABLES)):
        return ()
    counted = counted_by(receipt)
    return tuple(_association(each, counted) for each in noted)


def _association(noted: Mapping[str, Any], counted: Counted) -> Association:
    (one, other), (down, across), reach = noted["columns"], noted["levels"], noted["half_width"]
    cells = tuple(
        ((first, second), (max(count, 0), max(floor(count - reach), 0), max(ceil(count + reach), 0)))
        for first, counts in zip(down, noted["counts"], strict=True)
        for second, count in zip(across, counts, strict=True)
    )
    drawn = [
        {"labels": labels, **dict(zip(("estimate", "lower", "upper"), numbers, strict=True))}
        for labels, numbers in cells
    ]
    return Association(
        columns=(one, other),
        cells=cells,
        counted=counted.many,
        sentence=_sentence(noted, counted),
        chart=heat_map(drawn, heads=(one, other), unit=counted.many),
    )


def _sentence(noted: Mapping[str, Any], counted: Counted) -> str:
    """What is certain with the confidence of the release; that nothing is, where nothing is."""
    (one, other), found = noted["columns"], noted["more_frequent"]
    if found is None:
        return f"The released counts are too uncertain to say how {one} and {other} go together."
    first, second = noted["levels"][0][found["first"]], noted["levels"][1][found["second"]]
    return (
        f"Of the {counted.many} with {one} “{first}”, about {_percent(found['share'])} have {other} “{second}”; of all "
        f"other {counted.many}, about {_percent(found['others'])}."
    )


def _percent(share: Iterable[float]) -> str:
    about, low, high = share
    return f"{100 * about:.0f}% ({floor(round(100 * low, 6))} to {ceil(round(100 * high, 6))})"


def associations_csv(associations: Iterable[Association], guarded: Callable[[str], str]) -> str:
    """One line a cell.

    Args:
        guarded: makes a text one that no spreadsheet takes for a formula.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADS)
    for place, each in enumerate(associations, start=1):
        one, other = map(guarded, each.columns)
        for (first, second), numbers in each.cells:
            writer.writerow([place, one, guarded(first), other, guarded(second), *numbers])
    return text.getvalue()
