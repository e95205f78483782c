"""Words: those of the field open their meaning where they first stand on a page, without a script; and a release can be
planned, confirmed and read in few and easy words, those that show, outside closed details."""

import re
import sys

import pytest
from django.urls import reverse

from releases.display.glossary import ANY_FORM, BY_FIELD, BY_FORM, WORDS
from releases.management.reading_ease import reading_ease
from tests.web.pages import body, visible_text, visible_words

MAX_WORDS = 2500
#: Flesch's score of a newspaper that asks something of its readers.
NEWSPAPER = 50


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


def test_all_words_stand_on_one_page_for_everybody(client):
    page = client.get(reverse("words"))
    for word in WORDS:
        assert f'<div id="{word.anchor}"><dt>{word.name}</dt>' in body(page)
    assert reverse("words") in body(client.get("/catalogue/"))


def test_what_people_typed_stays_text_beside_a_word(dataset, as_, alice):
    dataset.title = "<b>epsilon</b> & co"
    dataset.save()
    page = body(as_(alice).get(reverse("budget", args=[dataset.pk])))
    assert "<b>epsilon" not in page
    assert "&lt;b&gt;" in page


def test_the_pages_of_a_release_have_at_most_2500_words_and_none_is_harder_than_a_newspaper(
    dataset, make_draft, make_queued, published, as_, alice
):
    draft, waiting = make_draft(dataset, epsilon="0.5"), make_queued(dataset, epsilon="0.25")
    pages = dict.fromkeys(("dataset_detail", "columns", "protection", "budget"), dataset)
    pages |= dict.fromkeys(("questions", "compare", "confirm"), draft)
    pages |= {"progress": waiting, "release_detail": published}
    client, counts, ease = as_(alice), {}, {}
    for name, thing in pages.items():
        page = client.get(reverse("release_detail" if name == "progress" else name, args=[thing.pk]))
        counts[name], ease[name] = len(visible_words(page)), reading_ease(visible_text(page))
    sys.stdout.write(
        "".join(f"\n{number:6,} {name}" for name, number in {**counts, "all": sum(counts.values())}.items())
    )
    assert all(counts.values())
    assert sum(counts.values()) <= MAX_WORDS
    assert {name: score for name, score in ease.items() if score < NEWSPAPER} == {}


def test_the_score_is_that_of_the_formula_on_sentences_alone():
    easy = "A label\nThe cat sat on the mat.\nTotal: 12"
    assert reading_ease(easy) == pytest.approx(206.835 - 1.015 * 6 - 84.6)
    law = "The administrator deliberately disregarded the aforementioned obligation."
    assert reading_ease(law) < 0
    assert reading_ease("Epsilon 0.5\nDraft") is None
