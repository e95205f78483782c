"""Combinations that cannot occur: no mechanism makes such a row, and leaving such rows out keeps every sensitivity."""

import json
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.impossible import Combination, possible_row
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.estimation import possible_rows
from releases.engine.estimation.junction import junction_tree
from releases.engine.estimation.mixture import Mixture
from releases.engine.estimation.result import Component, Distribution, MixtureComponent, TreeComponent
from releases.engine.estimation.synthetic import synthetic_records
from releases.engine.mechanisms.base import ROWS, mechanism, mechanisms, plan_from_json
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.tables.counts import Histogram, Rows
from releases.engine.tables.possible import only_possible
from releases.engine.workload.parsing import read_question
from releases.engine.workload.questions import of_columns_asked
from tests.engine import telling
from tests.engine.telling import RELATIONS

#: Every mechanism that can make rows, also one that joins later.
MAKERS = [name for name, each in mechanisms().items() if ROWS in each.options]
BUDGETS = [PureDP(epsilon=Fraction(2)), ApproxDP(epsilon=Fraction(2), delta=Fraction(1, 10**6))]
COLUMNS = [
    {"name": "age", "type": "integer", "edges": [0, 15, 30, 60]},
    {"name": "status", "type": "categorical", "categories": ["single", "married", "widowed"]},
    {"name": "child", "type": "categorical", "categories": ["no", "yes"]},
    {"name": "work", "type": "categorical", "categories": ["none", "some"]},
]
#: Together: below 15 nobody is anything but single, without children and work; a widowed person above has work.
IMPOSSIBLE = [
    {"age": ["0 to 14"], "status": ["married", "widowed"]},
    {"age": ["0 to 14"], "child": ["yes"]},
    {"age": ["0 to 14"], "work": ["some"]},
    {"status": ["widowed"], "child": ["no"], "work": ["none"]},
]
#: Tables that hold all columns of a combination, and tables that hold none.
ASKED = {
    "together": [{"marginal": ["age", "status", "child"]}, {"marginal": ["child", "work"]}, {"prefix": "age"}],
    "apart": [{"marginal": ["age", "work"]}, {"marginal": ["status", "child"]}],
    "alone": [{"prefix": "age"}, {"marginal": ["status"]}, {"marginal": ["child"]}, {"marginal": ["work"]}],
}


def cannot_be(age, status, child, work):
    """In words of its own, by values."""
    young = age < 15
    return (young and (status > 0 or child == 1 or work == 1)) or (status == 2 and child == 0 and work == 0)


def schema_of(neighbours="add_remove", impossible=IMPOSSIBLE, columns=COLUMNS, **more):
    return telling.schema_of(columns, neighbours, impossible=impossible, **more)


def planned(name, schema, asked, budget, **options):
    return telling.planned(name, schema, asked, budget=budget, **options)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("name", MAKERS)
def test_no_mechanism_makes_a_row_that_cannot_be(name, asked):
    """The table is full of such rows, and there are many more synthetic rows than cells."""
    made_rows = 0
    for neighbours, budget in product(RELATIONS, BUDGETS):
        plan = planned(name, schema_of(neighbours), ASKED[asked], budget, rows=3000)
        if plan.infeasible or not plan.makes_synthetic_rows:
            continue
        counts = Histogram(universe=plan.schema.universe, counts=np.full((3, 3, 2, 2), 40, dtype=np.int64))
        made = run_release(plan, counts, rng=StreamRandomness(f"{name} {asked} {neighbours}".encode()))
        columns = [made.records.columns[each].tolist() for each in ("age", "status", "child", "work")]
        assert not any(cannot_be(*row) for row in zip(*columns, strict=True))
        assert made.records.rows == 3000
        made_rows += 1
    assert made_rows or asked != "together"


@pytest.mark.parametrize("name", MAKERS)
def test_without_the_combinations_every_mechanism_makes_such_rows_of_the_same_table(name):
    """Else the test above would see nothing."""
    plan = planned(name, schema_of(impossible=[]), ASKED["together"], BUDGETS[1], rows=3000)
    counts = Histogram(universe=plan.schema.universe, counts=np.full((3, 3, 2, 2), 40, dtype=np.int64))
    made = run_release(plan, counts, rng=StreamRandomness(b"without"))
    columns = [made.records.columns[each].tolist() for each in ("age", "status", "child", "work")]
    assert sum(cannot_be(*row) for row in zip(*columns, strict=True)) > 100


