"""The sample survey in PostgreSQL and in Spark, as `manage.py demo --scale` loads it and releases from it."""

from __future__ import annotations

import csv
import json
import uuid
from bisect import bisect_right
from collections import Counter
from itertools import combinations

import psycopg
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError

from releases import services
from releases.engine.domain.schema import Schema
from releases.engine.tables import query
from releases.engine.tables.query import TableCounts, open_table
from releases.management import scale
from releases.management.commands import demo
from releases.models import Budget, EntryKind, RegisteredConnection, ReleaseState
from tests.conftest import POSTGRES_URL

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.slow]

DECLARED = json.loads(demo.SAMPLE.with_suffix(".json").read_text())
PASSWORD = "of the demo"


@pytest.fixture
def sources(spark_server, tmp_path, monkeypatch):
    """The address of each database, by its name on the site."""
    monkeypatch.setenv(f"CONNECTION_{demo.POSTGRESQL.upper()}_PASSWORD", PASSWORD)
    schema, name = Schema.from_json(DECLARED), f"dpweb_test_{uuid.uuid4().hex[:12]}"
    made = [
        scale.load_into_postgresql(demo.SAMPLE, schema, server=POSTGRES_URL, password=PASSWORD, database=name)
        # A second start finds what the first has made.
        for _ in range(2)
    ]
    try:
        on_spark = scale.load_into_spark(demo.SAMPLE, schema, folder=tmp_path / "people", port=spark_server)
        yield {demo.POSTGRESQL: made[-1], demo.SPARK: on_spark}
        scale.run_in_spark(spark_server, "DROP DATABASE survey CASCADE")
    finally:
        with psycopg.connect(POSTGRES_URL, autocommit=True) as owner:
            owner.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())
            owner.execute(f'DROP ROLE "{scale.role_of(name)}"'.encode())


def test_both_count_what_the_file_holds(sources, opens_tables):
    schema = Schema.from_json(DECLARED)
    names = schema.universe.names
    pairs = list(combinations(names, 2))
    with demo.SAMPLE.open() as lines:
        rows = [dict(zip(names, codes, strict=True)) for codes in map(codes_of, csv.DictReader(lines))]
    for name, address in sources.items():
        url = address.replace("@", f":{PASSWORD.replace(' ', '%20')}@")
        table = open_table(f"{url}#{scale.TABLE}")
        for pair, counts in zip(pairs, TableCounts(table, schema).marginals(pairs), strict=True):
            expected = Counter((row[pair[0]], row[pair[1]]) for row in rows)
            found = {bins: int(counts[bins]) for bins in zip(*counts.nonzero(), strict=True)}
            assert found == expected, (name, pair)
        if name == demo.SPARK:
            table.close()


def codes_of(row):
    """The bins of a row; ages and sizes beyond the last edge are in the last bin."""
    for column in DECLARED["columns"]:
        text = row[column["name"]]
        if "categories" in column:
            yield column["categories"].index(text)
        else:
            inner = column["edges"][1:-1]
            yield bisect_right(inner, int(text))


def test_the_demo_releases_from_both_by_one_budget_and_the_receipts_name_them(sources, monkeypatch):
    # That Spark passes it is a test of its own.
    monkeypatch.setattr(query, "refuse_unless_right", lambda server, counted: None)
    command = demo.Command()
    demo.settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
    command._make_accounts()
    curator, reviewer = (User.objects.get(username=each) for each in ("curator", "reviewer"))
    survey = command._submit(curator, reviewer)[0].dataset
    releases = command._submit_from(sources, survey, curator, reviewer)
    confirmed = RegisteredConnection.objects.order_by("name").values_list("name", "reads_only")
    assert list(confirmed) == [(demo.POSTGRESQL, False), (demo.SPARK, True)]
    assert [each.pk for each in command._submit_from(sources, survey, curator, reviewer)] == [e.pk for e in releases]
    for release, name in zip(releases, sources, strict=True):
        assert services.execution.execute_release(release_id=release.pk)
        release.refresh_from_db()
        assert release.status is ReleaseState.PUBLISHED
        assert release.result["receipt"]["source"] == {"database": name, "table": scale.TABLE}
    assert Budget.objects.get().entries.filter(kind=EntryKind.CHARGE).count() == len(demo.MECHANISMS) + 2


def test_what_is_missing_is_said_before_anything_is_started(monkeypatch, tmp_path):
    monkeypatch.setenv(f"CONNECTION_{demo.POSTGRESQL.upper()}_PASSWORD", "")
    command, started = demo.Command(), []

    def refused(match, server=POSTGRES_URL):
        with pytest.raises(CommandError, match=match):
            command._start_databases(server, tmp_path, started)
        assert not started

    nowhere = "postgresql://postgres@127.0.0.1:1/postgres"
    refused(r"--scale: PostgreSQL does not answer", server=nowhere)
    monkeypatch.setattr(scale, "find_spec", lambda name: None)
    refused(r"--scale: Spark is not installed here: install dpweb\[spark\]")
    monkeypatch.setattr(scale.shutil, "which", lambda name: None)
    refused(r"--scale: Spark needs Java")
