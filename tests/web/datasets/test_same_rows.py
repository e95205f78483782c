"""The very same rows of two people: one budget, by the act of a reviewer without a stake, and by nothing else."""

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from releases import services
from releases.engine.domain.privacy import PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.ledger import verification
from releases.models import Budget, BudgetRequest, Dataset, EntryKind, LedgerEntry, Notice, Organisation
from tests.web.conftest import COLUMNS, person
from tests.web.pages import body, masked, words
from tests.web.steps import ask_for, protect

#: Of so many people that the same rows are evidence of the same people, in the file and as they are counted.
CSV = b"person,age,sex\n" + b"".join(
    f"p{i},{18 + (i * 7 % 400) / 10},{'female' if i % 3 else 'male'}\n".encode() for i in range(400)
)


@pytest.fixture
def dataset(make_dataset):
    return make_dataset(content=CSV)


def join(request, budget, *, by, **more):
    return services.budgets.join_request(request=request, to=budget.pk, by=by, **more)


@pytest.fixture
def ask(make_dataset):
    """Somebody uploads alice's rows, declares them and asks for a budget."""

    def request(owner, content=CSV, **more):
        dataset = make_dataset(owner=owner, epsilon="", content=content, **more)
        Dataset.objects.filter(pk=dataset.pk).update(group=None)
        return ask_for(dataset, owner, reason="Mine.")

    return request


def grants():
    return LedgerEntry.objects.filter(kind=EntryKind.GRANT).count()


def page_of(client, request):
    return words(client.get(reverse("budget_request", args=[request.pk])))


def decide(client, request, decision, note=""):
    given = {"epsilon": "3", "delta": "0.000001", "note": note, "decision": decision}
    return client.post(reverse("budget_request", args=[request.pk]), given)


def test_one_act_joins_the_tables_to_the_budget_there_is_and_grants_nothing_new(dataset, ask, charlie, sofia, as_):
    request = ask(charlie)
    services.fingerprints.take_fingerprints()
    with pytest.raises(services.budgets.RowsKnown, match="for the very same rows"):
        services.budgets.approve_request(request=request, by=sofia)
    request.refresh_from_db()
    assert (request.state, grants()) == ("waiting", 1)
    assert decide(as_(sofia), request, f"join:{dataset.budget_id}", "Fine.").status_code == 302
    assert grants() == 1
    assert list(Budget.objects.all()) == [dataset.budget]
    assert set(dataset.budget.datasets.values_list("owner__username", flat=True)) == {"alice", "charlie"}
    request.refresh_from_db()
    assert (request.state, request.granted_epsilon, request.budget) == ("approved", "2", dataset.budget)
    assert request.joins == dataset.budget
    assert list(verification.verify(dataset.budget)) == []


def test_no_upload_gets_a_budget_by_itself(dataset, ingest, alice):
    """Neither one that comes later, nor one that was there before a budget was."""
    again, third = ingest(CSV), ingest(CSV)
    assert (again.digest, again.budget) == (dataset.digest, None)
    protect(again, alice)
    assert again.budget != dataset.budget
    third.refresh_from_db()
    assert third.budget is None
    assert list(dataset.budget.datasets.all()) == [dataset]


def test_a_joint_copy_is_as_hard_to_discard_as_any_other_table(dataset, make_queued, ingest, bob):
    """Whether a copy is left would otherwise tell a colleague which of his guesses is true."""
    make_queued(dataset, epsilon="1")
    said = []
    for content in (CSV, CSV + b"p400,30,male\n"):
        guess = ingest(content, owner=bob)
        services.datasets.join_population(dataset=guess, other=dataset, by=bob)
        said.append(services.datasets.why_not_discarded(guess))
    assert said[0] == said[1] != ""


def test_few_distinct_rows_are_no_evidence_and_give_no_hint(ingest, charlie, sofia, as_):
    """Whoever invents a table for each possible number of smokers is not told the number."""
    requests = []
    for owner, number in ((person("dora"), 137), (charlie, 136), (charlie, 137)):
        table = ingest(b"smokes\n" + b"yes\n" * number + b"no\n" * (500 - number), "Smokers", owner=owner)
        columns = [{"name": "smokes", "type": "categorical", "categories": ["yes", "no"]}]
        services.datasets.declare_universe(dataset=table, columns=columns, by=owner)
        protect(table, owner)
        requests.append(ask_for(table, owner, "1"))
    services.fingerprints.take_fingerprints()
    pages = [masked(body(as_(sofia).get(reverse("budget_request", args=[each.pk])))) for each in requests[1:]]
    assert pages[0] == pages[1]
    assert "very same rows" not in pages[0]
    for each in requests:
        services.budgets.approve_request(request=each, by=sofia)
    assert grants() == 3


