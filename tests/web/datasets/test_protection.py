"""Whom epsilon protects: declared once, changed freely until a budget is asked for, and fixed from then on."""

import contextlib
import json
import uuid
from fractions import Fraction

import pytest
from django.urls import reverse

from releases import services
from releases.engine.accounting.events import PureEvent
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.ledger import ledger, refusals, verification
from releases.models import Budget, BudgetRequest, Dataset, LedgerEntry, Release
from tests.web.conftest import COLUMNS, CSV
from tests.web.pages import body
from tests.web.past_the_guards import lift
from tests.web.steps import ask_for, protect, refuses


@pytest.fixture
def declared(ingest):
    dataset = ingest()
    services.datasets.declare_universe(dataset=dataset, columns=COLUMNS)
    return dataset


@pytest.fixture
def send(declared, as_, alice):
    given = {"kind": "row", "neighbours": "add_remove", "max_rows": "1", "id_column": ""}
    return lambda **data: as_(alice).post(reverse("protection", args=[declared.pk]), given | data)


BROKEN = [
    ({"kind": "person"}, "Column: nothing was chosen."),
    ({"kind": "person", "id_column": "person", "max_rows": "10001"}, "must be at most 10,000."),
    ({"kind": "person", "id_column": "age"}, "Column that tells people apart: 'age' is also declared as a column"),
    ({"neighbours": ""}, "What is kept private: nothing was chosen."),
]


def test_a_broken_rule_is_named_beside_the_field(send):
    refuses(send, BROKEN, max_rows="1")


# What was planned keeps its meaning

PERSON = PrivacyUnit(kind="person", id_column="person", max_rows=10)
REPLACE = NeighbouringRelation.REPLACE
BOTH = (
    "The plan protects one row with add/remove neighbours, and the budget protects one person (column person, at most "
    "10 rows each) with replace neighbours."
)


def now(dataset):
    return Dataset.objects.get(pk=dataset.pk)


def protect_people(dataset):
    services.datasets.declare_protection(dataset=now(dataset), unit=PERSON, neighbours=REPLACE)


def promise_otherwise(unit=PERSON, neighbours=REPLACE):
    """What no service does, and versions before did."""
    lift("budget_keeps_its_meaning")
    Budget.objects.update(unit=unit.to_json(), neighbours=neighbours.value)


def send_in(release, by):
    """Submit a draft as somebody holds it, with the plan that was made of that."""
    plan = services.releases.plan_of(release=release)
    return services.releases.submit_release(release=release, key=uuid.uuid4(), by=by, send=False, plan=plan)


def ask(dataset, by):
    return ask_for(now(dataset), by, "2")


def grant(dataset, by, reviewer):
    services.budgets.approve_request(request=ask(dataset, by), by=reviewer)


def nothing_is_charged():
    return not LedgerEntry.objects.filter(kind="charge").exists() and Budget.objects.get().spent_epsilon == 0


@pytest.fixture
def reviewed(settings):
    settings.REVIEW_ABOVE_EPSILON = "0.5"


@pytest.fixture
def waiting(reviewed, make_dataset, make_draft, alice):
    """A release of a row's protection that a reviewer has to see; no budget was asked for."""
    draft = make_draft(make_dataset(epsilon=""), epsilon="1")
    assert send_in(draft, alice) is None
    return draft


def test_a_release_that_waits_cannot_come_to_mean_less_than_its_budget(waiting, alice, sofia):
    """Submitted for one row, protection changed to a person of ten rows, budget asked for and granted, approved."""
    with contextlib.suppress(InvalidInput):
        protect_people(waiting.dataset)
    grant(waiting.dataset, alice, sofia)
    with contextlib.suppress(refusals.LedgerRefusal):
        services.reviews.approve_release(request=waiting.reviews.get(), by=sofia, send=False)
    services.execution.execute_release(release_id=waiting.pk)
    release, budget = Release.objects.get(), Budget.objects.get()
    assert release.state == "published"
    for said in (release.plan["schema"], release.result["receipt"]["schema"], release.entries.get().detail):
        assert (said["unit"], said["neighbours"]) == (budget.unit, budget.neighbours) == ({"kind": "row"}, "add_remove")
    assert list(verification.verify(budget)) == []


