"""A column's range learned from the data: planned from public bounds, paid as a release, taken over by hand."""

from __future__ import annotations

import json
import uuid
from decimal import Decimal
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from releases import services
from releases.engine.accounting import accountant
from releases.engine.accounting.filters import Policy
from releases.engine.domain.universe import Attribute, AttributeKind
from releases.engine.errors import InvalidInput
from releases.models import Dataset, EntryKind, LedgerEntry, Organisation, Release
from releases.schema import learned
from releases.worker import runner
from tests.web.conftest import WORKLOAD, columns_page
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db

WAGES = b"wage,age,sex\n" + b"".join(b"%d.50,30,%s\n" % (1200 + i, (b"female", b"male")[i % 2]) for i in range(400))
COLUMNS = [
    {"name": "wage", "type": "number", "edges": [0, 100_000], "decimals": 2},
    {"name": "sex", "type": "categorical", "categories": ["female", "male"]},
]
TYPED = {"column": "wage", "lowest": "0", "highest": "1000000", "decimals": "1", "inside": "90", "epsilon": "20"}


@pytest.fixture
def survey(make_dataset):
    """Wages from 1,200.50 to 1,599.50, declared as anything up to 100,000."""
    dataset = make_dataset(content=WAGES, epsilon="100")
    services.datasets.declare_universe(dataset=dataset, columns=COLUMNS)
    return dataset


@pytest.fixture
def sheet(survey, make_sheet):
    return make_sheet("learn_range", survey, TYPED)


@pytest.fixture
def learn(survey, alice, carry_out):
    """A published release of the range of wages."""

    def run(*, execute=True, **changed):
        given = {"lowest": Decimal(0), "highest": Decimal(1_000_000), "decimals": 1, "epsilon": "20", **changed}
        inside = services.release_inputs.read_beta("0.9")
        dataset = Dataset.objects.get(pk=survey.pk)
        release = services.learning.learn_range(dataset=dataset, column="wage", inside=inside, by=alice, **given)
        return carry_out(release, execute=execute)

    return run


def wage_of(dataset):
    return Dataset.objects.get(pk=dataset.pk).declared[0]


# The way there


def test_a_column_of_numbers_has_a_link_and_one_of_categories_has_none(survey, as_, alice):
    shown = body(columns_page(as_(alice), survey))
    assert f'{reverse("learn_range", args=[survey.pk])}?column=wage">Learn the range' in shown
    assert f"{reverse('learn_range', args=[survey.pk])}?column=sex" not in shown
    assert "Range learned by" not in shown


def test_without_a_column_those_of_numbers_are_offered(survey, as_, alice):
    url = reverse("learn_range", args=[survey.pk])
    shown = as_(alice).get(url)
    assert '<a href="?column=wage">wage</a>' in body(shown)
    assert "column=sex" not in body(shown)
    refused = as_(alice).get(url, {"column": "sex"})
    assert refused.status_code == 400
    assert "column: 'sex' must be declared as numbers" in words(refused)


def test_columns_and_protection_come_first(alice, group, upload_file, as_):
    fresh = services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file(WAGES), group=group)
    url = reverse("learn_range", args=[fresh.pk])
    assert as_(alice).get(url).url == reverse("columns", args=[fresh.pk])
    services.datasets.declare_universe(dataset=fresh, columns=COLUMNS)
    assert as_(alice).post(url, TYPED).url == reverse("protection", args=[fresh.pk])
    assert not Release.objects.exists()


# The plan


def test_the_page_says_what_it_costs_how_far_off_it_may_be_and_what_is_left(sheet):
    shown = words(sheet.get(**TYPED))
    assert "Charged to the budget epsilon 20" in shown
    assert "Leaves 80% about 4 more releases like this fit" in shown
    assert "With probability 95%, at most 5% of the rows and" in shown
    assert "Either end may be off by 3" in shown
    assert "If you go on, wage is declared again: 0 to 1000000 in one bin" in shown
    assert "It cannot be undone." in shown


