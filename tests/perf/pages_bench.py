"""How fast the pages that list things answer, with 1,000 datasets and 10,000 releases in the database, and what they
weigh.

    python tests/perf/pages_bench.py [--datasets 1000] [--releases 10] [--rounds 21] [--check]

Every list page is asked for through the whole stack of middleware, views and templates, by the person who sees most of
it: alice owns every dataset, sofia reviews. The target is a median below 100 ms on a machine that does nothing else;
the CPU time beside it is what remains of it on a busy one. Pages shall weigh less than 150 kB compressed with all
they load, 500 kB with charts. With --check the status is 1 where a page misses one of these.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import sys
import tempfile
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

TARGET_SECONDS, TARGET_BYTES, TARGET_BYTES_WITH_CHARTS = 0.1, 150_000, 500_000
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=1000)
    parser.add_argument("--releases", type=int, default=10, help="of each dataset")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "static").mkdir()
        os.environ |= {"DATA_DIR": folder, "DJANGO_SETTINGS_MODULE": "dpweb.settings", "LOG_LEVEL": "ERROR"}
        os.environ["REQUIRE_SECOND_FACTOR"] = ""
        os.environ["MARKS_DIR"] = str(Path(folder) / "marks")
        os.environ.pop("DATABASE_URL", None)
        sys.path.insert(0, str(ROOT))
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        started = perf_counter()
        fill(given.datasets, given.releases)
        count = given.datasets * given.releases
        say(f"{given.datasets:,} datasets, {count:,} releases: made in {perf_counter() - started:.0f} s")
        missed = measure(given.rounds)
    return int(given.check and bool(missed))


def fill(datasets: int, releases: int) -> None:
    """People, datasets with budgets and columns, releases, requests, ledgers with whole chains, events."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from releases.engine.accounting.events import PureEvent
    from releases.engine.accounting.filters import Caps, Policy, Totals
    from releases.engine.domain.privacy import exact
    from releases.ledger import high_water_marks, stale_ledger, verification
    from releases.models import (
        AuditAction,
        AuditEvent,
        Budget,
        BudgetRequest,
        Dataset,
        EntryKind,
        HeldRole,
        LedgerEntry,
        Release,
        ReleaseRequest,
        Searchable,
    )
    from releases.models.release_contents import ReleasePlan, ReleaseResult
    from releases.publication.search_index import searchable

    now = timezone.now()
    alice = User.objects.create_user("alice", "alice@example.org")
    sofia = User.objects.create_user("sofia", "sofia@example.org")
    for role in ("reviewer", "administrator"):
        HeldRole.objects.create(person=sofia, role=role)
    curators = [alice, *(User.objects.create_user(f"curator{number}") for number in range(9))]
    declared = [{"name": f"column {n}", "type": "categorical", "categories": ["a", "b", "c"]} for n in range(8)]
    caps = Caps.of(Policy.ZCDP, epsilon=exact("9", field="epsilon"), delta=exact("0.000001", field="delta"))
    limits = {limit.column: limit.cap for branch in caps.branches for limit in branch.limits}
    granted = {"epsilon": "9", "delta": "0.000001", "caps": caps.to_json()}
    charged = {
        "events": [PureEvent(epsilon=Fraction(1, 10)).to_json()],
        "delta": "0",
        "neighbours": "add_remove",
        "policy": "zcdp",
    }
    column = {"name": "age", "type": "integer", "edges": [0, 18, 65, 120]}
    receipt = {
        "schema": {"version": 1, "columns": [column]},
        "workload": {"version": 1, "queries": [{"marginal": ["age"]}]},
        "answers": 3,
        "filler": "x" * 4000,
    }
    result = {"receipt": receipt, "files": ["answers.csv"]}
    plan = {"filler": "x" * 4000}
    budgets, tables, made, booked, events, asked, reviews = [], [], [], [], [], [], []
    for number in range(datasets):
        budget = Budget(
            name=f"Survey {number:04}",
            owner=alice,
            unit={"kind": "row"},
            neighbours="add_remove",
            policy="zcdp",
            epsilon="9",
            delta="0.000001",
            cap_epsilon=limits["spent_epsilon"],
            cap_delta=limits["spent_delta"],
            cap_rho=limits["spent_rho"],
            cap_rho_delta=limits["spent_rho_delta"],
        )
        dataset = Dataset(
            title=budget.name,
            owner=alice,
            digest=f"{number:064}",
            columns=[each["name"] for each in declared],
            location=f"{number}.parquet",
            declared=declared,
            budget=budget,
        )
        entry = _next_entry(budget, EntryKind.GRANT, sofia, granted, now - timedelta(days=400))
        budgets.append(budget)
        tables.append(dataset)
        booked.append(entry)
        if number % 2:
            asked.append(BudgetRequest(budget=budget, epsilon="12", delta="0.000001", requested_by=alice))
        for index in range(releases):
            state = ("published", "published", "queued", "draft", "withdrawn")[index % 5]
            is_done = state in ("published", "withdrawn")
            release = Release(
                dataset=dataset,
                title=f"Tables of {number:04}, no. {index}",
                state=state,
                is_public=state == "published",
                mechanism=("laplace-queries", "gaussian-queries", "laplace-histogram")[index % 3],
                epsilon="0.5",
                stored_plan=ReleasePlan.objects.create(content=plan) if state != "draft" else None,
                stored_result=ReleaseResult.objects.create(content=result) if is_done else None,
                published_at=now - timedelta(hours=number) if is_done else None,
                submitted_by=alice,
            )
            made.append(release)
            if state == "draft":
                reviews.append(
                    ReleaseRequest(release=release, key=release.pk, epsilon="0.5", requested_by=alice)
                    if number % 4 == 0
                    else None
                )
                continue
            amounts = Totals(spent_epsilon=10**11 + 10**8 * number, spent_rho=10**10)
            entry = _next_entry(
                budget,
                EntryKind.CHARGE,
                curators[(number + index) % 10],
                charged,
                now - timedelta(days=300 - 20 * index, minutes=number),
                release=release,
                amounts=amounts,
            )
            booked.append(entry)
            events.append(AuditEvent(action=AuditAction.SUBMIT, actor=alice, kind="release", name=release.title))
            events.append(AuditEvent(action=AuditAction.DOWNLOAD, actor=alice, kind="release", name=release.title))
    from django.db import connection

    with connection.cursor() as cursor:
        # The guard lets a budget begin with nothing only.
        cursor.execute(
            "DROP TRIGGER budget_begins_empty"
            if connection.vendor == "sqlite"
            else "DROP TRIGGER budget_moves_with_an_entry ON releases_budget"
        )
    Budget.objects.bulk_create(budgets, batch_size=500)
    Dataset.objects.bulk_create(tables, batch_size=500)
    Release.objects.bulk_create(made, batch_size=200)
    words = [Searchable(release=release, text=searchable(result)) for release in made if release.result]
    Searchable.objects.bulk_create(words, batch_size=500)
    LedgerEntry.objects.bulk_create(booked, batch_size=500)
    AuditEvent.objects.bulk_create(events, batch_size=500)
    BudgetRequest.objects.bulk_create(asked, batch_size=500)
    ReleaseRequest.objects.bulk_create([each for each in reviews if each], batch_size=500)
    stale_ledger.begin(budgets[0])
    for budget in budgets:
        high_water_marks.put(
            budget.pk, high_water_marks.Mark(sequence=budget.sequence, hash=budget.head, totals=budget.totals)
        )
    assert verification.is_whole(LedgerEntry.objects.order_by("?").first())


