"""The benchmarks at a size that takes no time: each yields its table, says what is missing, and judges its targets."""

from __future__ import annotations

import json
from fractions import Fraction
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from releases.benchmarks import designs, filters, fit, kernels, means, nist, noise, orders, session, smalldb, wide
from releases.benchmarks.adult import Adult
from releases.benchmarks.nist_columns import ALL, DEMOGRAPHIC, schema
from releases.benchmarks.nist_score import score
from releases.benchmarks.tables import Row, Table
from releases.engine.domain.universe import Schema
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram, Rows
from releases.management.commands import bench
from releases.management.commands.bench import document

ROWS = [Row(cells=("one", "1.5 s"), is_met=True), Row(cells=("another", "20.0 s"), is_met=False), Row(cells=("x", ""))]
TABLE = Table(title="Times", says="Of things.", heads=("thing", "time"), rows=ROWS)


def test_a_table_is_aligned_and_says_which_targets_are_met():
    assert TABLE.text().splitlines() == [
        "Times",
        "Of things.",
        "thing      time  met",
        "one       1.5 s  yes",
        "another  20.0 s   NO",
        "x",
    ]
    assert not TABLE.is_met
    assert "| another | 20.0 s | NO |" in TABLE.markdown()
    assert TABLE.markdown().splitlines()[4:6] == ["| thing | time | met |", "|---|--:|--:|"]


def test_the_document_counts_targets_and_names_the_machine_by_its_kind_alone():
    text = document([TABLE])
    assert "1 targets met, 1 missed" in text
    assert "cores and" in text
    import platform

    assert platform.node() not in text
    assert "/" not in text.split("##")[0]


def test_noise_is_measured_and_its_targets_are_judged(monkeypatch):
    monkeypatch.setattr(noise, "DRAWS", 1000)
    table = noise.beside_opendp()
    assert len(table.rows) == 6
    assert [row.is_met is None for row in table.rows] == [True, False, True] * 2
    monkeypatch.setattr(noise, "TARGETS", {("Laplace", 10): 10**9})
    monkeypatch.setattr(noise, "find_spec", lambda name: None)
    alone = noise.beside_opendp()
    assert "OpenDP is not installed" in alone.says
    assert all(row.is_met is None for row in alone.rows)
    assert noise._row("Laplace", 10, 1.0, 2.0).is_met is False


def test_designs_are_compared_with_noise_on_each_answer_and_their_bounds_are_counted(tmp_path):
    table, missing = designs.tables(tmp_path, runs=20)
    assert "is not there" in missing.says
    assert len(table.rows) == len(designs.QUESTIONS)
    assert table.is_met
    assert [row.cells[7] == "" for row in table.rows] == [not each.is_run for each in designs.QUESTIONS]
    assert designs.fewest_covered(1_000) < 920


def test_answers_that_agree_are_compared_on_real_tables_with_the_same_noise_left_as_it_is(tmp_path):
    """A table of the two files' shape, so that agreeing gains what it gains there."""
    lines = [
        f"{20 + 7 * i % 45},{1 + i % 9},r{i % 4},e{i % 3},{i % 5},{'fm'[i % 2]},{'yn'[i // 7 % 2]}" for i in range(900)
    ]
    (tmp_path / "health_insurance.csv").write_text("\n".join([",".join(designs._SURVEY), *lines]))
    survey = designs.health_survey(tmp_path)
    assert survey is not None
    assert int(survey.counts.counts.sum()) == 900
    rows = [designs._on("survey", survey, name) for name in ("gaussian-queries", "laplace-queries")]
    assert all(row.is_met for row in rows)
    assert all(row.cells[3] != row.cells[4] for row in rows)


def test_means_by_group_are_compared_with_a_sum_and_a_count_and_are_in_their_intervals(tmp_path, monkeypatch):
    question = means.Question(
        title="ages by town and sex",
        file="people.csv",
        of=("age", means._code("years", plus=1)),
        edges=(1, 100),
        by=(("town", means._text("town")), ("sex", means._text("sex"))),
    )
    monkeypatch.setattr(means, "QUESTIONS", (question,))
    lines = [f"{20 + 7 * i % 50},{'abc'[i % 3]},{'fm'[i % 2]}" for i in range(600)]
    (tmp_path / "people.csv").write_text("\n".join(["years,town,sex", *lines, "99,d,f"]))
    asked = means.Asked.read(question, tmp_path)
    assert asked.sizes.tolist() == [100] * 6 + [1, 0]
    assert asked.means[6] == 100
    (made,) = means.tables(tmp_path, runs=40)
    assert [row.cells[:3] for row in made.rows] == [
        ("ages by town and sex", "7", name) for name in ("laplace-numbers", "gaussian-numbers")
    ]
    assert all(len(row.cells) == len(made.heads) for row in made.rows)
    # At 40 runs fewer than 30 are in their intervals with probability below a millionth.
    assert all(int(row.cells[9]) >= 30 for row in made.rows)


