"""SQLite's INSERT OR REPLACE deletes rows without asking the triggers that refuse deletions."""

import pytest
from django.db import connection

from tests.web.review.test_append_only import charged, execute, refused, rows  # noqa: F401  the fixture too

pytestmark = pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite can replace rows")


def replaced(table, **changes):
    """INSERT OR REPLACE of one row of a table with some columns changed."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY 1 DESC LIMIT 1")
        row = dict(zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True))
    row |= changes
    columns, places = ", ".join(f'"{name}"' for name in row), ", ".join(["%s"] * len(row))
    refused(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({places})", *row.values())


@pytest.mark.parametrize("recursive", ["ON", "OFF"])
@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("releases_ledgerentry", {"epsilon": 1}),
        ("releases_ledgerentry", {"id": 999, "epsilon": 1, "sequence": 9}),
        ("releases_ledgerentry", {"id": None, "epsilon": 1, "key": "0" * 32, "sequence": 9}),
        ("releases_auditevent", {"detail": "nothing"}),
        ("releases_budget", {"name": "Other"}),
        ("releases_survey", {"title": "Other"}),
        ("releases_surveytally", {"number": 0}),
        ("releases_surveytally", {"id": None, "number": 0}),
    ],
)
def test_no_row_is_replaced_whatever_the_connection_was_asked_for(charged, make_survey, table, changes, recursive):  # noqa: F811
    make_survey(reports=["0", "1", "2"])
    before = rows(table)
    assert before
    execute(f"PRAGMA recursive_triggers = {recursive}")
    try:
        replaced(table, **changes)
        assert rows(table) == before
    finally:
        execute("PRAGMA recursive_triggers = ON")


def test_every_connection_fires_the_triggers_of_replaced_rows(db):
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA recursive_triggers").fetchone() == (1,)
