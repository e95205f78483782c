"""Levels of a column: no mechanism makes a row that contradicts them, and fits know what goes together."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.estimation.level_rows import Ways
from releases.engine.estimation.possible_rows import mend
from releases.engine.estimation.result import Component, Distribution
from releases.engine.estimation.synthetic import synthetic_records
from releases.engine.mechanisms.base import ROWS, mechanism, mechanisms, plan_from_json
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.tables.counts import Rows
from releases.engine.tables.possible import only_possible
from releases.engine.workload.parsing import read_question
from tests.engine.mechanisms.test_impossible import distributions

MAKERS = [name for name, each in mechanisms().items() if ROWS in each.options]
BUDGETS = [PureDP(epsilon=Fraction(2)), ApproxDP(epsilon=Fraction(2), delta=Fraction(1, 10**6))]
#: Six towns in three districts in two regions; the last district is all of its region.
DISTRICT_OF, REGION_OF = [0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1]
ASKED = {
    "together": [{"marginal": ["town", "district", "region"]}, {"marginal": ["region", "work"]}],
    "crossed": [{"marginal": ["town", "work"]}, {"marginal": ["district", "work"]}, {"marginal": ["region"]}],
    "few": [{"marginal": ["town", "region"]}],
    "apart": [{"marginal": ["region"]}, {"marginal": ["town"]}, {"marginal": ["district", "work"]}],
}


def looked_up(prefix, numbers):
    table = ", ".join(f'"t{town}": "{prefix}{number}"' for town, number in enumerate(numbers))
    return f'recode(town, {{{table}}}, "other")'


def of_level(name, numbers):
    categories = [f"{name[0]}{number}" for number in range(max(numbers) + 1)]
    return {"name": name, "type": "categorical", "categories": categories, "formula": looked_up(name[0], numbers)}


def schema_of(neighbours="add_remove", towns=6, more=(), **said):
    columns = [
        {"name": "work", "type": "categorical", "categories": ["none", "some"]},
        of_level("district", DISTRICT_OF),
        {"name": "town", "type": "categorical", "categories": [f"t{each}" for each in range(towns)]},
        of_level("region", REGION_OF),
        *more,
    ]
    return Schema.from_json({"version": 1, "columns": columns, "neighbours": neighbours, **said})


def planned(name, schema, asked, budget, **options):
    question = read_question({"version": 1, "queries": asked}, schema.universe)
    return mechanism(name).plan(schema, question, budget=budget, beta=Fraction(1, 20), options=options)


def table_of(universe, rows):
    town = np.arange(rows) % 6
    columns = {"town": town, "district": np.array(DISTRICT_OF)[town], "region": np.array(REGION_OF)[town]}
    columns["work"] = np.arange(rows) // 6 % 2
    return Rows(universe=universe, columns={name: columns[name] for name in universe.names})


def contradictions(columns):
    town, levels = columns["town"], {"district": DISTRICT_OF, "region": REGION_OF}
    return sum(int(np.sum(np.array(levels[name])[town] != columns[name])) for name in levels if name in columns)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("name", MAKERS)
def test_no_mechanism_makes_a_row_that_contradicts_its_levels(name, asked):
    """The table is even and the noise is large, so that rows by chance would contradict them everywhere."""
    made_rows = 0
    for neighbours in ("add_remove", "replace"):
        for budget in BUDGETS:
            plan = planned(name, schema_of(neighbours), ASKED[asked], budget, rows=2000)
            if plan.infeasible or not plan.makes_synthetic_rows:
                continue
            assert plan_from_json(plan.to_json()) == plan
            made = run_release(plan, table_of(plan.schema.universe, 60), rng=StreamRandomness(name.encode()))
            assert made.records.rows == 2000
            assert contradictions(made.records.columns) == 0
            made_rows += 1
    # Of the only mechanism that cannot plan so many kinds of cells, "few" is asked as well.
    assert made_rows or (name == "smalldb" and asked != "few")


def test_without_the_formulas_the_same_noise_gives_rows_that_contradict_them():
    """Else the test above would see nothing."""
    made = ("formula", "reads")
    columns = [{key: each[key] for key in each if key not in made} for each in schema_of().to_json()["columns"]]
    schema = Schema.from_json({"version": 1, "columns": columns})
    for name in ("laplace-histogram", "laplace-queries", "marginal-fit"):
        plan = planned(name, schema, ASKED["crossed"], BUDGETS[0], rows=2000)
        made = run_release(plan, table_of(plan.schema.universe, 60), rng=StreamRandomness(name.encode()))
        assert contradictions(made.records.columns) > 100


@st.composite
def hierarchies(draw):
    """A text's bins in two to four columns, in a schema; the bins of some categories may not occur."""
    towns = draw(st.integers(2, 6))
    columns = [{"name": "town", "type": "categorical", "categories": [f"t{each}" for each in range(towns)]}]
    for place in range(draw(st.integers(1, 3))):
        numbers = draw(st.lists(st.integers(0, 3), min_size=towns, max_size=towns))
        columns.append(of_level(f"{'abc'[place]}", numbers))
        columns[-1]["categories"] += draw(st.sampled_from([[], ["other"]]))
    columns.append({"name": "work", "type": "categorical", "categories": ["none", "some"]})
    return draw(st.permutations(columns))


def possible_cells(columns):
    """By looking each town up."""
    found = set()
    names = [each["name"] for each in columns]
    town = next(each for each in columns if each["name"] == "town")
    for place, text in enumerate(town["categories"]):
        bins = {"town": place}
        for each in columns:
            if "formula" in each:
                becomes = each["formula"].partition(f'"{text}": "')[2].partition('"')[0]
                bins[each["name"]] = each["categories"].index(becomes)
        found |= {tuple({**bins, "work": work}[name] for name in names) for work in (0, 1)}
    return found


