"""Which tables count the same rows, and that numbers of different populations are not combined."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from releases.engine.domain.counted import Counted
from releases.engine.domain.population import one_population
from releases.engine.domain.privacy import privacy_budget
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.estimation.fit import NoisyMarginal, fit_cliques, fit_marginals, measured_rows
from releases.engine.estimation.junction import junction_tree
from releases.engine.estimation.mixture_fit import fit_mixture
from releases.engine.mechanisms.base import mechanism
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.workload.queries import Workload

DROPS = {"name": "sex", "type": "categorical", "categories": ["f", "m"]}
KEEPS = {"name": "town", "type": "categorical", "categories": ["a", "b"], "outside": "b"}
AGE = {"name": "age", "type": "integer", "edges": [0, 10, 20], "missing_as": "no number"}
ROWS = {"kind": "row"}
PERSON = {"kind": "person", "id": "who", "max_rows": 2}
NUMBER = {"name": "visits", "type": "integer", "edges": [0, 5, 50], "formula": "count_per_person()"}
SOME = {
    "name": "some",
    "type": "categorical",
    "categories": ["true", "false"],
    "outside": "false",
    "formula": 'any_per_person(town = "a")',
}
IMPOSSIBLE = {"impossible": [{"age": ["0 to 9"], "town": ["a"]}]}


def population(*columns, unit=ROWS, neighbours="add_remove", **more):
    declared = {"version": 1, "columns": list(columns), "unit": unit, "neighbours": neighbours}
    return Schema.from_json(declared | more).population


@pytest.mark.parametrize(
    ("one", "other", "are_the_same"),
    [
        (population(DROPS, KEEPS), population(KEEPS, DROPS), True),
        (population(DROPS), population(DROPS, KEEPS, AGE), True),
        (population(KEEPS), population(KEEPS, DROPS), False),
        (population(DROPS), population({**DROPS, "categories": ["f"]}), False),
        (population(DROPS), population(DROPS, neighbours="replace"), False),
        (population(KEEPS), population(KEEPS, unit=PERSON), False),
        # Which of a person's rows are kept is decided by all columns.
        (population(KEEPS, unit=PERSON), population(KEEPS, AGE, unit=PERSON), False),
        (population(KEEPS, AGE, unit=PERSON), population(AGE, KEEPS, unit=PERSON), True),
        (population(KEEPS, unit=PERSON), population(KEEPS, unit={**PERSON, "max_rows": 3}), False),
        # All rows of a person make what is counted here.
        (population(SOME, unit=PERSON), population(SOME, {**SOME, "name": "too"}, unit=PERSON), True),
        (population(SOME, unit=PERSON), population(SOME, NUMBER, unit=PERSON), False),
        (population(SOME, unit=PERSON), population(KEEPS, unit=PERSON), False),
        (population(AGE, KEEPS), population(AGE, KEEPS, **IMPOSSIBLE), True),
        (population(AGE, KEEPS), population(AGE, KEEPS, **IMPOSSIBLE, impossible_rows="drop"), False),
    ],
)
def test_two_populations_are_the_same_where_the_same_rows_count_and_the_same_is_hidden(one, other, are_the_same):
    assert (one == other) is are_the_same
    if are_the_same:
        assert one_population([one, other, one]) == one
    else:
        with pytest.raises(InvalidInput, match="2 populations"):
            one_population([one, other, one])


def test_a_population_says_what_is_counted_and_whether_its_number_is_public():
    assert population(KEEPS, neighbours="replace").total_is_public
    assert not population(KEEPS).total_is_public
    assert not population(KEEPS, DROPS, neighbours="replace").total_is_public
    assert not population(KEEPS, neighbours="replace", unit=PERSON).total_is_public
    assert not population(AGE, KEEPS, neighbours="replace", **IMPOSSIBLE, impossible_rows="drop").total_is_public
    assert [population(each, unit=PERSON).counted for each in (KEEPS, SOME)] == [Counted.ROWS, Counted.PERSONS]


@pytest.mark.parametrize(
    "fit",
    [
        lambda measured: measured_rows(measured, None, None),
        lambda measured: measured_rows(measured, 90.0, None),
        lambda measured: fit_marginals((2, 2), measured),
        lambda measured: fit_cliques((2, 2), junction_tree((2, 2), ((0, 1),), 100), measured, total=90.0),
        lambda measured: fit_mixture(
            (2, 2), measured, rows=90.0, components=2, strength=0.1, steps=3, rate=0.1, rng=StreamRandomness(b"fit")
        ),
    ],
    ids=["rows", "public rows", "whole", "cliques", "mixture"],
)
def test_no_fit_takes_tables_of_two_populations(fit):
    # A mixture is fitted to each column by itself and to pairs.
    axes = [(0,), (1,), (0, 1)]
    measured = [
        NoisyMarginal(axes=each, table=np.full((2,) * len(each), 90 / 2 ** len(each)), variance=4.0, population=None)
        for each in axes
    ]
    first, second = population(KEEPS), population(KEEPS, DROPS)
    fit([replace(each, population=first) for each in measured])
    for mixed in ((first, second, first), (None, first, first), (second, second, first)):
        with pytest.raises(InvalidInput, match="population"):
            fit([replace(each, population=of) for each, of in zip(measured, mixed, strict=True)])


def test_no_plan_runs_on_counts_of_another_population():
    """With more rows a person than the noise is made for, one person would be seen."""
    declared = {"version": 1, "columns": [KEEPS], "unit": PERSON, "neighbours": "add_remove"}
    schema, more = (Schema.from_json(declared | {"unit": {**PERSON, "max_rows": most}}) for most in (1, 9))
    workload = Workload.from_json({"version": 1, "queries": [{"marginal": ["town"]}]}, schema.universe)
    plan = mechanism("laplace-queries").plan(
        schema, workload, budget=privacy_budget(epsilon="1"), beta=Fraction(1, 20), options={}
    )
    counts = Histogram(universe=schema.universe, counts=np.array([5, 6]))
    for population_of in (None, schema.population):
        plan.run(replace(counts, population=population_of), rng=StreamRandomness(b"run"))
    with pytest.raises(InvalidInput, match="another population"):
        plan.run(replace(counts, population=more.population), rng=StreamRandomness(b"run"))
