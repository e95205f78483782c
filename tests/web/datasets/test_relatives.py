"""The same people in another dress are shown to the reviewer of a budget, and to nobody else."""

from __future__ import annotations

import random

import pytest
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.models import Dataset, Fingerprint, Organisation
from tests.web.conftest import give
from tests.web.pages import words
from tests.web.undoing import undone

pytestmark = pytest.mark.django_db

HEADER = ["person", "age", "sex", "town", "wage"]


def people(seed, number=800):
    draw = random.Random(seed)
    made = []
    for i in range(number):
        age, sex, town = draw.randint(18, 64), draw.choice(["female", "male"]), draw.randint(1, 12)
        made.append([f"p{i}", str(age), sex, f"town {town}", str(draw.randint(10, 90) * 100)])
    return made


def csv(rows, header=tuple(HEADER)):
    return "\n".join(",".join(row) for row in [list(header), *rows]).encode() + b"\n"


def without(rows, *places):
    return [[value for place, value in enumerate(row) if place not in places] for row in rows]


HERS = people(1)
_SHUFFLED = random.Random(3).sample(HERS, len(HERS))
DISGUISES = {
    "a trailing space": csv([[value + " " for value in row] for row in HERS[:-1]]),
    "30.0 for 30": csv([[row[0], row[1] + ".0", *row[2:]] for row in HERS[:-1]]),
    "capitals": csv([[value.upper() for value in row] for row in HERS[:-1]]),
    "a dropped column": csv(without(HERS, 4), HEADER[:4]),
    "no numbers of people": csv(without(HERS, 0), HEADER[1:]),
    "three dropped columns": csv(without(HERS, 0, 2, 3), ["age", "wage"]),
    "renamed columns": csv(HERS[:-1], ["a", "age", "sex", "c", "d"]),
    "columns in another order": csv([row[::-1] for row in HERS[:-1]], HEADER[::-1]),
    "a dummy column": csv([[*row, str(i * i)] for i, row in enumerate(HERS)], [*HEADER, "dummy"]),
    "three dummy columns": csv([[*row, "x", str(i % 7), str(i * i)] for i, row in enumerate(HERS)], [*HEADER, *"xyz"]),
    "a dummy in place of a column": csv([[str(i * i), *row[1:]] for i, row in enumerate(HERS)]),
    "one more row": csv([*HERS, ["p9999", "30", "male", "town 3", "7000"]]),
    "one row less": csv(HERS[1:]),
    "shuffled rows": csv(_SHUFFLED[:-1]),
    "all at once": csv(
        [[row[3] + " ", f"{row[1]}.0", row[4], str(i)] for i, row in enumerate(_SHUFFLED[:-1])], ["a", "age", "b", "c"]
    ),
}


@pytest.fixture
def ask(tmp_path):
    """Somebody uploads a table, declares it and asks for a budget."""

    def asked(owner, content, title):
        path = tmp_path / f"{title}.csv"
        path.write_bytes(content)
        give(owner, "curator")
        dataset = services.datasets.ingest_dataset(owner=owner, title=title, source=path)
        ages = {"name": "age", "type": "integer", "edges": [18, 40, 65]}
        services.datasets.declare_universe(dataset=dataset, columns=[ages])
        services.datasets.declare_protection(
            dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE
        )
        return services.budgets.request_budget(
            dataset=dataset, epsilon="3", delta="0.000001", policy=Policy.ZCDP, reason="", by=owner
        )

    return asked


@pytest.fixture
def hers(ask, alice):
    return ask(alice, csv(HERS), "Hers")


@pytest.fixture
def compared(hers):
    """Hers, of which a worker has taken the fingerprint: once for all that it is compared with."""
    services.fingerprints.take_fingerprints()
    return hers


MANY = b"person,age,sex\n" + b"".join(f"p{i},{18 + i % 47},male\n".encode() for i in range(400))


def page_of(client, request):
    return words(client.get(reverse("budget_request", args=[request.pk])))


def test_the_reviewer_is_shown_the_same_people_in_another_dress(compared, ask, charlie, sofia, as_):
    client = as_(sofia)
    for disguise, content in DISGUISES.items():
        with undone():
            his = ask(charlie, content, "His")
            assert "These rows were not compared with those of other tables yet." in page_of(client, his)
            services.fingerprints.take_fingerprints()
            page = page_of(client, his)
            assert "not compared" not in page, disguise
            related = "Hers (alice) has about all of the rows in common with these tables" in page
            # Of some, all that is declared is the very same, which is said instead.
            assert related != ("Hers (alice) has the very same rows" in page), disguise
            assert "His (charlie)" in page_of(client, compared), disguise


def test_how_much_they_have_in_common_is_said_coarsely(compared, ask, charlie, sofia, as_):
    for content, said in (
        (csv(HERS[:500] + people(2)[500:]), "half of the rows or more"),
        (csv(HERS[:240] + people(2)[240:]), "some of the rows"),
        (csv(HERS[:400]), "about all of the rows"),
    ):
        with undone():
            his = ask(charlie, content, "His")
            services.fingerprints.take_fingerprints()
            assert f"Hers (alice) has {said} in common" in page_of(as_(sofia), his)


