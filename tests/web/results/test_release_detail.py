"""A release's own page: its progress, its answers, and what can be done with it."""

from __future__ import annotations

import json
import re
import uuid
from datetime import timedelta
from itertools import pairwise

import pytest
from django.urls import reverse
from django.utils import timezone

from releases import services
from releases.engine.domain.universe import Schema
from releases.models import Release
from releases.publication import files
from releases.publication.receipt import fuller_bins, rules_in_words
from releases.services.releases import _change_draft
from tests.web.conftest import COLUMNS
from tests.web.pages import body, words

pytestmark = pytest.mark.django_db


def detail(release):
    return reverse("release_detail", args=[release.pk])


@pytest.fixture
def with_synthetic(dataset, make_queued):
    """A published release of a mechanism that makes synthetic rows."""
    release = make_queued(dataset, mechanism="laplace-histogram", epsilon="2")
    assert services.execution.execute_release(release_id=release.pk)
    release.refresh_from_db()
    return release


def test_a_result_says_what_became_of_values_that_were_not_declared(published, as_, alice):
    shown = words(as_(alice).get(detail(published)))
    for rule in rules_in_words(published.dataset.universe):
        assert rule in shown
    confirmed = "How unexpected and missing values are handled"
    assert confirmed in shown


@pytest.mark.parametrize(
    ("mechanism", "options", "said"),
    [
        ("laplace-queries", {"agree": "no"}, "Each count has its own noise, so tables of one release add up to diff"),
        ("laplace-queries", {}, "The counts were made to agree, so tables of one release add up to the same total,"),
        ("laplace-histogram", {}, "tables of one release add up to the same total, except where a count"),
        ("pmw", {}, "tables of one release add up to the same total, except for rounding."),
        ("marginal-fit", {}, "tables of one release add up to the same total, except for rounding."),
    ],
)
def test_what_tables_add_up_to_is_said_of_each_mechanism_as_it_is(
    dataset, make_draft, carry_out, as_, alice, mechanism, options, said
):
    page = words(as_(alice).get(detail(carry_out(make_draft(dataset, mechanism=mechanism, options=options)))))
    assert said in page
    assert page.count("tables of one release") == 1


def test_rules_are_told_for_every_kind_of_column():
    columns = [
        {"name": "sex", "type": "categorical", "categories": ["f", "m"]},
        {"name": "town", "type": "categorical", "categories": ["a", "other"], "outside": "other", "missing_as": "a"},
        {"name": "age", "type": "integer", "edges": [0, 10, 20]},
        {"name": "height", "type": "number", "edges": [0, 1, 2], "outside": "drop", "missing": ["-9", "NA"]},
    ]
    rules = rules_in_words(Schema.from_json({"version": 1, "columns": columns}).universe)
    assert rules[0].startswith("A row whose value of sex is not exactly one of the declared categories is left out")
    assert rules[1].startswith("A row whose height is missing or outside the declared range is left out")
    assert rules[2].startswith("A number of age beyond the declared range counts in the first or the last bin")
    assert rules[3] == "Any other value of town counts as other."
    assert rules[4] == "height: -9, NA mean that a value is missing."
    assert rules[5] == "A row without a value of town counts as a."


def test_beside_the_answers_it_says_which_bins_hold_more_than_their_labels(published, as_, alice):
    said = "age: values below 18 are counted in the first bin (18 to 24), values above 65 in the last (55 to 65)."
    listed = as_(alice).get(detail(published)).context["page"].table.questions
    asked = {each.title: each.number for each in listed}
    by_age = next(number for title, number in asked.items() if "age" in title)
    by_sex = next(number for title, number in asked.items() if "age" not in title)
    assert said in words(as_(alice).get(detail(published), {"question": by_age}))
    assert said not in words(as_(alice).get(detail(published), {"question": by_sex}))
    assert said in published.result["receipt"]["rules_in_words"]


def test_bins_hold_no_more_than_their_labels_where_values_outside_are_dropped():
    columns = [
        {"name": "age", "type": "integer", "edges": [0, 10, 20], "outside": "drop"},
        {"name": "town", "type": "categorical", "categories": ["a", "clamp"], "outside": "clamp"},
    ]
    universe = Schema.from_json({"version": 1, "columns": columns}).universe
    assert fuller_bins(universe.attributes) == []
    assert rules_in_words(universe)[-2] == "Any other value of town counts as clamp."


def test_a_draft_s_page_is_its_questions(draft, as_, alice):
    assert as_(alice).get(detail(draft)).url == reverse("questions", args=[draft.pk])


def test_a_queued_release_shows_its_state_and_asks_again(queued, as_, alice):
    page = as_(alice).get(detail(queued))
    assert "queued The budget is charged and a worker will start it. It can still be cancelled." in words(page)
    assert f'hx-get="{reverse("release_status", args=[queued.pk])}"' in body(page)
    assert '<noscript><meta http-equiv="refresh" content="3"></noscript>' in body(page)
    assert "Cancel and get the charge back" in words(page)


