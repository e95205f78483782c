"""Levels of a column: no mechanism makes a row that contradicts them, and fits know what goes together."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.estimation.components import are_levels_joined
from releases.engine.estimation.fit import NoisyMarginal, fit_marginals
from releases.engine.estimation.junction import joined
from releases.engine.estimation.level_mixture import LevelMixture
from releases.engine.estimation.level_rows import Ways
from releases.engine.estimation.mixture import Mixture
from releases.engine.estimation.possible_rows import mend
from releases.engine.estimation.result import Component, Distribution
from releases.engine.estimation.synthetic import synthetic_records
from releases.engine.estimation.ways import WayAxes, WayTree
from releases.engine.mechanisms.base import LEVELS_NOTE, plan_from_json
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.tables.counts import Rows
from releases.engine.tables.possible import only_possible
from tests.engine.mechanisms.test_impossible import BUDGETS, MAKERS, distributions, planned

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


# Fits


def ways_of_towns():
    """The cells of town, district, region and work that a row can have, by looking each town up."""
    return [(work, DISTRICT_OF[town], town, REGION_OF[town]) for work in (0, 1) for town in range(6)]


@pytest.mark.parametrize("cliques", [(), ((0, 1), (1, 2))])
@pytest.mark.parametrize("seed", range(5))
def test_a_distribution_on_ways_is_the_one_of_all_cells_given_that_levels_hold(cliques, seed):
    """Its tables, and how they change along potentials, by enumeration."""
    universe = schema_of(more=[{"name": "age", "type": "categorical", "categories": ["a", "b", "c"]}]).universe
    sets = ((0,), (1,), (2,), (3,), (4,), (0, 1), (0, 3), (1, 3), (2, 3), (2, 4), (3, 4))
    axes = WayAxes.of(universe)
    assert axes.size == 2 * 6 * 3
    # Of the collapsed universe: work, age, and the towns.
    tree = WayTree(axes, sets, joined([(((0, 2), -1)), ((1, 2), 0)]) if cliques else ())
    rng = np.random.default_rng(seed)
    potentials, along = rng.normal(0, 1, (2, tree.cells))

    def by_enumeration(vector):
        weights = np.zeros(universe.shape)
        for *cell, age in ((*cell, age) for cell in ways_of_towns() for age in range(3)):
            place = (*cell, age)
            told = sum(
                table[tuple(place[axis] for axis in at)] for at, table in zip(sets, tree.tables(vector), strict=True)
            )
            weights[place] = np.exp(told)
        weights /= weights.sum()
        others = [tuple(axis for axis in range(5) if axis not in at) for at in sets]
        return weights, np.concatenate([weights.sum(axis=each).reshape(-1) for each in others])

    weights, tables = by_enumeration(potentials)
    gibbs = tree.gibbs(potentials)
    np.testing.assert_allclose(gibbs.marginals, tables, atol=1e-12)
    later, before = (by_enumeration(potentials + step * along)[1] for step in (1e-5, -1e-5))
    np.testing.assert_allclose(gibbs.covariance(along), (later - before) / 2e-5, atol=1e-9)
    if cliques:
        first, second = tree.densities(potentials)
        np.testing.assert_allclose(first, weights.sum(axis=4), atol=1e-12)
        np.testing.assert_allclose(second, weights.sum(axis=0), atol=1e-12)
    else:
        np.testing.assert_allclose(tree.density(potentials), weights, atol=1e-12)


@pytest.mark.parametrize("variances", [(400.0, 1.0), (1.0, 400.0), (25.0, 25.0)])
@pytest.mark.parametrize("seed", range(4))
def test_tables_of_a_column_and_of_its_level_weigh_by_their_noise(seed, variances):
    """Of many rows a fit is the generalised least squares of all tables, here by a dense solution; one that weighs both
    alike is far from it."""
    universe = schema_of().universe.project(["town", "region"])
    rng = np.random.default_rng(seed)
    up = np.zeros((2, 6))
    up[REGION_OF, np.arange(6)] = 1
    towns = rng.integers(20_000, 40_000, 6)
    noisy = [towns + rng.normal(0, 1, 6), up @ towns + np.array([60, -60]) + rng.normal(0, 1, 2)]
    measured = [
        NoisyMarginal(axes=(axis,), table=table, variance=v, population=None)
        for axis, table, v in zip((0, 1), noisy, variances, strict=True)
    ]
    rows = float(towns.sum())

    def best(towns_off, regions_off):
        """With the number of rows as given."""
        lines = np.concatenate([np.eye(6) / towns_off, up / regions_off])
        said = np.concatenate([noisy[0] / towns_off, noisy[1] / regions_off])
        left = np.full(6, rows / 6)
        apart = np.linalg.svd(np.ones((1, 6)))[2][1:].T
        return left + apart @ np.linalg.lstsq(lines @ apart, said - lines @ left, rcond=None)[0]

    fitted = fit_marginals(universe.shape, measured, total=rows, ways=WayAxes.of(universe)).weights
    assert (fitted[np.arange(6), REGION_OF].sum()) == pytest.approx(rows)
    found = fitted.sum(axis=1)
    np.testing.assert_allclose(found, best(*np.sqrt(variances)), atol=0.5)
    if variances[0] != variances[1]:
        assert np.abs(best(1.0, 1.0) - best(*np.sqrt(variances))).max() > 1


def up_from_towns(universe, name):
    numbers = {"district": DISTRICT_OF, "region": REGION_OF}[name]
    up = np.zeros((universe[name].size, 6))
    up[numbers, np.arange(6)] = 1
    return up


@pytest.mark.parametrize("held", ["whole", "in cliques"])
@pytest.mark.parametrize("asked", ["crossed", "apart", "far"])
@pytest.mark.parametrize("name", ["marginal-fit", "pmw", "mixture-fit"])
def test_tables_over_levels_that_a_fit_answers_add_up(name, asked, held, monkeypatch):
    """Also of questions that nothing else connects, and where no table of all columns is held."""
    if held == "in cliques":
        monkeypatch.setattr("releases.engine.estimation.components.MAX_JOINED_CELLS", 0)
        if name == "marginal-fit":
            monkeypatch.setattr("releases.engine.estimation.components.MAX_DENSE_CELLS", 8)
    far = [{"marginal": ["town", "age"]}, {"marginal": ["district", "work"]}, {"marginal": ["region"]}]
    more = [{"name": "age", "type": "categorical", "categories": ["a", "b"]}]
    question = far if asked == "far" else ASKED[asked]
    names = {each for one in question for each in one["marginal"]}
    schema = schema_of(more=more)
    schema = schema.project([each for each in schema.universe.names if each in names])
    plan = planned(name, schema, question, PureDP(epsilon=Fraction(1, 2)), rows=50)
    assert not plan.infeasible
    if name != "mixture-fit":
        assert are_levels_joined(plan.schema.universe, plan.fitted_parts)
    rows = np.arange(300)
    columns = table_of(schema_of().universe, 300).columns | {"age": rows % 5 % 2}
    table = Rows(universe=schema.universe, columns={each: columns[each] for each in schema.universe.names})
    for seed in range(4):
        result = plan.run(table, rng=StreamRandomness(f"levels {seed}".encode()))
        assert result.notes[LEVELS_NOTE] == "add up to one another, except for rounding"
        marginal = result.distribution.marginal
        towns = marginal(("town",))
        for level in ("district", "region"):
            np.testing.assert_allclose(up_from_towns(schema.universe, level) @ towns, marginal((level,)), atol=1e-6)
        found = dict(zip((family.attributes for family in plan.counts_asked.families), result.estimates, strict=True))
        rounded = sum(table.size for table in found.values()) / 2
        sums = {
            each: np.moveaxis(table.reshape([schema.universe[one].size for one in names]), names.index(each), 0)
            .reshape(schema.universe[each].size, -1)
            .sum(axis=1)
            for names, table in found.items()
            for each in names
            if each in ("town", "district", "region")
        }
        # Each answer is rounded by half a row.
        for level in ("district", "region"):
            assert np.abs(up_from_towns(schema.universe, level) @ sums["town"] - sums[level]).max() <= rounded


@pytest.mark.parametrize("seed", range(6))
def test_a_mixture_over_levels_weighs_both_laws_by_their_noise_and_adds_up_in_every_table(seed):
    """Two regions, three districts and six towns; tables by enumeration of components and towns."""
    universe = schema_of().universe
    rng = np.random.default_rng(seed)
    shares, laws = rng.dirichlet(np.ones(3)), [rng.dirichlet(np.ones(size), 3).T for size in universe.shape]
    laws[universe.axis("town")][4:] = 0.0
    laws[universe.axis("town")] /= laws[universe.axis("town")].sum(axis=0)
    stacked = np.concatenate(laws).astype(np.float32)
    mixture = Mixture(shape=universe.shape, shares=shares.astype(np.float32), stacked=stacked)

    def noisy(name, variance):
        axis = universe.axis(name)
        return NoisyMarginal(axes=(axis,), table=np.zeros(universe.shape[axis]), variance=variance, population=None)

    precise = [noisy("town", 1.0), noisy("district", 1.0), noisy("region", 1e-6)]
    made = LevelMixture.of(universe, mixture, [*precise, noisy("work", 1.0)])
    assert made.holds(universe)
    town, region = (mixture.marginal((universe.axis(each),)) for each in ("town", "region"))
    # The region is known best, also where the towns have nothing of it.
    np.testing.assert_allclose(made.marginal((universe.axis("region"),)), region, atol=1e-4)
    coarse = [noisy("town", 1e-6), noisy("district", 1.0), noisy("region", 1.0), noisy("work", 1.0)]
    kept = LevelMixture.of(universe, mixture, coarse).marginal((universe.axis("town"),))
    np.testing.assert_allclose(kept, town, atol=1e-4)
    # One number of variance 2 from a district of two towns, beside one of variance 1: a third and two thirds.
    alone = universe.project(["district", "town", "work"])
    parts = Mixture(
        shape=alone.shape,
        shares=mixture.shares,
        stacked=np.concatenate([laws[1], laws[2], laws[0]]).astype(np.float32),
    )
    alike = [
        NoisyMarginal(axes=(axis,), table=np.zeros(size), variance=1.0, population=None)
        for axis, size in enumerate(alone.shape)
    ]
    up = up_from_towns(universe, "district")
    wanted = (up @ parts.marginal((1,)) + 2 * parts.marginal((0,))) / 3
    np.testing.assert_allclose(LevelMixture.of(alone, parts, alike).marginal((0,)), wanted, atol=1e-5)
    # Every table is the one of towns and work, by looking each town up.
    base = made.marginal((universe.axis("town"), universe.axis("work")))
    whole = np.zeros(universe.shape)
    for work, district, at, of in ways_of_towns():
        whole[work, district, at, of] = base[at, work]
    for many in range(1, 5):
        for axes in permutations(range(4), many):
            others = tuple(axis for axis in range(4) if axis not in axes)
            left = whole.sum(axis=others)
            kept = [axis for axis in range(4) if axis in axes]
            np.testing.assert_allclose(made.marginal(axes), left.transpose([kept.index(a) for a in axes]), atol=1e-6)


def test_a_hierarchy_without_a_finest_column_is_left_as_it_was_fitted_and_that_is_said():
    full = schema_of(more=[of_level("kind", [0, 0, 0, 1, 1, 1])]).project(["district", "kind"])
    plan = planned("mixture-fit", full, [{"marginal": ["district"]}, {"marginal": ["kind"]}], BUDGETS[0], rows=10)
    town = np.arange(60) % 6
    columns = {"district": np.array(DISTRICT_OF)[town], "kind": town // 3}
    result = plan.run(Rows(universe=full.universe, columns=columns), rng=StreamRandomness(b"none"))
    assert result.notes[LEVELS_NOTE] == "can differ"


@pytest.mark.parametrize("name", ["laplace-queries", "laplace-histogram", "marginal-fit"])
def test_tables_over_the_first_characters_of_a_column_add_up_to_those_over_it(name):
    """Two regions of postcodes; the last column says which half of the first region it is."""
    postcodes = ["1010", "1080", "8010", "8020"]
    columns = [
        {"name": "postcode", "type": "categorical", "categories": postcodes},
        {"name": "region", "type": "categorical", "categories": ["1", "8"], "formula": "prefix(postcode, 1)"},
    ]
    schema = Schema.from_json({"version": 1, "columns": columns})
    (found,) = schema.universe.hierarchies
    assert found.levels == (("postcode", "region"),)
    assert found.map_between("postcode", "region") == (0, 0, 1, 1)
    asked, chosen = [{"marginal": ["region"]}, {"marginal": ["postcode"]}], {}
    if name == "laplace-queries":
        chosen["agree"] = "yes"
    plan = planned(name, schema, asked, BUDGETS[1 if name == "marginal-fit" else 0], **chosen)
    assert not plan.infeasible
    places = np.arange(4000) % 3
    rows = {"postcode": places, "region": np.array([0, 0, 1, 1])[places]}
    counts = Rows(universe=schema.universe, columns=rows)
    result = run_release(plan, counts, rng=StreamRandomness(b"prefix"))
    by_region, by_postcode = result.result.estimates
    assert by_postcode.reshape(2, 2).sum(axis=1) == pytest.approx(by_region, abs=1e-6)