def test_a_file_or_a_mechanism_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(nist.nist_mst, "is_there", lambda: False)
    for module, file in (
        (means, "adult.csv"),
        (wide, "adult13.csv"),
        (nist, "nist_national2019.csv"),
        (fit, "adult_reduced.csv"),
    ):
        (missing,) = module.tables(tmp_path)
        assert file in missing.says
    for module in (session, smalldb):
        monkeypatch.setattr(module, "mechanisms", dict)
        assert [len(each.rows) for each in module.tables()] == [0]


def test_a_round_is_compared_with_a_pass():
    (table,) = kernels.tables(shapes=((3, 4, 2, 3),))
    (row,) = table.rows
    assert row.cells[:3] == ("3 x 4 x 2 x 3", "72", "4")
    assert row.is_met == (float(row.cells[5]) <= kernels.TARGET)


def test_rows_of_a_wide_table_are_judged_against_every_target(tmp_path):
    columns = [{"name": name, "type": "categorical", "categories": list("012")} for name in "abcd"]
    (tmp_path / "adult13_schema.json").write_text(json.dumps({"version": 1, "columns": columns}))
    (tmp_path / "adult13.csv").write_text("a,b,c,d\n" + "0,1,2,0\n1,1,0,2\n2,0,0,1\n" * 100)
    table = wide.read(tmp_path)
    assert wide.distance(table, table, 2) == 0
    (made,) = wide.tables(tmp_path, seeds=[1])
    assert len(made.rows) == len(wide.GOALS)
    assert all(row.is_met is not None and len(row.cells) == len(made.heads) for row in made.rows)


#: 40 people with every column of NIST's table.
NIST = {
    "PUMA": np.repeat(["01-01301", "06-07502"], 20),
    "AGEP": np.arange(40.0),
    "PINCP": np.array([np.nan] * 10 + [1000.0 * i for i in range(30)]),
    "POVPIP": np.array([501.0] * 10 + [10.0 * i for i in range(30)]),
    "PWGTP": np.arange(1.0, 41),
    "WGTP": np.arange(40.0),
    "DENSITY": np.repeat(["2731.2", "50441.6"], 20),
    "INDP": np.array(["N", "9920"] * 20),
    "NPF": np.array(["2", "3"] * 20),
} | {
    name: np.array(["1", "2"] * 20)
    for name in ALL
    if name not in ("PUMA", "AGEP", "PINCP", "POVPIP", "PWGTP", "WGTP", "DENSITY", "INDP", "NPF")
}


def test_the_score_of_nist_is_of_every_two_columns_in_each_area():
    assert score(NIST, NIST, ALL).k_marginal == 1000
    other = NIST | {"SEX": np.array(["1"] * 40)}
    # Half of the people of each area are moved in (PUMA, SEX, EDU) and (PUMA, SEX, MSP), none in (PUMA, EDU, MSP).
    found = score(NIST, other, ["PUMA", "SEX", "EDU", "MSP"])
    assert found.k_marginal == pytest.approx(1000 * (1 - (0.5 + 0.5 + 0) / 3))
    # Of the six pairs three hold SEX.
    assert found.pairs == pytest.approx(3 * 0.5 / 6)
    assert score(NIST, other, ["SEX", "EDU", "MSP"]).k_marginal == pytest.approx(1000 * (1 - (0.5 + 0.5 + 0) / 3))


def test_the_score_of_nist_has_numbers_in_twenty_bins_of_the_true_table_and_missing_ones_by_themselves():
    # The ages are cut at 0, 2, 4, ...: a year more moves no odd age out of its bin, and each even one into the next.
    older = [NIST["AGEP"] + (NIST["AGEP"] % 2 == rest) for rest in (1, 0)]
    assert score(NIST, NIST | {"AGEP": older[0]}, ["AGEP", "EDU"]).pairs == 0
    assert score(NIST, NIST | {"AGEP": older[1]}, ["AGEP", "EDU"]).pairs == pytest.approx(1 / 40)
    known = np.where(np.isnan(NIST["PINCP"]), 0, NIST["PINCP"])
    assert score(NIST, NIST | {"PINCP": known}, ["PINCP", "SEX"]).pairs == pytest.approx(10 / 40)
    richest = np.where(NIST["POVPIP"] == 501, 290, NIST["POVPIP"])
    assert score(NIST, NIST | {"POVPIP": richest}, ["POVPIP", "SEX"]).pairs == pytest.approx(10 / 40)


