"""What still fits a budget, and what a release would close: said where one decides, and true of the ledger."""

from __future__ import annotations

import re
import uuid
from fractions import Fraction

import pytest

from releases import services
from releases.engine.accounting.accountant import Price
from releases.engine.accounting.calibration import zcdp_budget
from releases.engine.accounting.events import DiscreteGaussianEvent, PureEvent
from releases.engine.accounting.filters import Caps, Policy, Totals, admits, amounts
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.ledger import ledger, refusals
from releases.ledger.capacity import closed_by, room
from releases.models import Budget
from releases.planning import comparison
from tests.web.pages import link

ROW = {"unit": PrivacyUnit(), "neighbours": NeighbouringRelation.ADD_REMOVE}
MILLIONTH = Fraction(1, 10**6)


def charge(dataset, by, event, delta=Fraction(0)):
    release = services.releases.draft_release(dataset=dataset, by=by)
    ledger.charge(release=release, **ROW, events=[event], delta=delta, key=uuid.uuid4(), actor=by)


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", ["0.5", "1"])
def test_as_many_releases_are_charged_as_the_table_says_and_no_more(make_dataset, alice, kind, epsilon):
    dataset = make_dataset(epsilon="4")
    charge(dataset, alice, PureEvent(epsilon=Fraction(1)))
    budget = Budget.objects.get()
    (said,) = (getattr(each, kind) for each in room(budget.totals, budget.caps) if each.epsilon == epsilon)
    delta = Fraction(0) if kind == "laplace" else Fraction(comparison.first_delta(budget))
    variance = 1 / (2 * zcdp_budget(epsilon=Fraction(epsilon), delta=delta).rho) if delta else None
    event = DiscreteGaussianEvent(noise_variance=variance) if delta else PureEvent(epsilon=Fraction(epsilon))
    for _ in range(said):
        charge(dataset, alice, event, delta)
    with pytest.raises(refusals.InsufficientBudget):
        charge(dataset, alice, event, delta)


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


@pytest.mark.django_db
def test_what_still_fits_and_what_a_release_closes_is_said_where_one_decides(as_, alice, make_dataset, make_draft):
    release = make_draft(make_dataset(epsilon="2"), epsilon="1.5")
    compared = as_(alice).get(link("compare", release))
    assert compared.context["fits"] == room(Totals(), Budget.objects.get().caps)
    # Outside of what is folded away.
    outside = re.sub(r"<details.*?</details>", "", compared.content.decode(), flags=re.DOTALL)
    assert "After this release, releases of epsilon" in outside
    fits = as_(alice).get(link("confirm", release)).context["page"].fits
    assert [(each.epsilon, each.laplace) for each in fits] == [("0.1", 5), ("0.5", 1), ("1", 0)]
