"""Confirming: the exact charge, once, and only for what the page showed."""

from __future__ import annotations

import uuid

import pytest
from django.urls import reverse

from releases import services
from releases.engine.mechanisms.base import Mechanism
from releases.models import AuditEvent, Budget, Dataset, LedgerEntry, Release
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db

E12 = 10**12


@pytest.fixture
def url(draft):
    return reverse("confirm", args=[draft.pk])


@pytest.fixture
def confirm(draft, url, as_, alice, monkeypatch):
    """Press the button of the page as it is shown; anything given replaces what the page sends."""
    monkeypatch.setattr("releases.services.releases.enqueue", lambda release_id: None)

    def press(**changed):
        page = as_(alice).get(url)
        given = {name: field_value(page, name) for name in ("key", "plan", "title")}
        return as_(alice).post(url, given | changed)

    return press


def charges():
    return LedgerEntry.objects.filter(kind="charge")


def test_it_says_the_charge_the_accuracy_and_that_it_cannot_be_undone(url, as_, alice):
    page = words(as_(alice).get(url))
    assert "With probability 95%, every one of the 17 counts is within" in page
    assert "Charged to the budget epsilon 1" in page
    assert "This cannot be undone." in page
    assert "Leaves 50% about one more release like this fits." in page
    assert "10% 23.2%" in page


def test_it_says_what_runs_out_first(draft, url, as_, alice):
    assert "The budget’s epsilon runs out first." in words(as_(alice).get(url))
    services.releases.set_questions(release=draft, workload={"version": 1, "queries": [{"median": "age"}]})
    services.releases.set_choice(release=draft, epsilon="0.1", delta="0.000001", mechanism_name="propose-test-release")
    page = words(as_(alice).get(url))
    assert "It does not fit: it takes delta 0.000001 all by itself, and delta 0.0000001 is left" in page
    services.releases.set_choice(release=draft, epsilon="0.1", delta="0.0000001", mechanism_name="propose-test-release")
    page = words(as_(alice).get(url))
    assert "no further release like this fits." in page
    assert "The budget’s delta runs out first; releases without a delta still fit." in page


def test_it_says_what_becomes_of_values_that_were_not_declared_and_leads_back(url, draft, as_, alice):
    page = as_(alice).get(url)
    assert "Nobody has checked whether there are any." in words(page)
    assert f'href="{reverse("columns", args=[draft.dataset_id])}"' in body(page)


def test_looking_at_it_spends_nothing(url, as_, alice):
    as_(alice).get(url)
    assert not charges().exists()
    assert Release.objects.get().state == "draft"


def test_pressing_charges_once_and_queues(confirm, draft):
    response = confirm(title="Age and sex")
    assert response.url == reverse("release_detail", args=[draft.pk])
    draft.refresh_from_db()
    assert (draft.state, draft.title) == ("queued", "Age and sex")
    assert charges().count() == 1
    assert Budget.objects.get().spent_epsilon == E12


def test_of_two_presses_at_once_the_second_leads_to_what_the_first_submitted(confirm, draft, alice, monkeypatch):
    name = services.releases.name_release

    def the_other_is_quicker(**given):
        submitted = Release.objects.get(pk=draft.pk)
        services.releases.submit_release(release=submitted, key=uuid.uuid4(), by=alice, send=False)
        name(**given)

    monkeypatch.setattr(services.releases, "name_release", the_other_is_quicker)
    response = confirm()
    assert (response.status_code, response.url) == (302, reverse("release_detail", args=[draft.pk]))
    assert charges().count() == 1


def test_pressing_twice_is_one_charge(confirm, draft, url, as_, alice):
    key = str(uuid.uuid4())
    confirm(key=key)
    response = as_(alice).post(url, {"key": key, "plan": "x", "title": "x"})
    assert response.url == reverse("release_detail", args=[draft.pk])
    assert charges().count() == 1


def test_an_old_page_cannot_confirm_a_draft_that_was_changed_since(draft, url, as_, alice):
    page = as_(alice).get(url)
    given = {name: field_value(page, name) for name in ("key", "plan", "title")}
    services.releases.set_choice(release=draft, epsilon="2", mechanism_name="laplace-queries")
    response = as_(alice).post(url, given)
    assert response.status_code == 409
    assert "The draft was changed since this page was shown. Read it again." in words(response)
    assert not charges().exists()
    assert Release.objects.get().state == "draft"


@pytest.mark.parametrize("key", ["", "nonsense", "1234"])
def test_a_form_without_its_key_charges_nothing(confirm, key):
    response = confirm(key=key)
    assert response.status_code == 409
    assert "The form is out of date." in words(response)
    assert not charges().exists()


def test_a_key_used_for_another_release_charges_nothing(confirm, dataset, make_queued):
    other = make_queued(dataset)
    key = LedgerEntry.objects.get(release=other).key
    response = confirm(key=str(key))
    assert response.status_code == 409
    assert "already made for another release" in words(response)
    assert charges().count() == 1


def test_a_release_without_a_title_is_not_confirmed(confirm):
    response = confirm(title="  ")
    assert response.status_code == 400
    assert "Title: nothing was typed." in words(response)
    assert not charges().exists()


def test_a_budget_already_spent_is_a_409_page_with_both_numbers_and_nothing_is_charged(
    confirm, dataset, make_queued, draft
):
    make_queued(dataset, epsilon="1.5")
    response = confirm()
    assert response.status_code == 409
    page = words(response)
    assert "The release costs epsilon 1, and epsilon 0.5 is left" in page
    assert "Nothing was charged." in page
    assert charges().count() == 1
    draft.refresh_from_db()
    assert draft.state == "draft"
    assert Budget.objects.get().spent_epsilon == 15 * E12 // 10


