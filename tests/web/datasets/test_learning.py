"""A column's range or categories learned from the data: planned from public facts, paid as a release, taken over."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest
from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from releases import services
from releases.engine.accounting import accountant
from releases.engine.domain.privacy import PrivacyUnit
from releases.engine.domain.universe import Attribute, AttributeKind
from releases.engine.errors import InvalidInput
from releases.models import Budget, Dataset, EntryKind, LedgerEntry, Release
from releases.publication import files
from releases.publication.registry_entry import registry_entry
from releases.schema import learned
from tests.web.conftest import columns_page
from tests.web.datasets.conftest import filled
from tests.web.pages import body, chosen, field_value, words
from tests.web.past_the_guards import lift

pytestmark = pytest.mark.django_db

WAGES = b"wage,age,sex\n" + b"".join(b"%d.50,30,%s\n" % (1200 + i, (b"female", b"male")[i % 2]) for i in range(400))
WAGE = {"name": "wage", "type": "number", "edges": [0, 100_000], "decimals": 2}
SEX = {"name": "sex", "type": "categorical", "categories": ["female", "male"]}
#: Three towns of 100 people and more, one of a single person, and a person who says nothing.
TOWNS = b"town,age,sex,who\n" + b"".join(
    f'"{town}",{20 + i % 40},{"male" if i % 2 else "female"},p{i}\n'.encode()
    for i, town in enumerate(["Oban"] * 100 + ["Ayr"] * 120 + ["Fort William, Highland"] * 140 + ["Unst", ""])
)
FOUND = ["Ayr", "Fort William, Highland", "Oban"]
PERSON = PrivacyUnit(kind="person", id_column="who", max_rows=1)
AGE = {"name": "age", "type": "integer", "edges": [0, 50, 100]}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What is learned of one column of a table: what is typed on its page, and given to its service."""

    page: str
    content: bytes
    budget: str
    columns: list
    typed: dict
    given: dict = field(default_factory=dict)


RANGE = Kind(
    page="learn_range",
    content=WAGES,
    budget="100",
    columns=[WAGE, SEX],
    typed={"column": "wage", "lowest": "0", "highest": "1000000", "decimals": "1", "inside": "90", "epsilon": "20"},
    given={"lowest": Decimal(0), "highest": Decimal(10**6), "decimals": 1}
    | {"inside": services.release_inputs.read_beta("0.9")},
)
CATEGORIES = Kind(
    page="learn_categories",
    content=TOWNS,
    budget="10",
    columns=[AGE],
    typed={"column": "town", "other": "elsewhere", "epsilon": "1", "delta": "0.00000001"},
)
of_a_range = pytest.mark.parametrize("kind", [RANGE], indirect=True, ids=["range"])
of_categories = pytest.mark.parametrize("kind", [CATEGORIES], indirect=True, ids=["categories"])


@pytest.fixture(params=[RANGE, CATEGORIES], ids=["range", "categories"])
def kind(request):
    return request.param


@pytest.fixture
def survey(kind, make_dataset):
    """Wages from 1,200.50 to 1,599.50, declared as anything up to 100,000; or towns that are not declared."""
    dataset = make_dataset(content=kind.content, epsilon=kind.budget)
    services.datasets.declare_universe(dataset=dataset, columns=kind.columns)
    return dataset


@pytest.fixture
def sheet(kind, survey, make_sheet):
    return make_sheet(kind.page, survey, kind.typed)


@pytest.fixture
def learn(kind, survey, alice, carry_out, once):
    """A release of what is learned, published unless it is to stay queued."""

    def run(*, execute=True, **changed):
        def really():
            given = {"dataset": Dataset.objects.get(pk=survey.pk), "by": alice, **kind.typed, **kind.given, **changed}
            return carry_out(getattr(services.learning, kind.page)(**given), execute=execute)

        release = once(repr((kind.page, execute, changed)), really)
        release.refresh_from_db()
        return release

    return run


@pytest.fixture
def columns(survey, as_, alice):
    """The page of the columns, with what a release has learned filled in."""
    return lambda release=None: columns_page(as_(alice), survey, release)


def column_of(dataset, name):
    return next((each for each in Dataset.objects.get(pk=dataset.pk).declared if each["name"] == name), None)


def declare(dataset, *columns):
    services.datasets.declare_universe(dataset=Dataset.objects.get(pk=dataset.pk), columns=list(columns))


