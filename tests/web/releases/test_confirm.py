"""Confirming: the exact charge, once, and only for what the page showed."""

import uuid

import pytest

from releases import services
from releases.engine.workload.parsing import read_question
from releases.models import AuditEvent, Budget, Dataset, LedgerEntry, Release
from releases.presentation.releases.confirm_page import title_at_first
from tests.web.pages import body, field_value, link, words
from tests.web.releases.conftest import charges

pytestmark = pytest.mark.usefixtures("no_worker")

E12 = 10**12


@pytest.fixture
def url(draft):
    return link("confirm", draft)


def shown_fields(page):
    """What the button of the page sends."""
    return {name: field_value(page, name) for name in ("key", "plan", "title")}


@pytest.fixture
def confirm(draft, url, as_, alice):
    """Press the button of the page as it is shown; anything given replaces what the page sends."""

    def press(**changed):
        page = as_(alice).get(url)
        assert not charges().filter(release=draft).exists(), "looking at it spends nothing"
        return as_(alice).post(url, shown_fields(page) | changed)

    return press


def test_pressing_charges_once_and_queues(confirm, draft):
    response = confirm(title="Age and sex", reason="For the\0 yearbook.")
    assert response.url == link("release_detail", draft)
    draft.refresh_from_db()
    assert (draft.state, draft.title) == ("queued", "Age and sex")
    assert charges().count() == 1
    assert Budget.objects.get().spent_epsilon == E12
    assert "For the yearbook." in AuditEvent.objects.get(action="submit").detail, "without what no database takes"


def test_an_old_page_cannot_confirm_a_draft_that_was_changed_since(draft, url, as_, alice):
    given = shown_fields(as_(alice).get(url))
    services.releases.set_choice(release=draft, epsilon="2", mechanism_name="laplace-queries")
    assert as_(alice).post(url, given).status_code == 409
    assert not charges().exists()
    assert Release.objects.get().state == "draft"


@pytest.mark.parametrize("key", ["nonsense", "another's"])
def test_a_form_without_its_own_key_charges_nothing(confirm, draft, dataset, make_queued, key):
    other = LedgerEntry.objects.get(release=make_queued(dataset)).key
    assert confirm(key=str(other) if key == "another's" else key).status_code == 409
    assert not charges().filter(release=draft).exists()


def test_where_the_budget_is_spent_while_one_types_nothing_is_charged_and_nothing_typed_is_lost(
    url, dataset, make_queued, as_, alice
):
    given = shown_fields(as_(alice).get(url))
    make_queued(dataset, epsilon="1.5")
    response = as_(alice).post(url, given | {"title": "For the yearbook"})
    assert response.status_code == 409
    assert field_value(response, "title") == "For the yearbook"
    said = "With this release, 125% of the budget would be spent, and 25% is left. Nothing was charged."
    assert said in words(response)
    assert "disabled" in body(response)
    assert charges().count() == 1
    assert Budget.objects.get().spent_epsilon == 15 * E12 // 10


@pytest.mark.parametrize("why", ["no grant", "frozen", "it cannot be run"])
def test_what_must_not_be_charged_is_refused_and_the_button_barred(make_dataset, make_draft, as_, alice, why):
    dataset = make_dataset(epsilon="" if why == "no grant" else "2")
    draft = make_draft(dataset, mechanism="gaussian-queries" if why == "it cannot be run" else "laplace-queries")
    if why == "frozen":
        services.budgets.freeze_budget(budget=dataset.budget)
    url = link("confirm", draft)
    page = as_(alice).get(url)
    assert "disabled" in body(page)
    assert as_(alice).post(url, shown_fields(page)).status_code == 409
    assert not charges().exists()


@pytest.mark.parametrize("changed", ["epsilon", "columns"])
def test_a_plan_of_what_was_changed_meanwhile_is_not_charged(draft, alice, changed):
    plan = services.releases.plan_of(release=draft)
    if changed == "columns":
        Dataset.objects.update(declared=Dataset.objects.get().declared[:1])
    else:
        Release.objects.update(epsilon="0.5")
    with pytest.raises(services.release_inputs.Refusal, match="was changed since"):
        services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice, send=False, plan=plan)
    assert not charges().exists()


@pytest.mark.parametrize(
    ("queries", "title"),
    [
        ([{"marginal": ["age", "sex"]}], "Counts of age × sex"),
        ([{"marginals": 1}], "2 tables of counts over 1 column"),
        ([{"mean": {"columns": ["age"], "by": ["sex"]}}], "Mean of age by sex"),
        ([{"median": "age"}], "Median of age"),
    ],
)
def test_a_release_that_nobody_named_gets_what_it_answers_as_its_title(dataset, queries, title):
    question = read_question({"version": 1, "queries": queries}, dataset.universe)
    assert title_at_first("Release 3", question) == title
    assert title_at_first("Release 3 of the yearbook", question) == "Release 3 of the yearbook"


def test_the_title_at_first_is_in_the_form(draft, url, as_, alice):
    Release.objects.filter(pk=draft.pk).update(title="Release 1")
    assert field_value(as_(alice).get(url), "title") not in ("", "Release 1")
