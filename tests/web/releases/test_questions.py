"""Building a workload: by form, one question at a time, or as JSON."""

from __future__ import annotations

import json
import re

import pytest
from django.urls import reverse

from releases import services
from releases.models import Release
from tests.web.conftest import COLUMNS, CSV, WORKLOAD, give
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def blank(dataset, alice):
    return services.releases.draft_release(dataset=dataset, by=alice)


def address(release, want=""):
    """The page of a draft's questions, as the link leads to it that says what is wanted."""
    page = reverse("questions", args=[release.pk])
    return f"{page}?want={want}" if want else page


@pytest.fixture
def ask(blank, as_, alice):
    def post(want="table", **data):
        return as_(alice).post(address(blank, want), data)

    return post


@pytest.fixture
def show(blank, as_, alice):
    return lambda want="table": as_(alice).get(address(blank, want))


def queries(blank):
    workload = Release.objects.get(pk=blank.pk).workload
    return workload and workload["queries"]


def test_a_draft_begins_on_a_dataset_s_page(dataset, as_, alice):
    response = as_(alice).post(reverse("new_release", args=[dataset.pk]))
    release = Release.objects.get()
    assert response.url == reverse("questions", args=[release.pk])
    assert (release.state, release.workload) == ("draft", None)


def test_a_draft_needs_a_declared_dataset(alice, upload_file, as_):
    dataset = services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file())
    response = as_(alice).post(reverse("new_release", args=[dataset.pk]))
    assert response.url == reverse("columns", args=[dataset.pk])
    assert not Release.objects.exists()
    page = as_(alice).get(reverse("dataset_detail", args=[dataset.pk]))
    assert "disabled" in body(page)
    assert "Declare the columns and the protection first." in words(page)


def test_before_any_question_the_way_on_is_barred_and_says_why(show, ask):
    assert "Add at least one question first." in words(show())
    response = ask(action="next")
    assert response.status_code == 400
    assert "Add at least one question before you compare mechanisms." in words(response)


def test_tables_of_all_columns_can_be_asked_for(ask, blank, show):
    assert ask(action="marginals", order="1").status_code == 302
    ask(action="marginals", order="2")
    assert queries(blank) == [{"marginal": ["age"]}, {"marginal": ["sex"]}, {"marginal": ["age", "sex"]}]
    assert "2 tables of counts over 1 column, 1 table of counts over 2 columns; 17 answers" in words(show())


def test_tables_of_chosen_columns_can_be_asked_for(ask, blank):
    ask(action="marginals", order="1", columns=["sex"])
    assert queries(blank) == [{"marginal": ["sex"]}]


def test_running_totals_can_be_asked_for(ask, blank):
    ask(action="prefix", prefix="age")
    assert queries(blank) == [{"prefix": "age"}]


def test_running_totals_are_offered_of_numbers_and_categories_only_where_their_order_is_confirmed(
    ask, blank, as_, alice
):
    page = body(as_(alice).get(address(blank, "table")))
    first, second = re.findall(r'(?s)<select id="prefix[^"]*" name="prefix".*?</select>', page)
    assert re.findall(r"<option[^>]*>([^<]+)<", first) == ["age"]
    assert re.findall(r"<option[^>]*>([^<]+)<", second) == ["choose a column", "sex"]
    assert "selected" not in second
    refused = ask(action="prefix", prefix="sex")
    assert refused.status_code == 400
    assert "has categories; say that they are declared in order" in words(refused)
    assert queries(blank) is None
    ask(action="prefix", prefix="sex", in_order="1")
    assert queries(blank) == [{"prefix": "sex"}]


@pytest.mark.parametrize(("typed", "meant"), [("34", 35), ("35", 35), ("65", 65)])
def test_a_range_of_whole_numbers_may_end_with_the_last_number_of_a_bin(ask, blank, typed, meant):
    ask(**{"action": "count", "from.age": "25", "to.age": typed})
    assert queries(blank) == [{"count": {"age": {"from": 25, "to": meant}}}]


def test_the_last_bin_holds_its_edge_so_one_below_it_stands_for_nothing(ask, blank):
    response = ask(**{"action": "count", "from.age": "25", "to.age": "64"})
    assert "'64' must be a declared edge" in words(response)
    assert queries(blank) is None


def test_a_single_count_can_be_asked_for(ask, blank):
    ask(action="count", **{"from.age": "25", "to.age": "45", "in.sex": ["male"]})
    assert queries(blank) == [{"count": {"age": {"from": 25, "to": 45}, "sex": ["male"]}}]


def test_a_question_can_be_removed_and_so_can_the_last(ask, blank):
    ask(action="marginals", order="1")
    ask(action="remove-0")
    assert queries(blank) == [{"marginal": ["sex"]}]
    ask(action="remove-0")
    assert queries(blank) is None