def test_columns_of_nist_are_declared_for_every_value_of_its_table():
    declared = schema(ALL).universe
    assert set(declared.names) == set(ALL) - {"DENSITY"}
    assert len(declared["INDP"].categories) == 264
    codes = nist.bins(NIST, declared)
    assert all(0 <= each.min() <= each.max() < declared[name].size for name, each in codes.items())
    back = nist.through_bins(NIST)
    again = nist.bins(back, declared)
    assert all((again[name] == codes[name]).all() for name in declared.names)
    assert np.isnan(back["PINCP"]).sum() == 10
    assert (back["POVPIP"][:10] >= 501).all()


def test_rows_of_nist_are_beside_the_published_scores_and_judged_against_targets(tmp_path, monkeypatch):
    monkeypatch.setattr(nist.nist_mst, "is_there", lambda: False)
    lines = [",".join(str(NIST[name][i]).replace("nan", "N") for name in ALL) for i in range(40)]
    (tmp_path / "nist_national2019.csv").write_text("\n".join([",".join(ALL), *lines]))
    goals = [nist.Goal(features=DEMOGRAPHIC, epsilon=Fraction(100), least=least, seconds=1e6) for least in (700, 1001)]
    (made,) = nist.tables(tmp_path, seeds=[0], goals=goals)
    # At epsilon 100 noise moves few of 40 rows.
    assert [row.is_met for row in made.rows[:2]] == [True, False]
    assert [row.cells[1] for row in made.rows[2:]] == ["the true rows through these bins", "AIM", "MST"]
    assert float(made.rows[2].cells[3]) == 1000
    assert all(len(row.cells) == len(made.heads) for row in made.rows)


