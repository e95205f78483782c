"""The table of answers, sorted and filtered by its address; its heat map; and how a release is cited."""

from __future__ import annotations

import hashlib
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from releases.presentation.results.rows import Answer
from releases.presentation.results.table_filter import NUMBERS, Arrangement
from releases.publication import files
from tests.web.pages import words

LABELS = ["north", "south", "10", "5", "Ångström"]
ANSWERS = st.lists(
    st.builds(
        lambda first, second, estimate, width: Answer(
            labels=(first, second), estimate=estimate, lower=max(0.0, estimate - width), upper=estimate + width
        ),
        st.sampled_from(LABELS),
        st.sampled_from(LABELS),
        st.floats(-100, 100),
        st.floats(0, 50),
    ),
    max_size=12,
)
SORTS = st.sampled_from(["", *(f"{sign}{name}" for sign in ("", "-") for name in (*NUMBERS, "label0", "label1"))])


@given(ANSWERS, SORTS, st.sampled_from(["", "o", "SOUTH", "ång", "x y"]))
def test_arranging_keeps_exactly_the_rows_with_the_word_and_puts_them_in_order(rows, sort, only):
    arranged = Arrangement.read("0", sort, only, labels=2).apply(rows)
    kept = [row for row in rows if any(only.casefold() in label.casefold() for label in row.labels)]
    assert sorted(map(id, arranged)) == sorted(map(id, kept))
    name = sort.removeprefix("-")
    if name in ("estimate", "lower", "upper"):
        values = [getattr(row, name) for row in arranged]
        assert values == sorted(values, reverse=sort.startswith("-"))
    if name in ("", "synthetic"):
        assert arranged == kept


def test_labels_are_sorted_as_they_were_declared_and_not_by_alphabet():
    rows = [Answer(labels=(label,), estimate=1.0) for label in ("5", "10", "0", "10")]
    arranged = Arrangement.read("0", "label0", "", labels=1).apply(rows)
    assert [row.labels[0] for row in arranged] == ["5", "10", "10", "0"]


@given(SORTS, st.text(max_size=10))
def test_the_address_of_an_arrangement_reads_back_as_itself(sort, only):
    arrangement = Arrangement.read("3", sort, only, labels=2)
    given_back = {name: values[0] for name, values in parse_qs(urlsplit(arrangement.address_of(7)).query).items()}
    again = Arrangement.read(given_back["question"], given_back.get("sort", ""), given_back.get("only", ""), labels=2)
    assert again == arrangement
    assert given_back["page"] == "7"


@pytest.mark.parametrize("sort", ["-label2", "labels", "label-1", "__class__", "--estimate"])
def test_a_column_that_is_not_there_sorts_nothing(sort):
    assert not Arrangement.read("0", sort, "", labels=2)


@pytest.mark.django_db
def test_a_release_is_cited_by_its_address_and_the_digest_of_its_receipt(public, client):
    page = words(client.get(reverse("release_detail", args=[public.pk])))
    receipt = client.get(reverse("download", args=[public.pk, files.RECEIPT]))
    digest = hashlib.sha256(b"".join(receipt.streaming_content)).hexdigest()
    assert f"http://testserver/releases/{public.pk}/" in page
    assert f"Version {digest[:16]}." in page
    assert digest in page
    assert "(epsilon 1; Laplace noise on each answer)" in page
