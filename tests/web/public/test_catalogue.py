"""The front page and the catalogue."""

from __future__ import annotations

import csv
import json
import math
import shutil
import uuid
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from django.urls import reverse

from releases import services
from releases.engine.bounds.accuracy import Proof
from releases.models import Audience, Release, Searchable
from releases.planning.epsilon_meaning import highest_posterior
from releases.publication import files
from releases.publication.receipt import rows_text
from releases.publication.search_index import searchable
from tests.web.conftest import CSV
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db


def test_the_front_page_draws_the_newest_releases_from_their_files_and_says_the_numbers_too(public, client):
    page = client.get("/")
    drawn = page.context["drawn"][0]
    with (files.folder_of(public) / "answers.csv").open() as file:
        stored = [row for row in csv.DictReader(file) if row["query"] == drawn["title"]]
    shown = words(page)
    for row in stored:
        # Halves go up on the page; Python's own formatting takes them to the even number.
        whole = [Decimal(row[name]).quantize(Decimal(1), ROUND_HALF_UP) for name in ("estimate", "lower", "upper")]
        numbers = " ".join(f"{each:,}" for each in whole)
        assert f"{row[drawn['title']]} {numbers}" in shown
    assert len(stored) == len(drawn["chart"]["data"]["values"]) > 1


def test_a_release_whose_files_are_away_stands_on_the_front_page_without_a_chart(public, client):
    shutil.rmtree(files.folder_of(public))
    page = client.get("/")
    assert public.title in words(page)
    assert page.context["drawn"][0]["chart"] is None


def test_the_front_page_shows_nothing_that_is_not_public(published, client):
    page = client.get("/")
    assert published.title not in words(page)
    assert page.context["drawn"] == []


def test_the_picture_of_epsilon_never_says_less_than_it_can_tell(client):
    drawn = client.get("/").context["beliefs"]
    assert [epsilon for epsilon, _ in drawn] == ["0", "0.1", "0.5", "1", "2", "4"]
    for epsilon, most in drawn:
        # A fair guess of one of two facts, after one answer by randomized response of that epsilon.
        exact = 50 * (1 + math.tanh(float(epsilon) / 2))
        assert exact <= most < exact + 1


@pytest.mark.parametrize(
    ("prior", "epsilon", "percent"),
    [
        ("1/2", "0", 50),
        ("1/10", "0", 10),
        ("1/3", "0", 34),
        ("1/2", "1/1000000000", 51),
        ("1/10", "5", 95),
        ("1/2", "40", 100),
        ("1/2", "10000000", 100),
    ],
)
def test_the_highest_posterior_is_rounded_up(prior, epsilon, percent):
    assert highest_posterior(Fraction(prior), Fraction(epsilon)) == percent


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
    for wanted, is_found in (
        ("age", True),
        ("SURVEY", True),
        ("income", False),
        ("%", False),
        ("sex survey", True),
        ("survey income", False),
        ("Female", True),
    ):
        assert ("Age by sex" in words(client.get("/catalogue/", {"q": wanted}))) is is_found
    assert "Nothing published has “income” in its title" in words(client.get("/catalogue/", {"q": "income"}))


def test_it_can_be_searched_by_a_column_that_was_released_whatever_its_letters(make_dataset, alice, client):
    dataset = make_dataset(epsilon="5")
    services.datasets.declare_universe(
        dataset=dataset,
        columns=[
            {"name": "sex", "type": "categorical", "categories": ["Männer", "Frauen"]},
            {"name": "age", "type": "categorical", "categories": ["jung", "alt"]},
        ],
    )
    release = services.releases.draft_release(dataset=dataset, by=alice, title="One")
    services.releases.set_questions(release=release, workload={"version": 1, "queries": [{"marginal": ["sex"]}]})
    services.releases.set_choice(release=release, epsilon="1", mechanism_name="laplace-queries")
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=release.pk)
    services.releases.make_public(release=release)
    # Declared, and nothing was released about it.
    assert "Nothing published" in words(client.get("/catalogue/", {"q": "jung"}))
    assert "One" in words(client.get("/catalogue/", {"q": "Männer"}))
    assert "One" in words(client.get("/catalogue/", {"q": "frauen"}))
    assert "One" in words(client.get("/catalogue/", {"q": "MÄNNER"}))
    assert "Nothing published" in words(client.get("/catalogue/", {"q": "Männerchor"}))


def is_found(client, wanted):
    return bool(client.get("/catalogue/", {"q": wanted}).context["releases"])


def test_what_is_not_public_is_found_by_none_of_its_words(published, client):
    for wanted in ("female", "survey", published.title):
        assert not is_found(client, wanted)
    services.releases.make_public(release=published)
    assert is_found(client, "female")
    services.releases.make_private(release=published)
    assert not is_found(client, "female")


def test_what_was_withdrawn_is_no_longer_found(public, alice, client):
    assert is_found(client, "female")
    services.releases.withdraw_release(release=public, by=alice)
    assert not is_found(client, "female")


