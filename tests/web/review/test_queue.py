"""The queue: budgets and releases that wait, decided by those who may, by two of them where the rule says so."""

from __future__ import annotations

import uuid

import pytest
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.ledger import ledger
from releases.models import BudgetRequest, EntryKind, LedgerEntry, Notice, Organisation, Release, ReleaseRequest
from tests.web.conftest import CSV, give, person
from tests.web.pages import body, inline_code, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def decide_by(db):
    """Set what the organisation decides."""

    def change(**values):
        return Organisation.objects.update_or_create(
            pk=1, defaults={"upload_cap_bytes": 2**30, "review_above": "0.5"} | values
        )

    return change


@pytest.fixture
def rita(db):
    """A second reviewer."""
    return person("rita", "reviewer")


@pytest.fixture
def waiting(decide_by, dataset, make_draft, alice):
    """A release of epsilon 1 that waits for a reviewer."""
    decide_by()
    release = make_draft(dataset)
    services.releases.submit_release(
        release=release, key=uuid.uuid4(), by=alice, reason="For the yearbook.", send=False
    )
    return release.reviews.get()


def charges():
    return LedgerEntry.objects.filter(kind=EntryKind.CHARGE)


@pytest.fixture
def decide(as_, sofia):
    def post(asked, decision="approve", by=sofia, **data):
        name = "release_request" if isinstance(asked, ReleaseRequest) else "budget_request"
        return as_(by).post(reverse(name, args=[asked.pk]), {"decision": decision, "epsilon": "", "note": ""} | data)

    return post


# --- releases above the threshold -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("threshold", "waits"), [("", False), ("1", False), ("0.999999999999", True), ("0", True)])
def test_only_a_release_above_the_threshold_waits(decide_by, dataset, make_draft, alice, threshold, waits):
    decide_by(review_above=threshold)
    release = make_draft(dataset)
    entry = services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert (entry is None) == waits
    assert release.state == ("awaiting review" if waits else "queued")
    assert charges().count() == (0 if waits else 1)


def test_the_environment_can_set_the_threshold(settings, dataset, make_draft, alice):
    settings.REVIEW_ABOVE_EPSILON = "0.5"
    release = make_draft(dataset)
    assert services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False) is None


def test_submitting_twice_asks_once(waiting, alice):
    release = waiting.release
    assert services.releases.submit_release(release=release, key=waiting.key, by=alice, send=False) is None
    with pytest.raises(services.release_inputs.Refusal, match="only a draft can be submitted"):
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert ReleaseRequest.objects.count() == 1


def test_a_worker_does_not_run_what_waits(waiting):
    assert not services.execution.execute_release(release_id=waiting.release_id)
    assert services.execution.reconcile() == 0
    assert Release.objects.get().state == "awaiting review"


def test_confirming_asks_for_the_review_with_its_reason(decide_by, dataset, make_draft, as_, alice):
    decide_by()
    url = reverse("confirm", args=[make_draft(dataset).pk])
    page = as_(alice).get(url)
    assert "Ask for the review" in words(page)
    assert "Spend and release" not in words(page)
    import re

    hidden = dict(re.findall(r'type="hidden" name="(key|plan)" value="([^"]+)"', body(page)))
    shown = as_(alice).post(url, hidden | {"title": "Ages", "reason": "For the yearbook."}, follow=True)
    assert "A reviewer must approve it first. Nothing is spent yet." in words(shown)
    assert "hx-get" not in body(shown), "a review takes days; the page need not ask every second"
    assert ReleaseRequest.objects.get().reason == "For the yearbook."


def test_the_reviewer_sees_what_is_asked_and_what_it_would_leave(waiting, as_, sofia):
    page = as_(sofia).get(reverse("release_request", args=[waiting.pk]))
    said = words(page)
    assert "alice asks to release this from Survey for epsilon 1." in said
    assert "For the yearbook." in said
    assert "Would leave 50% (epsilon 1) about one more release like this fits" in said
    assert "Budget 0% spent, 100% left (epsilon 2); to whom, and for what" in said
    assert "age 5 bins from 18 to 65" in said
    assert "sex 2 categories: female, male" in said
    assert "With probability 95%" in said
    assert inline_code(page) == []


def test_it_stands_in_the_queue_beside_budgets(waiting, as_, sofia):
    assert "Release 1 from Survey release epsilon 1 alice" in words(as_(sofia).get("/review/"))
    assert "1 request to review" in words(as_(sofia).get("/"))