def _next_entry(budget, kind, actor, detail, made_at, *, release=None, amounts=None):
    """The next entry of a budget, and the budget moved along, as the ledger would."""
    import uuid

    from releases.engine.accounting.filters import Totals
    from releases.ledger import entries
    from releases.models import LedgerEntry

    amounts = amounts or Totals()
    budget.sequence += 1
    entry = LedgerEntry(
        budget=budget,
        sequence=budget.sequence,
        kind=kind,
        key=uuid.uuid4(),
        release=release,
        actor=actor,
        detail=detail,
        epsilon=amounts.spent_epsilon,
        rho=amounts.spent_rho,
        made_at=made_at,
        previous=budget.head,
    )
    entry.hash = entries.hash_of(entry)
    budget.head = entry.hash
    budget.spent_epsilon += amounts.spent_epsilon
    budget.spent_rho += amounts.spent_rho
    return entry


def pages() -> list[tuple[str, str, str]]:
    """Whose page, which page, with which filters."""
    from django.urls import reverse

    from releases.models import Budget, Dataset

    listed = [
        ("alice", "home", ""),
        ("alice", "dataset_list", ""),
        ("alice", "dataset_list", "page=20"),
        ("alice", "release_list", ""),
        ("alice", "release_list", "page=200"),
        ("alice", "session_list", ""),
        ("", "catalogue", ""),
        ("", "catalogue", "page=100"),
        ("", "catalogue", "q=Survey+0123"),
        ("sofia", "review_queue", ""),
        ("sofia", "budget_board", ""),
        ("sofia", "budget_board", "page=20"),
        ("sofia", "budget_board", "person=curator3&since=2020-01-01"),
        ("sofia", "ledger", ""),
        ("sofia", "ledger", "page=100"),
        ("sofia", "audit_log", ""),
        ("sofia", "audit_log", "page=200"),
        ("sofia", "audit_log", "person=alice&action=download"),
        ("sofia", "organisation", ""),
    ]
    addresses = [(who, reverse(name), query) for who, name, query in listed]
    addresses.append(("alice", reverse("dataset_detail", args=[Dataset.objects.first().pk]), ""))
    addresses.append(("sofia", reverse("budget_detail", args=[Budget.objects.first().pk]), ""))
    return addresses