def test_an_owner_hears_of_it_only_when_such_a_reviewer_asks(dataset, ask, alice, charlie, sofia, as_):
    request = ask(charlie)
    services.fingerprints.take_fingerprints()
    page_of(as_(sofia), request)
    heard = Notice.objects.filter(person=alice, title__startswith="A reviewer asks")
    assert not heard.exists()
    assert decide(as_(sofia), request, f"consent:{dataset.pk}").status_code == 400
    assert decide(as_(sofia), request, f"consent:{uuid.uuid4()}", "Of which table?").status_code == 400
    assert not heard.exists()
    asking = "Is charlie one of yours?"
    assert decide(as_(sofia), request, f"consent:{dataset.pk}", asking).status_code == 302
    assert heard.get().text.endswith(asking)


def test_one_person_asks_for_so_many_budgets_and_no_more(make_dataset, charlie, settings):
    settings.BUDGET_REQUESTS_PER_PERSON = 2
    tables = [make_dataset(owner=charlie, epsilon="", content=CSV + b"x" * n + b",1,male\n") for n in (1, 2, 3)]
    ask_for(tables[0], charlie, "1")
    services.budgets.take_back_request(request=ask_for(tables[1], charlie, "1"), by=charlie)
    with pytest.raises(InvalidInput, match="You have asked for 2 budgets in the last 30 days"):
        ask_for(tables[2], charlie, "1")
    BudgetRequest.objects.update(requested_at=timezone.now() - timedelta(days=31))
    ask_for(tables[2], charlie, "1")


def test_of_two_strangers_who_ask_one_may_join_whoever_was_granted_first(ask, alice, charlie, sofia):
    later, earlier = ask(alice), ask(charlie)
    assert later.budget != earlier.budget
    with pytest.raises(InvalidInput, match="No budget is granted for it yet"):
        join(earlier, later.budget, by=sofia)
    services.budgets.approve_request(request=earlier, by=sofia, epsilon="2")
    join(later, earlier.budget, by=sofia)
    assert grants() == 1
    assert Budget.objects.get() == earlier.budget == later.budget
    assert Budget.objects.get().epsilon == "2"


def test_a_different_unit_is_refused_and_nothing_is_decided(dataset, ask, charlie, sofia):
    request = ask(charlie, unit=PrivacyUnit(kind="person", id_column="person", max_rows=2))
    services.fingerprints.take_fingerprints()
    with pytest.raises(InvalidInput, match="does not add up"):
        join(request, dataset.budget, by=sofia)
    with pytest.raises(services.budgets.RowsKnown):
        services.budgets.approve_request(request=request, by=sofia)
    request.refresh_from_db()
    assert (request.state, request.budget.is_granted) == ("waiting", False)


def test_a_frozen_request_s_tables_do_not_slip_out_of_the_frost(dataset, ask, charlie, sofia):
    request = ask(charlie)
    services.budgets.freeze_budget(budget=request.budget, by=sofia, reason="Wait.")
    with pytest.raises(InvalidInput, match="This one is frozen"):
        join(request, dataset.budget, by=sofia)


def test_under_the_two_person_rule_the_second_reviewer_agrees_to_what_the_first_approved(dataset, ask, charlie, sofia):
    Organisation.objects.create(upload_cap_bytes=2**30, is_two_person=True)
    rita = person("rita", "reviewer")
    request = ask(charlie)
    join(request, dataset.budget, by=sofia, note="I think so.")
    assert request.budget != dataset.budget
    request.refresh_from_db()
    with pytest.raises(InvalidInput, match="must be what sofia approved, to join the budget of Survey"):
        services.budgets.approve_request(request=request, by=rita)
    join(request, dataset.budget, by=rita)
    assert request.budget == dataset.budget
    assert request.note == "I think so."
    assert grants() == 1


