"""The budget board: bars, totals, filters, export, freezing, and alerts said once."""

from __future__ import annotations

import csv
import io
import re
from fractions import Fraction

import pytest
from django.core import mail
from django.urls import reverse
from django.utils import timezone
from hypothesis import example, given
from hypothesis import strategies as st

from releases import services
from releases.engine.accounting import accountant, filters, tight_composition
from releases.engine.accounting.events import PureEvent
from releases.engine.accounting.filters import CLOSED, Caps, Policy, Totals
from releases.engine.domain.privacy import NeighbouringRelation
from releases.ledger import balances, refusals, reports
from releases.models import AuditEvent, Budget, BudgetAlert, LedgerEntry, Notice, share_of
from releases.services.notices import choose_mail
from tests.web.conftest import give, person
from tests.web.pages import body, field_value, inline_code, words
from tests.web.steps import again, execute, rule, submit

pytestmark = pytest.mark.django_db


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


# --- the bar ----------------------------------------------------------------------------------------------------------


def test_the_bar_tells_spent_from_reserved(dataset, spend, as_, sofia):
    spend(dataset, "0.5", run=True)
    spend(dataset, "0.75")
    page = as_(sofia).get("/review/budgets/")
    (shown,) = page.context["board"].table.rows
    own = as_(sofia).get(reverse("budget_detail", args=[dataset.budget.pk])).context["page"]
    for row in (reports.standings([Budget.objects.get()])[0], shown.balance, own.balance):
        assert (row.spent, row.reserved, row.left) == (25.0, 37.5, 37.5)
        assert (row.spent_text, row.reserved_text, row.left_text) == ("epsilon 0.5", "epsilon 0.75", "epsilon 0.75")
    said = "25% spent (epsilon 0.5), 37.5% reserved (epsilon 0.75), 37.5% left (epsilon 0.75)"
    assert f'aria-label="{said}"' in body(page)
    assert inline_code(page) == []


def test_a_charge_given_back_is_used_no_longer(dataset, spend, alice):
    services.releases.cancel_release(release=spend(dataset, "1"), by=alice)
    row = reports.standings([Budget.objects.get()])[0]
    assert (row.used, row.strict) == (0.0, "nothing")
    assert reports.uses(LedgerEntry.objects.charges_that_stand()) == ([], [])


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


def test_a_delta_that_is_used_up_leaves_room_for_releases_without_one(make_dataset, make_draft, alice):
    dataset = make_dataset(epsilon="3", delta="0.000001")
    release = make_draft(dataset, epsilon="0.6", delta="0.0000001", mechanism="gaussian-queries")
    submit(release, alice)
    row = reports.standings([Budget.objects.get()])[0]
    assert 0 < row.used <= 20.0
    assert float(row.left_text.removeprefix("epsilon ").removesuffix(" in one release")) >= 2.4


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


# --- filters and export -----------------------------------------------------------------------------------------------


@pytest.fixture
def two(make_dataset, spend, bob):
    """Two budgets; bob spent from the second."""
    first = make_dataset(epsilon="2")
    second = make_dataset(epsilon="4", content=b"person,age,sex\np1,30,male\n")
    Budget.objects.filter(pk=second.budget.pk).update(name="Census")
    spend(first, "1")
    spend(second, "1", by=bob)


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ["Census", "Survey"]),
        ({"dataset": "cens"}, ["Census"]),
        ({"dataset": "Survey"}, ["Census", "Survey"]),  # the second's table is called so too
        ({"person": "bob"}, ["Census"]),
        ({"person": "ali"}, ["Survey"]),
        ({"person": "nobody"}, []),
        ({"since": "2020-01-01"}, ["Census", "Survey"]),
        ({"since": "today", "until": "today"}, ["Census", "Survey"]),  # whole days of the site's zone
        ({"until": "2020-01-01"}, []),
    ],
)
def test_filters_choose_by_date_person_and_dataset(two, as_, sofia, filters, names):
    filters = {name: str(timezone.localdate()) if value == "today" else value for name, value in filters.items()}
    rows = csv.DictReader(io.StringIO(body(as_(sofia).get("/review/budgets.csv", filters))))
    assert [row["budget"] for row in rows] == names
    board = as_(sofia).get("/review/budgets/", filters).context["board"]
    assert [row.name for row in board.table.rows] == names
    # Half of this one is spent.
    assert [each.budget for each in board.alerts] == [name for name in names if name == "Survey"]


