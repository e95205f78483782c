"""What a release leaves of the budget, belief where there is a delta, and numbers with as many digits as help."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import pytest
from django.urls import reverse

from releases import services
from releases.models import Budget, Release
from releases.planning import comparison, usefulness
from releases.planning.epsilon_meaning import belief_after
from releases.publication.receipt import sensible
from tests.web.conftest import WORKLOAD
from tests.web.pages import words


@pytest.fixture
def ask(dataset, alice):
    def make(workload=WORKLOAD, **choice):
        release = services.releases.draft_release(dataset=dataset, by=alice)
        services.releases.set_questions(release=release, workload=workload)
        services.releases.set_choice(release=release, **{"epsilon": "1", **choice})
        return Release.objects.get(pk=release.pk)

    return make


@pytest.fixture
def page(as_, alice):
    return lambda release, step: words(as_(alice).get(reverse(step, args=[release.pk])))


# What is left


@pytest.mark.django_db
def test_what_is_left_really_fits_and_no_more_does(ask):
    release = ask(epsilon="0.3", mechanism_name="laplace-queries")
    (row,) = comparison.compared([services.releases.plan_of(release=release)], Budget.objects.get())
    assert (row.leaves.amount, row.leaves.more, row.leaves.more_text) == (
        "epsilon 1.7",
        5,
        "about 5 more releases like this fit",
    )


# Belief


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("delta", "name", "is_said"),
    [("0.0000001", "gaussian-queries", True), ("0.0000001", "laplace-queries", False), ("0", "laplace-queries", False)],
)
def test_with_a_delta_that_is_spent_the_table_of_beliefs_says_what_it_allows(ask, page, delta, name, is_said):
    said = page(ask(delta=delta, mechanism_name=name), "confirm")
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


# Means


# Digits


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
def test_confirm_says_what_is_booked_to_the_last_digit(ask, page):
    said = page(ask(epsilon="0.12345678912", mechanism_name="laplace-queries"), "confirm")
    assert "epsilon 0.123457 exactly: epsilon 0.12345678912; or rho 0.00" in said


# The chart


# Of little use


def test_a_released_table_is_held_against_its_own_number_of_rows():
    def receipt(alpha, rows, queries=({"marginals": 3},)):
        return {
            "bound": {"alpha": alpha, "says": ""},
            "total": {"estimate": rows},
            "synthetic_rows": round(rows),
            "workload": {"queries": list(queries)},
        }

    assert "most intervals reach from 0, so the table says nothing" in usefulness.says_little_of_released(
        receipt(12_134, 8_802.4)
    )
    assert "says almost nothing" in usefulness.says_little_of_released(receipt(5_000, 8_802))
    assert usefulness.says_little_of_released(receipt(500, 8_802)) == ""
    assert usefulness.says_little_of_released(receipt(9_000, 8_802, [{"median": "age"}])) == ""
    # Single counts describe no table: no number of rows was released that they could be held against.
    assert usefulness.says_little_of_released(receipt(40, 1) | {"synthetic_rows": 0}) == ""
