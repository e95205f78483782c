"""The benchmark of files that unfold runs: of a few, for it is not the figures that are tested here."""

from benchmarks.site import bombs

FEW = {"ods: a long text repeated": "ended", "sav: says a billion rows": "refused"}
HONEST = {"honest sav that does not say its rows": "taken"}


def test_it_says_of_each_file_how_it_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(bombs, "BOMBS", {name: bombs.BOMBS[name] for name in FEW})
    monkeypatch.setattr(bombs, "HONEST", {name: bombs.HONEST[name] for name in HONEST})
    monkeypatch.setattr(bombs, "measured", lambda _: bombs.measure(str(tmp_path)))
    (table,) = bombs.tables()
    assert {row.cells[0]: row.cells[2] for row in table.rows} == FEW | HONEST
    assert all(row.is_met is not None for row in table.rows)