def test_approving_charges_the_curator_s_release_and_queues_it(waiting, decide, alice):
    assert decide(waiting, note="Fine.").url == "/review/"
    charge = charges().get()
    assert (charge.release, charge.actor, charge.key) == (waiting.release, alice, waiting.key)
    release = Release.objects.get()
    assert release.state == "queued"
    assert release.submitted_at is not None
    assert services.execution.execute_release(release_id=release.pk)


def test_an_approval_that_the_budget_refuses_decides_nothing(waiting, decide, sofia):
    services.budgets.freeze_budget(budget=waiting.release.dataset.budget, by=sofia, reason="Stop.")
    response = decide(waiting)
    assert response.status_code == 400
    assert "frozen this budget" in words(response)
    waiting.refresh_from_db()
    assert waiting.state == "waiting"
    assert Release.objects.get().state == "awaiting review"
    assert not charges().exists()
    assert 'value="approve"' in body(response)


def test_approving_less_hands_a_smaller_draft_back_that_needs_no_second_review(waiting, decide, as_, alice):
    decide(waiting, epsilon="0.75", note="Half is enough.")
    release = Release.objects.get()
    assert (release.state, release.epsilon) == ("draft", "0.75")
    assert not charges().exists()
    page = words(as_(alice).get(reverse("confirm", args=[release.pk])))
    assert "sofia approved it with epsilon 0.75" in page
    assert "Half is enough." in page
    assert "Spend and release" in page
    assert services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False) is not None


@pytest.mark.parametrize("way", ["asked back", "taken back", "approved for less", "asked again"])
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
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
        again = words(as_(sofia).get(reverse("release_request", args=[release.reviews.get(state="waiting").pk])))
        assert "Costs epsilon 0.6" in again
    said = words(as_(sofia).get(url))
    assert "Costs epsilon 1 " in said
    assert "Laplace noise" in said
    assert "age 5 bins from 18 to 65" in said
    assert "With probability 95%" in said
    assert "Would leave" not in said
    assert "It waits because" not in said


def test_a_request_of_old_that_kept_no_plan_says_so_or_shows_its_release(waiting, decide, as_, sofia):
    ReleaseRequest.objects.update(asked_plan=None)
    url = reverse("release_request", args=[waiting.pk])
    assert as_(sofia).get(url).context["page"].plan.cost == "epsilon 1"
    decide(waiting, "ask_back", note="Who reads it?")
    page = as_(sofia).get(url).context["page"]
    assert page.plan is None
    assert "not kept" in page.why_no_plan


def test_a_plan_that_this_software_reads_no_more_leaves_the_page_readable(waiting, as_, sofia):
    ReleaseRequest.objects.update(asked_plan={"version": 0})
    page = as_(sofia).get(reverse("release_request", args=[waiting.pk])).context["page"]
    assert "The plan is of format 0" in page.why_no_plan
    assert page.reason == "For the yearbook."


def test_the_reviewer_reads_why_it_waits(waiting, decide_by, as_, sofia):
    url = reverse("release_request", args=[waiting.pk])
    because = "It waits because with it alice would have released epsilon 1 of this budget that no reviewer saw; up to"
    assert as_(sofia).get(url).context["page"].plan.why_it_waits == f"{because} 0.5 may pass."
    decide_by(review_above="3")
    assert "when it was asked for" in as_(sofia).get(url).context["page"].plan.why_it_waits


def test_an_approval_is_of_one_plan_only(waiting, decide, alice):
    decide(waiting, epsilon="0.75")
    release = Release.objects.get()
    services.releases.set_choice(release=release, epsilon="0.76", mechanism_name="laplace-queries")
    assert services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False) is None


@pytest.mark.parametrize("epsilon", ["1.1", "0", "-1", "nan", "1,5"])
def test_an_epsilon_that_cannot_be_approved_decides_nothing(waiting, decide, epsilon):
    response = decide(waiting, epsilon=epsilon)
    assert response.status_code == 400
    assert f"epsilon: '{epsilon}' must be" in words(response)
    waiting.refresh_from_db()
    assert waiting.state == "waiting"


def test_denying_ends_it_and_says_why(waiting, decide, as_, alice):
    assert decide(waiting, "deny").status_code == 400
    decide(waiting, "deny", note="Too much for one table.")
    release = Release.objects.get()
    assert release.state == "cancelled"
    page = words(as_(alice).get(reverse("release_detail", args=[release.pk])))
    assert "sofia denied it" in page
    assert "Too much for one table." in page
    assert not charges().exists()


