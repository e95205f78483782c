"""The benchmarks at a size that takes no time: each yields its table, says what is missing, and judges its targets."""

from fractions import Fraction
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from benchmarks.engine import (
    certificates,
    estimates,
    filters,
    fit,
    means,
    nist,
    quantiles,
    replicates,
    session,
    small_groups,
    smalldb,
    wide,
)
from benchmarks.management.commands import bench
from benchmarks.tables import BenchRow, BenchTable

ROWS = [
    BenchRow(cells=("one", "1.5 s"), is_met=True),
    BenchRow(cells=("another", "20.0 s"), is_met=False),
    BenchRow(cells=("x", "")),
]
TABLE = BenchTable(title="Times", says="Of things.", heads=("thing", "time"), rows=ROWS)


def test_a_file_or_a_mechanism_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(nist.nist_mst, "is_there", lambda: False)
    for module, file in (
        (means, "adult.csv"),
        (quantiles, "adult.csv"),
        (small_groups, "adult.csv"),
        (replicates, "adult.csv"),
        (wide, "adult13.csv"),
        (estimates, "health_insurance.csv"),
        (nist, "nist_national2019.csv"),
        (fit, "adult_reduced.csv"),
        (certificates, "adult_reduced.csv"),
    ):
        (missing,) = module.tables(tmp_path)
        assert file in missing.says
    for module in (session, smalldb):
        monkeypatch.setattr(module, "mechanisms", dict)
    assert [len(each.rows) for each in smalldb.tables()] == [0]
    of_adult, of_a_session = session.tables(tmp_path)
    assert (len(of_adult.rows), len(of_a_session.rows)) == (0, 0)
    assert "adult_reduced.csv" in of_adult.says


def test_rules_of_budgets_are_compared_and_their_targets_are_met():
    totals, room = filters.accepted_totals(sequences=2, length=12), filters.room_for_noise()
    assert len(totals.rows) == 8
    assert totals.is_met
    assert room.is_met


def test_the_command_prints_tables_and_writes_them_to_the_folder_given(monkeypatch, tmp_path):
    monkeypatch.setattr(bench.kernels, "tables", lambda: iter([TABLE]))
    said = StringIO()
    call_command("bench", only="kernels", out=tmp_path / "docs", stdout=said)
    assert TABLE.text() in said.getvalue()
    written = (tmp_path / "docs" / "BENCHMARKS.md").read_text()
    assert "| another | 20.0 s | NO |" in TABLE.markdown()
    assert TABLE.markdown() in written
    assert "1 targets met, 1 missed" in written
    known = (
        "nist, orders, noise, designs, means, quantiles, replicates, kernels, fit, wide, estimates, certificates, "
        "session, smalldb, filters, tables, load"
    )
    with pytest.raises(CommandError, match=f"--only: fast must be one of {known}"):
        call_command("bench", only="fast", stdout=said)


def test_quantiles_are_compared_with_those_of_ways_that_find_them_too(tmp_path, monkeypatch):
    """Over 400 people of 47 ages each way is within 5 years in the mean; one that drew any age would be off by 9."""
    lines = [f"{18 + place % 47},{'ab'[place % 2]}" for place in range(400)]
    (tmp_path / "health_insurance.csv").write_text("\n".join(["age,education", *lines]))
    (table,) = quantiles.tables(tmp_path, runs=20)
    assert [row.cells[0][:13] for row in table.rows] == ["Health survey"] * 2
    for row in table.rows:
        assert all(float(cell) < 5 for cell in row.cells[5:8])
        assert int(row.cells[9]) >= 14


