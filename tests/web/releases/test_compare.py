"""Comparing mechanisms before anything is spent."""

from __future__ import annotations

import json
import re
import uuid

import pytest
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import PUBLIC_ALREADY, mechanisms
from releases.models import Budget, LedgerEntry, Release, ReleaseState
from releases.planning import comparison
from tests.web.conftest import COLUMNS, WORKLOAD
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked_draft(dataset, alice):
    """A draft with questions and nothing chosen yet."""
    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=release, workload=WORKLOAD)
    return release


@pytest.fixture
def send(asked_draft, as_, alice):
    def post(**data):
        given = {"epsilon": "1", "delta": "0", "beta": "0.05"} | data
        return as_(alice).post(reverse("compare", args=[asked_draft.pk]), given)

    return post


@pytest.fixture
def show(asked_draft, as_, alice):
    return lambda **data: as_(alice).get(reverse("compare", args=[asked_draft.pk]), data)


def stored(draft):
    return Release.objects.get(pk=draft.pk)


def answering_counts(asked_draft):
    workload = services.releases.set_questions(release=asked_draft, workload=WORKLOAD)
    return [each for each in mechanisms().values() if each.can_answer(workload)]


def row_of(page, title):
    """The part of the comparison that is about one mechanism."""
    parts = re.split('<tbody|<section class="panel recommended', body(page))
    return next(part for part in parts if f'value="{title}"' in part)


def test_every_mechanism_for_counts_is_there_with_bound_cost_time_and_memory_or_why_not(show, asked_draft):
    page = show()
    for each in answering_counts(asked_draft):
        row = row_of(page, each.name)
        assert each.title in row
        assert "Cannot be run." in row or re.search(r"(±|is within)\s[\d,]+ rows|known with the release", row)
        assert each.source.split(",")[0] in row.replace("&#x27;", "'").replace("&amp;", "&")
    assert body(page).count('name="mechanism"') == len(answering_counts(asked_draft))


def test_looking_at_it_stores_and_spends_nothing(show, asked_draft):
    before = Release.objects.filter(pk=asked_draft.pk).values().get()
    entries = LedgerEntry.objects.count()
    show()
    show(error="50")
    assert Release.objects.filter(pk=asked_draft.pk).values().get() == before
    assert LedgerEntry.objects.count() == entries


def test_questions_come_first(dataset, alice, as_):
    release = services.releases.draft_release(dataset=dataset, by=alice)
    response = as_(alice).get(reverse("compare", args=[release.pk]), follow=True)
    assert response.redirect_chain[-1][0] == reverse("questions", args=[release.pk])
    assert "Say first what the release should answer." in words(response)


def test_another_epsilon_is_compared_and_remembered(send, show, asked_draft):
    response = send(epsilon="0.5", beta="0.01")
    assert response.url == reverse("compare", args=[asked_draft.pk])
    assert (stored(asked_draft).epsilon, stored(asked_draft).beta, stored(asked_draft).mechanism) == ("0.5", "0.01", "")
    page = show()
    assert field_value(page, "epsilon") == "0.5"
    assert "With probability 99%" in words(page)


