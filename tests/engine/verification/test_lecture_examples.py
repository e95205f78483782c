"""The worked examples of lectures on differential privacy, as this software answers them.

Where a slide and the product differ, the test says why: the product's bounds are exact quantiles, and its neighbours
are told apart.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, log, sqrt

import mpmath
import numpy as np
import pytest

from releases.engine.bounds import theory
from releases.engine.domain.privacy import NeighbouringRelation, privacy_budget
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.mechanisms.choices import predicate_counts
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Rows
from releases.engine.verification.composition_theorems import Step, advanced, basic, optimal
from releases.engine.workload.parsing import read_question

ADD_REMOVE, REPLACE = NeighbouringRelation.ADD_REMOVE, NeighbouringRelation.REPLACE


def schema_of(columns, neighbours=ADD_REMOVE):
    return Schema.from_json({"version": 1, "columns": columns, "neighbours": neighbours.value})


def planned(name, columns, query, *, epsilon="1", neighbours=ADD_REMOVE, beta=Fraction(1, 20), **options):
    schema = schema_of(columns, neighbours)
    question = read_question({"version": 1, "queries": [query]}, schema.universe)
    plan = mechanism(name).plan(schema, question, budget=privacy_budget(epsilon=epsilon), beta=beta, options=options)
    assert not plan.infeasible
    return plan


def rows_of(universe, values):
    array = np.array(values, dtype=np.int64).reshape(-1, len(universe.names))
    return Rows(universe=universe, columns={name: array[:, i].copy() for i, name in enumerate(universe.names)})


def categories(name, labels):
    return {"name": name, "type": "categorical", "categories": list(labels), "outside": labels[-1]}


# Counts: how many have the flu, and which of 10,000 family names is the most common


def test_one_count_at_epsilon_a_tenth_gets_laplace_noise_of_scale_ten():
    flu = [categories("flu", ["1", "0"])]
    plan = planned("laplace-queries", flu, {"count": {"flu": ["1"]}}, epsilon="0.1")
    assert plan.parameters["l1 sensitivity"] == "1"
    assert plan.parameters["noise scale"] == "10"
    histogram = planned("laplace-histogram", flu, {"marginal": ["flu"]}, epsilon="0.1")
    assert histogram.parameters["noise scale"] == "10"


def test_ten_thousand_family_names_at_epsilon_one_and_95_percent_are_within_12_2():
    size = {"rows": 300_000, "cells": 10_000, "queries": 10_000, "changed": 1}
    spent = {"epsilon": Fraction(1), "delta": Fraction(0), "beta": Fraction(1, 20)}
    stated = theory.bounds(theory.Numbers(neighbours=ADD_REMOVE, **size, **spent))[0].published
    assert stated == pytest.approx(log(10_000 / 0.05))
    assert round(stated, 1) == 12.2
    names = [categories("name", [f"n{i}" for i in range(10_000)])]
    plan = planned("laplace-queries", names, {"marginal": ["name"]})
    # The exact quantile of whole noise: 12 keeps 95%, 11 does not.
    assert plan.bound.alpha == 12
    for most, keeps in ((12, True), (11, False)):
        beyond = 2 * mpmath.exp(-(most + 1)) / (1 + mpmath.exp(-1))
        assert ((1 - beyond) ** 10_000 >= mpmath.mpf("0.95")) == keeps
    assert plan.bound.alpha / 300_000 < 0.0001


# Which food is the most popular, where everybody may like several

FOODS = ["Salad", "BBQ", "Noodle", "Rice", "Milk"]
LIKES = [(1, 0, 1, 1, 1), (0, 1, 0, 1, 1), (0, 0, 1, 0, 1), (1, 1, 0, 0, 0), (1, 1, 0, 1, 1)]
FOOD_COLUMNS = [categories(food, ["1", "0"]) for food in FOODS]
MAX_POPULAR = {"largest_count": [{food: ["1"]} for food in FOODS]}


def test_the_foods_of_the_notes_are_liked_by_3_3_2_3_and_4():
    plan = planned("noisy-max-choice", FOOD_COLUMNS, MAX_POPULAR)
    counts = rows_of(plan.schema.universe, [[1 - liked for liked in row] for row in LIKES])
    assert predicate_counts(plan.workload.statistic.predicates, counts).tolist() == [3, 3, 2, 3, 4]


@pytest.mark.parametrize("foods", [2, 5, 12])
def test_counting_m_foods_costs_m_times_the_noise_of_naming_the_most_popular(foods):
    columns = [categories(f"food {i}", ["1", "0"]) for i in range(foods)]
    names = [each["name"] for each in columns]
    votes = {"votes": {"columns": names, "category": "1", "ballots": foods}}
    counted = planned("laplace-numbers", columns, votes, epsilon="0.1")
    assert counted.parameters["l1 sensitivity"] == str(foods)
    deviation = float(counted.parameters["standard deviation of the noise on votes for food 0"])
    assert deviation == pytest.approx(sqrt(2) * 10 * foods, rel=1e-3)
    named = planned("noisy-max-choice", columns, {"largest_count": [{name: ["1"]} for name in names]}, epsilon="0.1")
    assert named.parameters["scale, in rows"] == "10"
    # What naming may lose to the best is less than twice what counting may be off by.
    assert named.bound.alpha < 2 * counted.bound.alpha


def test_naming_the_most_popular_needs_twice_the_noise_where_a_row_is_replaced():
    """The slide's Lap(1/epsilon) is proved where rows are added or removed, which moves all counts one way."""
    plan = planned("noisy-max-choice", FOOD_COLUMNS, MAX_POPULAR, epsilon="0.1", neighbours=REPLACE)
    assert plan.parameters["scale, in rows"] == "20"


