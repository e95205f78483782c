"""The front page and the catalogue."""

import csv
from fractions import Fraction

import pytest
from django.urls import reverse

from releases import services
from releases.models import Release
from releases.planning.epsilon_meaning import highest_posterior
from releases.publication import files
from tests.web.pages import body, words


def test_the_front_page_draws_the_newest_public_releases_from_their_files(public, client):
    (drawn,) = client.get("/").context["drawn"]
    with (files.folder_of(public) / "answers.csv").open() as file:
        stored = [row for row in csv.DictReader(file) if row["query"] == drawn["title"]]
    shown = [each["estimate"] for each in drawn["chart"]["data"]["values"]]
    assert shown == [float(row["estimate"]) for row in stored]
    services.releases.make_private(release=public)
    page = client.get("/")
    assert public.title not in words(page)
    assert page.context["drawn"] == []


@pytest.mark.parametrize(
    ("prior", "found"),
    [
        ("1/2", {"0": 50, "1/1000000000": 51, "40": 100, "10000000": 100}),
        ("1/10", {"0": 10, "5": 95}),
    ],
)
def test_the_highest_posterior_is_rounded_up(prior, found):
    assert {epsilon: highest_posterior(Fraction(prior), Fraction(epsilon)) for epsilon in found} == found


def test_it_lists_what_was_made_public_and_nothing_else(public, dataset, make_draft, make_queued, client):
    make_draft(dataset)
    Release.objects.filter(pk=make_queued(dataset, epsilon="0.1").pk).update(is_public=True)
    assert [each.release for each in client.get("/catalogue/").context["releases"]] == [public]


def test_it_can_be_searched_by_a_column_that_was_released_whatever_its_letters(
    make_dataset, make_draft, carry_out, client
):
    dataset, categories = make_dataset(epsilon="5"), {"sex": ["Männer", "Frauen"], "age": ["jung", "alt"]}
    columns = [{"name": name, "type": "categorical", "categories": of} for name, of in categories.items()]
    services.datasets.declare_universe(dataset=dataset, columns=columns)
    release = carry_out(make_draft(dataset, {"marginal": ["sex"]}, title="One"))
    services.releases.make_public(release=release)
    assert is_found(client, f"one {dataset.title.upper()}")
    # "jung" is declared, and nothing was released about it; the others are how columns are written down.
    for wanted in ("jung", "%", "categorical", "categories"):
        assert not is_found(client, wanted)
    found = {wanted: is_found(client, wanted) for wanted in ("Männer", "frauen", "MÄNNER", "Männerchor")}
    assert found == {"Männer": True, "frauen": True, "MÄNNER": True, "Männerchor": False}


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