def test_all_questions_can_be_removed_at_once(ask, blank):
    ask(action="marginals", order="1")
    ask(action="clear")
    assert queries(blank) is None


@pytest.mark.parametrize("action", ["remove-", "remove-x", "remove--1", "remove-99"])
def test_removing_what_is_not_there_removes_nothing(ask, blank, action):
    ask(action="marginals", order="1")
    assert ask(action=action).status_code == 302
    assert len(queries(blank)) == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"action": "marginals", "order": "3"}, "Question 1, tables: 3 must be a whole number from 1 to 2"),
        (
            {"action": "marginals", "order": "2", "columns": "age"},
            "columns: 'age' is too few: a table of 2 columns needs 2 of them or more. Choose more, or tables of one",
        ),
        ({"action": "marginals", "order": ""}, "Question 1, tables: nothing is given; must be a whole number"),
        ({"action": "marginals", "order": "²"}, "Question 1, tables: '²' must be a whole number"),
        ({"action": "marginals", "order": "1", "columns": "wage"}, "Question 1, columns: 'wage' must name a declared"),
        ({"action": "prefix", "prefix": "wage"}, "Question 1, running totals: 'wage' must name a declared column"),
        ({"action": "count"}, "count: 'no condition' must restrict at least one column"),
        (
            {"action": "count", "from.age": "20"},
            "Question 1, count, age, from: '20' must be a declared edge (nearest: 18, 25, 35)",
        ),
        ({"action": "count", "from.age": "1,5"}, "Question 1, count, age, from: '1,5' must be a number"),
        ({"action": "count", "from.age": "45", "to.age": "25"}, "must have from below to"),
        ({"action": "count", "in.sex": "other"}, "Question 1, count, sex: 'other' must be one of female, male"),
        ({"action": "explode"}, "action: 'explode' is not known"),
    ],
)
def test_a_broken_rule_is_named_and_nothing_typed_is_lost(ask, blank, data, message):
    response = ask(**data)
    assert response.status_code == 400
    assert message in words(response)
    for name in ("from.age", "to.age"):
        assert field_value(response, name) == data.get(name, "")
    assert queries(blank) is None


def test_questions_can_be_pasted_as_json(ask, blank):
    assert ask(workload=json.dumps(WORKLOAD)).status_code == 302
    assert len(queries(blank)) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"version": 1, "queries": []}', "Questions: [] must be a list with at least one query"),
        ('{"version": 1}', "Questions: nothing is given; must be a list with at least one query"),
        ('{"version": 3, "queries": [{"marginals": 1}]}', "Version of the questions: 3 must be 1"),
        ('{"version": 1, "queries": [{"mode": "age"}]}', "Question 1: 'mode' must have one of"),
        (
            '{"version": 1, "queries": [{"marginals": 1}, {"prefix": "wage"}]}',
            "Question 2, running totals: 'wage'",
        ),
        ("{", "The workload is not JSON: Expecting property name enclosed in double quotes at line 1, column 2."),
        ("", "workload: nothing was pasted"),
        ("7", "The workload must be a JSON object, in braces."),
    ],
)
def test_broken_json_is_refused_with_the_place_and_nothing_typed_is_lost(ask, blank, text, message):
    response = ask(workload=text)
    assert response.status_code == 400
    assert message in words(response)
    assert field_value(response, "workload") == text
    assert queries(blank) is None


def test_what_was_asked_is_there_the_next_day_and_can_be_copied(ask, show):
    ask(workload=json.dumps(WORKLOAD))
    assert json.loads(field_value(show(), "workload"))["queries"][0] == {"marginal": ["age"]}


def test_the_number_of_tables_and_answers_is_said_before_they_are_asked_for(show):
    assert "2 columns: 1 table, 10 answers over all columns" in words(show())


def test_beside_a_column_stands_how_many_bins_or_values_it_has(show):
    page = words(show())
    assert "age (5 bins)" in page
    assert "sex (2 values)" in page


def test_questions_that_no_longer_fit_the_columns_are_said_to_and_nothing_breaks(draft, dataset, as_, alice):
    services.datasets.declare_universe(dataset=dataset, columns=COLUMNS[:1])
    page = as_(alice).get(reverse("questions", args=[draft.pk]))
    assert page.status_code == 200
    assert "the questions of this draft no longer fit them" in words(page)
    for name in ("compare", "confirm"):
        response = as_(alice).get(reverse(name, args=[draft.pk]), follow=True)
        assert response.redirect_chain[-1][0] == reverse("questions", args=[draft.pk])
        assert "The columns have changed, and the questions no longer fit them." in words(response)
    assert as_(alice).get(reverse("dataset_detail", args=[dataset.pk])).status_code == 200
    as_(alice).post(reverse("questions", args=[draft.pk]), {"action": "clear"})
    assert "no longer fit" not in words(as_(alice).get(reverse("questions", args=[draft.pk])))