def test_a_mechanism_is_chosen_in_its_row(send, asked_draft):
    response = send(mechanism="laplace-histogram")
    assert response.url == reverse("confirm", args=[asked_draft.pk])
    assert stored(asked_draft).mechanism == "laplace-histogram"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"epsilon": "0"}, "epsilon: '0' must be above 0 and at most 100"),
        ({"epsilon": "-1"}, "epsilon: '-1' must be above 0 and at most 100"),
        ({"epsilon": "101"}, "epsilon: '101' must be above 0 and at most 100"),
        ({"epsilon": "nan"}, "epsilon: 'nan' must be a finite decimal number, such as 0.5"),
        ({"epsilon": "1,5"}, "epsilon: '1,5' must be a decimal number with a point, such as 0.5"),
        ({"epsilon": ""}, "epsilon: nothing was typed; must be a decimal number above 0, such as 1"),
        ({"delta": "1"}, "delta: '1' must be above 0 and below 1"),
        ({"delta": "-0.1"}, "delta: '-0.1' must be above 0 and below 1"),
        ({"delta": "small"}, "delta: 'small' must be a decimal number"),
        ({"beta": "0.2"}, "Select a valid choice."),
        ({"mechanism": "magic"}, "mechanism: 'magic' must be one of"),
        ({"laplace-histogram.rows": "1.5"}, "Option rows: '1.5' must be a whole number from 1 to"),
        ({"laplace-histogram.rows": "0"}, "Option rows: 0 must be a whole number from 1 to"),
    ],
)
def test_a_broken_rule_is_named_beside_the_field_and_nothing_typed_is_lost(send, asked_draft, data, message):
    response = send(**({"laplace-histogram.rows": "77"} | data))
    assert response.status_code == 400
    assert message in words(response)
    for name in ("epsilon", "delta"):
        assert field_value(response, name) == data.get(name, "1" if name == "epsilon" else "0")
    assert field_value(response, "laplace-histogram.rows") == data.get("laplace-histogram.rows", "77")
    assert "The comparison below is still the one for epsilon 1." in words(response)
    assert stored(asked_draft).epsilon == ""


def test_options_are_kept_as_typed_for_every_mechanism_compared(send, show, asked_draft):
    typed = {"laplace-histogram.rows": "77"}
    send(**typed)
    page = show()
    assert field_value(page, "laplace-histogram.rows") == "77"
    assert field_value(page, "laplace-queries.rows") in ("", None)
    send(mechanism="laplace-queries", **typed)
    assert field_value(show(), "laplace-histogram.rows") == "77"
    send(mechanism="laplace-histogram", **typed)
    assert services.releases.plan_of(release=stored(asked_draft)).options["rows"] == 77


def test_what_does_not_fit_the_budget_cannot_be_chosen_and_says_why(send, show):
    send(epsilon="2.5")
    page = show()
    row = row_of(page, "laplace-queries")
    assert "disabled" in row
    assert "It does not fit: it costs epsilon 2.5, and epsilon 2 is left of the dataset&#x27;s budget." in row


def test_before_a_grant_it_can_be_compared_and_not_chosen(make_dataset, alice, as_):
    dataset = make_dataset(epsilon="")
    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=release, workload=WORKLOAD)
    page = as_(alice).get(reverse("compare", args=[release.pk]))
    row = row_of(page, "laplace-queries")
    assert "±" in row
    assert "disabled" in row
    assert "No budget has been granted yet." in row


def test_a_frozen_budget_says_so(show, dataset):
    services.budgets.freeze_budget(budget=dataset.budget)
    assert "A reviewer has frozen this budget." in row_of(show(), "laplace-queries")


def test_gaussian_noise_is_offered_from_the_start_where_the_budget_has_a_delta(show, make_dataset, alice, as_):
    assert field_value(show(), "delta") == "0.000000001"
    pure = make_dataset(policy=Policy.PURE, delta="0", content=b"person,age,sex\np1,30,male\n")
    release = services.releases.draft_release(dataset=pure, by=alice)
    services.releases.set_questions(release=release, workload=WORKLOAD)
    assert field_value(as_(alice).get(reverse("compare", args=[release.pk])), "delta") == "0"


def huge(alice, upload_file):
    """Twelve columns of ten values: 10^12 cells."""
    names = [f"c{position}" for position in range(12)]
    dataset = services.datasets.ingest_dataset(
        owner=alice, title="Huge", source=upload_file(f"{','.join(names)}\n{','.join('3' * 12)}\n".encode())
    )
    columns = [{"name": name, "type": "integer", "edges": list(range(11))} for name in names]
    services.datasets.declare_universe(dataset=dataset, columns=columns)
    services.datasets.declare_protection(
        dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE
    )
    return dataset


