"""What a release leaves of the budget, belief where there is a delta, and numbers with as many digits as help."""

from __future__ import annotations

import re
from fractions import Fraction
from math import exp

import pytest
from django.urls import reverse

from releases import services
from releases.display import charts
from releases.display.charts import BoundPoint
from releases.models import Budget, Release
from releases.planning import comparison, curves, usefulness
from releases.planning.epsilon_meaning import belief_after
from releases.publication.receipt import sensible
from tests.web.conftest import WORKLOAD
from tests.web.pages import words

MEAN = {"version": 1, "queries": [{"mean": ["age"]}]}
MEDIAN = {"version": 1, "queries": [{"median": "age"}]}


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
def test_the_comparison_says_what_each_mechanism_leaves_and_how_many_more_fit(ask, page):
    assert "Leaves" in page(ask(), "compare")
    shown = page(ask(epsilon="0.25"), "compare")
    assert "Leaves 87.5% of the budget: about 7 more releases like this fit." in shown
    assert "Left in full 87.5% (epsilon 1.75), about 7 more releases like this fit." in shown
    assert "Leaves 0% of the budget: no further release like this fits." in page(ask(epsilon="2"), "compare")
    assert "does not fit" in page(ask(epsilon="3"), "compare")


@pytest.mark.django_db
def test_what_is_left_really_fits_and_no_more_does(ask):
    release = ask(epsilon="0.3", mechanism_name="laplace-queries")
    (row,) = comparison.compared([services.releases.plan_of(release=release)], Budget.objects.get())
    assert (row.leaves.amount, row.leaves.more, row.leaves.more_text) == (
        "epsilon 1.7",
        5,
        "about 5 more releases like this fit",
    )


@pytest.mark.django_db
def test_the_confirmation_says_both_as_well(ask, page):
    said = page(ask(epsilon="0.25", mechanism_name="laplace-queries"), "confirm")
    assert "Leaves 87.5% about 7 more releases like this fit. The budget’s epsilon runs out first." in said


@pytest.mark.django_db
def test_why_no_other_fits_is_said_where_something_is_left(ask, page):
    shown = page(ask(epsilon="1.2"), "compare")
    assert "Leaves 40% of the budget: no further release like this fits." in shown
    full = "Left in full 40% (epsilon 0.8), no further release like this fits. The budget’s epsilon runs out first."
    assert full in shown


def test_one_and_none_and_very_many_are_said_in_words():
    def said(more):
        return comparison.Leaves(percent=50.0, amount="epsilon 1", more=more, runs_out="").more_text

    assert [said(more) for more in (0, 1, 999)] == [
        "no further release like this fits",
        "about one more release like this fits",
        "999 or more releases like this still fit",
    ]


# Belief


@pytest.mark.django_db
def test_with_a_delta_the_table_of_beliefs_says_what_it_allows_beside_epsilon(ask, page):
    caveat = "with probability at most 0.0000001, it gives the unit away"
    assert caveat in page(ask(delta="0.0000001"), "compare")
    assert caveat in page(ask(delta="0.0000001", mechanism_name="gaussian-queries"), "confirm")
    # Laplace noise spends none of it.
    assert "gives the unit away" not in page(ask(delta="0.0000001", mechanism_name="laplace-queries"), "confirm")
    assert "gives the unit away" not in page(ask(), "compare")


@pytest.mark.django_db
def test_the_page_of_the_budget_says_so_before_a_delta_is_asked_for(make_dataset, as_, alice):
    said = words(as_(alice).get(reverse("budget", args=[make_dataset(epsilon="").pk])))
    assert "with probability at most delta, the releases give the unit away" in said


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