def test_the_export_holds_the_numbers_of_the_page(two, as_, sofia):
    response = as_(sofia).get("/review/budgets.csv")
    assert response["Content-Disposition"] == 'attachment; filename="budgets.csv"'
    row = list(csv.DictReader(io.StringIO(body(response))))[1]
    of = {"budget": "Survey", "owner": "alice", "policy": "zcdp", "epsilon": "2", "delta": "0.000001"}
    shares = {"spent_percent": "0.0", "reserved_percent": "50.0", "left_percent": "50.0"}
    spent = {"spent_epsilon": "0", "spent_delta": "0", "spent_rho": "0"}
    one = {"epsilon": "1", "delta": "0", "rho": "0.462117157261"}
    reserved, strict = ({f"{what}_{name}": each for name, each in one.items()} for what in ("reserved", "strict"))
    left = {"left_epsilon": "1", "left_delta": "", "after_the_fact_epsilon": "1", "after_the_fact_delta": "0"}
    assert row == {**of, **shares, **spent, **reserved, **strict, **left, "frozen": "no", "frozen_reason": ""}
    assert AuditEvent.objects.filter(action="export", detail="budgets.csv").exists()


def test_every_amount_of_the_export_is_a_number_that_a_spreadsheet_adds_up(two, make_dataset, spend, as_, sofia):
    fine = make_dataset(epsilon="9", delta="0.000001", content=b"person,age,sex\np1,30,male\np2,31,male\n")
    spend(fine, "0.25", run=True, times=8)
    services.budgets.freeze_budget(budget=fine.budget, by=sofia, reason="=A complaint.")
    rows = list(csv.DictReader(io.StringIO(body(as_(sofia).get("/review/budgets.csv")))))
    numbers = ("percent", "epsilon", "delta", "rho")
    assert all(float(each) >= 0 for row in rows for head, each in row.items() if each and head.endswith(numbers))
    (row,) = reports.standings([again(fine.budget)])
    # Where the finer sum counts, less is gone than the epsilons add up to.
    assert (row.is_fine, row.spent_text, row.reserved_text) == (True, "epsilon 2", "")
    assert row.spent < 100 * 2 / 9
    assert row.left_text.endswith(" in one release")
    (frozen,) = [row for row in rows if row["frozen"] == "yes"]
    assert frozen["frozen_reason"] == "'=A complaint."
    assert sum(float(row["strict_epsilon"]) for row in rows) == 4


# --- freezing ---------------------------------------------------------------------------------------------------------


def test_freezing_needs_a_reason_and_keeps_it(dataset, draft, as_, sofia, alice):
    url = reverse("budget_detail", args=[dataset.budget.pk])
    assert as_(sofia).post(url, {"action": "freeze", "reason": " "}).status_code == 400
    assert not Budget.objects.get().is_frozen
    as_(sofia).post(url, {"action": "freeze", "reason": "A complaint."})
    services.budgets.freeze_budget(budget=dataset.budget, by=sofia, reason="A second reason.")
    assert "A complaint." in as_(sofia).get(url).context["page"].frozen
    with pytest.raises(refusals.Frozen):
        submit(draft, alice)
    as_(sofia).post(url, {"action": "unfreeze", "reason": "Settled."})
    assert submit(draft, alice)
    said = AuditEvent.objects.filter(action__in=["freeze", "unfreeze"]).order_by("pk").values_list("actor", "detail")
    assert list(said) == [(sofia.pk, "A complaint."), (sofia.pk, "Settled.")]


def test_reviewers_outside_the_deciding_group_cannot_freeze(dataset, group, as_, sofia, bob):
    give(bob, "reviewer")
    rule(reviewers=group)
    url = reverse("budget_detail", args=[dataset.budget.pk])
    assert as_(sofia).post(url, {"action": "freeze", "reason": "No."}).status_code == 403
    assert not Budget.objects.get().is_frozen
    assert as_(bob).post(url, {"action": "freeze", "reason": "Yes."}).status_code == 302
    assert Budget.objects.get().is_frozen


# --- alerts -----------------------------------------------------------------------------------------------------------


def test_alerts_come_at_half_at_four_fifths_and_at_all_once_each(dataset, spend, told, settings):
    settings.ALERT_ADDRESSES = ["privacy@example.org"]
    said = []
    with pytest.raises(refusals.InsufficientBudget):
        spend(dataset, "2.5")
    assert not BudgetAlert.objects.exists()
    for epsilon in ("0.999999", "0.000001", "0.2", "0.3", "0.1", "0.4"):
        with told():
            spend(dataset, epsilon)
        said.append(len(mail.outbox))
    for reader in ("alice@example.org", "grantor@example.org", "privacy@example.org"):
        assert [message.subject for message in mail.outbox if message.to == [reader]] == [
            "At least 50% of the budget is spent: Survey",
            "At least 80% of the budget is spent: Survey",
            "The budget is spent: Survey",
        ]
    assert said == [0, 3, 3, 3, 6, 9]