def test_asking_back_makes_it_a_draft_with_the_question(waiting, decide, as_, alice):
    assert "must say what you want to know" in words(decide(waiting, "ask_back"))
    decide(waiting, "ask_back", note="Who reads it?")
    assert Release.objects.get().state == "draft"
    page = words(as_(alice).get(reverse("confirm", args=[waiting.release_id])))
    assert "Who reads it?" in page
    assert "Ask for the review" in page


def test_a_curator_takes_it_back(waiting, as_, alice, decide):
    page = as_(alice).get(reverse("release_detail", args=[waiting.release_id]))
    assert "Take it back to change it" in words(page)
    as_(alice).post(reverse("cancel_release", args=[waiting.release_id]))
    assert Release.objects.get().state == "draft"
    response = decide(waiting)
    assert "This request was taken back by the person who asked. Nothing was changed by what you pressed." in words(
        response
    )
    assert not charges().exists()


def test_a_request_is_decided_once_whoever_comes_second(waiting, decide):
    decide(waiting)
    again = decide(waiting, "deny", note="No.")
    assert again.status_code == 400
    assert (
        "This request was decided before: it was approved by sofia. Nothing was changed by what you pressed."
    ) in words(again)
    assert charges().count() == 1


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_a_budget_request_can_be_asked_back_and_is_asked_again(asked, decide, as_, alice):
    decide(asked, "ask_back", note="Which year?")
    asked.refresh_from_db()
    assert asked.state == "asked back"
    dataset = asked.budget.datasets.get()
    assert "Which year?" in words(as_(alice).get(reverse("dataset_detail", args=[dataset.pk])))
    again = {"epsilon": "3", "delta": "0.000001", "policy": "zcdp", "reason": "Of 2020."}
    as_(alice).post(reverse("budget", args=[dataset.pk]), again)
    assert BudgetRequest.objects.filter(state="waiting").get().reason == "Of 2020."


def test_a_budget_request_is_taken_back_and_asked_again_with_another_protection(asked, decide, as_, alice, sofia):
    dataset = asked.budget.datasets.get()
    page = as_(alice).get(reverse("budget", args=[dataset.pk]))
    assert "Take the request back" in words(page)
    said = as_(alice).post(reverse("take_back_budget", args=[dataset.pk]), follow=True)
    assert "The request was taken back." in words(said)
    assert "Take the request back" not in words(said)
    asked.refresh_from_db()
    assert (asked.state, asked.decided_by) == ("taken back", None)
    assert "This request was taken back by the person who asked." in words(decide(asked))
    assert not Notice.objects.filter(person=sofia, read_at=None).exists()
    # A mistake in what reviewers would have decided on can be mended.
    services.datasets.declare_protection(
        dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.REPLACE, by=alice
    )
    as_(alice).post(
        reverse("budget", args=[dataset.pk]), {"epsilon": "3", "delta": "0", "policy": "pure", "reason": "Once more."}
    )
    again = BudgetRequest.objects.get(state="waiting")
    assert (again.budget.policy, again.budget.neighbours, again.reason) == ("pure", "replace", "Once more.")


def test_what_was_settled_in_another_tab_stands_however_old_the_page_is(asked, decide, alice):
    """What a page has read before is not what is asked or declared against."""
    dataset = asked.budget.datasets.select_related("budget").get()
    old = [asked.budget.datasets.select_related("budget").get() for _ in range(2)]
    services.budgets.take_back_request(request=asked, by=alice)
    services.datasets.declare_protection(
        dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.REPLACE, by=alice
    )
    again = services.budgets.request_budget(
        dataset=dataset, epsilon="3", delta="0", policy=Policy.PURE, reason="", by=alice
    )
    decide(again)
    with pytest.raises(InvalidInput, match="cannot be changed"):
        services.budgets.request_budget(
            dataset=old[0], epsilon="4", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
        )
    with pytest.raises(InvalidInput, match="cannot be changed once a budget was asked for"):
        services.datasets.declare_protection(
            dataset=old[1], unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE, by=alice
        )
    again.budget.refresh_from_db()
    assert (again.budget.policy, again.budget.neighbours) == ("pure", "replace")


def test_a_decided_budget_request_stays_decided_and_what_was_decided_on_stands(asked, decide, as_, alice):
    dataset = asked.budget.datasets.get()
    decide(asked, "deny", note="No.")
    with pytest.raises(services.release_inputs.Refusal, match="was denied in the meantime"):
        services.budgets.take_back_request(request=asked, by=alice)
    said = as_(alice).post(reverse("take_back_budget", args=[dataset.pk]), follow=True)
    assert "No request waits for a reviewer any more." in words(said)
    assert BudgetRequest.objects.get().state == "denied"
    with pytest.raises(InvalidInput, match="cannot be changed once a budget was asked for"):
        services.datasets.declare_protection(
            dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.REPLACE, by=alice
        )


