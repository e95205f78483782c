"""Words of the field open their meaning where they first stand on a page, without a script."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from releases.display.glossary import ANY_FORM, BY_FIELD, BY_FORM, WORDS
from tests.web.pages import body, words

BUTTON = re.compile(r'<button type="button" class="word" popovertarget="word-([a-z-]+)" aria-describedby="says-\1">')


def explained(response):
    """The words with a button on a page, in the order they stand there."""
    return BUTTON.findall(body(response))


def test_every_word_has_a_meaning_and_an_address_of_its_own():
    assert len({word.anchor for word in WORDS}) == len(WORDS)
    for word in WORDS:
        assert word.meaning.endswith(".")
        assert re.fullmatch("[a-z-]+", word.anchor)
    assert set(BY_FIELD.values()) <= set(BY_FORM)


def test_a_word_is_found_in_its_longest_form_and_not_within_another():
    found = [
        each[0] for each in ANY_FORM.finditer("no deltas, add/remove neighbours, Epsilon 1; set apart, pmw-online")
    ]
    assert found == ["add/remove neighbours", "Epsilon"]


@pytest.mark.django_db
def test_all_words_stand_on_one_page_for_everybody(client):
    page = client.get(reverse("words"))
    for word in WORDS:
        assert f'<div id="{word.anchor}"><dt>{word.name}</dt>' in body(page)
    assert reverse("words") in body(client.get("/catalogue/"))


@pytest.mark.django_db
def test_a_word_is_explained_where_it_first_stands_and_once(draft, as_, alice):
    page = as_(alice).get(reverse("compare", args=[draft.pk]))
    found = explained(page)
    beside_fields = ["epsilon", "delta", "confidence"]
    for word in set(found):
        assert found.count(word) == (2 if word == "epsilon" else 1), word
        assert body(page).count(f'<div popover id="word-{word}"') == 1
        assert body(page).count(f'id="says-{word}"') == 1
    assert found[:2] == ["neighbours", "universe"]
    assert [word for word in found if word in beside_fields][-3:] == beside_fields
    assert "private-multiplicative-weights" in found


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("person", "name", "thing", "wanted"),
    [
        ("nobody", "home", "", {"differential-privacy", "epsilon"}),
        ("nobody", "catalogue", "", {"differential-privacy", "epsilon", "error-bound", "synthetic-rows"}),
        ("nobody", "release_detail", "public", {"epsilon", "mechanism", "neighbours"}),
        ("nobody", "receipt", "public", {"epsilon", "mechanism", "neighbours", "rho", "universe"}),
        ("alice", "home", "", {"epsilon", "budget"}),
        ("alice", "dataset_list", "", {"epsilon", "budget"}),
        ("alice", "dataset_detail", "dataset", {"epsilon", "delta", "universe", "neighbours"}),
        ("alice", "protection", "dataset", {"differential-privacy", "neighbours"}),
        ("alice", "budget", "dataset", {"epsilon", "delta", "privacy-unit", "how-releases-add-up"}),
        ("alice", "questions", "draft", {"workload", "mechanism"}),
        ("alice", "confirm", "draft", {"epsilon", "mechanism", "universe", "neighbours"}),
        ("alice", "release_list", "", {"epsilon"}),
        ("alice", "new_session", "dataset", {"epsilon", "delta", "confidence", "paid-update"}),
        ("alice", "certify", "public", {"epsilon", "delta", "confidence"}),
        ("sofia", "review_queue", "", {"epsilon", "delta"}),
        ("sofia", "budget_board", "", {"epsilon", "rho", "strict-total", "after-the-fact"}),
        ("sofia", "budget_detail", "budget", {"epsilon", "delta", "rho", "after-the-fact", "how-releases-add-up"}),
        ("sofia", "ledger", "", {"epsilon", "rho"}),
    ],
)
def test_each_page_explains_its_words(request, public, dataset, make_draft, as_, person, name, thing, wanted):
    things = {"public": public.pk, "dataset": dataset.pk, "budget": dataset.budget.pk}
    if thing == "draft":
        things["draft"] = make_draft(dataset).pk
    client = as_(None if person == "nobody" else request.getfixturevalue(person))
    page = client.get(reverse(name, args=[things[thing]] if thing else []))
    assert wanted <= set(explained(page))
    assert set(explained(page)) == set(re.findall(r'<div popover id="word-([a-z-]+)"', body(page)))


@pytest.mark.django_db
def test_a_part_of_a_page_has_no_button_that_leads_nowhere(dataset, make_queued, as_, sofia):
    make_queued(dataset)
    client = as_(sofia)
    url = reverse("budget_detail", args=[dataset.budget.pk])
    part = client.get(url, {"tighter": "1"}, headers={"HX-Request": "true"})
    assert "After the fact" in words(part)
    assert explained(part) == []
    assert "after-the-fact" in explained(client.get(url))


@pytest.mark.django_db
def test_what_people_typed_stays_text_beside_a_word(dataset, as_, alice):
    dataset.title = "<b>epsilon</b> & co"
    dataset.save()
    page = body(as_(alice).get(reverse("budget", args=[dataset.pk])))
    assert "<b>epsilon" not in page
    assert "&lt;b&gt;" in page