def test_other_people_with_the_same_columns_and_numbers_are_no_relatives(compared, ask, charlie, sofia, as_):
    for seed in range(2, 8):
        with undone():
            his = ask(charlie, csv(people(seed)), "His")
            services.fingerprints.take_fingerprints()
            page = page_of(as_(sofia), his)
            assert "Probably the same people" not in page, seed
            assert "Are these the same people? Hers (alice) has the same columns" in page, seed


def test_few_kinds_of_rows_are_no_relatives(ask, alice, charlie, sofia):
    """Two tables of the same twenty cells, of other people."""
    for owner, seed, title in ((alice, 1, "Hers"), (charlie, 2, "His")):
        draw = random.Random(seed)
        rows = [[str(draw.randint(18, 27)), draw.choice("fm"), draw.choice("yn")] for _ in range(1000)]
        last = ask(owner, csv(rows, ["age", "sex", "smokes"]), title)
    services.fingerprints.take_fingerprints()
    assert services.recognition.recognised(last.budget, by=sofia) == []


def test_few_rows_are_no_relatives_whoever_is_in_them(ask, alice, charlie, sofia):
    """A sample of all rows would show whether one person is there."""
    hers = ask(alice, csv(HERS[:200]), "Hers")
    his = ask(charlie, csv(HERS[:199]), "His")
    services.fingerprints.take_fingerprints()
    assert (
        services.recognition.recognised(hers.budget, by=sofia)
        == services.recognition.recognised(his.budget, by=sofia)
        == []
    )


def test_nobody_but_reviewers_sees_any_of_it(hers, ask, alice, charlie, sofia, as_):
    his = ask(charlie, DISGUISES["one more row"], "His")
    mine = his.budget.datasets.get()
    names = ("dataset_detail", "columns", "protection", "budget")
    before = [words(as_(charlie).get(reverse(name, args=[mine.pk]))) for name in names]
    answer = as_(charlie).get(f"/api/datasets/{mine.pk}").json()
    services.fingerprints.take_fingerprints()
    assert len(services.recognition.recognised(his.budget, by=sofia)) == 1
    assert [words(as_(charlie).get(reverse(name, args=[mine.pk]))) for name in names] == before
    assert as_(charlie).get(f"/api/datasets/{mine.pk}").json() == answer
    for person in (alice, charlie):
        assert as_(person).get(reverse("budget_request", args=[his.pk])).status_code in (403, 404)


def test_tables_of_one_budget_are_not_held_against_each_other(hers, ask, alice, sofia, as_):
    mine = hers.budget.datasets.get()
    other = ask(alice, DISGUISES["one more row"], "Next year")
    services.fingerprints.take_fingerprints()
    assert "Probably the same people" in page_of(as_(sofia), hers)
    Dataset.objects.filter(pk=other.budget.datasets.get().pk).update(budget=mine.budget)
    assert "Probably the same people" not in page_of(as_(sofia), hers)


def test_the_reviewer_of_a_release_is_told_of_relatives_and_its_owner_is_not(
    make_dataset, make_draft, charlie, sofia, as_
):
    dataset = make_dataset(content=MANY)
    own = make_dataset(owner=charlie, content=MANY + b"p999,30,male\n")
    services.fingerprints.take_fingerprints()
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.5")
    release = make_draft(own, epsilon="1")
    services.releases.submit_release(release=release, key=release.pk, by=charlie, send=False)
    page = words(as_(sofia).get(reverse("release_request", args=[release.reviews.get().pk])))
    assert f"Probably the same people: {dataset.title} (alice)" in page
    assert "alice" not in words(as_(charlie).get(reverse("release_detail", args=[release.pk])))


def test_rows_that_were_deleted_are_known_all_the_same(hers, ask, alice, charlie, sofia, as_):
    services.fingerprints.take_fingerprints()
    services.datasets.delete_rows(dataset=hers.budget.datasets.get(), by=alice)
    his = ask(charlie, DISGUISES["one more row"], "His")
    services.fingerprints.take_fingerprints()
    assert "Probably the same people: Hers (alice)" in page_of(as_(sofia), his)


def test_without_the_key_a_sketch_tells_nothing(hers, ask, charlie, sofia, settings):
    services.fingerprints.take_fingerprints()
    settings.DIGEST_KEY = "another"
    his = ask(charlie, DISGUISES["one more row"], "His")
    services.fingerprints.take_fingerprints()
    assert services.recognition.recognised(his.budget, by=sofia) == []
    sketches = [bytes(each) for each in Fingerprint.objects.values_list("sketch", flat=True)]
    assert all(value.encode() not in sketch for sketch in sketches for value in ("town 3", "female", "p17"))


def test_a_table_that_cannot_be_read_stops_no_other(hers, ask, charlie, settings):
    (settings.TABLES_DIR / hers.budget.datasets.get().location).write_bytes(b"no table")
    his = ask(charlie, DISGUISES["one more row"], "His")
    services.fingerprints.take_fingerprints()
    assert services.fingerprints.is_compared(his.budget)
    assert not services.fingerprints.is_compared(hers.budget)
