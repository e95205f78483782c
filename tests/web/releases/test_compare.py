"""Comparing mechanisms before anything is spent: which there are, which is recommended, and what an error costs."""

import re
from fractions import Fraction

import pytest

from releases import services
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.privacy import ApproxDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import Workload
from releases.models import LedgerEntry, Release
from releases.planning import comparison, recommendation
from releases.planning.row_methods import recommended
from tests.web.conftest import WORKLOAD
from tests.web.pages import body, field_value, link, words
from tests.web.releases.conftest import charges
from tests.web.releases.test_statistic_questions import COLUMNS, CONTENT
from tests.web.steps import protect

CHOICE = {"epsilon": "1", "delta": "0.0000001", "beta": "0.05"}


@pytest.fixture
def draft(dataset, make_draft):
    """No mechanism is chosen yet."""
    return make_draft(dataset, delta="0.0000001", mechanism="")


@pytest.fixture
def show(draft, as_, alice):
    return lambda **given: as_(alice).get(link("compare", draft), given)


@pytest.fixture
def send(draft, as_, alice):
    return lambda want="", **data: as_(alice).post(f"{link('compare', draft)}?want={want}", CHOICE | data)


def plans_of(draft):
    return services.releases.compare(release=Release.objects.get(pk=draft.pk))


def rows_of(draft):
    return {row.mechanism.name: row for row in comparison.compared(plans_of(draft), draft.dataset.budget)}


def chosen_in(page):
    """The names of the buttons that choose, in the order of the page."""
    return re.findall(r'name="mechanism" value="([^"]+)"', body(page))


def test_every_mechanism_for_counts_is_there_and_what_cannot_be_run_is_barred(show, draft):
    page, workload = body(show()), services.releases.set_questions(release=draft, workload=WORKLOAD)
    parts = re.split('<tbody|<section class="panel recommended', page)
    offered = [each.name for each in mechanisms().values() if each.is_offered and each.can_answer(workload)]
    barred = [name for name in offered for part in parts if f'value="{name}"' in part and "Cannot be run." in part]
    assert sorted(re.findall(r'name="mechanism" value="([^"]+)"', page)) == sorted(offered)
    assert sorted(barred) == sorted(name for name, row in rows_of(draft).items() if row.plan.infeasible)


def test_looking_at_it_stores_and_spends_nothing(show, draft):
    before = Release.objects.filter(pk=draft.pk).values().get()
    entries = LedgerEntry.objects.count()
    show()
    show(error="50")
    assert Release.objects.filter(pk=draft.pk).values().get() == before
    assert LedgerEntry.objects.count() == entries


@pytest.mark.parametrize("loses_rows", [False, True])
def test_the_least_proved_bound_is_recommended_and_its_button_comes_first(draft, show, loses_rows):
    """Of those that keep a table's rows, where another column's rule takes some from it in the others."""
    if not loses_rows:
        services.releases.set_questions(release=draft, workload={"version": 1, "queries": [{"marginals": 2}]})
    page = show()
    proved = [row for row in rows_of(draft).values() if row.can_be_chosen and row.bound and not row.is_unproved]
    own = [row for row in proved if row.plan.schema.universe.own_rows]
    assert bool(own) is loses_rows
    assert len(own) < len(proved)
    proved = own or proved
    least = min(proved, key=lambda row: row.bound.alpha)
    assert page.context["page"].recommended.method.name == least.mechanism.name == chosen_in(page)[0]


def test_of_synthetic_rows_a_method_that_makes_rows_is_recommended(draft, show):
    for_rows, for_table = (show(want=want).context["page"].recommended for want in ("rows", "table"))
    assert rows_of(draft)[for_rows.method.name].for_synthetic_rows == for_rows.why != ""
    assert for_table.method.name != for_rows.method.name


def test_what_does_not_fit_is_not_recommended_before_what_does(draft, show):
    services.releases.set_choice(release=draft, epsilon="1.9", delta="0.0000009")
    assert not show().context["page"].recommended.method.why_not


def test_an_error_takes_the_least_epsilon_of_the_recommended_method_and_spends_nothing(draft, show, send):
    row = rows_of(draft)[show(want="rows").context["page"].recommended.method.name]
    assert send("rows", error=" 30 ").status_code == 302
    stored = Release.objects.get(pk=draft.pk)
    assert float(stored.epsilon) == float(comparison.least_epsilon(row.plan, error=30))
    assert (stored.delta, stored.beta, stored.mechanism) == ("0.0000001", "0.05", "")
    assert not charges().exists()


@pytest.mark.parametrize(("typed", "rule"), [("0", "above 0, such as 50"), ("1,5", "decimals have a point")])
def test_an_error_that_cannot_be_kept_is_said_beside_its_field_and_nothing_typed_is_lost(send, typed, rule):
    response = send(error=typed, epsilon="0.7")
    assert response.status_code == 400
    assert rule in response.context["form"].errors["error"][0]
    assert [field_value(response, name) for name in ("error", "epsilon")] == [typed, "0.7"]


#: Of the columns age and income in the kinds that can be asked, and whether all answers have one unit.
UNITS = [
    ({"mean": ["age"]}, True),
    ({"mean": ["age", "income"]}, False),
    ({"sum": {"columns": ["age", "income"], "by": ["sex"]}}, False),
    ({"variance": ["age", "income"]}, False),
    ({"second_moments": ["age", "income"]}, False),
    ({"regression": {"outcome": "income", "columns": ["age"]}}, False),
    ({"logistic_regression": {"outcome": "sex", "values": ["male"], "columns": ["age"]}}, False),
    ({"median": "income"}, True),
    ({"marginal": ["age", "sex"]}, True),
]


