"""Noisy answers that are made to agree: they are the best linear estimate, and are within what is said as often."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from operator import le

import numpy as np
import pytest
from scipy.stats import binom

from releases.engine.bounds.combinations import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.mechanisms.base import plan_from_json
from releases.engine.mechanisms.gaussian_cumulative import measured as measured_by
from releases.engine.mechanisms.laplace_tree import Ranges
from releases.engine.mechanisms.least_squares import LeastSquares
from releases.engine.mechanisms.mixed_squares import MixedSquares
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.workload.queries import Count, Prefix, Workload
from tests.engine import telling

PURE, APPROX = PureDP(epsilon=Fraction(1)), ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
SIZES = (7, 2, 3)
PAIRS = [{"marginals": 2}, {"marginal": ["c0"]}]
RUNNING, COUNT = {"prefix": "c0"}, {"count": {"c0": ["0", "1"], "c1": ["1 to 2"]}}
#: A count of columns that no table holds together.
APART = {"count": {"c1": ["0"], "c2": ["0"]}}
MIXED = [RUNNING, {"marginal": ["c0", "c1"]}, {"marginal": ["c2"]}, COUNT]
TREE = Ranges(bins=7, branches=3, levels=3)
BUDGETS = {"gaussian-queries": APPROX, "laplace-queries": PURE, "laplace-tree": PURE, "gaussian-cumulative": APPROX}
OF_TABLES = ["gaussian-queries", "laplace-queries"]
SMALL = (3, 2, 4)
with_every_mechanism = pytest.mark.parametrize("name", BUDGETS)


def planned(queries, name, agree="yes", sizes=None, budget=None, **given):
    sizes, budget = sizes or (SMALL if name in OF_TABLES else SIZES), budget or BUDGETS[name]
    if name in OF_TABLES:
        # All columns can leave rows out, and tables that count different ones do not agree.
        given = {"rows_counted": "same", **given}
    return telling.planned(name, telling.integers(sizes), queries, budget=budget, agree=agree, **given)


def asked_of(name, weight=1):
    if name in OF_TABLES:
        return [PAIRS[0], {**PAIRS[1], "weight": weight}]
    return [{**RUNNING, "weight": weight}, *MIXED[1:], APART]


def workload_of(queries, sizes=SIZES):
    universe = telling.schema_of(telling.integers(sizes)).universe
    return Workload.from_json({"version": 1, "queries": queries}, universe)


def counted(test, sizes=SIZES):
    """A sum of the cells of the universe: those that pass, by their bins."""
    return [float(test(cell)) for cell in product(*map(range, sizes))]


def answers_of(family, sizes=SIZES):
    """Each answer as a sum of cells, as it is described."""
    axes = [int(name[1:]) for name in family.attributes]
    if isinstance(family, Prefix):
        return [counted(lambda cell, end=end: cell[axes[0]] <= end) for end in range(sizes[axes[0]])]
    if isinstance(family, Count):
        return [counted(lambda cell: all(cell[a] in bins for a, bins in zip(axes, family.bins, strict=True)))]
    return [
        counted(lambda cell, values=values: all(cell[a] == v for a, v in zip(axes, values, strict=True)), sizes)
        for values in product(*(range(sizes[a]) for a in axes))
    ]


def drawn_for(family, measure):
    """What noise is drawn for, as sums of cells."""
    if measure is None:
        return answers_of(family)
    if isinstance(measure, Ranges):
        widths = [measure.branches**level for level in range(measure.levels)]
        return [
            counted(lambda cell, width=width, place=place: cell[0] // width == place)
            for width, size in zip(widths, measure.sizes, strict=True)
            for place in range(size)
        ]
    if not isinstance(family, Prefix):
        return [[measure.factors[0] * each for each in answer] for answer in answers_of(family)]
    steps = [np.array(counted(lambda cell, b=b: cell[0] == b)) for b in range(SIZES[0])]
    return [sum(measure.factors[end - b] * steps[b] for b in range(end + 1)) for end in range(SIZES[0])]


def matrix_of(workload, sizes=SIZES):
    """All answers, one by one."""
    return np.array([line for family in workload.families for line in answers_of(family, sizes)])


def squares_of(queries, kind):
    workload = workload_of(queries)
    law = DISCRETE_LAPLACE if kind != "sums" else DISCRETE_GAUSSIAN
    measuring = {
        "ranges": tuple(TREE if isinstance(family, Prefix) else None for family in workload.families),
        "answers": (None,) * len(workload.families),
        "sums": measured_by(workload),
    }[kind]
    variances = tuple(float(4 + 9 * place) for place in range(len(workload.families)))
    return MixedSquares(workload=workload, law=law, variances=variances, measuring=measuring)


@pytest.mark.parametrize("law", [DISCRETE_GAUSSIAN, DISCRETE_LAPLACE])
def test_what_agrees_is_the_weighted_least_squares_estimate_and_its_variance_is_what_is_said(law):
    workload = workload_of(PAIRS, SMALL)
    variances = (9.0, 25.0, 4.0, 49.0)
    squares = LeastSquares(workload=workload, law=law, variances=variances)
    cells = [family.cells(workload.universe) for family in workload.families]
    roots = np.repeat(np.sqrt(variances), cells)
    matrix = matrix_of(workload, SMALL)
    noisy = np.random.default_rng(3).normal(50, 20, len(matrix))
    onto = matrix @ np.linalg.pinv(matrix / roots[:, None])
    expected = onto @ (noisy / roots)
    found = squares.combined(np.split(noisy, np.cumsum(cells)[:-1]))
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-8)
    covariance = np.split((onto**2).sum(axis=1), np.cumsum(cells)[:-1])
    np.testing.assert_allclose(squares.answer_variances, [each.max() for each in covariance], rtol=1e-6)


@pytest.mark.parametrize("queries", [PAIRS, [{"marginals": 3}, {"marginals": 1}], [{"marginals": 2}, {"marginals": 2}]])
def test_an_error_is_made_of_the_noise_that_the_least_squares_matrix_takes(queries):
    """Every answer of a table, draw by draw; one column has a single bin."""
    sizes = (3, 1, 2, 4)
    workload = workload_of(queries, sizes)
    variances = tuple(float(4 + place) for place in range(len(workload.families)))
    squares = LeastSquares(workload=workload, law=DISCRETE_LAPLACE, variances=variances)
    cells = [family.cells(workload.universe) for family in workload.families]
    of_cell = np.repeat(variances, cells)
    matrix = matrix_of(workload, sizes)
    onto = matrix @ np.linalg.pinv(matrix / np.sqrt(of_cell)[:, None]) / np.sqrt(of_cell)
    for error, lines in zip(squares.errors, np.split(onto, np.cumsum(cells)[:-1]), strict=True):
        kinds = np.column_stack([error.variances, error.factors])
        said = np.repeat(kinds, np.rint(error.numbers).astype(int), axis=0)
        np.testing.assert_allclose(error.numbers, np.rint(error.numbers), rtol=1e-9)
        for line in lines:
            found = np.column_stack([of_cell, np.abs(line)])[np.abs(line) > 1e-12]
            order, other = np.lexsort(found.round(9).T[::-1]), np.lexsort(said.round(9).T[::-1])
            kept = said[other][said[other][:, 1] > 1e-12]
            np.testing.assert_allclose(found[order], kept, atol=1e-8)


@pytest.mark.parametrize("apart", [1e6, 1e14, 1e160])
def test_an_answer_that_is_far_surer_than_others_shifts_none_and_has_a_bound(apart):
    workload = workload_of([{"marginals": 2}, RUNNING, COUNT])
    alike, measuring = (9.0,) * len(workload.families), (None,) * len(workload.families)
    variances = (*alike[1:], alike[0] / apart)
    squares = MixedSquares(workload=workload, law=DISCRETE_LAPLACE, variances=variances, measuring=measuring)
    asked = matrix_of(workload)
    np.testing.assert_allclose(squares.factors @ asked, asked, atol=1e-9)
    deviations = np.sqrt(squares.factors**2 @ squares.variances_of_draws)
    widths = np.repeat(
        squares.half_widths(beta=0.05), [family.cells(workload.universe) for family in workload.families]
    )
    # The last has noise of next to nothing, which is hardly ever more than 0.
    assert (widths >= 1.9 * deviations)[:-1].all()
    assert widths[-1] > 0


@pytest.mark.parametrize("kind", ["ranges", "answers", "sums"])
@pytest.mark.parametrize(
    "queries", [[RUNNING], MIXED, [*MIXED, APART], [{"marginals": 2}, RUNNING, COUNT], [{"marginals": 3}, APART]]
)
def test_the_answers_are_the_best_linear_estimate_from_what_was_measured(queries, kind):
    """By the pseudoinverse over the cells of the universe, one by one. What no table holds is its own noisy number."""
    squares = squares_of(queries, kind)
    families = squares.workload.families
    drawn = [drawn_for(family, measure) for family, measure in zip(families, squares.measuring, strict=True)]
    matrix, roots = np.concatenate(drawn), np.repeat(np.sqrt(squares.variances), [len(lines) for lines in drawn])
    asked = matrix_of(squares.workload)
    expected = asked @ np.linalg.pinv(matrix / roots[:, None]) / roots
    if queries[-1] == APART and queries[0] != {"marginals": 3}:
        # It has a column with every table but not both: the estimate here leaves it, and it leaves the others.
        joined = asked[:-1] @ np.linalg.pinv((matrix / roots[:, None])[:-1]) / roots[:-1]
        expected = np.block([[joined, np.zeros((len(joined), 1))], [np.zeros((1, len(roots) - 1)), 1.0]])
        expected[-1, -1] = 1 / matrix[-1].max()
    np.testing.assert_allclose(squares.factors @ matrix, asked, atol=1e-8)
    np.testing.assert_allclose(squares.factors, expected, atol=1e-8 * np.abs(expected).max())


def failures(plan, runs, factor):
    table = telling.some_counts(plan.schema.universe, 90)
    exact = plan.counts_asked.answer(table.marginal)
    failed = 0
    for seed in range(runs):
        released = plan.released(plan.measured(table, StreamRandomness(seed.to_bytes(4, "little"))))
        pairs = zip(released, exact, plan.bound.half_widths, strict=True)
        failed += any(np.abs(one - other).max() > factor * width for one, other, width in pairs)
    return failed


@with_every_mechanism
@pytest.mark.parametrize("weight", [1, 3])
def test_all_answers_are_within_the_bound_as_often_as_it_says_and_a_narrower_one_is_noticed(name, weight):
    """Of 1,000 runs at 1 - beta = 0.8, more failures than this have a probability below 10^-6 if the bound holds."""
    plan = planned(asked_of(name, weight), name, beta=Fraction(1, 5))
    assert isinstance(plan.together, LeastSquares if name in OF_TABLES else MixedSquares)
    most = int(binom.isf(1e-6, 1000, 0.2))
    assert failures(plan, 1000, 1.0) <= most
    assert failures(plan, 1000, 0.7) > most


@with_every_mechanism
def test_left_to_the_mechanism_the_narrower_bound_is_chosen_before_the_release_at_no_price(name):
    apart = [[{"marginal": ["c0", "c1"]}], [RUNNING, {"marginals": 2}]] if name in OF_TABLES else []
    for queries in (PAIRS if name in OF_TABLES else MIXED, *apart):
        plain, decided = (planned(queries, name, agree) for agree in ("no", ""))
        assert decided.bound.alpha <= plain.bound.alpha
        assert (decided.together is not None) is (decided.bound.alpha < plain.bound.alpha) is (queries not in apart)
        assert decided.events == plain.events
        assert plan_from_json(decided.to_json()) == decided
        # Stored without the option, it is read as one that leaves its noise.
        stored = plain.to_json()
        del stored["options"]["agree"]
        assert plan_from_json(stored) == plain


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"name": "gaussian-queries", "queries": [{"marginals": 2}], "sizes": (2,) * 26}, "not too many"),
        ({"name": "laplace-tree", "queries": [RUNNING, {"marginals": 2}], "sizes": (300, 40)}, "not too many"),
        ({"name": "gaussian-cumulative", "queries": [RUNNING]}, "share columns"),
        (
            {
                "name": "gaussian-queries",
                "queries": PAIRS,
                "sizes": (3, 2),
                "budget": ApproxDP(epsilon=Fraction(20), delta=Fraction(1, 10**9)),
            },
            "so little noise",
        ),
    ],
)
def test_what_cannot_agree_or_promise_is_refused_and_left_as_it_is_where_that_is_not_asked_for(given, why):
    assert why in planned(**given).infeasible
    assert planned(**given, agree="").together is None


@pytest.mark.parametrize("name", OF_TABLES)
def test_what_agrees_is_made_of_the_noisy_answers_alone(name):
    plain, agreeing = (planned(PAIRS, name, agree) for agree in ("no", "yes"))
    table = telling.some_counts(plain.schema.universe, 90)
    noisy, released = (plan.run(table, rng=StreamRandomness(b"same")).estimates for plan in (plain, agreeing))
    for one, other in zip(agreeing.together.combined(noisy), released, strict=True):
        np.testing.assert_array_equal(one, other)


TABLES = [{"marginal": ["c0", "c1"], "weight": 2}, {"marginal": ["c0"]}, {"marginal": ["c1"], "weight": 3}]


def _within(scale, count, beta):
    """The least m such that so many discrete Laplace draws are all at most m with probability 1 - beta."""
    q = np.exp(-1 / scale)
    return next(m for m in range(10**6) if (1 - 2 * q ** (m + 1) / (1 + q)) ** count >= 1 - beta)


def _tables(sizes, neighbours="add_remove", **options):
    columns = telling.categories(sizes, outside="v0")
    return telling.planned(
        "laplace-queries", columns, TABLES, neighbours, epsilon="1/2", confidence="tables", **options
    )


@pytest.mark.parametrize("neighbours", telling.RELATIONS)
@pytest.mark.parametrize("sizes", [(5, 3), (2, 40), (10, 10)])
def test_no_table_has_a_wider_interval_than_alone_with_its_share_and_those_that_agree_have_narrower_ones(
    sizes, neighbours
):
    moved = 1 if neighbours == "add_remove" else 2
    cells = (sizes[0] * sizes[1], *sizes)
    alone = [
        _within(moved / (0.5 * weight / 6), count, 0.05 / 3) for weight, count in zip((2, 1, 3), cells, strict=True)
    ]
    own, together = (_tables(sizes, neighbours, agree=agree).bound.half_widths for agree in ("no", None))
    assert list(own) == alone
    assert all(one <= other for one, other in zip(together, alone, strict=True))
    assert sum(together) < sum(alone)


def test_each_table_is_within_its_interval_as_often_as_its_part_of_the_probability_says_and_they_agree():
    """A false alarm of one in a million; three quarters of the width would be noticed."""
    sizes, runs = (4, 3), 6_000
    plan = _tables(sizes)
    assert plan.together is not None
    counts = telling.some_counts(plan.workload.universe, 500)
    truths = [counts.counts.reshape(-1), counts.counts.sum(axis=1), counts.counts.sum(axis=0)]
    rng = StreamRandomness(b"each table")
    missed, would_miss = np.zeros(3, dtype=int), np.zeros(3, dtype=int)
    for _ in range(runs):
        answers = plan.released(plan.measured(counts, rng))
        table = answers[0].reshape(sizes)
        np.testing.assert_allclose(table.sum(axis=1), answers[1], atol=1e-6)
        np.testing.assert_allclose(table.sum(axis=0), answers[2], atol=1e-6)
        off = np.array([np.abs(one - true).max() for one, true in zip(answers, truths, strict=True)])
        missed += off > plan.bound.half_widths
        would_miss += off > 0.75 * np.array(plan.bound.half_widths)
    most = binom.isf(telling.FALSE_ALARM / 3, runs, 0.05 / 3)
    assert missed.max() <= most
    assert would_miss.min() > most


def test_a_plan_stored_before_there_was_the_choice_is_read_as_it_was():
    plan = planned(PAIRS, "laplace-queries")
    stored = plan.to_json()
    del stored["options"]["confidence"]
    assert plan_from_json(stored).bound == plan.bound


WIDE = (5, 2, 4, 2, 3)
TRIPLES = [{"marginals": 3}]


def larger(queries=TRIPLES, sizes=WIDE, **given):
    return planned(queries, "laplace-queries", "", sizes, measured="larger", **given)


@pytest.mark.parametrize("sizes", [SMALL, (3, 1, 4)])
def test_answers_from_larger_tables_are_the_least_squares_solution_and_made_of_the_noise_that_is_said(sizes):
    """By numpy's solver over the cells of the universe. One table asked for is measured, three are in some that are."""
    measured = workload_of([{"marginal": ["c0", "c1"]}, {"marginal": ["c1", "c2"]}], sizes)
    asked = workload_of([{"marginals": 1}, {"marginal": ["c1", "c2"]}], sizes)
    variances = (9.0, 25.0)
    squares = LeastSquares(workload=asked, measured=measured, law=DISCRETE_LAPLACE, variances=variances)
    cells = [family.cells(measured.universe) for family in measured.families]
    of_cell = np.repeat(variances, cells)
    roots, lines, wanted = np.sqrt(of_cell), matrix_of(measured, sizes), matrix_of(asked, sizes)
    noisy = np.random.default_rng(4).normal(50, 20, (len(lines), 1 + len(lines)))
    noisy[:, 1:] = np.eye(len(lines))
    solved = wanted @ np.linalg.lstsq(lines / roots[:, None], noisy / roots[:, None], rcond=None)[0]
    found = squares.combined(np.split(noisy[:, 0], np.cumsum(cells)[:-1]))
    np.testing.assert_allclose(np.concatenate(found), solved[:, 0], atol=1e-8)
    ends = np.cumsum([family.cells(asked.universe) for family in asked.families])[:-1]
    for error, onto in zip(squares.errors, np.split(solved[:, 1:], ends), strict=True):
        kinds = np.column_stack([error.variances, error.factors])
        said = np.repeat(kinds, np.rint(error.numbers).astype(int), axis=0)
        said = said[said[:, 1] > 1e-12]
        for line in np.abs(onto):
            drawn = np.column_stack([of_cell, line])[line > 1e-12]
            order, other = np.lexsort(drawn.round(9).T[::-1]), np.lexsort(said.round(9).T[::-1])
            np.testing.assert_allclose(drawn[order], said[other], atol=1e-8)
    largest = max(float((each**2 @ of_cell).max()) for each in np.split(solved[:, 1:], ends))
    np.testing.assert_allclose([squares.most_variance(), max(squares.answer_variances)], largest, rtol=1e-9)


