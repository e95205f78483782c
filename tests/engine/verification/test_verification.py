"""What `manage.py verify` rests on: every mechanism is looked at, the looks are sound, and wrong figures are refused.

The looks run on fixed streams; on a fresh one a right mechanism would fail each with probability at most 1e-6.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from releases.engine.accounting.events import PureEvent
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.verification import cases, coverage, oracles, privacy_loss
from releases.engine.verification.cases import BOTH, case_for, ways_of
from releases.engine.verification.coverage import bound_seen, interval_of_rate
from releases.engine.verification.oracles import FigureSeen
from releases.engine.verification.privacy_loss import epsilon_of_outcomes, least_epsilon, loss_seen
from releases.engine.verification.recording import with_noise_scaled
from releases.engine.verification.samplers import samplers_seen
from releases.engine.verification.tables import counts_of

FALSE_ALARM = 1e-6


LOOKS = [(name, way) for name in mechanisms() for way in ways_of(name)]
WAYS = [pytest.param(name, way, id=f"{name} {way}".strip()) for name, way in LOOKS]


def test_every_word_of_every_option_is_looked_at():
    options = [(name, option) for name, each in mechanisms().items() for option in each.options]
    words = {(name, option.name, word) for name, option in options for word in option.choices}
    assert len(words) >= 9
    for of_persons, neighbours in product((False, True), NeighbouringRelation):
        plans = [(name, case_for(name, way=way, of_persons=of_persons).plan(name, neighbours)) for name, way in LOOKS]
        assert {(name, *option) for name, plan in plans for option in plan.options.items()} >= words


@pytest.mark.parametrize("of_persons", [False, True], ids=["row", "person"])
@pytest.mark.parametrize("neighbours", NeighbouringRelation)
@pytest.mark.parametrize(("name", "way"), WAYS)
def test_every_mechanism_has_two_tables_that_differ_in_a_unit_and_can_be_run_on_them(name, way, neighbours, of_persons):
    case = case_for(name, way=way, of_persons=of_persons)
    plan, pair = case.plan(name, neighbours), case.pairs[neighbours]
    assert plan.infeasible == ""
    assert (plan.schema.unit.max_rows > 1) is of_persons
    rows = (Counter(pair.other) - Counter(pair.one)).total(), (Counter(pair.one) - Counter(pair.other)).total()
    assert 1 <= max(rows) <= plan.schema.unit.max_rows
    if neighbours is NeighbouringRelation.ADD_REMOVE:
        assert 0 in rows
    elif not of_persons and not plan.schema.universe.may_drop:
        assert rows == (1, 1)
    assert 0 < pair.weakened < 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace-queries", "gaussian-queries"])
def test_noise_for_persons_whose_rows_all_stay_somewhere_is_called_wrong(name, monkeypatch):
    """What was charged once: rows were thought to vanish by a declared rule alone."""

    def seen():
        given = {"of_persons": True, "runs": 200, "false_alarm": FALSE_ALARM, "rng": StreamRandomness(b"vanished")}
        return loss_seen(name, NeighbouringRelation.REPLACE, **given)

    assert seen().is_within_claim
    monkeypatch.setattr(Schema, "rows_may_vanish", property(lambda schema: schema.universe.may_drop))
    assert not seen().is_within_claim


@pytest.mark.parametrize("of_persons", [False, True], ids=["one row each", "several"])
def test_a_release_of_rows_and_of_persons_keeps_its_claim_and_noise_for_half_of_it_is_called_wrong(of_persons):
    """A person of one row moves both tables alike: half is the noise that the table of rows needs by itself."""

    def seen():
        given = {"of_persons": of_persons, "runs": 8000, "false_alarm": FALSE_ALARM, "rng": StreamRandomness(b"both")}
        return loss_seen("laplace-queries", NeighbouringRelation.ADD_REMOVE, way=BOTH, **given)

    found = seen()
    assert found.unit == "person"
    assert found.is_as_it_should_be
    with with_noise_scaled(Fraction(1, 2)):
        assert not seen().is_within_claim


def test_the_tables_of_a_release_of_both_count_every_row_and_every_person_once():
    case = case_for("laplace-queries", way=BOTH, of_persons=True)
    plan, pair = case.plan("laplace-queries", NeighbouringRelation.REPLACE), case.pairs[NeighbouringRelation.REPLACE]
    counts = [counts_of(plan.schema.universe, table) for table in (pair.one, pair.other)]
    # 21 persons of three rows each in one town, and 20 in the other; of whom one moves.
    assert [[each.marginal((name,)).tolist() for name in ("town", "ever")] for each in counts] == [
        [[63, 60], [21, 20]],
        [[60, 63], [20, 21]],
    ]
    assert plan.parameters["l1 sensitivity"] == "8"


def seen_in_short(name):
    """Of rows, of persons, and the bound."""
    given = {"runs": 10, "false_alarm": 0.1, "rng": StreamRandomness(b"x")}
    looks = (loss_seen, partial(loss_seen, of_persons=True), bound_seen)
    return [look(name, NeighbouringRelation.REPLACE, **given) for look in looks]


def test_a_mechanism_that_answers_a_statistic_and_has_no_case_is_refused(monkeypatch):
    monkeypatch.delitem(cases.CASES, "laplace-numbers")
    monkeypatch.delitem(cases.CASES_OF_PERSONS, "laplace-numbers")
    with pytest.raises(InvalidInput, match="'laplace-numbers' must have a case"):
        case_for("laplace-numbers")
    for seen in seen_in_short("laplace-numbers"):
        assert "must have a case" in seen.infeasible
        assert not seen.is_as_it_should_be


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.2), (0.9, 0.05), (0.02, 0.01)])
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_a_bound_passes_the_true_epsilon_no_more_often_than_the_false_alarm(p, q, delta):
    """Over all outcomes of 25 runs, exactly; and a bound without its confidence would pass it far too often."""
    runs, false_alarm, true = 25, 0.05, log((p - delta) / q)
    chances = np.outer(binom.pmf(range(runs + 1), runs, p), binom.pmf(range(runs + 1), runs, q))

    def passed(alarm):
        return sum(
            chances[often, seldom]
            for often in range(runs + 1)
            for seldom in range(runs + 1)
            if least_epsilon(often, seldom, runs=runs, delta=delta, false_alarm=alarm) > true
        )

    assert passed(false_alarm) <= false_alarm
    assert passed(1.0) > false_alarm


@settings(max_examples=40, derandomize=True)
@given(st.floats(0.1, 3), st.integers(0, 10**6))
def test_randomized_response_is_seen_to_spend_its_epsilon_and_no_more(epsilon, seed):
    draw = np.random.default_rng(seed)
    truth = exp(epsilon) / (1 + exp(epsilon))
    ones, others = ((draw.random(4000) < share).tolist() for share in (truth, 1 - truth))
    proved = epsilon_of_outcomes(ones, others, delta=0.0, false_alarm=FALSE_ALARM)
    assert epsilon - 1 <= proved <= epsilon
    # With all of its excess forgiven nothing is left to prove.
    assert epsilon_of_outcomes(ones, others, delta=1.0, false_alarm=FALSE_ALARM) == 0


def test_events_that_never_come_prove_nothing():
    assert least_epsilon(0, 0, runs=100, delta=0.0, false_alarm=0.01) == 0
    assert least_epsilon(100, 100, runs=100, delta=0.0, false_alarm=0.01) == 0
    assert least_epsilon(100, 0, runs=100, delta=0.0, false_alarm=0.01) > 2.5


#: Every mechanism for statistics, and of those for counts one that is quick; `manage.py verify` looks at all.
QUICK = ("laplace-numbers", "exponential-choice", "smalldb-net")
LOOKED_AT = [
    pytest.param(*each.values, id=each.id, marks=() if each.values[0] in QUICK else pytest.mark.slow)
    for each in WAYS
    if mechanism(each.values[0]).answers or each.values[0] == "smalldb-net"
]


@pytest.mark.parametrize("neighbours", NeighbouringRelation)
@pytest.mark.parametrize(("name", "way"), LOOKED_AT)
def test_a_mechanism_keeps_its_claim_and_with_too_little_noise_is_seen_to_pass_it(name, way, neighbours):
    rng = StreamRandomness(f"{name} {neighbours}".encode())
    seen = loss_seen(name, neighbours, way=way, runs=900, false_alarm=FALSE_ALARM, rng=rng)
    assert seen.is_within_claim
    assert seen.would_be_noticed
    assert seen.proved < seen.epsilon < seen.proved_weakened
    assert seen.is_as_it_should_be


def test_a_mechanism_that_spends_twice_its_claim_is_called_wrong():
    given = {"runs": 900, "false_alarm": FALSE_ALARM, "rng": StreamRandomness(b"wrong")}
    with with_noise_scaled(Fraction(1, 3)):
        seen = loss_seen("laplace-numbers", NeighbouringRelation.ADD_REMOVE, **given)
    assert not seen.is_within_claim
    assert not seen.is_as_it_should_be


def test_a_mechanism_that_cannot_be_run_on_its_case_is_no_pass(monkeypatch):
    unasked = replace(
        case_for("laplace-numbers"), columns=cases.CASES["pmw-online"].columns, queries=[{"marginals": 1}]
    )
    monkeypatch.setitem(cases.CASES, "laplace-numbers", unasked)
    monkeypatch.setitem(cases.CASES_OF_PERSONS, "laplace-numbers", unasked)
    for seen in seen_in_short("laplace-numbers"):
        assert seen.infeasible
        assert not seen.is_as_it_should_be


def test_the_false_alarm_is_shared_among_all_that_is_looked_at(monkeypatch):
    shares = []
    monkeypatch.setattr(privacy_loss, "loss_seen", lambda *args, false_alarm, **kwargs: shares.append(false_alarm))
    list(privacy_loss.losses_seen(runs=1, false_alarm=0.01, rng=StreamRandomness(b"x")))
    assert len(shares) == 2 * 2 * len(WAYS)
    assert sum(shares) == pytest.approx(0.01)
    shares.clear()
    monkeypatch.setattr(coverage, "bound_seen", lambda *args, false_alarm, **kwargs: shares.append(false_alarm))
    list(coverage.bounds_seen(runs=1, false_alarm=0.01, rng=StreamRandomness(b"x")))
    assert sum(shares) * 2 == pytest.approx(0.01)  # two tables each


@settings(max_examples=60, derandomize=True)
@given(st.integers(1, 80), st.floats(0.01, 0.99))
def test_the_interval_of_a_rate_holds_it_with_the_confidence_stated(runs, rate):
    caught = 0.0
    for hits in range(runs + 1):
        low, high = interval_of_rate(hits, runs)
        caught += binom.pmf(hits, runs, rate) * (low <= rate <= high)
    assert caught >= 0.99 - 1e-9


@pytest.mark.parametrize("neighbours", NeighbouringRelation)
def test_a_bound_holds_and_with_four_times_the_noise_it_does_not(neighbours):
    def seen():
        rng = StreamRandomness(b"bound")
        return bound_seen("laplace-numbers", neighbours, runs=300, false_alarm=FALSE_ALARM, rng=rng)

    right = seen()
    assert right.is_as_it_should_be
    assert right.rate[0] <= 0.2
    with with_noise_scaled(Fraction(4)):
        assert not seen().is_as_it_should_be


def test_every_price_is_as_it_should_be_and_comes_from_several_oracles():
    figures = list(oracles.figures_seen())
    assert [figure for figure in figures if not figure.is_as_it_should_be] == []
    assert {"mpmath", "dp-accounting"} <= {figure.source for figure in figures}
    assert len(figures) >= 20


def test_a_price_below_its_oracle_or_far_above_it_is_refused():
    figure = FigureSeen(figure="x", ours=2.0, oracle=2.0, source="y", allowance=1e-9)
    assert figure.is_as_it_should_be
    assert not replace(figure, ours=2.0 - 1e-9).is_as_it_should_be
    assert not replace(figure, ours=2.0 + 1e-8).is_as_it_should_be


def test_a_price_that_forgets_half_of_what_was_spent_is_noticed(monkeypatch):
    price = oracles.price
    monkeypatch.setattr(
        oracles, "price", lambda events, delta: price([PureEvent(epsilon=Fraction(1, 99))], delta=delta)
    )
    wrong = [figure for figure in oracles._beside_opendp() if not figure.is_as_it_should_be]
    assert len(wrong) == 3


def test_the_self_test_passes_as_installed_and_notices_a_tenth():
    seen = list(samplers_seen(false_alarm=FALSE_ALARM, rng=StreamRandomness(b"samplers")))
    assert [each.factor for each in seen] == [1, Fraction(9, 10), Fraction(11, 10)]
    assert [bool(each.failure) for each in seen] == [False, True, True]
    assert all(each.is_as_it_should_be for each in seen)
    assert not replace(seen[0], failure="a fault").is_as_it_should_be
    assert not replace(seen[1], failure="").is_as_it_should_be
