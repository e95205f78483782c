"""`manage.py bench --only columns`: the page on which the columns of a wide table are declared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from benchmarks.site.installation import measured
from benchmarks.tables import BenchRow, BenchTable

COLUMNS, TURNS = 60, 15
#: Of the issue that asked for it.
MILLISECONDS = 200


def tables() -> Iterator[BenchTable]:
    found = measured("columns", columns=COLUMNS)
    yield BenchTable(
        title="The page of the columns",
        says=f"{COLUMNS} columns, a third of them of categories, of numbers and of dates each. Time of the processor, "
        f"the median of {TURNS} visits.",
        heads=("what", "ours", "target"),
        rows=[
            BenchRow(cells=(what, f"{each:.0f} ms", f"{MILLISECONDS} ms"), is_met=each <= MILLISECONDS)
            for what, each in found.items()
        ],
    )


def measure(folder: str, *, columns: int) -> dict[str, float]:
    """In an installation that is empty."""
    from django.contrib.auth.models import User
    from django.test import Client
    from django.urls import reverse

    from releases import services
    from releases.models import HeldRole

    names = [f"question {place}" for place in range(columns)]
    path = Path(folder) / "wide.csv"
    path.write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    owner = User.objects.create(username="curator")
    HeldRole.objects.create(person=owner, role="curator")
    dataset = services.datasets.ingest_dataset(owner=owner, title="Wide", source=path)
    visitor = Client()
    visitor.force_login(owner)
    address = reverse("columns", args=[dataset.pk])
    found = {"nothing is declared yet": _milliseconds(partial(visitor.get, address))}
    declared = [{"name": name, **_DECLARED[place % len(_DECLARED)]} for place, name in enumerate(names)]
    services.datasets.declare_universe(dataset=dataset, columns=declared, by=owner)
    found["every column is declared"] = _milliseconds(partial(visitor.get, address))
    typed = visitor.get(address).context["formset"].initial
    sent = {f"form-{place}-{field}": value for place, row in enumerate(typed) for field, value in row.items()}
    sent |= {"form-TOTAL_FORMS": len(typed), "form-INITIAL_FORMS": len(typed), "check": "1"}
    checked = partial(visitor.post, address, sent, headers={"HX-Request": "true"})
    return {**found, "checked after a change": _milliseconds(checked)}


_DECLARED: list[dict[str, Any]] = [
    {"type": "categorical", "categories": ["never", "sometimes", "often", "no value"], "missing_as": "no value"},
    {"type": "integer", "edges": [0, 18, 40, 65, 120], "missing_as": "no number"},
    {"type": "date", "first": "2024-01-01", "last": "2024-12-31", "by": "month", "missing_as": "no date"},
]


def _milliseconds(ask: Callable[[], Any]) -> float:
    """Of the processor, after a first time that reads templates."""
    taken = []
    for _ in range(TURNS + 1):
        began = process_time()
        shown = ask()
        taken.append(1000 * (process_time() - began))
        assert shown.status_code == 200
    return median(taken[1:])