@pytest.mark.parametrize("unit", [None, telling.PERSON])
@pytest.mark.parametrize("neighbours", telling.RELATIONS)
@pytest.mark.parametrize("outside", [{}, {"outside": "v0"}])
def test_noise_on_larger_tables_is_made_for_what_a_unit_changes_in_all_of_them(neighbours, unit, outside):
    """Over all rows that are there or not: a person has up to two."""
    sizes = (2, 4, 5, 4)
    columns = telling.categories(sizes, **outside)
    given = {"measured": "larger", "rows_counted": "same"}
    plan = telling.planned("laplace-queries", columns, {"marginals": 2}, neighbours, unit=unit, **given)
    tables = plan.together.tables.marginals
    assert len(tables) == 3

    def counted(row):
        return {(names, tuple(row[int(name[1])] for name in names)) for names in tables}

    rows, gone = [counted(row) for row in product(*map(range, sizes))], set()
    others = [gone] if neighbours == "add_remove" else rows if outside else [*rows, gone]
    changes = [len(one ^ other) for one in rows for other in others]
    assert plan.noise.l1_sensitivity == max(changes) * (2 if unit else 1)
    assert plan.noise.scale == plan.noise.l1_sensitivity
    assert [each.to_json() for each in plan.events] == [plan.noise.event.to_json()]


