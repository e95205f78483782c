"""What reviewers decide: budgets and releases that wait, by two of them where the rule says so, with reasons."""

import csv
import io
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from releases import services
from releases.engine.errors import InvalidInput
from releases.models import (
    AuditEvent,
    Budget,
    BudgetRequest,
    Dataset,
    EntryKind,
    LedgerEntry,
    Notice,
    Release,
    ReleaseRequest,
)
from tests.web.conftest import give, person
from tests.web.pages import body, words
from tests.web.past_the_guards import lift
from tests.web.steps import again, ask_for, faults, refuses, rule, submit
from tests.web.undoing import rolled_back


@pytest.fixture
def rita(db):
    """A second reviewer."""
    return person("rita", "reviewer")


@pytest.fixture
def waiting(dataset, make_draft, alice):
    """A release of epsilon 1 that waits for a reviewer."""
    rule(review_above="0.5")
    release = make_draft(dataset)
    submit(release, alice, reason="For the yearbook.")
    return release.reviews.get()


def charges():
    return LedgerEntry.objects.filter(kind=EntryKind.CHARGE)


@pytest.fixture
def decide(as_, sofia):
    def post(asked, decision="approve", by=sofia, **data):
        name = "release_request" if isinstance(asked, ReleaseRequest) else "budget_request"
        return as_(by).post(reverse(name, args=[asked.pk]), {"decision": decision, "epsilon": "", "note": ""} | data)

    return post


@pytest.mark.parametrize(("threshold", "waits"), [("", False), ("1", False), ("0.999999999999", True)])
def test_only_a_release_above_the_threshold_waits(dataset, make_draft, alice, threshold, waits):
    rule(review_above=threshold)
    release = make_draft(dataset)
    entry = submit(release, alice)
    assert (entry is None) == waits
    assert release.state == ("awaiting review" if waits else "queued")
    assert charges().count() == (0 if waits else 1)


def test_submitting_twice_asks_once(waiting, alice):
    release = waiting.release
    assert submit(release, alice, key=waiting.key) is None
    with pytest.raises(services.release_inputs.Refusal, match="only a draft can be submitted"):
        submit(release, alice)
    assert ReleaseRequest.objects.count() == 1


def test_approving_charges_the_curator_s_release_and_queues_it(waiting, decide, alice):
    assert decide(waiting, note="Fine.").url == "/review/"
    charge = charges().get()
    assert (charge.release, charge.actor, charge.key) == (waiting.release, alice, waiting.key)
    assert (Release.objects.get().state, faults()) == ("queued", [])


def test_a_request_is_decided_once_whoever_comes_second(waiting, decide):
    decide(waiting)
    again = decide(waiting, "deny", note="No.")
    assert again.status_code == 400
    assert "it was approved by sofia. Nothing was changed by what you pressed." in words(again)
    assert charges().count() == 1


def test_with_the_rule_an_approval_waits_for_another_reviewer_who_cannot_grant_more(asked, decide, sofia, rita):
    rule(is_two_person=True)
    assert decide(asked, by=sofia, epsilon="2").status_code == 302
    assert (again(asked).state, again(asked).first_by) == ("waiting", sofia)
    assert decide(asked, by=sofia, epsilon="2").status_code == 400
    assert "must be at most the 2 that sofia approved" in words(decide(asked, by=rita, epsilon="2.5"))
    assert not LedgerEntry.objects.exists()
    with rolled_back():
        decide(asked, by=rita, epsilon="1")
        assert again(asked).granted_epsilon == "1"
    decide(asked, by=rita)
    asked.refresh_from_db()
    assert (asked.state, asked.granted_epsilon, asked.decided_by) == ("approved", "2", rita)
    assert LedgerEntry.objects.get().kind == EntryKind.GRANT


def test_two_first_approvals_at_once_do_not_make_two_persons_of_one(asked, sofia):
    rule(is_two_person=True)
    stale = BudgetRequest.objects.get()
    services.budgets.approve_request(request=asked, by=sofia)
    with pytest.raises(InvalidInput, match="sofia has approved this request as the first of two"):
        services.budgets.approve_request(request=stale, by=person("tess", "reviewer"))
    assert not LedgerEntry.objects.exists()


def test_the_rule_holds_for_releases_too(waiting, decide, sofia, rita):
    rule(is_two_person=True)
    decide(waiting, by=sofia)
    assert not charges().exists()
    decide(waiting, by=rita)
    assert charges().get().release == waiting.release