def is_charged():
    return LedgerEntry.objects.filter(kind=EntryKind.CHARGE).exists()


# The way there


@of_a_range
def test_a_column_of_numbers_can_have_its_range_learned_and_one_of_categories_not(survey, columns, as_, alice):
    url = reverse("learn_range", args=[survey.pk])
    assert f'{url}?column=wage"' in body(columns())
    assert f"{url}?column=sex" not in body(columns())
    offered = body(as_(alice).get(url))
    assert 'href="?column=wage"' in offered
    assert "column=sex" not in offered
    refused = as_(alice).get(url, {"column": "sex"})
    assert refused.status_code == 400
    assert "column: 'sex' must be declared as numbers" in words(refused)


def test_a_column_of_text_or_left_out_can_have_categories_learned_and_one_of_numbers_or_ids_not(
    make_dataset, as_, alice
):
    dataset = make_dataset(content=TOWNS, epsilon="10")
    url = reverse("learn_categories", args=[dataset.pk])

    def linked():
        shown = body(columns_page(as_(alice), dataset))
        return {name for name in ("town", "sex", "age", "who") if f"{url}?column={name}" in shown}

    assert linked() == {"town", "sex", "who"}
    offered = body(as_(alice).get(url))
    assert 'href="?column=town"' in offered
    assert "column=age" not in offered
    for wrong in ("age", "city"):
        assert as_(alice).get(url, {"column": wrong}).status_code == 400
    lift("budget_keeps_its_meaning")
    Budget.objects.update(unit=PERSON.to_json())
    assert linked() == {"town", "sex"}


def test_columns_and_protection_come_first(kind, alice, ingest, as_):
    fresh = ingest(kind.content)
    url = reverse(kind.page, args=[fresh.pk])
    assert as_(alice).get(url).url == reverse("columns", args=[fresh.pk])
    declare(fresh, *kind.columns)
    assert as_(alice).post(url, kind.typed).url == reverse("protection", args=[fresh.pk])
    with pytest.raises(services.release_inputs.Refusal, match="Declare the columns and the protection first"):
        getattr(services.learning, kind.page)(dataset=fresh, by=alice, **{**kind.typed, **kind.given})
    assert not Release.objects.exists()


def test_of_a_table_without_rows_nothing_is_learned(kind, survey, as_, alice):
    Dataset.objects.filter(pk=survey.pk).update(rows_deleted_at=timezone.now())
    for send in (as_(alice).get, as_(alice).post):
        answer = send(reverse(kind.page, args=[survey.pk]), kind.typed)
        assert answer.url == reverse("dataset_detail", args=[survey.pk])
    assert not Release.objects.exists()


# The plan


def test_neither_the_page_nor_the_draft_opens_the_table(kind, sheet, survey, as_, alice, unread):
    """The file is taken away, and whoever would open it is stopped."""
    (Path(settings.TABLES_DIR) / survey.location).unlink()
    assert sheet.get(**kind.typed).status_code == 200
    assert as_(alice).get(sheet.post().url).status_code == 200
    release = Release.objects.get()
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert is_charged()


BROKEN = {
    RANGE.page: [
        ("lowest", "none", "lowest: 'none' must be a number"),
        ("lowest", "", "lowest: nothing was typed"),
        ("highest", "0", "highest: 0 must be above the lowest, 0"),
        ("highest", "1e16", "must be 900,719,925,474,099 or less in size, so that it and 1 decimal"),
        ("lowest", "0.25", "decimals: 1 must be 2 to 9: no fewer than the edges have"),
        ("decimals", "many", "decimals: must be a whole number"),
        ("decimals", "12", "decimals: must be at most 9."),
        ("inside", "100", "inside: '100' must be above 0 and below 100, in percent"),
        ("inside", "most", "inside: 'most' must be a decimal number"),
        ("epsilon", "0", "epsilon: '0' must be above 0"),
    ],
    CATEGORIES.page: [
        ("other", "", "other: nothing was typed; must be a word"),
        ("other", "drop", "other: 'drop' must be another word"),
        ("other", "else\u200bwhere", "must be printable text without spaces around it"),
        ("other", "x" * 201, "other: must have at most 200 characters"),
        ("epsilon", "1,5", "epsilon: '1,5' must be a decimal number"),
        ("delta", "", "delta: nothing was typed"),
        ("delta", "1", "delta: '1' must be"),
    ],
}