@pytest.mark.parametrize("confidence", ["answers", "tables"])
def test_answers_from_larger_tables_are_within_the_bound_as_often_as_it_says_and_a_narrower_one_is_noticed(confidence):
    """A false alarm has a probability below 10^-6 if the bound holds."""
    plan = larger(confidence=confidence, beta=Fraction(1, 5))
    assert len(plan.together.tables.families) < len(plan.workload.families)
    most = int(binom.isf(telling.FALSE_ALARM, 1000, 0.2))
    assert failures(plan, 1000, 1.0) <= most
    assert failures(plan, 1000, 0.7) > most


@pytest.mark.parametrize(
    "queries",
    [
        TRIPLES,
        [{"marginals": 2}],
        [{"marginals": 1}, {"marginal": ["c0", "c1"]}],
        [{"marginals": 3}, {"marginals": 2}, {"marginals": 1}],
    ],
)
@pytest.mark.parametrize("sizes", [WIDE, (2,) * 6, (3, 2, 9, 2), (20, 15, 10, 30)])
@pytest.mark.parametrize("confidence", ["answers", "tables"])
def test_left_to_the_mechanism_noise_is_on_larger_tables_where_that_makes_the_bound_narrower(
    queries, sizes, confidence
):
    """These contain each table asked for, none another one, and join no columns that no question joins."""
    decided, asked = (
        planned(queries, "laplace-queries", "", sizes, measured=measured, confidence=confidence)
        for measured in ("", "asked")
    )
    is_larger = "tables with noise" in decided.parameters
    assert is_larger is (decided.bound.alpha < asked.bound.alpha)
    assert is_larger or decided.bound == asked.bound
    if confidence == "tables":
        assert all(map(le, decided.bound.half_widths, asked.bound.half_widths))
    assert sizes != (2,) * 6 or len(queries) == 2 or is_larger
    if is_larger:
        tables = [set(names) for names in decided.together.tables.marginals]
        assert all(any(set(each) <= table for table in tables) for each in decided.workload.marginals)
        assert not any(one < other for one in tables for other in tables)
        assert decided.measured_tables(None) == decided.together.tables.marginals
    assert plan_from_json(decided.to_json()) == decided


