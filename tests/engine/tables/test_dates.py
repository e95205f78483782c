"""Columns of dates: the same dirty texts on every database, and the counts of a reference in plain Python."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.tables.query import TableCounts
from tests.engine.tables.reference import Reference, bins_of, code, state
from tests.engine.tables.test_contract import EACH_ENGINE, check, without_nul

DAY, TIME, ID, TABLE = 'Aufnahme "am"', "date_0", "$1 id", "tag"
FORMATS = ("YYYY-MM-DD", "DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "DD-MM-YYYY", "YYYY/MM/DD", "YYYYMMDD")
#: Years, months and days, some of which there are not: each is written in every form.
PARTS = (
    *((2024, 2, 29), (2023, 2, 29), (1900, 2, 29), (2000, 2, 29), (2100, 2, 29), (4, 2, 29), (400, 2, 29), (1, 2, 29)),
    *((2024, 2, 30), (2024, 2, 31), (2024, 4, 31), (2024, 4, 30), (2024, 12, 31), (2024, 13, 1), (2024, 0, 1)),
    *((2024, 1, 0), (2024, 1, 32), (0, 1, 1), (1, 1, 1), (9999, 12, 31), (1969, 12, 31), (1970, 1, 1), (1582, 10, 10)),
    *((2019, 12, 31), (2020, 1, 1), (2020, 12, 31), (2021, 1, 1), (2021, 1, 3), (2021, 1, 4), (2024, 12, 30)),
    *((2024, 6, 30), (2024, 7, 1), (2024, 31, 12), (2024, 6, 6), (2021, 11, 30), (2021, 11, 31), (2021, 9, 31)),
)
TIMES = (
    *("", " 00:00:00", "T23:59:59", " 14:05", "T14:05:09.123456789", " 14:05:60", " 24:00:00", " 14:60", " 14", " "),
    *(" 14:05:09+02", " 14:05:09+02:00", "T14:05Z", " 14:05:09-0330", " 14:05:09 CET", "T14:05:09.1234567890", " 1:05"),
    *("  14:05:09", " 14:05:", " 14:05:09.", "t14:05", " 14.05", " 14:05:09,5", "\n14:05:09", " 14:05+01:00"),
    *(" 14:05+1", " 07:00", " 08:59:59", " 12:00 PM", " 1४:05", "Z", "+01", " 14:05:09Z+01", " 14:05:09+01:0"),
    " 14:05:9",
)
ODD = (
    *("", " ", None, "null", "infinity", "-infinity", "now", "today", "epoch", "31.12.24", "24-12-31", "1.2.2024"),
    *("12024-01-01", "-2024-01-01", "+2024-01-01", "2024-1-1", "2024-01", "2024", "44927", "44927.5", "2024.01.01"),
    *("2024-01-01 (BC)", "2024-01-01 BC", "2024-W05-1", "2024-032", "1 Jan 2024", "Jan 1, 2024", "31DEC2024"),
    *("2024--01", "２０２４-01-01", "2024-01-01\u2028", "\u00a02024-01-01", "2024-01-01\0", "2024\u201301\u201301"),
    *("20240101T", "x", "2024-01-01x", "x2024-01-01", "2024/01-01", "01.01/2024", "01.01.02024", "001.01.2024"),
    *("99999999", "9999-99-99", "01,01,2024", "1..2024", ".1.2024", "2024-01-01-", "2024-01-01.", "0.1.2024"),
    *("00.01.2024", "01.00.2024"),
)
RANGES = (
    {"first": "2019-02-13", "last": "2024-12-30", "by": "month"},
    {"first": "2020-01-01", "last": "2021-01-01", "by": "year"},
    {"first": "1899-12-31", "last": "2024-02-29", "by": "quarter"},
    {"first": "2019-12-31", "last": "2021-01-04", "by": "week"},
    {"first": "1969-12-30", "last": "1970-01-03", "by": "day"},
    {"first": "1960-05-05", "last": "2024-06-30", "by": "weekday"},
    {"edges": ["1969-12-31", "2020-01-01", "2020-12-31", "2024-06-30"], "by": "edges"},
    {"first": "0001-01-01", "last": "9999-12-31", "by": "weekday"},
    {"first": "2019-12-31", "last": "2024-12-30", "by": "hour"},
)
UNITS = ({"kind": "row"}, {"kind": "person", "id": ID, "max_rows": 2})


def column(name, number, *, has_time):
    """A declaration: the groupings, forms and rules after each other."""
    ranges = [each for each in RANGES if has_time or each["by"] != "hour"][number % (9 if has_time else 8)]
    kinds = {"type": "datetime" if has_time else "date", "format": FORMATS[number % 7]}
    outside = "drop" if ranges["by"] in ("weekday", "hour") else ["clamp", "drop"][number // 2 % 2]
    rules = {"missing_as": "no date"} if number % 3 else {}
    codes = {"missing": ["9999-99-99", "31.12.9999", "null", "99999999"]} if number % 2 else {}
    return {"name": name, **kinds, **ranges, "outside": outside, **rules, **codes}


def declared(number):
    return {
        "version": 1,
        "columns": [
            column(DAY, number, has_time=False),
            {"name": TABLE, "type": "categorical", "categories": ["a", "b"]},
            column(TIME, number + 4, has_time=True),
        ],
        "unit": UNITS[number % 2],
        "neighbours": "add_remove",
    }


def as_written(parts, form, *, short=False):
    year, month, day = parts
    pattern = "{:d}" if short else "{:02d}"
    named = {"YYYY": f"{year:04d}", "MM": pattern.format(month), "DD": pattern.format(day)}
    for name, digits in named.items():
        form = form.replace(name, digits)
    return form


def dirty(number, drawn):
    """Each date with a time and without, in the column's form and in others, and what is no date."""
    day, _, time = declared(number)["columns"]
    texts = []
    for parts in PARTS:
        for form in {day["format"], time["format"], drawn.choice(FORMATS)}:
            written = as_written(parts, form, short=drawn.random() < 0.3)
            texts += [written, written + " 14:05:09", written + drawn.choice(TIMES)]
    for each in TIMES:
        texts += [as_written((2020, 6, 15), form) + each for form in (day["format"], time["format"])]
    texts += [as_written((drawn.randrange(2018, 2026), drawn.randrange(1, 13), drawn.randrange(1, 29)), day["format"])]
    texts += [*ODD, *(f"\t {each}\x0b" for each in texts[:20])]
    shuffled = drawn.sample(texts, len(texts))
    fine = as_written((2020, 6, 15), time["format"]) + " 08:30"
    rows = [(text, other) for text, other in zip(texts, shuffled, strict=True)]
    rows += [(as_written((2020, 6, 15), day["format"]), text) for text in texts] + [(text, fine) for text in texts]
    return without_nul(
        [{ID: f"p{drawn.randrange(60)}", DAY: one, TABLE: drawn.choice("ab"), TIME: other} for one, other in rows]
    )