def test_mst_measures_a_tree_of_the_pairs_that_belong_together_and_merges_rare_values(monkeypatch):
    """Without the package, whose estimation is replaced by rows that all have the first and the last code."""
    seen = []

    def made(shape, ones, pairs, total):
        seen.extend([shape, {names for names, _, _ in pairs}])
        return {name: np.arange(round(total)) % 2 * (size - 1) for name, size in shape.items()}

    monkeypatch.setattr(nist.nist_mst, "_estimated", made)
    base = np.arange(4_000)
    codes = {"a": base % 3, "b": base % 3, "c": base // 3 % 4, "d": base // 3 % 4}
    # 10 values of which 5 are there, and a tree edge noise of a few rows: at epsilon 10 no choice goes wrong.
    codes["e"] = base // 12 % 5 * 2
    shape = {"a": 3, "b": 3, "c": 4, "d": 4, "e": 10}
    rows, taken = nist.nist_mst.rows(
        codes, shape, epsilon=Fraction(10), delta=Fraction(1, 10**5), rng=StreamRandomness(b"tree")
    )
    assert seen[0] == {"a": 3, "b": 3, "c": 4, "d": 4, "e": 6}
    assert {("a", "b"), ("c", "d")} < seen[1]
    assert len(seen[1]) == 4
    assert set(rows["a"]) == {0, 2}
    # The last code of e is of the five values that nobody has: each is as likely as another.
    assert set(rows["e"]) == {0, 1, 3, 5, 7, 9}
    assert taken >= 0
    beside = nist._beside_mst(NIST, nist.Goal(features=["SEX", "DEYE", "AGEP"], epsilon=Fraction(10)))
    assert beside.cells[:3] == ("3", "MST (mbi)", "10")


def test_a_rule_of_four_columns_is_lost_by_fits_of_triples_and_kept_by_its_own_marginal(monkeypatch):
    monkeypatch.setattr(orders, "SEEDS", range(1))
    triple, four = orders.RULES[:2]
    seen, lost = (orders._row(orders._schema(), rule).cells for rule in (triple, four))
    assert [float(each) >= 0.8 for each in seen[2:]] == [True, True, True]
    assert [float(each) >= 0.5 for each in lost[2:]] == [False, False, True]


def test_a_small_session_is_asked_to_its_end(monkeypatch):
    for name, value in (("COLUMNS", 4), ("CATEGORIES", 3), ("PEOPLE", 20_000), ("QUESTIONS", 40)):
        monkeypatch.setattr(session, name, value)
    (table,) = session.tables()
    (row,) = table.rows
    assert row.cells[1] == "40"
    assert row.is_met


def test_rules_of_budgets_are_compared_and_their_targets_are_met():
    totals, room = filters.accepted_totals(sequences=2, length=12), filters.room_for_noise()
    assert len(totals.rows) == 8
    assert totals.is_met
    assert room.is_met


def test_small_databases_are_drawn_and_one_that_takes_too_long_misses_its_target(monkeypatch):
    quick = smalldb.Goal(title="ten", bins=(10,), query={"prefix": "c0"}, rows=1000, most_seconds=60)
    slow = smalldb.Goal(title="ten", bins=(10,), query={"prefix": "c0"}, rows=1000, most_seconds=0)
    monkeypatch.setattr(smalldb, "GOALS", (quick, slow))
    (table,) = smalldb.tables()
    assert [row.is_met for row in table.rows] == [True, False]


def test_a_net_is_set_beside_every_other_way_and_the_one_with_the_least_error_is_named(tmp_path, monkeypatch):
    columns = [{"name": name, "type": "categorical", "categories": list("01")} for name in "abc"]
    (tmp_path / "adult_reduced_schema.json").write_text(json.dumps({"version": 1, "columns": columns}))
    (tmp_path / "adult_reduced.csv").write_text("c,a,b\n" + "0,1,1\n1,1,0\n1,0,0\n" * 50)
    monkeypatch.setattr(smalldb, "FEW_ROWS", ((90, Fraction(1, 10)), (90, Fraction(100))))
    monkeypatch.setattr(smalldb, "SAMPLES", range(2))
    (table,) = smalldb.nets(tmp_path)
    assert [row.cells[:2] for row in table.rows] == [("90", "0.1"), ("90", "100")]
    # Noise far below a row on each count, where a net is as good as its best candidate.
    assert table.rows[1].cells[-1] != smalldb.NET
    for row in table.rows:
        errors = dict(zip(table.heads[2:-1], (float(cell.split()[0]) for cell in row.cells[2:-1]), strict=True))
        assert errors[row.cells[-1]] == min(errors.values())
    assert smalldb._sampled(Adult.read(tmp_path), 90, 0).counts.sum() == 90
    (missing,) = smalldb.nets(tmp_path / "none")
    assert "adult_reduced.csv" in missing.says


def test_a_benchmark_of_a_fit_runs_what_somebody_gets_who_chooses_no_option(monkeypatch):
    """Planned through the same door as a release is; whatever options are passed there is seen."""
    passed = []
    for module in (fit, wide, nist, orders):
        real = module.mechanism

        def watched(name, real=real):
            def plan(*given, options, **named):
                passed.append(options)
                return real(name).plan(*given, options=options, **named)

            return SimpleNamespace(plan=plan)

        monkeypatch.setattr(module, "mechanism", watched)
    columns = [{"name": f"c{i}", "type": "categorical", "categories": ["a", "b"]} for i in range(3)]
    schema = Schema.from_json({"version": 1, "columns": columns})
    counts = Histogram(universe=schema.universe, counts=np.full((2, 2, 2), 20))
    for goal in fit.GOALS:
        goal.plan(Adult(schema=schema, counts=counts))
    codes = np.indices((2, 2, 2)).reshape(3, -1).repeat(9, axis=1).astype(np.int64)
    wide._released(
        Rows(universe=schema.universe, columns=dict(zip(schema.universe.names, codes, strict=True))), wide.GOALS[1], 0
    )
    nist.released(NIST, nist.Goal(features=["SEX", "DEYE", "DEAR"], epsilon=Fraction(1)), 0)
    orders._row(orders._schema(), orders.RULES[0])
    assert passed == [{}] * (5 + 1 + len(orders.SEEDS) * len(orders._WAYS))


def test_the_command_prints_tables_and_writes_them_to_the_folder_given(monkeypatch, tmp_path):
    monkeypatch.setattr(bench.kernels, "tables", lambda: iter([TABLE]))
    said = StringIO()
    call_command("bench", only="kernels", out=tmp_path / "docs", stdout=said)
    assert TABLE.text() in said.getvalue()
    assert TABLE.markdown() in (tmp_path / "docs" / "BENCHMARKS.md").read_text()
    known = "nist, orders, noise, designs, means, kernels, fit, wide, session, smalldb, filters, tables, load"
    with pytest.raises(CommandError, match=f"--only: fast must be one of {known}"):
        call_command("bench", only="fast", stdout=said)
