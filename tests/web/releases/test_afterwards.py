"""What a release leaves of the budget, beliefs, digits, and bounds that say nothing called so in numbers."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import pytest

from releases import services
from releases.models import Budget
from releases.planning import comparison, usefulness
from releases.planning.epsilon_meaning import belief_after
from releases.publication.receipt import sensible
from tests.web.pages import field_value, link, words


@pytest.fixture
def confirmation(dataset, make_draft, as_, alice):
    return lambda **choice: words(as_(alice).get(link("confirm", make_draft(dataset, **choice))))


@pytest.mark.django_db
def test_what_is_left_really_fits_and_no_more_does(dataset, make_draft):
    plan = services.releases.plan_of(release=make_draft(dataset, epsilon="0.3"))
    (row,) = comparison.compared([plan], Budget.objects.get())
    assert (row.leaves.amount, row.leaves.more) == ("epsilon 1.7", 5)
    assert row.leaves.more_text == "about 5 more releases like this fit"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("delta", "name", "is_said"),
    [("0.0000001", "gaussian-queries", True), ("0.0000001", "laplace-queries", False), ("0", "laplace-queries", False)],
)
def test_with_a_delta_that_is_spent_the_table_of_beliefs_says_what_it_allows(confirmation, delta, name, is_said):
    said = confirmation(delta=delta, mechanism=name)
    assert (f"with probability at most {delta}, it gives the unit away" in said) is is_said


@pytest.mark.parametrize("prior", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_on_average_a_belief_exceeds_that_of_epsilon_by_delta_at_most_and_the_worst_release_attains_it(prior, epsilon):
    """The worst pair of laws for (epsilon, delta): it gives the table away with probability delta."""
    delta, kept = 0.01, 0.99 / (1 + exp(epsilon))
    one, other = (delta, kept * exp(epsilon), kept, 0.0), (0.0, kept, kept * exp(epsilon), delta)
    highest = prior * exp(epsilon) / (prior * exp(epsilon) + 1 - prior)
    excess = 0.0
    for p, q in zip(one, other, strict=True):
        seen = prior * p + (1 - prior) * q
        excess += seen * max(0.0, prior * p / seen - highest)
    assert excess == pytest.approx(prior * (1 - highest) * delta)
    shown = belief_after(Fraction(str(prior)), Fraction(str(epsilon)))
    assert float(shown.rstrip("%")) == pytest.approx(100 * highest, rel=0.005)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rho 0.020187132441", "rho 0.0201872"),
        (
            "epsilon 1; or rho 0.000253557949 outside delta 0.0000001",
            "epsilon 1; or rho 0.000253558 outside delta 0.0000001",
        ),
        ("Cauchy, 1.272088633885 times", "Cauchy, 1.27209 times"),
        ("7,555 counts, 23.5 each", "7,555 counts, 23.5 each"),
        ("epsilon 2.37999999999, delta 0.0000001", "epsilon 2.38, delta 0.0000001"),
        ("version 1.2.34567891", "version 1.2.34567891"),
    ],
)
def test_long_decimals_are_rounded_up_to_six_digits(text, said):
    assert sensible(text) == said


@pytest.mark.django_db
def test_confirm_says_what_is_booked_to_the_last_digit(confirmation):
    assert "epsilon 0.123457 exactly: epsilon 0.12345678912; or rho 0.00" in confirmation(epsilon="0.12345678912")


@pytest.mark.parametrize(
    ("alpha", "said"),
    [
        (2_499, ""),
        (2_500, "of about 5,000 rows: the answers would say almost nothing"),
        (3_776, "of about 5,000 rows: the answers would say almost nothing"),
        (5_000, "of about 5,000 rows: the answers would say nothing"),
    ],
)
def test_half_the_rows_said_of_every_count_is_as_close(alpha, said):
    assert usefulness.says_little(alpha, 5_000) == said


@pytest.mark.parametrize(("alpha", "least"), [(0.2, 1), (3, 6), (17, 34), (219, 440), (10_932, 22_000)])
def test_of_use_from_twice_the_bound_on(alpha, least):
    assert usefulness.useful_from(alpha) == least
    assert usefulness.says_little(alpha, least + 1) == ""


@pytest.mark.parametrize(
    ("alpha", "rows", "changed", "said"),
    [
        (12_134, 8_802.4, {}, "most intervals reach from 0, so the table says nothing"),
        (5_000, 8_802, {}, "says almost nothing"),
        (500, 8_802, {}, ""),
        (9_000, 8_802, {"workload": {"queries": [{"median": "age"}]}}, ""),
        # Single counts describe no table: no number of rows was released that they could be held against.
        (40, 1, {"synthetic_rows": 0}, ""),
    ],
)
def test_a_released_table_is_held_against_its_own_number_of_rows(alpha, rows, changed, said):
    receipt = {"bound": {"alpha": alpha, "says": ""}, "total": {"estimate": rows}, "synthetic_rows": round(rows)}
    found = usefulness.says_little_of_released(receipt | {"workload": {"queries": [{"marginals": 3}]}} | changed)
    assert said in found
    assert bool(found) is bool(said)


@pytest.mark.django_db
@pytest.mark.parametrize("typed", ["0", "10000000000"])
def test_what_is_no_number_of_rows_is_refused_and_stays_typed(asked, as_, alice, typed):
    choice = {"epsilon": "1", "delta": "0", "beta": "0.05", "population": typed}
    response = as_(alice).post(link("compare", asked), choice)
    assert response.status_code == 400
    assert field_value(response, "population") == typed
    assert "About how many rows" in words(response)