@pytest.mark.parametrize("name", list(mechanisms()))
def test_plain_questions_keep_rows_that_cannot_be_and_fits_leave_them_out(name):
    """A fit says so in its schema, its number of rows is private then, and a stored plan comes out the same."""
    described = mechanism(name)
    if described.answers:
        return
    # No other rule leaves a row out.
    columns = telling.categories([2, 3], outside="v0")
    schema = schema_of("replace", [{"c0": ["v0"], "c1": ["v1", "v2"]}], columns)
    plan = planned(name, schema, [{"marginal": ["c0", "c1"]}, {"marginal": ["c0"]}], BUDGETS[1])
    drops = plan.schema.universe.drops_impossible
    assert drops is described.drops_impossible
    assert plan.schema.total_is_public is not drops
    assert plan.schema.to_json().get("impossible_rows") == ("drop" if drops else None)
    assert plan_from_json(plan.to_json()) == plan
    held = Histogram(universe=plan.schema.universe, counts=np.ones((2, 3), dtype=np.int64))
    assert held.counts.tolist() == ([[1, 0, 0], [1, 1, 1]] if drops else [[1, 1, 1], [1, 1, 1]])
    assert plan.public_rows(held) == (None if drops else 6)


def test_the_mechanisms_that_leave_rows_out_are_those_that_the_format_names():
    named = {name for name, each in mechanisms().items() if each.drops_impossible}
    assert named == {
        *("laplace-histogram", "gaussian-histogram", "marginal-fit", "mixture-fit"),
        *("pmw", "pmw-online", "noise-online", "histogram-online", "listed-online", "fitted-online"),
        *("smalldb", "smalldb-net"),
    }


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", sorted(name for name in MAKERS if mechanism(name).drops_impossible))
def test_leaving_rows_out_moves_no_answer_further_than_the_noise_is_made_for(name, neighbours):
    """All neighbours of small tables, dropped row by row from lists of rows."""
    columns = [{"name": n, "type": "categorical", "categories": ["0", "1"]} for n in "ab"]
    asked = [{"marginal": ["a", "b"]}, {"marginal": ["a"]}]
    schema = schema_of(neighbours, [{"a": ["0"], "b": ["1"]}], columns)
    plan = planned(name, schema, asked, BUDGETS[1])
    universe = plan.schema.universe

    def answers(rows):
        values = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        counts = Rows(universe=universe, columns=dict(zip("ab", values, strict=True)))
        held = counts.marginals([("a", "b"), ("a",)])
        return np.concatenate([each.reshape(-1) for each in held])

    allowed = plan.counts_asked.sensitivity(plan.schema)
    seen = set()
    cells = list(product((0, 1), (0, 1)))
    for one, other in telling.all_neighbours(cells, most_rows=3, neighbours=neighbours):
        moved = np.abs(answers(one) - answers(other))
        assert moved.sum() <= allowed.l1
        assert (moved**2).sum() <= allowed.l2_squared
        seen.add(int(moved.sum()))
    assert max(seen) == allowed.l1
    # A row that changes into one that is left out is a row less.
    assert answers([(0, 0)]).sum() - answers([(0, 1)]).sum() == 2


CATEGORIES = st.lists(st.integers(2, 4), min_size=2, max_size=4)


@st.composite
def declarations(draw, most=6):
    """Columns, and combinations of them, by the numbers of bins; possibly all that there is."""
    sizes = draw(CATEGORIES)
    rules = []
    for _ in range(draw(st.integers(1, most))):
        axes = draw(st.lists(st.integers(0, len(sizes) - 1), min_size=2, max_size=3, unique=True))
        rules.append({a: draw(st.sets(st.integers(0, sizes[a] - 1), min_size=1, max_size=sizes[a] - 1)) for a in axes})
    return sizes, rules


def breaks(rules, cell):
    return any(all(cell[axis] in bins for axis, bins in rule.items()) for rule in rules)


