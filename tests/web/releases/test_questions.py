"""Building a workload: by form, one question at a time, or as JSON."""

from __future__ import annotations

import json
import re

import pytest

from releases import services
from releases.engine.workload.queries import Workload
from releases.models import Release
from releases.questions.base import offered_statistics
from tests.web.conftest import COLUMNS, CSV, WORKLOAD, give
from tests.web.pages import body, field_value, link, words
from tests.web.releases.conftest import queries

pytestmark = pytest.mark.django_db


@pytest.fixture
def ask(blank, as_, alice):
    """Send the page, as the link leads to it that says what is wanted."""
    return lambda want="table", **data: as_(alice).post(f"{link('questions', blank)}?want={want}", data)


@pytest.fixture
def show(blank, as_, alice):
    return lambda **given: as_(alice).get(link("questions", blank), given)


def test_a_draft_needs_a_declared_dataset(alice, upload_file, as_):
    dataset = services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file())
    assert as_(alice).post(link("new_release", dataset)).url == link("columns", dataset)
    assert not Release.objects.exists()


def test_before_any_question_the_way_on_is_barred(ask):
    assert ask(action="next").status_code == 400


# What is wanted


def test_every_kind_of_question_can_be_reached_from_one_want(show):
    reached = []
    for want in ("table", "averages", "percentiles", "other"):
        page = show(want=want)
        links = [re.match(r"\?kind=(\w+)#", each.address)[1] for each in page.context["wants"].kinds]
        reached += links or [page.context["kind"]]
        for kind in links:
            assert show(kind=kind).context["wants"].want == want
    assert sorted(reached) == sorted([Workload.kind, *offered_statistics()])


@pytest.mark.parametrize("columns", [[], ["age", "sex"], ["sex"]])
def test_synthetic_rows_ask_every_two_of_the_columns_and_lead_on(ask, blank, columns):
    ask(action="prefix", prefix="age")
    assert ask("rows", action="rows", columns=columns).url == f"{link('compare', blank)}?want=rows"
    assert queries(blank) == [{"marginal": columns or ["age", "sex"]}]


def test_synthetic_rows_of_a_column_that_is_not_declared_are_refused_and_what_was_ticked_stays(ask, blank):
    response = ask("rows", action="rows", columns=["wage", "sex"])
    assert response.status_code == 400
    assert "Question 1, columns: 'wage' must name a declared column" in words(response)
    assert [field.name for field, is_chosen in response.context["ticked"] if is_chosen] == ["sex"]
    assert response.context["wants"].asks_rows
    assert queries(blank) is None


# What is asked


@pytest.mark.parametrize(
    ("sent", "asked"),
    [
        ([{"action": "marginals", "order": "1"}], [{"marginal": ["age"]}, {"marginal": ["sex"]}]),
        ([{"action": "marginals", "order": "2"}], [{"marginal": ["age", "sex"]}]),
        ([{"action": "marginals", "order": "1", "columns": ["sex"]}], [{"marginal": ["sex"]}]),
        ([{"action": "prefix", "prefix": "age"}], [{"prefix": "age"}]),
        (
            [{"action": "count", "in.sex": ["male"], "from.age": "25"}],
            [{"count": {"age": {"from": 25, "to": 65}, "sex": ["male"]}}],
        ),
        (
            [{"workload": json.dumps(WORKLOAD)}],
            [{"marginal": ["age"]}, {"marginal": ["sex"]}, {"marginal": ["age", "sex"]}],
        ),
        ([{"action": "marginals", "order": "1"}, {"action": "remove-0"}], [{"marginal": ["sex"]}]),
        ([{"action": "marginals", "order": "1"}, {"action": "remove-0"}, {"action": "remove-0"}], None),
        ([{"action": "marginals", "order": "1"}, {"action": "clear"}], None),
    ],
)
def test_what_is_asked_is_stored_and_what_is_removed_is_gone(ask, blank, sent, asked):
    for each in sent:
        assert ask(**each).status_code == 302
    assert queries(blank) == asked


def test_running_totals_of_categories_are_asked_only_where_their_order_is_confirmed(ask, blank, show):
    first, second = re.findall(r'(?s)<select id="prefix[^"]*" name="prefix".*?</select>', body(show(want="table")))
    assert re.findall(r"<option[^>]*>([^<]+)<", first) == ["age"]
    assert re.findall(r"<option[^>]*>([^<]+)<", second) == ["choose a column", "sex"]
    assert "selected" not in second
    assert ask(action="prefix", prefix="sex").status_code == 400
    assert queries(blank) is None
    ask(action="prefix", prefix="sex", in_order="1")
    assert queries(blank) == [{"prefix": "sex"}]


@pytest.mark.parametrize(("typed", "meant"), [("34", 35), ("35", 35), ("65", 65), ("64", None)])
def test_a_range_of_whole_numbers_may_end_with_the_last_number_of_a_bin_but_the_last_holds_its_edge(
    ask, blank, typed, meant
):
    response = ask(**{"action": "count", "from.age": "25", "to.age": typed})
    assert response.status_code == (302 if meant else 400)
    assert queries(blank) == ([{"count": {"age": {"from": 25, "to": meant}}}] if meant else None)