@settings(max_examples=60)
@given(hierarchies(), st.integers(0, 2**32 - 1))
def test_rows_and_cells_of_every_kind_of_distribution_are_possible(columns, seed):
    universe = Schema.from_json({"version": 1, "columns": columns}).universe
    possible = possible_cells(columns)
    weights = np.random.default_rng(seed).random(universe.shape) + 0.1
    kept = only_possible(universe, weights)
    for cell in np.ndindex(*universe.shape):
        assert kept[cell] == (weights[cell] if cell in possible else 0)
    named = {f"c{place}": name for place, name in enumerate(universe.names)}
    for distribution, _ in distributions(universe.shape, seed):
        renamed = Distribution(components=tuple(_renamed(each, named) for each in distribution.components))
        records = synthetic_records(universe, renamed, rows=60, rng=StreamRandomness(str(seed).encode()))
        rows = list(zip(*(records.columns[name].tolist() for name in universe.names), strict=True))
        assert len(rows) == 60
        assert set(rows) <= possible


def _renamed(component, named):
    values = {each: getattr(component, each) for each in component.__dataclass_fields__ if each != "names"}
    return type(component)(names=tuple(named[name] for name in component.names), **values)


@settings(max_examples=40)
@given(hierarchies(), st.data(), st.integers(0, 2**32 - 1))
def test_rows_contradict_neither_levels_nor_what_is_declared_impossible(columns, data, seed):
    """Also where nearly nothing is left: a plan is refused where no row is, by a search over all cells."""
    names = [each["name"] for each in columns]
    listed = []
    for _ in range(data.draw(st.integers(1, 3))):
        chosen = data.draw(st.lists(st.sampled_from(columns), min_size=2, max_size=2, unique_by=lambda c: c["name"]))
        rule = {}
        for each in chosen:
            bins = each["categories"]
            if len(bins) > 1:
                named = data.draw(st.sets(st.sampled_from(bins), min_size=1, max_size=len(bins) - 1))
                rule[each["name"]] = sorted(named)
        if len(rule) == 2 and rule not in listed:
            listed.append(rule)
    said = {"version": 1, "columns": columns, "impossible": listed}
    try:
        schema = Schema.from_json(said)
    except InvalidInput:
        # Without levels nothing is left of the columns that are named, and nothing can be declared.
        with pytest.raises(InvalidInput, match="must leave some combination"):
            Schema.from_json(said)
        return
    universe = schema.universe
    labels = {each["name"]: each["categories"] for each in columns}

    def breaks(cell):
        bins = {name: labels[name][place] for name, place in zip(names, cell, strict=True)}
        return any(all(bins[name] in named for name, named in rule.items()) for rule in listed)

    left = {cell for cell in possible_cells(columns) if not breaks(cell)}
    found = universe.possible_row
    assert (found is not None) is bool(left)
    if found is None:
        return
    assert any(all(cell[names.index(name)] == place for name, place in found.items()) for cell in left)
    alone = np.random.default_rng(seed)
    apart = tuple(
        Component(names=(name,), weights=alone.dirichlet(np.ones(size)))
        for name, size in zip(universe.names, universe.shape, strict=True)
    )
    records = synthetic_records(universe, Distribution(components=apart), rows=60, rng=StreamRandomness(b"both"))
    assert set(zip(*(records.columns[name].tolist() for name in names), strict=True)) <= left


def test_the_coarsest_bin_of_a_row_is_kept_and_finer_ones_follow_the_law_within_it():
    """40,000 rows; chi-squared of 2 degrees of freedom is above 27.7 by chance once in a million."""
    universe = schema_of().universe.project(["town", "region"])
    weights = np.array([0.1, 0.2, 0.05, 0.15, 0.3, 0.2])
    apart = (Component(names=("town",), weights=weights), Component(names=("region",), weights=np.array([0.9, 0.1])))
    bins = {"town": np.repeat(np.arange(6), 40_000), "region": np.zeros(240_000, dtype=np.int64)}
    before = bins["town"].copy()
    mend(universe, Distribution(components=apart), bins, StreamRandomness(b"law"))
    assert (bins["region"] == 0).all()
    assert (bins["town"][before < 4] == before[before < 4]).all()
    seen = np.bincount(bins["town"][before == 5], minlength=6)
    expected = 40_000 * weights[:4] / weights[:4].sum()
    assert seen[4:].sum() == 0
    assert ((seen[:4] - expected) ** 2 / expected).sum() < 35
    assert ((seen[:4] - 10_000.0) ** 2 / 10_000).sum() > 1000


def test_a_level_of_thousands_of_bins_is_seen_and_kept_to():
    """Far more combinations than a person may declare impossible."""
    towns = 8000
    numbers = [each // 20 for each in range(towns)]
    columns = [
        {"name": "town", "type": "categorical", "categories": [f"t{each}" for each in range(towns)]},
        of_level("district", numbers),
    ]
    universe = Schema.from_json({"version": 1, "columns": columns}).universe
    (found,) = universe.hierarchies
    assert found.levels == (("town", "district"),)
    assert len(found.ways) == towns
    sizes = {"town": 8000, "district": 400}
    apart = tuple(Component(names=(name,), weights=np.full(size, 1 / size)) for name, size in sizes.items())
    records = synthetic_records(universe, Distribution(components=apart), rows=5000, rng=StreamRandomness(b"many"))
    assert (records.columns["town"] // 20 == records.columns["district"]).all()
    assert (Ways.of(found).places(records.columns) >= 0).all()
