"""Building a workload: by form, one question at a time, or as JSON."""

import json
import re

import pytest
from django.urls import reverse

from releases import services
from releases.engine.workload.queries import Workload
from releases.questions.base import offered_statistics
from tests.web.conftest import COLUMNS, CSV, WORKLOAD, give
from tests.web.pages import body, link, visible_text, words
from tests.web.releases.conftest import queries
from tests.web.steps import refuses


@pytest.fixture
def ask(blank, as_, alice):
    """Send the page, as the link leads to it that says what is wanted."""
    return lambda want="table", **data: as_(alice).post(f"{link('questions', blank)}?want={want}", data)


@pytest.fixture
def show(blank, as_, alice):
    return lambda **given: as_(alice).get(link("questions", blank), given)


def test_every_kind_of_question_can_be_reached_from_one_want(show):
    reached = []
    for want in ("table", "averages", "percentiles", "line", "other"):
        page = show(want=want)
        links = [re.match(r"\?kind=(\w+)#", each.address)[1] for each in page.context["wants"].kinds]
        reached += links or [page.context["kind"]]
        for kind in links:
            assert show(kind=kind).context["wants"].want == want
        # What the choice names first is what it opens on.
        assert want != "averages" or page.context["kind"] == "mean"
    assert sorted(reached) == sorted([Workload.kind, *offered_statistics()])


def test_what_is_asked_together_is_among_what_can_be_wanted(show, blank):
    choices = {each.title: each.address for each in show().context["wants"].choices}
    together = reverse("new_collection", args=[blank.dataset_id])
    assert choices["Everything at a glance"] == f"{together}#glance"
    assert choices["Several of these at once"] == together
    # Once something is chosen, the rest is folded.
    assert "Under one budget" in visible_text(show())
    assert "Under one budget" not in visible_text(show(want="table"))
    assert "Something else than “A table of counts”" in visible_text(show(want="table"))


@pytest.mark.parametrize("columns", [[], ["sex"]])
def test_synthetic_rows_ask_every_two_of_the_columns_and_lead_on(ask, blank, columns):
    ask(action="prefix", prefix="age")
    assert ask("rows", action="rows", columns=columns).url == f"{link('compare', blank)}?want=rows"
    assert queries(blank) == [{"marginal": columns or ["age", "sex"]}]


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        ({"action": "marginals", "order": "2"}, {"columns": ["nothing"]}),
        ({"action": "prefix", "prefix": "age"}, {"prefix": "nothing"}),
        ({"action": "count", "in.sex": ["male"]}, {"in.sex": ["nothing"]}),
    ],
)
def test_after_adding_the_focus_is_where_it_was_added_or_at_what_is_wrong(ask, blank, as_, alice, sent, wrong):
    _, _, place = ask(**sent).url.partition("#")
    assert place == f"add-{sent['action']}"
    page = body(as_(alice).get(link("questions", blank)))
    assert f'<h2 id="{place}" tabindex="-1">' in page
    assert "autofocus" not in page
    # A fragment in the address would win over the focus at the alert.
    form = page.partition(f'id="{place}"')[2].partition("<form")[2].partition(">")[0]
    assert f'action="{link("questions", blank)}"' in form
    assert '<div role="alert" tabindex="-1" autofocus>' in body(ask(**sent | wrong))


def test_after_adding_a_count_to_a_statistic_the_focus_is_at_its_counts(ask, show):
    first, button = body(show(kind="threshold")), r'value="add-count" formaction="\?kind=threshold"'
    assert re.search(button, first)
    assert "autofocus" not in first
    page = body(ask(action="add-count", kind="threshold", **{"in.sex": ["male"]}))
    assert '<legend tabindex="-1" autofocus>The counts' in page
    assert page.count("autofocus") == 1


