"""Stored tables: read only as they were stored, by a database that reaches nothing else, and readable by nobody."""

import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from django.core.management import CommandError, call_command

from releases import services
from releases.engine.tables import query
from releases.ledger import verification
from releases.models import Attempt, Dataset, EntryKind, ReleaseState, SessionAnswer
from releases.publication import files
from releases.services import stored_tables, uploads
from releases.services.datasets import table_path
from releases.storage import private_files, scratch
from releases.worker import runner

pytestmark = pytest.mark.confined


def path_of(dataset):
    return Path(table_path(dataset))


def replace_by_invented_rows(dataset):
    """Another table in its place, with the same columns."""
    pyarrow.parquet.write_table(pa.table({name: ["30"] * 50_000 for name in dataset.columns}), path_of(dataset))


def write_into(dataset):
    """One byte of the file itself, at the same length and with the same time of change of its content."""
    path, before = path_of(dataset), path_of(dataset).stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def hashed_by(monkeypatch):
    """What is hashed from here on, by a process that has hashed nothing before."""
    hashed, sha256_of = [], files.sha256_of
    monkeypatch.setattr(stored_tables, "_hashed", {})
    monkeypatch.setattr(files, "sha256_of", lambda path: hashed.append(path) or sha256_of(path))
    return hashed


def kinds(release):
    return [each.kind for each in release.entries.order_by("sequence")]


# The digest


def test_what_is_noted_is_the_sha_256_of_the_file(alice, upload_file, ingest):
    received = services.uploads.receive_upload(owner=alice, title="Received", source=upload_file())
    assert services.uploads.execute_upload(upload_id=received.pk)
    for dataset in (Dataset.objects.get(), ingest()):
        told = subprocess.run(["sha256sum", path_of(dataset)], capture_output=True, text=True, check=True)
        assert dataset.file_sha256 == told.stdout.split()[0]


def without_a_digest(dataset):
    Dataset.objects.update(file_sha256="")


@pytest.mark.parametrize("change", [replace_by_invented_rows, write_into, without_a_digest])
def test_a_table_that_was_changed_is_not_released_and_the_charge_is_given_back(queued, until_it_ends, change, unread):
    change(queued.dataset)
    assert until_it_ends(queued).state == ReleaseState.FAILED
    assert kinds(queued) == [EntryKind.CHARGE, EntryKind.RETURN]
    assert {each.opened_at for each in Attempt.objects.all()} == {None}
    assert {each.failure for each in Attempt.objects.all()} == {"TableChanged"}
    assert list(verification.verify(queued.dataset.budget)) == []


def test_a_session_answers_nothing_from_a_table_that_was_changed(session, dataset, alice, unread, monkeypatch):
    # Even where this process has hashed it a moment ago and keeps that in mind.
    monkeypatch.setattr(stored_tables, "_SETTLED_NS", -(10**12))
    stored_tables.checked(dataset, dataset.schema)
    write_into(dataset)
    with pytest.raises(services.release_inputs.Refusal, match="Nothing was answered and nothing is used up"):
        services.sessions.ask_session(session=session, query={"sex": ["male"]}, by=alice)
    assert not SessionAnswer.objects.exists()


def test_a_table_that_is_changed_while_it_is_read_is_not_published_and_the_charge_stays(
    queued, until_it_ends, monkeypatch
):
    run = runner.run

    def changed_meanwhile(*args, **kwargs):
        made = run(*args, **kwargs)
        write_into(queued.dataset)
        return made

    monkeypatch.setattr(runner, "run", changed_meanwhile)
    assert until_it_ends(queued).state == ReleaseState.FAILED
    assert (queued.result, kinds(queued)) == (None, [EntryKind.CHARGE])


def test_a_session_hashes_its_table_once_and_a_run_each_time(dataset, monkeypatch):
    monkeypatch.setattr(stored_tables, "_SETTLED_NS", -(10**12))
    hashed = hashed_by(monkeypatch)
    for _ in range(3):
        stored_tables.checked(dataset, dataset.schema, again=True)
    assert hashed == [path_of(dataset)]
    stored_tables.checked(dataset, dataset.schema)
    assert hashed == [path_of(dataset)] * 2
    # And each time where the file may have been changed just now.
    monkeypatch.setattr(stored_tables, "_SETTLED_NS", 10**15)
    hashed = hashed_by(monkeypatch)
    for _ in range(2):
        stored_tables.checked(dataset, dataset.schema, again=True)
    assert len(hashed) == 2


def test_a_table_in_a_database_of_its_own_is_not_checked(dataset):
    Dataset.objects.update(location="connection://clinic#ward.people", file_sha256="")
    # Its database is asked instead, once the settings name one.
    with pytest.raises(services.connections.Unavailable):
        stored_tables.checked(Dataset.objects.get(), dataset.schema)
    assert list(services.stored_tables.faults()) == []


# The audit