def test_what_was_taken_back_is_not_among_the_decisions(asked, decide, as_, sofia, alice):
    decide(asked, "deny", note="No.")
    again = services.budgets.request_budget(
        dataset=asked.budget.datasets.get(), epsilon="1", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
    )
    services.budgets.take_back_request(request=again, by=alice)
    page = words(as_(sofia).get(reverse("review_queue")))
    assert "denied" in page
    assert "taken back" not in page


def test_a_table_whose_request_was_taken_back_joins_the_people_of_another(asked, make_dataset, alice):
    dataset = asked.budget.datasets.get()
    services.budgets.take_back_request(request=asked, by=alice)
    other = make_dataset(epsilon="2", content=CSV + b"one more,30,male\n")
    assert services.datasets.join_population(dataset=dataset, other=other, by=alice) == other.budget
    asked.refresh_from_db()
    assert asked.budget == other.budget


def test_the_page_shows_the_declared_columns_and_no_row(asked, as_, sofia):
    page = words(as_(sofia).get(reverse("budget_request", args=[asked.pk])))
    assert "sex 2 categories: female, male" in page
    assert "p17" not in page


# --- two persons ------------------------------------------------------------------------------------------------------


def test_with_the_rule_the_first_approval_only_waits_for_the_second(decide_by, asked, decide, sofia, rita):
    decide_by(is_two_person=True)
    assert decide(asked, by=sofia, epsilon="2").status_code == 302
    asked.refresh_from_db()
    assert (asked.state, asked.first_by) == ("waiting", sofia)
    assert not LedgerEntry.objects.exists()
    decide(asked, by=rita)
    asked.refresh_from_db()
    assert (asked.state, asked.granted_epsilon, asked.decided_by) == ("approved", "2", rita)
    assert LedgerEntry.objects.get().kind == EntryKind.GRANT


def test_the_second_cannot_grant_more_than_the_first(decide_by, asked, decide, sofia, rita):
    decide_by(is_two_person=True)
    decide(asked, by=sofia, epsilon="2")
    assert "must be at most the 2 that sofia approved" in words(decide(asked, by=rita, epsilon="2.5"))
    decide(asked, by=rita, epsilon="1")
    asked.refresh_from_db()
    assert asked.granted_epsilon == "1"


def test_nobody_is_both_reviewers_nor_reviews_their_own(decide_by, asked, decide, as_, sofia, rita):
    decide_by(is_two_person=True)
    decide(asked, by=sofia)
    assert "the two-person rule wants a second person" in words(decide(asked, by=sofia))
    assert 'name="decision"' not in body(as_(sofia).get(reverse("budget_request", args=[asked.pk])))
    BudgetRequest.objects.update(requested_by=rita)
    assert "asked for it; somebody else has to approve it" in words(decide(asked, by=rita))
    assert not LedgerEntry.objects.exists()


def test_two_first_approvals_at_once_do_not_make_two_persons_of_one(decide_by, asked, sofia):
    decide_by(is_two_person=True)
    stale = BudgetRequest.objects.get()
    services.budgets.approve_request(request=asked, by=sofia)
    with pytest.raises(InvalidInput, match="sofia has approved this request as the first of two"):
        services.budgets.approve_request(request=stale, by=person("tess", "reviewer"))
    assert not LedgerEntry.objects.exists()


def test_one_reviewer_is_enough_to_deny(decide_by, asked, decide):
    decide_by(is_two_person=True)
    decide(asked, "deny", note="No.")
    asked.refresh_from_db()
    assert asked.state == "denied"


def test_the_rule_holds_for_releases_too(decide_by, waiting, decide, sofia, rita):
    decide_by(is_two_person=True)
    decide(waiting, by=sofia)
    assert not charges().exists()
    decide(waiting, by=rita)
    assert charges().get().release == waiting.release


# --- who may ----------------------------------------------------------------------------------------------------------


def test_where_a_group_decides_its_reviewers_do_and_others_look_on(decide_by, group, asked, as_, bob, decide, sofia):
    give(bob, "reviewer")
    decide_by(reviewers=group)
    url = reverse("budget_request", args=[asked.pk])
    assert as_(sofia).get(url).context["page"].decision.why_not == "Only members of Survey team decide requests."
    assert decide(asked, by=sofia).status_code == 403
    assert 'name="decision"' in body(as_(bob).get(url))
    assert "Review" in words(as_(bob).get("/catalogue/"))
    decide(asked, by=bob)
    asked.refresh_from_db()
    assert (asked.state, asked.decided_by) == ("approved", bob)