def test_it_is_found_by_the_titles_of_now(public, alice, client):
    services.datasets.rename_dataset(dataset=public.dataset, title="Households", by=alice)
    Release.objects.filter(pk=public.pk).update(title="Tables")
    for wanted, found in (("households", True), ("tables", True), ("survey", False), (public.title, False)):
        assert is_found(client, wanted) is found, wanted


def test_it_is_found_by_what_it_tells_and_not_by_how_that_is_written_down(public, client):
    for wanted in ("categorical", "categories", "outside", '"', "columns"):
        assert not is_found(client, wanted), wanted


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


def test_it_shows_each_release_with_its_error_bound(public, client):
    bound = rows_text(public.result["receipt"]["bound"]["alpha"])
    found = public.result["headline"]
    assert f"Release 1 {found} Survey ± {bound} at 95% 1 " in words(client.get("/catalogue/"))
    assert f"Release 1 {found} Survey · epsilon 1 · ± {bound} at 95%" in words(client.get("/"))


def test_releases_made_before_headlines_were_kept_are_listed_by_their_bound(public, client):
    del public.result["headline"]
    public.save(update_fields=["result"])
    assert "Release 1 Survey ±" in words(client.get("/catalogue/"))


def test_a_bound_that_is_only_expected_is_called_so(public, client):
    public.result["receipt"]["bound"]["proof"] = Proof.EXPECTED.value
    public.save(update_fields=["result"])
    assert "rows at 95%, expected, not proved" in words(client.get("/catalogue/"))


def test_what_is_no_count_has_its_bound_in_words(public, client):
    public.result["receipt"]["bound"]["says"] = "the mean of age is within 0.3 of the truth."
    public.save(update_fields=["result"])
    page = words(client.get("/catalogue/"))
    assert "At 95%: the mean of age is within 0.3 of the truth." in page
    assert "±" not in page


@pytest.fixture
def certificate(public, alice, carry_out):
    return carry_out(services.certificates.draft_certificate(of=public, by=alice, epsilon="0.05"))


def test_a_certificate_stands_with_its_release_and_is_no_release_of_its_own(public, certificate, client):
    assert "Certified" not in words(client.get("/catalogue/"))
    services.releases.make_public(release=certificate)
    page = client.get("/catalogue/")
    assert [each.release for each in page.context["releases"]] == [public]
    assert f"Certified at 95%: {certificate.result['receipt']['bound']['says']}" in words(page)
    assert reverse("release_detail", args=[certificate.pk]) in body(page)


def test_a_certificate_of_what_is_not_public_is_called_a_certificate(public, certificate, client):
    services.releases.make_public(release=certificate)
    services.releases.make_private(release=public)
    page = client.get("/catalogue/")
    assert [each.release for each in page.context["releases"]] == [certificate]
    assert f"{certificate.title} certificate" in words(page)


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


def test_a_curator_s_front_page_shows_her_datasets_with_what_is_spent_and_left(published, make_dataset, as_, alice):
    make_dataset(epsilon="", content=CSV + b"one more,30,male\n")
    page = as_(alice).get("/")
    said = words(page)
    assert "Your datasets" in said
    spent_and_left = "Survey alice epsilon 2 delta 0.000001 50% epsilon 1 50% epsilon 1 "
    assert spent_and_left in said
    assert "Survey alice nothing yet – – " in said
    assert said.index("Your datasets") < said.index("Upload a table") < said.index("Your releases")
    assert "Release 1" in said
    assert spent_and_left in words(as_(alice).get("/datasets/"))


def test_an_analyst_s_front_page_shows_what_can_be_read_and_asked_first(public, as_, charlie, alice):
    live = services.sessions.draft_session(dataset=public.dataset, by=alice, title="Ask here", epsilon="0.5")
    services.releases.submit_release(release=live, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=live.pk)
    without = words(as_(charlie).get("/"))
    assert "There is no session you may ask in." in without
    live.refresh_from_db()
    services.sessions.let_ask(session=live.session, audience=Audience.EVERYBODY, by=alice)
    page = words(as_(charlie).get("/"))
    assert page.index("Ask here") < page.index("Release 1") < page.index("Uploading is for curators")
    assert "Your datasets" not in page


def test_a_reviewer_s_front_page_shows_what_waits_first(asked, as_, sofia):
    page = words(as_(sofia).get("/"))
    assert "Requests to decide 1 request to review." in page
    assert "Survey budget epsilon 3, delta 0.000001 alice" in page
    assert "Upload a table" not in page
    services.budgets.deny_request(request=asked, by=sofia, note="No.")
    assert "Nothing waits for a decision." in words(as_(sofia).get("/"))


def test_a_reader_without_an_account_gets_no_cookie(public, client):
    client.get("/catalogue/")
    client.get(reverse("release_detail", args=[public.pk]))
    client.get(reverse("receipt", args=[public.pk]))
    assert not client.cookies