def test_a_submitted_release_s_steps_lead_to_its_page(queued, as_, alice):
    for name in ("questions", "compare", "confirm"):
        url = reverse(name, args=[queued.pk])
        for response in (as_(alice).get(url), as_(alice).post(url, {"action": "clear"})):
            assert response.url == reverse("release_detail", args=[queued.pk])
    queued.refresh_from_db()
    assert queued.workload


def test_another_like_it_asks_the_same(published, dataset, as_, alice):
    response = as_(alice).post(reverse("new_release", args=[dataset.pk]), {"like": str(published.pk)})
    copy = Release.objects.exclude(pk=published.pk).get()
    assert response.url == reverse("questions", args=[copy.pk])
    assert (copy.workload, copy.epsilon, copy.state) == (published.workload, published.epsilon, "draft")


@pytest.mark.parametrize("like", ["nonsense", "00000000-0000-0000-0000-000000000000"])
def test_another_like_one_that_is_not_there_is_a_404(dataset, as_, alice, like):
    assert as_(alice).post(reverse("new_release", args=[dataset.pk]), {"like": like}).status_code == 404
    assert not Release.objects.exists()


def test_a_universe_of_very_many_columns_still_makes_a_light_page(alice, upload_file, as_):
    names = [f"c{position}" for position in range(1500)]
    dataset = services.datasets.ingest_dataset(
        owner=alice, title="Wide", source=upload_file(f"{','.join(names)}\n{','.join('1' * 1500)}\n".encode())
    )
    services.datasets.declare_universe(
        dataset=dataset, columns=[{"name": name, "type": "integer", "edges": [0, 1, 2]} for name in names]
    )
    from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit

    services.datasets.declare_protection(
        dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE
    )
    release = services.releases.draft_release(dataset=dataset, by=alice)
    url = address(release, "table")
    page = as_(alice).get(url)
    assert len(page.content) < 30_000
    assert "561,375,500 tables" in words(page)
    refused = as_(alice).post(url, {"action": "marginals", "order": "2"})
    assert "asks for 1,124,250 marginals; at most 200,000 are answered" in words(refused)
    assert as_(alice).post(url, {"action": "marginals", "order": "2", "typed_columns": "c1, c2\nc3"}).status_code == 302
    assert len(queries(release)) == 3
    as_(alice).post(url, {"action": "marginals", "order": "1"})
    page = as_(alice).get(url)
    assert len(page.content) < 172_000
    assert "and 1,350 more" in words(page)
    assert "\n    {&quot;marginal&quot;: [&quot;c1499&quot;]}\n" in page.content.decode()


# --- names, and questions asked before --------------------------------------------------------------------------------


def test_a_draft_gets_its_name_where_its_questions_are_asked(ask, blank, show):
    assert ask(action="name", title="Ages of the north").status_code == 302
    assert Release.objects.get(pk=blank.pk).title == "Ages of the north"
    assert field_value(show(), "title") == "Ages of the north"


def test_a_name_of_nothing_is_refused_and_the_old_one_stays(ask, blank):
    response = ask(action="name", title="  ")
    assert response.status_code == 400
    assert "nothing is given; must say what the release holds" in words(response)
    assert Release.objects.get(pk=blank.pk).title == blank.title


def test_what_was_asked_under_a_name_is_asked_again_in_another_draft(ask, blank, show, draft):
    services.releases.name_release(release=draft, title="All pairs")
    assert "All pairs" in words(show("same"))
    ask(action="take", like=str(draft.pk))
    assert queries(blank) == draft.workload["queries"]


def test_questions_that_do_not_fit_these_columns_are_not_taken(ask, blank, alice, make_dataset):
    other = make_dataset(content=CSV.replace(b"person", b"rain"))
    rain = {"name": "rain", "type": "categorical", "categories": ["wet", "dry"]}
    services.datasets.declare_universe(dataset=other, columns=[*COLUMNS, rain])
    wet = services.releases.draft_release(dataset=other, by=alice, title="Wet")
    services.releases.set_questions(release=wet, workload={"version": 1, "queries": [{"marginal": ["rain"]}]})
    response = ask("same", action="take", like=str(wet.pk))
    assert response.status_code == 400
    assert "'rain'" in words(response)
    assert queries(blank) is None


def test_questions_of_a_stranger_s_draft_are_neither_offered_nor_taken(draft, charlie, make_dataset, as_, upload_file):
    give(charlie, "curator")
    own = services.datasets.ingest_dataset(owner=charlie, title="Own", source=upload_file(CSV + b"one more,30,male\n"))
    services.datasets.declare_universe(dataset=own, columns=COLUMNS)
    mine = services.releases.draft_release(dataset=own, by=charlie)
    url = address(mine, "same")
    page = as_(charlie).get(url)
    assert page.context["saved"] == []
    assert draft.title not in words(page)
    assert as_(charlie).post(url, {"action": "take", "like": str(draft.pk)}).status_code == 404
