"""The statements of dialects whose databases the tests do not have, held to files.

After a change that is meant, write them again and read what changed:

    .venv/bin/python -m tests.engine.tables.test_golden
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sqlglot import exp

from releases.engine.domain.schema import Schema
from releases.engine.tables import registry
from releases.engine.tables.number import PLAIN
from releases.engine.tables.query import TableCounts
from releases.engine.tables.servers.mysql import MySQL
from releases.engine.tables.servers.warehouses import WAREHOUSES

GOLDEN = Path(__file__).parent / "golden"
DIALECTS = {"mysql": MySQL(), **WAREHOUSES}

AGE = {"name": "age", "type": "integer", "edges": [0, 18, 65, 100], "missing": ["-9", "n/a"], "missing_as": "no number"}
WAGE = {"name": "wage", "type": "number", "edges": [0, 0.5, 10], "decimals": 2, "outside": "drop"}
SEX = {
    "name": "sex",
    "type": "categorical",
    "categories": ["f", "m", "it's \\"],
    "outside": "it's \\",
    "missing": ["x"],
}
#: More than a chain of comparisons has.
WARD = {"name": "ward", "type": "categorical", "categories": ["é", *(f"w{each}" for each in range(64))]}
DAY = {"name": "day", "type": "date", "format": "DD.MM.YYYY", "first": "2020-01-01", "last": "2021-12-31", "by": "year"}
SEEN = {"name": "seen", "type": "datetime", "zone": "UTC", "first": "2024-01-01", "last": "2024-12-31", "by": "hour"}
SEEN |= {"outside": "drop"}
YEAR = {"name": "born", "type": "integer", "edges": [1900, 1980, 2030], "formula": "year(day)"}
USUAL = {"name": "usual", "type": "categorical", "categories": ["f", "m"], "missing_as": "m"}
USUAL |= {"formula": "most_frequent_per_person(prefix(sex, 1))"}
TOTAL = {"name": "total", "type": "number", "edges": [0, 10, 100], "formula": "sum_per_person(wage, 0, 10)"}

ROW, PERSON = {"kind": "row"}, {"kind": "person", "id": "who's", "max_rows": 2}
#: Each with what is asked of it.
ASKED = {
    "marginals of rows": (
        [AGE, WAGE, SEX],
        ROW,
        lambda counts: counts.marginals([("age",), ("age", "sex"), ("wage",)]),
    ),
    "a category among many": ([WARD], ROW, lambda counts: counts.marginals([("ward",)])),
    "dates": ([DAY, SEEN, YEAR], ROW, lambda counts: counts.marginals([("day",), ("seen",), ("born",)])),
    "rows of persons": ([WAGE, SEX], PERSON, lambda counts: counts.tally(("wage",))),
    "texts of persons": ([SEX], PERSON, lambda counts: counts.texts("sex")),
    "one value a person": ([USUAL, TOTAL, WAGE, SEX], PERSON, lambda counts: counts.marginals([("usual", "total")])),
}


class _Recorded:
    """A table that answers nothing and keeps what it was asked."""

    is_here, number_form = False, PLAIN
    types = {}
    columns = ("age", "wage", "sex", "ward", "day", "seen", "who's")
    relation = exp.table_("patients", db="ward", quoted=True)

    def __init__(self, dialect):
        self.dialect, self.statements = dialect, []

    def batches(self, statement, parameters):
        assert not list(parameters)
        self.statements.append(statement.sql(dialect=self.dialect.name, pretty=True))
        return iter([(np.zeros(0, dtype=np.int64),) * 2])


def statements(dialect):
    found = []
    for title, (columns, unit, ask) in ASKED.items():
        schema = Schema.from_json({"version": 1, "columns": columns, "unit": unit, "neighbours": "add_remove"})
        if USUAL in columns:
            schema = schema.project(["usual", "total"])
        table = _Recorded(dialect)
        ask(TableCounts(table, schema))
        found += [f"-- {title}\n{each};\n" for each in table.statements]
    return "\n".join(found)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_writes_the_statements_that_were_read(name):
    assert statements(DIALECTS[name]) == (GOLDEN / f"{name}.sql").read_text()


def test_a_warehouse_of_which_no_session_was_tested_cannot_be_reached():
    assert set(WAREHOUSES) == {"trino", "bigquery", "snowflake"} == registry.WITHOUT_SESSION
    assert not registry.WITHOUT_SESSION & set(registry.KINDS)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, dialect in DIALECTS.items():
        (GOLDEN / f"{name}.sql").write_text(statements(dialect))