def test_a_running_release_shows_neither_step_nor_share_nor_time_and_cannot_be_cancelled(queued, as_, alice):
    Release.objects.update(
        state="running",
        step="Adding noise",
        share_done=0.25,
        attempts=1,
        started_at=timezone.now() - timedelta(seconds=10),
    )
    page = as_(alice).get(detail(queued))
    assert "In progress" in words(page)
    assert not re.search(r"Adding noise|\d% done|\d s left", words(page))
    assert '<progress id="progress" max="1">' in body(page)
    assert "Cancel" not in words(page)


def test_the_status_fragment_ends_itself(queued, as_, alice):
    url = reverse("release_status", args=[queued.pk])
    running = as_(alice).get(url)
    assert "hx-get" in body(running)
    assert "<html" not in body(running)
    assert "HX-Refresh" not in running
    services.execution.execute_release(release_id=queued.pk)
    done = as_(alice).get(url)
    assert "hx-get" not in body(done)
    assert done["HX-Refresh"] == "true"


def test_a_failed_release_says_what_became_of_the_charge_and_can_be_planned_again(queued, as_, alice):
    Release.objects.update(state="failed")
    page = as_(alice).get(detail(queued))
    assert "Every attempt failed, or a restored backup had lost it. The data may have been touched" in words(page)
    assert f'name="like" value="{queued.pk}"' in body(page)


def test_a_result_shows_the_bound_the_cost_and_every_answer(published, as_, alice):
    page = words(as_(alice).get(detail(published)))
    receipt = published.result["receipt"]
    assert receipt["bound"]["sentence"] in page
    assert "This bound is proved before the release." in page
    assert "Privacy spent epsilon 1" in page
    assert "Answers 17" in page
    assert "18 to 24" in page


def test_each_question_has_its_own_address(published, as_, alice):
    pages = [words(as_(alice).get(detail(published), {"question": number})) for number in ("0", "1", "2")]
    shown = [page.split("Released count")[1].split("Quality")[0] for page in pages]
    assert "female" not in shown[0]
    assert "18 to 24" not in shown[1]
    assert re.search(r"18 to 24 female", shown[2])


@pytest.mark.parametrize("question", ["99", "-1", "x", "²", "1" * 400])
@pytest.mark.parametrize("page", ["0", "-3", "99", "x", "9" * 400])
def test_an_address_of_nothing_shows_the_first(published, as_, alice, question, page):
    response = as_(alice).get(detail(published), {"question": question, "page": page})
    assert response.status_code == 200
    assert "18 to 24" in words(response)


def test_the_numbers_shown_are_those_of_the_download(published, as_, alice):
    table = files.read_answers(files.folder_of(published)).to_pylist()
    page = body(as_(alice).get(detail(published), {"question": "2"}))
    chart = json.loads(re.search(r'<script id="answers-data" type="application/json">(.*?)</script>', page)[1])
    drawn = [(row["estimate"], row["lower"], row["upper"]) for row in chart["data"]["values"]]
    assert drawn == [(row["estimate"], row["lower"], row["upper"]) for row in table if row["query"] == "age × sex"]


def test_synthetic_counts_stand_beside_the_measured_ones_and_are_those_of_the_file(with_synthetic, as_, alice):
    page = body(as_(alice).get(detail(with_synthetic), {"question": "1"}))
    assert "Synthetic" in page
    chart = json.loads(re.search(r'<script id="answers-data" type="application/json">(.*?)</script>', page)[1])
    shown = {row["label"]: row["synthetic"] for row in chart["data"]["values"]}
    rows = (files.folder_of(with_synthetic) / "synthetic.csv").read_text().splitlines()[1:]
    counted = {sex: sum(row.split(",")[1].strip('"') == sex for row in rows) for sex in ("female", "male")}
    total = with_synthetic.result["receipt"]["total"]["estimate"]
    assert shown == pytest.approx({sex: count * total / len(rows) for sex, count in counted.items()})


def test_synthetic_numbers_are_counted_in_their_bins(with_synthetic, as_, alice):
    page = body(as_(alice).get(detail(with_synthetic), {"question": "0"}))
    chart = json.loads(re.search(r'<script id="answers-data" type="application/json">(.*?)</script>', page)[1])
    rows = (files.folder_of(with_synthetic) / "synthetic.csv").read_text().splitlines()[1:]
    ages = [int(row.split(",")[0]) for row in rows]
    edges = COLUMNS[0]["edges"]
    counted = [
        sum(low <= age < high or (high == edges[-1] and age == high) for age in ages) for low, high in pairwise(edges)
    ]
    total = with_synthetic.result["receipt"]["total"]["estimate"]
    assert [row["synthetic"] for row in chart["data"]["values"]] == pytest.approx(
        [count * total / len(rows) for count in counted]
    )