def universe_of(sizes, rules):
    """None where nothing is left possible."""
    listed = [{f"c{a}": [f"v{b}" for b in sorted(bins)] for a, bins in rule.items()} for rule in rules]
    once = [each for place, each in enumerate(listed) if each not in listed[:place]]
    try:
        return schema_of(impossible=once, columns=telling.categories(sizes)).universe
    except InvalidInput as error:
        refused = error.rule
    assert refused == "must leave some combination of bins possible"
    return None


@given(declarations(most=12))
def test_a_declaration_is_taken_where_some_cell_is_left_and_that_cell_can_be_named(declared):
    sizes, rules = declared
    left = [cell for cell in product(*map(range, sizes)) if not breaks(rules, cell)]
    universe = universe_of(sizes, rules)
    assert (universe is not None) is bool(left)
    if universe is not None:
        found = possible_row(universe.impossible, universe.attributes)
        assert any(all(cell[int(name[1:])] == place for name, place in found.items()) for cell in left)


@given(declarations(), st.integers(0, 2**32 - 1))
def test_possible_cells_keep_their_ratios_and_the_others_get_nothing(declared, seed):
    sizes, rules = declared
    if (universe := universe_of(sizes, rules)) is None:
        return
    weights = np.random.default_rng(seed).random(sizes) + 0.1
    kept = only_possible(universe, weights)
    for cell in np.ndindex(*sizes):
        assert kept[cell] == (0 if breaks(rules, cell) else weights[cell])


def distributions(sizes, seed):
    """One of every kind over columns of these sizes, and its joint probabilities."""
    rng = np.random.default_rng(seed)
    names = tuple(f"c{i}" for i in range(len(sizes)))
    dense = rng.dirichlet(np.full(int(np.prod(sizes)), 0.5)).reshape(sizes)
    yield Distribution(components=(Component(names=names, weights=dense),)), dense
    alone = [rng.dirichlet(np.ones(size)) for size in sizes]
    apart = tuple(Component(names=(name,), weights=each) for name, each in zip(names, alone, strict=True))
    yield Distribution(components=apart), _outer(alone)
    shares = rng.dirichlet(np.ones(3))
    conditionals = [rng.dirichlet(np.ones(size), 3).T for size in sizes]
    mixture = Mixture(
        shape=tuple(sizes), shares=shares.astype(np.float32), stacked=np.concatenate(conditionals).astype(np.float32)
    )
    joint = sum(shares[k] * _outer([each[:, k] for each in conditionals]) for k in range(3))
    yield Distribution(components=(MixtureComponent(names=names, mixture=mixture),)), joint
    # A chain: the first column, and of each later one the law given the one before.
    cliques = junction_tree(tuple(sizes), tuple(pairwise(range(len(sizes)))), 10_000)
    links = [rng.dirichlet(np.ones(size), before) for before, size in pairwise(sizes)]
    chain = np.zeros(sizes)
    for cell in np.ndindex(*sizes):
        chain[cell] = alone[0][cell[0]] * np.prod([links[i][cell[i], cell[i + 1]] for i in range(len(links))])
    tables = tuple(
        chain.sum(axis=tuple(axis for axis in range(len(sizes)) if axis not in each.axes)) for each in cliques
    )
    yield Distribution(components=(TreeComponent(names=names, cliques=cliques, tables=tables),)), chain


def _outer(tables):
    joint = np.ones(())
    for each in tables:
        joint = np.multiply.outer(joint, each)
    return joint


@settings(max_examples=60)
@given(declarations(), st.integers(0, 2**32 - 1))
def test_rows_of_every_kind_of_distribution_have_none(declared, seed):
    sizes, rules = declared
    if (universe := universe_of(sizes, rules)) is None:
        return
    for distribution, _ in distributions(sizes, seed):
        records = synthetic_records(universe, distribution, rows=80, rng=StreamRandomness(str(seed).encode()))
        rows = list(zip(*(records.columns[name].tolist() for name in universe.names), strict=True))
        assert len(rows) == 80
        assert not any(breaks(rules, row) for row in rows)


