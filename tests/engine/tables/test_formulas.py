"""Columns that are made from others: formulas on dirty rows give on every database what plain Python gives."""

from __future__ import annotations

import functools
import random
from datetime import date

import pytest

from releases.engine.domain.formula_tree import SIGNATURES
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.tables.query import TableCounts
from tests.engine.tables.reference import Reference
from tests.engine.tables.reference_formulas import value, written
from tests.engine.tables.test_contract import EACH_ENGINE, NO_NUMBERS, NUMBERS, WORDS, without_nul
from tests.engine.tables.test_dates import ODD, PARTS, as_written

WAGE, COUNT, BORN, SEEN, SEX, CODE = 'wa]"ge', "operation_1", "text_0", "Gesehen am", "sex", "Ö_code"
_EDGES = {"edges": [0, 1], "outside": "drop"}
_YEAR = {"first": "2020-01-01", "last": "2020-12-31", "by": "year"}
SOURCES = {
    WAGE: {"name": WAGE, "type": "number", **_EDGES, "missing": ["-9", "%s"]},
    COUNT: {"name": COUNT, "type": "integer", **_EDGES, "missing": ["70"]},
    BORN: {"name": BORN, "type": "date", "format": "DD.MM.YYYY", **_YEAR},
    SEEN: {"name": SEEN, "type": "datetime", "format": "YYYY-MM-DD", "zone": "America/St_Johns", **_YEAR},
    SEX: {"name": SEX, "type": "categorical", "categories": ["f"], "missing": ["null", "it's"]},
}
#: Not declared: it is text.
COLUMNS = {**SOURCES, CODE: {"name": CODE, "type": "categorical"}}
TEXTS = ["f", "m", "a'b", 'a"b', "a\\b", "é", "e\u0301", "ß", "$1", "%s", "other", "F", "𝔘", "c7"]
LONG = {f"c{place}": f"r{place % 7}" for place in range(60)} | {"é": "é", "a'b": 'a"b', "\\n": "\\", "F": "f"}


#: How what a formula gives is declared. In the first, numbers are told apart to their ninth place.
DECLARED = {
    "number": [
        {"type": "number", "edges": [-9_000_000, 0, 9_000_000], "decimals": 9, "outside": "clamp"},
        {"type": "integer", "edges": [-(10**15), 0, 10, 10**15], "outside": "drop"},
        {"type": "number", "edges": [-1e20, 0, 1e20], "decimals": 0, "outside": "clamp"},
    ],
    "text": [
        {"type": "categorical", "categories": [*TEXTS, "r1", "c"], "outside": "other"},
        {"type": "categorical", "categories": [*TEXTS, *(f"r{each}" for each in range(80))], "outside": "drop"},
    ],
    "truth": [{"type": "categorical", "categories": ["true", "false"]}],
    "date": [
        {"type": "date", "format": "YYYY-MM-DD", "first": "1969-12-31", "last": "2024-02-29", "by": "month"}
        | {"outside": "clamp"}
    ],
}
DECLARED["number"][2]["edges"] = [-(2**53), 0, 2**53]


@functools.cache
def held():
    """Texts of each column, some of which write what it is declared to hold."""
    numbers = [*NUMBERS, *NO_NUMBERS, *(str(each) for each in range(-3, 90)), "0.5", "-2.5", "1e75", "-1e-75", "1e-99"]
    days = [as_written(each, form) for each in PARTS for form in ("DD.MM.YYYY", "YYYY-MM-DD")]
    days += [f"{each} 14:05:09" for each in days] + [each and each.replace("\0", "") for each in ODD]
    words = [*WORDS, *TEXTS, *LONG, "c1 x", "\u00a0f"]
    return {WAGE: numbers, COUNT: numbers, BORN: days, SEEN: days, SEX: words, CODE: words}


def dirty(drawn, number):
    """Rows of texts, some of which write what their column is declared to hold."""
    return without_nul({name: drawn.choice(texts) for name, texts in held().items()} for _ in range(number))


