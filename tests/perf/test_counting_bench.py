"""The benchmark of tables runs: a small one, for it is not the figures that are tested here."""

import pytest

from benchmarks.site import counting
from tests.conftest import POSTGRES_URL

pytestmark = pytest.mark.confined


@pytest.fixture
def small(monkeypatch):
    for name in ("TRIPLES", "PAIRS", "TAKEN_IN", "LARGE"):
        monkeypatch.setattr(counting, name, (1_000, 5))
    monkeypatch.setattr(counting, "REPEATS", 1)


@pytest.mark.postgres
def test_every_way_is_timed_and_set_beside_what_is_written_by_hand(small):
    (table,) = counting.tables(POSTGRES_URL)
    assert [row.cells[0] for row in table.rows] == [
        "all triples of 1,000 rows and 5 columns, Parquet",
        "all triples of 1,000 rows and 5 columns, PostgreSQL, text",
        "all triples of 1,000 rows and 5 columns, PostgreSQL, bigint",
        "all triples of 1,000 rows and 5 columns, Spark, text",
        "all pairs of 1,000 rows and 5 columns, Parquet",
        "upload of 0 MB of CSV",
        "all pairs of 1,000 rows and 5 columns, Parquet",
    ]
    for row in table.rows:
        _, ours, _, ratio, target = row.cells
        assert float(ours.removesuffix(" s")) > 0
        if ratio:
            assert row.is_met == (float(ratio) <= float(target)) or float(ratio) == pytest.approx(
                float(target), abs=0.01
            )


@pytest.mark.postgres
def test_the_statements_by_hand_count_every_row_once_in_each_triple(small, tmp_path):
    path = tmp_path / "rows.parquet"
    counting._write(path, counting.TRIPLES)
    grouped = counting._grouped("TRY_CAST(NULLIF(trim({}), '') AS DOUBLE)", f"read_parquet('{path}')")
    code = counting._DUCKDB.format(f"print(sum(row[-1] for row in made.execute({grouped!r}).fetchall()))")
    assert int(counting._run(code)) == 10 * 1_000


def test_where_postgresql_does_not_answer_it_is_said(small, tmp_path):
    rows = counting._rows(tmp_path, "postgresql://nobody@127.0.0.1:1/nothing")
    next(rows)
    assert next(rows).cells[0] == "PostgreSQL does not answer"
    rows.close()


def test_what_a_database_prints_before_the_time_is_no_time():
    assert counting._run("print('99% (<1 second remaining)')\nprint(2.5)") == "2.5"
