"""The benchmark of the pages under load runs: a small one, for it is not the figures that are tested here."""

import pytest

from benchmarks.site import load
from tests.conftest import POSTGRES_URL


@pytest.fixture
def small(monkeypatch):
    sizes = {"RELEASES": 12, "ENTRIES": 6, "DATASETS": 3, "REQUESTS": 8, "SECONDS": 0.01, "TURNS": 1}
    for name, value in sizes.items():
        monkeypatch.setattr(load, name, value)


@pytest.mark.postgres
def test_every_page_is_asked_for_alone_and_by_all_visitors_and_a_budgets_page_is_set_beside_a_releases(small):
    (table,) = load.tables(POSTGRES_URL, processes=1)
    assert "12 releases, 6 entries" in table.says
    *pages, beside = table.rows
    names = [row.cells[0] for row in pages]
    assert len(names) == len(set(names)) > 25
    assert {load.BUDGET_PAGE, load.RELEASE_PAGE, "review/ledger/", "review/", "/ (sofia)"} <= set(names)
    for row in pages:
        _, milliseconds, alone, together, ratio = (float(cell) if cell[0].isdigit() else 0 for cell in row.cells)
        assert min(milliseconds, alone, together) > 0
        assert row.is_met == (ratio >= 1.5) or ratio == pytest.approx(1.5, abs=0.01)
    assert beside.is_met is not None


def test_where_postgresql_does_not_answer_it_is_said():
    (table,) = load.tables("postgresql://nobody@127.0.0.1:1/nothing")
    assert "PostgreSQL does not answer" in table.says