def test_columns_that_no_question_joins_are_in_no_larger_table_and_rows_are_fitted_to_these():
    queries = [{"marginals": 2, "columns": ["c0", "c1", "c3"]}, {"marginal": ["c2"]}, {"marginal": ["c4"]}]
    plan = larger(queries, sizes=(2, 2, 3, 2, 4))
    assert plan.together.tables.marginals == (("c0", "c1", "c3"), ("c2",), ("c4",))
    table = telling.some_counts(plan.schema.universe, 4_000)
    result = plan.run(table, rng=StreamRandomness(b"fitted"))
    rows = table.counts.sum()
    assert abs(result.total - rows) < 1_000
    exact = [table.marginal(names) for names in (("c0", "c1"), ("c2",))]
    for truth, answers in zip(exact, (result.estimates[0], result.estimates[3]), strict=True):
        assert np.abs(truth.reshape(-1) - answers).max() < 100
    assert result.distribution is not None


def test_a_plan_stored_before_there_were_larger_tables_keeps_its_noise():
    was = planned(TRIPLES, "laplace-queries", "", WIDE, measured="asked")
    stored = planned(TRIPLES, "laplace-queries", "", WIDE).to_json()
    del stored["options"]["measured"]
    stored["planned"] = was.to_json()["planned"]
    assert plan_from_json(stored) == was