@EACH_ENGINE
def test_dirty_dates_count_as_the_reference_says(load, request):
    """Every grouping, and every form, on the databases that are quick."""
    for case in range(3 if request.node.callspec.id == "spark" else 9):
        rows, schema = dirty(case, random.Random(case)), declared(case)
        counts = TableCounts(load(rows, request), Schema.from_json(schema))
        reference = Reference(schema, rows)
        for one in ([DAY], [TIME], [TABLE, TIME], [TIME, DAY], [DAY, TABLE, TIME]):
            found = counts.marginal(tuple(one))
            cells = {cell: int(found[cell]) for cell in zip(*(each.tolist() for each in found.nonzero()), strict=True)}
            assert cells == dict(reference.cells(one)), (case, one)
        tally = counts.tally((DAY, TIME))
        combined = zip(*(values.tolist() for values in tally.values), strict=True)
        assert dict(zip(combined, tally.counts.tolist(), strict=True)) == dict(reference.tally([DAY, TIME])), case
        assert tally.counts.sum() > 15, case


@EACH_ENGINE
def test_dates_that_count_by_themselves_are_the_days_and_seconds_that_the_reference_says(load, request):
    """Also which of a person's rows count, whose order is then that of the dates and not of their bins."""
    for case in range(2 if request.node.callspec.id == "spark" else 9):
        rows, schema = dirty(case, random.Random(case)), declared(case)
        for each in schema["columns"]:
            each.pop("missing_as", None)
        read = Schema.from_json(schema)
        for exact in [((DAY,), (DAY, TIME))[case // 2 % 2]]:
            marked = [{**each, "exact": each["name"] in exact} for each in schema["columns"]]
            reference = Reference({**schema, "columns": marked}, rows)
            counts = TableCounts(load(rows, request), replace(read, universe=read.universe.exactly(exact)))
            for names in ((DAY,), (TIME, TABLE), (DAY, TIME)):
                tally = counts.tally(names)
                combined = zip(*(values.tolist() for values in tally.values), strict=True)
                found = dict(zip(combined, tally.counts.tolist(), strict=True))
                assert found == dict(reference.tally(list(names))), (case, exact, names)
            assert tally.counts.sum() > 15, case
            bins = counts.marginal((DAY,))
            assert {(place,): int(bins[place]) for place in bins.nonzero()[0].tolist()} == dict(reference.cells([DAY]))
            ranges = [read.universe[name].dates for name in exact]
            low_and_high = [(each.lowest, each.above - 1) for each in ranges]
            for values, (low, high) in zip(counts.tally(exact).values, low_and_high, strict=True):
                assert (values.min() >= low, values.max() <= high) == (True, True)


#: Summer times in both halves of the year, half hours, a day that was left out, and clocks that never changed.
ZONES = ("Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Tokyo")
#: Instants at which clocks of one of them changed, and others.
CHANGES = (
    *("2021-03-28T01:00", "2021-10-31T01:00", "2011-12-30T10:00", "2021-03-14T05:30", "2021-11-07T04:30"),
    *("2021-04-03T15:00", "2021-10-02T15:30", "2021-04-11T02:00", "1996-10-27T01:00", "2005-10-30T01:00"),
    *("1987-10-25T02:31", "2021-12-31T23:30", "2022-01-01T00:30", "1969-12-31T23:59", "2024-02-29T23:59"),
)


@EACH_ENGINE
def test_times_with_an_offset_are_those_of_the_clocks_of_the_declared_zone(load, request):
    """By the second, around the instants at which clocks change; a time without an offset is one of the zone."""
    texts = []
    for change in CHANGES:
        at = datetime.fromisoformat(f"{change}:00+00:00")
        for apart in (-3601, -1, 0, 1, 1800, 3600):
            instant = at + timedelta(seconds=apart)
            west = instant.astimezone(timezone(-timedelta(hours=3, minutes=30)))
            texts += [f"{instant:%Y-%m-%d %H:%M:%S}{end}" for end in ("Z", "+00", "+00:00", "", ".75Z", "-0000")]
            texts += [f"{west:%Y-%m-%dT%H:%M:%S}{end}" for end in ("-03:30", "-0330", "-03:60", "-24", "+99:00", "")]
            texts += [f"{instant + timedelta(hours=14):%Y-%m-%d %H:%M}+14"]
    texts += ["2021-03-28", "2021-03-28Z", "2021-03-28 12:00+1", "2021-03-28 12:00 Z", "28.03.2021 12:00Z", "", None]
    rows = [{ID: str(place), TIME: text} for place, text in enumerate(texts)]
    for zone in ZONES[:2] if request.node.callspec.id == "spark" else ZONES:
        described = {"name": TIME, "type": "datetime", "format": FORMATS[0], "zone": zone, "outside": "clamp"}
        described |= {"first": "1969-12-31", "last": "2024-12-31", "by": "year"}
        schema = {"version": 1, "columns": [described], "unit": UNITS[0], "neighbours": "add_remove"}
        read = Schema.from_json(schema)
        counts = TableCounts(load(rows, request), replace(read, universe=read.universe.exactly((TIME,))))
        tally = counts.tally((TIME,))
        found = dict(zip(zip(tally.values[0].tolist(), strict=True), tally.counts.tolist(), strict=True))
        expected = dict(Reference({**schema, "columns": [{**described, "exact": True}]}, rows).tally([TIME]))
        assert found == expected, zone
        assert len(found) > 200
        assert Schema.from_json(read.to_json()) == read
        # Read as it is written, it is another second.
        plain = Schema.from_json({**schema, "columns": [{**described, "zone": ""}]})
        tally = TableCounts(load(rows, request), replace(plain, universe=plain.universe.exactly((TIME,)))).tally(
            (TIME,)
        )
        assert set(tally.values[0].tolist()) != {place for (place,) in expected}


@EACH_ENGINE
def test_how_each_date_reads_as_declared_is_counted_as_the_reference_says(load, request):
    rows, schema = dirty(1, random.Random(7)), {**declared(1), "unit": UNITS[0]}
    states = ["as declared", "outside", "unreadable", "missing"]
    schema["columns"] = [
        {"name": each["name"], "type": "categorical", "categories": states, "outside": "outside", "state_of": each}
        for each in schema["columns"]
        if each["name"] != TABLE
    ]
    counts, reference = TableCounts(load(rows, request), Schema.from_json(schema)), Reference(schema, rows)
    check(counts, reference, "states", texts=())
    assert {cell for name in (DAY, TIME) for (cell,) in reference.cells([name])} == {0, 1, 2, 3}


def test_each_row_has_one_bin_or_none_and_a_state_that_says_which():
    """So the relation between neighbours, and the sensitivity with it, is that of a column of categories."""
    for case in range(18):
        for described in (declared(case)["columns"][0], declared(case)["columns"][2]):
            attribute = Attribute.from_json(described)
            assert Attribute.from_json(attribute.to_json()) == attribute
            assert Attribute.from_json(attribute.state.to_json()) == attribute.state
            assert attribute.ordered.size == attribute.size - bool(described.get("missing_as"))
            if "edges" not in described:
                no_date = ["no date"] if described.get("missing_as") else []
                assert list(attribute.labels) == [*bins_of(described), *no_date]
            for row in dirty(case, random.Random(case)):
                found = code(described, row[described["name"]])
                assert attribute.drops(state(described, row[described["name"]])) is (found is None)
                assert found is None or 0 <= found[0] < attribute.size


_FEBRUARY = {"first": "2024-01-01", "last": "2024-02-02", "by": "day"}


@pytest.mark.parametrize(
    ("field", "described"),
    [
        ("first", {"first": "2023-02-29", "last": "2024-01-01", "by": "year"}),
        ("last", {"first": "2024-01-02", "last": "2024-01-01", "by": "year"}),
        ("by", {**_FEBRUARY, "by": "hour"}),
        ("zone", {**_FEBRUARY, "zone": "Europe/Berlin"}),
        ("zone", {**_FEBRUARY, "type": "datetime", "zone": "Europe/Atlantis"}),
        ("zone", {**_FEBRUARY, "type": "datetime", "format": "DD.MM.YYYY", "zone": "Europe/Berlin"}),
        ("by", {"first": "2000-01-01", "last": "2024-01-02", "by": "day"}),
        ("edges", {"edges": ["2024-01-01"]}),
        ("edges", {"edges": ["2024-01-02", "2024-01-02", "2024-01-03"]}),
        ("first", {"edges": ["2024-01-01", "2024-01-02"], "first": "2024-01-01"}),
        ("format", {**_FEBRUARY, "format": "DD.MM.YY"}),
        ("outside", {**_FEBRUARY, "by": "weekday", "outside": "clamp"}),
        ("missing_as", {**_FEBRUARY, "missing_as": "no number"}),
    ],
)
def test_a_declaration_that_breaks_a_rule_is_refused_by_the_field(field, described):
    with pytest.raises(InvalidInput) as refused:
        Attribute.from_json({"name": "d", "type": "date", **described})
    assert refused.value.field == field
