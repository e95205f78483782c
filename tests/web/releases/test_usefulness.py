"""Bounds that would say nothing are called so in numbers, before anything is spent."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from releases import services
from releases.models import LedgerEntry, Release
from releases.planning import usefulness
from tests.web.conftest import WORKLOAD
from tests.web.pages import body, field_value, words

CHOICE = {"epsilon": "1", "delta": "0", "beta": "0.05"}


@pytest.mark.parametrize(
    ("alpha", "rows", "said"),
    [
        (2_499, 5_000, ""),
        (2_500, 5_000, "of about 5,000 rows: the answers would say almost nothing"),
        (3_776, 5_000, "of about 5,000 rows: the answers would say almost nothing"),
        (5_000, 5_000, "of about 5,000 rows: the answers would say nothing"),
    ],
)
def test_half_the_rows_said_of_every_count_is_as_close(alpha, rows, said):
    assert usefulness.says_little(alpha, rows) == said


@pytest.mark.parametrize(("alpha", "least"), [(0.2, 1), (3, 6), (17, 34), (219, 440), (10_932, 22_000)])
def test_of_use_from_twice_the_bound_on(alpha, least):
    assert usefulness.useful_from(alpha) == least
    assert usefulness.says_little(alpha, least + 1) == ""


@pytest.fixture
def asked(dataset, alice):
    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=release, workload=WORKLOAD)
    return release


@pytest.fixture
def send(asked, as_, alice):
    """The form of the comparison as a browser sends it, with the options that the draft holds."""

    def post(**data):
        held = {
            f"{name}.population": given["population"]
            for name, given in Release.objects.get(pk=asked.pk).options.items()
            if given.get("population")
        }
        return as_(alice).post(reverse("compare", args=[asked.pk]), CHOICE | held | data, follow=True)

    return post


def row_of(page, name):
    parts = re.split('<tbody|<section class="panel recommended', body(page))
    part = next(part for part in parts if f'value="{name}"' in part)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", part))


@pytest.mark.django_db
def test_without_a_guess_each_bound_says_from_how_many_rows_on_it_is_of_use(send):
    assert re.search(r"± (\d+) rows .* useful from \d+ rows", row_of(send(), "laplace-queries"))


@pytest.mark.django_db
def test_a_guess_at_the_rows_tells_which_bounds_would_say_nothing_and_is_kept(send, asked):
    page = send(population="60", epsilon="0.1")
    assert field_value(page, "population") == "60"
    row = row_of(page, "laplace-queries")
    assert "of about 60 rows: the answers would say nothing" in row
    assert "useful from" not in row
    stored = Release.objects.get(pk=asked.pk).options
    assert {stored[name]["population"] for name in ("pmw", "smalldb", "pmw-online")} == {60}
    assert "the answers would say" not in row_of(send(population="100000", epsilon="1"), "laplace-queries")
    assert not LedgerEntry.objects.filter(kind="charge").exists()


@pytest.mark.django_db
def test_a_guess_taken_away_is_gone_and_one_typed_for_a_mechanism_alone_is_its_own(send, asked):
    send(population="60")
    page = send(population="")
    assert field_value(page, "population") == ""
    assert "useful from" in row_of(page, "laplace-queries")
    send(population="", **{"pmw.population": "700"})
    stored = Release.objects.get(pk=asked.pk).options
    assert (stored["pmw"], stored["smalldb"]) == ({"population": 700}, {})


@pytest.mark.django_db
@pytest.mark.parametrize("typed", ["0", "-5", "many", "10000000000"])
def test_what_is_no_number_of_rows_is_refused_and_stays_typed(asked, as_, alice, typed):
    response = as_(alice).post(reverse("compare", args=[asked.pk]), CHOICE | {"population": typed})
    assert response.status_code == 400
    assert field_value(response, "population") == typed
    assert "About how many rows" in words(response)


@pytest.mark.django_db
def test_who_chooses_with_another_guess_reads_the_comparison_for_it_first(send, asked):
    page = send(population="60", mechanism="laplace-queries")
    assert "here is the comparison for them. Choose again." in words(page)
    page = send(population="60", mechanism="laplace-queries")
    assert "Confirm the release" in words(page)


@pytest.mark.django_db
def test_the_confirmation_says_it_too(send):
    send(population="60", epsilon="0.1")
    page = words(send(population="60", epsilon="0.1", mechanism="laplace-queries"))
    assert "This is of little use. ±" in page
    assert "of about 60 rows: the answers would say nothing." in page
    send(population="100000")
    assert "of little use" not in words(send(population="100000", mechanism="laplace-queries"))


@pytest.mark.django_db
def test_a_quantile_is_held_against_the_declared_range(dataset, as_, alice):
    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=release, workload={"version": 1, "queries": [{"median": "age"}]})
    page = as_(alice).post(reverse("compare", args=[release.pk]), CHOICE | {"epsilon": "0.1"}, follow=True)
    assert "the declared range is 47 wide: the answer would say" in words(page)


@pytest.mark.django_db
def test_a_session_of_little_use_says_so_beside_what_one_release_would_give(dataset, as_, alice):
    url = reverse("new_session", args=[dataset.pk])
    plan = CHOICE | {"questions": "1000", "population": "200"}
    page = words(as_(alice).get(url, plan))
    assert "rows of about 200 rows: the answers would say nothing." in page
    assert "Together, in one release: Laplace noise on each answer" in page
    larger = words(as_(alice).get(url, plan | {"population": "100000000"}))
    assert "of little use" not in larger
    assert "Open a session only if the questions cannot be known beforehand." in larger