def test_of_a_universe_of_10_to_the_12_cells_dense_mechanisms_say_why_not_and_laplace_on_answers_still_works(
    alice, sofia, upload_file, as_
):
    dataset = huge(alice, upload_file)
    asked = services.budgets.request_budget(
        dataset=dataset, epsilon="1", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
    )
    services.budgets.approve_request(request=asked, by=sofia)
    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=release, workload={"version": 1, "queries": [{"marginals": 1}]})
    url = reverse("compare", args=[release.pk])
    page = as_(alice).get(url)
    assert "universe of 1 × 10^12 cells" in words(page)
    row = row_of(page, "laplace-histogram")
    assert "Cannot be run." in row
    assert "It needs every cell of the universe in memory, and there are 1,000,000,000,000" in row
    assert "disabled" in row
    assert "disabled" not in row_of(page, "laplace-queries")
    as_(alice).post(url, {"epsilon": "1", "delta": "0", "beta": "0.05", "mechanism": "laplace-queries"})
    release.refresh_from_db()
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=release.pk)
    result = as_(alice).get(reverse("release_detail", args=[release.pk]))
    assert "every one of the 120 counts is within" in words(result)


def test_of_a_universe_of_10_to_the_12_cells_a_mixture_makes_rows_of_every_column(alice, sofia, upload_file, as_):
    dataset = huge(alice, upload_file)
    asked = services.budgets.request_budget(
        dataset=dataset, epsilon="1", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
    )
    services.budgets.approve_request(request=asked, by=sofia)
    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=release, workload={"version": 1, "queries": [{"marginals": 3}]})
    url = reverse("compare", args=[release.pk])
    row = row_of(as_(alice).get(url), "mixture-fit")
    assert "Mixture fitted to pairs and triples" in row
    assert "disabled" not in row
    assert "no bound is proved before" in row
    as_(alice).post(url, {"epsilon": "0.9", "delta": "0.000001", "beta": "0.05", "mechanism": "mixture-fit"})
    release.refresh_from_db()
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=release.pk)
    release.refresh_from_db()
    assert release.state == ReleaseState.PUBLISHED
    result = as_(alice).get(reverse("release_detail", args=[release.pk]))
    assert "synthetic" in words(result)


@pytest.fixture
def of_public_rows(alice, sofia, upload_file):
    """Drafts about a table whose number of rows is public: its column leaves no row out, and rows are replaced."""
    dataset = services.datasets.ingest_dataset(
        owner=alice, title="Sexes", source=upload_file(b"sex\nfemale\nmale\nmale\n")
    )
    column = {"name": "sex", "type": "categorical", "categories": ["female", "male"], "outside": "male"}
    services.datasets.declare_universe(dataset=dataset, columns=[column])
    services.datasets.declare_protection(dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.REPLACE)
    asked = services.budgets.request_budget(
        dataset=dataset, epsilon="4", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
    )
    services.budgets.approve_request(request=asked, by=sofia)

    def ask(*queries):
        release = services.releases.draft_release(dataset=dataset, by=alice)
        services.releases.set_questions(release=release, workload={"version": 1, "queries": list(queries)})
        return release

    return ask


EVERYBODY = {"count": {"sex": ["female", "male"]}}


def test_counts_that_are_public_cannot_be_chosen_or_charged_and_every_mechanism_says_why(of_public_rows, as_, alice):
    release = of_public_rows(EVERYBODY)
    of_counts = [each for each in mechanisms().values() if each.is_offered and not each.answers]
    client, url = as_(alice), reverse("compare", args=[release.pk])
    for shown in ({}, {"error": "50"}, {"curves": "1"}):
        page = client.get(url, shown)
        assert page.status_code == 200
        for each in of_counts:
            row = row_of(page, each.name)
            assert "Cannot be run." in row
            assert PUBLIC_ALREADY in row
            assert "disabled" in row
    for name in [each.name for each in of_counts]:
        services.releases.set_choice(release=release, epsilon="1", delta="0.0000001", mechanism_name=name)
        assert client.get(reverse("confirm", args=[release.pk]), follow=True).status_code == 200
        with pytest.raises(services.release_inputs.Refusal, match="nothing needs to be released"):
            services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert stored(release).state == "draft"
    assert not LedgerEntry.objects.filter(release=release).exists()


