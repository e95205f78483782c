"""The very same rows of two people who see nothing of each other: one budget, by the reviewer's hand."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.ledger import ledger
from releases.models import AuditEvent, Budget, BudgetRequest, Dataset, EntryKind, LedgerEntry, Notice, Organisation
from tests.web.conftest import COLUMNS, CSV, WORKLOAD, give, person
from tests.web.pages import words

pytestmark = pytest.mark.django_db


@pytest.fixture
def ask(make_dataset):
    """Somebody uploads alice's rows, declares them and asks for a budget."""

    def request(owner, **more):
        dataset = make_dataset(owner=owner, epsilon="", **more)
        Dataset.objects.filter(pk=dataset.pk).update(group=None)
        return services.request_budget(
            dataset=dataset, epsilon="3", delta="0.000001", policy=Policy.ZCDP, reason="Mine.", by=owner
        )

    return request


def grants():
    return LedgerEntry.objects.filter(kind=EntryKind.GRANT).count()


def page_of(client, request):
    return words(client.get(reverse("budget_request", args=[request.pk])))


def test_the_reviewer_s_page_says_whose_rows_they_are_and_what_approving_does(dataset, ask, charlie, sofia, as_):
    said = page_of(as_(sofia), ask(charlie))
    assert "The very same rows are in Survey (alice), whose people have a budget of their own." in said
    assert "Granted is epsilon 2, delta 0.000001 in all;" in said
    assert "Approving grants nothing new: these tables then spend from that budget" in said
    assert "Are these the same people?" not in said


def test_the_reviewer_s_page_says_nothing_of_other_rows(dataset, ask, charlie, sofia, as_):
    assert "very same rows" not in page_of(as_(sofia), ask(charlie, content=CSV + b"p200,30,male\n"))


def test_approving_joins_the_tables_to_the_budget_there_is_and_grants_nothing_new(dataset, ask, charlie, sofia, as_):
    request = ask(charlie)
    url = reverse("budget_request", args=[request.pk])
    data = {"epsilon": "3", "delta": "0.000001", "note": "Ask alice too.", "decision": "approve"}
    assert as_(sofia).post(url, data).status_code == 302
    assert grants() == 1
    assert list(Budget.objects.all()) == [dataset.budget]
    assert set(dataset.budget.datasets.values_list("owner__username", flat=True)) == {"alice", "charlie"}
    request.refresh_from_db()
    assert (request.state, request.granted_epsilon, request.budget) == ("approved", "2", dataset.budget)
    assert request.note == "Ask alice too."
    assert list(ledger.verify(dataset.budget)) == []
    mine = Dataset.objects.get(owner=charlie)
    recorded = AuditEvent.objects.filter(actor=sofia).order_by("-pk").values_list("action", "object_id")[:2]
    assert set(recorded) == {("approve", str(request.pk)), ("declare", str(mine.pk))}
    told = Notice.objects.get(person=charlie)
    assert told.path == f"/datasets/{mine.pk}/"
    assert told.text == "You asked for epsilon 3; epsilon 2 was granted.\nThe reviewer wrote: Ask alice too."


def test_both_spend_from_the_one_budget_afterwards(dataset, ask, charlie, sofia, make_queued, make_draft):
    services.approve_request(request=ask(charlie), by=sofia)
    make_queued(dataset, epsilon="1.5")
    release = make_draft(Dataset.objects.get(owner=charlie), epsilon="1.5")
    with pytest.raises(ledger.InsufficientBudget):
        services.submit_release(release=release, key=release.pk, by=charlie, send=False)


@pytest.mark.parametrize("first", ["alice", "charlie"])
def test_of_two_strangers_who_ask_whoever_is_granted_first_has_the_budget_of_both(
    ask, alice, charlie, sofia, first, as_
):
    asked = {"alice": ask(alice), "charlie": ask(charlie)}
    assert asked["alice"].budget != asked["charlie"].budget
    earlier = asked.pop(first)
    (later,) = asked.values()
    assert "for which no budget was granted yet. Whichever is granted first" in page_of(as_(sofia), earlier)
    services.approve_request(request=earlier, by=sofia, epsilon="2")
    services.approve_request(request=later, by=sofia)
    assert grants() == 1
    assert Budget.objects.get() == earlier.budget == later.budget
    assert Budget.objects.get().epsilon == "2"