def schema_of(formulas):
    """The sources, and each formula as a column, in one of the declarations of its type."""
    made = [
        {"name": name, "formula": written(tree), **DECLARED[kind][place % len(DECLARED[kind])]}
        for place, (name, (kind, tree)) in enumerate(formulas.items())
    ]
    return {"version": 1, "columns": [*made, *SOURCES.values()], "unit": {"kind": "row"}, "neighbours": "add_remove"}


def check(table, rows, formulas):
    declared = schema_of(formulas)
    schema = Schema.from_json(declared)
    for column in declared["columns"][: len(formulas)]:
        name, tree = column["name"], formulas[column["name"]][1]
        made = {name: lambda row, tree=tree: as_read(value(tree, row, COLUMNS))}
        reference = Reference({**declared, "columns": [column]}, rows, made)
        tally = TableCounts(table, schema.project([name])).tally((name,))
        found = dict(zip(((each,) for each in tally.values[0].tolist()), tally.counts.tolist(), strict=True))
        assert found == dict(reference.tally([name])), column["formula"]


def as_read(given):
    return str(given).lower() if isinstance(given, bool) else given


#: One of each operation.
FORMULAS = {
    "age": ("number", ("years_between", ("column", BORN), ("day of", date(2023, 2, 28)))),
    "to come": ("number", ("years_between", ("day of", date(2024, 2, 29)), ("column", SEEN))),
    "weekday": ("number", ("weekday", ("column", SEEN))),
    "quotient": ("number", ("/", ("column", WAGE), ("column", COUNT))),
    "overflow": ("number", ("*", ("*", ("column", WAGE), ("column", WAGE)), ("column", WAGE))),
    "underflow": ("number", ("/", ("number", 1.0), ("*", ("column", WAGE), ("column", WAGE)))),
    "rounded": ("number", ("round", ("column", WAGE))),
    "floor": ("number", ("floor", ("column", WAGE))),
    "sum": ("number", ("sum", "-+-", ("column", WAGE), ("number", 0.1), ("column", WAGE))),
    "region": ("text", ("recode", ("column", CODE), LONG, "other")),
    "no other": ("text", ("recode", ("prefix", ("column", CODE), 2), LONG, None)),
    "letter": ("text", ("prefix", ("column", SEX), 1)),
    "unknown": ("truth", ("or", ("<", ("column", COUNT), ("number", 5.0)), ("=", ("column", SEX), ("quoted", "f")))),
    "both": ("truth", ("and", ("<", ("column", COUNT), ("number", 5.0)), ("=", ("column", SEX), ("quoted", "f")))),
    "chosen": (
        "number",
        ("if", ("<", ("column", COUNT), ("number", 5.0)), ("column", WAGE), ("days_between", *[("column", BORN)] * 2)),
    ),
    "seen": ("date", ("coalesce", ("column", SEEN), ("column", BORN))),
    "parts": ("number", ("sum", "+++", *((each, ("column", BORN)) for each in ("year", "month", "day")))),
    "least": ("number", ("min", ("abs", ("column", WAGE)), ("max", ("column", COUNT), ("number", 2.5)))),
    "later": ("truth", (">=", ("column", BORN), ("column", SEEN))),
    "other text": ("truth", ("!=", ("text", COUNT), ("column", CODE))),
    "neither": ("truth", ("not", ("or", ("is_missing", ("column", SEX)), (">", ("column", WAGE), ("column", COUNT))))),
    "alike": ("truth", ("=", ("<=", ("column", COUNT), ("number", 2.5)), ("!=", ("column", BORN), ("column", SEEN)))),
}


def names_in(tree):
    return {tree[0]}.union(*(names_in(each) for each in tree if isinstance(each, tuple)))


def test_every_function_is_in_a_formula_that_is_compared_with_the_reference():
    compared = set().union(*(names_in(tree) for _, tree in FORMULAS.values()))
    assert set(SIGNATURES) - compared == set()


@EACH_ENGINE
def test_each_operation_gives_on_dirty_rows_what_the_reference_says(load, request):
    rows = dirty(random.Random(2), 2500)
    check(load(rows, request), rows, FORMULAS)


