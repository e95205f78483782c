"""The data dictionary of a release: what every column, bin and category of its files means, as a table.

It follows from the declaration alone, and says of each column what became of other values and how a synthetic value
is drawn.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date, timedelta
from itertools import chain
from typing import Any

from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.attribute import (
    AS_DECLARED,
    CLAMP,
    DROP,
    FIRST,
    LAST,
    MISSING,
    OUTSIDE,
    UNREADABLE,
    Attribute,
    plain,
)
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.dates import By, Dates
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.workload.parsing import read_answered
from releases.engine.workload.questions import dates_of
from releases.publication.files import apart, guarded
from releases.publication.readme import confidence_of
from releases.schema.bin_edges import (
    bins_in_words,
    codes_in_words,
    ends_in_words,
    made_in_words,
    missing_in_words,
    where_tables_have_own_rows,
)
from releases.schema.descriptions import Notes

DICTIONARY = "dictionary.csv"


@dataclass(frozen=True, kw_only=True)
class DictionaryLine:
    """One line of the file: a bin or a category of a column, or a column that answers.csv has of its own.

    Attributes:
        column: its name as declared.
        type: categorical, integer, number, date or datetime; text or number of columns of our own.
        bin: its position, from 1.
        label: as it is written in the files.
        meaning: which values it holds.
        also_holds: values from outside the declaration that are counted in it.
        other_values: what becomes of all values outside, the same for the whole column.
        synthetic_value: how a synthetic row gets its value within the bin.
        in_answers: what the column is called in answers.csv; empty where it is not there.
        in_synthetic: the same of synthetic.csv.
        description, unit: of the column, as the curator had put them when the release was made.
        formula: what the column was made by, of one that was not in the table.
        impossible: combinations with bins of other columns that are declared impossible; the file has this column where
            some are.
    """

    column: str
    type: str
    bin: str = ""
    label: str = ""
    meaning: str
    also_holds: str = ""
    other_values: str = ""
    synthetic_value: str = ""
    in_answers: str = ""
    in_synthetic: str = ""
    description: str = ""
    unit: str = ""
    formula: str = ""
    impossible: str = ""


@dataclass(frozen=True, kw_only=True)
class DescribedColumn:
    """One column as the result page says it."""

    name: str
    type: str
    bins: str
    other_values: str
    fuller: str
    synthetic_value: str
    description: str = ""
    unit: str = ""


def dictionary_csv(
    receipt: Mapping[str, Any], *, answers: Collection[str], totals: Collection[str], notes: Notes
) -> str:
    """The whole dictionary.

    Args:
        receipt: of a published release.
        answers: the columns of its answers.csv.
        totals: those of its totals.csv; none where it has no such file.
        notes: what was said of the columns when it was made.
    """
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    names = [each.name for each in fields(DictionaryLine)]
    if not receipt["schema"].get("impossible"):
        names.remove("impossible")
    writer.writerow(names)
    of_totals = (
        DictionaryLine(column=name, type=kind, meaning=f"in totals.csv: {meaning}")
        for name, (kind, meaning) in _own_columns(receipt).items()
        if name in totals and name not in answers
    )
    for line in chain(_lines(receipt, answers, notes), of_totals):
        said = asdict(line)
        writer.writerow(guarded(said[name]) for name in names)
    return written.getvalue()


def columns_of(receipt: Mapping[str, Any], notes: Notes) -> list[DescribedColumn]:
    """Every declared column, a line each."""
    universe = Schema.from_json(receipt["schema"]).universe
    synthetic = _synthetic_columns(receipt)
    return [
        DescribedColumn(
            name=each.name,
            type=each.kind.value,
            bins=bins_in_words(each) if each.has_grammar else _categories_in_words(each),
            other_values="; ".join(filter(None, (made_in_words(each), _other_values(each, universe)))),
            fuller=ends_in_words(each),
            synthetic_value=_synthetic_value(each) if each.name in synthetic else "",
            **notes.get(each.name, {}),
        )
        for each in universe.attributes
    ]


def _lines(receipt: Mapping[str, Any], answers: Collection[str], notes: Notes) -> Iterator[DictionaryLine]:
    synthetic = _synthetic_columns(receipt)
    universe = Schema.from_json(receipt["schema"]).universe
    for attribute in universe.attributes:
        is_synthetic = attribute.name in synthetic
        answered = apart(attribute.name)
        of_all = {
            "column": attribute.name,
            "type": attribute.kind.value,
            "other_values": _other_values(attribute, universe),
            "synthetic_value": _synthetic_value(attribute) if is_synthetic else "",
            "in_answers": answered if answered in answers else "",
            "in_synthetic": attribute.name if is_synthetic else "",
            "formula": formula.text if (formula := (attribute.state_of or attribute).formula) is not None else "",
            **notes.get(attribute.name, {}),
        }
        for index, label in enumerate(attribute.labels):
            yield DictionaryLine(
                bin=str(index + 1),
                label=label,
                meaning=_meaning(attribute, index),
                also_holds=_also_holds(attribute, index),
                impossible="; ".join(
                    others for each in universe.impossible if (others := each.beside(attribute.name, label)) is not None
                ),
                **of_all,
            )
    for name, (kind, meaning) in _own_columns(receipt).items():
        if name in answers:
            yield DictionaryLine(column=name, type=kind, meaning=meaning, in_answers=name)


def _synthetic_columns(receipt: Mapping[str, Any]) -> Collection[str]:
    if not receipt["synthetic_rows"]:
        return ()
    # Rows made before they had the columns asked about alone had all of them.
    every = [each["name"] for each in receipt["schema"]["columns"]]
    told: list[str] = receipt.get("synthetic_columns", every)
    return told


def _own_columns(receipt: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    universe = Schema.from_json(receipt["schema"]).universe
    dates, counted = dates_of(read_answered(receipt["workload"], universe)), universe.counted
    what = "number" if dates is None else "date and time" if dates.has_time else "date"
    truth = "the truth is" if Proof(receipt["bound"]["proof"]).is_proved else "the truth is expected to be"
    at_once = f"for all rows of the file at once, with probability {confidence_of(receipt)}"
    return {
        "query": ("text", "the question that the row answers"),
        "statistic": ("text", "what is asked of all groups together: counts, or a statistic as a workload calls it"),
        "of": ("text", "what the row is of"),
        "estimate": (what, f"the released {what}"),
        "lower": (what, f"{truth} {'at least this' if dates is None else 'not before this'}, {at_once}"),
        "upper": (what, f"{truth} {'at most this' if dates is None else 'not after this'}, {at_once}"),
        "answer": ("text", "what was chosen"),
        "value": ("number", f"the released number of {counted.many}, where it was paid for"),
    }


#: What a state says of a value.
_STATES = {
    AS_DECLARED: "has a declared value",
    OUTSIDE: "has a value outside the declared ones",
    UNREADABLE: "is text that writes no such number",
    MISSING: "is missing",
}


def _meaning(attribute: Attribute, index: int) -> str:
    if attribute.state_of is not None:
        return f"{attribute.counted.many} whose {attribute.name} {_STATES[attribute.categories[index]]}"
    if attribute.dates is not None:
        return _meaning_of_date(attribute, attribute.dates, index)
    if not attribute.is_numeric:
        return f"{attribute.counted.many} whose {attribute.name} is “{attribute.categories[index]}”"
    if index == attribute.ranges:
        return f"{attribute.counted.many} whose {attribute.name} is missing, or is text that writes no such number"
    low, high = (plain(edge) for edge in attribute.edges[index : index + 2])
    whole = "whole " if attribute.kind is AttributeKind.INTEGER else ""
    if index == 0 and FIRST in attribute.open_ends:
        return f"{whole}numbers below {high}, most of them from {low} on"
    if index == attribute.ranges - 1 and LAST in attribute.open_ends:
        return f"{whole}numbers from {low} on, most of them up to {high}"
    if attribute.kind is AttributeKind.INTEGER:
        label = attribute.labels[index]
        return f"the whole numbers {label}" if " to " in label else f"the whole number {label}"
    if index == attribute.ranges - 1:
        return f"numbers from {low} to {high}, both included"
    return f"numbers from {low} to below {high}"


def _meaning_of_date(attribute: Attribute, dates: Dates, index: int) -> str:
    if index == dates.size:
        counted = attribute.counted.many
        return f"{counted} whose {attribute.name} is missing, or is text that writes no date as {dates.written}"
    between = f"from {dates.first} to {dates.last}"
    if dates.by is By.HOUR:
        return f"times of day {attribute.labels[index]}, of dates {between}"
    if dates.by is By.WEEKDAY:
        return f"{attribute.labels[index]}s {between}"
    start, many, _ = dates.within(index)
    first, last = (date(1970, 1, 1) + timedelta(days=day) for day in (start, start + many - 1))
    return f"the date {first}" if first == last else f"dates from {first} to {last}, both included"


def _also_holds(attribute: Attribute, index: int) -> str:
    if attribute.state_of is not None:
        return ""
    if attribute.dates is not None:
        if attribute.outside != CLAMP or index >= attribute.in_time:
            return ""
        before = [f"dates before {attribute.dates.first}"] if index == 0 else []
        after = [f"dates after {attribute.dates.last}"] if index == attribute.in_time - 1 else []
        return " and ".join(before + after)
    if not attribute.is_numeric:
        category, many = attribute.categories[index], attribute.counted.many
        if category == DROP or category not in (attribute.outside, attribute.missing_as):
            return ""
        if category == attribute.missing_as:
            return f"{many} without a value"
        return "every other value" if attribute.missing_as else f"every other value, and {many} without one"
    if attribute.outside != CLAMP or index == attribute.ranges:
        return ""
    ends = [f"values below {plain(attribute.edges[0])}"] if index == 0 else []
    ends += [f"values above {plain(attribute.edges[-1])}"] if index == attribute.ranges - 1 else []
    return " and ".join(ends)


def _other_values(attribute: Attribute, universe: Universe) -> str:
    told = (_rule_in_words(attribute), missing_in_words(attribute), codes_in_words(attribute))
    said = "; ".join(filter(None, told))
    return where_tables_have_own_rows(said) if universe.own_rows else said


def _rule_in_words(attribute: Attribute) -> str:
    if attribute.state_of is not None:
        return "every value has one of these states"
    one = attribute.counted.one
    if not attribute.has_grammar:
        or_none = "" if attribute.missing_as else ", or none,"
        if attribute.outside != DROP:
            return f"any other value{or_none} counts as {attribute.outside}"
        return f"a {one} with any other value{or_none} is left out of every count"
    what = "date" if attribute.dates is not None else "number"
    if attribute.drops_missing and attribute.outside != CLAMP:
        return f"a {one} with a {what} beyond, or without one, is left out of every count"
    beyond = "counts in the nearest bin" if attribute.outside == CLAMP else f"leaves its {one} out of every count"
    without = "is left out of every count" if attribute.drops_missing else f"counts as {attribute.missing_as}"
    return f"a {what} beyond {beyond}; a {one} without a {what} {without}"


def _synthetic_value(attribute: Attribute) -> str:
    if not attribute.has_grammar:
        return "the category itself"
    nothing = f"; none in the bin “{attribute.missing_as}”" if attribute.missing_as else ""
    is_ordered = (attribute.ranges if attribute.dates is None else attribute.in_time) > 1
    how = "more often towards a neighbouring bin with denser values" if is_ordered else "each equally likely"
    if attribute.dates is not None:
        time = ", with a time of day" if attribute.dates.has_time else ""
        return f"a date within the bin, written {attribute.dates.written}{time}, {how}{nothing}"
    typical = ", an open bin up to where most of its values end" if attribute.open_ends else ""
    if attribute.kind is AttributeKind.INTEGER:
        return f"a whole number within the bin{typical}, {how}{nothing}"
    places = "1 decimal" if attribute.decimals == 1 else f"{attribute.decimals} decimals"
    return f"a number of {places} within the bin{typical}, {how}{nothing}"


def _categories_in_words(attribute: Attribute) -> str:
    said = bins_in_words(attribute)
    counted, _, rest = said.partition(": ")
    return f"{counted.replace('bins', 'categories').replace('bin', 'category')}: {rest}"