@settings(max_examples=25)
@given(CATEGORIES, st.integers(0, 2**32 - 1))
def test_the_law_of_one_value_given_the_others_is_that_of_the_joint_distribution(sizes, seed):
    rows = np.array(list(np.ndindex(*sizes)))
    bins = {f"c{i}": rows[:, i] for i in range(len(sizes))}
    for distribution, joint in distributions(sizes, seed):
        for axis, name in enumerate(bins):
            home = next(each for each in distribution.components if name in each.names)
            law = possible_rows._given_others(home, name, bins, np.arange(len(rows)))
            for row, found in zip(rows, law, strict=True):
                line = joint[tuple(slice(None) if i == axis else value for i, value in enumerate(row))]
                np.testing.assert_allclose(found, line / line.sum(), rtol=1e-4, atol=1e-6)


def test_one_value_of_a_row_that_cannot_be_is_changed_by_the_law_of_that_value(monkeypatch):
    """Without the second step: 40,000 rows of one cell, whose only ways out have known odds; chi-squared of 2 degrees
    of freedom is above 27.7 by chance once in a million, and odds that leave the law out are far above."""
    monkeypatch.setattr(possible_rows, "compiled_kernels", lambda: None)
    columns = telling.categories([2, 3])
    universe = schema_of(impossible=[{"c0": ["v0"], "c1": ["v0"]}], columns=columns).universe
    weights = np.array([[0.2, 0.3, 0.1], [0.15, 0.2, 0.05]])
    bins = {"c0": np.zeros(40_000, dtype=np.int64), "c1": np.zeros(40_000, dtype=np.int64)}
    distribution = Distribution(components=(Component(names=("c0", "c1"), weights=weights),))
    possible_rows.mend(universe, distribution, bins, StreamRandomness(b"odds"))
    ways = np.array([0.15 / 0.35, 0.3 / 0.6, 0.1 / 0.6])
    seen = np.array([np.sum((bins["c0"] == a) & (bins["c1"] == b)) for a, b in ((1, 0), (0, 1), (0, 2))])
    assert seen.sum() == 40_000

    def distance(odds):
        expected = 40_000 * odds / odds.sum()
        return ((seen - expected) ** 2 / expected).sum()

    assert distance(ways) < 27.7
    assert distance(np.ones(3)) > 1000


AGE = "0 to 14"
REFUSED = [
    ("x", "impossible", "x", "must be a list"),
    ([{"age": [AGE]}], "impossible[0]", "1 columns", "must name 2 to 10 columns"),
    ([["age"]], "impossible[0]", ["age"], "must be an object from columns to lists of their bins"),
    ([{"age": [AGE], "town": ["a"]}], "impossible[0].town", "town", "is not a declared column"),
    ([{"age": [AGE], "status": "married"}], "impossible[0].status", "married", "must be a list with at least one bin"),
    ([{"age": [AGE], "status": []}], "impossible[0].status", [], "must be a list with at least one bin"),
    (
        [{"age": ["0 to 15"], "status": ["married"]}],
        *("impossible[0].age", "0 to 15", "is no bin of age; these are: 0 to 14, 15 to 29, 30 to 60"),
    ),
    ([{"age": [AGE, AGE], "child": ["no"]}], "impossible[0].age", AGE, "is named twice"),
    (
        [{"age": [AGE], "child": ["no", "yes"]}],
        *("impossible[0].child", "all 2 bins", "must leave at least one bin of the column out"),
    ),
    (
        [{"age": [AGE], "child": ["no"]}, {"child": ["no"], "age": [AGE]}],
        *("impossible[1]", "age: 0 to 14, and child: no", "is declared twice, first as impossible[0]"),
    ),
    ([{"age": [AGE], "child": ["no"]}] * 101, "impossible", "101 combinations", "must be at most 100"),
    (
        [{"child": [a], "work": [b]} for a in ("no", "yes") for b in ("none", "some")],
        *("impossible", "4 combinations together", "must leave some combination of bins possible"),
    ),
]


@pytest.mark.parametrize(("said", "field", "value", "rule"), REFUSED, ids=[f"{each[1]} {each[3]}" for each in REFUSED])
def test_what_is_no_combination_is_refused_with_field_value_and_rule(said, field, value, rule):
    with pytest.raises(InvalidInput) as refused:
        schema_of(impossible=said)
    assert (refused.value.field, refused.value.value, refused.value.rule) == (field, value, rule)