@pytest.mark.parametrize(
    ("formula", "value", "rule"),
    [
        ("years_between(birth", "the end", "(at character 20 of “years_between(birth”) was not expected here; ) was"),
        ("1 +", "the end", "(at character 4 of “1 +”) a value is missing"),
        ("birth + 1", "birth + 1", "gives + a date as value 1, which must be a number"),
        ("today()", "today()", "is no function; there are year"),
        ("1 ? 2", "? 2", "(at character 3 of “1 ? 2”) is no part of a formula"),
        ("days_between(2026-02-30, birth)", "2026-02-30, birth)", "is no date of the calendar"),
        ("year(birth, birth)", "year(birth, birth)", "takes 1 value, not 2"),
        ("1" * 41, "1" * 30, "has more than 40 digits"),
        ("(" * 41 + "1" + ")" * 41, "1" + ")" * 29, "is within more than 40 brackets"),
        ("+".join(["1"] * 300), "+".join(["1"] * 30) + "+", "must be at most 300 values"),
        ("1" + "*1" * 13, "1" + "*1" * 13, "must be at most 300 values and operations, and at most 12"),
        ("made + 1", "made", "is itself made by a formula"),
        ("sex", "sex", "gives a text; a column of the type integer needs a number"),
        ("", "", "must be text, such as"),
        ("1 + 1", "1 + 1", "must name a column of the table"),
        ("prefix(sex, 0)", "prefix(sex, 0)", "must have a whole number of characters"),
        ('recode(sex, {"a": "b", "a": "c"})', "})", "follows the key 'a', which is there twice"),
        ("recode(sex, {})", "recode(sex, {})", "must have a table of 1 to 20,000 entries"),
        ('recode(1, {"a": "b"})', 'recode(1, {"a": "b"})', "looks up a text, and was given a number"),
        ('" a"', '" a"', "must be printable text"),
    ],
)
def test_a_formula_that_breaks_a_rule_is_refused_with_the_place(formula, value, rule):
    columns = [
        {"name": "age", "type": "integer", "edges": [0, 1], "formula": formula},
        {"name": "birth", "type": "date", "first": "2020-01-01", "last": "2020-12-31", "by": "year"},
        {"name": "made", "type": "integer", "edges": [0, 1], "formula": "year(birth)"},
    ]
    with pytest.raises(InvalidInput) as refused:
        Schema.from_json({"version": 1, "columns": columns})
    assert refused.value.field == "columns[0] (age).formula"
    assert refused.value.value == value
    assert rule in refused.value.rule


def test_a_codebook_may_hold_missing_codes_of_all_columns_beside_a_formula():
    columns = [{"name": "a", "type": "integer", "edges": [0, 1]}]
    columns += [{"name": "b", "type": "integer", "edges": [0, 1], "formula": "a + 1"}]
    schema = Schema.from_json({"version": 1, "missing": ["-9"], "columns": columns})
    assert schema.universe["b"].reads[0].missing == ("-9",)
    with pytest.raises(
        InvalidInput, match="cannot be declared here: declare missing codes of the columns that the formula reads"
    ):
        Schema.from_json({"version": 1, "columns": [{**columns[1], "missing": ["-9"]}, columns[0]]})


def test_what_binds_more_is_worked_out_first():
    def trees_of(*formulas):
        reads = [{"name": "a", "type": "date"}]
        made = [
            {"name": str(i), "type": "categorical", "categories": ["true"], "formula": f, "reads": reads}
            for i, f in enumerate(formulas)
        ]
        return [each.formula.tree for each in Schema.from_json({"version": 1, "columns": made}).universe.attributes]

    one, other = trees_of(
        "not 1 + 2 * year(a) = 7 and true or false", "((not ((1 + (2 * year(a))) = 7)) and true) or false"
    )
    assert one == other
    one, other = trees_of("- 1 - 2 / day(a) / 2 < 0", "((- 1 - ((2 / day(a)) / 2)) < 0)")
    assert one == other