def test_at_first_the_declared_bounds_and_a_tenth_of_the_budget_stand_there(sheet):
    shown = sheet.get()
    typed = {name: field_value(shown, name) for name in ("lowest", "highest", "decimals", "inside", "epsilon")}
    assert typed == {"lowest": "0", "highest": "100000", "decimals": "2", "inside": "98", "epsilon": "10"}
    assert "declares wage again" not in words(shown)


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
        ("lowest", "none", "lowest: 'none' must be a number"),
        ("lowest", "", "lowest: nothing was typed"),
        ("highest", "0", "highest: 0 must be above the lowest, 0"),
        (
            "highest",
            "1e16",
            "must be 900,719,925,474,099 or less in size, so that it and 1 decimal",
        ),
        ("lowest", "0.25", "decimals: 1 must be 2 to 9: no fewer than the edges have"),
        ("decimals", "many", "decimals: must be a whole number, such as 2, in digits alone."),
        ("decimals", "12", "decimals: must be at most 9."),
        ("inside", "100", "inside: '100' must be above 0 and below 100, in percent"),
        ("inside", "most", "inside: 'most' must be a decimal number with a point, such as 0.5"),
        ("epsilon", "0", "epsilon: '0' must be above 0"),
        ("epsilon", "1,5", "epsilon: '1,5' must be a decimal number with a point, such as 0.5"),
    ],
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_broken_rule_is_named_beside_its_field_and_nothing_typed_is_lost(
    sheet, survey, method, field, typed, message
):
    response = getattr(sheet, method)(**{**TYPED, field: typed})
    assert response.status_code == 400
    assert message in words(response)
    for name, value in {**TYPED, field: typed}.items():
        assert field_value(response, name) == value
    assert not Release.objects.exists()
    assert wage_of(survey)["edges"] == [0, 100_000]


def test_whole_numbers_have_no_digits_after_the_point(survey, sheet):
    services.datasets.declare_universe(
        dataset=survey, columns=[{"name": "wage", "type": "integer", "edges": [0, 100_000]}]
    )
    assert field_value(sheet.get(), "decimals") is None
    shown = sheet.get(**{**TYPED, "lowest": "0.5"})
    assert shown.status_code == 400
    assert "lowest: 0.5 must be a whole number, as the column holds" in words(shown)


def test_a_share_that_cannot_be_asked_for_is_said_and_goes_no_further(sheet):
    shown = sheet.post(inside="10.1234567")
    assert "Cannot be run." in words(shown)
    assert not Release.objects.exists()


def test_a_price_beyond_the_budget_is_said_and_the_button_does_not_work(sheet, learn):
    for _ in range(2):
        learn(epsilon="45", execute=False)
    assert "<button>Go on to confirm" in body(sheet.get(**{**TYPED, "epsilon": "10"}))
    shown = sheet.get(**TYPED)
    assert '<button disabled aria-describedby="why-not">Go on to confirm' in body(shown)
    assert "It does not fit: it costs epsilon 20, and epsilon 10 is left" in words(shown)
    assert "Leaves" not in words(shown)


def test_an_ungranted_budget_is_said_too(make_dataset, as_, alice):
    dataset = make_dataset(content=b"age,sex\n30,male\n", epsilon="")
    shown = as_(alice).get(reverse("learn_range", args=[dataset.pk]), {"column": "age"})
    assert field_value(shown, "epsilon") == "0.1"
    assert "No budget has been granted yet." in words(shown)


@pytest.mark.parametrize(("page", "proposed"), [("learn_range", "0.03"), ("compare", "0.3"), ("new_session", "0.3")])
def test_no_page_proposes_more_epsilon_than_is_left(make_dataset, make_queued, as_, alice, page, proposed):
    dataset = make_dataset(epsilon="2", delta="0", policy=Policy.PURE)
    make_queued(dataset, epsilon="1.7")
    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=release, workload=WORKLOAD)
    asked = {"column": "age"} if page == "learn_range" else {}
    shown = as_(alice).get(reverse(page, args=[release.pk if page == "compare" else dataset.pk]), asked)
    assert field_value(shown, "epsilon") == proposed


# The draft


def test_going_on_declares_the_bounds_and_drafts_the_release(sheet, survey, alice):
    response = sheet.post()
    release = Release.objects.get()
    assert response.url == reverse("confirm", args=[release.pk])
    assert (release.state, release.title, release.submitted_by) == ("draft", "Range of wage", alice)
    assert release.workload["queries"] == [{"range": {"column": "wage", "inside": "0.9"}}]
    assert (release.mechanism, release.epsilon, release.delta) == ("exponential-range", "20", "0")
    assert wage_of(survey) == {**COLUMNS[0], "edges": [0, 1_000_000], "decimals": 1, "outside": "clamp"}
    assert not LedgerEntry.objects.filter(kind=EntryKind.CHARGE).exists()


def test_the_draft_can_be_compared_and_its_questions_changed_like_any_other(sheet, as_, alice):
    sheet.post()
    release = Release.objects.get()
    compared = as_(alice).get(reverse("compare", args=[release.pk]))
    assert 'name="mechanism" value="exponential-range"' in body(compared)
    asked = as_(alice).get(reverse("questions", args=[release.pk]))
    assert "<h2>Range that holds most rows</h2>" in body(asked)
    assert field_value(asked, "inside") == "0.9"


