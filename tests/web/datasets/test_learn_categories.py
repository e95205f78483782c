"""A column's categories learned from the data: planned from public facts, paid as a release, taken over by hand."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from releases import services
from releases.engine.accounting import accountant
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.models import Dataset, EntryKind, LedgerEntry, Organisation, Release
from releases.publication import files
from releases.publication.registry_entry import registry_entry
from releases.schema import learned
from releases.worker import runner
from tests.web.conftest import columns_page
from tests.web.pages import body, chosen, field_value, words
from tests.web.past_the_guards import lift

pytestmark = pytest.mark.django_db

#: Three towns of 100 people and more, one of a single person, and a person who says nothing.
TOWNS = b"town,age,sex,who\n" + b"".join(
    f'"{town}",{20 + i % 40},{"male" if i % 2 else "female"},p{i}\n'.encode()
    for i, town in enumerate(["Oban"] * 100 + ["Ayr"] * 120 + ["Fort William, Highland"] * 140 + ["Unst", ""])
)
AGE = {"name": "age", "type": "integer", "edges": [0, 50, 100]}
TYPED = {"column": "town", "other": "elsewhere", "epsilon": "1", "delta": "0.00000001"}


@pytest.fixture
def survey(make_dataset):
    """A column of towns that is not declared, and a budget of epsilon 10."""
    dataset = make_dataset(content=TOWNS, epsilon="10")
    services.datasets.declare_universe(dataset=dataset, columns=[AGE])
    return dataset


@pytest.fixture
def sheet(survey, make_sheet):
    return make_sheet("learn_categories", survey, TYPED)


@pytest.fixture
def learn(survey, alice, carry_out):
    """A published release of the towns that many people live in."""

    def run(*, execute=True, **changed):
        dataset = Dataset.objects.get(pk=survey.pk)
        release = services.learning.learn_categories(dataset=dataset, by=alice, **{**TYPED, **changed})
        return carry_out(release, execute=execute)

    return run


def town_of(dataset):
    return next((each for each in Dataset.objects.get(pk=dataset.pk).declared if each["name"] == "town"), None)


FOUND = ["Ayr", "Fort William, Highland", "Oban"]


# The way there


def test_a_column_of_text_or_left_out_has_a_link_and_one_of_numbers_or_ids_has_none(make_dataset, as_, alice):
    unit = PrivacyUnit(kind="person", id_column="who", max_rows=1)
    dataset = make_dataset(content=TOWNS, epsilon="10")
    url = reverse("learn_categories", args=[dataset.pk])
    shown = body(columns_page(as_(alice), dataset))
    assert f'{url}?column=town">Learn the categories' in shown
    assert f'{url}?column=sex">Learn the categories' in shown
    assert f"{url}?column=age" not in shown
    lift("budget_keeps_its_meaning")
    dataset.budget.unit = unit.to_json()
    dataset.budget.save()
    assert f"{url}?column=who" in shown
    assert f"{url}?column=who" not in body(columns_page(as_(alice), dataset))


def test_without_a_column_those_of_text_are_offered(survey, as_, alice):
    url = reverse("learn_categories", args=[survey.pk])
    shown = as_(alice).get(url)
    assert '<a href="?column=town">town</a>' in body(shown)
    assert "column=age" not in body(shown)
    for wrong in ("age", "city"):
        refused = as_(alice).get(url, {"column": wrong})
        assert refused.status_code == 400
        assert f"column: '{wrong}' must be a column of the table that is neither declared as numbers" in words(refused)


def test_columns_and_protection_come_first(alice, group, upload_file, as_):
    fresh = services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file(TOWNS), group=group)
    url = reverse("learn_categories", args=[fresh.pk])
    assert as_(alice).get(url).url == reverse("columns", args=[fresh.pk])
    services.datasets.declare_universe(dataset=fresh, columns=[AGE])
    assert as_(alice).post(url, TYPED).url == reverse("protection", args=[fresh.pk])
    with pytest.raises(services.release_inputs.Refusal, match="Declare the columns and the protection first"):
        services.learning.learn_categories(dataset=fresh, by=alice, **TYPED)
    assert not Release.objects.exists()


@pytest.mark.parametrize("page", ["learn_categories", "learn_range"])
def test_of_a_table_without_rows_nothing_is_learned(survey, as_, alice, page):
    Dataset.objects.filter(pk=survey.pk).update(rows_deleted_at=timezone.now())
    for send in (as_(alice).get, as_(alice).post):
        assert send(reverse(page, args=[survey.pk]), TYPED).url == reverse("dataset_detail", args=[survey.pk])
    assert not Release.objects.exists()


@pytest.mark.parametrize(("person", "status"), [("alice", 200), ("bob", 200), ("charlie", 404), ("sofia", 404)])
def test_the_datasets_people_alone_may_plan_it(survey, as_, request, person, status):
    url = reverse("learn_categories", args=[survey.pk])
    user = request.getfixturevalue(person)
    assert as_(user).get(url, TYPED).status_code == status
    assert as_(user).post(url, TYPED).status_code == (302 if status == 200 else 404)
    assert Release.objects.exists() == (status == 200)


# The plan


def test_the_page_says_what_it_costs_how_many_rows_it_takes_and_what_is_left(sheet):
    shown = words(sheet.get(**TYPED))
    assert "Charged to the budget epsilon 1, delta 0.00000001" in shown
    assert "Leaves" in shown
    assert "Rows a value needs, about 20" in shown
    assert "Rows from which it is found 22 rows" in shown
    assert (
        "With probability 95%, any one value that is not declared is found if at least 22 counted rows have it" in shown
    )
    assert "A value that only one unit has is named with probability 0.00000001 at most" in shown
    assert "If you go on, town is declared with the one category elsewhere , until" in shown
    assert "Not for names, numbers or addresses of people, nor for free text." in shown
    assert "It cannot be undone." in shown


def test_at_first_a_common_word_a_tenth_of_the_epsilon_and_a_hundredth_of_the_delta_stand_there(sheet, survey):
    typed = {name: field_value(sheet.get(), name) for name in ("other", "epsilon", "delta")}
    assert typed == {"other": "other", "epsilon": "1", "delta": "0.000000001"}
    town = {"name": "town", "type": "categorical", "categories": ["Oban", "rest"], "outside": "rest"}
    services.datasets.declare_universe(dataset=survey, columns=[AGE, town])
    assert field_value(sheet.get(), "other") == "rest"
    assert "declares town" not in words(sheet.get(**{**TYPED, "other": "rest"}))
    assert "If you go on, town is declared again: its 2 categories and elsewhere for" in words(sheet.get(**TYPED))


def test_neither_the_page_nor_the_draft_opens_the_table(sheet, survey, as_, alice, monkeypatch):
    """The file is taken away, and whoever would open it is stopped."""
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("the table was opened"))
    (Path(settings.TABLES_DIR) / survey.location).unlink()
    assert sheet.get(**TYPED).status_code == 200
    there = sheet.post()
    assert there.status_code == 302
    assert as_(alice).get(there.url).status_code == 200
    release = Release.objects.get()
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert LedgerEntry.objects.filter(kind=EntryKind.CHARGE, release=release).exists()


@pytest.mark.parametrize(
    ("field", "typed", "message"),
    [
        ("other", "", "other: nothing was typed; must be a word, such as other"),
        ("other", "drop", "other: 'drop' must be another word: this one leaves rows out"),
        ("other", "else\u200bwhere", "must be printable text without spaces around it"),
        ("other", "x" * 201, "other: must have at most 200 characters"),
        ("epsilon", "0", "epsilon: '0' must be above 0"),
        ("epsilon", "1,5", "epsilon: '1,5' must be a decimal number with a point, such as 0.5"),
        ("delta", "", "delta: nothing was typed"),
        ("delta", "1", "delta: '1' must be"),
        ("delta", "tiny", "delta: 'tiny' must be a decimal number with a point, such as 0.5"),
    ],
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_broken_rule_is_named_beside_its_field_and_nothing_typed_is_lost(
    sheet, survey, method, field, typed, message
):
    response = getattr(sheet, method)(**{**TYPED, field: typed})
    assert response.status_code == 400
    assert message in words(response)
    assert list(response.context["form"].errors) == [field]
    for name, value in {**TYPED, field: typed}.items():
        assert field_value(response, name) == value
    assert not Release.objects.exists()
    assert town_of(survey) is None


def test_without_a_delta_it_is_said_why_it_cannot_be_run_and_goes_no_further(sheet):
    shown = sheet.post(delta="0")
    assert "Cannot be run. It needs a delta above 0" in words(shown)
    assert not Release.objects.exists()


def test_a_budget_that_admits_no_delta_is_said_and_the_button_does_not_work(make_dataset, as_, alice):
    dataset = make_dataset(content=TOWNS, epsilon="10", delta="0", policy=Policy.PURE)
    url = reverse("learn_categories", args=[dataset.pk])
    assert field_value(as_(alice).get(url, {"column": "town"}), "delta") == "0"
    shown = as_(alice).get(url, TYPED)
    assert '<button disabled aria-describedby="why-not">Go on to confirm' in body(shown)


def test_a_price_beyond_the_budget_is_said_and_the_button_does_not_work(sheet, learn):
    learn(epsilon="3", execute=False)
    shown = sheet.get(**{**TYPED, "epsilon": "9"})
    assert '<button disabled aria-describedby="why-not">Go on to confirm' in body(shown)
    assert "It does not fit" in words(shown)
    assert "Leaves" not in words(shown)


def test_an_ungranted_budget_is_said_too(make_dataset, as_, alice):
    dataset = make_dataset(content=TOWNS, epsilon="")
    shown = as_(alice).get(reverse("learn_categories", args=[dataset.pk]), {"column": "town"})
    assert field_value(shown, "delta") == "0.000001"
    assert "No budget has been granted yet." in words(shown)


# The draft


def test_going_on_declares_the_catch_all_and_drafts_the_release(sheet, survey, alice):
    response = sheet.post()
    release = Release.objects.get()
    assert response.url == reverse("confirm", args=[release.pk])
    assert (release.state, release.title, release.submitted_by) == ("draft", "Categories of town", alice)
    assert release.workload["queries"] == [{"categories": "town"}]
    assert (release.mechanism, release.epsilon, release.delta) == ("stable-histogram", "1", "0.00000001")
    assert town_of(survey) == {
        "name": "town",
        "type": "categorical",
        "categories": ["elsewhere"],
        "outside": "elsewhere",
    }
    assert not LedgerEntry.objects.filter(kind=EntryKind.CHARGE).exists()


@pytest.mark.parametrize("outside", ["drop", "rest"])
def test_categories_that_are_declared_stay(sheet, survey, outside):
    town = {"name": "town", "type": "categorical", "categories": ["Oban", "rest"], "outside": outside}
    services.datasets.declare_universe(dataset=survey, columns=[town, AGE])
    sheet.post()
    assert town_of(survey) == {**town, "categories": ["Oban", "rest", "elsewhere"], "outside": "elsewhere"}


def test_the_draft_can_be_compared_and_its_questions_changed_like_any_other(sheet, as_, alice):
    sheet.post()
    release = Release.objects.get()
    compared = as_(alice).get(reverse("compare", args=[release.pk]))
    assert 'name="mechanism" value="stable-histogram"' in body(compared)
    assert "at least 22 counted rows have it" in words(compared)
    asked = as_(alice).get(reverse("questions", args=[release.pk]))
    assert "<h2>Values that nobody declared</h2>" in body(asked)


def test_it_waits_for_a_reviewer_where_the_organisation_wants_that(sheet, alice):
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.5")
    sheet.post()
    release = Release.objects.get()
    assert services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice) is None
    release.refresh_from_db()
    assert release.state == "awaiting review"


def test_it_is_charged_exactly_once_and_exactly_what_it_was_said_to_cost(learn):
    release = learn(epsilon="0.3", execute=False)
    entry = LedgerEntry.objects.get(kind=EntryKind.CHARGE)
    assert entry.release == release
    assert entry.detail["price"]["epsilon"] == 3 * 10**accountant.EPSILON_PLACES // 10
    assert entry.detail["price"]["delta"] == 10 ** (accountant.DELTA_PLACES - 8)
    assert services.execution.execute_release(release_id=release.pk)
    assert not services.execution.execute_release(release_id=release.pk)
    assert LedgerEntry.objects.filter(kind=EntryKind.CHARGE).count() == 1


# The result


def test_the_result_is_the_values_and_offers_itself_to_the_datasets_people(learn, survey, as_, alice, charlie):
    release = learn()
    receipt = release.result["receipt"]
    assert (receipt["notes"], receipt["answers"]) == ({"categories": FOUND}, 3)
    shown = as_(alice).get(reverse("release_detail", args=[release.pk]))
    use = f'{reverse("columns", args=[survey.pk])}?learned={release.pk}">Use these categories for column town</a>'
    assert "".join(f"<li>{value}</li>" for value in FOUND) in body(shown)
    assert use in body(shown)
    assert (files.folder_of(release) / "answers.csv").read_text().splitlines()[:2] == [
        '"query","of","answer"',
        '"values of town that are not declared","town","Ayr"',
    ]
    services.releases.make_public(release=release)
    assert use not in body(as_(charlie).get(reverse("release_detail", args=[release.pk])))


def test_a_release_that_finds_nothing_says_so_and_offers_nothing(learn, survey, as_, alice):
    release = learn(epsilon="0.01")
    assert release.result["receipt"]["answers"] == 0
    shown = as_(alice).get(reverse("release_detail", args=[release.pk]))
    assert "Values of town that are not declared: none was found." in words(shown)
    assert "Use these categories" not in words(shown)
    assert (files.folder_of(release) / "answers.csv").read_text() == '"query","of","answer"\n'
    answers = as_(alice).get(reverse("answers", args=[release.pk]))
    assert json.loads(body(answers))["answers"] == []
    assert as_(alice).get(reverse("receipt", args=[release.pk])).status_code == 200
    assert columns_page(as_(alice), survey, release).status_code == 404
    assert "that nothing was found" in words(as_(alice).get(reverse("visibility", args=[release.pk])))


def test_the_columns_are_shown_with_the_values_filled_in_and_nothing_is_stored(learn, survey, as_, alice):
    release = learn()
    before = town_of(survey)
    shown = columns_page(as_(alice), survey, release)
    assert field_value(shown, "form-0-values").split("\n") == [*FOUND, "elsewhere"]
    assert (chosen(shown, "form-0-outside"), field_value(shown, "form-0-catch_all")) == ("category", "elsewhere")
    assert "The categories of town are filled in , as Categories of town learned them: 3 values beside" in words(shown)
    codebook = json.loads(field_value(shown, "codebook"))
    assert codebook["columns"][1]["categories"] == [*FOUND, "elsewhere"]
    assert town_of(survey) == before


def declare_learned(client, dataset, release, values=None):
    """Press the button of the page with the values filled in."""
    shown = columns_page(client, dataset, release)
    sent = {"form-TOTAL_FORMS": 4, "form-INITIAL_FORMS": 4, "form-2-name": "sex", "form-3-name": "who"}
    for i, kind in ((0, "categorical"), (1, "integer")):
        fields = {name: field_value(shown, f"form-{i}-{name}") for name in ("name", "values", "catch_all")}
        fields["outside"] = chosen(shown, f"form-{i}-outside")
        sent |= {f"form-{i}-{name}": value for name, value in fields.items()} | {f"form-{i}-kind": kind}
    if values is not None:
        sent["form-0-values"] = values
    return client.post(f"{reverse('columns', args=[dataset.pk])}?learned={release.pk}", sent)


def test_declared_categories_say_by_which_release_they_were_learned_until_none_is_left(learn, survey, as_, alice):
    release = learn()
    # One of them is enough to say where it comes from.
    assert declare_learned(as_(alice), survey, release, values="Oban\nLeith\nelsewhere").status_code == 302
    assert town_of(survey)["categories"] == ["Oban", "Leith", "elsewhere"]
    shown = columns_page(as_(alice), survey)
    assert "Categories learned by Categories of town , epsilon 1, delta 0.00000001." in words(shown)
    assert "Learn more categories of town from the data" in words(shown)
    services.releases.withdraw_release(release=release)
    assert "Categories learned by" in words(columns_page(as_(alice), survey))
    town = {"name": "town", "type": "categorical", "categories": ["Leith"]}
    services.datasets.declare_universe(dataset=survey, columns=[town, AGE])
    assert "Categories learned by" not in words(columns_page(as_(alice), survey))


def test_later_receipts_say_which_categories_were_learned_and_at_what_price(learn, survey, as_, alice, carry_out):
    release = learn()
    assert "learned_categories" not in release.result["receipt"]
    declare_learned(as_(alice), survey, release)
    later = services.releases.draft_release(dataset=Dataset.objects.get(pk=survey.pk), by=alice)
    services.releases.set_questions(release=later, workload={"version": 1, "queries": [{"marginal": ["town"]}]})
    services.releases.set_choice(release=later, epsilon="1", mechanism_name="laplace-queries")
    receipt = carry_out(later).result["receipt"]
    source = {"column": "town", "release": str(release.pk), "epsilon": "1", "delta": "0.00000001"}
    assert receipt["learned_categories"] == [source]
    shown = words(as_(alice).get(reverse("receipt", args=[receipt["release"]])))
    assert f"Categories of town learned by release {release.pk} , epsilon 1, delta 0.00000001" in shown
    entry = registry_entry(receipt, address="https://stats.example.org", is_session=False)
    assert (
        "were learned from the data by releases of their own, charged to the same budget: categories of town." in entry
    )
    assert "learned from the data" not in registry_entry(release.result["receipt"], address="", is_session=False)


def test_every_release_that_found_one_of_the_categories_first_is_named(learn, survey, as_, alice):
    """The second is planned after the first was taken over but for one town; the third finds nothing that is new."""
    first = learn()
    declare_learned(as_(alice), survey, first, values="Oban\nAyr\nelsewhere")
    second = learn()
    assert second.result["receipt"]["notes"]["categories"] == ["Fort William, Highland"]
    declare_learned(as_(alice), survey, second)
    assert town_of(survey)["categories"] == ["Oban", "Ayr", "Fort William, Highland", "elsewhere"]
    found = learned.origins(survey, Dataset.objects.get(pk=survey.pk).universe)
    # What the first found too is its own.
    assert [each.release for each in found] == [first.pk]
    nothing = learn()
    assert nothing.result["receipt"]["notes"]["categories"] == []


def test_only_published_categories_of_the_same_dataset_can_be_taken_over(learn, survey, published, as_, alice, bob):
    release, waiting = learn(), learn(execute=False)
    client, url = as_(alice), reverse("columns", args=[survey.pk])
    for wrong in (waiting.pk, published.pk, uuid.uuid4(), "17"):
        assert client.get(url, {"learned": wrong}).status_code == 404
    other = reverse("columns", args=[published.dataset.pk])
    assert client.get(other, {"learned": release.pk}).status_code == 404
    assert as_(bob).get(url, {"learned": release.pk}).status_code == 200
    services.releases.withdraw_release(release=release)
    assert client.get(url, {"learned": release.pk}).status_code == 404


def test_a_column_that_is_declared_as_numbers_since_takes_no_values(learn, survey, as_, alice):
    release = learn()
    services.datasets.declare_universe(dataset=survey, columns=[{"name": "town", "type": "integer", "edges": [0, 1]}])
    shown = columns_page(as_(alice), survey, release)
    assert "town: 'numbers' must be declared as categories to take values" in words(shown)


def test_a_column_that_is_left_out_or_drops_the_rest_since_takes_the_values_in_its_own_way(learn, survey, as_, alice):
    release = learn()
    services.datasets.declare_universe(dataset=survey, columns=[AGE])
    assert field_value(columns_page(as_(alice), survey, release), "form-0-values").split("\n") == [*FOUND, "elsewhere"]
    town = {"name": "town", "type": "categorical", "categories": ["Leith", "Oban"]}
    services.datasets.declare_universe(dataset=survey, columns=[town])
    shown = columns_page(as_(alice), survey, release)
    assert field_value(shown, "form-0-values").split("\n") == ["Leith", "Oban", "Ayr", "Fort William, Highland"]
    assert chosen(shown, "form-0-outside") == "drop"


def test_a_value_that_was_found_and_is_a_missing_code_since_is_not_taken_over(learn, survey, as_, alice):
    release = learn()
    town = {**town_of(survey), "missing": ["Oban"]}
    services.datasets.declare_universe(dataset=survey, columns=[town, AGE])
    shown = columns_page(as_(alice), survey, release)
    assert field_value(shown, "form-0-values").split("\n") == ["Ayr", "Fort William, Highland", "elsewhere"]
    assert field_value(shown, "form-0-missing_codes") == "Oban"


def test_learning_more_keeps_the_missing_codes_and_finds_none_of_them(learn, survey):
    town = {"name": "town", "type": "categorical", "categories": ["rest"], "missing": ["Oban", "NA"]}
    services.datasets.declare_universe(dataset=survey, columns=[town, AGE])
    release = learn()
    assert town_of(survey)["missing"] == ["Oban", "NA"]
    assert release.result["receipt"]["notes"]["categories"] == ["Ayr", "Fort William, Highland"]


def test_the_columns_page_asks_the_database_as_much_for_many_learned_as_for_one(learn, survey, as_, alice):
    client = as_(alice)

    def asked():
        with CaptureQueriesContext(connection) as queries:
            assert columns_page(client, survey).status_code == 200
        return len(queries)

    learn(epsilon="0.5")
    asked()
    one = asked()
    for _ in range(3):
        learn(epsilon="0.5")
    assert asked() == one


def test_nothing_of_the_data_is_said_on_the_way(learn, survey, caplog):
    """Not in the plan, not in the steps of the run, not where it fails."""
    release = learn(execute=False)
    said = json.dumps(release.plan)
    steps = []

    def noted(self, step, share):
        steps.append(step)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("releases.worker.leases.Held.__call__", noted)
        assert services.execution.execute_release(release_id=release.pk)
    assert "Adding noise" in steps
    failing = learn(execute=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("releases.publication.files.write", lambda folder, *, release, made: int(made.result.chosen[0]))
        services.execution.execute_release(release_id=failing.pk)
    for town in (*FOUND, "Unst"):
        assert town not in said + " ".join(steps) + caplog.text


def test_an_identifier_has_no_categories(make_dataset, alice):
    unit = PrivacyUnit(kind="person", id_column="who", max_rows=1)
    dataset = make_dataset(content=TOWNS, epsilon="10", unit=unit)
    for column, rule in (("who", "is also declared as a column"), ("city", "is not a column of the table")):
        with pytest.raises(InvalidInput, match=rule):
            services.learning.learn_categories(dataset=dataset, by=alice, **{**TYPED, "column": column})


def test_a_result_that_is_no_count_has_no_heading_over_nothing(learn, as_, alice):
    shown = as_(alice).get(reverse("release_detail", args=[learn().pk]))
    assert "Certified quality" not in words(shown)
