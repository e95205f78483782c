"""A release can be planned, confirmed and read in few and easy words: those that show, outside closed details."""

from __future__ import annotations

import sys

import pytest
from django.urls import reverse

from releases.management.reading_ease import reading_ease
from tests.web.pages import visible_text, visible_words

MAX_WORDS = 2500
#: Flesch's score of a newspaper that asks something of its readers.
NEWSPAPER = 50


@pytest.mark.django_db
def test_the_pages_of_a_release_have_at_most_2500_words_and_none_is_harder_than_a_newspaper(
    dataset, make_draft, make_queued, published, as_, alice
):
    draft, waiting = make_draft(dataset, epsilon="0.5"), make_queued(dataset, epsilon="0.25")
    pages = {
        "dataset_detail": dataset,
        "columns": dataset,
        "protection": dataset,
        "budget": dataset,
        "questions": draft,
        "compare": draft,
        "confirm": draft,
        "progress": waiting,
        "release_detail": published,
    }
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
