"""The same people in another dress are shown to the reviewer of a budget, and to nobody else."""

import random

import pytest
from django.urls import reverse

from releases import services
from releases.models import Dataset, Fingerprint
from tests.web.pages import words
from tests.web.steps import ask_for, protect
from tests.web.undoing import undone

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


HERS = people(1)
_SHUFFLED = random.Random(3).sample(HERS, len(HERS))
DISGUISES = {
    "30.0 for 30, and capitals": csv([[row[0].upper(), row[1] + ".0", row[2].upper(), *row[3:]] for row in HERS[:-1]]),
    "a dropped column": csv([row[:4] for row in HERS], HEADER[:4]),
    "renamed columns": csv(HERS[:-1], ["a", "age", "sex", "c", "d"]),
    "three dummy columns": csv([[*row, "x", str(i % 7), str(i * i)] for i, row in enumerate(HERS)], [*HEADER, *"xyz"]),
    "a dummy in place of a column": csv([[str(i * i), *row[1:]] for i, row in enumerate(HERS)]),
    "one more row": csv([*HERS, ["p9999", "30", "male", "town 3", "7000"]]),
    "all at once": csv(
        [[row[3] + " ", f"{row[1]}.0", row[4], str(i)] for i, row in enumerate(_SHUFFLED[:-1])], ["a", "age", "b", "c"]
    ),
}


@pytest.fixture
def ask(ingest):
    """Somebody uploads a table, declares it and asks for a budget."""

    def asked(owner, content, title="His"):
        dataset = ingest(content, title, owner=owner)
        ages = {"name": "age", "type": "integer", "edges": [18, 40, 65]}
        services.datasets.declare_universe(dataset=dataset, columns=[ages])
        protect(dataset)
        return ask_for(dataset, owner)

    return asked


@pytest.fixture
def hers(ask, alice):
    return ask(alice, csv(HERS), "Hers")


@pytest.fixture
def his(ask, charlie):
    """Charlie's request, once a worker has taken the fingerprint of his table."""

    def made(content=DISGUISES["one more row"]):
        request = ask(charlie, content)
        services.fingerprints.take_fingerprints()
        return request

    return made


@pytest.fixture
def compared(hers):
    """Hers, of which a worker has taken the fingerprint: once for all that it is compared with."""
    services.fingerprints.take_fingerprints()
    return hers


def page_of(client, request):
    return words(client.get(reverse("budget_request", args=[request.pk])))


def test_the_reviewer_is_shown_the_same_people_in_another_dress(compared, ask, charlie, sofia, as_):
    client = as_(sofia)
    for disguise, content in DISGUISES.items():
        with undone():
            his = ask(charlie, content)
            assert "These rows were not compared with those of other tables yet." in page_of(client, his)
            services.fingerprints.take_fingerprints()
            page = page_of(client, his)
            assert "not compared" not in page, disguise
            related = "Hers (alice) has about all of the rows in common with these tables" in page
            # Of some, all that is declared is the very same, which is said instead.
            assert related != ("Hers (alice) has the very same rows" in page), disguise
            assert "His (charlie)" in page_of(client, compared), disguise


def test_how_much_they_have_in_common_is_said_coarsely(compared, his, sofia, as_):
    for content, said in (
        (csv(HERS[:500] + people(2)[500:]), "half of the rows or more"),
        (csv(HERS[:240] + people(2)[240:]), "some of the rows"),
        (csv(HERS[:400]), "about all of the rows"),
    ):
        with undone():
            assert f"Hers (alice) has {said} in common" in page_of(as_(sofia), his(content))


def test_other_people_with_the_same_columns_and_numbers_are_no_relatives(compared, his, sofia, as_):
    for seed in (2, 3):
        with undone():
            page = page_of(as_(sofia), his(csv(people(seed))))
            assert "Probably the same people" not in page, seed
            assert "Are these the same people? Hers (alice) has the same columns" in page, seed


def of_few_kinds(seed):
    draw = random.Random(seed)
    rows = [[str(draw.randint(18, 27)), draw.choice("fm"), draw.choice("yn")] for _ in range(1000)]
    return csv(rows, ["age", "sex", "smokes"])


@pytest.mark.parametrize(
    ("one", "other"),
    [(of_few_kinds(1), of_few_kinds(2)), (csv(HERS[:200]), csv(HERS[:199]))],
    ids=["the same twenty cells of other people", "few rows, of which a sample would show whether one person is there"],
)
def test_few_rows_and_few_kinds_of_rows_are_no_relatives_whoever_is_in_them(ask, his, alice, sofia, one, other):
    for each in (ask(alice, one), his(other)):
        assert services.recognition.recognised(each.budget, by=sofia) == []


def test_tables_of_one_budget_are_not_held_against_each_other(compared, his, sofia, as_):
    other = his()
    assert "Probably the same people" in page_of(as_(sofia), compared)
    Dataset.objects.filter(budget=other.budget).update(budget=compared.budget)
    assert "Probably the same people" not in page_of(as_(sofia), compared)


def test_rows_that_were_deleted_are_known_all_the_same(compared, his, alice, sofia, as_):
    services.datasets.delete_rows(dataset=compared.budget.datasets.get(), by=alice)
    assert "Probably the same people: Hers (alice)" in page_of(as_(sofia), his())


def test_without_the_key_a_sketch_tells_nothing(compared, his, sofia, settings):
    settings.DIGEST_KEY = "another"
    assert services.recognition.recognised(his().budget, by=sofia) == []
    sketches = [bytes(each) for each in Fingerprint.objects.values_list("sketch", flat=True)]
    assert all(value.encode() not in sketch for sketch in sketches for value in ("town 3", "female", "p17"))


def test_a_table_that_cannot_be_read_stops_no_other(hers, his, settings):
    (settings.TABLES_DIR / hers.budget.datasets.get().location).write_bytes(b"no table")
    assert services.fingerprints.is_compared(his().budget)
    assert not services.fingerprints.is_compared(hers.budget)
