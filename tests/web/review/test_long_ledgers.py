"""One budget's page and the export are no larger, and ask no more, for a long ledger than for a short one."""

from __future__ import annotations

import uuid
from fractions import Fraction
from operator import add

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from releases.engine.accounting.filters import Totals
from releases.ledger import reports, verification
from releases.models import Budget, LedgerEntry, Release
from releases.models.release_contents import ReleaseResult
from tests.web.pages import body
from tests.web.past_the_guards import lift
from tests.web.steps import charge as book

pytestmark = pytest.mark.django_db


@pytest.fixture
def charge(make_dataset, alice, bob, monkeypatch):
    """So many more charges to a budget; every third one bob's, every seventh given back.

    The first is the ledger's own; the others are copies with other amounts, for it takes long to make many.
    """
    monkeypatch.setattr("releases.presentation.review.budget_page._asked", lambda release: "counts")
    dataset = make_dataset(epsilon="100")
    budget = Budget.objects.get(pk=dataset.budget.pk)

    def new_release(number, state):
        made = {"mechanism": f"kind {number % 2}", "state": state, "submitted_by": alice}
        result = ReleaseResult.objects.create(content={"receipt": {"answers": 1}})
        return Release(dataset=dataset, title="Tables", stored_result=result, **made)

    first = new_release(1, "queued")
    first.save()
    book(first, Fraction(1, 10**6), alice)
    # Entries are copied in here, past the ledger.
    for guard in ("budget_moves_with_an_entry", "ledgerentry_no_replace"):
        lift(guard)
    model = LedgerEntry.objects.get(release=first)

    def more(count, state="published"):
        Release.objects.filter(pk=first.pk).update(state=state)
        budget.refresh_from_db()
        states = ["cancelled" if number % 7 == 3 else state for number in range(count)]
        releases = [new_release(number, each) for number, each in enumerate(states)]
        Release.objects.bulk_create(releases)
        entries, spent, orders = [], budget.totals.amounts(), list(budget.totals.spent_orders)
        for number, release in enumerate(releases):
            times = number % 5 + 1
            shared = {"budget": budget, "release": release, "actor": alice if number % 3 else bob}
            shared |= {"detail": model.detail, "made_at": timezone.now(), "previous": model.previous}
            for sign in (1, -1) if number % 7 == 3 else (1,):
                amounts = {column: sign * times * getattr(model, column) for column in ("epsilon", "rho")}
                more_orders = [sign * times * each for each in model.orders]
                own = {"kind": "charge", "orders": more_orders} if sign > 0 else {"kind": "return", "orders": None}
                own |= {"key": uuid.uuid4(), "hash": uuid.uuid4().hex * 2}
                entries.append(LedgerEntry(sequence=budget.sequence + len(entries) + 1, **shared, **own, **amounts))
                for column, amount in amounts.items():
                    spent[f"spent_{column}"] += amount
                orders = list(map(add, orders, more_orders))
        LedgerEntry.objects.bulk_create(entries)
        last = {"sequence": entries[-1].sequence, "head": uuid.uuid4().hex * 2}
        Budget.objects.filter(pk=budget.pk).update(**last, spent_orders=orders, **spent)
        return Budget.objects.get(pk=budget.pk)

    return more


def test_a_budget_s_page_and_the_export_do_not_grow_with_the_ledger(charge, as_, sofia, monkeypatch):
    monkeypatch.setattr(verification, "verify", lambda budget: pytest.fail("it reads the whole ledger"))
    monkeypatch.setattr(reports, "work_out", lambda budgets: pytest.fail("it composes all that was charged"))
    client, found = as_(sofia), {}
    for size, more in ((10, 10), (150, 140), (800, 650)):
        budget = charge(more)
        for name, url in (("page", reverse("budget_detail", args=[budget.pk])), ("export", reverse("board_csv"))):
            client.get(url)
            with CaptureQueriesContext(connection) as queries:
                written = body(client.get(url))
            found[name, size] = len(queries), len(written), max(len(each["sql"]) for each in queries)
    for name in ("page", "export"):
        asked = {found[name, size][0] for size in (10, 150, 800)}
        assert len(asked) == 1, (name, found)
        # Numbers have more digits.
        assert found[name, 800][1] < 1.02 * found[name, 150][1], (name, found)
    assert found["page", 800][0] <= 21


def test_sums_by_person_and_mechanism_are_those_of_the_entries(charge):
    budget = charge(60)
    people, kinds = {}, {}
    for entry in LedgerEntry.objects.filter(kind="charge"):
        if LedgerEntry.objects.filter(kind="return", release=entry.release).exists():
            continue
        for sums, name in ((people, entry.actor.username), (kinds, entry.release.mechanism)):
            number, epsilon = sums.get(name, (0, 0))
            sums[name] = number + 1, epsilon + Fraction(entry.epsilon, 10**12)
    for shown, expected in zip(reports.uses_of(budget), (people, kinds), strict=True):
        assert {each.name: (each.releases, Fraction(each.epsilon)) for each in shown} == expected
        assert sum(float(each.share.removesuffix("%").lstrip("< ")) for each in shown) > 0


def test_what_is_reserved_is_the_sum_of_what_waits(charge):
    budget = charge(40, state="queued")
    (row,) = reports.standings([budget])
    assert row.held == budget.totals
    assert row.settled == Totals()
