"""The queue: budgets and releases that wait, decided by those who may, by two of them where the rule says so."""

from __future__ import annotations

import pytest
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.models import BudgetRequest, EntryKind, LedgerEntry, Notice, Release, ReleaseRequest
from tests.web.conftest import CSV, give, person
from tests.web.pages import body, field_value, words
from tests.web.steps import again, execute, faults, rule, submit
from tests.web.undoing import rolled_back

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _review_above(db):
    rule(review_above="0.5")


@pytest.fixture
def rita(db):
    """A second reviewer."""
    return person("rita", "reviewer")


@pytest.fixture
def waiting(dataset, make_draft, alice):
    """A release of epsilon 1 that waits for a reviewer."""
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


@pytest.mark.parametrize(("threshold", "waits"), [("", False), ("1", False), ("0.999999999999", True), ("0", True)])
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


def test_a_worker_does_not_run_what_waits(waiting):
    assert not services.execution.execute_release(release_id=waiting.release_id)
    assert services.execution.reconcile() == 0
    assert Release.objects.get().state == "awaiting review"


def test_confirming_asks_for_the_review_with_its_reason(dataset, make_draft, as_, alice):
    url = reverse("confirm", args=[make_draft(dataset).pk])
    page = as_(alice).get(url)
    hidden = {name: field_value(page, name) for name in ("key", "plan")}
    shown = as_(alice).post(url, hidden | {"title": "Ages", "reason": "For the yearbook."}, follow=True)
    assert "hx-get" not in body(shown), "a review takes days; the page need not ask every second"
    assert ReleaseRequest.objects.get().reason == "For the yearbook."
    assert not charges().exists()


def test_approving_charges_the_curator_s_release_and_queues_it(waiting, decide, as_, alice, sofia):
    page = as_(sofia).get(reverse("release_request", args=[waiting.pk])).context["page"]
    asked = (page.asked_by, page.epsilon, page.reason, page.plan.cost)
    assert asked == ("alice", "1", "For the yearbook.", "epsilon 1")
    assert decide(waiting, note="Fine.").url == "/review/"
    charge = charges().get()
    assert (charge.release, charge.actor, charge.key) == (waiting.release, alice, waiting.key)
    release = Release.objects.get()
    assert (release.state, release.submitted_at is not None, faults()) == ("queued", True, [])
    assert execute(release)


def test_an_approval_that_the_budget_refuses_decides_nothing(waiting, decide, sofia):
    services.budgets.freeze_budget(budget=waiting.release.dataset.budget, by=sofia, reason="Stop.")
    response = decide(waiting)
    assert response.status_code == 400
    assert (again(waiting).state, Release.objects.get().state) == ("waiting", "awaiting review")
    assert not charges().exists()
    assert 'value="approve"' in body(response)


def test_a_curator_takes_it_back(waiting, as_, alice, decide):
    as_(alice).post(reverse("cancel_release", args=[waiting.release_id]))
    assert Release.objects.get().state == "draft"
    assert "This request was taken back by the person who asked." in words(decide(waiting))
    assert not charges().exists()


def test_a_request_is_decided_once_whoever_comes_second(waiting, decide, as_, sofia):
    decide(waiting)
    again = decide(waiting, "deny", note="No.")
    assert again.status_code == 400
    assert "it was approved by sofia. Nothing was changed by what you pressed." in words(again)
    assert charges().count() == 1
    assert 'name="decision"' not in body(as_(sofia).get(reverse("release_request", args=[waiting.pk])))


def protect(dataset, neighbours, by):
    relation = NeighbouringRelation(neighbours)
    services.datasets.declare_protection(dataset=dataset, unit=PrivacyUnit(), neighbours=relation, by=by)


def test_a_budget_request_is_taken_back_and_asked_again_with_another_protection(asked, decide, as_, alice, sofia):
    dataset = asked.budget.datasets.get()
    as_(alice).post(reverse("take_back_budget", args=[dataset.pk]))
    asked.refresh_from_db()
    assert (asked.state, asked.decided_by) == ("taken back", None)
    assert "This request was taken back by the person who asked." in words(decide(asked))
    assert as_(sofia).get(reverse("review_queue")).context["page"].decided == ()
    assert not Notice.objects.filter(person=sofia, read_at=None).exists()
    # A mistake in what reviewers would have decided on can be mended.
    protect(dataset, "replace", alice)
    given = {"epsilon": "3", "delta": "0", "policy": "pure", "reason": "Once more."}
    as_(alice).post(reverse("budget", args=[dataset.pk]), given)
    second = BudgetRequest.objects.get(state="waiting")
    assert (second.budget.policy, second.budget.neighbours, second.reason) == ("pure", "replace", "Once more.")
    decide(second, "deny", note="No.")
    with pytest.raises(services.release_inputs.Refusal, match="was denied in the meantime"):
        services.budgets.take_back_request(request=second, by=alice)
    as_(alice).post(reverse("take_back_budget", args=[dataset.pk]))
    assert again(second).state == "denied"


def test_what_was_settled_in_another_tab_stands_however_old_the_page_is(asked, decide, alice):
    """What a page has read before is not what is asked or declared against."""
    dataset, *old = (asked.budget.datasets.select_related("budget").get() for _ in range(3))
    services.budgets.take_back_request(request=asked, by=alice)
    protect(dataset, "replace", alice)
    given = {"epsilon": "3", "delta": "0", "reason": "", "by": alice}
    second = services.budgets.request_budget(dataset=dataset, policy=Policy.PURE, **given)
    decide(second)
    with pytest.raises(InvalidInput, match="cannot be changed"):
        services.budgets.request_budget(dataset=old[0], policy=Policy.ZCDP, **given | {"delta": "0.000001"})
    with pytest.raises(InvalidInput, match="cannot be changed once a budget was asked for"):
        protect(old[1], "add_remove", alice)
    assert (again(second.budget).policy, again(second.budget).neighbours) == ("pure", "replace")