def test_counts_that_are_public_are_refused_to_a_program_too(of_public_rows, alice, client):
    release = of_public_rows(EVERYBODY)
    headers = {"authorization": f"Bearer {services.tokens.make_token(user=alice, name='a script')}"}

    def send(method, path, sent):
        return getattr(client, method)(path, json.dumps(sent), content_type="application/json", headers=headers)

    path = f"/api/releases/{release.pk}"
    sent = {"workload": {"version": 1, "queries": [EVERYBODY]}, "epsilon": "1", "delta": "0.0000001"}
    told = send("put", path, {**sent, "mechanism": "gaussian-queries"})
    assert told.status_code == 200
    assert {plan["why_not"] for plan in told.json()["plans"]} == {PUBLIC_ALREADY}
    refused = send("post", f"{path}/submit", {"key": str(uuid.uuid4())})
    assert refused.status_code == 409
    assert "nothing needs to be released" in refused.json()["message"]
    assert not LedgerEntry.objects.filter(release=release).exists()


@pytest.mark.parametrize("name", ["laplace-queries", "gaussian-queries"])
def test_counts_that_are_public_among_others_are_compared_and_released(of_public_rows, as_, alice, name):
    release = of_public_rows({**EVERYBODY, "weight": 9}, {"marginals": 1})
    url = reverse("compare", args=[release.pk])
    assert "disabled" not in row_of(as_(alice).get(url), "laplace-queries")
    services.releases.set_choice(release=release, epsilon="1", delta="0.0000001", mechanism_name=name)
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=release.pk)
    assert stored(release).state == "published"


def test_how_much_epsilon_an_error_takes_is_answered_for_every_proven_bound(show):
    page = words(show(error="50"))
    assert re.search(r"Laplace noise on each answer [\d.]+", page)
    assert re.search(r"Laplace noise on the histogram [\d.]+", page)


def test_the_least_epsilon_really_gives_that_error_and_not_much_less_would(asked_draft):
    release = stored(asked_draft)
    services.releases.set_choice(release=release, epsilon="1")
    for plan in services.releases.compare(release=release):
        if plan.infeasible or plan.bound is None:
            continue
        least = comparison.least_epsilon(plan, error=50.0)
        assert comparison.at_epsilon(plan, least).bound.alpha <= 50
        assert comparison.at_epsilon(plan, least * 95 / 100).bound.alpha > 50


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("much", "error: 'much' must be a number, such as 50"),
        ("0", "error: '0' must be a number of rows above 0, such as 50"),
        ("-5", "error: '-5' must be a number of rows above 0, such as 50"),
        ("1,5", "error: '1,5' must be a number, such as 50; decimals have a point and thousands no separator"),
        ("nan", "error: 'nan' must be a number, such as 50"),
    ],
)
def test_an_error_that_is_no_number_is_refused_beside_the_field(show, wanted, message):
    page = show(error=wanted)
    assert message in words(page)
    assert field_value(page, "error") == wanted


def test_what_an_epsilon_means_stands_beside_it_and_only_a_large_one_is_warned_of(send, show):
    assert "10% 23.2%" in words(show())
    assert "is large: it protects" not in words(show())
    send(epsilon="0.001")
    assert "is large: it protects" not in words(show())
    send(epsilon="8")
    assert "Epsilon 8 is large: it protects little" in words(show())


def test_the_curves_come_after_the_page_and_without_javascript_by_a_link(show):
    page = show()
    assert 'href="?curves=1#curves"' in body(page)
    assert "bounds-data" not in body(page)


def test_the_curves_are_drawn_and_also_a_table(show):
    page = show(curves="1")
    chart = json.loads(re.search(r'<script id="bounds-data" type="application/json">(.*?)</script>', body(page))[1])
    drawn = {value["mechanism"] for value in chart["layer"][0]["data"]["values"]}
    assert {"Laplace noise on each answer", "Laplace noise on the histogram"} <= drawn
    assert "The curves as a table" in words(page)


