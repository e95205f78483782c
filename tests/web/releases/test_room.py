"""What a release leaves of the budget, what it would close, and what epsilon and a bound mean in words."""

from fractions import Fraction
from math import exp

import pytest

from releases import services
from releases.engine.accounting.accountant import Price
from releases.engine.accounting.filters import Caps, Policy, Totals, admits, amounts
from releases.engine.domain.privacy import privacy_budget
from releases.ledger import refusals
from releases.ledger.capacity import closed_by, room
from releases.models import Budget
from releases.planning import comparison
from releases.planning.epsilon_meaning import belief_after
from tests.engine.telling import categories, planned
from tests.web.pages import link, visible_words, words
from tests.web.steps import charge

MILLIONTH = Fraction(1, 10**6)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", ["0.5", "1"])
def test_as_many_releases_are_charged_as_the_table_says_and_no_more(make_dataset, alice, kind, epsilon):
    dataset = make_dataset(epsilon="4")
    charge(dataset, "1", alice)
    budget = Budget.objects.get()
    (said,) = (getattr(each, kind) for each in room(budget.totals, budget.caps) if each.epsilon == epsilon)
    delta = Fraction(0) if kind == "laplace" else Fraction(comparison.first_delta(budget))
    plan = planned(
        f"{kind}-queries", categories([2]), {"marginal": ["c0"]}, budget=privacy_budget(epsilon=epsilon, delta=delta)
    )
    (event,) = plan.events
    for _ in range(said):
        charge(dataset, event, alice, delta=delta)
    with pytest.raises(refusals.InsufficientBudget):
        charge(dataset, event, alice, delta=delta)


def test_a_budget_for_pure_releases_has_no_room_for_gaussian_noise_and_more_than_a_thousand_are_not_counted():
    found = room(Totals(), Caps.of(Policy.PURE, epsilon=Fraction(3), delta=Fraction(0)))
    shown = [(each.epsilon, each.laplace, each.gaussian_text) for each in found]
    assert shown == [("0.1", 30, "–"), ("0.5", 6, "–"), ("1", 3, "–")]
    found = room(Totals(), Caps.of(Policy.ZCDP, epsilon=Fraction(10), delta=MILLIONTH))
    assert found[0].gaussian_text == "1,000 or more"


def test_what_a_release_closes_is_said_in_one_sentence_and_nothing_where_it_closes_nothing():
    caps = Caps.of(Policy.APPROX, epsilon=Fraction(2), delta=MILLIONTH)

    def after(epsilon):
        units = int(Fraction(epsilon) * 10**12)
        price = Price(pure_epsilon=units, epsilon=units, delta=0, rho=None, rho_delta=0)
        assert admits(Totals(), price, caps)
        return amounts(price, policy=caps.policy)

    assert closed_by(before=Totals(), after=after("0.5"), caps=caps) == ""
    assert closed_by(before=Totals(), after=after("1.2"), caps=caps) == (
        "After this release, releases of epsilon 1 or more no longer fit."
    )
    assert "of epsilon 0.1" in closed_by(before=Totals(), after=after("1.95"), caps=caps)


def test_what_is_left_really_fits_and_no_more_does(dataset, make_draft):
    plan = services.releases.plan_of(release=make_draft(dataset, epsilon="0.3"))
    (row,) = comparison.compared([plan], Budget.objects.get())
    assert (row.leaves.amount, row.leaves.more.number) == ("epsilon 1.7", 5)
    assert row.leaves.more_text == "about 5 more releases like this fit"


@pytest.mark.parametrize(("prior", "epsilon"), [(0.01, 3.0), (0.5, 0.1)])
def test_the_belief_that_is_shown_is_the_highest_that_epsilon_allows(prior, epsilon):
    highest = prior * exp(epsilon) / (prior * exp(epsilon) + 1 - prior)
    shown = belief_after(Fraction(str(prior)), Fraction(str(epsilon)))
    assert float(shown.rstrip("%")) == pytest.approx(100 * highest, rel=0.005)


def test_confirm_says_what_is_booked_to_the_last_digit(dataset, make_draft, as_, alice):
    page = as_(alice).get(link("confirm", make_draft(dataset, epsilon="0.12345678912")))
    assert "epsilon 0.123457 Exact charge epsilon 0.12345678912; or rho 0.00" in words(page)
    assert "rho" not in visible_words(page)