def test_a_table_whose_request_was_taken_back_joins_the_people_of_another(asked, make_dataset, alice):
    dataset = asked.budget.datasets.get()
    services.budgets.take_back_request(request=asked, by=alice)
    other = make_dataset(epsilon="2", content=CSV + b"one more,30,male\n")
    assert services.datasets.join_population(dataset=dataset, other=other, by=alice) == other.budget
    asked.refresh_from_db()
    assert asked.budget == other.budget


def test_with_the_rule_the_first_approval_only_waits_for_the_second_who_cannot_grant_more(asked, decide, sofia, rita):
    rule(is_two_person=True)
    assert decide(asked, by=sofia, epsilon="2").status_code == 302
    assert (again(asked).state, again(asked).first_by) == ("waiting", sofia)
    assert "must be at most the 2 that sofia approved" in words(decide(asked, by=rita, epsilon="2.5"))
    assert not LedgerEntry.objects.exists()
    with rolled_back():
        decide(asked, by=rita, epsilon="1")
        assert again(asked).granted_epsilon == "1"
    decide(asked, by=rita)
    asked.refresh_from_db()
    assert (asked.state, asked.granted_epsilon, asked.decided_by) == ("approved", "2", rita)
    assert LedgerEntry.objects.get().kind == EntryKind.GRANT


def test_nobody_is_both_reviewers_nor_reviews_their_own(asked, decide, as_, sofia, rita):
    rule(is_two_person=True)
    decide(asked, by=sofia)
    assert decide(asked, by=sofia).status_code == 400
    assert 'name="decision"' not in body(as_(sofia).get(reverse("budget_request", args=[asked.pk])))
    BudgetRequest.objects.update(requested_by=rita)
    assert decide(asked, by=rita).status_code == 400
    assert not LedgerEntry.objects.exists()


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


def test_where_a_group_decides_its_reviewers_do_and_others_look_on(group, asked, as_, bob, decide, sofia):
    give(bob, "reviewer")
    rule(reviewers=group)
    url = reverse("budget_request", args=[asked.pk])
    assert as_(sofia).get(url).context["page"].decision.why_not == "Only members of Survey team decide requests."
    assert decide(asked, by=sofia).status_code == 403
    decide(asked, by=bob)
    assert (again(asked).state, again(asked).decided_by) == ("approved", bob)


def test_without_the_role_the_queue_does_not_exist_even_for_the_group_that_decides(
    group, asked, as_, charlie, bob, decide
):
    rule(reviewers=group)
    give(charlie, "reviewer")
    for name in ("review_queue", "budget_board", "ledger", "audit_log", "board_csv", "audit_csv", "ledger_csv"):
        assert as_(charlie).get(reverse(name)).status_code == 200
        assert as_(bob).get(reverse(name)).status_code == 404
    assert as_(charlie).get(reverse("organisation")).status_code == 404
    assert decide(asked, by=bob).status_code == 404
    assert again(asked).state == "waiting"


def test_approving_less_hands_a_smaller_draft_back_and_is_of_that_plan_only(waiting, decide, as_, alice):
    decide(waiting, epsilon="0.75", note="Half is enough.")
    release = Release.objects.get()
    assert (release.state, release.epsilon) == ("draft", "0.75")
    assert not charges().exists()
    url = reverse("release_detail", args=[release.pk])
    assert as_(alice).get(url).url == reverse("confirm", args=[release.pk])
    assert "Half is enough." in words(as_(alice).get(reverse("confirm", args=[release.pk])))
    with rolled_back():
        services.releases.set_choice(release=release, epsilon="0.76", mechanism_name="laplace-queries")
        assert as_(alice).get(url).url == reverse("questions", args=[release.pk])
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
    if kind == "release":
        assert asked.release.state == ("cancelled" if decision == "deny" else "draft")
        page = reverse("release_detail", args=[asked.release_id])
    else:
        page = reverse("dataset_detail", args=[asked.budget.datasets.get().pk])
    assert "Who reads it?" in words(as_(alice).get(page, follow=True))
    assert not charges().exists()
    if (kind, decision) == ("budget", "ask_back"):
        given = {"epsilon": "3", "delta": "0.000001", "policy": "zcdp", "reason": "Of 2020."}
        as_(alice).post(reverse("budget", args=[asked.budget.datasets.get().pk]), given)
        assert BudgetRequest.objects.filter(state="waiting").get().reason == "Of 2020."


@pytest.mark.parametrize("way", ["taken back", "approved for less", "asked again"])
def test_what_was_asked_stays_readable_whatever_became_of_it(waiting, decide, as_, alice, sofia, way):
    url = reverse("release_request", args=[waiting.pk])
    if way == "taken back":
        services.releases.cancel_release(release=waiting.release, by=alice)
    elif way == "approved for less":
        decide(waiting, epsilon="0.75")
    else:
        decide(waiting, "ask_back", note="Who reads it?")
    release = Release.objects.get()
    services.releases.set_choice(release=release, epsilon="0.6", mechanism_name="laplace-queries")
    if way == "asked again":
        submit(release, alice)
        second = reverse("release_request", args=[release.reviews.get(state="waiting").pk])
        assert as_(sofia).get(second).context["page"].plan.cost == "epsilon 0.6"
    plan = as_(sofia).get(url).context["page"].plan
    assert (plan.cost, plan.leaves, plan.why_it_waits) == ("epsilon 1", "", "")
