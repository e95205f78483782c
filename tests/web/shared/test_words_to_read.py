"""A release can be planned, confirmed and read in few words: those that show on its pages, outside closed details."""

from __future__ import annotations

import sys

import pytest
from django.urls import reverse

from tests.web.pages import visible_words

MAX_WORDS = 2500


@pytest.mark.django_db
def test_the_pages_of_a_release_have_at_most_2500_words(dataset, make_draft, make_queued, published, as_, alice):
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
    client, counts = as_(alice), {}
    for name, thing in pages.items():
        address = reverse("release_detail" if name == "progress" else name, args=[thing.pk])
        counts[name] = len(visible_words(client.get(address)))
    sys.stdout.write(
        "".join(f"\n{number:6,} {name}" for name, number in {**counts, "all": sum(counts.values())}.items())
    )
    assert all(counts.values())
    assert sum(counts.values()) <= MAX_WORDS
