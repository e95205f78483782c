"""Which method is recommended for synthetic rows: by public facts alone, with the reason."""

from __future__ import annotations

from fractions import Fraction

import pytest

from releases.engine.domain.privacy import ApproxDP
from releases.engine.domain.universe import Schema
from releases.engine.mechanisms.base import mechanism
from releases.engine.workload.queries import Workload
from releases.planning import comparison
from releases.planning.row_methods import recommended

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