def test_a_release_that_waits_fixes_the_protection_at_every_door(waiting, as_, alice):
    """For a person on the page, with a codebook, and for a program; declared as it is already is no change."""
    with pytest.raises(InvalidInput, match=r"cannot be declared now\. Release 1 is awaiting review and was planned"):
        protect_people(waiting.dataset)
    client, url = as_(alice), reverse("protection", args=[waiting.dataset.pk])
    assert 'name="neighbours"' not in body(client.get(url))
    schema = {"version": 1, "unit": PERSON.to_json(), "neighbours": "replace", "columns": COLUMNS[:1]}
    for each in (
        client.post(url, {"kind": "row", "neighbours": "replace", "max_rows": "1"}),
        client.post(reverse("columns", args=[waiting.dataset.pk]), {"codebook": json.dumps(schema)}),
        client.put(f"/api/datasets/{waiting.dataset.pk}/schema", schema, content_type="application/json"),
    ):
        assert each.status_code == 400
        assert b"Release 1 is awaiting review" in each.content
    dataset = Dataset.objects.get()
    assert (len(dataset.declared), dataset.budget.unit) == (2, {"kind": "row"})
    protect(waiting.dataset)


def test_a_table_with_a_release_that_waits_joins_no_other_population(waiting, make_dataset):
    other = make_dataset(content=CSV + b"p0,20,male\n", unit=PERSON)
    with pytest.raises(InvalidInput, match=r"cannot be joined now\. Release 1 is awaiting review"):
        services.datasets.join_population(dataset=now(waiting.dataset), other=other)
    assert now(waiting.dataset).budget.unit == {"kind": "row"}


def test_a_release_of_another_table_of_the_population_fixes_it_and_is_not_named(waiting, ingest):
    second, third = ingest(CSV + b"p0,20,male\n"), ingest(CSV + b"p1,20,male\n")
    services.datasets.join_population(dataset=second, other=waiting.dataset)
    with pytest.raises(InvalidInput, match="A release of another table of this population is awaiting review"):
        protect_people(second)
    # It has no release of its own, so it can still go.
    services.datasets.declare_protection(dataset=third, unit=PERSON, neighbours=REPLACE)
    services.datasets.join_population(dataset=second, other=third)


def test_what_tells_people_apart_is_in_every_table_of_the_population(make_dataset, ingest):
    dataset = make_dataset(epsilon="")
    services.datasets.join_population(dataset=ingest(b"age,sex\n20,male\n"), other=dataset)
    with pytest.raises(InvalidInput, match="is not a column of every table of this population"):
        protect_people(dataset)


# Charged, run and verified for what the budget promises


@pytest.mark.parametrize(
    ("unit", "neighbours"),
    [
        (PrivacyUnit(), REPLACE),
        (PERSON, NeighbouringRelation.ADD_REMOVE),
        (PrivacyUnit(kind="person", id_column="person", max_rows=9), REPLACE),
    ],
)
def test_nothing_is_charged_for_another_unit_or_other_neighbours(make_dataset, alice, unit, neighbours):
    dataset = make_dataset()
    promise_otherwise()
    events = [PureEvent(epsilon=Fraction(1))]
    given = {"events": events, "delta": Fraction(0), "key": uuid.uuid4(), "actor": alice}
    release = services.releases.draft_release(dataset=now(dataset), by=alice)
    with pytest.raises(refusals.AnotherProtection, match="Plan it again") as refusal:
        ledger.charge(release=release, unit=unit, neighbours=neighbours, **given)
    assert unit.in_words() in refusal.value.planned
    assert nothing_is_charged()
    ledger.charge(release=release, unit=PERSON, neighbours=REPLACE, **given)