def test_a_broken_rule_is_named_beside_its_field_and_nothing_typed_is_lost(kind, sheet, survey):
    for name, typed, message in BROKEN[kind.page]:
        given = {**kind.typed, name: typed}
        for response in (sheet.get(**given), sheet.post(**given)):
            assert response.status_code == 400
            assert message in words(response)
            assert {each: field_value(response, each) for each in given} == given
    assert not Release.objects.exists()
    assert Dataset.objects.get(pk=survey.pk).declared == survey.declared


@pytest.mark.parametrize(
    ("kind", "typed"), [(RANGE, {"inside": "10.1234567"}), (CATEGORIES, {"delta": "0"})], indirect=["kind"]
)
def test_what_cannot_be_run_goes_no_further(sheet, typed):
    assert "Cannot be run." in words(sheet.post(**typed))
    assert not Release.objects.exists()


# The draft


TOWN = {"name": "town", "type": "categorical", "categories": ["elsewhere"], "outside": "elsewhere"}


@pytest.mark.parametrize(
    ("kind", "title", "query", "method", "column"),
    [
        (
            *(RANGE, "Range of wage", {"range": {"column": "wage", "inside": "0.9"}}),
            *(("exponential-range", "20", "0"), {**WAGE, "edges": [0, 10**6], "decimals": 1, "outside": "clamp"}),
        ),
        (
            *(CATEGORIES, "Categories of town", {"categories": "town"}),
            *(("stable-histogram", "1", "0.00000001"), TOWN),
        ),
    ],
    indirect=["kind"],
)
def test_going_on_declares_the_bounds_or_the_catch_all_and_drafts_the_release(
    sheet, survey, alice, title, query, method, column
):
    response = sheet.post()
    release = Release.objects.get()
    assert response.url == reverse("confirm", args=[release.pk])
    assert (release.state, release.title, release.submitted_by) == ("draft", title, alice)
    assert release.workload["queries"] == [query]
    assert (release.mechanism, release.epsilon, release.delta) == method
    assert column_of(survey, column["name"]) == column
    assert not is_charged()


@of_categories
@pytest.mark.parametrize("outside", ["drop", "rest"])
def test_categories_that_are_declared_stay(sheet, survey, outside):
    declare(survey, {**TOWN, "categories": ["Oban", "rest"], "outside": outside}, AGE)
    sheet.post()
    assert column_of(survey, "town") == {**TOWN, "categories": ["Oban", "rest", "elsewhere"]}