def test_without_the_role_the_queue_does_not_exist_even_for_the_group_that_decides(
    decide_by, group, asked, as_, charlie, bob, decide
):
    decide_by(reviewers=group)
    give(charlie, "reviewer")
    for name in ("review_queue", "budget_board", "ledger", "audit_log", "board_csv", "audit_csv", "ledger_csv"):
        assert as_(charlie).get(reverse(name)).status_code == 200
        assert as_(bob).get(reverse(name)).status_code == 404
    assert as_(charlie).get(reverse("organisation")).status_code == 404
    assert decide(asked, by=bob).status_code == 404
    asked.refresh_from_db()
    assert asked.state == "waiting"


def test_a_ledger_verifies_after_reviews(waiting, decide):
    decide(waiting)
    assert list(ledger.verify(waiting.release.dataset.budget)) == []


# --- what it says -----------------------------------------------------------------------------------------------------


def test_a_release_approved_for_less_leads_to_its_confirmation_and_says_so_on_every_step(waiting, decide, as_, alice):
    decide(waiting, epsilon="0.5", note="Half is enough.")
    release = waiting.release
    assert as_(alice).get(reverse("release_detail", args=[release.pk])).url == reverse("confirm", args=[release.pk])
    for step in ("questions", "compare", "confirm"):
        said = words(as_(alice).get(reverse(step, args=[release.pk])))
        assert said.count("sofia approved it with epsilon 0.5 on") == 1, step
        assert "“Half is enough.”" in said
        assert "Confirmed with nothing else changed, it needs no further review." in said
    for page in ("/", "/releases/", reverse("dataset_detail", args=[release.dataset_id])):
        assert "draft approved for epsilon 0.5, to be confirmed" in words(as_(alice).get(page)), page


def test_a_draft_with_another_epsilon_than_the_approved_one_is_not_called_approved(waiting, decide, as_, alice):
    decide(waiting, epsilon="0.5")
    release = waiting.release
    release.refresh_from_db()
    services.releases.set_choice(release=release, epsilon="0.75", mechanism_name="laplace-queries")
    assert as_(alice).get(reverse("release_detail", args=[release.pk])).url == reverse("questions", args=[release.pk])
    assert "approved for" not in words(as_(alice).get("/releases/"))
    said = words(as_(alice).get(reverse("compare", args=[release.pk])))
    assert "sofia approved it with epsilon 0.5" in said
    assert "no further review" not in said


def test_a_draft_that_was_asked_back_says_what_was_asked_on_its_first_step(waiting, decide, as_, alice):
    decide(waiting, "ask_back", note="Why so much?")
    page = as_(alice).get(reverse("release_detail", args=[waiting.release_id]), follow=True)
    assert "sofia asked back on" in words(page)
    assert "“Why so much?”" in words(page)
    assert "draft a reviewer asked back" in words(as_(alice).get("/releases/"))


def test_a_decision_is_said_in_the_past(waiting, as_, sofia):
    url = reverse("release_request", args=[waiting.pk])
    page = as_(sofia).post(url, {"decision": "ask_back", "epsilon": "", "note": "Why?"}, follow=True)
    assert "The request was asked back." in words(page)


def test_a_release_that_needs_no_delta_says_so_beside_the_one_that_was_asked_for(
    decide_by, dataset, make_draft, as_, alice, sofia
):
    decide_by()
    release = make_draft(dataset, delta="0.0000001")
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    said = words(as_(sofia).get(reverse("release_request", args=[release.reviews.get().pk])))
    assert "for epsilon 1 with delta 0.0000001 at most." in said
    assert "Costs epsilon 1 no delta: it spends nothing of the 0.0000001 asked for" in said
    assert "epsilon 1, delta 0.0000001 at most" in words(as_(sofia).get("/review/"))


def test_the_second_of_two_reads_what_the_first_approved_and_both_are_named(asked, decide_by, decide, as_, sofia, rita):
    decide_by(is_two_person=True)
    decide(asked, epsilon="2", delta="0.0000001")
    said = words(as_(rita).get(reverse("budget_request", args=[asked.pk])))
    assert "At most the 2 that sofia approved." in said
    assert "What epsilon 2 means" in said
    decide(asked, by=rita, epsilon="2", delta="0.0000001")
    said = words(as_(rita).get("/review/"))
    assert "✓ approved epsilon 2 sofia and rita" in said
