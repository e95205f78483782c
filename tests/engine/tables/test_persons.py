"""Columns of one value a person: on every database what plain Python gives, and one row between neighbours."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import date

import duckdb
import numpy as np
import pytest

from releases.engine.domain.formula_tree import Take
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.tables.query import TableCounts, open_table
from releases.engine.workload.queries import Workload
from tests.engine.tables.reference import Reference, code
from tests.engine.tables.reference_persons import as_text, in_words, made, people
from tests.engine.tables.test_contract import EACH_ENGINE, PEOPLE
from tests.engine.tables.test_formulas import BORN, CODE, COLUMNS, COUNT, SEEN, SEX, SOURCES, TEXTS, WAGE, dirty

ID, TABLE, WHICH = "$1 id", "table", "which"
NUMBER = {"type": "number", "edges": [-(9 * 10**6), 0, 2.5, 9 * 10**6], "decimals": 9, "missing_as": "no number"}
WHOLE = {"type": "integer", "edges": [0, 1, 2, 5, 20], "outside": "clamp"}
FEW = {"type": "categorical", "categories": TEXTS, "outside": "other", "missing_as": "ß"}
MANY = {"type": "categorical", "categories": ["zz", *TEXTS[::-1], *(f"c{each}" for each in range(80) if each != 7)]}
TRUTH = {"type": "categorical", "categories": ["false", "true"]}
DAY = {"type": "date", "format": "YYYY-MM-DD", "first": "1969-12-31", "last": "2024-02-29", "by": "year"}
DAY |= {"outside": "clamp", "missing_as": "no date"}
TIME = {"type": "datetime", "format": "YYYY-MM-DD", "missing_as": "no date"}
HOUR = {**TIME, "first": "1900-01-01", "last": "2100-12-31", "by": "hour", "outside": "drop"}
MONTH = {**TIME, "first": "2019-07-01", "last": "2020-12-31", "by": "month", "outside": "clamp"}
EDGES = {**TIME, "edges": ["1969-12-31", "1999-12-31", "2000-01-01", "2024-02-29"], "outside": "clamp"}
CODES = {
    "type": "categorical",
    "categories": ["\\n", "f", *TEXTS[2:], "m", *(f"c{each}" for each in range(80) if each != 7)],
}
CODES |= {"outside": "drop", "missing_as": "f"}
IS_LOW, IS_F = ("<", ("column", COUNT), ("number", 20.0)), ("=", ("column", SEX), ("quoted", "f"))
#: Each that can be taken, of each type that it takes.
TAKEN = {
    "rows": (("count", None), WHOLE),
    "low": (("count", IS_LOW), WHOLE),
    "words": (("count", ("column", SEX)), WHOLE),
    "numbers": (("count", ("column", COUNT)), WHOLE),
    "sum": (("sum", ("column", WAGE), -5, 70.25), {**NUMBER, "decimals": 2}),
    "large sum": (
        ("sum", ("*", ("column", WAGE), ("column", WAGE)), 0, 2**53),
        {**NUMBER, "edges": [0, 10, 2**53], "decimals": 0},
    ),
    "whole sum": (("sum", ("column", WAGE), 0, 9), {"type": "integer", "edges": [0, 3, 20, 90], "outside": "drop"}),
    "any": (("any", IS_LOW), TRUTH),
    "all": (("all", ("or", IS_F, IS_LOW)), TRUTH),
    "lowest": (("min", ("column", WAGE)), NUMBER),
    "highest": (("max", ("column", WAGE)), {"type": "integer", "edges": [-9, 0, 70], "missing_as": "no number"}),
    "earliest": (("min", ("column", SEEN)), DAY),
    "latest": (("max", ("column", BORN)), DAY),
    "usual": (("most_frequent", ("column", SEX)), FEW),
    "usual code": (("most_frequent", ("column", CODE)), MANY),
    "usually low": (("most_frequent", IS_LOW), TRUTH),
    "first word": (("first", ("column", SEX), BORN), FEW),
    "last code": (("last", ("column", CODE), SEEN), MANY),
    "first wage": (("first", ("column", WAGE), SEEN), NUMBER),
    "last day": (("last", ("column", BORN), SEEN), DAY),
    "last truth": (("last", IS_LOW, BORN), TRUTH),
    "first second": (("min", ("column", SEEN)), HOUR),
    "last month": (("max", ("column", SEEN)), MONTH),
    "time of last": (("last", ("column", SEEN), BORN), EDGES),
    "earlier time": (("first", ("if", IS_F, ("column", SEEN), ("column", SEEN)), SEEN), {**HOUR, "by": "weekday"}),
}
#: The same with something around them.
WAGES, LOW, LAST = ("of all", "sum", ("column", WAGE), -5, 70.25), ("of all", "any", IS_LOW), ("column", SEEN)
FIRST_SEEN, LAST_SEEN = ("of all", "first", LAST, SEEN), ("of all", "max", LAST)
MEAN = ("/", WAGES, ("of all", "count", ("column", WAGE)))
FINE = ("of all", "sum", ("*", ("column", COUNT), ("number", 0.001)), 0, 0.0625)
USUAL, LAST_CODE = ("of all", "most_frequent", ("column", CODE)), ("of all", "last", ("column", CODE), BORN)
TAKEN |= {
    name: (("formula", tree), column)
    for name, (tree, column) in {
        "mean": (MEAN, NUMBER),
        "rounded mean": (("round", MEAN), {"type": "integer", "edges": [-9, 0, 3, 70], "missing_as": "no number"}),
        "fine": (FINE, NUMBER),
        "old": (
            ("if", (">=", ("of all", "max", ("column", COUNT)), ("number", 65.0)), ("quoted", "ß"), ("quoted", "m")),
            FEW,
        ),
        "risen": (
            ("sum", "+-", *(("of all", each, ("column", WAGE), SEEN) for each in ("last", "first"))),
            NUMBER,
        ),
        "days of": (("days_between", FIRST_SEEN, LAST_SEEN), {"type": "integer", "edges": [0, 1, 40, 10**6]}),
        "years of": (("years_between", ("of all", "min", ("column", BORN)), LAST_SEEN), NUMBER),
        "any code": (("coalesce", USUAL, LAST_CODE, ("quoted", "é")), CODES),
        "same code": (("=", USUAL, LAST_CODE), TRUTH),
        "letter": (("prefix", ("recode", USUAL, {f"c{each}": "f" for each in range(60)}, "ß"), 1), FEW),
        "long table": (("recode", LAST_CODE, {f"c{each}": f"c{each // 2}" for each in range(60)}, None), CODES),
        "usually": (("and", ("of all", "most_frequent", IS_LOW), ("not", ("of all", "all", IS_F))), TRUTH),
        "truth at the end": (("or", LOW, ("of all", "last", IS_F, BORN)), TRUTH),
        "some time": (("coalesce", FIRST_SEEN, LAST_SEEN), HOUR),
        "time or day": (("coalesce", FIRST_SEEN, ("of all", "max", ("column", BORN))), DAY),
        "chosen time": (("if", LOW, FIRST_SEEN, LAST_SEEN), {**MONTH, "by": "quarter"}),
        "no date": (("is_missing", LAST_SEEN), TRUTH),
    }.items()
}


def schema_of(names, *, neighbours="add_remove", taken_of=TAKEN):
    """Some of them, without the columns that they read: each knows how these are read."""
    columns = [{"name": name, "formula": in_words(taken_of[name][0]), **taken_of[name][1]} for name in names]
    unit = {"kind": "person", "id": ID, "max_rows": 3}
    every = {"version": 1, "columns": [*columns, *SOURCES.values()], "unit": unit, "neighbours": neighbours}
    return Schema.from_json(every).project(names)


def with_people(drawn, rows, number):
    """Many rows of few people, of whom some are written in several ways, and rows of nobody."""
    names = [each and each.format(place % 7) for place, each in zip(range(number), PEOPLE * number, strict=False)]
    return [{**row, ID: (named := drawn.choice(names)) and named.replace("\0", "")} for row in rows]


def expected(rows, names, *, taken_of=TAKEN):
    """One row of each person, with the values of the columns named."""
    return [
        {name: as_text(made(taken_of[name][0], own, {"name": name, **taken_of[name][1]}, COLUMNS)) for name in names}
        for own in people(rows, ID).values()
    ]


def check(table, persons, taken_of):
    """The counts by name, asked in few statements: a person whom a column leaves out is in no other one of the same."""
    columns = {name: {"name": name, **taken_of[name][1]} for name in taken_of}
    leaving = [name for name in columns if any(code(columns[name], each[name]) is None for each in persons)]
    others = [name for name in columns if name not in leaving]
    batches = [[name] for name in leaving] + [others[place : place + 10] for place in range(0, len(others), 10)]
    schema, cells = schema_of(taken_of, taken_of=taken_of), {}
    for names in batches:
        reference = Reference({"columns": [columns[name] for name in names], "unit": {"kind": "row"}}, persons)
        counted = TableCounts(table, schema.project(names)).marginals([(name,) for name in names])
        for name, found in zip(names, counted, strict=True):
            cells[name] = {(place,): int(found[place]) for place in found.nonzero()[0].tolist()}
            assert cells[name] == dict(reference.cells([name])), columns[name]
    return cells


@EACH_ENGINE
def test_what_is_taken_of_a_persons_dirty_rows_is_what_the_reference_says(load, request):
    rows = with_people(random.Random(5), dirty(random.Random(4), 2500), 400)
    table, persons = load(rows, request), expected(rows, TAKEN)
    check(table, persons, TAKEN)
    schema = schema_of(TAKEN)
    for name in TAKEN:
        column = {"name": name, **TAKEN[name][1]}
        reference = Reference({"columns": [column], "unit": {"kind": "row"}}, persons)
        if "missing_as" not in column or column["type"] == "categorical":
            tally = TableCounts(table, schema.project([name])).tally((name,))
            told = dict(zip(((each,) for each in tally.values[0].tolist()), tally.counts.tolist(), strict=True))
            assert told == dict(reference.tally([name])), name


def grown(drawn, kind, depth, leaf):
    """A formula of some type, drawn at random; `leaf` draws what it begins with."""

    def more(one):
        return grown(drawn, one, depth - 1, leaf)

    if depth == 0 or drawn.random() < 0.15:
        return leaf(kind)
    if drawn.random() < 0.3:
        several = (more(kind), more(kind))
        return drawn.choice(
            [("coalesce", *several), ("if", more("truth"), *several), ("if", more("truth"), more(kind))]
        )
    if kind == "text":
        recoded = (
            "recode",
            more("text"),
            {each: drawn.choice(TEXTS) for each in TEXTS[::2]},
            drawn.choice(["é", None]),
        )
        return drawn.choice([("prefix", more("text"), 1), recoded])
    if kind == "date":
        return leaf(kind)
    if kind == "truth":
        other = drawn.choice(["number", "date"])
        compared = (drawn.choice(["<", "<=", ">", ">=", "=", "!="]), more(other), more(other))
        truths = (drawn.choice(["and", "or"]), more("truth"), more("truth"))
        return drawn.choice([compared, truths, ("not", more("truth")), ("is_missing", more(other))])
    numbers = (more("number"), more("number"))
    dates = (drawn.choice(["days_between", "years_between"]), more("date"), more("date"))
    parts = (drawn.choice(["year", "month", "day", "weekday"]), more("date"))
    summed = ("sum", drawn.choice(["++", "+-", "-+"]), *numbers)
    return drawn.choice([summed, (drawn.choice(["*", "/", "min", "max"]), *numbers), ("abs", numbers[0]), dates, parts])


def grown_of_rows(drawn, kind):
    named = {"number": [WAGE, COUNT], "date": [BORN, SEEN], "text": [SEX, CODE]}

    def leaf(kind):
        if kind == "truth":
            return drawn.choice([IS_LOW, IS_F])
        return ("column", drawn.choice(named[kind]))

    return grown(drawn, kind, drawn.randrange(3), leaf)


def grown_of_persons(drawn, kind):
    """A formula around functions of all rows, whose arguments are grown as well."""

    def leaf(kind):
        if kind != "truth" and drawn.random() < 0.1:
            return {"number": ("number", 2.5), "date": ("day of", date(2020, 2, 29)), "text": ("quoted", "é")}[kind]
        ends = ("of all", drawn.choice(["first", "last"]), grown_of_rows(drawn, kind), drawn.choice([BORN, SEEN]))
        if kind in ("truth", "text") and drawn.random() < 0.5:
            return ("of all", "most_frequent", grown_of_rows(drawn, kind))
        if kind == "truth":
            return drawn.choice([("of all", drawn.choice(["any", "all"]), grown_of_rows(drawn, kind)), ends])
        if kind == "number" and drawn.random() < 0.6:
            counted = ("of all", "count", grown_of_rows(drawn, drawn.choice(["truth", "text", "date"])))
            return drawn.choice([counted, ("of all", "sum", grown_of_rows(drawn, "number"), -2.5, 1000)])
        if kind in ("number", "date") and drawn.random() < 0.5:
            return ("of all", drawn.choice(["min", "max"]), grown_of_rows(drawn, kind))
        return ends

    # With something around it, else the declared categories have a say.
    while "of all" not in str(tree := grown(drawn, kind, 3, leaf)) or tree[0] == "of all":
        pass
    return tree


@pytest.mark.parametrize(
    ("load", "number"),
    [
        pytest.param(each.values[0], number, id=each.id, marks=each.marks)
        for each, number in zip(EACH_ENGINE.args[1], (40, 25, 4, 4), strict=True)
    ],
)
def test_expressions_drawn_at_random_give_what_the_reference_says_and_fail_on_no_row(load, number, request):
    drawn = random.Random(11)
    edges = [-(9 * 10**6), *range(-60, 400), 9 * 10**6]
    declared = {"number": {**NUMBER, "edges": edges}, "text": FEW, "date": {**DAY, "by": "month"}}
    declared["truth"] = {"type": "categorical", "categories": ["false", "true", "none"], "missing_as": "none"}
    kinds = [drawn.choice(list(declared)) for _ in range(number)]
    taken_of = {
        f"made {place}": (("formula", grown_of_persons(drawn, kind)), declared[kind])
        for place, kind in enumerate(kinds)
    }
    rows = with_people(random.Random(8), dirty(random.Random(9), 900), 200)
    cells = check(load(rows, request), expected(rows, taken_of, taken_of=taken_of), taken_of)
    # Enough differ from person to person that a mistake would show.
    assert sum(len(each) > 1 for each in cells.values()) > number / 2


def rows_of_one(drawn, person, number):
    return [{**row, ID: person, TABLE: person.partition(" ")[0]} for row in dirty(drawn, number)]


def neighbours_of(drawn, relation, table):
    """The rows of two neighbouring tables: dirty, few or many of each person, of whom one is not the same in both."""
    others = [row for each in range(drawn.randrange(3)) for row in rows_of_one(drawn, f"{table} {each}", 2)]
    one = rows_of_one(drawn, f"{table} who", drawn.choice([1, 1, 2, 2, 3, 3, 5, 15]))
    other = (
        [] if relation == "add_remove" else rows_of_one(drawn, f"{table} who", drawn.choice([0, 1, 1, 2, 2, 3, 5, 15]))
    )
    pair = [[*others, *each] for each in (one, other)]
    return pair if drawn.random() < 0.5 else pair[::-1]


#: Of neighbouring tables: each pair goes through every kind of column.
PAIRS = 1000
#: Columns of one release, and the cells at most of its table over three of them.
TOGETHER, FEW_CELLS = 14, 300
TRUTH_OR_NONE = {**TRUTH, "categories": ["false", "true", "none"], "outside": "none"}
#: One of each function, and some with something around them. Each has a bin for every person, so that a server, which
#: takes longer than DuckDB, counts all of them in one statement.
EACH_FUNCTION = {
    **{name: TAKEN[name] for name in ("low", "sum", "earliest", "highest", "usual", "first word", "mean")},
    **{name: (TAKEN[name][0], TRUTH_OR_NONE) for name in ("any", "all", "last truth")},
}
TRIED = [
    pytest.param(each.values[0], tried, id=each.id, marks=each.marks)
    for each, tried in zip(EACH_ENGINE.args[1], (TAKEN, *[EACH_FUNCTION] * 3), strict=True)
]


def test_a_column_of_each_function_is_tried_on_every_engine():
    words = " ".join(in_words(what) for what, _ in EACH_FUNCTION.values())
    assert {each for each in Take if f"{each}_per_person(" in words} == set(Take)


@pytest.mark.parametrize(("load", "tried"), TRIED)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_all_rows_of_a_person_move_a_joint_vector_no_further_than_is_declared(load, tried, relation, request):
    """The vector of all cells of a release's tables. A thousand pairs of neighbouring tables are in two tables of the
    database, and told apart by a column, so that rows of one that had a part in another would be seen too."""
    drawn, moved = random.Random(relation), {}
    of_table = {"type": "categorical", "categories": [f"t{each}" for each in range(PAIRS)]}
    taken_of = {**tried, WHICH: (("most_frequent", ("column", TABLE)), of_table)}
    found = [neighbours_of(drawn, relation, f"t{each}") for each in range(PAIRS)]
    sides = [load([row for pair in found for row in pair[side]], request) for side in (0, 1)]
    order = drawn.sample(list(tried), len(tried))
    for place in range(0, len(order), TOGETHER):
        names = order[place : place + TOGETHER]
        schema = schema_of([WHICH, *names], neighbours=relation, taken_of=taken_of)
        is_any_left_out = any(each.may_drop for each in schema.universe.project(names).attributes)
        schema = replace(schema, universe=replace(schema.universe, own_rows=is_any_left_out))
        threes = [names[each : each + 3] for each in range(0, len(names) - 2, 3)]
        sizes = {each.name: each.size for each in schema.universe.attributes}
        few = [three for three in threes if math.prod(sizes[name] for name in three) <= FEW_CELLS]
        asked = [*([name] for name in names), *few]
        one, other = (TableCounts(side, schema).marginals([(WHICH, *each) for each in asked]) for side in sides)
        moves = [np.abs(a - b).reshape(PAIRS, -1) for a, b in zip(one, other, strict=True)]
        for some, tables in ((asked, moves), *(([each], [move]) for each, move in zip(asked, moves, strict=True))):
            queries = [{"marginal": each} for each in some]
            declared = Workload.from_json({"version": 1, "queries": queries}, schema.universe).sensitivity(schema)
            most = 1 if relation == "add_remove" else 2
            assert (declared.l1, declared.l2_squared) == (most * len(some), most * len(some))
            vector = np.concatenate(tables, axis=1)
            l1 = vector.sum(axis=1)
            assert l1.max() <= declared.l1, some
            assert (vector**2).sum(axis=1).max() <= declared.l2_squared, some
            if len(some) == 1:
                moved[tuple(some[0])] = np.mean(l1 == declared.l1)
    # Else nothing was tried.
    assert min(moved[name,] for name in tried) > 0
    assert np.mean(list(moved.values())) > 0.2
    assert len(moved) > len(tried)


def test_a_person_of_more_rows_than_the_unit_keeps_takes_part_with_all_of_them(tmp_path):
    target = tmp_path / "visits.parquet"
    with duckdb.connect() as connection:
        visits = "SELECT 'ann' AS who, '1' AS cost FROM range(40) UNION ALL SELECT 'bob', '7'"
        connection.execute(f"COPY ({visits}) TO '{target}'")
    columns = [
        {"name": "visits", "type": "integer", "edges": [0, 10, 50], "formula": "count_per_person()"},
        {"name": "cost", "type": "integer", "edges": [0, 1000]},
        {"name": "total", "type": "integer", "edges": [0, 1000], "formula": "sum_per_person(cost, 0, 5)"},
    ]
    unit = {"kind": "person", "id": "who", "max_rows": 2}
    schema = Schema.from_json({"version": 1, "columns": columns, "unit": unit})
    tally = TableCounts(open_table(str(target)), schema.project(["visits", "total"])).tally(("visits", "total"))
    assert sorted(zip(*(each.tolist() for each in tally.values), strict=True)) == [(1, 5), (40, 40)]
    of_rows = TableCounts(open_table(str(target)), schema.project(["cost"]))
    assert (of_rows.schema.rows_of_unit, int(of_rows.histogram().sum())) == (2, 3)


def test_a_sum_with_something_around_it_keeps_the_decimal_places_of_its_rows(tmp_path):
    target = tmp_path / "visits.parquet"
    with duckdb.connect() as connection:
        visits = "SELECT 'ann' AS who, '0.4' AS cost FROM range(2) UNION ALL SELECT 'bob', '0.0004'"
        connection.execute(f"COPY ({visits}) TO '{target}'")
    columns = [
        {"name": "cost", "type": "number", "edges": [0, 5]},
        {"name": "some", "type": "categorical", "categories": ["yes", "no"]}
        | {"formula": 'if(sum_per_person(cost, 0, 5) > 0.0003, "yes", "no")'},
        {"name": "ten", "type": "integer", "edges": [0, 9], "formula": "round(sum_per_person(cost, 0, 5) * 10)"},
    ]
    unit = {"kind": "person", "id": "who", "max_rows": 2}
    schema = Schema.from_json({"version": 1, "columns": columns, "unit": unit}).project(["some", "ten"])
    tally = TableCounts(open_table(str(target)), schema).tally(("some", "ten"))
    assert sorted(zip(*(each.tolist() for each in tally.values), strict=True)) == [(0, 0), (0, 8)]


WRONG = [
    ("cost / count_per_person()", "has a value in each row, and count_per_person one of each person: put it within"),
    ("max_per_person(count_per_person())", "is within max_per_person, which takes a value of each row; count_per_per"),
    ("1 + sum_per_person(cost, 0, 1.0000000001)", "must have at most 9 decimal places, and ordinary size"),
    ("1 + sum_per_person(cost, 0, 9007199254740993)", "must have at most 0 decimal places, and ordinary size"),
    ("+".join(["count_per_person()"] * 310), "must be at most 300 values and operations"),
    ("sum_per_person(cost, 5, 1)", "must have a lowest value of a row below the highest"),
    ("sum_per_person(cost, 0, 1.5)", "must have at most 0 decimal places"),
    ("sum_per_person(day, 0, 1)", "takes a number of each row, and was given a date"),
    ("most_frequent_per_person(cost)", "takes a text or a truth of each row, and was given a number"),
    ("first_per_person(cost, ward)", "a column that is declared with dates"),
    ("max_per_person(day)", "gives a date; a column of the type integer needs a number"),
]


@pytest.mark.parametrize(("formula", "rule"), WRONG)
def test_what_breaks_a_rule_is_refused(formula, rule):
    columns = [
        {"name": "made", "type": "integer", "edges": [0, 1], "formula": formula},
        {"name": "cost", "type": "integer", "edges": [0, 1]},
        {"name": "day", "type": "date", "first": "2020-01-01", "last": "2020-12-31", "by": "year"},
    ]
    with pytest.raises(InvalidInput) as refused:
        Schema.from_json({"version": 1, "columns": columns})
    assert rule in refused.value.rule