def test_both_axes_of_the_curves_are_logarithmic_and_a_rule_stands_at_the_chosen_epsilon(show, send):
    send(epsilon="0.75")
    page = body(show(curves="1"))
    chart = json.loads(re.search(r'<script id="bounds-data" type="application/json">(.*?)</script>', page)[1])
    curves, chosen = chart["layer"]
    assert {axis: curves["encoding"][axis]["scale"]["type"] for axis in "xy"} == {"x": "log", "y": "log"}
    assert {axis: curves["encoding"][axis]["field"] for axis in "xy"} == {"x": "epsilon", "y": "alpha"}
    assert chosen["mark"]["type"] == "rule"
    assert chosen["data"]["values"] == [{"epsilon": 0.75}]
    assert chosen["encoding"]["x"]["field"] == "epsilon"


def test_an_expectation_is_never_sold_as_a_bound(asked_draft, monkeypatch):
    release = stored(asked_draft)
    services.releases.set_choice(release=release, epsilon="1")
    plan = next(plan for plan in services.releases.compare(release=release) if plan.mechanism == "laplace-queries")
    expected = Bound(
        beta=plan.beta,
        half_widths=(41.0,) * len(plan.workload.families),
        proof=Proof.EXPECTED,
        formula="",
        source="a fit",
    )
    object.__setattr__(plan, "bound", None)
    object.__setattr__(plan, "expectation", expected)
    (row,) = comparison.compared([plan], Budget.objects.get())
    assert row.sentence.startswith("Expected, not proved: 95% of the time")
    assert "A bound is proved from the release itself" in row.sentence
    assert row.bound.proof.value == "expected, not proved"
    object.__setattr__(plan, "expectation", None)
    (row,) = comparison.compared([plan], Budget.objects.get())
    assert (row.margin, row.formula) == ("", "")
    assert "becomes known with the release" in row.sentence
    assert row.can_be_chosen


def test_proved_bounds_come_before_expected_ones_and_what_cannot_be_run_comes_last(show):
    page = body(show())
    order = [match[1] for match in re.finditer(r'name="mechanism" value="([^"]+)"( disabled)?', page)]
    infeasible = ["Cannot be run." in row_of(show(), name) for name in order]
    assert infeasible == sorted(infeasible)


def test_the_same_plan_is_made_from_the_stored_draft_and_from_its_json(asked_draft):
    services.releases.set_choice(
        release=asked_draft, epsilon="1", mechanism_name="laplace-histogram", options={"rows": 12}
    )
    plan = services.releases.plan_of(release=stored(asked_draft))
    assert plan.options["rows"] == 12
    assert Schema.from_json(plan.to_json()["schema"]).universe.names == tuple(column["name"] for column in COLUMNS)


def test_the_smallest_bound_is_marked_and_so_is_what_is_expected_to_be_closer(show, asked_draft):
    services.releases.set_choice(release=stored(asked_draft), epsilon="1")
    shown = show()
    rows = comparison.compared(services.releases.compare(release=stored(asked_draft)), Budget.objects.get())
    best = comparison.best_choices(rows)
    proved = [row for row in rows if row.can_be_chosen and not row.is_unproved and row.margin]
    first = min(proved, key=lambda row: row.bound.alpha).mechanism.name
    assert best[first] == "smallest bound"
    assert shown.context["page"].recommended.method.name == first
    offered = {each.name: each for each in shown.context["page"].can_run if not each.why_not}
    assert {name: each.advice for name, each in offered.items() if each.advice} == best
    assert {name for name, each in offered.items() if each.is_outlined} == offered.keys() - best.keys() != set()


def test_a_choice_made_for_other_numbers_than_were_shown_shows_these_first(asked_draft, as_, alice):
    url = reverse("compare", args=[asked_draft.pk])
    page = as_(alice).get(url)
    sent = {name: field_value(page, name) for name in ("shown", "epsilon", "delta")} | {"beta": "0.05"}
    changed = as_(alice).post(url, sent | {"epsilon": "0.25", "mechanism": "laplace-queries"}, follow=True)
    assert changed.redirect_chain[-1][0] == url
    assert "You changed the numbers" in words(changed)
    assert field_value(changed, "epsilon") == "0.25"
    sent = {name: field_value(changed, name) for name in ("shown", "epsilon", "delta")} | {"beta": "0.05"}
    chosen = as_(alice).post(url, sent | {"mechanism": "laplace-queries"})
    assert chosen.url == reverse("confirm", args=[asked_draft.pk])
