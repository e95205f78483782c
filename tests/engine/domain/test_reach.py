"""A declaration that no value can meet is refused, whatever the format; and none that a value can meet."""

from __future__ import annotations

import random

import pytest

from releases.engine.domain.formula_tree import Type
from releases.engine.domain.reach import TRUTHS, Values, check_can_be_met, values_of
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from tests.engine.tables.reference_formulas import value, written
from tests.engine.tables.reference_persons import in_words
from tests.engine.tables.reference_persons import made as made_of_person
from tests.engine.tables.test_formulas import COLUMNS, SOURCES, dirty
from tests.engine.tables.test_persons import DAY as NAMED_DAYS
from tests.engine.tables.test_persons import FEW, NUMBER, TRUTH, grown_of_persons, grown_of_rows

NUMBERS, WHOLE = Values(type=Type.NUMBER), Values(type=Type.NUMBER, is_whole=True)
BYTES = Values(type=Type.NUMBER, lowest=-128, highest=127, is_whole=True)
DAYS, TIMES = Values(type=Type.DATE), Values(type=Type.MOMENT)
WITHOUT_COMMAS = Values(can_write=lambda text: "," not in text)
AGE = {"name": "x", "type": "integer", "edges": [0, 9, 120]}
HEIGHT = {"name": "x", "type": "number", "edges": ["1.2", "1.9"]}
DAY = {"name": "x", "type": "date", "first": "2024-01-01", "last": "2024-12-31", "by": "month"}
TIME = {**DAY, "type": "datetime"}
SEX = {"name": "x", "type": "categorical", "categories": ["f", "m", "?"], "outside": "?"}


def attribute(column, *others):
    return Schema.from_json({"version": 1, "columns": [column, *others]}).universe[column["name"]]


def made(formula, column, **declared):
    born = {"name": "born", "type": "date", "first": "1900-01-01", "last": "2030-12-31", "by": "year"}
    others = [{"name": "cost", "type": "number", "edges": [0, 9]}, born]
    return attribute({**column, "name": "x", "formula": formula, **declared}, *others)


UNMET = [
    (attribute(AGE), DAYS),
    (attribute(AGE), TRUTHS),
    (attribute({**AGE, "edges": [128, 200]}), BYTES),
    (attribute({**AGE, "edges": [-300, -129]}), BYTES),
    (attribute({**AGE, "edges": [1, 3], "missing": ["1", "2.0", "3"]}), Values()),
    (attribute({**HEIGHT, "edges": ["0.2", "0.7"]}), WHOLE),
    (attribute({**HEIGHT, "edges": ["0.2", "1.7"], "missing": ["1"]}), WHOLE),
    (attribute(HEIGHT), Values(texts=frozenset({"low", "high"}))),
    (attribute(DAY), NUMBERS),
    (attribute({**DAY, "format": "YYYYMMDD"}), BYTES),
    (attribute({**TIME, "format": "YYYYMMDD"}), WHOLE),
    (attribute({**DAY, "format": "DD.MM.YYYY"}), DAYS),
    (attribute({**TIME, "format": "DD.MM.YYYY"}), TIMES),
    (attribute(TIME), DAYS),
    (attribute(DAY), TRUTHS),
    (attribute(DAY), Values(can_write=lambda text: "-" not in text)),
    (attribute(SEX), TRUTHS),
    (attribute(SEX), NUMBERS),
    (attribute(SEX), DAYS),
    (attribute(SEX), Values(texts=frozenset({"female", "?"}))),
    (attribute({**SEX, "categories": ["01", "1.0", "1e3"], "outside": "drop"}), WHOLE),
    (attribute({**SEX, "categories": ["128", "?"]}), BYTES),
    (attribute({**SEX, "categories": ["a,b", "?"]}), WITHOUT_COMMAS),
    (made("month(born)", AGE, edges=[13, 99]), Values()),
    (made("month(born)", {**HEIGHT, "edges": ["1.2", "1.9"]}), Values()),
    (made("day(born) + 121", AGE), Values()),
    (made("years_between(born, 2026-01-01) - 10000", AGE), Values()),
    (made("abs(cost)", {**HEIGHT, "edges": [-9, -1]}), Values()),
    (made("max(cost, 5)", {**HEIGHT, "edges": [0, 4]}), Values()),
    (made("if(cost > 5, 1, 2)", AGE, edges=[3, 9]), Values()),
    (made("count_per_person()", AGE, edges=[-9, -1]), Values()),
    (made("sum_per_person(cost, 2, 9)", HEIGHT, edges=[0, 1]), Values()),
    (made("any_per_person(cost > 5)", SEX), Values()),
    (made("cost > 5", SEX), Values()),
    (made('recode(town, {"a": "north"}, "south")', SEX), Values()),
    (made("prefix(town, 2)", SEX, categories=["abc", "abd"], outside="drop"), Values()),
    (made('if(cost > 5, "high", "low")', SEX), Values()),
]
MET = [
    (attribute(AGE), NUMBERS),
    (attribute({**AGE, "edges": [127, 200]}), BYTES),
    (attribute({**AGE, "edges": [128, 150, 200], "open": ["first"]}), BYTES),
    (attribute({**AGE, "edges": [1, 3], "missing": ["1", "2", "no"]}), Values()),
    (attribute({**HEIGHT, "edges": ["0.2", "1"]}), WHOLE),
    (attribute({**HEIGHT, "edges": ["0.2", "1"]}), Values(texts=frozenset({"0.5"}))),
    (attribute({**HEIGHT, "missing": ["1.5"]}), NUMBERS),
    (attribute({**DAY, "format": "YYYYMMDD"}), WHOLE),
    (attribute({**DAY, "format": "DD.MM.YYYY"}), Values()),
    (attribute(DAY), DAYS),
    (attribute(DAY), TIMES),
    (attribute(TIME), TIMES),
    (attribute({**SEX, "categories": ["true", "no", "?"]}), TRUTHS),
    (attribute({**SEX, "categories": ["?"]}), TRUTHS),
    (attribute({**SEX, "categories": ["f", "1", "?"]}), WHOLE),
    (attribute({**SEX, "categories": ["1,5", "?"]}), NUMBERS),
    (attribute({**SEX, "categories": ["2024-01-01", "?"]}), DAYS),
    (attribute({**SEX, "categories": ["a,b", "c", "?"]}), WITHOUT_COMMAS),
    (made("month(born)", AGE, edges=[12, 99]), Values()),
    (made("cost * 0 - 5", {**HEIGHT, "edges": [-9, -1]}), Values()),
    (made("-1 * abs(cost)", {**HEIGHT, "edges": [-9, -1]}), Values()),
    (made("sum_per_person(cost, -2, 1)", HEIGHT, edges=[100, 200]), Values()),
    (made('recode(town, {"a": "f"})', SEX), Values()),
    (made("prefix(town, 1)", SEX), Values()),
    (made("cost > 5", SEX, categories=["true", "?"]), Values()),
    (made("born", DAY, format="DD.MM.YYYY"), Values()),
]