def test_where_a_group_decides_its_reviewers_do_and_others_look_on(group, asked, bob, decide):
    give(bob, "reviewer")
    rule(reviewers=group)
    assert decide(asked).status_code == 403
    decide(asked, by=bob)
    assert (again(asked).state, again(asked).decided_by) == ("approved", bob)


def test_approving_less_hands_a_smaller_draft_back_and_is_of_that_plan_only(waiting, decide, alice):
    decide(waiting, epsilon="0.75", note="Half is enough.")
    release = Release.objects.get()
    assert (release.state, release.epsilon) == ("draft", "0.75")
    assert not charges().exists()
    with rolled_back():
        services.releases.set_choice(release=release, epsilon="0.76", mechanism_name="laplace-queries")
        assert submit(release, alice) is None
    release.refresh_from_db()
    assert submit(release, alice) is not None


@pytest.mark.parametrize("kind", ["budget", "release"])
@pytest.mark.parametrize("decision", ["deny", "ask_back"])
def test_who_denies_or_asks_back_says_why_and_the_curator_reads_it(request, as_, alice, decide, kind, decision):
    asked = request.getfixturevalue("asked" if kind == "budget" else "waiting")
    # One reviewer is enough for that.
    rule(is_two_person=True)
    assert decide(asked, decision).status_code == 400
    decide(asked, decision, note="Who reads it?")
    asked.refresh_from_db()
    assert asked.state == ("denied" if decision == "deny" else "asked back")
    said = {"deny": "denied", "ask_back": "returned with a question"}[decision]
    assert f"{said} {asked.decided_by}" in words(as_(asked.decided_by).get(reverse("review_queue")))
    page = reverse("dataset_detail", args=[asked.budget.datasets.get().pk]) if kind == "budget" else ""
    if kind == "release":
        assert asked.release.state == ("cancelled" if decision == "deny" else "draft")
        page = reverse("release_detail", args=[asked.release_id])
    assert "Who reads it?" in words(as_(alice).get(page, follow=True))
    assert not charges().exists()


@pytest.mark.parametrize(
    ("decision", "said"), [("deny", "denied by a reviewer"), ("ask_back", "returned with a question by a reviewer")]
)
def test_who_asks_again_begins_with_the_amounts_asked_for_and_the_reviewer_reads_what_was_decided_before(
    asked, as_, alice, sofia, decide, decision, said
):
    asked.epsilon, asked.delta = "7.5", "0.00000003"
    asked.save()
    decide(asked, decision, note="Who reads it?")
    dataset = asked.budget.datasets.get()
    assert said in words(as_(alice).get(reverse("dataset_detail", args=[dataset.pk])))
    form = as_(alice).get(reverse("budget", args=[dataset.pk])).context["form"]
    assert (form["epsilon"].value(), form["delta"].value()) == ("7.5", "0.00000003")
    again = ask_for(dataset, alice, "7.5", reason="The public.")
    assert "waits for a reviewer" in words(as_(alice).get(reverse("dataset_detail", args=[dataset.pk])))
    shown = words(as_(sofia).get(reverse("budget_request", args=[again.pk])))
    assert "Asked for before" in shown
    assert "Who reads it?" in shown
    decide(again, "approve", epsilon="3", delta="0.000001")
    third = ask_for(dataset, alice, "8")
    assert "Asked for before" not in words(as_(sofia).get(reverse("budget_request", args=[third.pk])))


BROKEN = [
    ({"epsilon": "4"}, "epsilon: '4' must be at most the 3 that was asked for"),
    ({"epsilon": "0"}, "epsilon: '0' must be above 0 and at most 100"),
    ({"epsilon": "nan"}, "epsilon: 'nan' must be a finite decimal number"),
    ({"delta": "0.1"}, "delta: '0.1' must be at most the 0.000001 that was asked for"),
    ({"decision": "deny"}, "note: nothing is given; must say why the request is denied"),
    ({"decision": "delete"}, "decision: 'delete' must be to grant or to deny"),
]


def test_a_decision_that_breaks_a_rule_decides_nothing(decide, asked):
    # Else the first of them would look at the rows.
    services.fingerprints.take_fingerprints()
    refuses(partial(decide, asked), BROKEN)


@pytest.mark.parametrize(("typed", "granted"), [({"epsilon": "", "delta": ""}, "3"), ({"epsilon": "1.5"}, "1.5")])
def test_granting_opens_the_budget_with_what_was_asked_for_or_less(decide, asked, typed, granted):
    assert decide(asked, note="Fine.", **typed).url == "/review/"
    budget = Budget.objects.get()
    assert (budget.epsilon, budget.delta) == (granted, "0.000001")
    assert LedgerEntry.objects.get().kind == "grant"
    asked.refresh_from_db()
    assert (asked.state, asked.note, asked.decided_by.username) == ("approved", "Fine.", "sofia")


