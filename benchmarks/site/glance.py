"""`manage.py bench --only glance`: every column of a wide table at a glance, from the button to the page of charts.

An installation of its own on the embedded database, in a process of its own. The button is pressed as a browser presses
it, and the releases are computed as a worker computes them. The rows are invented, so what is true of them is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.site.installation import measured
from benchmarks.tables import BenchRow, BenchTable

COLUMNS, ROWS = 200, 50_000
#: Of the issue that asked for it: seconds by the clock, and the error of a first quartile, of its column's range.
SECONDS, ERROR = 30, 0.1
_RANGE = 100
#: The columns that go together.
_RELATED = ("c0", "c2")


def tables() -> Iterator[BenchTable]:
    found = measured("glance", columns=COLUMNS, rows=ROWS)
    parts = [
        ("from the button to the page of charts", found["seconds"], SECONDS, "s"),
        ("largest error of a first quartile, of its column's range", found["error"], ERROR, ""),
        ("true quartiles outside their intervals", found["outside"], 0, ""),
        ("pairs of columns that go together and are not named", found["unnamed"], 0, ""),
    ]
    yield BenchTable(
        title="Every column at a glance",
        says=f"{COLUMNS} columns, half of them of numbers in ten bins, {ROWS:,} rows, a pair of columns the same in "
        "half of them; epsilon 0.5, delta 1e-9, a row added or removed, all options at their defaults. "
        "Seconds by the clock.",
        heads=("what", "ours", "target"),
        rows=[
            BenchRow(cells=(what, f"{value:.3g} {unit}".strip(), f"{most:g} {unit}".strip()), is_met=value <= most)
            for what, value, most, unit in parts
        ],
    )


def measure(folder: str, *, columns: int, rows: int) -> dict[str, Any]:
    """In an installation that is empty."""
    from django.contrib.auth.models import User
    from django.test import Client
    from django.urls import reverse

    from releases import services
    from releases.engine.accounting.filters import Policy
    from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
    from releases.models import Collection, HeldRole

    values, declared = _table(columns, rows)
    path = Path(folder) / "wide.csv"
    lines = zip(*values.values(), strict=True)
    path.write_text("\n".join([",".join(values), *map(",".join, lines)]) + "\n")
    owner, reviewer = (User.objects.create(username=name) for name in ("curator", "reviewer"))
    for person, role in ((owner, "curator"), (reviewer, "reviewer")):
        HeldRole.objects.create(person=person, role=role)
    dataset = services.datasets.ingest_dataset(owner=owner, title="Wide", source=path)
    services.datasets.declare_universe(dataset=dataset, columns=declared, by=owner)
    services.datasets.declare_protection(
        dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE, by=owner
    )
    asked = services.budgets.request_budget(
        dataset=dataset, epsilon="2", delta="0.000001", policy=Policy.ZCDP, reason="A benchmark.", by=owner
    )
    services.budgets.approve_request(request=asked, by=reviewer)

    visitor = Client()
    visitor.force_login(owner)
    began = perf_counter()
    check = visitor.post(reverse("new_collection", args=[dataset.pk]), {"glance-epsilon": "0.5"}).url  # type: ignore[attr-defined]
    page = visitor.get(check).context["page"]
    visitor.post(check, {"action": "release", "key": page.key, "plans": list(page.plans)})
    collection = Collection.objects.get()
    for part in collection.parts.all():
        services.execution.execute_release(release_id=part.release_id)
    address = reverse("collection", args=[collection.pk])
    named = [pair.columns for pair in visitor.get(address).context["associations"]]
    found = {"seconds": perf_counter() - began, "unnamed": int(_RELATED not in named)}
    return {**found, **_errors(visitor, address, values)}


def _table(columns: int, rows: int) -> tuple[dict[str, list[str]], list[dict[str, Any]]]:
    """Numbers as a normal distribution has them, a tenth missing in every third of their columns; and categories. Each
    column has an order of its own."""
    from scipy.special import ndtri

    values: dict[str, list[str]] = {}
    declared: list[dict[str, Any]] = []
    for place in range(columns):
        # It shares no divisor with a number of rows that ends in zeros.
        order = np.arange(rows) * (10 * place + 7) % rows
        if place % 2:
            spread = 20 + place % 60 + (5 + place % 20) * ndtri((order + 0.5) / rows)
            texts = spread.round().clip(0, _RANGE - 1).astype(int).astype(str)
            if place % 6 == 3:
                texts[np.arange(rows) % 10 == 0] = ""
            edges = list(range(0, _RANGE + 1, 10))
            declared.append({"name": f"n{place}", "type": "integer", "edges": edges, "missing_as": "no number"})
        else:
            texts = np.array(list("abcde"))[order * 5 // rows]
            if f"c{place}" == _RELATED[1]:
                texts = np.where(np.arange(rows) % 4 < 2, values[_RELATED[0]], texts)
            declared.append({"name": f"c{place}", "type": "categorical", "categories": list("abcde")})
        values[declared[-1]["name"]] = texts.tolist()
    return values, declared


def _errors(visitor: Any, address: str, values: dict[str, list[str]]) -> dict[str, float]:
    """Beside the true quartiles, as the pages show them."""
    error, outside, number, shown = 0.0, 0, 1, True
    while shown:
        page = visitor.get(address, {"page": number})
        for column in page.context["glances"]:
            true = np.sort([int(text) for text in values[column.name] if text]) if column.quartiles else ()
            for place, each in enumerate(column.quartiles, start=1):
                quartile = true[-(-len(true) * place // 4) - 1]
                low, high = (float(end.replace(",", "")) for end in each.within.split(" to "))
                outside += not low <= quartile <= high
                if place == 1:
                    error = max(error, abs(float(each.about) - quartile) / _RANGE)
        shown, number = page.context["columns"].has_next(), number + 1
    return {"error": error, "outside": outside}
