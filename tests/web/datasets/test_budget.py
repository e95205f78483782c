"""Asking for a budget: what is asked, what is refused, and what waits."""

import re

import pytest
from django.urls import reverse

from releases import services
from releases.models import Budget, BudgetRequest, LedgerEntry
from tests.web.pages import body, words
from tests.web.steps import refuses


@pytest.fixture
def protected(make_dataset):
    return make_dataset(epsilon="")


@pytest.fixture
def send(protected, as_, alice):
    def post(**data):
        given = {"epsilon": "3", "delta": "0.000001", "policy": "zcdp", "reason": "For the yearbook."} | data
        return as_(alice).post(reverse("budget", args=[protected.pk]), given)

    return post


def test_a_request_waits_for_a_reviewer_and_spends_nothing(send, protected):
    assert send().url == reverse("dataset_detail", args=[protected.pk])
    asked = BudgetRequest.objects.get()
    assert (asked.epsilon, asked.delta, asked.reason, asked.state) == ("3", "0.000001", "For the yearbook.", "waiting")
    assert not Budget.objects.get().is_granted
    assert not LedgerEntry.objects.exists()
    assert send(epsilon="9").status_code == 400, "while one waits, no other can be made"
    assert BudgetRequest.objects.count() == 1


@pytest.mark.parametrize(("delta", "said"), [("0.000001", ", delta 0.000001"), ("0", "")])
def test_the_amounts_asked_for_and_granted_are_shown_with_their_delta(send, protected, as_, alice, sofia, delta, said):
    send(delta=delta, policy="pure" if delta == "0" else "zcdp")
    address, of_asking = (reverse(name, args=[protected.pk]) for name in ("dataset_detail", "budget"))
    asked = BudgetRequest.objects.get()
    requests = words(as_(alice).get(address)).partition("Budget requests")[2]
    assert f"epsilon 3{said}" in requests
    assert ("delta" in requests) == bool(said)
    services.budgets.approve_request(request=asked, by=sofia, epsilon="2", delta=delta)
    assert f"epsilon 2{said}" in words(as_(alice).get(address)).partition("Budget requests")[2]
    BudgetRequest.objects.update(state="denied", note="No.")
    assert f"Epsilon 3{said} was asked for" in words(as_(alice).get(of_asking))


NO_BUDGETS = [
    ({"epsilon": "0"}, "epsilon: '0' must be above 0 and at most 100"),
    ({"epsilon": "101"}, "epsilon: '101' must be above 0 and at most 100"),
    ({"epsilon": "nan"}, "epsilon: 'nan' must be a finite decimal number"),
    ({"epsilon": "1,5"}, "epsilon: '1,5' must be a decimal number with a point"),
    ({"epsilon": "1e400"}, "epsilon: '1e400' must be a decimal number of ordinary size"),
    ({"delta": "1"}, "delta: '1' must be above 0 and below 1"),
    ({"delta": "0.5"}, "delta: '0.5' must be at most 0.001"),
    ({"policy": "pure"}, "delta: '0.000001' must be 0 with the pure rule"),
]


def test_an_amount_that_is_no_budget_is_refused_beside_the_field(send):
    refuses(send, NO_BUDGETS, epsilon="3", reason="For the yearbook.")


def test_the_dataset_s_page_counts_what_is_left_in_releases_like_its_newest_finished_one(
    dataset, make_draft, make_queued, carry_out, as_, alice
):
    def said():
        return as_(alice).get(reverse("dataset_detail", args=[dataset.pk])).context["more_like"]

    make_queued(dataset, epsilon="0.3")
    assert said() == "", "it is charged and not finished"
    carry_out(make_draft(dataset, epsilon="0.4", title="Ages"))
    # Of epsilon 2, 1.3 are left.
    assert said() == "About 3 more releases like “Ages” fit."
    make_draft(dataset, epsilon="0.1")
    carry_out(make_draft(dataset, epsilon="0.7", title="All tables"))
    assert said() == "No further release like “All tables” fits. The budget’s epsilon runs out first."
    Budget.objects.update(is_frozen=True)
    assert said() == ""


def test_home_says_what_is_left_as_the_dataset_s_page_does_and_what_each_release_found(
    dataset, make_dataset, make_draft, carry_out, as_, alice
):
    """Per cent and releases, no epsilon; each table by its own newest release, and drafts and empty tables beside."""
    other = make_dataset(epsilon="1.5")
    ages = carry_out(make_draft(dataset, epsilon="0.4", title="Ages"))
    carry_out(make_draft(other, epsilon="0.5", title="Of the other"))
    make_draft(dataset, title="A draft")
    page = as_(alice).get(reverse("home"))
    assert {row["dataset"].pk: row["more_like"] for row in page.context["rows"]} == {
        dataset.pk: "About 4 more releases like “Ages” fit.",
        other.pk: "About 2 more releases like “Of the other” fit.",
    }
    left = re.search(r'<td data-label="Left">(.*?)</td>', body(page), re.DOTALL)[1]
    assert "%" in left
    assert "epsilon" not in left
    (found,) = {row.found for row in page.context["releases"] if row.title == "Ages"}
    assert found == as_(alice).get(reverse("release_detail", args=[ages.pk])).context["page"].headline
    assert {row.found for row in page.context["releases"] if row.title == "A draft"} == {""}
    assert found in words(page)