BROKEN = [
    (
        {"action": "marginals", "order": "2", "columns": "age"},
        "columns: 'age' is too few: a table of 2 columns needs 2 of them or more. Choose more, or tables of one",
    ),
    ({"action": "marginals", "order": ""}, "Question 1, tables: nothing is given; must be a whole number"),
    ({"action": "marginals", "order": "²"}, "Question 1, tables: '²' must be a whole number"),
    ({"action": "count"}, "count: 'no condition' must restrict at least one column"),
    ({"action": "count", "from.age": "20"}, "Question 1, count, age, from: '20' must be a declared edge"),
    ({"action": "count", "from.age": "1,5"}, "Question 1, count, age, from: '1,5' must be a number"),
    ({"action": "explode"}, "action: 'explode' is not known"),
]


def test_a_broken_rule_is_named_and_nothing_typed_is_lost(ask, blank):
    for data, message in BROKEN:
        response = ask(**data)
        assert response.status_code == 400
        assert message in words(response)
        assert [field_value(response, name) for name in ("from.age", "to.age")] == [data.get("from.age", ""), ""]
        assert queries(blank) is None


def test_broken_json_is_refused_with_the_place_and_nothing_typed_is_lost(ask, blank):
    for text, message in (
        ('{"version": 3, "queries": [{"marginals": 1}]}', "Version of the questions: 3 must be 1"),
        ('{"version": 1, "queries": [{"marginals": 1}, {"prefix": "wage"}]}', "Question 2, running totals: 'wage'"),
        ("{", "The workload is not JSON: Expecting property name enclosed in double quotes at line 1, column 2."),
        ("", "workload: nothing was pasted"),
        ("7", "The workload must be a JSON object, in braces."),
    ):
        response = ask(workload=text)
        assert response.status_code == 400
        assert message in words(response)
        assert field_value(response, "workload") == text
        assert queries(blank) is None


def test_questions_that_no_longer_fit_the_columns_lead_back_to_them_and_nothing_breaks(draft, dataset, as_, alice):
    services.datasets.declare_universe(dataset=dataset, columns=COLUMNS[:1])
    for name in ("compare", "confirm"):
        response = as_(alice).get(link(name, draft), follow=True)
        assert response.redirect_chain[-1][0] == link("questions", draft)
    assert as_(alice).get(link("dataset_detail", dataset)).status_code == 200
    as_(alice).post(link("questions", draft), {"action": "clear"})
    assert queries(draft) is None


def test_a_submitted_release_s_steps_lead_to_its_page(queued, as_, alice):
    for name in ("questions", "compare", "confirm"):
        for response in (as_(alice).get(link(name, queued)), as_(alice).post(link(name, queued), {"action": "clear"})):
            assert response.url == link("release_detail", queued)
    assert queries(queued)


def test_another_like_it_asks_the_same(published, dataset, as_, alice):
    response = as_(alice).post(link("new_release", dataset), {"like": str(published.pk)})
    copy = Release.objects.exclude(pk=published.pk).get()
    assert response.url == link("questions", copy)
    assert (copy.workload, copy.epsilon, copy.state) == (published.workload, published.epsilon, "draft")


@pytest.mark.parametrize("like", ["nonsense", "00000000-0000-0000-0000-000000000000"])
def test_another_like_one_that_is_not_there_is_a_404(dataset, as_, alice, like):
    assert as_(alice).post(link("new_release", dataset), {"like": like}).status_code == 404
    assert not Release.objects.exists()


def test_questions_that_do_not_fit_these_columns_are_not_taken(ask, blank, make_draft, make_declared):
    rain = {"name": "rain", "type": "categorical", "categories": ["wet", "dry"]}
    other = make_declared([*COLUMNS, rain], content=CSV.replace(b"person", b"rain"))
    wet = make_draft(other, {"marginal": ["rain"]}, title="Wet", mechanism="")
    response = ask("same", action="take", like=str(wet.pk))
    assert response.status_code == 400
    assert "'rain'" in words(response)
    assert queries(blank) is None


def test_questions_of_a_stranger_s_draft_are_neither_offered_nor_taken(draft, charlie, as_, upload_file):
    give(charlie, "curator")
    own = services.datasets.ingest_dataset(owner=charlie, title="Own", source=upload_file(CSV + b"one more,30,male\n"))
    services.datasets.declare_universe(dataset=own, columns=COLUMNS)
    url = f"{link('questions', services.releases.draft_release(dataset=own, by=charlie))}?want=same"
    page = as_(charlie).get(url)
    assert page.context["saved"] == []
    assert draft.title not in words(page)
    assert as_(charlie).post(url, {"action": "take", "like": str(draft.pk)}).status_code == 404