def audit():
    """What the audit finds wrong."""
    wrong = io.StringIO()
    with pytest.raises(CommandError, match=r"faults? in tables and files"):
        call_command("audit", stdout=io.StringIO(), stderr=wrong)
    return wrong.getvalue()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (replace_by_invented_rows, "is not the one that was stored"),
        (lambda dataset: path_of(dataset).unlink(), "is missing"),
        (without_a_digest, "not on record"),
    ],
)
def test_the_audit_names_tables_that_are_missing_or_changed(dataset, change, said):
    change(dataset)
    wrong = audit()
    assert f"Survey ({dataset.pk})" in wrong
    assert said in wrong


def test_rows_that_were_deleted_are_not_missed(dataset, alice):
    services.datasets.delete_rows(dataset=dataset, by=alice)
    assert list(services.stored_tables.faults()) == []


# Who can read the files


def modes(*paths):
    return {stat.S_IMODE(Path(each).stat().st_mode) for each in paths}


def test_everything_that_is_written_is_for_the_site_s_account_alone(published, dataset, alice, upload_file, settings):
    received = services.uploads.receive_upload(owner=alice, title="Another", source=upload_file())
    scratch.limits()
    incoming, folder = uploads.incoming_folder(), files.folder_of(published)
    assert received.location
    assert modes(incoming / received.location, path_of(dataset), *folder.iterdir()) == {0o600}
    assert modes(settings.TABLES_DIR, incoming, folder, settings.MARKS_DIR) == {0o700}
    assert list(private_files.open_to_others()) == []


def test_a_looser_umask_changes_nothing_of_tables_and_results(ingest, make_dataset, make_draft, carry_out):
    before = os.umask(0)
    try:
        table = path_of(ingest())
        folder = files.folder_of(carry_out(make_draft(make_dataset())))
    finally:
        os.umask(before)
    assert modes(table, *folder.iterdir()) == {0o600}
    assert modes(table.parent, folder, folder.parent) == {0o700}


@pytest.mark.parametrize("module", ["dpweb.wsgi", "dpweb.celery", "dpweb.settings"])
def test_every_way_in_sets_the_umask_before_anything_is_written(module, tmp_path):
    code = f"import os; os.umask(0); import {module}; print(oct(os.umask(0)))"
    environment = {**os.environ, "DATA_DIR": str(tmp_path / "var"), "DJANGO_SETTINGS_MODULE": "dpweb.settings"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0o77"
    made = [path for path in (tmp_path / "var").rglob("*") if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert made == []


def test_the_audit_names_files_that_others_can_read_and_an_upgrade_tightens_them(dataset):
    path_of(dataset).chmod(0o644)
    path_of(dataset).parent.chmod(0o755)
    wrong = audit()
    for path in (path_of(dataset), path_of(dataset).parent):
        assert f"{path}: others can read it" in wrong
    assert private_files.make_private() == []
    assert list(private_files.open_to_others()) == []
    call_command("audit", stdout=io.StringIO())


# What the database may reach

OUTSIDE = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM 'https://example.org/table.parquet'",
    "INSTALL httpfs",
    "ATTACH '{folder}/other.db'",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "SELECT * FROM '{folder}/beside.parquet'",
    "SET enable_external_access = true",
    "SET allowed_paths = ['/etc/passwd']",
    "SET memory_limit = '999GB'",
    "RESET lock_configuration",
    "LOAD '{folder}/own.duckdb_extension'",
    "SELECT * FROM read_duckdb('{folder}/beside.parquet', table_name = 'people')",
    "CALL enable_profiling(save_location = '{folder}/profile.json')",
    "CREATE PERSISTENT SECRET (TYPE http)",
]


def test_a_worker_s_connection_reaches_its_table_and_nothing_else(dataset, settings, opens_tables, tmp_path):
    settings.DUCKDB_MEMORY_LIMIT = "123MiB"
    connection = query.open_table(
        stored_tables.checked(dataset, dataset.schema).location, limits=scratch.limits()
    ).connection
    beside = pa.table({"a": [1]})
    pyarrow.parquet.write_table(beside, tmp_path / "beside.parquet")
    # Not even a variable of the program.
    for statement in (*OUTSIDE, "SELECT * FROM beside"):
        with pytest.raises(duckdb.Error):
            pytest.fail(f"{statement}: {connection.execute(statement.format(folder=tmp_path)).fetchall()}")
    assert connection.execute(f"SELECT count(*) FROM '{path_of(dataset)}'").fetchone() == (200,)
    assert {path.name for path in tmp_path.glob("out*")} == set()
    said = dict(connection.execute("SELECT name, value FROM duckdb_settings()").fetchall())
    assert said["memory_limit"] == "123.0 MiB"
    folder = Path(said["temp_directory"])
    assert folder.parent == Path(settings.DATA_DIR) / "tmp"
    assert str(os.getpid()) in folder.name
    assert modes(folder, folder.parent) == {0o700}


def test_what_dead_processes_put_aside_is_deleted_and_what_is_in_use_is_not(settings):
    own = scratch.limits().temp_folder
    old = own.parent / "of a process that is gone"
    old.mkdir()
    (old / "rows.tmp").write_text("31,male")
    long_ago = old.stat().st_mtime - settings.RELEASE_TIME_LIMIT - 60
    os.utime(old, (long_ago, long_ago))
    scratch.remove_left_over()
    assert (old.exists(), own.exists()) == (False, True)


# An upgrade
