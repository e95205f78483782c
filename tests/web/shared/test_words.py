"""Words of the field open their meaning where they first stand on a page, without a script."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from releases.display.glossary import ANY_FORM, BY_FIELD, BY_FORM, WORDS
from tests.web.pages import body


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
def test_what_people_typed_stays_text_beside_a_word(dataset, as_, alice):
    dataset.title = "<b>epsilon</b> & co"
    dataset.save()
    page = body(as_(alice).get(reverse("budget", args=[dataset.pk])))
    assert "<b>epsilon" not in page
    assert "&lt;b&gt;" in page