def test_columns_of_rows_and_of_persons_are_not_combined_nor_said_otherwise_to_be_dropped():
    made = {"name": "visits", "type": "integer", "edges": [1, 2, 9], "formula": "count_per_person()"}
    with pytest.raises(InvalidInput, match="must be columns of rows alone, or of persons alone"):
        schema_of(impossible=[{"visits": ["1"], "child": ["no"]}], columns=[*COLUMNS, made])
    with pytest.raises(InvalidInput, match="impossible_rows"):
        schema_of(impossible_rows="keep")


def test_a_combination_too_entangled_to_be_judged_is_refused():
    """Every two of ten columns of nine bins differ: nothing is left, which no search in reach shows."""
    labels = tuple(f"v{each}" for each in range(9))
    attributes = [Attribute(name=f"c{each}", kind=AttributeKind.CATEGORICAL, categories=labels) for each in range(10)]
    rules = [
        Combination(bins=((one.name, (label,)), (other.name, (label,))))
        for place, one in enumerate(attributes)
        for other in attributes[:place]
        for label in labels
    ]
    with pytest.raises(InvalidInput, match="takes too long to see"):
        possible_row(rules, attributes)


def test_combinations_of_a_thousand_columns_leave_a_row():
    columns = telling.categories([2] * 1000)
    tens = [columns[start : start + 10] for start in range(0, 500, 10)]
    listed = [{each["name"]: [label] for each in ten} for ten in tens for label in ("v0", "v1")]
    universe = schema_of(impossible=listed, columns=columns).universe
    row = possible_row(universe.impossible, universe.attributes)
    assert all({row[each["name"]] for each in ten} == {0, 1} for ten in tens)


@pytest.mark.parametrize("name", ["laplace-queries", "laplace-histogram", "marginal-fit", "laplace-numbers"])
@pytest.mark.parametrize(
    "listed",
    [
        pytest.param([{"age": ["0 to 14", "15 to 29", "30 to 60"], "child": ["yes"]}], id="any age"),
        pytest.param([{"age": ["0 to 14", *more], "child": ["yes"]} for more in ([], ["no number"])], id="alike"),
    ],
)
def test_a_plan_that_leaves_out_rows_without_a_number_is_read_back_with_the_same_combinations(name, listed):
    columns = [{**COLUMNS[0], "missing_as": "no number"}, COLUMNS[2]]
    asked = [{"mean": {"columns": ["age"], "by": ["child"]}}]
    if name != "laplace-numbers":
        asked = [{"prefix": "age"}, {"marginal": ["age", "child"]}]
    declared = schema_of(impossible=listed, columns=columns)
    about, question = of_columns_asked(declared, read_question({"version": 1, "queries": asked}, declared.universe))
    plan = mechanism(name).plan(about, question, budget=BUDGETS[0], beta=Fraction(1, 20))
    assert [dict(each.bins)["child"] for each in plan.schema.universe.impossible] == [("yes",)]
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan
    if plan.makes_synthetic_rows:
        counts = Histogram(universe=plan.schema.universe, counts=np.full((3, 2), 40, dtype=np.int64))
        made = run_release(plan, counts, rng=StreamRandomness(b"any")).records.columns
        ages = set(np.asarray(made["age"])[np.asarray(made["child"]) == "yes"].tolist())
        assert not [age for age in ages if age < 15 or len(listed) == 1]


def test_a_schema_without_them_is_written_as_it_always_was_and_one_with_them_is_read_back():
    assert set(schema_of(impossible=[]).to_json()) == {"version", "unit", "neighbours", "columns"}
    schema = schema_of()
    assert Schema.from_json(schema.to_json()) == schema
    # As a database that keeps objects in an order of its own gives it back.
    turned = [dict(reversed(each.items())) for each in IMPOSSIBLE]
    assert schema_of(impossible=turned) == schema


def test_a_combination_is_about_all_its_columns_and_about_bins_that_are_there():
    columns = [{**COLUMNS[0], "missing_as": "no number"}, *COLUMNS[1:]]
    listed = [{"age": ["no number"], "child": ["yes"]}, {"age": [AGE, "no number"], "work": ["some"]}]
    universe = schema_of(impossible=listed, columns=columns).universe
    assert universe.project(["work", "child"]).impossible == ()
    (kept,) = universe.project(["work", "age"]).impossible
    assert kept.names == ("work", "age")
    (left,) = universe.ordered(["age"]).impossible
    assert left.to_json() == {"age": [AGE], "work": ["some"]}
