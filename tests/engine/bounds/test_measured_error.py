"""A certificate: the largest error of published counts, its noise, its price, and that its bound is true and no shorter
than it must be."""

import json
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from releases.engine.accounting import accountant
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import ApproxDP, PureDP
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import mechanisms, plan_from_json
from releases.engine.mechanisms.error_certificate import Certificate
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Histogram
from releases.engine.verification.tables import rows_of
from tests.engine import telling

COLUMNS = [
    {"name": "age", "type": "integer", "edges": [0, 10, 20, 30]},
    {"name": "town", "type": "categorical", "categories": ["a", "b"], "outside": "b"},
]
WORKLOAD = {"version": 1, "queries": [{"marginal": ["age", "town"]}, {"prefix": "age"}, {"count": {"town": ["a"]}}]}
#: What was published of a table that had in truth 4 rows in each of its six cells.
NUMBERS = [[4, 4, 4, 4, 4, 9], [8, 16, 24], [12]]
TRUTH = np.full((3, 2), 4, dtype=np.int64)
PURE = PureDP(epsilon=Fraction(1, 2))
APPROXIMATE = ApproxDP(epsilon=Fraction(1, 2), delta=Fraction(1, 10**6))
SHA = "0" * 64


def planned(
    released, *, budget=PURE, beta=Fraction(1, 5), rows=1, neighbours="add_remove", workload=WORKLOAD, number=0
):
    query = {"largest_error": {"workload": workload, "released": released}}
    given = {"budget": budget, "beta": beta, "unit": telling.unit_of(rows), "number": number}
    return telling.planned("measured-error", COLUMNS, query, neighbours, **given)


def counts(plan, table=TRUTH):
    return Histogram(universe=plan.schema.universe, counts=np.asarray(table, dtype=np.int64))


def synthetic(numbers=NUMBERS):
    return {"synthetic rows": {"numbers": numbers}}


def without_noise(plan, monkeypatch, table=TRUTH):
    """The exact largest error that a run would add noise to."""
    monkeypatch.setattr(Certificate, "measured", lambda self, largest, rng: largest)
    return plan.run(counts(plan, table), rng=StreamRandomness(b"x")).notes["measured"]


def test_it_is_the_largest_difference_over_every_count(monkeypatch):
    assert without_noise(planned(synthetic()), monkeypatch) == 5
    assert without_noise(planned(synthetic([[4] * 6, [8, 16, 17], [12]])), monkeypatch) == 7
    assert without_noise(planned(synthetic([[4] * 6, [8, 16, 24], [0]])), monkeypatch) == 12
    assert without_noise(planned(synthetic([[4] * 6, [8, 16, 24], [12]])), monkeypatch) == 0


def test_of_synthetic_rows_and_released_answers_the_worse_counts(monkeypatch):
    both = {**synthetic(), "released answers": {"numbers": [[4] * 6, [8, 16, 24], [20]]}}
    assert without_noise(planned(both), monkeypatch) == 8
    assert without_noise(planned({"released answers": both["released answers"]}), monkeypatch) == 8


def test_an_error_of_a_hundredth_of_a_row_is_rounded_up_to_a_row(monkeypatch):
    plan = planned({"released answers": {"sha256": SHA}})
    numbers = [np.full(6, 4.0), np.array([8, 16, 24.01]), np.array([12.0])]
    assert without_noise(plan.with_published("released answers", numbers), monkeypatch) == 1
    # Its rounding is part of what is said before: 2 t and a row.
    assert plan.expectation.alpha == planned(synthetic()).expectation.alpha + 1


@pytest.mark.parametrize("rows", [1, 3])
def test_a_pure_budget_buys_laplace_noise_and_any_other_gaussian_noise_for_exactly_the_budget(rows):
    pure, approximate = (planned(synthetic(), budget=each, rows=rows) for each in (PURE, APPROXIMATE))
    assert pure.certificate.noise.scale == rows / PURE.epsilon
    assert approximate.certificate.noise.l2_sensitivity_squared == rows**2
    prices = [accountant.price(each.events, delta=each.delta) for each in (pure, approximate)]
    assert prices[0].pure_epsilon == Fraction(1, 2) * 10**accountant.EPSILON_PLACES
    assert prices[1].pure_epsilon is None
    assert prices[1].epsilon <= prices[0].pure_epsilon < prices[1].epsilon * Fraction(1001, 1000)
    assert [len(each.events) for each in (pure, approximate)] == [1, 1]