def test_a_different_unit_is_refused_with_the_reason_and_nothing_is_decided(dataset, ask, charlie, sofia, as_):
    request = ask(charlie, unit=PrivacyUnit(kind="person", id_column="person", max_rows=2))
    assert "It protects one row with add remove neighbours, which does not add up with this one: deny" in page_of(
        as_(sofia), request
    )
    response = as_(sofia).post(
        reverse("budget_request", args=[request.pk]),
        {"epsilon": "3", "delta": "0.000001", "note": "", "decision": "approve"},
    )
    assert response.status_code == 400
    assert "has a budget already, for the very same rows." in words(response)
    assert "deny the request, or ask back" in words(response)
    request.refresh_from_db()
    assert request.state == "waiting"
    assert not request.budget.is_granted
    services.deny_request(request=request, by=sofia, note="Talk to alice.")


def test_rows_that_were_deleted_are_recognised_all_the_same(dataset, ask, alice, charlie, sofia):
    services.delete_rows(dataset=dataset, by=alice)
    services.approve_request(request=ask(charlie), by=sofia)
    assert grants() == 1


def test_a_frozen_request_s_tables_do_not_slip_out_of_the_frost(dataset, ask, charlie, sofia):
    request = ask(charlie)
    services.freeze_budget(budget=request.budget, by=sofia, reason="Wait.")
    with pytest.raises(InvalidInput, match="This one is frozen"):
        services.approve_request(request=request, by=sofia)


def test_under_the_two_person_rule_the_second_approval_joins(dataset, ask, charlie, sofia):
    Organisation.objects.create(upload_cap_bytes=2**30, is_two_person=True)
    request = ask(charlie)
    services.approve_request(request=request, by=sofia, note="I think so.")
    assert request.budget != dataset.budget
    services.approve_request(request=request, by=person("rita", "reviewer"))
    assert request.budget == dataset.budget
    assert request.note == "I think so."
    assert grants() == 1


def test_the_joined_budget_can_be_raised_for_both(dataset, ask, charlie, sofia):
    services.approve_request(request=ask(charlie), by=sofia)
    mine = Dataset.objects.get(owner=charlie)
    more = services.request_budget(
        dataset=mine, epsilon="4", delta="0.000001", policy=Policy.ZCDP, reason="", by=charlie
    )
    services.approve_request(request=more, by=sofia)
    assert Budget.objects.get().epsilon == "4"


def test_a_copy_put_into_a_granted_population_is_shown_to_the_reviewer_and_stops_its_growth(
    dataset, make_dataset, upload_file, charlie, sofia, as_
):
    """Refusing the curator would tell him whose rows they are."""
    own = make_dataset(owner=charlie, content=CSV + b"p200,30,male\n")
    give(charlie, "curator")
    copy = services.ingest_dataset(owner=charlie, title="Guess", source=upload_file())
    services.join_population(dataset=copy, other=own, by=charlie)
    page = words(as_(sofia).get(reverse("budget_detail", args=[own.budget.pk])))
    assert "The very same rows are in Survey (alice), which spends from another budget." in page
    more = services.request_budget(
        dataset=own, epsilon="4", delta="0.000001", policy=Policy.ZCDP, reason="", by=charlie
    )
    with pytest.raises(InvalidInput, match="There are two budgets for the same rows already"):
        services.approve_request(request=more, by=sofia)


def test_the_reviewer_of_a_release_is_told_of_a_copy_in_another_granted_population_and_the_curator_is_not(
    dataset, make_dataset, make_draft, upload_file, charlie, sofia, as_
):
    own = make_dataset(owner=charlie, content=CSV + b"p200,30,male\n")
    give(charlie, "curator")
    copy = services.ingest_dataset(owner=charlie, title="Guess", source=upload_file())
    services.join_population(dataset=copy, other=own, by=charlie)
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.5")
    release = make_draft(own, epsilon="1")
    services.submit_release(release=release, key=release.pk, by=charlie, send=False)
    said = "The very same rows are in Survey (alice), which spends from another budget."
    assert said in words(as_(sofia).get(reverse("release_request", args=[release.reviews.get().pk])))
    for page in ("dataset_detail", "protection", "budget"):
        assert "very same rows" not in words(as_(charlie).get(reverse(page, args=[copy.pk])))


