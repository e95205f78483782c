"""Steps that come after the first release of a table in a database: as last year, a lookup table, a glance."""

import csv

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from releases import services
from releases.models import Collection, EntryKind, LedgerEntry
from releases.publication import files
from releases.services.release_inputs import Refusal
from tests.web.conftest import COLUMNS
from tests.web.databases.conftest import PATIENTS, counted
from tests.web.datasets.conftest import filled
from tests.web.pages import link, words
from tests.web.steps import again, execute

pytestmark = pytest.mark.postgres

MALES = sum(sex == "male" for _, _, sex in PATIENTS)


@pytest.fixture
def first(register, prepare):
    return prepare(register(), COLUMNS)


def test_a_table_that_changed_is_registered_again_and_taken_for_the_same_people_with_what_is_left_of_it(
    clinic, first, register, queue, as_, alice
):
    """A column is gone, another has another type, and there are more rows."""
    services.datasets.declare_universe(
        dataset=first,
        columns=[*COLUMNS, {"name": "note", "type": "categorical", "categories": ["well", "ill"]}],
        by=alice,
    )
    assert execute(queue(again(first)))
    clinic.run(
        "ALTER TABLE ward.patients DROP COLUMN note",
        "ALTER TABLE ward.patients ALTER COLUMN age TYPE text",
        "INSERT INTO ward.patients SELECT 'new', '30', 'male' FROM generate_series(1, 7)",
    )
    with pytest.raises(Refusal, match=r"Nothing was charged"):
        queue(again(first))
    later = register(title="Patients, later")
    page = as_(alice).get(f"{reverse('take_over', args=[later.pk])}?source={first.pk}")
    assert "age" in words(page)
    response = as_(alice).post(
        reverse("take_over", args=[later.pk]), {"source": first.pk, "people": "same"}, follow=True
    )
    assert response.status_code == 200, words(response)
    later = again(later)
    assert later.universe.names == ("age", "sex")
    assert later.budget == first.budget
    release = queue(later)
    assert execute(release)
    assert counted(again(release))["male"] == MALES + 7
    # By the first registration nothing is read any more.
    with pytest.raises(Refusal, match=r"Nothing was charged"):
        queue(again(first), epsilon="1")
    assert LedgerEntry.objects.filter(budget=first.budget, kind=EntryKind.CHARGE).count() == 2


def test_a_lookup_table_that_is_uploaded_again_is_read_by_the_next_release_and_by_none_before(
    first, as_, alice, make_queued
):
    named = [{"name": "person"}, {"name": "age", "kind": "integer", "values": "18, 45, 65"}, {"name": "sex"}]
    given = {"name": "word", "kind": "categorical", "values": "man, woman, other", "made": "1"}
    given["formula"] = 'recode(sex, {}, "other")'

    def uploaded(*lines):
        table = SimpleUploadedFile("words.csv", "\n".join(("from,to", *lines)).encode())
        sent = filled(*named, {"name": "note"}, {**given, "lookup": table})
        response = as_(alice).post(reverse("columns", args=[first.pk]), sent)
        assert response.status_code == 302, words(response)

    def asked():
        return make_queued(again(first), {"marginal": ["word"]}, epsilon="20")

    def found(release):
        assert execute(release)
        return {row["word"]: round(float(row["estimate"])) for row in answers_of(again(release))}

    uploaded("male,man", "female,woman")
    right, waits = asked(), asked()
    assert found(right) == {"man": MALES, "woman": len(PATIENTS) - MALES, "other": 0}
    uploaded("male,woman")
    assert found(waits) == {"man": MALES, "woman": len(PATIENTS) - MALES, "other": 0}
    assert found(asked()) == {"man": 0, "woman": MALES, "other": len(PATIENTS) - MALES}


def test_everything_at_a_glance_is_released_from_a_table_of_a_database(first, as_, alice):
    client = as_(alice)
    response = client.post(reverse("new_collection", args=[first.pk]), {"glance-epsilon": "40"})
    collection = Collection.objects.get()
    assert response.url == link("confirm_collection", collection)
    shown = client.get(response.url).context["page"]
    sent = {"action": "release", "key": shown.key, "plans": list(shown.plans)}
    response = client.post(response.url, sent)
    assert response.status_code == 302, words(response)
    parts = [each.release for each in collection.parts.select_related("release")]
    for each in parts:
        assert execute(each)
        assert again(each).result["receipt"]["source"] == {"database": "clinic", "table": "ward.patients"}
    answers = [row for each in parts for row in answers_of(again(each)) if row.get("sex") == "male"]
    assert MALES in [round(float(row["estimate"])) for row in answers]
    assert "male" in words(client.get(link("collection", collection)))


def answers_of(release):
    with (files.folder_of(release) / "answers.csv").open() as lines:
        return list(csv.DictReader(lines))