@pytest.mark.parametrize(
    ("sent", "asked"),
    [
        ([{"action": "marginals", "order": "2"}], [{"marginal": ["age", "sex"]}]),
        (
            [{"action": "marginals", "order": "1", "columns": ["sex"], "importance": "3"}],
            [{"marginal": ["sex"], "weight": 3}],
        ),
        ([{"action": "prefix", "prefix": "age", "importance": " 12 "}], [{"prefix": "age", "weight": 12}]),
        (
            [{"action": "count", "in.sex": ["male"], "from.age": "25", "importance": "1000"}],
            [{"count": {"age": {"from": 25, "to": 65}, "sex": ["male"]}, "weight": 1000}],
        ),
        # A range of whole numbers may end with the last number of a bin; the last bin holds its edge.
        ([{"action": "count", "from.age": "25", "to.age": "34"}], [{"count": {"age": {"from": 25, "to": 35}}}]),
        ([{"action": "count", "from.age": "25", "to.age": "65"}], [{"count": {"age": {"from": 25, "to": 65}}}]),
        (
            [{"workload": json.dumps(WORKLOAD)}],
            [{"marginal": ["age"]}, {"marginal": ["sex"]}, {"marginal": ["age", "sex"]}],
        ),
        ([{"action": "marginals", "order": "1"}, {"action": "remove-0"}], [{"marginal": ["sex"]}]),
        ([{"action": "marginals", "order": "1"}, {"action": "clear"}], None),
    ],
)
def test_what_is_asked_is_stored_and_what_is_removed_is_gone(ask, blank, sent, asked):
    for each in sent:
        assert ask(**each).status_code == 302
    assert queries(blank) == asked


@pytest.mark.parametrize("last", ["clear", "remove-0"])
def test_after_the_last_question_is_removed_the_focus_goes_to_a_place_that_is_there(ask, blank, as_, alice, last):
    ask(action="prefix", prefix="age")
    answer = ask(action=last)
    address, place = answer.url.split("#")
    assert queries(blank) is None
    assert re.search(rf'<\w+ id="{place}" tabindex="-1"', body(as_(alice).get(address)))


def test_running_totals_of_categories_are_asked_only_where_their_order_is_confirmed(ask, blank):
    assert ask(action="prefix", prefix="sex").status_code == 400
    assert queries(blank) is None
    ask(action="prefix", prefix="sex", in_order="1")
    assert queries(blank) == [{"prefix": "sex"}]


IMPORTANCE = "must be a whole number from 1 to 1,000"
BROKEN = [
    ({"action": "marginals", "order": "2", "columns": "age"}, "columns: 'age' is too few"),
    ({"action": "marginals", "order": "²"}, "Question 1, tables: '²' must be a whole number"),
    ({"action": "count"}, "count: 'no condition' must restrict at least one column"),
    ({"action": "count", "from.age": "25", "to.age": "64"}, "Question 1, count, age, to: '64' must be a declared edge"),
    ({"action": "explode"}, "action: 'explode' is not known"),
    ({"action": "marginals", "order": "1", "importance": "1001"}, f"importance: 1001 {IMPORTANCE}"),
    ({"action": "prefix", "prefix": "age", "importance": "1e2"}, f"importance: '1e2' {IMPORTANCE}"),
    ({"workload": '{"version": 3, "queries": [{"marginals": 1}]}'}, "Version of the questions: 3 must be 1"),
    ({"workload": "{"}, "The workload is not JSON: Expecting property name enclosed in double quotes at line 1"),
    ({"workload": "7"}, "The workload must be a JSON object, in braces."),
]


def test_a_broken_rule_is_named_and_nothing_typed_is_lost(ask, blank):
    refuses(ask, BROKEN, **dict.fromkeys(("from.age", "to.age", "workload")))


def test_a_submitted_release_s_steps_lead_to_its_page(queued, as_, alice):
    for name in ("questions", "compare", "confirm"):
        for response in (as_(alice).get(link(name, queued)), as_(alice).post(link(name, queued), {"action": "clear"})):
            assert response.url == link("release_detail", queued)
    assert queries(queued)


def test_questions_of_a_stranger_s_draft_are_neither_offered_nor_taken(draft, charlie, as_, upload_file):
    give(charlie, "curator")
    own = services.datasets.ingest_dataset(owner=charlie, title="Own", source=upload_file(CSV + b"one more,30,male\n"))
    services.datasets.declare_universe(dataset=own, columns=COLUMNS)
    url = f"{link('questions', services.releases.draft_release(dataset=own, by=charlie))}?want=same"
    page = as_(charlie).get(url)
    assert page.context["saved"] == []
    assert draft.title not in words(page)
    assert as_(charlie).post(url, {"action": "take", "like": str(draft.pk)}).status_code == 404
