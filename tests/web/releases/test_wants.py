"""What is wanted is the first choice of the page of questions, and the page shows only what that needs."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from releases import services
from releases.engine.workload.queries import Workload
from releases.models import Release
from releases.questions.base import offered_statistics
from tests.web.pages import words

pytestmark = pytest.mark.django_db

TABLE, ROWS, AVERAGES, PERCENTILES, OTHER, SAME = ("table", "rows", "averages", "percentiles", "other", "same")


@pytest.fixture
def blank(dataset, alice):
    return services.releases.draft_release(dataset=dataset, by=alice)


@pytest.fixture
def show(blank, as_, alice):
    return lambda **link: as_(alice).get(reverse("questions", args=[blank.pk]), link)


@pytest.fixture
def send(blank, as_, alice):
    def post(want, **data):
        return as_(alice).post(f"{reverse('questions', args=[blank.pk])}?want={want}", data)

    return post


def queries(blank):
    workload = Release.objects.get(pk=blank.pk).workload
    return workload and workload["queries"]


def test_every_kind_of_question_can_be_reached_from_one_want(show):
    reached = []
    for want in (TABLE, AVERAGES, PERCENTILES, OTHER):
        page = show(want=want)
        links = [re.match(r"\?kind=(\w+)#", each.address)[1] for each in page.context["wants"].kinds]
        reached += links or [page.context["kind"]]
        for kind in links:
            assert show(kind=kind).context["wants"].want == want
    assert sorted(reached) == sorted([Workload.kind, *offered_statistics()])


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        ([], [{"marginal": ["age", "sex"]}]),
        (["age", "sex"], [{"marginal": ["age", "sex"]}]),
        (["sex"], [{"marginal": ["sex"]}]),
    ],
)
def test_synthetic_rows_ask_every_two_of_the_columns_and_lead_on(send, blank, columns, asked):
    send(TABLE, action="prefix", prefix="age")
    response = send(ROWS, action="rows", columns=columns)
    assert response.url == f"{reverse('compare', args=[blank.pk])}?want={ROWS}"
    assert queries(blank) == asked


def test_synthetic_rows_of_a_column_that_is_not_declared_are_refused_and_what_was_ticked_stays(send, blank):
    response = send(ROWS, action="rows", columns=["wage", "sex"])
    assert response.status_code == 400
    assert "Question 1, columns: 'wage' must name a declared column" in words(response)
    assert [field.name for field, is_chosen in response.context["ticked"] if is_chosen] == ["sex"]
    assert response.context["wants"].asks_rows
    assert queries(blank) is None
