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


@pytest.fixture(autouse=True)
def _no_worker():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("releases.services.releases.enqueue", lambda release_id: None)
        yield


@pytest.fixture
def url(draft):
    return reverse("confirm", args=[draft.pk])


@pytest.fixture
def confirm(draft, url, as_, alice):
    """Press the button of the page as it is shown; anything given replaces what the page sends."""

    def press(**changed):
        page = as_(alice).get(url)
        assert not charges().filter(release=draft).exists(), "looking at it spends nothing"
        given = {name: field_value(page, name) for name in ("key", "plan", "title")}
        return as_(alice).post(url, given | changed)

    return press


def charges():
    return LedgerEntry.objects.filter(kind="charge")


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
    assert as_(alice).post(url, given).status_code == 409
    assert not charges().exists()
    assert Release.objects.get().state == "draft"


@pytest.mark.parametrize("key", ["", "nonsense", "1234"])
def test_a_form_without_its_key_charges_nothing(confirm, key):
    assert confirm(key=key).status_code == 409
    assert not charges().exists()


def test_a_key_used_for_another_release_charges_nothing(confirm, dataset, make_queued):
    other = make_queued(dataset)
    assert confirm(key=str(LedgerEntry.objects.get(release=other).key)).status_code == 409
    assert charges().count() == 1


def test_a_release_without_a_title_is_not_confirmed(confirm):
    response = confirm(title="  ")
    assert response.status_code == 400
    assert "Title: nothing was typed." in words(response)
    assert not charges().exists()


def test_where_the_budget_is_spent_while_one_types_nothing_is_charged_and_nothing_typed_is_lost(
    url, dataset, make_queued, as_, alice
):
    shown = as_(alice).get(url)
    given = {name: field_value(shown, name) for name in ("key", "plan")}
    make_queued(dataset, epsilon="1.5")
    response = as_(alice).post(url, given | {"title": "For the yearbook"})
    assert response.status_code == 409
    assert field_value(response, "title") == "For the yearbook"
    assert "The release costs epsilon 1, and epsilon 0.5 is left" in words(response)
    assert "disabled" in body(response)
    assert charges().count() == 1
    assert Budget.objects.get().spent_epsilon == 15 * E12 // 10


@pytest.mark.parametrize("why", ["no grant", "frozen", "it cannot be run"])
def test_what_must_not_be_charged_is_refused_and_the_button_barred(make_dataset, make_draft, as_, alice, why):
    dataset = make_dataset(epsilon="" if why == "no grant" else "2")
    draft = make_draft(dataset, mechanism="gaussian-queries" if why == "it cannot be run" else "laplace-queries")
    if why == "frozen":
        services.budgets.freeze_budget(budget=dataset.budget)
    url = reverse("confirm", args=[draft.pk])
    page = as_(alice).get(url)
    assert "disabled" in body(page)
    given = {name: field_value(page, name) for name in ("key", "plan", "title")}
    assert as_(alice).post(url, given).status_code == 409
    assert not charges().exists()


@pytest.mark.parametrize("mechanism", ["", "laplace-numbers"])
def test_a_mechanism_for_this_kind_of_question_comes_first(dataset, make_draft, as_, alice, mechanism):
    draft = make_draft(dataset, mechanism=mechanism)
    response = as_(alice).get(reverse("confirm", args=[draft.pk]))
    assert response.url == reverse("compare", args=[draft.pk])


def test_a_reason_is_kept_without_what_no_database_takes(confirm, draft):
    confirm(reason="For the\0 yearbook.")
    assert charges().count() == 1
    assert "For the yearbook." in AuditEvent.objects.get(action="submit").detail


@pytest.fixture
def planned(monkeypatch):
    """The mechanisms that were asked for a plan."""
    names, plan = [], Mechanism.plan

    def counted(mechanism, *given, **chosen):
        names.append(mechanism.name)
        return plan(mechanism, *given, **chosen)

    monkeypatch.setattr(Mechanism, "plan", counted)
    return names


def test_a_press_on_the_button_plans_once(draft, url, as_, alice, planned):
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
