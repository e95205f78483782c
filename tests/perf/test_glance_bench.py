"""The benchmark of columns at a glance runs: a small one, for it is not the figures that are tested here."""

from benchmarks.site import glance


def test_it_is_timed_and_its_quartiles_are_set_beside_the_true_ones(monkeypatch):
    monkeypatch.setattr(glance, "COLUMNS", 4)
    monkeypatch.setattr(glance, "ROWS", 20_000)
    (table,) = glance.tables()
    seconds, error, outside, unnamed = table.rows
    assert float(seconds.cells[1].removesuffix(" s")) > 0
    # A bin is a tenth of the range, and a quartile is within it.
    assert 0 < float(error.cells[1]) < 0.1
    assert error.is_met
    assert outside.cells[1:] == ("0", "0")
    assert unnamed.cells[1:] == ("0", "0")
    assert [row.cells[2] for row in table.rows] == ["30 s", "0.1", "0", "0"]