def test_a_copy_put_into_a_granted_population_is_shown_to_reviewers_alone_and_stops_its_growth(
    dataset, make_dataset, ingest, make_draft, charlie, sofia, as_
):
    """Refusing the curator would tell him whose rows they are."""
    own, copy = make_dataset(owner=charlie, content=CSV + b"p200,30,male\n"), ingest(CSV, owner=charlie)
    services.fingerprints.take_fingerprints()
    services.datasets.join_population(dataset=copy, other=own, by=charlie)
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.5")
    release = make_draft(own, epsilon="1")
    services.releases.submit_release(release=release, key=release.pk, by=charlie, send=False)
    for page, thing in (("budget_detail", own.budget), ("release_request", release.reviews.get())):
        said = "The very same rows: Survey (alice) has the very same rows and spends from another budget."
        assert said in words(as_(sofia).get(reverse(page, args=[thing.pk])))
    with pytest.raises(InvalidInput, match="has a budget already, for the very same rows"):
        services.budgets.approve_request(request=ask_for(own, charlie, "4"), by=sofia)


def disguised(line):
    """A row of CSV as another program may have written it: the same once it is counted."""
    person, age, sex = line.split(b",")
    return person + b"-," + age + b"0, " + sex + b" "


DISGUISED = b"\n".join([CSV.splitlines()[0], *map(disguised, reversed(CSV.splitlines()[1:]))]) + b"\n"


@pytest.mark.parametrize("has_rows", [True, False])
def test_rows_that_are_counted_the_same_are_the_very_same_rows(dataset, ask, alice, charlie, sofia, as_, has_rows):
    """Spaces, another way to write numbers, another order, and another column that is not declared. They are recognised
    where no worker has looked yet, and where rows were deleted after one had."""
    if not has_rows:
        services.fingerprints.take_fingerprints()
        services.datasets.delete_rows(dataset=dataset, by=alice)
    request = ask(charlie, content=DISGUISED)
    assert Dataset.objects.get(owner=charlie).digest != dataset.digest
    with pytest.raises(services.budgets.RowsKnown):
        services.budgets.approve_request(request=request, by=sofia)
    services.fingerprints.take_fingerprints()
    assert "Survey (alice) has the very same rows" in page_of(as_(sofia), request)
    join(request, dataset.budget, by=sofia)
    assert grants() == 1
    assert Budget.objects.get().datasets.count() == 2


def test_a_table_that_is_declared_again_is_compared_again(dataset, ask, charlie, sofia):
    request = ask(charlie, content=DISGUISED.replace(b" female", b" fem").replace(b"female", b"fem"))
    services.fingerprints.take_fingerprints()
    mine = Dataset.objects.get(owner=charlie)
    services.datasets.declare_universe(dataset=mine, columns=COLUMNS[:1])
    services.datasets.declare_universe(dataset=dataset, columns=COLUMNS[:1])
    with pytest.raises(services.budgets.RowsKnown):
        services.budgets.approve_request(request=request, by=sofia)


def pages_of(client, mine):
    names = ("dataset_detail", "columns", "protection", "budget", "delete_dataset")
    api = client.get(f"/api/datasets/{mine.pk}").content.decode()
    asked = client.get(f"/api/datasets/{mine.pk}/budget-requests").content.decode()
    return [*(words(client.get(reverse(name, args=[mine.pk]))) for name in names), api, asked]


def test_whoever_is_granted_a_joint_budget_reads_nothing_of_the_others(dataset, ask, alice, charlie, sofia, as_):
    Budget.objects.update(name="Alice's secret survey")
    Dataset.objects.filter(pk=dataset.pk).update(title="Alice's secret survey")
    join(ask(charlie, content=DISGUISED), dataset.budget, by=sofia)
    pages = pages_of(as_(charlie), Dataset.objects.get(owner=charlie))
    for page in [*pages, Notice.objects.get(person=charlie).text]:
        for name in ("alice", "secret", "very same", "before, so"):
            assert name not in page.lower(), (name, page)
    ask_for(dataset, alice, "5", reason="A reason of hers.")
    mine = Dataset.objects.get(owner=charlie)
    assert all("of hers" not in page and "epsilon 5" not in page for page in pages_of(as_(charlie), mine))
    as_(charlie).post(reverse("take_back_budget", args=[mine.pk]))
    assert BudgetRequest.objects.filter(requested_by=alice, state="waiting").exists()
