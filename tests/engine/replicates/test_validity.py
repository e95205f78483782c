"""Intervals from replicates are offered where they were measured to hold, and nowhere else."""

import re
from dataclasses import replace
from fractions import Fraction
from math import comb
from pathlib import Path

import pytest

from releases.engine.mechanisms.additive_noise import GaussianNoise
from releases.engine.replicates import validity
from releases.engine.replicates.validity import (
    LEAST_COVERED,
    MEASURED,
    TABLES,
    StatisticOfRows,
    refusal,
    rows_to_noise,
    valid_kinds,
)
from tests.engine import telling

BENCHMARKS = Path(__file__).resolve().parents[3] / "docs" / "BENCHMARKS.md"
COLUMNS = [*telling.categories((2, 5)), *[each | {"name": "c2"} for each in telling.integers((3,))]]
WHOLE = {"marginal": ["c0", "c1", "c2"]}
ROWS = 30_000


def planned(query=WHOLE, *, name="laplace-histogram", columns=COLUMNS, **given):
    return telling.planned(name, columns, query, **given)


def refused(plan, rows=ROWS, columns=("c0", "c1", "c2")):
    return refusal(plan, columns=columns, rows=rows)


def test_fewer_intervals_hold_with_probability_below_1_in_10_000_where_each_holds_with_95_percent():
    below = [
        comb(TABLES, held) * Fraction(95, 100) ** held * Fraction(5, 100) ** (TABLES - held) for held in range(TABLES)
    ]
    assert sum(below[:LEAST_COVERED]) < Fraction(1, 10_000) < sum(below[: LEAST_COVERED + 2])