def test_bounds_that_are_declared_already_leave_the_bins_as_they_are(sheet, survey):
    services.datasets.declare_universe(dataset=survey, columns=[{**COLUMNS[0], "edges": [0, 50, 100_000]}, COLUMNS[1]])
    sheet.post(highest="100000", decimals="2")
    assert wage_of(survey)["edges"] == [0, 50, 100_000]


def test_it_waits_for_a_reviewer_where_the_organisation_wants_that(sheet, alice):
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="1")
    sheet.post()
    release = Release.objects.get()
    assert services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice) is None
    release.refresh_from_db()
    assert release.state == "awaiting review"


def test_it_is_charged_exactly_once_and_exactly_what_it_was_said_to_cost(learn, survey):
    release = learn(epsilon="0.3", execute=False)
    entry = LedgerEntry.objects.get(kind=EntryKind.CHARGE)
    assert entry.release == release
    assert entry.epsilon == 3 * 10**accountant.EPSILON_PLACES // 10
    assert services.execution.execute_release(release_id=release.pk)
    assert not services.execution.execute_release(release_id=release.pk)
    assert LedgerEntry.objects.filter(kind=EntryKind.CHARGE).count() == 1


# The result


def test_the_result_is_the_range_and_offers_itself_to_the_datasets_people(learn, survey, as_, alice, charlie):
    release = learn()
    notes = release.result["receipt"]["notes"]
    assert Decimal(1190) < Decimal(notes["lowest"]) < Decimal(1300)
    assert Decimal(1500) < Decimal(notes["highest"]) < Decimal(1610)
    shown = as_(alice).get(reverse("release_detail", args=[release.pk]))
    use = f'{reverse("columns", args=[survey.pk])}?learned={release.pk}">Use this range for column wage</a>'
    assert f"<dd>{notes['lowest']} to {notes['highest']}</dd>" in body(shown)
    assert use in body(shown)
    services.releases.make_public(release=release)
    assert use not in body(as_(charlie).get(reverse("release_detail", args=[release.pk])))


def test_the_columns_are_shown_with_the_range_filled_in_and_nothing_is_stored(learn, survey, as_, alice):
    release = learn()
    before = wage_of(survey)
    notes = release.result["receipt"]["notes"]
    shown = columns_page(as_(alice), survey, release)
    edges = field_value(shown, "form-0-values").split(", ")
    assert (edges[0], edges[-1]) == (notes["lowest"], notes["highest"])
    assert 3 <= len(edges) <= 11
    assert field_value(shown, "form-2-values") == "female\nmale"
    assert "The range of wage is filled in , as Range of wage learned it" in words(shown)
    codebook = json.loads(field_value(shown, "codebook"))
    assert [Decimal(str(edge)) for edge in codebook["columns"][0]["edges"]] == list(map(Decimal, edges))
    assert wage_of(survey) == before
    assert field_value(columns_page(as_(alice), survey), "form-0-values") == "0, 1000000"


def declare_learned(client, dataset, release):
    """Press the button of the page with the range filled in."""
    shown = columns_page(client, dataset, release)
    rows = {f"form-{i}-{name}": field_value(shown, f"form-{i}-{name}") for i in (0, 2) for name in ("name", "values")}
    kinds = {"form-0-kind": "number", "form-1-name": "age", "form-2-kind": "categorical"}
    sent = {"form-TOTAL_FORMS": 3, "form-INITIAL_FORMS": 3, **rows, **kinds}
    return client.post(f"{reverse('columns', args=[dataset.pk])}?learned={release.pk}", sent)


def test_a_declared_range_says_by_which_release_it_was_learned_until_it_is_changed(learn, survey, as_, alice):
    release = learn()
    assert declare_learned(as_(alice), survey, release).status_code == 302
    shown = columns_page(as_(alice), survey)
    assert "Range learned by Range of wage , epsilon 20." in words(shown)
    assert f'<a href="{reverse("release_detail", args=[release.pk])}">Range of wage</a>' in body(shown)
    services.releases.withdraw_release(release=release)
    assert "Range learned by" in words(columns_page(as_(alice), survey))
    services.datasets.declare_universe(dataset=survey, columns=COLUMNS)
    assert "Range learned by" not in words(columns_page(as_(alice), survey))


