"""Bounds that would say nothing are called so in numbers, before anything is spent."""

from __future__ import annotations

import pytest
from django.urls import reverse

from releases import services
from releases.planning import usefulness
from tests.web.conftest import WORKLOAD
from tests.web.pages import field_value, words

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


@pytest.mark.django_db
@pytest.mark.parametrize("typed", ["0", "10000000000"])
def test_what_is_no_number_of_rows_is_refused_and_stays_typed(asked, as_, alice, typed):
    response = as_(alice).post(reverse("compare", args=[asked.pk]), CHOICE | {"population": typed})
    assert response.status_code == 400
    assert field_value(response, "population") == typed
    assert "About how many rows" in words(response)
