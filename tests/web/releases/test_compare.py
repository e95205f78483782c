"""Comparing mechanisms before anything is spent."""

from __future__ import annotations

import html
import re

import pytest

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import PUBLIC_ALREADY, mechanisms
from releases.models import Budget, LedgerEntry, Release
from releases.planning import comparison
from tests.web.conftest import COLUMNS, WORKLOAD
from tests.web.pages import body, field_value, link, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def send(asked, as_, alice):
    return lambda **data: as_(alice).post(link("compare", asked), {"epsilon": "1", "delta": "0", "beta": "0.05"} | data)


@pytest.fixture
def show(asked, as_, alice):
    return lambda **data: as_(alice).get(link("compare", asked), data)


def stored(draft):
    return Release.objects.get(pk=draft.pk)


def row_of(page, title):
    """The part of the comparison that is about one mechanism."""
    parts = re.split('<tbody|<section class="panel recommended', body(page))
    return next(part for part in parts if f'value="{title}"' in part)


def test_every_mechanism_for_counts_is_there_and_what_cannot_be_run_comes_last(show, asked):
    page, workload = show(), services.releases.set_questions(release=asked, workload=WORKLOAD)
    order = re.findall(r'name="mechanism" value="([^"]+)"', body(page))
    assert sorted(order) == sorted(each.name for each in mechanisms().values() if each.can_answer(workload))
    assert all(mechanisms()[name].title in row_of(page, name) for name in order)
    infeasible = ["Cannot be run." in row_of(page, name) for name in order]
    assert infeasible == sorted(infeasible)


def test_looking_at_it_stores_and_spends_nothing(show, asked):
    before = Release.objects.filter(pk=asked.pk).values().get()
    entries = LedgerEntry.objects.count()
    show()
    show(error="50")
    assert Release.objects.filter(pk=asked.pk).values().get() == before
    assert LedgerEntry.objects.count() == entries


BROKEN = [
    ({"epsilon": ""}, "epsilon: nothing was typed; must be a decimal number above 0, such as 1"),
    ({"mechanism": "magic"}, "mechanism: 'magic' must be one of"),
    ({"laplace-histogram.rows": "0"}, "Option rows: 0 must be a whole number from 1 to"),
]


def test_a_broken_rule_is_named_beside_the_field_and_nothing_typed_is_lost(send, asked):
    for data, message in BROKEN:
        response = send(**({"laplace-histogram.rows": "77"} | data))
        assert response.status_code == 400
        assert message in words(response)
        for name in ("epsilon", "delta"):
            assert field_value(response, name) == data.get(name, "1" if name == "epsilon" else "0")
        assert field_value(response, "laplace-histogram.rows") == data.get("laplace-histogram.rows", "77")
        assert stored(asked).epsilon == ""


@pytest.mark.parametrize(
    ("granted", "is_frozen", "reason"),
    [
        ("2", False, "It does not fit: it costs epsilon 2.5, and epsilon 2 is left of the dataset's budget."),
        ("2", True, "A reviewer has frozen this budget."),
        ("", False, "No budget has been granted yet."),
    ],
)
def test_what_the_budget_does_not_take_is_compared_and_cannot_be_chosen(
    make_dataset, make_draft, as_, alice, granted, is_frozen, reason
):
    dataset = make_dataset(epsilon=granted)
    release = make_draft(dataset, epsilon="2.5", mechanism="")
    if is_frozen:
        services.budgets.freeze_budget(budget=dataset.budget)
    row = row_of(as_(alice).get(link("compare", release)), "laplace-queries")
    assert "±" in row
    assert "disabled" in row
    assert reason in html.unescape(row)


@pytest.fixture
def huge(make_declared):
    """Twelve columns of ten values: 10^12 cells."""
    names = [f"c{position}" for position in range(12)]
    content = f"age,sex,{','.join(names)}\n30,male,{','.join('3' * 12)}\n".encode()
    columns = [{"name": name, "type": "integer", "edges": list(range(11))} for name in names]
    return make_declared(columns, content=content, epsilon="1")


