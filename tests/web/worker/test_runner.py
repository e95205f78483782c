"""Every table is read in a process of its own that can reach nothing else, and that cannot hold up what others do."""

import ast
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from celery import current_app
from django.conf import settings as site

from releases import services, tasks
from releases.engine.tables import connection
from releases.engine.tables.facts import UnreadableTable
from releases.models import Fingerprint, ReleaseState, UploadState
from releases.services import fingerprints, reading
from releases.services.datasets import upload_limits
from releases.storage import scratch
from releases.worker import jobs, runner
from tests.web.conftest import CSV
from tests.web.steps import again, execute

pytestmark = pytest.mark.confined

ROOT = Path(__file__).resolve().parents[3]


def probe(monkeypatch, code):
    """Run code as a job: in a reader of its own whose module of jobs has one more. Its value is the answer."""
    monkeypatch.setattr(runner, "_requests", None)
    monkeypatch.setattr(runner, "_reader", None)
    made = runner._make

    def with_probe(requests, compiled):
        program = (
            "import sys\nfrom releases.worker import confinement, jobs, reader\nimport socket\n"
            f"def probe(*, limits, report=None):\n{textwrap.indent(textwrap.dedent(code), '    ')}\n"
            "jobs.JOBS['probe'] = probe\nconfinement.dies_with_parent(int(sys.argv[2]))\n"
            "reader.serve(socket.socket(fileno=int(sys.argv[1])), warm=False)\n"
        )
        popen = subprocess.Popen

        def as_probe(command, **given):
            return popen([sys.executable, "-c", program, *command[3:]], **given)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(subprocess, "Popen", as_probe)
            return made(requests, compiled)

    monkeypatch.setattr(runner, "_make", with_probe)


def asked(seconds=60, memory=2**31, **given):
    def probe():
        raise AssertionError("it is run by name in another process")

    return runner.run(probe, limits=scratch.limits(), memory=memory, seconds=seconds, **given)


@pytest.fixture
def ended():
    """Readers that a test made end with it."""
    yield
    runner._end()


# What a process that reads is denied


def test_it_makes_no_socket_and_neither_does_what_it_starts(monkeypatch, ended):
    probe(
        monkeypatch,
        """
        import subprocess
        made = [
            lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM),
            lambda: socket.socket(socket.AF_UNIX),
            lambda: socket.create_connection(("127.0.0.1", 5432)),
            lambda: subprocess.run([sys.executable, "-c", "import socket; socket.socket()"], check=True),
        ]
        said = []
        for make in made:
            try:
                said.append(f"made {make()}")
            except Exception as error:
                said.append(str(error))
        return said
        """,
    )
    *refused, started = asked()
    assert len(refused) == 3
    assert all("Permission denied" in each for each in refused)
    assert "non-zero exit status" in started


def test_only_a_registered_database_is_reached_over_the_network(monkeypatch, ended):
    probe(monkeypatch, "socket.socket().close()\nreturn 'made'")
    assert asked(has_network=True) == "made"
    with pytest.raises(runner.Failed):
        asked(has_network=False)
    assert reading._network("postgresql://user@host/database#table") == {"has_network": True}
    assert reading._network("/tables/one.parquet") == {"has_network": False}


def test_memory_beyond_its_limit_is_refused(monkeypatch, ended):
    probe(monkeypatch, "import numpy\nreturn int(numpy.ones(200_000_000).sum())")
    with pytest.raises(runner.OverLimit, match=r"^It takes more memory than a table may take\.$"):
        asked(memory=2**30)
    assert asked(memory=2**33) == 200_000_000


def test_where_duckdb_finds_no_memory_the_reason_is_the_same(monkeypatch, ended):
    filled = "held = []\ntry:\n    while True: held.append(bytearray(2**20))\nexcept MemoryError: pass\n"
    probe(monkeypatch, filled + "import duckdb\nduckdb.execute('SELECT list(i) FROM range(10_000_000) AS t(i)')")
    with pytest.raises(runner.OverLimit, match="more memory"):
        asked(memory=2**30)


def test_a_job_that_takes_too_long_is_ended_wherever_it_is(monkeypatch, ended):
    probe(monkeypatch, "import numpy\nwhile True: numpy.sort(numpy.ones(10_000_000))")
    with pytest.raises(runner.OverLimit, match="longer"):
        asked(seconds=12)


