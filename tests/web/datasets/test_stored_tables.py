"""Stored tables: read only as they were stored, by a database that reaches nothing else, and readable by nobody."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from django.core.management import CommandError, call_command

from releases import services
from releases.engine.tables import ingest as engine_ingest
from releases.engine.tables import query
from releases.ledger import verification
from releases.models import Attempt, Dataset, EntryKind, ReleaseState, Session, SessionAnswer
from releases.publication import files
from releases.services import stored_tables, uploads
from releases.services.datasets import table_path
from releases.storage import private_files, scratch
from releases.worker import runner

pytestmark = [pytest.mark.django_db, pytest.mark.confined]

MEN, WOMEN = {"sex": ["male"]}, {"sex": ["female"]}


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


@pytest.fixture
def session(dataset, alice):
    live = services.sessions.draft_session(dataset=dataset, by=alice, title="Ask", epsilon="1")
    services.releases.submit_release(release=live, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=live.pk)
    return Session.objects.get()


def until_it_ends(release, settings):
    for _ in range(settings.MAX_ATTEMPTS):
        assert not services.execution.execute_release(release_id=release.pk)
    release.refresh_from_db()


# The digest


def test_what_is_noted_is_the_sha_256_of_the_file(alice, upload_file):
    received = services.uploads.receive_upload(owner=alice, title="Survey", source=upload_file())
    assert services.uploads.execute_upload(upload_id=received.pk)
    brought = services.datasets.ingest_dataset(owner=alice, title="Brought", source=upload_file())
    for dataset in (Dataset.objects.get(title="Survey"), brought):
        told = subprocess.run(["sha256sum", path_of(dataset)], capture_output=True, text=True, check=True)
        assert dataset.file_sha256 == told.stdout.split()[0]


@pytest.mark.parametrize("change", [replace_by_invented_rows, write_into])
def test_a_table_that_was_changed_is_not_released_and_the_charge_is_given_back(queued, settings, change, unread):
    change(queued.dataset)
    until_it_ends(queued, settings)
    assert queued.state == ReleaseState.FAILED
    assert [each.kind for each in queued.entries.order_by("sequence")] == [EntryKind.CHARGE, EntryKind.RETURN]
    assert set(Attempt.objects.values_list("opened_at", "failure")) == {(None, "TableChanged")}
    assert list(verification.verify(queued.dataset.budget)) == []


def test_no_session_is_opened_on_a_table_that_was_changed(dataset, alice, settings, unread):
    live = services.sessions.draft_session(dataset=dataset, by=alice, title="Ask", epsilon="1")
    services.releases.submit_release(release=live, key=uuid.uuid4(), by=alice, send=False)
    write_into(dataset)
    until_it_ends(live, settings)
    assert live.state == ReleaseState.FAILED
    assert not Session.objects.exists()


def test_a_session_answers_nothing_from_a_table_that_was_changed(session, dataset, alice, unread, monkeypatch):
    # Even where this process has hashed it a moment ago and keeps that in mind.
    monkeypatch.setattr(stored_tables, "_SETTLED_NS", -(10**12))
    stored_tables.checked(dataset)
    write_into(dataset)
    with pytest.raises(services.release_inputs.Refusal, match="Nothing was answered and nothing is used up"):
        services.sessions.ask_session(session=session, query=MEN, by=alice)
    assert not SessionAnswer.objects.exists()


def test_a_certificate_is_not_made_from_a_table_that_was_changed(published, alice, settings, unread):
    certificate = services.certificates.draft_certificate(of=published, by=alice, epsilon="0.1")
    services.releases.submit_release(release=certificate, key=uuid.uuid4(), by=alice, send=False)
    write_into(published.dataset)
    until_it_ends(certificate, settings)
    assert certificate.state == ReleaseState.FAILED
    assert certificate.entries.filter(kind=EntryKind.RETURN).exists()


def test_a_table_that_is_changed_while_it_is_read_is_not_published_and_the_charge_stays(queued, settings, monkeypatch):
    run = runner.run

    def changed_meanwhile(*args, **kwargs):
        made = run(*args, **kwargs)
        write_into(queued.dataset)
        return made

    monkeypatch.setattr(runner, "run", changed_meanwhile)
    until_it_ends(queued, settings)
    assert (queued.state, queued.result) == (ReleaseState.FAILED, None)
    assert [each.kind for each in queued.entries.all()] == [EntryKind.CHARGE]


def test_a_table_of_which_no_digest_is_on_record_is_not_read(queued, settings, unread):
    Dataset.objects.update(file_sha256="")
    until_it_ends(queued, settings)
    assert queued.state == ReleaseState.FAILED


def test_a_session_hashes_its_table_once_and_a_run_each_time(session, dataset, alice, monkeypatch):
    monkeypatch.setattr(stored_tables, "_SETTLED_NS", -(10**12))
    hashed = hashed_by(monkeypatch)
    for _ in range(3):
        stored_tables.checked(dataset, rehash=False)
    assert hashed == [path_of(dataset)]
    stored_tables.checked(dataset)
    assert hashed == [path_of(dataset)] * 2


def test_a_file_that_was_changed_just_now_is_hashed_again(dataset, monkeypatch):
    monkeypatch.setattr(stored_tables, "_SETTLED_NS", 10**15)
    hashed = hashed_by(monkeypatch)
    for _ in range(2):
        stored_tables.checked(dataset, rehash=False)
    assert len(hashed) == 2


def test_a_table_in_a_database_of_its_own_is_not_checked(dataset):
    Dataset.objects.update(location="connection://clinic#ward.people", file_sha256="")
    # Its database is asked instead, once the settings name one.
    with pytest.raises(services.connections.Unavailable):
        stored_tables.checked(Dataset.objects.get())
    assert list(services.stored_tables.faults()) == []


# The audit


def audit():
    said, wrong = io.StringIO(), io.StringIO()
    call_command("audit", stdout=said, stderr=wrong)
    return said.getvalue()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (write_into, "is not the one that was stored"),
        (replace_by_invented_rows, "is not the one that was stored"),
        (lambda dataset: path_of(dataset).unlink(), "is missing"),
        (lambda dataset: Dataset.objects.update(file_sha256=""), "not on record"),
    ],
)
def test_the_audit_names_tables_that_are_missing_or_changed(dataset, change, said):
    change(dataset)
    wrong = io.StringIO()
    with pytest.raises(CommandError):
        call_command("audit", stdout=io.StringIO(), stderr=wrong)
    assert f"Survey ({dataset.pk})" in wrong.getvalue()
    assert said in wrong.getvalue()


def test_rows_that_were_deleted_are_not_missed(dataset, alice):
    services.datasets.delete_rows(dataset=dataset, by=alice)
    assert list(services.stored_tables.faults()) == []


# Who can read the files


def test_everything_that_is_written_is_for_the_site_s_account_alone(published, dataset, alice, upload_file, settings):
    received = services.uploads.receive_upload(owner=alice, title="Another", source=upload_file())
    scratch.limits()
    for path in (received.location and uploads.incoming_folder() / received.location, path_of(dataset)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (settings.TABLES_DIR, uploads.incoming_folder(), files.folder_of(published), settings.MARKS_DIR):
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
    for path in files.folder_of(published).iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(private_files.open_to_others()) == []


def test_a_looser_umask_changes_nothing_of_tables_and_results(make_dataset, make_queued):
    before = os.umask(0)
    try:
        release = make_queued(make_dataset())
        assert services.execution.execute_release(release_id=release.pk)
    finally:
        os.umask(before)
    release.refresh_from_db()
    for path in (path_of(release.dataset), *files.folder_of(release).iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path_of(release.dataset).parent, files.folder_of(release), files.folder_of(release).parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("module", ["dpweb.wsgi", "dpweb.celery", "dpweb.settings"])
def test_every_way_in_sets_the_umask_before_anything_is_written(module, tmp_path):
    code = f"import os; os.umask(0); import {module}; print(oct(os.umask(0)))"
    environment = {**os.environ, "DATA_DIR": str(tmp_path / "var"), "DJANGO_SETTINGS_MODULE": "dpweb.settings"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0o77"
    made = [path for path in (tmp_path / "var").rglob("*") if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert made == []


def test_the_audit_names_files_that_others_can_read_and_an_upgrade_tightens_them(dataset, settings):
    path_of(dataset).chmod(0o644)
    path_of(dataset).parent.chmod(0o755)
    wrong = io.StringIO()
    with pytest.raises(CommandError, match="2 faults in tables and files"):
        call_command("audit", stdout=io.StringIO(), stderr=wrong)
    assert f"{path_of(dataset)}: others can read it" in wrong.getvalue()
    assert private_files.make_private() == []
    assert list(private_files.open_to_others()) == []
    assert audit()


def test_static_files_stay_readable(settings):
    settings.STATIC_ROOT = Path(settings.DATA_DIR) / "static"
    private_files.private_folder(settings.DATA_DIR)
    settings.STATIC_ROOT.mkdir(mode=0o755)
    settings.STATIC_ROOT.chmod(0o755)
    assert list(private_files.open_to_others()) == []


# What the database may reach

OUTSIDE = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM 'https://example.org/table.parquet'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "INSTALL h3 FROM community",
    "ATTACH '{folder}/other.db'",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "EXPORT DATABASE '{folder}/out'",
    "SELECT * FROM '{folder}/beside.parquet'",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET allowed_paths = ['/etc/passwd']",
    "SET memory_limit = '999GB'",
    "SET temp_directory = '/tmp'",
    "RESET memory_limit",
    "RESET lock_configuration",
    "SET threads = 64",
    "SET allowed_configs = ['threads']",
    "LOAD '{folder}/own.duckdb_extension'",
    "SELECT * FROM read_duckdb('{folder}/beside.parquet', table_name = 'people')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_single_parquet_file('{folder}/beside.parquet')",
    "SELECT * FROM parquet_full_metadata('{folder}/beside.parquet')",
    "CALL enable_profiling(save_location = '{folder}/profile.json')",
    "CALL enable_logging(storage = 'file', storage_path = '{folder}/log')",
    "CALL add_grammar_extension('own')",
    "CREATE PERSISTENT SECRET (TYPE http)",
    "ATTACH 'quack:localhost' AS other",
]


@pytest.fixture
def worker_connection(dataset, opens_tables):
    return query.open_table(stored_tables.checked(dataset).location, limits=scratch.limits()).connection


def test_a_worker_s_connection_reaches_its_table_and_nothing_else(worker_connection, dataset, tmp_path):
    pyarrow.parquet.write_table(pa.table({"a": [1]}), tmp_path / "beside.parquet")
    for statement in OUTSIDE:
        with pytest.raises(engine_ingest.duckdb.Error):
            pytest.fail(f"{statement}: {worker_connection.execute(statement.format(folder=tmp_path)).fetchall()}")
    assert worker_connection.execute(f"SELECT count(*) FROM '{path_of(dataset)}'").fetchone() == (200,)
    assert {path.name for path in tmp_path.glob("out*")} == set()


def test_a_worker_s_connection_sees_no_variable_of_the_program(worker_connection):
    people = pa.table({"a": [1]})
    assert people.num_rows == 1
    with pytest.raises(engine_ingest.duckdb.CatalogException):
        worker_connection.execute("SELECT * FROM people")


def test_memory_and_the_folder_for_what_does_not_fit_are_those_of_the_settings(dataset, settings, opens_tables):
    settings.DUCKDB_MEMORY_LIMIT = "123MiB"
    connection = query.open_table(table_path(dataset), limits=scratch.limits()).connection
    said = dict(connection.execute("SELECT name, value FROM duckdb_settings()").fetchall())
    assert said["memory_limit"] == "123.0 MiB"
    folder = Path(said["temp_directory"])
    assert folder.parent == Path(settings.DATA_DIR) / "tmp"
    assert str(os.getpid()) in folder.name
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, folder.parent)] == [0o700] * 2


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


def test_an_upgrade_notes_the_files_that_are_there(dataset):
    import importlib

    from django.apps import apps

    migration = importlib.import_module("releases.migrations.0025_attempts")
    Dataset.objects.update(file_sha256="")
    missing = services.datasets.ingest_dataset(owner=dataset.owner, title="Gone", source=path_of(dataset))
    Dataset.objects.update(file_sha256="")
    path_of(missing).unlink()
    migration.note_the_files(apps, None)
    assert Dataset.objects.get(pk=dataset.pk).file_sha256 == files.sha256_of(path_of(dataset))
    assert Dataset.objects.get(pk=missing.pk).file_sha256 == ""