@pytest.mark.parametrize("wanted", ["", "larger"])
def test_a_plan_stored_when_only_joined_tables_were_known_keeps_them(wanted):
    sizes = (2, 2, 4, 4, 4, 4, 4)
    was, now = (planned(TRIPLES, "laplace-queries", "", sizes, measured=measured) for measured in ("joined", wanted))
    assert all({"c0", "c1"} < set(names) for names in was.together.tables.marginals)
    assert now.bound.alpha < 0.95 * was.bound.alpha
    stored = now.to_json()
    stored["planned"] = was.to_json()["planned"]
    assert plan_from_json(stored) == was


MANY = (6, 3, 2, 4, 3, 2, 5, 2, 3, 4)


@pytest.mark.parametrize("name", OF_TABLES)
def test_more_than_100_tables_agree_where_that_is_narrower_and_plans_stored_before_keep_their_noise(name):
    plain, agreeing, decided = (
        planned(TRIPLES, name, agree, MANY, **measured) for agree, measured in (("no", {}), ("yes", {}), ("", {}))
    )
    assert len(plain.workload.families) == 120
    assert decided.bound.alpha <= agreeing.bound.alpha < 0.8 * plain.bound.alpha
    assert ("tables with noise" in decided.parameters) is (name == "laplace-queries")
    stored = decided.to_json()
    stored["planned"] = plain.to_json()["planned"]
    assert plan_from_json(stored) == plain