@pytest.mark.parametrize(("query", "has_one"), UNITS)
def test_a_largest_error_is_asked_for_only_where_all_answers_have_one_unit(
    upload_file, make_draft, as_, alice, query, has_one
):
    dataset = services.datasets.ingest_dataset(owner=alice, title="Tea", source=upload_file(CONTENT))
    services.datasets.declare_universe(dataset=dataset, columns=COLUMNS, by=alice)
    protect(dataset, alice)
    draft = make_draft(dataset, query, mechanism="")
    client, address = as_(alice), link("compare", draft)
    page = client.get(address)
    assert ('name="error"' in body(page), 'id="curves"' in body(page)) == (has_one, has_one)
    assert ("The answers have different units" in words(page)) == (not has_one)
    assert not re.search(r"units of [^.]*, income", words(page))
    asked = client.get(address, {"error": "50", "curves": "1"})
    assert ("Least epsilon for an error of at most" in words(asked)) == has_one
    if not has_one:
        refused = client.post(address, CHOICE | {"error": "50"})
        assert refused.status_code == 400
        assert "error: '50' cannot be used. The answers have different units" in words(refused)
        assert field_value(refused, "error") == "50"


def test_the_least_epsilon_really_gives_that_error_and_not_much_less_would(draft):
    bounded = [plan for plan in plans_of(draft) if not plan.infeasible and plan.bound is not None]
    assert bounded
    for plan in bounded:
        least = comparison.least_epsilon(plan, error=50.0)
        assert comparison.at_epsilon(plan, least).bound.alpha <= 50
        assert comparison.at_epsilon(plan, least * 95 / 100).bound.alpha > 50


def test_an_expectation_is_never_sold_as_a_bound(draft):
    plan = next(plan for plan in plans_of(draft) if plan.mechanism == "laplace-queries")
    widths = (41.0,) * len(plan.workload.families)
    expected = Bound(beta=plan.beta, half_widths=widths, proof=Proof.EXPECTED, formula="", source="a fit")
    object.__setattr__(plan, "bound", None)
    object.__setattr__(plan, "expectation", expected)
    (row,) = comparison.compared([plan], draft.dataset.budget)
    assert row.sentence.startswith("Expected, not proved: 95% of the time")
    assert row.bound.proof.value == "expected, not proved"


@pytest.mark.parametrize(
    ("sizes", "epsilon", "rows", "closer"),
    [
        # Each was measured: the errors of pairs and triples are in the comment, of the fit and of the mixture.
        ((32, 9, 16, 7, 6, 2, 2, 5), "0.3", 6_000, "mixture-fit"),  # 0.1013 0.1780, 0.0874 0.1547
        ((32, 9, 16, 7, 6, 2, 2, 5), "1", 48_842, "marginal-fit"),  # 0.0102 0.0251, 0.0097 0.0268
        ((2,) * 16, "3", 2_000, "marginal-fit"),  # 0.0085 0.0205, 0.0092 0.0222
    ],
)
def test_for_synthetic_rows_the_method_that_was_closer_is_recommended_by_public_facts_alone(
    sizes, epsilon, rows, closer
):
    columns = [{"name": f"c{i}", "type": "integer", "edges": list(range(size + 1))} for i, size in enumerate(sizes)]
    schema = Schema.from_json({"version": 1, "columns": columns, "neighbours": "add_remove", "unit": {"kind": "row"}})
    queries = [{"marginals": 2}, {"marginals": 3}]
    workload = Workload.from_json({"version": 1, "queries": queries}, schema.universe)
    budget = ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(1, 10**9))
    made = (
        mechanism(name).plan(schema, workload, budget=budget, beta=Fraction(1, 20))
        for name in ("marginal-fit", "mixture-fit", "laplace-queries")
    )
    method = recommended({plan.mechanism: plan for plan in made if not plan.infeasible}, rows=rows)
    assert method.name == closer


@pytest.mark.parametrize("columns", [["age"], ["age", "pay", "debt", "rent", "heat", "food"]])
@pytest.mark.parametrize("kind", ["mean", "variance"])
def test_where_only_the_rows_tell_the_narrowest_of_many_rows_is_recommended(kind, columns):
    numbers = [{"name": name, "type": "integer", "edges": [0, 100]} for name in columns]
    town = {"name": "town", "type": "categorical", "categories": ["a", "b"], "outside": "a"}
    schema = Schema.from_json({"version": 1, "columns": [*numbers, town], "neighbours": "add_remove"})
    asked = read_question({"version": 1, "queries": [{kind: {"columns": columns, "by": "town"}}]}, schema.universe)
    budget = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 1000))

    def plans(**options):
        for name in ("gaussian-numbers", "laplace-numbers"):
            yield mechanism(name).plan(schema, asked, budget=budget, beta=Fraction(1, 20), options=options)

    narrowest = min(plans(expected_rows=100_000), key=lambda plan: plan.expectation.alpha)
    rows = comparison.compared(list(plans()), None)
    first = recommendation.recommended(rows, for_rows=False)
    assert not any(row.bound for row in rows)
    assert first.mechanism.name == narrowest.mechanism == ("laplace" if len(columns) == 1 else "gaussian") + "-numbers"
    assert (
        recommendation.why(first, rows, for_rows=False) == "Where there are many rows, its intervals are the narrowest."
    )
