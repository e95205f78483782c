"""Played from a recording, a thing is the same as made; and whoever changes something first gets it made."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from releases import services
from tests.web import recordings
from tests.web.undoing import rolled_back


def everything(folder):
    """Every row of every table, and every file, times too."""
    with connection.cursor() as cursor:
        rows = {table: cursor.execute(f'SELECT * FROM "{table}"').fetchall() for table in recordings._tables()}
    return rows, recordings._files(folder)


@pytest.fixture
def from_nothing():
    kept = dict(recordings._recordings)
    recordings._recordings.clear()
    yield
    recordings._recordings.clear()
    recordings._recordings.update(kept)


def test_what_is_played_is_in_every_row_and_file_what_was_made(from_nothing, make_dataset, make_queued, once, tmp_path):
    before, seen, objects = recordings._files(tmp_path), [], []
    for _ in range(2):
        with rolled_back():
            dataset = make_dataset()
            queued = once("queued", lambda dataset=dataset: make_queued(dataset))
            once("published", lambda queued=queued: services.execution.execute_release(release_id=queued.pk) and queued)
            seen.append(everything(tmp_path))
            objects.append((dataset, queued))
        for path in recordings._files(tmp_path):
            (tmp_path / path).unlink()
        for path, content in before.items():
            (tmp_path / path).write_bytes(content)
    assert len(recordings._recordings) == 3, "the second was made as well"
    assert seen[0] == seen[1]
    assert objects[0] == objects[1]
    assert len(seen[0][0]["releases_ledgerentry"]) == 2
    assert len(seen[0][1]) > len(before) + 5


@pytest.fixture
def made(once, group):
    """How often a group was really made, and the function that asks for one."""
    times = []

    def make():
        times.append(1)
        return Group.objects.create(name=f"Group {len(Group.objects.all())}")

    def ask():
        with rolled_back():
            once("a group", make)
        return len(times)

    return ask


def test_it_is_made_once_and_again_where_a_row_a_file_or_a_setting_is_another(from_nothing, made, settings, tmp_path):
    assert [made(), made(), made()] == [1, 1, 1]
    Group.objects.create(name="One more")
    assert [made(), made()] == [2, 2]
    (tmp_path / "tables").mkdir(exist_ok=True)
    (tmp_path / "tables" / "more").write_bytes(b"more")
    assert [made(), made()] == [3, 3]
    settings.UPLOAD_CAP_MB = 3
    assert [made(), made()] == [4, 4]
    settings.TABLES_DIR = tmp_path.parent
    assert [made(), made()] == [5, 6]


def test_it_is_made_for_whoever_has_patched_something(from_nothing, made, make_dataset, monkeypatch):
    make_dataset()
    made()
    monkeypatch.setattr(services.datasets, "ingest_dataset", lambda **_: pytest.fail("it was made"))
    assert [made(), made()] == [2, 3]
    with pytest.raises(pytest.fail.Exception, match="it was made"):
        make_dataset()