def test_a_table_of_all_columns_too_large_to_be_asked_for_is_no_design_and_no_error():
    """All columns together have 39,016,857,600 cells."""
    decided = planned([{"marginals": 2}], "laplace-queries", "", (32, 9, 16, 7, 15, 6, 5, 2, 32, 42))
    assert not decided.infeasible
    assert decided.bound.alpha > 0


def test_joined_tables_are_kept_where_covering_ones_of_less_variance_have_a_wider_bound():
    sizes = (2, 2, 2, 3, 3, 3, 3, 3)
    joined, decided = (planned(TRIPLES, "laplace-queries", "", sizes, measured=measured) for measured in ("joined", ""))
    assert decided.bound == joined.bound


def test_tables_of_columns_alike_are_covered_by_fewer_ones_as_in_the_least_known_design():
    """Triples of 10 columns lie in 30 sets of four at the least (Steiner's system); one by one they are 120."""
    plan = larger(sizes=(4,) * 10)
    tables = plan.together.tables.marginals
    assert 30 <= len(tables) < 45
    assert all(any(set(each) <= set(names) for names in tables) for each in plan.workload.marginals)
    assert plan.bound.alpha < 0.7 * planned(TRIPLES, "laplace-queries", "yes", (4,) * 10).bound.alpha


@pytest.mark.parametrize(
    ("queries", "given"),
    [
        (TRIPLES, {"agree": "no"}),
        ([*TRIPLES, {"marginals": 2, "weight": 3}], {}),
        ([*TRIPLES, RUNNING], {}),
        ([{"marginals": 2}], {"sizes": (20, 15, 10, 30)}),
    ],
)
def test_larger_tables_are_refused_and_not_chosen_where_nothing_is_proved_of_them_or_they_are_no_better(queries, given):
    given = {"sizes": WIDE, "agree": "", **given}
    chosen, decided = (planned(queries, "laplace-queries", **given, measured=word) for word in ("larger", ""))
    assert "No larger tables" in chosen.infeasible
    assert not decided.infeasible
    assert "tables with noise" not in decided.parameters
