"""The front page and the catalogue."""

from __future__ import annotations

import csv
import json
import math
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from django.urls import reverse

from releases import services
from releases.engine.bounds.accuracy import Proof
from releases.models import Release, Searchable
from releases.planning.epsilon_meaning import highest_posterior
from releases.publication import files
from releases.publication.receipt import rows_text
from releases.publication.search_index import searchable
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db


def test_the_front_page_draws_the_newest_releases_from_their_files_and_says_the_numbers_too(public, client):
    page = client.get("/")
    (drawn,) = page.context["drawn"]
    with (files.folder_of(public) / "answers.csv").open() as file:
        stored = [row for row in csv.DictReader(file) if row["query"] == drawn["title"]]
    shown = words(page)
    for row in stored:
        # Halves go up on the page; Python's own formatting takes them to the even number.
        whole = [Decimal(row[name]).quantize(Decimal(1), ROUND_HALF_UP) for name in ("estimate", "lower", "upper")]
        numbers = " ".join(f"{each:,}" for each in whole)
        assert f"{row[drawn['title']]} {numbers}" in shown
    assert len(stored) == len(drawn["chart"]["data"]["values"]) > 1
    services.releases.make_private(release=public)
    page = client.get("/")
    assert public.title not in words(page)
    assert page.context["drawn"] == []


def test_the_picture_of_epsilon_never_says_less_than_it_can_tell(client):
    drawn = client.get("/").context["beliefs"]
    assert [epsilon for epsilon, _ in drawn] == ["0", "0.1", "0.5", "1", "2", "4"]
    for epsilon, most in drawn:
        # A fair guess of one of two facts, after one answer by randomized response of that epsilon.
        exact = 50 * (1 + math.tanh(float(epsilon) / 2))
        assert exact <= most < exact + 1


@pytest.mark.parametrize(
    ("prior", "found"),
    [
        ("1/2", {"0": 50, "1/1000000000": 51, "40": 100, "10000000": 100}),
        ("1/3", {"0": 34}),
        ("1/10", {"0": 10, "5": 95}),
    ],
)
def test_the_highest_posterior_is_rounded_up(prior, found):
    assert {epsilon: highest_posterior(Fraction(prior), Fraction(epsilon)) for epsilon in found} == found


def test_it_lists_what_was_made_public_and_nothing_else(public, dataset, make_draft, make_queued, client):
    make_draft(dataset)
    Release.objects.filter(pk=make_queued(dataset, epsilon="0.1").pk).update(is_public=True)
    assert [each.release for each in client.get("/catalogue/").context["releases"]] == [public]


def test_it_can_be_searched_by_title_and_dataset(public, client):
    Release.objects.update(title="Age by sex")
    for wanted in ("age", "SURVEY", "sex survey", "Female"):
        assert is_found(client, wanted), wanted
    # Nor by how what it tells is written down.
    for wanted in ("income", "%", "survey income", "categorical", "categories", "outside", '"', "columns"):
        assert not is_found(client, wanted), wanted


def test_it_can_be_searched_by_a_column_that_was_released_whatever_its_letters(
    make_dataset, make_draft, carry_out, client
):
    dataset, categories = make_dataset(epsilon="5"), {"sex": ["Männer", "Frauen"], "age": ["jung", "alt"]}
    columns = [{"name": name, "type": "categorical", "categories": of} for name, of in categories.items()]
    services.datasets.declare_universe(dataset=dataset, columns=columns)
    release = carry_out(make_draft(dataset, {"marginal": ["sex"]}, title="One"))
    services.releases.make_public(release=release)
    # "jung" is declared, and nothing was released about it.
    found = {wanted: is_found(client, wanted) for wanted in ("jung", "Männer", "frauen", "MÄNNER", "Männerchor")}
    assert found == {"jung": False, "Männer": True, "frauen": True, "MÄNNER": True, "Männerchor": False}


def is_found(client, wanted):
    return bool(client.get("/catalogue/", {"q": wanted}).context["releases"])


def test_what_is_not_public_is_found_by_none_of_its_words(published, alice, client):
    for wanted in ("female", "survey", published.title):
        assert not is_found(client, wanted)
    for takes_back in (services.releases.make_private, services.releases.withdraw_release):
        services.releases.make_public(release=published)
        assert is_found(client, "female")
        takes_back(release=published, by=alice)
        assert not is_found(client, "female")


def test_it_is_found_by_the_titles_of_now(public, alice, client):
    services.datasets.rename_dataset(dataset=public.dataset, title="Households", by=alice)
    Release.objects.filter(pk=public.pk).update(title="Tables")
    for wanted, found in (("households", True), ("tables", True), ("survey", False), (public.title, False)):
        assert is_found(client, wanted) is found, wanted


def test_no_word_is_found_that_begins_in_one_name_and_ends_in_the_next():
    columns = [{"name": "age", "edges": [0, 1]}, {"name": "sex", "categories": ["Straße", "Weg"]}, {"name": "age"}]
    described = {"table": "Who was asked.", "columns": {"age": {"description": "at the interview", "unit": "Years"}}}
    told = searchable({"receipt": {"schema": {"columns": columns}}, "described": described})
    assert told.splitlines() == ["who was asked.", "age", "sex", "strasse", "weg", "at the interview", "years"]


def test_what_it_is_found_by_is_shown_by_no_page_and_stands_in_no_receipt(public, as_, alice, client):
    Searchable.objects.update(text="unheard of")
    assert is_found(client, "unheard")
    receipt = reverse("receipt", args=[public.pk])
    for address in (reverse("release_detail", args=[public.pk]), receipt, "/catalogue/", "/api/catalogue"):
        assert "unheard" not in body(client.get(address))
    assert "unheard" not in json.dumps(Release.objects.get(pk=public.pk).result)


def test_what_is_searched_for_is_shown_as_text_and_never_as_markup(client):
    page = body(client.get("/catalogue/", {"q": '"><script>alert(1)</script>'}))
    assert "<script>alert" not in page


def test_a_certificate_stands_with_its_release_and_is_no_release_of_its_own(public, alice, carry_out, client):
    certificate = carry_out(services.certificates.draft_certificate(of=public, by=alice, epsilon="0.05"))
    services.releases.make_public(release=certificate)
    page = client.get("/catalogue/")
    assert [each.release for each in page.context["releases"]] == [public]
    assert reverse("release_detail", args=[certificate.pk]) in body(page)
    services.releases.make_private(release=public)
    assert [each.release for each in client.get("/catalogue/").context["releases"]] == [certificate]


def test_a_reader_without_an_account_gets_no_cookie(public, client):
    for address in ("/catalogue/", *(reverse(name, args=[public.pk]) for name in ("release_detail", "receipt"))):
        client.get(address)
    assert not client.cookies


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        ({}, "± {} at 95%"),
        ({"proof": Proof.EXPECTED.value}, "± {} at 95%, expected, not proved"),
        ({"says": "the mean of age is within 0.3 of it."}, "At 95%: the mean of age is within 0.3 of it."),
    ],
    ids=["proved", "expected", "in words"],
)
def test_it_shows_each_release_with_its_error_bound(public, client, bound, said):
    """Also those of before headlines were kept."""
    del public.result["headline"]
    public.result["receipt"]["bound"] |= bound
    Release.objects.filter(pk=public.pk).change(result=public.result)
    shown = words(client.get("/catalogue/"))
    assert said.format(rows_text(public.result["receipt"]["bound"]["alpha"])) in shown
    assert ("±" in shown) == ("says" not in bound)
