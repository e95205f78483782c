"""How much epsilon an error takes: every mechanism is listed, with what it leaves, or why it has no answer."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from releases import services
from releases.models import Budget, LedgerEntry, Release
from releases.planning import comparison, error_target
from tests.web.conftest import WORKLOAD
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(dataset, alice):
    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=release, workload=WORKLOAD)
    return release


@pytest.fixture
def url(asked):
    return reverse("compare", args=[asked.pk])


def needed_part(page):
    return re.search(r'<table class="stack needed".*?</table>', body(page), flags=re.DOTALL)[0]


def compared(release):
    return comparison.compared(
        services.releases.compare(release=Release.objects.get(pk=release.pk)), Budget.objects.get()
    )


def test_every_mechanism_is_listed_with_an_epsilon_or_a_reason(asked, url, as_, alice):
    listed = needed_part(as_(alice).get(url, {"error": "30"}))
    services.releases.set_choice(release=asked, epsilon="1", delta="0.0000001")
    rows = compared(asked)
    for row in rows:
        assert row.mechanism.title in listed
    needed = error_target.needed_for(rows, Budget.objects.get(), error=30)
    assert len(needed) == len(rows) == listed.count("<tr>") - 1
    assert all(each.epsilon or each.why for each in needed)
    assert "It proves its bound from what it releases; none is known before." in listed


def test_what_fits_says_what_it_leaves_and_what_does_not_says_so(asked, url, as_, alice):
    listed = words(as_(alice).get(url, {"error": "30"}))
    left = r"\d+(\.\d)?% \(epsilon 1\.\d+\) about [\d,]+ more releases like this fit"
    assert re.search(rf"Laplace noise on each answer 0\.\d+ {left}", listed)
    page = as_(alice).get(url, {"error": "3"})
    assert "It does not fit: it costs epsilon" in words(page)
    part = needed_part(page)
    for row in part.split("<tr>"):
        assert not ("It does not fit" in row and "<button" in row)


def test_what_is_only_expected_is_called_so(asked, url, as_, alice):
    assert "expected, not proved" in needed_part(as_(alice).get(url, {"error": "30"}))


def test_the_comparison_is_made_at_an_epsilon_that_was_worked_out_and_keeps_the_other_numbers(asked, url, as_, alice):
    page = as_(alice).get(url, {"error": "30"})
    taken = re.search(r'<button\s+form="comparison"[^>]*\sname="take"\s+value="([\d.]+)"', needed_part(page))[1]
    sent = {"epsilon": "1", "delta": "0.0000001", "beta": "0.01", "population": "700", "take": taken}
    done = as_(alice).post(url, sent, follow=True)
    assert field_value(done, "epsilon") == taken
    assert field_value(done, "delta") == "0.0000001"
    assert field_value(done, "population") == "700"
    assert Release.objects.get(pk=asked.pk).beta == "0.01"
    assert not LedgerEntry.objects.filter(kind="charge").exists()


@pytest.mark.parametrize("name", ["bob", "charlie"])
def test_others_take_over_an_epsilon_only_where_they_may_change_the_draft(asked, url, as_, request, name):
    person = request.getfixturevalue(name)
    done = as_(person).post(url, {"epsilon": "1", "delta": "0", "beta": "0.05", "take": "0.3"})
    assert done.status_code == (302 if name == "bob" else 404)
    assert Release.objects.get(pk=asked.pk).epsilon == ("0.3" if name == "bob" else "")


def test_an_epsilon_that_is_no_number_is_refused(url, as_, alice):
    done = as_(alice).post(url, {"epsilon": "1", "delta": "0", "beta": "0.05", "take": "many"})
    assert done.status_code == 400
    assert field_value(done, "epsilon") == "many"


def test_without_a_granted_budget_the_epsilons_are_there_and_nothing_is_left(make_dataset, as_, alice):
    release = services.releases.draft_release(dataset=make_dataset(epsilon=""), by=alice)
    services.releases.set_questions(release=release, workload=WORKLOAD)
    page = as_(alice).get(reverse("compare", args=[release.pk]), {"error": "30"})
    assert "No budget has been granted yet." in needed_part(page)