def measure(rounds: int) -> list[str]:
    """A line for each page; the addresses that miss the target."""
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    missed = []
    say(f"{'page':<66}{'median':>10}{'of it CPU':>11}{'first':>10}{'queries':>9}{'kB':>7}{'all kB':>8}")
    for who, path, query in pages():
        client = Client(HTTP_HOST="localhost")
        if who:
            client.force_login(User.objects.get(username=who))
        address = f"{path}?{query}" if query else path
        with CaptureQueriesContext(connection) as queries:
            started = perf_counter()
            answer = client.get(address)
            first = perf_counter() - started
        asked = len(queries)
        assert answer.status_code == 200, (address, answer.status_code)
        times, busy = [], []
        for _ in range(rounds):
            started, worked = perf_counter(), process_time()
            client.get(address)
            times.append(perf_counter() - started)
            busy.append(process_time() - worked)
        own, everything, has_charts = weigh(answer.content)
        shown = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "..", address)
        say(
            f"{shown + (f' ({who})' if who else ''):<66}{1000 * median(times):>7.0f} ms{1000 * median(busy):>8.0f} ms"
            f"{1000 * first:>7.0f} ms"
            f"{asked:>9}{own / 1000:>7.0f}{everything / 1000:>8.0f}"
        )
        limit = TARGET_BYTES_WITH_CHARTS if has_charts else TARGET_BYTES
        if median(times) > TARGET_SECONDS or everything > limit:
            missed.append(address)
    say(json.dumps({"missed": missed}))
    return missed


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def weigh(content: bytes) -> tuple[int, int, bool]:
    """Bytes of a page, and with all it loads, compressed; and whether charts are among it."""
    own = len(gzip.compress(content, 6))
    loaded = set(re.findall(r'(?:src|href)="/static/(releases/[^"]+\.(?:js|css|svg))"', content.decode()))
    weights = [len(gzip.compress((ROOT / "releases/static" / name).read_bytes(), 6)) for name in sorted(loaded)]
    return own, own + sum(weights), any("vega" in name for name in loaded)


if __name__ == "__main__":
    sys.exit(main())