@pytest.mark.parametrize("beta", ["0.2", "0.05", "0.001"])
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_the_wrong_letter_is_named_more_rarely_than_the_tail_says(epsilon, beta):
    """With c more of B: exactly 1/(1 + e^(c epsilon/2)), below the slide's 2 e^(-c epsilon/2)."""
    letters = [categories("letter", ["A", "B"])]
    given = {"epsilon": epsilon, "neighbours": REPLACE, "beta": Fraction(beta)}
    plan = planned("exponential-choice", letters, {"most_common": "letter"}, **given)
    wrong = lambda c: 1 / (1 + exp(c * float(epsilon) / 2))  # noqa: E731
    alpha = int(plan.bound.alpha)
    assert wrong(alpha + 1) <= float(beta) * (1 + 1e-9)
    assert wrong(alpha) > float(beta)
    for c in (1, alpha, 5 * alpha):
        assert wrong(c) <= 2 * exp(-c * float(epsilon) / 2)
    by_the_tail = 2 / float(epsilon) * (log(2) + log(1 / float(beta)))
    assert alpha <= ceil(by_the_tail)


def test_t_shirts_go_to_the_largest_class_by_name_and_no_number_is_told():
    """Classes of 50, 31 and 30; at epsilon 1 another is named with probability below 2 e^-19."""
    plan = planned("exponential-choice", [categories("class", ["A", "B", "C"])], {"most_common": "class"})
    pupils = [(0,)] * 50 + [(1,)] * 31 + [(2,)] * 30
    named = plan.run(rows_of(plan.schema.universe, pupils), rng=StreamRandomness(b"T-shirts"))
    assert (named.chosen, named.total) == (("A",), 0)
    assert all((estimate == 0).all() for estimate in named.estimates)


@pytest.mark.parametrize(("epsilon", "times"), [("0.1", 100), ("0.01", 1_000), ("0.5", 30)])
def test_k_fold_composition_is_the_theorem_s_and_the_optimum_is_below_it(epsilon, times):
    slack, each = Fraction(1, 10**6), float(epsilon)
    steps = [Step(epsilon=Fraction(epsilon), times=times)]
    by_hand = sqrt(2 * times * log(10**6)) * each + times * each * (exp(each) - 1)
    assert float(advanced(steps, slack=slack).epsilon) == pytest.approx(by_hand, abs=1e-8)
    assert advanced(steps, slack=slack).delta == slack
    assert basic(steps).epsilon == times * Fraction(epsilon)
    best = optimal(steps, slack=slack)
    assert best.epsilon <= min(advanced(steps, slack=slack).epsilon, basic(steps).epsilon)


@pytest.mark.parametrize("told", ["0.1", "0.5", "0.9"])
def test_telling_the_truth_with_probability_p_and_else_tossing_a_coin_is_ln_1_plus_2p_over_1_minus_p(told):
    p = float(told)
    epsilon = log(1 + 2 * p / (1 - p))
    columns = [categories("answer", ["yes", "no"])]
    plan = planned("randomized-response", columns, {"survey": "answer"}, epsilon=f"{epsilon:.9f}", neighbours=REPLACE)
    own, other = "chance that a row tells its own category", "chance of each other category"
    assert float(plan.parameters[own]) == pytest.approx(p + (1 - p) / 2, abs=2e-5)
    assert float(plan.parameters[other]) == pytest.approx((1 - p) / 2, abs=2e-5)
