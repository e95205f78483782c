"""What is wanted is the first choice of the page of questions, and the page shows only what that needs."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from releases import services
from releases.engine.workload.queries import Workload
from releases.models import Release
from releases.questions.base import offered_statistics
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db

TABLE, ROWS, AVERAGES, PERCENTILES, OTHER, SAME = ("table", "rows", "averages", "percentiles", "other", "same")
PARTS = ("asks_counts", "asks_rows", "asks_statistic", "asks_same")


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


def buttons(page):
    return set(re.findall(r'<button[^>]*name="action" value="([^"]+)"', body(page)))


def test_a_new_draft_begins_with_what_is_wanted_and_asks_for_nothing_else(show, dataset):
    page = show()
    shown = page.context["wants"]
    assert not any(getattr(shown, part) for part in PARTS)
    assert (shown.want, shown.kinds, [each for each in shown.choices if each.is_chosen]) == ("", (), [])
    assert buttons(page) == {"name"}
    assert [each.address.partition("#")[0] for each in shown.choices] == [
        *(f"?want={want}" for want in (TABLE, ROWS, AVERAGES, PERCENTILES, OTHER)),
        *(reverse("new_session", args=[dataset.pk]), reverse("new_survey"), f"?want={SAME}"),
    ]
    assert "Synthetic rows" in words(page)


@pytest.mark.parametrize(
    ("want", "part", "pressed"),
    [
        (TABLE, "asks_counts", {"marginals", "prefix", "count", "next"}),
        (ROWS, "asks_rows", {"rows"}),
        (AVERAGES, "asks_statistic", {"ask", "check"}),
        (PERCENTILES, "asks_statistic", {"ask", "check"}),
        (OTHER, "asks_statistic", {"ask", "check"}),
        (SAME, "asks_same", set()),
    ],
)
def test_each_want_shows_the_fields_that_it_needs_and_no_others(show, want, part, pressed):
    page = show(want=want)
    shown = page.context["wants"]
    assert [each for each in PARTS if getattr(shown, each)] == [part]
    assert [each.address for each in shown.choices if each.is_chosen] == [f"?want={want}#kind"]
    assert buttons(page) == pressed | {"name"}


def test_every_kind_of_question_can_be_reached_from_one_want(show):
    reached = []
    for want in (TABLE, AVERAGES, PERCENTILES, OTHER):
        page = show(want=want)
        links = [re.match(r"\?kind=(\w+)#", each.address)[1] for each in page.context["wants"].kinds]
        reached += links or [page.context["kind"]]
        for kind in links:
            assert show(kind=kind).context["wants"].want == want
    assert sorted(reached) == sorted([Workload.kind, *offered_statistics()])


@pytest.mark.parametrize("want", ["", "nonsense", "TABLE", "everything"])
def test_what_is_not_offered_is_the_first_choice_again(show, want):
    page = show(want=want)
    assert page.status_code == 200
    assert page.context["wants"].want == ""


def test_what_a_draft_asks_says_what_is_wanted(show, send):
    send(TABLE, action="prefix", prefix="age")
    assert show().context["wants"].want == TABLE
    send(AVERAGES, action="ask", kind="mean", columns=["age"])
    assert show().context["wants"].want == AVERAGES
    assert show(want=AVERAGES).context["kind"] == "mean"
    send(TABLE, action="clear")
    assert show().context["wants"].want == ""


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


def test_a_statistic_leads_on_too(send, blank):
    response = send(AVERAGES, action="ask", kind="sum", columns=["age"])
    assert response.url == reverse("compare", args=[blank.pk])


def test_one_column_with_tables_of_two_says_what_to_change_by_its_field_and_value(send, blank):
    response = send(TABLE, action="marginals", order="2", columns=["sex"])
    assert response.status_code == 400
    problem = response.context["problem"]
    assert problem.startswith("columns: 'sex' is too few")
    assert "tables of one column" in problem
    assert "from 1 to 1" not in words(response)
    assert [field.name for field, is_chosen in response.context["ticked"] if is_chosen] == ["sex"]