def test_quantiles_of_few_and_of_many_rows_are_compared_by_all_ways(tmp_path, monkeypatch):
    """Epsilon 20, so that 450 rows are many."""
    monkeypatch.setattr(quantiles, "_EPSILON", Fraction(20))
    monkeypatch.setattr(quantiles, "_SOME_ROWS", (200, 1_000, 10_000))
    lines = [str(place * 100) for place in range(1_000)]
    (tmp_path / "nist_national2019.csv").write_text("\n".join(["PINCP,PUMA", *(f"{each},a" for each in lines)]))
    table = list(quantiles.tables(tmp_path, runs=3))[1]
    assert [row.cells[0] for row in table.rows] == ["200", "1,000"]
    assert [row.cells[7] for row in table.rows] == ["0", "3"]
    assert all(float(cell.replace(",", "")) < 20_000 for row in table.rows for cell in row.cells[1:4])


def test_what_a_wide_fit_takes_is_measured_in_a_process_of_its_own(tmp_path):
    nist_rows = [f"{i % 80},{1 + i % 2},{1 + i % 6},{1 + i % 9},{1 + i % 3}" for i in range(300)]
    (tmp_path / "nist_national2019.csv").write_text("\n".join(["AGEP,SEX,MSP,RAC1P,HOUSING_TYPE", *nist_rows]))
    for name in ("adult.csv", "health_insurance.csv"):
        (tmp_path / name).write_text("a,b\n1,2\n")
    (table,) = estimates.tables(tmp_path, columns=(5,), epsilons=("1",))
    (row,) = table.rows
    columns, _, epsilon, stated, seconds, times, _, megabytes = row.cells
    assert (columns, epsilon) == ("5", "1")
    assert float(stated) > 0
    assert float(seconds) > 0
    assert row.is_met == (0.5 <= float(times) <= 2 and float(megabytes) <= 500)


def test_means_of_small_groups_are_compared_with_those_of_the_table(tmp_path, monkeypatch):
    """The younger somebody is, the more there are: a bin of 18 to 30 has its mean at 22.3, and not in its middle."""
    ages = [age for age in range(18, 65) for _ in range((65 - age) ** 2 // 8)]
    lines = [f"{age},{'abcdefghij'[place % 10]},x,{'mw'[place % 2]}" for place, age in enumerate(ages)]
    (tmp_path / "health_insurance.csv").write_text("\n".join(["age,region,education,gender", *lines]))
    monkeypatch.setattr(small_groups, "QUESTIONS", [small_groups.QUESTIONS[1]])
    (table,) = small_groups.tables(tmp_path, runs=3)
    ((_, groups, bins, ours, evenly, *_),) = [row.cells for row in table.rows]
    assert (groups, bins) == ("10", "3")
    assert float(ours) < 0.9 * float(evenly)
    assert table.is_met


def test_intervals_from_replicates_are_counted_for_every_kind_of_statistic(tmp_path, monkeypatch):
    """Of 2 columns with 2 values and 2 with 5 there are 14 shares, 2 means, 2 x (2 + 5 + 5) differences and 2 x 3
    slopes."""
    lines = [
        f"{('male', 'female')[i % 2]},{('yes', 'no')[i % 3 == 0]},{18 + i * 7 % 47},{1 + i * i % 9}"
        for i in range(2_000)
    ]
    (tmp_path / "health_insurance.csv").write_text("\n".join(["gender,insurance,age,family", *lines]))
    monkeypatch.setattr(replicates, "REAL", [each for each in replicates.REAL if each.file == "health_insurance.csv"])
    monkeypatch.setattr(replicates, "EPSILONS", (Fraction(5),))
    monkeypatch.setattr(replicates, "_FITTED_EPSILONS", (Fraction(5),))
    (table,) = replicates.tables(tmp_path, runs=8)
    names = ("laplace-histogram", "gaussian-histogram", "marginal-fit")
    assert [row.cells[1] for row in table.rows] == [name for name in names for _ in range(4)]
    assert [int(row.cells[5]) for row in table.rows] == [14, 2, 24, 6] * 3
    for row in table.rows:
        assert 0 <= int(row.cells[6]) <= 8
        assert float(row.cells[7].removesuffix("%")) > 80
    assert float(table.rows[0].cells[3]) > float(table.rows[4].cells[3])