def test_a_request_that_was_taken_back_grants_nothing_once_the_protection_was_changed(make_dataset, alice, sofia):
    dataset = make_dataset(epsilon="")
    old = ask(dataset, alice)
    with pytest.raises(InvalidInput, match="cannot be changed once a budget was asked for"):
        protect_people(dataset)
    page = BudgetRequest.objects.select_related("budget").get()
    services.budgets.take_back_request(request=old, by=alice)
    protect_people(dataset)
    with pytest.raises(services.review_decisions.DecidedBefore):
        services.budgets.approve_request(request=page, by=sofia)
    assert not Budget.objects.get().is_granted
    grant(dataset, alice, sofia)
    assert LedgerEntry.objects.get().detail["unit"] == PERSON.to_json()


def test_a_worker_runs_nothing_that_protects_something_else(queued, unread, no_worker):
    promise_otherwise(neighbours=NeighbouringRelation.ADD_REMOVE)
    assert not services.execution.execute_release(release_id=queued.pk)
    queued.refresh_from_db()
    assert (queued.state, queued.result) == ("queued", None)


def test_a_session_answers_nothing_that_protects_something_else(session, unread, alice):
    promise_otherwise()
    with pytest.raises(refusals.AnotherProtection):
        services.sessions.ask_session(session=session, query={"sex": ["male"]}, by=alice)
    assert not session.answers.exists()


def test_a_certificate_is_not_planned_for_what_the_release_did_not_protect(published, alice):
    draft = services.certificates.draft_certificate(of=published, by=alice, epsilon="0.1")
    old = Release.objects.select_related("dataset__budget", "certifies__dataset__budget").get(pk=draft.pk)
    promise_otherwise()
    with pytest.raises(services.release_inputs.Refusal):
        services.releases.plan_of(release=Release.objects.get(pk=draft.pk))
    with pytest.raises(refusals.AnotherProtection):
        send_in(old, alice)


def faults():
    return [fault.what for fault in verification.verify(Budget.objects.get()) if "protect" in fault.what]


def test_the_audit_finds_charges_and_grants_of_another_protection(queued):
    assert faults() == []
    promise_otherwise()
    assert faults() == [BOTH.replace("The plan", "it").rstrip(".")] * 2  # the grant and the charge


def test_the_audit_finds_a_plan_that_protects_something_else_than_its_charge(queued):
    Release.objects.change(plan={**queued.plan, "schema": {**queued.plan["schema"], "neighbours": "replace"}})
    assert faults() == [
        "it protects one row with replace neighbours, and the budget protects one row with add/remove neighbours"
    ]


def test_the_audit_reads_what_old_entries_do_not_say_from_the_plan(queued):
    lift("ledger_no_update")
    for entry in LedgerEntry.objects.all():
        unsaid = ("unit", "neighbours") if entry.kind == "grant" else ("unit",)
        detail = {name: value for name, value in entry.detail.items() if name not in unsaid}
        LedgerEntry.objects.filter(pk=entry.pk).update(detail=detail)
    assert faults() == []
    Release.objects.change(plan={**queued.plan, "schema": {**queued.plan["schema"], "unit": PERSON.to_json()}})
    assert len(faults()) == 1
    Release.objects.change(plan=None)
    assert faults() == ["what it protects is unknown"]


def test_whoever_has_read_a_table_before_it_joined_another_spends_of_neither(make_dataset, make_draft, alice):
    joined = make_dataset()
    dataset = make_dataset(epsilon="", content=CSV + b"p0,20,male\n")
    draft = Release.objects.select_related("dataset__budget").get(pk=make_draft(dataset).pk)
    old = [Dataset.objects.select_related("budget").get(pk=dataset.pk) for _ in range(2)]
    services.datasets.join_population(dataset=dataset, other=joined)
    with pytest.raises(refusals.AnotherPopulation):
        send_in(draft, alice)
    with pytest.raises(InvalidInput, match="cannot be changed once a budget was asked for"):
        services.datasets.declare_protection(dataset=old[0], unit=PERSON, neighbours=REPLACE)
    with pytest.raises(InvalidInput, match="must be above the 2 that is granted"):
        ask_for(old[1], alice, "1")
    other = make_dataset(epsilon="", content=CSV + b"p1,20,male\n")
    with pytest.raises(InvalidInput, match="a budget was asked for on Survey itself"):
        services.datasets.join_population(dataset=now(dataset), other=other)
    assert not LedgerEntry.objects.filter(kind="charge").exists()
