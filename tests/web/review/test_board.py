"""The budget board: bars, totals, filters, export, freezing, and alerts said once."""

import csv
import io
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from django.core import mail
from django.urls import reverse
from hypothesis import example, given
from hypothesis import strategies as st

from releases import services
from releases.display.charts.spending import StepPoint, spending_steps
from releases.engine.accounting import accountant, filters
from releases.engine.accounting.events import PureEvent
from releases.engine.accounting.filters import CLOSED, Caps, Policy, Totals
from releases.engine.domain.privacy import NeighbouringRelation
from releases.ledger import balances, refusals, reports
from releases.models import AuditEvent, Budget, BudgetAlert, LedgerEntry, Notice, share_of
from tests.web.conftest import give
from tests.web.pages import body
from tests.web.steps import execute, rule, submit


@pytest.mark.parametrize(("hours", "days"), [(1, 1), (30, 2), (71, 4), (13 * 24, 14)])
def test_the_chart_of_a_budget_has_one_tick_a_day_and_the_first_at_the_day_s_beginning(hours, days):
    now = datetime(2026, 3, 31, 23, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    spent = [StepPoint(budget="a", at=now.astimezone(UTC) - timedelta(hours=hours), used=10.0)]
    across = spending_steps(spent, until=now, places={"a": 0})["encoding"]["x"]
    assert across["axis"]["tickCount"] == {"interval": "day", "step": 1}
    start, end = across["scale"]["domain"]
    assert start == f"{datetime(2026, 3, 31) - timedelta(days=days - 1):%Y-%m-%d}T00:00:00.000Z"
    # The clock of the site's zone.
    assert end == "2026-03-31T23:30:00.000Z"


@pytest.fixture
def spend(make_draft, alice):
    """Charge a release, and publish it if asked; or so many of them."""

    def charge(dataset, epsilon, *, run=False, by=None, times=1):
        for _ in range(times):
            release = make_draft(dataset, epsilon=epsilon)
            submit(release, by or alice)
            if run:
                assert execute(release)
        return release

    return charge


@pytest.fixture
def told(worker_round):
    # What was told when the budget was granted is not looked at here.
    Notice.objects.all().delete()
    return worker_round


def test_the_bar_tells_spent_from_reserved_and_the_sums_are_of_what_was_not_given_back(
    dataset, spend, as_, alice, bob, sofia
):
    spend(dataset, "0.5", run=True)
    spend(dataset, "0.5", by=bob)
    services.releases.cancel_release(release=spend(dataset, "0.75"), by=alice)
    spend(dataset, "0.25")
    (shown,) = as_(sofia).get("/review/budgets/").context["board"].table.rows
    own = as_(sofia).get(reverse("budget_detail", args=[dataset.budget.pk])).context["page"]
    for row in (reports.standings([Budget.objects.get()])[0], shown.balance, own.balance):
        assert (row.spent, row.reserved, row.left) == (25.0, 37.5, 37.5)
        assert (row.spent_text, row.reserved_text, row.left_text) == ("epsilon 0.5", "epsilon 0.75", "epsilon 0.75")
    for people, mechanisms in (reports.uses_of(dataset.budget), reports.uses(LedgerEntry.objects.charges_that_stand())):
        found = {each.name: (each.releases, Fraction(each.epsilon)) for each in people}
        assert found == {"alice": (2, Fraction(3, 4)), "bob": (1, Fraction(1, 2))}
        assert [(each.releases, Fraction(each.epsilon)) for each in mechanisms] == [(3, Fraction(5, 4))]


amounts = st.integers(min_value=0, max_value=3 * 10**12) | st.just(CLOSED)
deltas = st.integers(min_value=0, max_value=2 * 10**12) | st.just(CLOSED)


@given(st.sampled_from(list(Policy)), amounts, deltas, amounts, deltas, amounts)
def test_all_is_used_exactly_when_no_branch_admits_a_release_without_a_delta(policy, epsilon, delta, rho, other, more):
    budget = Fraction(0) if policy is Policy.PURE else Fraction(1, 10**6)
    caps = Caps.of(policy, epsilon=Fraction(2), delta=budget)
    spent = Totals(spent_epsilon=epsilon, spent_delta=delta, spent_rho=rho, spent_rho_delta=other)
    share = share_of(spent, caps)
    assert 0 <= share <= 1
    one_unit = Totals(spent_epsilon=1, spent_rho=1)
    assert (share < 1) == any(branch.holds(spent.plus(one_unit)) for branch in caps.branches)
    assert share_of(spent.plus(Totals(spent_epsilon=more, spent_rho=more)), caps) >= share


@given(
    epsilon=st.integers(0, 3 * 10**12),
    rho=st.integers(0, 10**12),
    policy=st.sampled_from(Policy),
    delta=st.integers(0, 10**12),
)
@example(epsilon=0, rho=482_189_145_460, policy=Policy.ZCDP, delta=100_000_000_001)
def test_what_is_shown_as_left_fits_and_what_is_shown_as_spent_is_no_less_than_it_is(epsilon, rho, policy, delta):
    caps = Caps.of(policy, epsilon=Fraction(2), delta=Fraction(0 if policy is Policy.PURE else "0.000001"))
    spent = Totals(spent_epsilon=epsilon, spent_rho=rho, spent_delta=0 if policy is Policy.PURE else delta)
    if not any(branch.holds(spent) for branch in caps.branches):
        return
    share = share_of(spent, caps)
    assert Fraction(str(balances.per_cent(share))) >= 100 * share
    said = balances.left_text(spent, caps).removesuffix(" in one release")
    assert said.startswith("epsilon ")
    left = Fraction(said.removeprefix("epsilon ").split(",")[0])
    assert (left > 0) or share > Fraction(99, 100)
    if left:
        given = {"delta": Fraction(0), "neighbours": NeighbouringRelation.ADD_REMOVE}
        assert filters.admits(spent, accountant.price([PureEvent(epsilon=left)], **given), caps)
    if not balances.is_fine(spent, caps):
        # Plain sums: what is spent and what is left come to what was granted.
        assert 0 <= 2 - (Fraction(epsilon, 10**12) + left) < Fraction(1, 10**6)


def test_the_export_holds_the_numbers_of_the_page(dataset, spend, as_, sofia):
    spend(dataset, "1")
    Budget.objects.update(name="=1+1")
    (row,) = csv.DictReader(io.StringIO(body(as_(sofia).get("/review/budgets.csv"))))
    of = {"budget": "'=1+1", "owner": "alice", "policy": "zcdp", "epsilon": "2", "delta": "0.000001"}
    shares = {"spent_percent": "0.0", "reserved_percent": "50.0", "left_percent": "50.0"}
    spent = {"spent_epsilon": "0", "spent_delta": "0", "spent_rho": "0"}
    one = {"epsilon": "1", "delta": "0", "rho": "0.462117157261"}
    reserved, strict = ({f"{what}_{name}": each for name, each in one.items()} for what in ("reserved", "strict"))
    left = {"left_epsilon": "1", "left_delta": "", "after_the_fact_epsilon": "1", "after_the_fact_delta": "0"}
    assert row == {**of, **shares, **spent, **reserved, **strict, **left, "frozen": "no", "frozen_reason": ""}
    assert AuditEvent.objects.filter(action="export", detail="budgets.csv").exists()


def test_freezing_needs_a_reason_and_is_for_those_who_decide(dataset, group, draft, as_, sofia, bob, alice):
    url = reverse("budget_detail", args=[dataset.budget.pk])
    give(bob, "reviewer")
    rule(reviewers=group)
    assert as_(bob).post(url, {"action": "freeze", "reason": " "}).status_code == 400
    assert as_(sofia).post(url, {"action": "freeze", "reason": "No."}).status_code == 403
    assert not Budget.objects.get().is_frozen
    assert as_(bob).post(url, {"action": "freeze", "reason": "A complaint."}).status_code == 302
    services.budgets.freeze_budget(budget=dataset.budget, by=bob, reason="A second reason.")
    assert "A complaint." in as_(bob).get(url).context["page"].frozen
    with pytest.raises(refusals.Frozen):
        submit(draft, alice)


def test_alerts_come_at_half_at_four_fifths_and_at_all_once_each(dataset, spend, told, settings):
    settings.ALERT_ADDRESSES = ["privacy@example.org"]
    with pytest.raises(refusals.InsufficientBudget):
        spend(dataset, "2.5")
    assert not BudgetAlert.objects.exists()
    said = []
    for epsilon in ("0.999999", "0.000001", "0.2", "0.3", "0.1", "0.4"):
        with told():
            spend(dataset, epsilon)
        said.append(len(mail.outbox))
    assert said == [0, 3, 3, 3, 6, 9]
    for reader in ("alice@example.org", "grantor@example.org", "privacy@example.org"):
        assert [message.subject for message in mail.outbox if message.to == [reader]] == [
            "At least 50% of the budget is spent: Survey",
            "At least 80% of the budget is spent: Survey",
            "The budget is spent: Survey",
        ]


def test_a_tighter_figure_is_shown_once_it_is_worked_out_and_until_the_next_charge(make_dataset, spend, as_, sofia):
    dataset = make_dataset(epsilon="9", delta="0.000001")
    spend(dataset, "0.1", times=8)

    def shown():
        (row,) = as_(sofia).get("/review/budgets/").context["board"].table.rows
        return row.strict, row.after

    assert shown() == ("epsilon 0.8", "")
    as_(sofia).get("/review/budgets/", {"tighter": "1"}, headers={"HX-Request": "true"})
    assert shown() == ("epsilon 0.8", "epsilon 0.799827, delta 0.000001")
    spend(dataset, "0.1")
    assert shown()[1] != "epsilon 0.799827, delta 0.000001", "what was worked out is of the past"