def test_one_large_release_sends_one_e_mail(dataset, spend, told):
    with told():
        spend(dataset, "1.7")
    to_alice = [message.subject for message in mail.outbox if message.to == ["alice@example.org"]]
    assert to_alice == ["At least 80% of the budget is spent: Survey"]
    assert sorted(BudgetAlert.objects.values_list("percent", flat=True)) == [50, 80]


def test_reviewers_hear_of_a_budget_that_runs_out_on_their_page_and_by_e_mail_if_they_want(dataset, spend, told, as_):
    tess, tom = person("tess", "reviewer"), person("tom", "reviewer")
    choose_mail(person=tom, wants_mail=False)
    with told():
        spend(dataset, "1")
    to = sorted(address for message in mail.outbox for address in message.to)
    assert to == ["alice@example.org", "grantor@example.org", "tess@example.org"]
    for reviewer in (tess, tom):
        page = as_(reviewer).get("/notices/")
        assert "At least 50% of the budget is spent: Survey" in words(page)
        assert reverse("budget_detail", args=[dataset.budget.pk]) in body(page)


def test_only_members_of_the_deciding_group_hear_of_a_budget_that_runs_out(
    dataset, spend, told, group, sofia, alice, bob
):
    give(alice, "reviewer")
    give(bob, "reviewer")
    rule(reviewers=group)
    with told():
        spend(dataset, "1")
    # Alice is a member too, and is told once, as the owner.
    assert sorted(message.to for message in mail.outbox) == [["alice@example.org"], ["bob@example.org"]]
    assert not Notice.objects.filter(person=sofia).exists()
    assert Notice.objects.get(person__username="alice").path == f"/datasets/{dataset.pk}/"


def test_a_tighter_figure_is_shown_once_it_is_worked_out_and_the_page_itself_composes_nothing(
    make_dataset, spend, as_, sofia, monkeypatch
):
    dataset = make_dataset(epsilon="9", delta="0.000001")
    spend(dataset, "0.1", times=8)
    client, own = as_(sofia), reverse("budget_detail", args=[dataset.budget.pk])
    part = {"headers": {"HX-Request": "true"}}

    def shown():
        (row,) = client.get("/review/budgets/").context["board"].table.rows
        return row.strict, row.after

    with monkeypatch.context() as patched:
        patched.setattr(tight_composition, "planned", lambda *_, **__: pytest.fail("worked out"))
        page = client.get("/review/budgets/", {"dataset": "Surv"})
        assert 'hx-get="?dataset=Surv&amp;tighter=1" hx-trigger="load"' in body(page)
        assert '<a href="?dataset=Surv&amp;tighter=1">' in body(page), "without JavaScript"
        assert 'hx-get="?tighter=1"' in body(client.get(own))
        row = reports.standings([Budget.objects.get()])[0]
        assert (row.strict, row.after_the_fact) == ("epsilon 0.8", "epsilon 0.799842, delta 0.000001")
    fragment = client.get("/review/budgets/", {"dataset": "Surv", "tighter": "1"}, **part)
    assert "<html" not in body(fragment)
    assert "hx-get" not in body(fragment), "asked once"
    figures = reports.tighter(Budget.objects.get())
    found = [float(re.match(r"epsilon ([\d.]+)", each.stated)[1]) for each in figures]
    assert found == sorted(found)
    assert found[0] <= 0.8
    with monkeypatch.context() as patched:
        patched.setattr(tight_composition, "planned", lambda *_, **__: pytest.fail("worked out before"))
        assert shown() == ("epsilon 0.8", "epsilon 0.799827, delta 0.000001")
        assert "hx-get" not in body(client.get("/review/budgets/"))
        row = reports.standings([Budget.objects.get()])[0]
        assert row.tighter.stated == "epsilon 0.799827, delta 0.000001" != row.after_the_fact
    fragment = client.get(own, {"tighter": "1"}, **part)
    assert "<html" not in body(fragment)
    assert row.tighter.stated in words(fragment)
    spend(dataset, "0.1")
    assert shown()[1] != "epsilon 0.799827, delta 0.000001", "what was worked out is of the past"


@pytest.mark.parametrize(
    "wrong", [{"since": "2026-11-23", "until": "2026-11-20"}, {"since": "soon", "person": "nobody"}]
)
def test_a_filter_that_is_wrong_filters_nothing_and_keeps_what_was_typed(two, as_, sofia, wrong):
    page = as_(sofia).get("/review/budgets/", wrong)
    assert page.status_code == 400
    assert page.context["form"].errors
    assert {name: field_value(page, name) for name in wrong} == wrong
    assert len(page.context["board"].table.rows) == 2
    assert f'href="{reverse("board_csv")}"' in body(page), "so that it leads to no error page"
    assert as_(sofia).get(reverse("board_csv"), wrong).status_code == 400