def test_the_ledger_can_be_had_as_csv(queued, as_, sofia):
    Budget.objects.update(name="=1+1 table")
    charge, grant = csv.DictReader(io.StringIO(body(as_(sofia).get("/review/ledger.csv"))))
    assert charge["budget"] == "'=1+1 table", "no spreadsheet runs it"
    assert (charge["kind"], charge["epsilon"], charge["epsilon in 1e-12"]) == ("charge", "1", "1000000000000")
    assert (grant["kind"], grant["granted_epsilon"], grant["granted_delta"]) == ("grant", "2", "0.000001")
    assert (grant["epsilon"], grant["epsilon in 1e-12"]) == ("0", "0"), "a grant spends nothing"


def test_a_ledger_is_verified_on_its_budget_s_page_and_a_forged_one_is_found(queued, as_, sofia):
    url = reverse("budget_detail", args=[Budget.objects.get().pk])
    page = as_(sofia).get(url, {"verify": "1"}).context["page"]
    assert (page.is_sound, page.faults) == (True, ())
    lift()
    Budget.objects.update(spent_epsilon=5)
    assert not as_(sofia).post("/review/ledger/", follow=True).context["verified"].is_sound
    page = as_(sofia).get(url, {"verify": "1"}).context["page"]
    assert not page.is_sound
    assert "the spent amounts are not the sums of the entries" in page.faults[0]


ROWS = [f"p{i},{18 + (i * 7 % 400) / 10},{'female' if i % 3 else 'male'}\n" for i in range(400)]
HERS = ("person,age,sex\n" + "".join(ROWS)).encode()
#: Half of her people, and as many others.
HIS = ("person,age,sex\n" + "".join(ROWS[:200]) + "".join(f"x{i},{20 + i / 8},male\n" for i in range(200))).encode()
WHY = "The second survey asked half of the panel again."


@pytest.fixture
def his(make_dataset, charlie):
    """What charlie asks for; alice has a budget for half of the people."""
    make_dataset(content=HERS)
    dataset = make_dataset(owner=charlie, epsilon="", content=HIS)
    Dataset.objects.filter(pk=dataset.pk).update(group=None)
    request = ask_for(dataset, charlie)
    services.fingerprints.take_fingerprints()
    return request


def test_with_a_reason_it_is_granted_and_nobody_with_a_stake_can_read_why(his, alice, charlie, sofia, as_, decide):
    refused = decide(his)
    assert refused.status_code == 400
    assert "match_reason" in refused.context["form"].errors
    assert again(his).state == "waiting"
    assert decide(his, match_reason=WHY).status_code == 302
    his.refresh_from_db()
    assert (his.state, his.match_reason) == ("approved", f"sofia: {WHY}")
    address = reverse("budget_request", args=[his.pk])
    assert WHY in body(as_(sofia).get(address))
    for asking in (alice, charlie):
        give(asking, "reviewer")
        page = as_(asking).get(address)
        assert page.status_code == 200
        assert WHY not in body(page)
    # Nor wherever those read who have a stake: the log of all reviewers, messages, what the curator sees.
    assert not AuditEvent.objects.filter(detail__contains=WHY).exists()
    assert not Notice.objects.filter(text__contains=WHY).exists()
    assert WHY not in body(as_(charlie).get(reverse("dataset_detail", args=[his.budget.datasets.get().pk])))
    User.objects.filter(pk=sofia.pk).update(is_superuser=True)
    assert WHY not in body(as_(again(sofia)).get(f"/admin/releases/budgetrequest/{his.pk}/change/"))


def test_each_of_two_reviewers_gives_a_reason(his, sofia):
    rule(is_two_person=True)
    rita = person("rita", "reviewer")
    for given in ({}, {"match_reason": "  "}):
        with pytest.raises(InvalidInput) as error:
            services.budgets.approve_request(request=again(his), by=rita, **given)
        assert error.value.field == "match_reason"
    assert again(his).first_by is None
    services.budgets.approve_request(request=again(his), by=rita, match_reason=WHY)
    with pytest.raises(InvalidInput):
        services.budgets.approve_request(request=again(his), by=sofia)
    second = again(his)
    services.budgets.approve_request(request=second, by=sofia, match_reason="I agree.")
    assert second.match_reason == f"rita: {WHY}\nsofia: I agree."