def test_a_process_that_is_killed_gives_one_reason_and_the_next_job_is_done(monkeypatch, ended):
    probe(monkeypatch, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    for _ in range(2):
        with pytest.raises(runner.Ended, match="ended before it was done") as error:
            asked()
        assert not isinstance(error.value, runner.Crashed)


def test_a_reader_that_is_killed_is_made_again(monkeypatch, ended):
    probe(monkeypatch, "return 7")
    assert asked() == 7
    os.kill(runner._reader.pid, signal.SIGKILL)
    time.sleep(0.2)
    assert asked() == 7


def test_it_knows_no_secret_of_the_site(monkeypatch, ended):
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("SECRET_KEY_FILE", "/secret")
    for of_another in ("AWS_ACCESS_KEY_ID", "PGPASSWORD", "PGHOSTADDR", "PGSERVICE", "PGOPTIONS"):
        monkeypatch.setenv(of_another, "of another program")
    probe(monkeypatch, "import os\nreturn sorted(os.environ)")
    known = set(asked())
    assert not {"DATABASE_URL", "SECRET_KEY_FILE", "AWS_ACCESS_KEY_ID"} & known
    assert not [each for each in known if each.startswith("PG")]
    assert "AWS_EC2_METADATA_DISABLED" in known


def test_an_answer_names_no_code_but_the_engine_s_classes(monkeypatch, ended):
    bad = "class Bad:\n    def __reduce__(self):\n        import os\n        return os.system, ('true',)\nreturn Bad()"
    probe(monkeypatch, bad)
    with pytest.raises(runner.Ended):
        asked()


def test_what_it_raises_is_not_what_is_said_of_it(monkeypatch, ended, caplog):
    probe(monkeypatch, "print('Mrs Smith', flush=True)\nraise RuntimeError('Mrs Smith, 43')")
    with pytest.raises(runner.Failed) as error:
        asked()
    assert str(error.value) == "The table cannot be read."
    assert "RuntimeError at " in caplog.text
    assert "Smith" not in caplog.text


# Every way to a table


def test_a_process_that_nothing_confines_opens_no_table(tmp_path):
    for opening in (
        lambda: connection.connect(paths=[]),
        lambda: jobs.open_table(str(tmp_path / "one.parquet")),
        lambda: jobs.open_table("postgresql://nobody@127.0.0.1/none#table"),
    ):
        with pytest.raises(connection.Unconfined):
            opening()


def test_one_module_makes_connections_and_every_other_way_to_one_is_forbidden():
    """DuckDB's functions of the module use a connection of their own, which nothing confines."""
    allowed = {"Error", "IOException", "OutOfMemoryException", "DuckDBPyConnection"}
    allowed |= {"tokenize"}  # Splits a text into words, without a connection.
    found = []
    for path in [*(ROOT / "releases").rglob("*.py"), *(ROOT / "dpweb").rglob("*.py")]:
        if path == ROOT / "releases/engine/tables/connection.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "duckdb":
                found += [f"{path.name}: duckdb.{node.attr}"] if node.attr not in allowed else []
            if isinstance(node, ast.Attribute) and node.attr == "duckdb":
                found.append(f"{path.name}: a module's duckdb")
            if isinstance(node, ast.ImportFrom) and node.module == "duckdb":
                found += [f"{path.name}: {each.name}" for each in node.names if each.name not in allowed]
            if isinstance(node, ast.Import):
                names = (each for each in node.names if each.name == "duckdb" and each.asname)
                found += [f"{path.name}: {each.name} as {each.asname}" for each in names]
    assert found == []


#: What each task is given to do, so that it comes to a table; and the jobs by which it does.
DRIVEN = {
    "releases.execute": (lambda made: tasks.execute(release_id=str(made["release"].pk)), ["release"]),
    "releases.read_upload": (lambda made: tasks.read_upload(upload_id=str(made["upload"].pk)), ["upload"]),
    "releases.take_fingerprint": (
        lambda made: tasks.take_fingerprint(dataset_id=str(made["release"].dataset_id)),
        ["digest", "sketch"],
    ),
    "releases.take_fingerprints": (lambda made: tasks.take_fingerprints(), []),
    # It runs a plan on invented rows, and comes to no table.
    "releases.test_disclosure": (lambda made: tasks.test_disclosure(release_id=str(made["release"].pk)), []),
    # It reads what was released.
    "releases.report_attack": (lambda made: tasks.report_attack(release_id=str(made["release"].pk)), []),
}


#: Jobs that no task asks for: a page waits for each of them.
OF_PAGES = {"start_of_upload", "opened_session", "count", "tables_of_server", "columns_of_server", "version_of_object"}


def test_every_job_is_asked_for_by_a_task_or_a_page():
    assert set(jobs.JOBS) == OF_PAGES.union(*(named for _, named in DRIVEN.values()))


@pytest.fixture
def receive(alice, upload_file):
    """A table that alice sends, by its rows or its file."""

    def received(source, title="Sent"):
        path = upload_file(source) if isinstance(source, bytes) else source
        return services.uploads.receive_upload(owner=alice, title=title, source=path)

    return received


def read(upload):
    """Whether a worker has stored it."""
    return services.uploads.execute_upload(upload_id=upload.pk)


def test_every_task_comes_to_its_table_through_the_runner(queued, receive, monkeypatch):
    """A task that is not driven here, or that opens a table in its own process, fails by its name."""
    names = {name for name in current_app.tasks if name.startswith("releases.")}
    assert names == set(DRIVEN), "a task of which nothing shows that it reads through the runner"
    made = {"release": queued, "upload": receive(CSV + b"x,20,male\n")}
    # Approving the budget has taken the digest.
    Fingerprint.objects.all().delete()
    monkeypatch.setattr("releases.worker.leases.hint", lambda *_, **__: None)
    run, ran = runner.run, []
    monkeypatch.setattr(runner, "run", lambda job, **given: ran.append(job.__name__) or run(job, **given))
    for name, (drive, expected) in DRIVEN.items():
        ran.clear()
        drive(made)
        assert ran == expected, name
    assert (again(queued).state, again(made["upload"]).state) == (ReleaseState.PUBLISHED, UploadState.STORED)


def test_what_an_uploader_can_choose_waits_in_the_queue_of_uploads_alone():
    routes = {name: route["queue"] for name, route in site.CELERY_TASK_ROUTES.items()}
    from_releases = {name for name in DRIVEN if name not in routes}
    assert from_releases == {"releases.execute"}
    assert set(routes.values()) == {site.UPLOADS_QUEUE}
    assert site.UPLOADS_QUEUE != site.CELERY_TASK_DEFAULT_QUEUE


# What somebody else chooses


def test_a_small_file_that_unfolds_to_sixty_gigabytes_is_refused_at_once(receive, tmp_path):
    path = tmp_path / "bomb.parquet"
    values = pa.DictionaryArray.from_arrays(np.zeros(6_000_000, dtype=np.int32), pa.array(["x" * 9_999]))
    pyarrow.parquet.write_table(pa.table({"a": values}), path)
    assert path.stat().st_size < 20_000
    received = receive(path)
    assert not read(received)
    received.refresh_from_db()
    assert (received.state, received.attempts) == (UploadState.REFUSED, 1)
    assert received.refusal == "The Parquet file unfolds to more than 200 times its size, or 200 MB if that is more."
    refused = f"""
        import time
        from pathlib import Path
        from releases.engine.tables import connection
        from releases.engine.tables.files import ingest
        connection.this_process_is_confined()
        begun = time.process_time()
        try:
            ingest.ingest(Path({str(path)!r}), Path({str(tmp_path)!r}) / "made", digest_key=b"k")
        except ingest.UnreadableTable:
            print(time.process_time() - begun)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(refused)], cwd=ROOT, capture_output=True, text=True)
    assert 0 < float(done.stdout) < 2, done.stderr


def test_a_column_of_lists_is_refused_before_it_is_made_into_text(tmp_path):
    """Of lists 2 kB took 200 s and all memory."""
    pyarrow.parquet.write_table(pa.table({"a": [["x" * 9] * 900] * 100}), tmp_path / "bomb.parquet")
    with pytest.raises(UnreadableTable, match="no single values"):
        reading.upload(tmp_path / "bomb.parquet", tmp_path / "stored.parquet", table=upload_limits())


def killed(*_, **__):
    raise runner.Ended("The process that read the table ended before it was done.")


def test_a_reading_that_is_killed_each_time_is_given_up(queued, receive, monkeypatch, settings):
    settings.MAX_ATTEMPTS = 3
    upload = receive(CSV + b"x,20,male\n")
    # Approving the budget has taken the digest.
    Fingerprint.objects.all().delete()
    with monkeypatch.context() as patched:
        patched.setattr(runner, "run", killed)
        for _ in range(6):
            read(upload)
            execute(queued)
            services.fingerprints.take_fingerprint(dataset_id=queued.dataset_id)
    upload.refresh_from_db()
    queued.refresh_from_db()
    print_of = Fingerprint.objects.get(dataset=queued.dataset)
    assert (upload.state, upload.attempts) == (UploadState.FAILED, 3)
    assert (queued.state, queued.attempts) == (ReleaseState.FAILED, 3)
    assert (print_of.digest_attempts, print_of.sketch_attempts) == (3, 3)
    assert services.fingerprints.is_incomparable(queued.dataset.budget)


@pytest.mark.parametrize(("error", "times"), [(SystemExit(), 3), (runner.OverLimit("It takes longer."), 1)])
def test_a_fingerprint_that_kills_its_worker_or_takes_too_long_is_not_taken_up_for_ever(
    dataset, monkeypatch, settings, error, times
):
    """Nothing runs after SIGKILL, so the attempt is on record before it begins."""
    settings.MAX_ATTEMPTS = 3
    begun = []

    def ends(*_, **__):
        begun.append(1)
        raise error

    monkeypatch.setattr(reading, "sketch", ends)
    for _ in range(9):
        with suppress(SystemExit):
            fingerprints.take_fingerprint(dataset_id=dataset.pk)
    assert len(begun) == times
