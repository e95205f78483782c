"""The front page and the catalogue."""

from __future__ import annotations

import pytest
from django.urls import reverse

from releases.models import Release
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db


def test_visitors_find_the_catalogue(client):
    assert client.get("/").url == "/catalogue/"
    assert "Nothing has been made public yet." in words(client.get("/catalogue/"))


def test_it_lists_what_was_made_public_and_nothing_else(public, dataset, make_draft, make_queued, client):
    Release.objects.filter(pk=public.pk).update(title="The public one")
    Release.objects.filter(pk=make_draft(dataset).pk).update(title="A draft")
    Release.objects.filter(pk=make_queued(dataset, epsilon="0.1").pk).update(title="A queued one", is_public=True)
    page = words(client.get("/catalogue/"))
    assert "The public one" in page
    assert "A draft" not in page
    assert "A queued one" not in page


def test_it_can_be_searched_by_title_and_dataset(public, client):
    Release.objects.update(title="Age by sex")
    for wanted, is_found in (("age", True), ("SURVEY", True), ("income", False), ("%", False)):
        assert ("Age by sex" in words(client.get("/catalogue/", {"q": wanted}))) is is_found
    assert "Nothing published has “income” in its title" in words(client.get("/catalogue/", {"q": "income"}))


def test_what_is_searched_for_is_shown_as_text_and_never_as_markup(client):
    page = body(client.get("/catalogue/", {"q": '"><script>alert(1)</script>'}))
    assert "<script>alert" not in page


@pytest.mark.parametrize("page", ["0", "-1", "x", "99999999999999999999"])
def test_a_page_that_is_not_there_shows_one_that_is(public, client, page):
    assert client.get("/catalogue/", {"page": page}).status_code == 200


def test_it_turns_pages(public, dataset, client):
    for number in range(25):
        Release.objects.create(
            dataset=dataset,
            title=f"Release number {number}",
            state="published",
            is_public=True,
            result=public.result,
            published_at=public.published_at,
        )
    first = words(client.get("/catalogue/"))
    assert "Page 1 of 2" in first
    assert "Page 2 of 2" in words(client.get("/catalogue/", {"page": "2"}))


def test_the_front_page_shows_one_s_own(published, as_, alice, charlie):
    assert "Release 1" in words(as_(alice).get("/"))
    page = words(as_(charlie).get("/"))
    assert "No datasets yet." in page
    assert "No releases yet." in page


def test_a_reader_without_an_account_gets_no_cookie(public, client):
    client.get("/catalogue/")
    client.get(reverse("release_detail", args=[public.pk]))
    client.get(reverse("receipt", args=[public.pk]))
    assert not client.cookies