def test_later_receipts_say_which_range_was_learned_and_at_what_price(learn, survey, as_, alice, carry_out):
    release = learn()
    assert "learned_ranges" not in release.result["receipt"]
    declare_learned(as_(alice), survey, release)
    later = services.releases.draft_release(dataset=Dataset.objects.get(), by=alice)
    services.releases.set_questions(release=later, workload={"version": 1, "queries": [{"sum": ["wage"]}]})
    services.releases.set_choice(release=later, epsilon="1", mechanism_name="laplace-numbers")
    carry_out(later)
    source = [{"column": "wage", "release": str(release.pk), "epsilon": "20"}]
    assert later.result["receipt"]["learned_ranges"] == source
    shown = words(as_(alice).get(reverse("receipt", args=[later.pk])))
    assert f"Range of wage learned by release {release.pk} , epsilon 20" in shown


def test_only_a_published_range_of_the_same_dataset_can_be_taken_over(
    learn, survey, published, as_, alice, bob, make_dataset
):
    release, waiting = learn(), learn(execute=False)
    client, url = as_(alice), reverse("columns", args=[survey.pk])
    for wrong in (waiting.pk, published.pk, uuid.uuid4(), "17"):
        assert client.get(url, {"learned": wrong}).status_code == 404
    other = reverse("columns", args=[published.dataset.pk])
    assert client.get(other, {"learned": release.pk}).status_code == 404
    assert as_(bob).get(url, {"learned": release.pk}).status_code == 200
    services.releases.withdraw_release(release=release)
    assert client.get(url, {"learned": release.pk}).status_code == 404


def test_a_column_that_is_declared_as_categories_since_takes_no_range(learn, survey, as_, alice):
    release = learn()
    services.datasets.declare_universe(
        dataset=survey, columns=[{"name": "wage", "type": "categorical", "categories": ["a"]}]
    )
    shown = columns_page(as_(alice), survey, release)
    assert "wage: 'categories' must be declared as numbers to take a range" in words(shown)


def test_a_column_that_is_left_out_since_comes_back_with_its_range(learn, survey, as_, alice):
    release = learn()
    services.datasets.declare_universe(dataset=survey, columns=[COLUMNS[1]])
    shown = columns_page(as_(alice), survey, release)
    assert field_value(shown, "form-0-values").startswith(release.result["receipt"]["notes"]["lowest"])


def test_the_columns_page_asks_the_database_as_much_for_many_learned_ranges_as_for_one(learn, survey, as_, alice):
    client = as_(alice)

    def asked():
        with CaptureQueriesContext(connection) as queries:
            assert columns_page(client, survey).status_code == 200
        return len(queries)

    learn(epsilon="1")
    asked()
    one = asked()
    for _ in range(3):
        learn(epsilon="1")
    assert asked() == one


# The numbers


@pytest.mark.parametrize(
    ("lowest", "highest", "edges"),
    [
        ("18", "87", "18 28 38 48 58 68 78 87"),
        ("18", "25", "18 19 20 21 22 23 24 25"),
        ("18", "19", "18 19"),
        ("0", "10", "0 1 2 3 4 5 6 7 8 9 10"),
        ("0", "11", "0 2 4 6 8 10 11"),
        ("-5.5", "5.5", "-5.5 -3.5 -1.5 0.5 2.5 4.5 5.5"),
        ("18342.17", "96201.55", "18342.17 28342.17 38342.17 48342.17 58342.17 68342.17 78342.17 88342.17 96201.55"),
    ],
)
def test_bins_between_two_ends_have_a_round_width(lowest, highest, edges):
    assert learned.edges_between(Decimal(lowest), Decimal(highest)) == tuple(map(Decimal, edges.split()))


@pytest.mark.parametrize(("both", "highest"), [("40", "41"), ("40.5", "40.6"), ("-3", "-2"), ("1000", "1001")])
def test_two_ends_that_are_the_same_are_the_least_apart_that_they_can_be(both, highest):
    found = learned.LearnedRange.of(
        release=uuid.uuid4(),
        title="",
        epsilon="1",
        delta="0",
        workload={"queries": [{"range": {"column": "x", "inside": "0.9"}}]},
        notes={"lowest": both, "highest": both},
    )
    assert (found.lowest, found.highest) == (Decimal(both), Decimal(highest))
    edges = learned.edges_between(found.lowest, found.highest)
    assert Attribute(name="x", kind=AttributeKind.NUMBER, edges=edges).size == 1


def test_categories_have_no_bounds(survey):
    with pytest.raises(InvalidInput, match="column: 'sex' must be a numeric column"):
        learned.with_bounds(survey.universe, "sex", lowest=Decimal(0), highest=Decimal(1), decimals=0)