def test_what_is_offered_is_what_the_benchmark_found():
    section = BENCHMARKS.read_text().split("## Intervals from replicates\n")[1].split("\n## ")[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    found = {
        (mechanism, table, epsilon, float(ratio), kind, int(number), int(fewest))
        for table, mechanism, epsilon, ratio, kind, number, fewest, *_ in lines[2:]
    }
    assert found == {
        (each.mechanism, each.table, each.epsilon, each.rows_to_noise, each.kind.value, each.number, each.fewest)
        for each in MEASURED
    }


def test_each_mechanism_was_measured_on_three_tables_with_every_kind():
    for mechanism in {each.mechanism for each in MEASURED}:
        mine = [each for each in MEASURED if each.mechanism == mechanism]
        settings = {(each.table, each.epsilon) for each in mine}
        assert len({table for table, _ in settings}) == 3
        assert {(each.table, each.epsilon, each.kind) for each in mine} == {
            (*setting, kind) for setting in settings for kind in StatisticOfRows
        }


def test_a_kind_is_offered_only_if_it_was_measured_and_held_everywhere(monkeypatch):
    """Failed at the most rows to noise: nowhere. Failed at fewer: above that, if it was held there on three tables."""
    mechanism, kind = "laplace-histogram", StatisticOfRows.DIFFERENCE
    mine = sorted((each for each in MEASURED if each.mechanism == mechanism), key=lambda each: each.rows_to_noise)
    least, most = mine[0].rows_to_noise, mine[-1].rows_to_noise
    assert valid_kinds(mechanism, least) == valid_kinds(mechanism, 10 * most) == tuple(StatisticOfRows)
    assert valid_kinds(mechanism, 0.99 * least) == valid_kinds("mixture-fit", 10 * most) == ()

    def offered(changed, ratio):
        monkeypatch.setattr(validity, "MEASURED", tuple(changed))
        return valid_kinds(mechanism, ratio)

    def failed(ratio):
        return [
            replace(each, fewest=LEAST_COVERED - 1) if (each.kind, each.rows_to_noise) == (kind, ratio) else each
            for each in mine
        ]

    others = set(StatisticOfRows) - {kind}
    assert set(offered([each for each in mine if each.kind is not kind], most)) == others
    assert set(offered(failed(most), 10 * most)) == others
    assert set(offered(failed(least), least)) == others
    assert set(offered(failed(least), most)) == set(StatisticOfRows)
    assert set(offered([each for each in mine if each.table != "Adult"], most)) == set()


def test_they_are_offered_where_a_release_is_like_those_that_were_measured():
    assert refused(planned()) == ""
    assert refused(planned(neighbours="replace")) == ""


PAIRS = {"marginals": 2}


@pytest.mark.parametrize("query", [PAIRS, {"marginals": 3}, {"marginals": 1}, [PAIRS, {"marginals": 1}]])
def test_a_fit_is_like_those_that_were_measured_where_it_measures_one_table_of_all_columns(query):
    """Questions of single columns are measured one by one, and so are those about few of many columns."""
    plan = planned(query, name="marginal-fit")
    is_of_all = query != {"marginals": 1}
    assert (len(plan.tables) == 1) == is_of_all
    assert (refused(plan) == "") == is_of_all
    assert (rows_to_noise(plan, rows=ROWS, cells=30) > 0) == is_of_all


def test_a_fit_to_many_tables_or_asked_about_more_columns_or_with_gaussian_noise_is_refused():
    wide = telling.categories((3, 3, 3, 2))
    names = tuple(each["name"] for each in wide)
    whole = planned({"marginal": list(names)}, name="marginal-fit", columns=wide)
    assert len(whole.tables) == 1
    many = planned(PAIRS, name="marginal-fit", columns=telling.categories((6, 5, 4, 4, 3, 3)))
    assert len(many.tables) > 1
    plan = planned(PAIRS, name="marginal-fit", columns=wide)
    gaussian = replace(
        plan, tables=(replace(plan.tables[0], noise=GaussianNoise(rho=Fraction(1), l2_sensitivity_squared=1)),)
    )
    assert refused(plan, columns=names) == ""
    for each in (whole, many, gaussian):
        columns = tuple(column.name for column in each.schema.universe.attributes)
        assert "only where one table of all columns was measured" in refused(each, columns=columns)
        assert rows_to_noise(each, rows=ROWS, cells=54) == 0


@pytest.mark.parametrize(
    ("plan", "rows", "columns", "reason"),
    [
        (planned(name="mixture-fit"), ROWS, ("c0", "c1", "c2"), "not tested for this method"),
        (planned(), ROWS, ("c0", "c1"), "only for synthetic rows with all columns"),
        (planned(unit=telling.PERSON), ROWS, ("c0", "c1", "c2"), "may have several rows"),
        (planned(rows=ROWS), ROWS, ("c0", "c1", "c2"), "not one synthetic row for each row"),
        (planned(epsilon="1/1000"), ROWS, ("c0", "c1", "c2"), "too few rows"),
        (planned(), 30, ("c0", "c1", "c2"), "too few rows"),
        (planned(), 1_000_001, ("c0", "c1", "c2"), "up to 1,000,000 synthetic rows, and there are 1,000,001"),
    ],
)
def test_the_reason_is_given_where_they_are_not(plan, rows, columns, reason):
    assert reason in refused(plan, rows, columns)


def test_a_table_with_more_cells_than_were_tried_is_refused():
    most = max(each.cells for each in MEASURED)
    columns = telling.categories((2, most // 2 + 1))
    reason = refused(planned({"marginal": ["c0", "c1"]}, columns=columns), 10**6, ("c0", "c1"))
    assert re.search(f"up to {most} cells, and this one has {most // 2 * 2 + 2}", reason)


def test_rows_to_noise_by_hand():
    """Laplace noise for one row under replacement at epsilon 1 has scale 2: variance 2 e^(1/2) / (e^(1/2) - 1)^2."""
    variance = 2 * 1.6487213 / 0.6487213**2
    found = rows_to_noise(planned(neighbours="replace"), rows=ROWS, cells=30)
    assert found == pytest.approx(1000 / variance**0.5, rel=1e-6)