def test_where_the_budget_is_spent_while_one_types_nothing_typed_is_lost(url, draft, dataset, make_queued, as_, alice):
    shown = as_(alice).get(url)
    assert "Ask for a larger budget" not in words(shown)
    given = {name: field_value(shown, name) for name in ("key", "plan")}
    make_queued(dataset, epsilon="1.5")
    response = as_(alice).post(url, given | {"title": "For the yearbook"})
    assert response.status_code == 409
    assert field_value(response, "title") == "For the yearbook"
    assert "and epsilon 0.5 is left" in words(response)
    assert "Ask for a larger budget" in words(response)
    assert "disabled" in body(response)
    assert charges().count() == 1


def test_where_it_does_not_fit_the_button_is_barred_and_says_why(draft, dataset, make_queued, url, as_, alice):
    make_queued(dataset, epsilon="1.5")
    page = as_(alice).get(url)
    assert "disabled" in body(page)
    assert "It does not fit: it costs epsilon 1, and epsilon 0.5 is left" in words(page)


def test_before_a_grant_nothing_can_be_confirmed(make_dataset, make_draft, as_, alice):
    draft = make_draft(make_dataset(epsilon=""))
    url = reverse("confirm", args=[draft.pk])
    page = as_(alice).get(url)
    assert "No budget has been granted yet." in words(page)
    given = {name: field_value(page, name) for name in ("key", "plan", "title")}
    response = as_(alice).post(url, given)
    assert response.status_code == 409
    assert "A reviewer has to approve the request first." in words(response)
    assert not charges().exists()


def test_a_frozen_budget_takes_no_release(confirm, dataset):
    services.budgets.freeze_budget(budget=dataset.budget)
    response = confirm()
    assert response.status_code == 409
    assert "A reviewer has frozen this budget." in words(response)
    assert not charges().exists()


def test_a_plan_that_cannot_be_run_cannot_be_confirmed(draft, url, as_, alice):
    services.releases.set_choice(release=draft, epsilon="1", mechanism_name="gaussian-queries")
    page = as_(alice).get(url)
    assert "It needs a delta above 0" in words(page)
    assert "disabled" in body(page)
    given = {name: field_value(page, name) for name in ("key", "plan", "title")}
    assert as_(alice).post(url, given).status_code == 409
    assert not charges().exists()


def test_a_mechanism_comes_first(dataset, make_draft, as_, alice):
    draft = make_draft(dataset, mechanism="")
    response = as_(alice).get(reverse("confirm", args=[draft.pk]), follow=True)
    assert response.redirect_chain[-1][0] == reverse("compare", args=[draft.pk])
    assert "Choose a mechanism first." in words(response)


def test_a_reason_is_kept_without_what_no_database_takes(confirm, draft):
    confirm(reason="For the\0 yearbook.")
    assert charges().count() == 1
    assert "For the yearbook." in AuditEvent.objects.get(action="submit").detail


def test_a_mechanism_chosen_for_another_kind_of_question_is_chosen_anew(draft, url, as_, alice):
    services.releases.set_choice(release=draft, epsilon="1", mechanism_name="laplace-numbers")
    page = as_(alice).get(url, follow=True)
    assert page.redirect_chain == [(reverse("compare", args=[draft.pk]), 302)]
    assert "answers another kind of question" in words(page)


@pytest.fixture
def planned(monkeypatch):
    """The mechanisms that were asked for a plan."""
    names, plan = [], Mechanism.plan

    def counted(mechanism, *given, **chosen):
        names.append(mechanism.name)
        return plan(mechanism, *given, **chosen)

    monkeypatch.setattr(Mechanism, "plan", counted)
    return names


def test_a_press_on_the_button_plans_once(draft, url, as_, alice, planned, monkeypatch):
    monkeypatch.setattr("releases.services.releases.enqueue", lambda release_id: None)
    page = as_(alice).get(url)
    given = {name: field_value(page, name) for name in ("key", "plan", "title")}
    planned.clear()
    assert as_(alice).post(url, given).url == reverse("release_detail", args=[draft.pk])
    assert planned == [draft.mechanism]
    assert charges().count() == 1


@pytest.mark.parametrize("changed", [{"epsilon": "0.5"}, {"title": "Another title"}])
def test_a_plan_of_a_draft_that_was_changed_meanwhile_is_not_charged(draft, alice, changed):
    plan = services.releases.plan_of(release=draft)
    Release.objects.filter(pk=draft.pk).update(**changed)
    submit = {"release": draft, "key": uuid.uuid4(), "by": alice, "send": False, "plan": plan}
    if "epsilon" not in changed:
        assert services.releases.submit_release(**submit) is not None
        return
    with pytest.raises(services.release_inputs.Refusal, match="was changed since"):
        services.releases.submit_release(**submit)
    assert not charges().exists()


def test_a_plan_for_columns_that_were_declared_again_meanwhile_is_not_charged(draft, alice):
    plan = services.releases.plan_of(release=draft)
    dataset = Dataset.objects.get(pk=draft.dataset_id)
    Dataset.objects.filter(pk=dataset.pk).update(declared=dataset.declared[:1])
    with pytest.raises(services.release_inputs.Refusal, match="was changed since"):
        services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False, plan=plan)
    assert not charges().exists()