def below_minus(plan, t):
    """Pr[X < -t], summed from the law itself."""
    noise, far = plan.certificate.noise, 4000
    values = np.arange(-far, far + 1, dtype=np.float64)
    pure = plan.budget is PURE
    law = np.exp(-np.abs(values) / float(noise.scale) if pure else -(values**2) / (2 * float(noise.exact_variance)))
    return float(law[values < -t].sum() / law.sum())


@pytest.mark.parametrize("beta", [Fraction(1, 5), Fraction(1, 20), Fraction(1, 1000)])
@pytest.mark.parametrize("budget", [PURE, APPROXIMATE], ids=["pure", "approximate"])
def test_the_tail_is_the_shortest_that_noise_falls_below_no_more_often_than_beta(budget, beta):
    plan = planned(synthetic(), budget=budget, beta=beta)
    t = plan.certificate.tail
    assert t == int(t)
    assert below_minus(plan, t) <= beta < below_minus(plan, t - 1)
    assert plan.expectation.alpha == 2 * t


@pytest.mark.parametrize("budget", [PURE, APPROXIMATE], ids=["pure", "approximate"])
def test_certificates_of_one_release_hold_together_though_each_is_bought_because_of_those_before(budget):
    """400 times somebody buys certificates until one is false, or seven were bought: fails below 1e-6 in theory.

    Each by itself as sure as all are to be together, one of seven is false nearly four times as often.
    """
    beta, runs, most = Fraction(1, 5), 400, 7
    true = 200
    released = synthetic([[4] * 5 + [4 + true], [8, 16, 24], [12]])

    def broken(number_of):
        plans = [planned(released, budget=budget, beta=beta, number=number_of(j)) for j in range(1, most + 1)]
        rng, found = StreamRandomness(b"adaptive"), 0
        for _ in range(runs):
            stated = (plan.run(counts(plan), rng=rng).notes["at most"] for plan in plans)
            found += any(each < true for each in stated)
        return found

    allowed = runs * beta + 5 * (runs * float(beta) * (1 - float(beta))) ** 0.5
    assert broken(lambda j: j) <= allowed < broken(lambda j: 0)


@pytest.mark.parametrize(("number", "parts"), [(0, 1), (1, 2), (2, 6), (5, 30)])
def test_the_tail_of_a_numbered_certificate_is_that_of_its_part_of_what_may_fail(number, parts):
    beta = Fraction(1, 5)
    plan = planned(synthetic(), beta=beta, number=number)
    t = plan.certificate.tail
    assert below_minus(plan, t) <= beta / parts < below_minus(plan, t - 1)
    assert plan.expectation.beta == beta
    assert plan_from_json(plan.to_json()) == plan


def test_a_plan_that_was_stored_before_certificates_had_numbers_is_made_again_as_it_was():
    plan = planned(synthetic())
    stored = plan.to_json()
    assert stored["options"].pop("number") == 0
    again = plan_from_json(stored)
    assert again.certificate == plan.certificate
    assert again.parameters == plan.parameters


def test_no_error_is_below_0_so_noise_that_goes_there_is_cut_off_before_its_tail_is_added(monkeypatch):
    monkeypatch.setattr(Certificate, "measured", lambda self, largest, rng: largest - 100)
    plan = planned(synthetic())
    result = plan.run(counts(plan), rng=StreamRandomness(b"x"))
    assert result.notes == {"measured": 0, "at most": plan.certificate.tail}
    assert result.estimates[0].tolist() == [0]
    assert result.bound.is_one_sided
    assert (result.bound.alpha, plan.expectation.alpha) == (plan.certificate.tail, 2 * plan.certificate.tail)