def test_the_command_line_joins_too(dataset, upload_file, tmp_path, capsys):
    schema = tmp_path / "schema.json"
    schema.write_text(
        json.dumps({"version": 1, "columns": COLUMNS, "unit": PrivacyUnit().to_json(), "neighbours": "add_remove"})
    )
    workload = tmp_path / "workload.json"
    workload.write_text(json.dumps(WORKLOAD))
    call_command(
        "release",
        table=upload_file(),
        schema=schema,
        workload=workload,
        mechanism="laplace-queries",
        epsilon="1",
        budget="3",
        out=tmp_path / "out",
    )
    assert "This content is on the site already, so nothing new was granted." in capsys.readouterr().err
    assert grants() == 1
    assert Budget.objects.get().spent_epsilon == 10**12
    assert BudgetRequest.objects.get(requested_by__username="operator").state == "approved"


def disguised(line):
    """A row of CSV as another program may have written it: the same once it is counted."""
    person, age, sex = line.split(b",")
    return person + b"-," + age + b".0, " + sex + b" "


DISGUISED = b"\n".join([CSV.splitlines()[0], *map(disguised, reversed(CSV.splitlines()[1:]))]) + b"\n"


def test_rows_that_are_counted_the_same_are_the_very_same_rows(dataset, ask, charlie, sofia, as_):
    """Spaces, another way to write numbers, another order, and another column that is not declared."""
    request = ask(charlie, content=DISGUISED)
    assert Dataset.objects.get(owner=charlie).digest != dataset.digest
    services.take_fingerprints()
    assert "The very same rows are in Survey (alice)" in page_of(as_(sofia), request)
    services.approve_request(request=request, by=sofia)
    assert grants() == 1
    assert Budget.objects.get().datasets.count() == 2


def test_they_are_recognised_where_no_worker_has_looked_yet(dataset, ask, charlie, sofia):
    services.approve_request(request=ask(charlie, content=DISGUISED), by=sofia)
    assert grants() == 1


def test_a_table_that_is_declared_anew_is_compared_anew(dataset, ask, charlie, sofia):
    request = ask(charlie, content=DISGUISED.replace(b"18.0", b"18.5"))
    services.take_fingerprints()
    mine = Dataset.objects.get(owner=charlie)
    services.declare_universe(dataset=mine, columns=COLUMNS[1:])
    services.declare_universe(dataset=dataset, columns=COLUMNS[1:])
    services.approve_request(request=request, by=sofia)
    assert grants() == 1


def test_one_more_row_is_not_the_very_same(dataset, ask, charlie, sofia):
    services.approve_request(request=ask(charlie, content=DISGUISED + b"x,30,male\n"), by=sofia)
    assert grants() == 2


def pages_of(client, mine):
    names = ("dataset_detail", "columns", "protection", "budget", "delete_dataset")
    api = client.get(f"/api/datasets/{mine.pk}").content.decode()
    asked = client.get(f"/api/datasets/{mine.pk}/budget-requests").content.decode()
    return [*(words(client.get(reverse(name, args=[mine.pk]))) for name in names), api, asked]


def test_whoever_is_granted_a_joint_budget_reads_nothing_of_the_others(dataset, ask, alice, charlie, sofia, as_):
    Budget.objects.update(name="Alice's secret survey")
    Dataset.objects.filter(pk=dataset.pk).update(title="Alice's secret survey")
    request = ask(charlie, content=DISGUISED)
    services.approve_request(request=request, by=sofia)
    pages = pages_of(as_(charlie), Dataset.objects.get(owner=charlie))
    for page in [*pages, Notice.objects.get(person=charlie).text]:
        for name in ("alice", "secret", "very same", "before, so"):
            assert name not in page.lower(), (name, page)
    services.request_budget(
        dataset=dataset, epsilon="5", delta="0.000001", policy=Policy.ZCDP, reason="A reason of hers.", by=alice
    )
    mine = Dataset.objects.get(owner=charlie)
    assert all("of hers" not in page and "epsilon 5" not in page for page in pages_of(as_(charlie), mine))
    as_(charlie).post(reverse("take_back_budget", args=[mine.pk]))
    assert as_(charlie).post(f"/api/datasets/{mine.pk}/budget-requests/take-back").status_code in (403, 409)
    assert BudgetRequest.objects.filter(requested_by=alice, state="waiting").exists()


def test_a_request_after_joining_is_named_after_the_asker_s_own_table(dataset, ask, charlie, sofia):
    Budget.objects.update(name="Alice's secret survey")
    services.approve_request(request=ask(charlie), by=sofia)
    mine = Dataset.objects.get(owner=charlie)
    more = services.request_budget(
        dataset=mine, epsilon="4", delta="0.000001", policy=Policy.ZCDP, reason="", by=charlie
    )
    services.deny_request(request=more, by=sofia, note="No.")
    assert all("secret" not in each.title + each.text for each in Notice.objects.filter(person=charlie))
