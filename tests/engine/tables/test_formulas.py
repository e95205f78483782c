"""Columns that are made from others: random formulas on dirty rows give on every database what plain Python gives."""

from __future__ import annotations

import random
from datetime import date

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from releases.engine.domain.formulas import formula_of
from releases.engine.domain.universe import Schema
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
OF_TYPE = {"number": (WAGE, COUNT), "date": (BORN, SEEN), "text": (SEX, CODE)}
DAYS = [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), date(1900, 2, 28), date(1969, 12, 31), date(2023, 3, 1)]


@st.composite
def trees(draw, kind, depth):
    """A formula of a type."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(leaves(kind))

    def part(of):
        return draw(trees(of, depth - 1))

    general = ["if", "coalesce"]
    own = {
        "number": [
            *("sum", "*", "/", "/", "abs", "floor", "round", "min", "max"),
            *("year", "month", "day", "weekday", "days_between", "years_between"),
        ],
        "text": ["prefix", "recode", "long"],
        "truth": ["compare", "compare", "and", "or", "not", "is_missing"],
        "date": [],
    }
    name = draw(st.sampled_from([*own[kind], *general]))
    if name == "if":
        rest = [part(kind)] if draw(st.booleans()) else []
        return ("if", part("truth"), part(kind), *rest)
    if name == "coalesce":
        return ("coalesce", part(kind), part(kind))
    if name == "sum":
        signs = draw(st.text("+-", min_size=2, max_size=4))
        return ("sum", signs, *(part("number") for _ in signs))
    if name == "compare":
        of = draw(st.sampled_from(["number", "date", "text", "truth"]))
        signs = ["=", "!="] if of in ("text", "truth") else ["=", "!=", "<", "<=", ">", ">="]
        return (draw(st.sampled_from(signs)), part(of), part(of))
    if name in ("and", "or"):
        return (name, part("truth"), part("truth"), part("truth"))
    if name == "is_missing":
        return (name, part(draw(st.sampled_from(["number", "date", "text", "truth"]))))
    if name == "prefix":
        return (name, part("text"), draw(st.integers(1, 3)))
    if name in ("recode", "long"):
        few = st.dictionaries(st.sampled_from(TEXTS), st.sampled_from(TEXTS), min_size=1, max_size=4)
        return ("recode", part("text"), LONG if name == "long" else draw(few), draw(st.sampled_from([None, *TEXTS])))
    takes = {"year": ["date"], "month": ["date"], "day": ["date"], "weekday": ["date"], "not": ["truth"]}
    takes |= {each: ["number"] for each in ("abs", "floor", "round")}
    takes |= {each: ["date", "date"] for each in ("days_between", "years_between")}
    return (name, *(part(of) for of in takes.get(name, ["number", "number"])))


def leaves(kind):
    read = st.sampled_from([("column", name) for name in OF_TYPE[kind]]) if kind in OF_TYPE else st.nothing()
    return {
        "number": read | st.sampled_from([("number", each) for each in (0.0, 1.0, 0.1, 2.5, 1e15, 365.25)]),
        "date": read | st.sampled_from([("day of", each) for each in DAYS]),
        "text": read | st.sampled_from([("quoted", each) for each in TEXTS] + [("text", name) for name in SOURCES]),
        "truth": st.booleans().map(lambda each: ("truth", each)),
    }[kind]


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


def dirty(drawn, number):
    """Rows of texts, some of which write what their column is declared to hold."""
    numbers = [*NUMBERS, *NO_NUMBERS, *(str(each) for each in range(-3, 90)), "0.5", "-2.5", "1e75", "-1e-75", "1e-99"]
    days = [as_written(each, form) for each in PARTS for form in ("DD.MM.YYYY", "YYYY-MM-DD")]
    days += [f"{each} 14:05:09" for each in days] + [each and each.replace("\0", "") for each in ODD]
    words = [*WORDS, *TEXTS, *LONG, "c1 x", "\u00a0f"]
    held = {WAGE: numbers, COUNT: numbers, BORN: days, SEEN: days, SEX: words, CODE: words}
    rows = [{name: drawn.choice(texts) for name, texts in held.items()} for _ in range(number)]
    return without_nul(rows)


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


def reads_a_column(tree):
    return "[" in written(tree)


def as_read(given):
    return str(given).lower() if isinstance(given, bool) else given


@EACH_ENGINE
def test_random_formulas_give_on_dirty_rows_what_the_reference_says(load, request):
    rows = dirty(random.Random(1), 300)
    table, is_slow = load(rows, request), request.node.callspec.id == "spark"

    # Not shortened: that would take minutes, and what fails is named.
    given_once = settings(suppress_health_check=list(HealthCheck), database=None, phases=[Phase.generate])

    @settings(given_once, max_examples=4 if is_slow else 15)
    @given(st.data())
    def each(data):
        kinds = enumerate(["number", "truth", "text", "number", "date"])
        made = {f"made {place}": (kind, data.draw(trees(kind, 4).filter(reads_a_column))) for place, kind in kinds}
        check(table, rows, made)

    each()


#: One of each operation, where random ones would seldom meet the case.
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
}


@EACH_ENGINE
def test_each_operation_gives_on_dirty_rows_what_the_reference_says(load, request):
    rows = dirty(random.Random(2), 2500)
    check(load(rows, request), rows, FORMULAS)


@EACH_ENGINE
def test_states_persons_and_tables_of_columns_with_formulas_count_as_the_reference_says(load, request):
    rows = [{**row, "id": f"p{place % 90}"} for place, row in enumerate(dirty(random.Random(3), 600))]
    table, names = load(rows, request), ["age", "region", "unknown"]
    declared = schema_of({name: FORMULAS[name] for name in names})
    declared["columns"] = declared["columns"][:3]
    declared["columns"][0]["missing_as"] = "no number"
    for column in declared["columns"]:
        reads = [
            {key: part for key, part in COLUMNS[each].items() if key in ("name", "type", "format", "missing")}
            for each in (BORN, COUNT, SEX, CODE)
        ]
        column["reads"] = reads
    made = {name: lambda row, tree=FORMULAS[name][1]: as_read(value(tree, row, COLUMNS)) for name in names}
    persons = {**declared, "unit": {"kind": "person", "id": "id", "max_rows": 2}}
    counts, reference = TableCounts(table, Schema.from_json(persons)), Reference(persons, rows, made)
    for asked in (["age"], ["age", "unknown"], names):
        found = counts.marginal(tuple(asked))
        cells = {cell: int(found[cell]) for cell in zip(*(each.tolist() for each in found.nonzero()), strict=True)}
        assert cells == dict(reference.cells(asked)), asked
    texts = counts.texts("region")
    assert dict(zip(texts.texts, texts.counts, strict=True)) == dict(reference.texts("region"))
    states = [each.state.to_json() for each in Schema.from_json(declared).universe.attributes]
    of_states = {**declared, "columns": states}
    counts, reference = TableCounts(table, Schema.from_json(of_states)), Reference(of_states, rows, made)
    for name in names:
        found = counts.marginal((name,))
        assert {(place,): int(found[place]) for place in found.nonzero()[0].tolist()} == dict(reference.cells([name]))


@pytest.mark.parametrize(
    ("formula", "value", "rule"),
    [
        ("years_between(birth", "the end", "(at character 20) was not expected here; ) was"),
        ("1 +", "the end", "(at character 4) a value is missing"),
        ("birth + 1", "birth + 1", "gives + a date as value 1, which must be a number"),
        ("1 - birth", "1 - birth", "gives - a date as value 2, which must be a number"),
        ("today()", "today()", "is no function; there are year"),
        ("if(1, 2, 3)", "if(1, 2, 3)", "gives if a number as value 1, which must be a truth"),
        ("if(true, 2, sex)", "if(true, 2, sex)", "gives if a text as value 3, which must be a number"),
        ("if(true)", "if(true)", "takes a condition"),
        ("1 ? 2", "? 2", "(at character 3) is no part of a formula"),
        ('if(sex < "f", 1)', 'sex < "f", 1)', "is a text; < compares numbers or dates"),
        ("1 2", "2", "(at character 3) was not expected here"),
        ("days_between(2026-02-30, birth)", "2026-02-30, birth)", "is no date of the calendar"),
        ("year(birth, birth)", "year(birth, birth)", "takes 1 value, not 2"),
        ("1" * 41, "1" * 30, "has more than 40 digits"),
        ("(" * 41 + "1" + ")" * 41, "1" + ")" * 29, "is within more than 40 brackets"),
        ("+".join(["1"] * 300), "+".join(["1"] * 30) + "+", "must be at most 300 values"),
        ("1" + "*1" * 13, "1" + "*1" * 13, "must be at most 300 values and operations, and at most 12"),
        ("x" * 600_001, "600,001 characters", "must be at most 600,000"),
        ("made + 1", "made", "is itself made by a formula"),
        ("age", "age", "is itself made by a formula"),
        ("sex", "sex", "gives a text; a column of the type integer needs a number"),
        ("", "", "must be text, such as"),
        ("text(1)", "text(1)", "takes the name of a column"),
        ("1 + 1", "1 + 1", "must name a column of the table"),
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


@pytest.mark.parametrize(
    ("formula", "rule"),
    [
        ("prefix(sex, 0)", "must have a whole number of characters"),
        ("prefix(sex, 1.5)", "must have a whole number of characters"),
        ('recode(sex, {"a": "b", "a": "c"})', "follows the key 'a', which is there twice"),
        ("recode(sex, {})", "must have a table of 1 to 20,000 entries"),
        ('recode(sex, {"a": 1})', "a text between quotation marks was"),
        ('recode(1, {"a": "b"})', "looks up a text, and was given a number"),
        ('""', "must be printable text"),
        ('" a"', "must be printable text"),
        ("days", "gives a date; a column of the type categorical needs a text or a truth"),
    ],
)
def test_a_formula_of_text_that_breaks_a_rule_is_refused(formula, rule):
    column = {"name": "made", "type": "categorical", "categories": ["a"], "formula": formula}
    column["reads"] = [{"name": "days", "type": "date"}]
    with pytest.raises(InvalidInput) as refused:
        Schema.from_json({"version": 1, "columns": [column]})
    assert rule in refused.value.rule


def test_a_declaration_keeps_how_the_columns_it_reads_are_read():
    schema = Schema.from_json(schema_of(FORMULAS))
    alone = schema.project(["age"])
    assert Schema.from_json(schema.to_json()) == schema
    assert Schema.from_json(alone.to_json()) == alone
    assert alone.to_json()["columns"][0]["reads"] == [{"name": BORN, "type": "date", "format": "DD.MM.YYYY"}]
    assert Schema.from_json({"version": 1, "columns": [alone.universe["age"].state.to_json()]}).universe.is_of_states


def test_a_codebook_may_hold_missing_codes_of_all_columns_beside_a_formula():
    columns = [{"name": "a", "type": "integer", "edges": [0, 1]}]
    columns += [{"name": "b", "type": "integer", "edges": [0, 1], "formula": "a + 1"}]
    schema = Schema.from_json({"version": 1, "missing": ["-9"], "columns": columns})
    assert schema.universe["b"].reads[0].missing == ("-9",)
    with pytest.raises(InvalidInput, match="belong to the columns that the formula reads"):
        Schema.from_json({"version": 1, "columns": [{**columns[1], "missing": ["-9"]}, columns[0]]})


def test_a_formula_over_several_lines_is_kept_on_one():
    column = {"name": "made", "type": "categorical", "categories": ["a"], "formula": ' if(sex = "f",\r\n  "a")\n'}
    (read,) = Schema.from_json({"version": 1, "columns": [column]}).universe.attributes
    assert read.formula.text == 'if(sex = "f", "a")'


def test_a_long_formula_is_shown_with_the_first_entries_of_its_tables_whatever_its_texts_hold():
    entries = ", ".join(f'"k{i}": "}}{{""{i}"' for i in range(40))
    long = f'recode(prefix(a, 2), {{{entries}}}, "other")'
    assert formula_of(long, [], {}).shown == (
        'recode(prefix(a, 2), {"k0": "}{""0", "k1": "}{""1", "k2": "}{""2", … 37 more}, "other")'
    )
    # A search for the end of a table that is none would go on for ever here.
    quotes = '""' * 200
    none = f'if(a = "{{", "{quotes}x", "y")'
    assert formula_of(none, [], {}).shown == none


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