def test_it_is_charged_exactly_once_and_exactly_what_it_was_said_to_cost(kind, learn):
    release = learn(epsilon="0.3", execute=False)
    entry = LedgerEntry.objects.get(kind=EntryKind.CHARGE)
    assert (entry.release, entry.epsilon) == (release, 3 * 10**accountant.EPSILON_PLACES // 10)
    if kind is CATEGORIES:
        assert entry.detail["price"]["delta"] == 10 ** (accountant.DELTA_PLACES - 8)
    assert [services.execution.execute_release(release_id=release.pk) for _ in range(2)] == [True, False]
    assert LedgerEntry.objects.get(kind=EntryKind.CHARGE) == entry


# The result


def test_the_result_offers_itself_to_the_datasets_people(kind, learn, survey, as_, alice, charlie):
    release = learn()
    receipt = release.result["receipt"]
    url = reverse("release_detail", args=[release.pk])
    shown = body(as_(alice).get(url))
    use = f'{reverse("columns", args=[survey.pk])}?learned={release.pk}"'
    assert use in shown
    if kind is RANGE:
        lowest, highest = receipt["notes"]["lowest"], receipt["notes"]["highest"]
        assert Decimal(1190) < Decimal(lowest) < Decimal(1300)
        assert Decimal(1500) < Decimal(highest) < Decimal(1610)
        assert f"<dd>{lowest} to {highest}</dd>" in shown
    else:
        assert (receipt["notes"], receipt["answers"]) == ({"categories": FOUND}, 3)
        assert "".join(f"<li>{value}</li>" for value in FOUND) in shown
        assert (files.folder_of(release) / "answers.csv").read_text().splitlines()[:2] == [
            '"query","of","answer"',
            '"values of town that are not declared","town","Ayr"',
        ]
    services.releases.make_public(release=release)
    assert use not in body(as_(charlie).get(url))


@of_categories
def test_a_release_that_finds_nothing_offers_nothing(learn, columns, as_, alice):
    release = learn(epsilon="0.01")
    assert release.result["receipt"]["answers"] == 0
    client = as_(alice)
    assert "?learned=" not in body(client.get(reverse("release_detail", args=[release.pk])))
    assert (files.folder_of(release) / "answers.csv").read_text() == '"query","of","answer"\n'
    assert json.loads(body(client.get(reverse("answers", args=[release.pk]))))["answers"] == []
    for page in ("receipt", "visibility"):
        assert client.get(reverse(page, args=[release.pk])).status_code == 200
    assert columns(release).status_code == 404


def test_the_columns_are_shown_with_what_was_learned_filled_in_and_nothing_is_stored(kind, learn, survey, columns):
    release = learn()
    before, shown = Dataset.objects.get(pk=survey.pk).declared, columns(release)
    notes, values = release.result["receipt"]["notes"], field_value(shown, "form-0-values")
    codebook = json.loads(field_value(shown, "codebook"))["columns"]
    if kind is RANGE:
        edges = values.split(", ")
        assert (edges[0], edges[-1]) == (notes["lowest"], notes["highest"])
        assert 3 <= len(edges) <= 11
        assert field_value(shown, "form-2-values") == "female\nmale"
        assert [Decimal(str(edge)) for edge in codebook[0]["edges"]] == list(map(Decimal, edges))
        assert field_value(columns(), "form-0-values") == "0, 1000000"
    else:
        assert values.split("\n") == codebook[1]["categories"] == [*FOUND, "elsewhere"]
        assert (chosen(shown, "form-0-outside"), field_value(shown, "form-0-catch_all")) == ("category", "elsewhere")
    assert Dataset.objects.get(pk=survey.pk).declared == before


@pytest.fixture
def declare_learned(kind, survey, columns, as_, alice):
    """Press the button of the page with what was learned filled in."""

    def press(release, **typed):
        shown, rows = columns(release), [{"name": name} for name in survey.columns]
        for at, each in enumerate(["categorical", "integer"] if kind is CATEGORIES else ["number", "", "categorical"]):
            if each:
                rows[at] |= {name: field_value(shown, f"form-{at}-{name}") for name in ("values", "catch_all")}
                rows[at] |= {"kind": each, "outside": chosen(shown, f"form-{at}-outside")}
        rows[0] |= typed
        address = f"{reverse('columns', args=[survey.pk])}?learned={release.pk}"
        assert as_(alice).post(address, filled(*rows)).status_code == 302

    return press


def test_what_is_declared_says_by_which_release_it_was_learned_until_it_is_changed(
    kind, learn, survey, columns, declare_learned
):
    release = learn()
    link = f'href="{reverse("release_detail", args=[release.pk])}"'
    # One of the categories is enough to say where it comes from.
    declare_learned(release, **({"values": "Oban\nLeith\nelsewhere"} if kind is CATEGORIES else {}))
    if kind is CATEGORIES:
        assert column_of(survey, "town")["categories"] == ["Oban", "Leith", "elsewhere"]
    assert link in body(columns())
    services.releases.withdraw_release(release=release)
    assert link in body(columns())
    declare(survey, *kind.columns, *([{**SEX, "name": "town"}] if kind is CATEGORIES else []))
    assert link not in body(columns())


def test_later_receipts_say_what_was_learned_and_at_what_price(
    kind, learn, survey, as_, alice, make_draft, carry_out, declare_learned
):
    release = learn()
    name = "learned_ranges" if kind is RANGE else "learned_categories"
    assert name not in release.result["receipt"]
    declare_learned(release)
    question, mechanism = (
        ({"sum": ["wage"]}, "laplace-numbers") if kind is RANGE else ({"marginal": ["town"]}, "laplace-queries")
    )
    later = carry_out(make_draft(Dataset.objects.get(pk=survey.pk), question, mechanism=mechanism))
    receipt = later.result["receipt"]
    price = {"epsilon": kind.typed["epsilon"]} | ({"delta": "0.00000001"} if kind is CATEGORIES else {})
    assert receipt[name] == [{"column": kind.typed["column"], "release": str(release.pk), **price}]
    shown = words(as_(alice).get(reverse("receipt", args=[later.pk])))
    assert f"learned by release {release.pk} , epsilon {price['epsilon']}" in shown
    if kind is CATEGORIES:
        entry = registry_entry(receipt, address="https://stats.example.org", is_session=False)
        assert "learned from the data by releases of their own, charged to the same budget: categories of town" in entry
        assert "learned from the data" not in registry_entry(release.result["receipt"], address="", is_session=False)


@of_categories
def test_every_release_that_found_one_of_the_categories_first_is_named(learn, survey, declare_learned):
    """The second is planned after the first was taken over but for one town; the third finds nothing that is new."""
    first = learn()
    declare_learned(first, values="Oban\nAyr\nelsewhere")
    second = learn()
    assert second.result["receipt"]["notes"]["categories"] == ["Fort William, Highland"]
    declare_learned(second)
    assert column_of(survey, "town")["categories"] == ["Oban", "Ayr", "Fort William, Highland", "elsewhere"]
    found = learned.origins(survey, Dataset.objects.get(pk=survey.pk).universe)
    # What the first found too is its own.
    assert [each.release for each in found] == [first.pk]
    assert learn().result["receipt"]["notes"]["categories"] == []


def test_only_what_is_published_of_the_same_dataset_can_be_taken_over(learn, survey, published, as_, alice, bob):
    release, waiting = learn(), learn(execute=False)
    client, url = as_(alice), reverse("columns", args=[survey.pk])
    for wrong in (waiting.pk, published.pk, uuid.uuid4(), "17"):
        assert client.get(url, {"learned": wrong}).status_code == 404
    other = reverse("columns", args=[published.dataset.pk])
    assert client.get(other, {"learned": release.pk}).status_code == 404
    assert as_(bob).get(url, {"learned": release.pk}).status_code == 200
    services.releases.withdraw_release(release=release)
    assert client.get(url, {"learned": release.pk}).status_code == 404


@pytest.mark.parametrize(
    ("kind", "since", "said"),
    [
        (RANGE, {"name": "wage", "type": "categorical", "categories": ["a"]}, "wage: 'categories' must be declared as"),
        (CATEGORIES, {"name": "town", "type": "integer", "edges": [0, 1]}, "town: 'numbers' must be declared as"),
    ],
    indirect=["kind"],
)
def test_a_column_that_is_declared_as_another_type_since_takes_nothing(learn, survey, columns, since, said):
    release = learn()
    declare(survey, since)
    assert said in words(columns(release))


@of_categories
def test_nothing_of_the_data_is_said_on_the_way(learn, caplog):
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
    dataset = make_dataset(content=TOWNS, epsilon="10", unit=PERSON)
    for column, rule in (("who", "is also declared as a column"), ("city", "is not a column of the table")):
        with pytest.raises(InvalidInput, match=rule):
            services.learning.learn_categories(dataset=dataset, by=alice, **{**CATEGORIES.typed, "column": column})


# The numbers


@pytest.mark.parametrize(
    ("lowest", "highest", "edges"),
    [
        ("18", "87", [18, 28, 38, 48, 58, 68, 78, 87]),
        ("18", "25", [*range(18, 26)]),
        ("18", "19", [18, 19]),
        ("0", "10", [*range(11)]),
        ("0", "11", [0, 2, 4, 6, 8, 10, 11]),
        ("-5.5", "5.5", ["-5.5", "-3.5", "-1.5", "0.5", "2.5", "4.5", "5.5"]),
        ("18342.17", "96201.55", [*(f"{each}8342.17" for each in range(1, 9)), "96201.55"]),
    ],
)
def test_bins_between_two_ends_have_a_round_width(lowest, highest, edges):
    assert learned.edges_between(Decimal(lowest), Decimal(highest)) == tuple(map(Decimal, edges))


@pytest.mark.parametrize(("both", "highest"), [("40", "41"), ("40.5", "40.6"), ("-3", "-2"), ("1000", "1001")])
def test_two_ends_that_are_the_same_are_the_least_apart_that_they_can_be(both, highest):
    workload = {"queries": [{"range": {"column": "x", "inside": "0.9"}}]}
    notes = {"lowest": both, "highest": both}
    found = learned.LearnedRange.of(
        release=uuid.uuid4(), title="", epsilon="1", delta="0", workload=workload, notes=notes
    )
    assert (found.lowest, found.highest) == (Decimal(both), Decimal(highest))
    edges = learned.edges_between(found.lowest, found.highest)
    assert Attribute(name="x", kind=AttributeKind.NUMBER, edges=edges).size == 1
