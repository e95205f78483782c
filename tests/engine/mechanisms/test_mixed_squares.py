"""Running totals, tables and counts that are made to agree: the best linear estimate, within what is said as often."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from releases.engine.accounting import accountant
from releases.engine.bounds.combinations import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import Consistency, mechanism, plan_from_json
from releases.engine.mechanisms.gaussian_cumulative import measured as measured_by
from releases.engine.mechanisms.laplace_tree import Ranges
from releases.engine.mechanisms.least_squares import LeastSquares
from releases.engine.mechanisms.mixed_squares import MixedSquares
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Count, Prefix, Workload

BUDGETS = {
    "laplace-tree": PureDP(epsilon=Fraction(1)),
    "gaussian-cumulative": ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9)),
}
BOTH = pytest.mark.parametrize("name", BUDGETS)
SIZES = (7, 2, 3)
RUNNING, COUNT = {"prefix": "c0"}, {"count": {"c0": ["0", "1"], "c1": ["1 to 2"]}}
#: A count of columns that no table holds together.
APART = {"count": {"c1": ["0"], "c2": ["0"]}}
MIXED = [RUNNING, {"marginal": ["c0", "c1"]}, {"marginal": ["c2"]}, COUNT]
TREE = Ranges(bins=7, branches=3, levels=3)


def schema_of(sizes=SIZES, neighbours="add_remove"):
    columns = [{"name": f"c{i}", "type": "integer", "edges": list(range(size + 1))} for i, size in enumerate(sizes)]
    return Schema.from_json({"version": 1, "columns": columns, "neighbours": neighbours, "unit": {"kind": "row"}})


def workload_of(schema, queries):
    return Workload.from_json({"version": 1, "queries": queries}, schema.universe)


def planned(queries=MIXED, name="laplace-tree", agree="yes", sizes=SIZES, beta=Fraction(1, 20)):
    schema = schema_of(sizes)
    options = {} if agree is None else {"agree": agree}
    return mechanism(name).plan(schema, workload_of(schema, queries), budget=BUDGETS[name], beta=beta, options=options)


def table_of(schema, seed=1):
    return Histogram(
        universe=schema.universe, counts=np.random.default_rng(seed).integers(0, 60, schema.universe.shape)
    )


def counted(test):
    """A sum of the cells of the universe: those that pass, by their bins."""
    return [float(test(cell)) for cell in product(*map(range, SIZES))]


def answers_of(family):
    """Each answer as a sum of cells, as it is described."""
    axes = [int(name[1:]) for name in family.attributes]
    if isinstance(family, Prefix):
        return [counted(lambda cell, end=end: cell[axes[0]] <= end) for end in range(SIZES[axes[0]])]
    if isinstance(family, Count):
        return [counted(lambda cell: all(cell[a] in bins for a, bins in zip(axes, family.bins, strict=True)))]
    return [
        counted(lambda cell, values=values: all(cell[a] == v for a, v in zip(axes, values, strict=True)))
        for values in product(*(range(SIZES[a]) for a in axes))
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


def squares_of(queries, kind):
    workload = workload_of(schema_of(), queries)
    law = DISCRETE_LAPLACE if kind != "sums" else DISCRETE_GAUSSIAN
    measuring = {
        "ranges": tuple(TREE if isinstance(family, Prefix) else None for family in workload.families),
        "answers": (None,) * len(workload.families),
        "sums": measured_by(workload),
    }[kind]
    variances = tuple(float(4 + 9 * place) for place in range(len(workload.families)))
    return MixedSquares(workload=workload, law=law, variances=variances, measuring=measuring)


@pytest.mark.parametrize("kind", ["ranges", "answers", "sums"])
@pytest.mark.parametrize(
    "queries", [[RUNNING], MIXED, [*MIXED, APART], [{"marginals": 2}, RUNNING, COUNT], [{"marginals": 3}, APART]]
)
def test_the_answers_are_the_best_linear_estimate_from_what_was_measured(queries, kind):
    """By the pseudoinverse over the cells of the universe, one by one. What no table holds is its own noisy number."""
    squares = squares_of(queries, kind)
    families, drawn, deviations = squares.workload.families, [], []
    for family, variance, measure in zip(families, squares.variances, squares.measuring, strict=True):
        lines = drawn_for(family, measure)
        drawn += lines
        deviations += [np.sqrt(variance)] * len(lines)
    matrix, roots = np.array(drawn), np.array(deviations)
    sizes = np.linalg.norm(matrix / roots[:, None], axis=1)
    asked = np.array([line for family in families for line in answers_of(family)])
    expected = asked @ np.linalg.pinv(matrix / roots[:, None]) / roots
    if queries[-1] == APART and queries[0] != {"marginals": 3}:
        # It has a column with every table but not both: the estimate here leaves it, and it leaves the others.
        joined = asked[:-1] @ np.linalg.pinv((matrix / roots[:, None])[:-1]) / roots[:-1]
        expected = np.block([[joined, np.zeros((len(joined), 1))], [np.zeros((1, len(roots) - 1)), 1.0]])
        expected[-1, -1] = 1 / matrix[-1].max()
    assert sizes.min() > 0
    np.testing.assert_allclose(squares.factors @ matrix, asked, atol=1e-8)
    np.testing.assert_allclose(squares.factors, expected, atol=1e-8 * np.abs(expected).max())
    covariance, of_draw = (squares.factors * roots**2) @ squares.factors.T, roots**2
    np.testing.assert_allclose(covariance, (expected * of_draw) @ expected.T, atol=1e-7 * np.abs(covariance).max())


@pytest.mark.parametrize("kind", ["ranges", "sums"])
def test_no_answer_passes_its_width_more_often_than_its_share_and_the_widest_comes_near(kind):
    """300,000 draws of each error, all answers at a share of 1%: a frequency that is above the share by 5 standard
    deviations has a probability below 10^-6 each, and a width a tenth narrower is passed more often than that."""
    squares = squares_of([*MIXED, APART], kind)
    share, rng, runs = 0.01, np.random.default_rng(5), 300_000
    widths = squares.half_widths(beta=share * squares.workload.size)
    variances = squares.variances_of_draws
    if kind == "ranges":
        # A difference of two geometric numbers, with 2 q / (1 - q)² the variance.
        stay = 1 + 1 / variances - np.sqrt((1 + 1 / variances) ** 2 - 1)
        drawn = rng.geometric(1 - stay, (runs, stay.size)) - rng.geometric(1 - stay, (runs, stay.size))
    else:
        places = np.arange(-80, 81)
        drawn = np.stack(
            [rng.choice(places, runs, p=(law := np.exp(-(places**2) / (2 * v))) / law.sum()) for v in variances], axis=1
        )
    errors = np.abs(drawn @ squares.factors.T)
    most = share + 5 * np.sqrt(share * (1 - share) / runs)
    for of_family, width in zip(squares.workload.split(errors.T), widths, strict=True):
        assert (of_family > width).mean(axis=1).max() <= most
        assert (of_family > 0.9 * width).mean(axis=1).max() > most


def failures(plan, runs, factor):
    table = table_of(plan.schema)
    exact = plan.counts_asked.answer(table.marginal)
    failed = 0
    for seed in range(runs):
        released = plan.released(plan.measured(table, StreamRandomness(seed.to_bytes(4, "little"))))
        pairs = zip(released, exact, plan.bound.half_widths, strict=True)
        failed += any(np.abs(one - other).max() > factor * width for one, other, width in pairs)
    return failed


@BOTH
@pytest.mark.parametrize("weight", [1, 3])
def test_all_answers_are_within_the_bound_as_often_as_it_says_and_a_narrower_one_is_noticed(name, weight):
    """Of 1,000 runs at 1 - beta = 0.8, more failures than this have a probability below 10^-6 if the bound holds."""
    plan = planned([{**RUNNING, "weight": weight}, *MIXED[1:], APART], name=name, beta=Fraction(1, 5))
    assert isinstance(plan.together, MixedSquares)
    most = int(binom.isf(1e-6, 1000, 0.2))
    assert failures(plan, 1000, 1.0) <= most
    assert failures(plan, 1000, 0.7) > most


@BOTH
def test_running_totals_tables_and_counts_add_up_to_one_another(name):
    plan = planned(name=name)
    running, pair, other, count = plan.run(table_of(plan.schema), rng=StreamRandomness(b"agree")).estimates
    cells = pair.reshape(7, 2)
    np.testing.assert_allclose(running, cells.sum(axis=1).cumsum(), atol=1e-6)
    np.testing.assert_allclose(running[-1], other.sum(), atol=1e-6)
    np.testing.assert_allclose(count, cells[:2, 1].sum(), atol=1e-6)
    assert mechanism(name).consistency_under(plan.parameters) is Consistency.MADE_TO_AGREE


@BOTH
def test_left_to_the_mechanism_the_narrower_bound_is_chosen_before_the_release_at_no_price(name):
    plain, decided = planned(name=name, agree="no"), planned(name=name, agree=None)
    assert decided.events == plain.events
    assert isinstance(decided.together, MixedSquares)
    assert max(decided.bound.half_widths) < max(plain.bound.half_widths)
    assert decided.bound.beta == plain.bound.beta
    price = accountant.price(decided.events, delta=decided.delta, neighbours=decided.schema.neighbours)
    assert price.epsilon <= 10**accountant.EPSILON_PLACES
    assert plan_from_json(decided.to_json()) == decided


def test_running_totals_beside_tables_get_half_as_wide_under_a_pure_budget():
    queries = [{"prefix": "c0"}, {"marginals": 2}]
    plain, agreeing = (planned(queries, agree=agree, sizes=(16, 7, 5, 2)) for agree in ("no", None))
    assert agreeing.bound.half_widths[0] < 0.5 * plain.bound.half_widths[0]
    assert max(agreeing.bound.half_widths[1:]) < 0.85 * max(plain.bound.half_widths[1:])


def test_a_tree_alone_gets_narrower_too_and_square_measurements_have_nothing_to_choose_from():
    plain, agreeing = (planned([RUNNING], agree=agree, sizes=(100, 2)) for agree in ("no", None))
    assert agreeing.bound.alpha < 0.85 * plain.bound.alpha
    alone = planned([RUNNING], name="gaussian-cumulative", agree=None, sizes=(100, 2))
    assert alone.together is None
    assert "share columns" in planned([RUNNING], name="gaussian-cumulative").infeasible


def test_too_many_answers_are_left_as_they_are_and_refused_where_that_was_asked_for():
    queries, sizes = [{"prefix": "c0"}, {"marginals": 2}], (300, 40)
    assert planned(queries, sizes=sizes, agree=None).together is None
    assert "not too many" in planned(queries, sizes=sizes).infeasible


@BOTH
def test_whole_tables_alone_agree_by_either_mechanism(name):
    plan = planned([{"marginals": 2}, {"marginals": 1}], name=name, agree=None)
    assert isinstance(plan.together, LeastSquares if name == "laplace-tree" else MixedSquares)
    assert max(plan.bound.half_widths) < max(
        planned([{"marginals": 2}, {"marginals": 1}], name, "no").bound.half_widths
    )


@pytest.mark.parametrize("name", ["gaussian-queries", "laplace-queries"])
def test_noise_on_each_answer_agrees_with_counts_where_asked_and_stored_plans_come_out_the_same(name):
    budget = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))
    schema = schema_of()
    workload = workload_of(schema, MIXED)
    left, no, yes = (
        mechanism(name).plan(schema, workload, budget=budget, beta=Fraction(1, 20), options={"agree": agree})
        for agree in ("", "no", "yes")
    )
    assert left.together is None
    assert left.parameters == no.parameters
    assert isinstance(yes.together, MixedSquares)
    assert yes.events == no.events
    assert max(yes.bound.half_widths) < max(no.bound.half_widths)


#: Running totals of `table_of` by the stream b"before", as they were released before answers could agree.
BEFORE = {
    "laplace-tree": [171.0, 390.0, 556.0, 742.0, 912.0, 1068.0, 1227.0],
    "gaussian-cumulative": [190.999434, 403.349906, 583.626203, 756.237337, 926.617272, 1083.742101, 1234.023075],
}


@BOTH
def test_a_plan_stored_without_the_option_is_read_as_one_that_leaves_its_noise_and_releases_what_it_did(name):
    plan = planned(name=name, agree="no")
    stored = plan.to_json()
    del stored["options"]["agree"]
    again = plan_from_json(stored)
    assert again == plan
    assert again.together is None
    result = again.run(table_of(plan.schema), rng=StreamRandomness(b"before"))
    np.testing.assert_allclose(result.estimates[0], BEFORE[name], atol=1e-4)
    assert mechanism(name).consistency_under(plan.parameters) is Consistency.OWN_NOISE


@pytest.mark.parametrize("bins", [1, 2, 5, 8, 11, 16])
def test_what_noise_is_drawn_for_is_what_the_ranges_hold(bins):
    tree = Ranges(bins=bins, branches=3, levels=4)
    counts = np.random.default_rng(bins).integers(0, 9, bins)
    expected = [
        sum(counts[place] for place in range(bins) if place // 3**level == number)
        for level, size in enumerate(tree.sizes)
        for number in range(size)
    ]
    np.testing.assert_array_equal(tree.held(counts.cumsum()), expected)