@pytest.mark.django_db
def test_a_mean_has_no_bound_before_until_somebody_says_about_how_many_rows(ask, as_, alice, page):
    release = ask(MEAN)
    assert "Type about how many, below epsilon, and it is said here" in page(release, "compare")
    sent = {"epsilon": "1", "delta": "0", "beta": "0.05", "population": "200"}
    said = words(as_(alice).post(reverse("compare", args=[release.pk]), sent, follow=True))
    assert "if at least 200 rows are counted, the mean of age is within" in said
    assert "proved if at least 200 rows are counted" in said


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["laplace-numbers", "gaussian-numbers"])
def test_more_rows_make_the_bound_of_a_mean_smaller(ask, name):
    def alpha(rows):
        release = ask(MEAN, delta="0.0000001", mechanism_name=name, options={"expected_rows": rows})
        return services.releases.plan_of(release=release).expectation.alpha

    assert alpha(100) > 5 * alpha(1000) > 25 * alpha(10_000)


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
def test_no_page_before_the_release_shows_rho_with_twelve_digits(ask, page):
    release = ask(delta="0.0000001", mechanism_name="gaussian-queries")
    assert not re.search(r"\d\.\d{11,}", page(release, "compare"))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"epsilon": "0.12345678912"}, "epsilon 0.123457 exactly: epsilon 0.12345678912; or rho 0.00"),
        ({"epsilon": "0.5"}, "Charged to the budget epsilon 0.5 exactly: epsilon 0.5; or rho 0.1"),
    ],
)
def test_confirm_says_what_is_booked_to_the_last_digit(ask, page, choice, said):
    assert said in page(ask(**choice, mechanism_name="laplace-queries"), "confirm")


@pytest.mark.django_db
def test_one_table_is_not_called_one_of_one_and_one_deviation_no_range(ask, page):
    said = page(ask({"version": 1, "queries": [{"marginal": ["age", "sex"]}]}), "compare")
    assert "1, for the one table" in said
    assert "1 of 1" not in said
    assert not re.search(r"deviations ([\d.]+) to \1", said)
    assert "1 - beta" not in said


# The chart


@pytest.mark.django_db
def test_a_mechanism_keeps_its_colour_whatever_else_is_compared(ask):
    def colours(delta):
        rows = comparison.compared(services.releases.compare(release=ask(delta=delta)), None)
        (drawn,) = curves.bound_curves(rows, chosen=Fraction(1))
        colour = drawn.chart["layer"][0]["encoding"]["color"]
        domain = colour["scale"]["domain"]
        return {title: domain.index(title) for title in colour["legend"]["values"]}

    pure, approximate = colours("0"), colours("0.0000001")
    assert set(pure) < set(approximate)
    assert all(approximate[title] == place for title, place in pure.items())
    assert max(approximate.values()) < 14  # as many colours as charts.js has


@pytest.mark.django_db
def test_a_median_is_drawn_down_to_half_a_unit_and_no_further(ask):
    rows = comparison.compared(services.releases.compare(release=ask(MEDIAN, delta="0.0000001")), None)
    points = [each.alpha for each in curves.bound_points([row.plan for row in rows])]
    assert points
    assert min(points) >= 0.5


def test_ticks_of_the_bound_are_written_in_one_form_only():
    for alphas in ([3, 20_000], [0.1, 30_000], [200, 900]):
        points = [BoundPoint(mechanism="m", epsilon=1.0, alpha=float(alpha)) for alpha in alphas]
        axis = charts.bound_curves(points, chosen=1.0)["layer"][0]["encoding"]["y"]["axis"]
        assert axis["format"] == ",.12~g"
        assert all(str(tick).strip("0.")[0] in "125" for tick in axis["values"])


# Of little use


@pytest.mark.django_db
def test_no_chip_calls_a_useless_bound_the_smallest_and_the_page_says_that_none_is_of_use(ask, page, as_, alice):
    release = ask(epsilon="0.1")
    assert "it has the smallest" in page(release, "compare")
    sent = {"epsilon": "0.1", "delta": "0", "beta": "0.05", "population": "30"}
    said = words(as_(alice).post(reverse("compare", args=[release.pk]), sent, follow=True))
    assert "smallest bound" not in said
    assert "it has the smallest" not in said
    assert "expected to be closer" not in said
    assert "None of these would be of use. The closest is within ±" in said
    assert "of about 30 rows: the answers would say nothing" in said


@pytest.mark.django_db
def test_what_is_expected_of_a_fitted_table_is_held_against_the_rows_too(ask):
    plans = services.releases.compare(release=ask(epsilon="0.1"))
    rows = {row.mechanism.name: row for row in comparison.compared(plans, None, guess=20)}
    assert rows["marginal-fit"].is_unproved
    assert "of about 20 rows" in rows["marginal-fit"].says_little


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