def test_a_question_of_many_answers_is_shown_a_page_at_a_time(alice, sofia, group, upload_file, as_):
    from releases.engine.accounting.filters import Policy
    from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit

    dataset = services.datasets.ingest_dataset(owner=alice, title="Ages", source=upload_file(b"n\n" + b"5\n7\n" * 50))
    services.datasets.declare_universe(
        dataset=dataset, columns=[{"name": "n", "type": "integer", "edges": list(range(151))}]
    )
    services.datasets.declare_protection(
        dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE
    )
    asked = services.budgets.request_budget(
        dataset=dataset, epsilon="2", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
    )
    services.budgets.approve_request(request=asked, by=sofia)
    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(
        release=release, workload={"version": 1, "queries": [{"prefix": "n"}, {"marginals": 1}]}
    )
    services.releases.set_choice(release=release, epsilon="1", mechanism_name="laplace-queries")
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=release.pk)
    table = files.read_answers(files.folder_of(Release.objects.get())).to_pylist()
    seen = []
    for page in ("1", "2", "3"):
        response = as_(alice).get(detail(release), {"question": "1", "page": page})
        rows = re.search(r'<script id="answers-data" type="application/json">(.*?)</script>', body(response))[1]
        seen += [row["estimate"] for row in json.loads(rows)["data"]["values"]]
    assert seen == [row["estimate"] for row in table if row["query"] == "n"]
    assert "Answers 121 to 150 of 150" in words(response)


def test_a_single_statistic_is_shown_in_its_own_words(dataset, alice, as_):
    """Whatever mechanisms for other statistics there are: the page tells a choice from a measured number."""
    from releases.engine.mechanisms.base import mechanisms
    from releases.engine.workload.parsing import read_question

    for query in ({"median": "age"}, {"most_common": "sex"}, {"sum": "age"}, {"mean": "age"}):
        workload = {"version": 1, "queries": [query]}
        question = read_question(workload, dataset.universe)
        for name, each in mechanisms().items():
            if not each.can_answer(question):
                continue
            release = services.releases.draft_release(dataset=dataset, by=alice)
            services.releases.set_questions(release=release, workload=workload)
            services.releases.set_choice(release=release, epsilon="0.02", mechanism_name=name)
            if services.releases.plan_of(release=release).infeasible:
                continue
            for page in ("questions", "compare", "confirm"):
                assert as_(alice).get(reverse(page, args=[release.pk])).status_code == 200
            services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
            assert services.execution.execute_release(release_id=release.pk)
            page = as_(alice).get(detail(release))
            release.refresh_from_db()
            assert release.result["receipt"]["bound"]["sentence"] in words(page)
            assert '<dl class="answer">' in body(page)


def test_a_release_that_was_submitted_cannot_be_changed_through_the_services(queued):
    with pytest.raises(services.release_inputs.Refusal):
        _change_draft(queued, epsilon="9")


def test_a_heat_map_is_described_in_words_that_are_true_in_light_and_in_dark(published, as_, alice):
    page = body(as_(alice).get(detail(published), {"question": "2"}))
    assert "the stronger the colour, the more rows" in page
    assert "darker" not in page


def test_the_part_that_is_fetched_again_says_what_can_still_be_done(queued, as_, alice, charlie):
    """The sentence and the button come together, so neither can outlive the other."""
    url = reverse("release_status", args=[queued.pk])
    page = as_(alice).get(detail(queued))
    assert "It can still be cancelled." in words(page)
    assert "Cancel and get the charge back" in words(page)
    part = as_(alice).get(url, headers={"HX-Request": "true"})
    assert 'id="what-to-do"' not in body(part), "a press on the button that still holds is not lost"
    Release.objects.update(state="running", attempts=1, share_done=0.5, started_at=timezone.now())
    part = as_(alice).get(url, headers={"HX-Request": "true"})
    assert "The charge can no longer be given back." in words(part)
    assert '<div id="what-to-do" hx-swap-oob="true">' in body(part)
    assert "Cancel" not in words(part)
    assert "In progress" in words(part)
    Release.objects.update(state="queued")
    part = as_(alice).get(url, headers={"HX-Request": "true"})
    assert "The charge can no longer be given back." in words(part), "a worker began it and was lost"
    assert "It can still be cancelled." not in words(part)
    Release.objects.update(state="failed")
    assert "Plan another like it" in words(as_(alice).get(url, headers={"HX-Request": "true"}))
    assert as_(charlie).get(url).status_code == 404


def test_every_page_that_follows_something_tries_again_where_there_is_no_answer(settings):
    templates = {path.name: path.read_text() for path in settings.TEMPLATES[0]["DIRS"][0].rglob("*.html")}
    assert [name for name, text in templates.items() if "load delay" in text] == ["_refresh_attributes.html"]
    following = [text for text in templates.values() if "shared/_refresh_attributes.html" in text]
    assert len(following) == 3
    assert all("shared/_unanswered.html" in text and 'class="as-it-was"' in text for text in following)