@pytest.mark.parametrize(
    ("queries", "name", "delta", "counts"),
    [([{"marginals": 1}], "laplace-queries", "0", 120), ([{"marginals": 2}], "mixture-fit", "0.000001", 6_600)],
)
def test_of_a_universe_of_10_to_the_12_cells_what_needs_no_cell_of_it_is_released(
    huge, make_draft, carry_out, as_, alice, queries, name, delta, counts
):
    release = make_draft(huge, *queries, mechanism="", delta="0.0000001")
    url = link("compare", release)
    page = as_(alice).get(url)
    dense = row_of(page, "laplace-histogram")
    assert "It needs every cell of the universe in memory, and there are 1,000,000,000,000" in dense
    assert "disabled" in dense
    assert "disabled" not in row_of(page, name)
    as_(alice).post(url, {"epsilon": "0.9", "delta": delta, "beta": "0.05", "mechanism": name})
    release.refresh_from_db()
    assert carry_out(release).result["receipt"]["answers"] == counts
    assert as_(alice).get(link("release_detail", release)).status_code == 200


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

    return dataset


EVERYBODY = {"count": {"sex": ["female", "male"]}}


def test_counts_that_are_public_cannot_be_chosen_or_charged_and_every_mechanism_says_why(
    of_public_rows, make_draft, carry_out, as_, alice
):
    release = make_draft(of_public_rows, EVERYBODY, mechanism="")
    of_counts = [each for each in mechanisms().values() if each.is_offered and not each.answers]
    client, url = as_(alice), link("compare", release)
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
        assert client.get(link("confirm", release), follow=True).status_code == 200
        with pytest.raises(services.release_inputs.Refusal, match="nothing needs to be released"):
            carry_out(release, execute=False)
    assert stored(release).state == "draft"
    assert not LedgerEntry.objects.filter(release=release).exists()


@pytest.mark.parametrize("name", ["laplace-queries", "gaussian-queries"])
def test_counts_that_are_public_among_others_are_compared_and_released(
    of_public_rows, make_draft, carry_out, as_, alice, name
):
    asked = ({**EVERYBODY, "weight": 9}, {"marginals": 1})
    release = make_draft(of_public_rows, *asked, delta="0.0000001", mechanism=name)
    assert "disabled" not in row_of(as_(alice).get(link("compare", release)), "laplace-queries")
    assert carry_out(release).state == "published"


@pytest.fixture
def plans(asked):
    """What is compared at epsilon 1."""
    services.releases.set_choice(release=asked, epsilon="1")
    return services.releases.compare(release=stored(asked))


def test_the_least_epsilon_really_gives_that_error_and_not_much_less_would(plans):
    bounded = [plan for plan in plans if not plan.infeasible and plan.bound is not None]
    assert bounded
    for plan in bounded:
        least = comparison.least_epsilon(plan, error=50.0)
        assert comparison.at_epsilon(plan, least).bound.alpha <= 50
        assert comparison.at_epsilon(plan, least * 95 / 100).bound.alpha > 50


def test_an_expectation_is_never_sold_as_a_bound(plans):
    plan = next(plan for plan in plans if plan.mechanism == "laplace-queries")
    widths = (41.0,) * len(plan.workload.families)
    expected = Bound(beta=plan.beta, half_widths=widths, proof=Proof.EXPECTED, formula="", source="a fit")
    object.__setattr__(plan, "bound", None)
    object.__setattr__(plan, "expectation", expected)
    (row,) = comparison.compared([plan], Budget.objects.get())
    assert row.sentence.startswith("Expected, not proved: 95% of the time")
    assert row.bound.proof.value == "expected, not proved"
    object.__setattr__(plan, "expectation", None)
    (row,) = comparison.compared([plan], Budget.objects.get())
    assert (row.margin, row.formula) == ("", "")
    assert row.can_be_chosen


def test_the_same_plan_is_made_from_the_stored_draft_and_from_its_json(asked):
    services.releases.set_choice(release=asked, epsilon="1", mechanism_name="laplace-histogram", options={"rows": 12})
    plan = services.releases.plan_of(release=stored(asked))
    assert plan.options["rows"] == 12
    assert Schema.from_json(plan.to_json()["schema"]).universe.names == tuple(column["name"] for column in COLUMNS)
