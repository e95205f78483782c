"""A column's range or categories learned from the data: planned from public facts, paid as a release, taken over."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest
from django.conf import settings
from django.urls import reverse

from releases import services
from releases.engine.domain.privacy import PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.models import Dataset, EntryKind, LedgerEntry, Release
from releases.schema import learned
from tests.web.conftest import columns_page
from tests.web.datasets.conftest import filled
from tests.web.pages import body, chosen, field_value

WAGES = b"wage,age,sex\n" + b"".join(b"%d.50,30,%s\n" % (1200 + i, (b"female", b"male")[i % 2]) for i in range(400))
WAGE = {"name": "wage", "type": "number", "edges": [0, 100_000], "decimals": 2}
SEX = {"name": "sex", "type": "categorical", "categories": ["female", "male"]}
#: Three towns of 100 people and more, one of a single person, which is found with probability delta at most, and a
#: person who says nothing.
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
    typed={"column": "town", "other": "elsewhere", "epsilon": "1", "delta": "0.0000000000001"},
)
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


def test_columns_and_protection_come_first(kind, alice, ingest):
    fresh = ingest(kind.content)
    declare(fresh, *kind.columns)
    with pytest.raises(services.release_inputs.Refusal, match="Declare the columns and the protection first"):
        getattr(services.learning, kind.page)(dataset=fresh, by=alice, **{**kind.typed, **kind.given})
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
            *(("stable-histogram", "1", "0.0000000000001"), TOWN),
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
def test_categories_that_are_declared_stay(sheet, survey):
    declare(survey, {**TOWN, "categories": ["Oban", "rest"], "outside": "rest"}, AGE)
    sheet.post()
    assert column_of(survey, "town") == {**TOWN, "categories": ["Oban", "rest", "elsewhere"]}


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
    else:
        assert (receipt["notes"], receipt["answers"]) == ({"categories": FOUND}, 3)
    services.releases.make_public(release=release)
    assert use not in body(as_(charlie).get(url))


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


def test_later_receipts_say_what_was_learned_and_at_what_price(
    kind, learn, survey, make_draft, carry_out, declare_learned
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
    price = {"epsilon": kind.typed["epsilon"]} | ({"delta": "0.0000000000001"} if kind is CATEGORIES else {})
    assert receipt[name] == [{"column": kind.typed["column"], "release": str(release.pk), **price}]


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
    for wrong in (waiting.pk, published.pk, "17"):
        assert client.get(url, {"learned": wrong}).status_code == 404
    assert as_(bob).get(url, {"learned": release.pk}).status_code == 200
    services.releases.withdraw_release(release=release)
    assert client.get(url, {"learned": release.pk}).status_code == 404


@pytest.mark.parametrize(
    ("kind", "wrong", "rule"),
    [
        (CATEGORIES, {"column": "who"}, "is also declared as a column"),
        (CATEGORIES, {"column": "city"}, "is not a column of the table"),
        (CATEGORIES, {"column": "age"}, "'age' must not be declared as numbers"),
        (CATEGORIES, {"other": "drop"}, "'drop' must be another word"),
        (CATEGORIES, {"delta": "1"}, "delta: '1' must be"),
        (RANGE, {"column": "sex"}, "'sex' must be a numeric column"),
        (RANGE, {"column": "age", "highest": Decimal(0)}, "highest: 0 must be above the lowest, 0"),
        (RANGE, {"column": "age", "decimals": 0, "epsilon": "0"}, "epsilon: '0' must be above 0"),
    ],
)
def test_what_cannot_be_learned_is_refused_and_declares_nothing(make_dataset, alice, kind, wrong, rule):
    dataset = make_dataset(content=TOWNS, epsilon="10", unit=PERSON)
    before = dataset.declared
    with pytest.raises(InvalidInput, match=rule):
        getattr(services.learning, kind.page)(dataset=dataset, by=alice, **{**kind.typed, **kind.given, **wrong})
    assert Dataset.objects.get().declared == before
    assert not Release.objects.exists()


# The numbers


@pytest.mark.parametrize(
    ("lowest", "highest", "edges"),
    [
        ("18", "19", [18, 19]),
        ("0", "11", [0, 2, 4, 6, 8, 10, 11]),
        ("18342.17", "96201.55", [*(f"{each}8342.17" for each in range(1, 9)), "96201.55"]),
    ],
)
def test_bins_between_two_ends_have_a_round_width(lowest, highest, edges):
    assert learned.edges_between(Decimal(lowest), Decimal(highest)) == tuple(map(Decimal, edges))