@pytest.mark.parametrize(("declared", "values"), UNMET)
def test_what_no_value_can_meet_is_refused(declared, values):
    with pytest.raises(InvalidInput, match="can be met by no value: the column has ") as refused:
        check_can_be_met(declared, values)
    assert refused.value.field in ("edges", "format", "categories")


@pytest.mark.parametrize(("declared", "values"), MET)
def test_what_some_value_can_meet_is_not(declared, values):
    check_can_be_met(declared, values)


OF_KIND = {"number": NUMBER, "text": FEW, "truth": TRUTH, "date": NAMED_DAYS}


def in_values(given, values):
    if isinstance(given, bool):
        return str(given).lower() in values.texts
    if isinstance(given, float):
        near = 1e-9 * max(1.0, abs(given))
        is_within = values.lowest - near <= given <= values.highest + near
        return values.type is Type.NUMBER and is_within and (given.is_integer() or not values.is_whole)
    if isinstance(given, str):
        return values.type is not Type.NUMBER and len(given) <= values.longest and given in (values.texts or {given})
    return True


def test_what_a_formula_gives_on_dirty_rows_is_among_the_values_that_it_can_give():
    """The reference's values of formulas drawn at random, of rows and of persons."""
    drawn, seen, known = random.Random(5), 0, 0
    rows = list(dirty(random.Random(6), 60))
    for draw in range(600):
        kind, is_of_person = drawn.choice(list(OF_KIND)), draw % 2 == 0
        tree = grown_of_persons(drawn, kind) if is_of_person else grown_of_rows(drawn, kind)
        text = in_words(("formula", tree)) if is_of_person else written(tree)
        column = {"name": "x", **OF_KIND[kind], "formula": text}
        values = values_of(attribute(column, *SOURCES.values()).formula.tree)
        known += values != Values() and values != NUMBERS
        for place in range(0, len(rows), 3):
            some = rows[place : place + 1 + draw % 3]
            given = (
                made_of_person(("formula", tree), some, column, COLUMNS)
                if is_of_person
                else value(tree, some[0], COLUMNS)
            )
            assert given is None or in_values(given, values), (text, given, values)
            seen += given is not None
    assert seen > 2000
    assert known > 200