def test_a_plan_that_names_a_file_is_stored_without_its_numbers_and_runs_only_with_them():
    plan = planned({"synthetic rows": {"sha256": SHA}})
    again = plan_from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan
    with pytest.raises(InvalidInput, match="synthetic rows: 'nothing' must be given before the table is looked at"):
        again.run(SimpleNamespace(universe=plan.schema.universe, population=None), rng=StreamRandomness(b"x"))
    full = again.with_published("synthetic rows", [np.array(each, dtype=float) for each in NUMBERS])
    written = planned(synthetic()).run(counts(plan), rng=StreamRandomness(b"x"))
    assert full.run(counts(plan), rng=StreamRandomness(b"x")).notes == written.notes
    assert full.to_json() == plan.to_json()


@pytest.mark.parametrize(
    ("what", "numbers", "rule"),
    [
        ("released answers", NUMBERS, "must be a file that the plan certifies"),
        ("synthetic rows", NUMBERS[:2], "must have a number for every count"),
        ("synthetic rows", [[np.nan] * 6, *NUMBERS[1:]], "must be from"),
        ("synthetic rows", [[1e16] * 6, *NUMBERS[1:]], "must be from"),
    ],
)
def test_numbers_that_are_not_of_the_workload_are_refused(what, numbers, rule):
    plan = planned({"synthetic rows": {"sha256": SHA}})
    with pytest.raises(InvalidInput, match=rule):
        plan.with_published(what, [np.array(each, dtype=float) for each in numbers])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"workload": WORKLOAD, "released": {}}, "largest_error.released: {} must be an object with synthetic rows"),
        ({"workload": {"version": 1, "queries": []}, "released": synthetic()}, "must be a list with at least one"),
        ({"workload": WORKLOAD, "released": {"synthetic rows": {"sha256": "abc"}}}, "sha256: 'abc' must be a SHA-256"),
        ({"workload": WORKLOAD, "released": {"synthetic rows": {}}}, "must be an object with sha256 or with numbers"),
        ({"workload": WORKLOAD, "released": synthetic([[1]])}, "numbers: .* must have a list for every query"),
        ({"workload": WORKLOAD, "released": synthetic([*NUMBERS[:2], [0.5]])}, "numbers: 0.5 must be a whole number"),
    ],
)
def test_a_question_that_breaks_a_rule_is_refused_by_field_value_and_rule(value, said):
    with pytest.raises(InvalidInput, match=said):
        telling.planned("measured-error", COLUMNS, {"largest_error": value})


# What a fit expects of its certificate before it has run

PAIRS = telling.schema_of(telling.categories([3, 4, 2, 5]))
BUDGETS = {"pure": PureDP(epsilon=Fraction(1)), "approx": ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**9))}


def of_pairs(name, budget):
    return telling.planned(name, PAIRS, [{"marginals": 2}], budget=BUDGETS[budget])


def expects(plan):
    return not plan.infeasible and plan.expectation is not None and plan.expectation.proof is Proof.EXPECTED


EXPECTING = [(name, budget) for name in mechanisms() for budget in BUDGETS if expects(of_pairs(name, budget))]


@pytest.mark.parametrize(("name", "budget"), EXPECTING)
def test_what_is_expected_of_a_certificate_is_seldom_passed_and_not_far_above(name, budget):
    """Ten runs on one table of 6,000 rows, with fixed streams."""
    rng = np.random.default_rng(5)
    hidden, differs = rng.integers(0, 3, 6000), rng.random((4, 6000)) < 0.2
    columns = [(hidden + one) % size for one, size in zip(differs, PAIRS.universe.shape, strict=True)]
    counts = rows_of(PAIRS.universe, list(zip(*(each.tolist() for each in columns), strict=True)))
    plan = of_pairs(name, budget)
    found = sorted(plan.run(counts, rng=StreamRandomness(b"%d" % seed)).bound.alpha for seed in range(10))
    assert sum(each <= plan.expectation.alpha for each in found) >= 7
    assert plan.expectation.alpha <= 4 * found[5]
