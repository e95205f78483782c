"""The comparison recommends one method, says why and how close it is, and works out an epsilon for an error."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from releases import services
from releases.engine.domain.privacy import ApproxDP
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.workload.queries import Workload
from releases.models import LedgerEntry, Release
from releases.planning import comparison
from releases.planning.row_methods import recommended
from releases.publication.receipt import rows_text
from tests.web.pages import body, field_value, link

pytestmark = pytest.mark.django_db

CHOICE = {"epsilon": "1", "delta": "0.0000001", "beta": "0.05"}


@pytest.fixture
def drafted(dataset, make_draft):
    """A draft that asks something."""
    return lambda *queries: make_draft(dataset, *queries, delta="0.0000001", mechanism="")


@pytest.fixture
def draft(drafted):
    return drafted({"marginals": 2})


@pytest.fixture
def show(as_, alice):
    return lambda release, **given: as_(alice).get(link("compare", release), given)


@pytest.fixture
def send(as_, alice):
    return lambda release, want="", **data: as_(alice).post(f"{link('compare', release)}?want={want}", CHOICE | data)


def rows_of(release):
    stored = Release.objects.get(pk=release.pk)
    return comparison.compared(services.releases.compare(release=stored), stored.dataset.budget)


def chosen_in(page):
    """The names of the buttons that choose, in the order of the page."""
    return re.findall(r'name="mechanism" value="([^"]+)"', body(page))


def test_of_a_table_the_least_proved_bound_is_recommended_with_its_bound_in_rows_and_its_button_comes_first(
    drafted, show
):
    release = drafted()
    page = show(release)
    proved = [row for row in rows_of(release) if row.can_be_chosen and row.bound and not row.is_unproved]
    least = min(proved, key=lambda row: row.bound.alpha)
    comparison_page = page.context["page"]
    shown = comparison_page.recommended
    assert shown.method.name == least.mechanism.name == chosen_in(page)[0]
    assert rows_text(least.bound.alpha) in shown.within
    assert "95%" in shown.within
    assert str(len(proved)) in shown.why
    assert shown.method.name not in {each.name for each in comparison_page.further}
    assert len(comparison_page.further) == len(comparison_page.can_run) - 1
    assert not comparison_page.opens_further


def test_of_synthetic_rows_the_method_that_makes_rows_is_recommended_and_each_page_leads_to_the_other(draft, show):
    rows = {row.mechanism.name: row for row in rows_of(draft)}
    for_rows, for_table = (show(draft, want=want).context["page"].recommended for want in ("rows", "table"))
    row = rows[for_rows.method.name]
    assert row.for_synthetic_rows == for_rows.why != ""
    assert for_table.method.name != for_rows.method.name
    assert (for_table.other, for_rows.other) == ("?want=rows", "?want=table")


def test_what_does_not_fit_is_not_recommended_before_what_does(draft, show):
    services.releases.set_choice(release=draft, epsilon="1.9", delta="0.0000009")
    assert not show(draft).context["page"].recommended.method.why_not


@pytest.mark.parametrize("want", ["", "rows"])
def test_an_error_takes_the_least_epsilon_of_the_recommended_method_and_spends_nothing(draft, show, send, want):
    first = show(draft, want=want).context["page"].recommended.method.name
    row = next(row for row in rows_of(draft) if row.mechanism.name == first)
    least = comparison.least_epsilon(row.plan, error=30)
    assert send(draft, want, error=" 30 ").status_code == 302
    stored = Release.objects.get(pk=draft.pk)
    assert float(stored.epsilon) == float(least)
    assert (stored.delta, stored.beta, stored.mechanism) == ("0.0000001", "0.05", "")
    assert not LedgerEntry.objects.filter(kind="charge").exists()
    assert field_value(show(draft, want=want), "error") in ("", None)


@pytest.mark.parametrize(
    ("typed", "rule"),
    [
        ("much", "error: 'much' must be a number, such as 50"),
        ("0", "error: '0' must be a number of rows above 0, such as 50"),
        ("1,5", "error: '1,5' must be a number, such as 50; decimals have a point"),
    ],
)
def test_an_error_that_cannot_be_kept_is_said_beside_its_field_and_nothing_typed_is_lost(draft, send, typed, rule):
    response = send(draft, error=typed, epsilon="0.7", population="900")
    assert response.status_code == 400
    (said,) = response.context["form"].errors["error"]
    assert said.startswith(rule)
    assert [field_value(response, name) for name in ("error", "epsilon", "population")] == [typed, "0.7", "900"]


def test_an_error_that_nothing_is_known_of_is_refused_with_the_reason(drafted, send):
    response = send(drafted({"mean": ["age"]}), error="5")
    assert response.status_code == 400
    (said,) = response.context["form"].errors["error"]
    assert said.startswith("error: '5' cannot be kept. It depends on how many rows there are")
    assert response.context["opens_numbers"]


# Which method is recommended for synthetic rows: by public facts alone, with the reason

TRIPLES = [{"marginals": 2}, {"marginals": 3}]


def plans(sizes, queries, epsilon="1"):
    columns = [{"name": f"c{i}", "type": "integer", "edges": list(range(size + 1))} for i, size in enumerate(sizes)]
    schema = Schema.from_json({"version": 1, "columns": columns, "neighbours": "add_remove", "unit": {"kind": "row"}})
    workload = Workload.from_json({"version": 1, "queries": queries}, schema.universe)
    budget = ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(1, 10**9))
    made = (
        mechanism(name).plan(schema, workload, budget=budget, beta=Fraction(1, 20))
        for name in ("marginal-fit", "mixture-fit", "laplace-queries")
    )
    return {plan.mechanism: plan for plan in made if not plan.infeasible}


@pytest.mark.parametrize(
    ("sizes", "epsilon", "rows", "closer"),
    [
        # Each was measured: the errors of pairs and triples are in the comment, of the fit and of the mixture.
        ((32, 9, 16, 7, 6, 2, 2, 5), "0.3", 6_000, "mixture-fit"),  # 0.1013 0.1780, 0.0874 0.1547
        ((32, 9, 16, 7, 6, 2, 2, 5), "1", 48_842, "marginal-fit"),  # 0.0102 0.0251, 0.0097 0.0268
        ((2,) * 16, "0.3", 20_000, "marginal-fit"),  # 0.0077 0.0183, 0.0088 0.0194
        ((2,) * 16, "3", 2_000, "marginal-fit"),  # 0.0085 0.0205, 0.0092 0.0222
    ],
)
def test_the_method_that_was_closer_is_recommended(sizes, epsilon, rows, closer):
    method = recommended(plans(sizes, TRIPLES, epsilon), rows=rows)
    assert method.name == closer
    assert method.why.startswith("Recommended for synthetic rows: ")


def test_where_nobody_guessed_the_rows_the_sentence_says_from_how_many_it_holds():
    held = plans((4, 4, 4), TRIPLES)
    method = recommended(held, rows=None)
    assert method.name == "marginal-fit"
    least = int(method.why.split("if there are ")[1].split(" rows")[0].replace(",", ""))
    assert recommended(held, rows=least).name == "marginal-fit"
    assert recommended(held, rows=least - 2).name == "mixture-fit"


def test_a_chain_is_fitted_on_its_pairs_and_what_is_too_wide_by_the_mixture():
    chain = [{"marginal": [f"c{i}", f"c{i + 1}"]} for i in range(13)]
    assert recommended(plans((10,) * 14, chain), rows=1_000).name == "marginal-fit"
    assert recommended(plans((10,) * 14, [{"marginals": 2}]), rows=1_000).name == "mixture-fit"
    assert recommended({}, rows=1_000) is None


def test_one_row_of_the_comparison_carries_the_sentence():
    held = plans((4, 4, 4), TRIPLES)
    rows = comparison.compared(list(held.values()), None, guess=1_000_000)
    said = {row.mechanism.name: row.for_synthetic_rows for row in rows if row.for_synthetic_rows}
    assert list(said) == ["marginal-fit"]
    assert "best for synthetic rows" in comparison.best_choices(rows)["marginal-fit"]
