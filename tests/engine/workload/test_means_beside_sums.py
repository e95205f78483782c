"""Means of 56 groups of the sample survey, beside a noisy sum and a noisy count of each group."""

import csv
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import releases
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.tables.counts import Rows
from releases.engine.workload.parsing import read_question

RUNS = 60
LOWEST, HIGHEST = 18, 64
BY = ("region", "education", "gender")
DELTA = 1e-9


@pytest.fixture(scope="module")
def survey():
    """The age of each row, its group, and the rows as a table."""
    with (Path(releases.__file__).parent / "samples" / "health_insurance.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    named = {name: sorted({line[name] for line in lines}) for name in BY}
    columns = [{"name": "age", "type": "integer", "edges": [LOWEST, HIGHEST]}]
    columns += [
        {"name": name, "type": "categorical", "categories": values, "outside": values[0]}
        for name, values in named.items()
    ]
    schema = Schema.from_json({"version": 1, "columns": columns, "neighbours": "add_remove"})
    ages = np.clip([int(line["age"]) for line in lines], LOWEST, HIGHEST).astype(np.int64)
    codes = {name: np.array([named[name].index(line[name]) for line in lines], dtype=np.int64) for name in BY}
    group = np.zeros(len(lines), dtype=np.int64)
    for name in BY:
        group = group * len(named[name]) + codes[name]
    return ages, group, schema, Rows(universe=schema.universe, columns={"age": ages} | codes)


def squared_error(found, true):
    """Over groups that have rows; a mean outside the declared range is moved to its end."""
    has_rows = ~np.isnan(true)
    return float(np.square(np.clip(found, LOWEST, HIGHEST) - true)[has_rows].mean())


def laplace(rng, *, moved, epsilon, size):
    return rng.laplace(scale=moved / epsilon, size=size)


def gaussian(rng, *, moved, epsilon, size):
    """Of a rho of which epsilon and `DELTA` follow: rho + 2 sqrt(rho log(1 / delta)) = epsilon. A part of epsilon has
    that part of rho."""
    log = np.log(1 / DELTA)
    rho = (np.sqrt(log + 1) - np.sqrt(log)) ** 2 * epsilon
    return rng.normal(scale=moved / np.sqrt(2 * rho), size=size)


@pytest.mark.parametrize(
    ("name", "budget", "noise", "most"),
    [
        ("laplace-numbers", PureDP(epsilon=Fraction(1)), laplace, 0.5),
        ("gaussian-numbers", ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9)), gaussian, 1.0),
    ],
)
def test_means_err_by_half_the_square_of_noisy_sums_over_noisy_counts_and_by_no_more_under_gaussian_noise(
    survey, name, budget, noise, most
):
    """Each of both ways has half of epsilon for the sums and half for the counts: sums about the middle of the range,
    which one row moves by half its length, and sums of the values, which it moves by the highest."""
    ages, group, schema, rows = survey
    question = read_question(
        {"version": 1, "queries": [{"mean": {"columns": ["age"], "by": list(BY)}}]}, schema.universe
    )
    plan = mechanism(name).plan(schema, question, budget=budget, beta=Fraction(1, 20), options={})
    number = np.bincount(group, minlength=int(group.max()) + 1).astype(float)
    total = np.bincount(group, weights=ages, minlength=number.size)
    with np.errstate(invalid="ignore"):
        true = total / number
    middle, rng = (LOWEST + HIGHEST) / 2, np.random.default_rng(7)
    ours, about, plain = [], [], []
    for run in range(RUNS):
        result = run_release(plan, rows, rng=StreamRandomness(f"means {run}".encode())).result
        ours.append(squared_error(np.asarray(result.estimates[0]).reshape(-1), true))
        counts = np.maximum(number + noise(rng, moved=1, epsilon=0.5, size=number.size), 1)
        half = (HIGHEST - LOWEST) / 2
        sums = total - middle * number + noise(rng, moved=half, epsilon=0.5, size=number.size)
        about.append(squared_error(middle + sums / counts, true))
        sums = total + noise(rng, moved=HIGHEST, epsilon=0.5, size=number.size)
        plain.append(squared_error(sums / counts, true))
    assert number.size == 56
    assert np.mean(ours) <= most * min(np.mean(about), np.mean(plain)), (np.mean(ours), np.mean(about), np.mean(plain))
