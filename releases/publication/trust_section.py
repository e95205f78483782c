"""How far the synthetic rows of a release can be trusted: known measures of quality, and a map of pairs of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Any

from releases.display.charts.tables import association_matrix, trust_matrix
from releases.engine.domain.counted import Counted
from releases.engine.estimation.trust import State, Trust
from releases.publication.receipt import counted_by, percent, rows_text
from releases.publication.trust_map import ORDERS, TRUST_MAP, read_trust

#: Columns of the map on the page; the file has all.
MAX_COLUMNS = 25
#: Measures of the receipt's summary by their names.
_MEASURES = {"columns": "Column shapes", "pairs": "Pair trends", "threes": "Trends of three columns"}
_SETS = {"pairs": "pairs of columns", "threes": "sets of three"}
#: How strong the colour of a square is, from 0 to 3, and what is written on it where there is no number.
_LEVELS = {State.MEASURED: (1.0, "m"), State.MODELLED: (0.5, "~"), State.INDEPENDENT: (0.0, "–")}
#: Of a certified one: the strongest, less by so much of the distance, and at least this.
_STRONGEST, _PALER, _PALEST = 3.0, 5.0, 1.6
_IN_WORDS = {
    State.MEASURED: "measured, not certified",
    State.MODELLED: "modelled",
    State.INDEPENDENT: "independent by construction",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityRow:
    """One measure, in per cent.

    Attributes:
        certified: of the mean.
        worst: the smallest is at least this, with the columns that it is of; empty where nothing is certified.
        estimated: the mean, no bound; empty where it is not known.
    """

    measure: str
    certified: str
    worst: str
    estimated: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PairRow:
    """A column or a pair: what is known of it in words."""

    columns: str
    state: str
    within: str
    rows: str
    association: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TrustSection:
    """What the page says of synthetic rows.

    Attributes:
        about, advice, of_associations: what the measures and both charts show.
        counts: how many sets are in which state, in sentences.
        chart, associations: specifications; None where there is nothing to draw.
        more: which columns the map leaves out; empty where none.
        details: how the measures are defined, in two paragraphs.
    """

    about: str
    advice: str
    of_associations: str
    quality: tuple[QualityRow, ...]
    counts: str
    chart: dict[str, Any] | None
    associations: dict[str, Any] | None
    pairs: tuple[PairRow, ...]
    more: str
    details: tuple[str, str]


def trust_section(result: Mapping[str, Any], folder: Path) -> TrustSection | None:
    """Read off the receipt and the file; None of a release without them."""
    receipt = result["receipt"]
    quality = receipt.get("synthetic_quality")
    if quality is None or not (folder / TRUST_MAP).is_file():
        return None
    entries = read_trust(folder / TRUST_MAP, most=MAX_COLUMNS)
    pairs = [each for each in entries if len(each.names) == 2]
    columns, counted = quality["columns"]["possible"], counted_by(receipt)
    linked = [_placed(each) | {"association": each.association} for each in pairs if each.association is not None]
    return TrustSection(
        about="How well the rows agree with the table. “Certified” is proved, with probability "
        f"{percent(1 - Fraction(receipt['bound']['beta']))}.",
        advice="Rely on relations certified within a few per cent. The table may have others.",
        of_associations="From 0, no relation, to 1, one column says what the other is.",
        quality=tuple(_quality(quality)),
        counts=" ".join(_counted(quality[name], said) for name, said in _SETS.items()),
        chart=trust_matrix([_square(each) for each in entries]) if pairs else None,
        associations=association_matrix(linked) if linked else None,
        pairs=tuple(_pair(each, counted) for each in entries),
        more=f"This is of the first {MAX_COLUMNS} of {columns:,} columns; all are in {TRUST_MAP}."
        if columns > MAX_COLUMNS
        else "",
        details=_details(_largest(quality, counted)),
    )


def _details(largest: str) -> tuple[str, str]:
    """
    Args:
        largest: the most rows that a certified count can be off; empty where nothing is certified.
    """
    return (
        "Column shapes and trends are one minus the total variation: the share of rows that are in the right cell of a "
        "table of one, two or three columns, on average over all that are known. They are certified where a released "
        "table holds the columns, from both ends of its intervals, together with all answers. “Estimated” compares "
        "with the released counts and proves nothing. Coverage is how many of the declared categories and ranges "
        "occur. Boundary adherence is how many values lie within what was declared: all, because they are drawn from "
        "it." + (f" No certified count is off by more than {largest}." if largest else ""),
        "“Measured” columns were counted together, with noise. “Modelled” ones were not: the model links them through "
        "others. “Independent” ones have no relation in the rows, by construction, whatever the table has. Association "
        "is Cramér’s V, in the rows. All of it follows from what is released, so it costs nothing.",
    )


def _quality(quality: Mapping[str, Any]) -> Iterator[QualityRow]:
    for name, measure in _MEASURES.items():
        proved, likely = quality[name]["certified"], quality[name]["estimated"]
        if proved or likely:
            yield QualityRow(
                measure=measure,
                certified=f"at least {_agreement(proved['average'])}" if proved else "no",
                worst=f"{_agreement(proved['largest'])} ({_joined(proved['largest_of'])})" if proved else "",
                estimated=f"{100 * (1 - likely['average']):.1f}%" if likely else "",
            )
    if bins := quality["bins"]["declared"]:
        present = f"{floor(1000 * quality['bins']['present'] / bins) / 10:.1f}%"
        yield QualityRow(measure="Coverage", certified=present, worst="", estimated="")
    yield QualityRow(measure="Boundary adherence", certified="100.0%", worst="", estimated="")


def _agreement(share: float) -> str:
    """One minus the bound of a distance, rounded down."""
    return f"{floor(round(1000 * (1 - share), 6)) / 10:.1f}%"


def _counted(summary: Mapping[str, Any], sets: str) -> str:
    """How many sets of one size are in which state."""
    if not summary["possible"]:
        return ""
    said = {
        "certified": (summary["certified"] or {"number": 0})["number"],
        "measured": summary[State.MEASURED.value],
        "modelled": summary[State.MODELLED.value],
        "independent": summary[State.INDEPENDENT.value],
    }
    said["measured but not certified"] = said.pop("measured") - said["certified"]
    listed = ", ".join(f"{number:,} {state}" for state, number in said.items() if number)
    cut = summary["possible"] - summary["listed"]
    left = f" The other {cut:,} are not listed." if cut else ""
    return f"{sets.capitalize()} ({summary['possible']:,}): {listed}.{left}"


def _largest(quality: Mapping[str, Any], counted: Counted) -> str:
    rows = [each for name in ORDERS if (each := quality[name]["most_rows_off"]) is not None]
    return rows_text(max(rows), counted) if rows else ""


def _square(entry: Trust) -> dict[str, Any]:
    level, mark = _LEVELS[entry.state]
    if entry.share_off is not None:
        level = max(_PALEST, _STRONGEST - _PALER * entry.share_off)
        mark = f"{_at_most(entry.share_off, 100)}%"
    return _placed(entry) | {"level": level, "mark": mark, "state": _state(entry)}


def _at_most(share: float, steps: int = 1000) -> str:
    """Per cent, rounded up to one in so many."""
    return f"{100 * ceil(round(steps * share, 6)) / steps:g}"


def _placed(entry: Trust) -> dict[str, Any]:
    return {"across": entry.names[0], "down": entry.names[-1]}


def _state(entry: Trust) -> str:
    if entry.share_off is None:
        return _IN_WORDS[entry.state]
    return f"measured, certified within {_at_most(entry.share_off)}%"


def _pair(entry: Trust, counted: Counted) -> PairRow:
    return PairRow(
        columns=_joined(entry.names),
        state=_IN_WORDS[entry.state] if entry.share_off is None else "measured, certified",
        within="" if entry.share_off is None else f"{_at_most(entry.share_off)}%",
        rows="" if entry.rows_off is None else rows_text(entry.rows_off, counted),
        association="" if entry.association is None else f"{entry.association:.2f}",
    )


def _joined(names: Sequence[str]) -> str:
    return " × ".join(names)
