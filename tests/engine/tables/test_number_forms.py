"""Numbers of each declared form, on each database, as the reference reads them."""

from __future__ import annotations

import random

import pytest

from releases.engine.domain.schema import Schema
from releases.engine.tables.number import NumberForm
from releases.engine.tables.query import TableCounts
from tests.engine.tables.reference import number, trimmed
from tests.engine.tables.test_contract import EACH_ENGINE

FORMS = [(",", ""), (",", "."), (",", "'"), (",", "space"), (".", ","), (".", "space"), (".", "'")]
SIGNS = [".", ",", "'", "\u2019", " ", "\u00a0", "\u202f"]


def written(drawn):
    kind = drawn.randrange(4)
    if kind == 0:
        return "".join(drawn.choice(["1", "23", "456", *SIGNS, "+", "-", "e1"]) for _ in range(drawn.randrange(1, 6)))
    sign, decimal = drawn.choice(SIGNS), drawn.choice(",.")
    whole = f"{drawn.randrange(10 ** drawn.randrange(1, 8)):,}".replace(",", sign if kind < 3 else "")
    tail = f"{decimal}{drawn.randrange(100)}" if drawn.random() < 0.6 else ""
    return drawn.choice(["", "", "-", "+", " "]) + whole + tail + drawn.choice(["", "", "", "e1", "E-2", "\t"])


@EACH_ENGINE
@pytest.mark.parametrize(("decimal", "thousands"), FORMS)
def test_numbers_of_a_form_count_as_the_reference_reads_them(load, decimal, thousands, request):
    drawn = random.Random(f"{decimal}{thousands}")
    rows = [{"n": written(drawn), "text": "1,5"} for _ in range(600)]
    rows += [{"n": each, "text": "1,5"} for each in ("1.234,5", "1,234.5", "1 234,5", "1'234.5", "1,5", "1.5", "1.234")]
    edges = [-(10**7), -100, -1, 0, 1, 2, 10, 100, 1000, 2000, 10**4, 10**5, 10**7]
    columns = [
        {"name": "n", "type": "number", "edges": edges, "decimals": 2, "outside": "drop"},
        {"name": "text", "type": "categorical", "categories": ["1,5", "1.5"]},
    ]
    table = load(rows, request)
    table.number_form = NumberForm(decimal=decimal, thousands=thousands)
    counts = TableCounts(table, Schema.from_json({"version": 1, "columns": columns}))
    read = [number(trimmed(row["n"]), (decimal, thousands)) for row in rows]
    inside = [each for each in read if each is not None and edges[0] <= each <= edges[-1]]
    assert len(inside) > 60
    places = [max(i for i, low in enumerate(edges[:-1]) if each >= low) for each in inside]
    found = counts.marginal(("n", "text"))
    assert found[:, 0].tolist() == [places.count(i) for i in range(len(edges) - 1)]
    assert found[:, 1].sum() == 0
