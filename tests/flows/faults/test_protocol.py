"""The protocol of a release under everything that can go wrong: one charge, one output, nothing lost."""

import os
import shutil
import signal
import socket
import subprocess
import time
import uuid

import pytest

from tests.stack import Stack

COLUMNS = [{"name": "sex", "type": "categorical", "categories": ["f", "m"]}]

#: Where a process is killed: a function of the product, and whether right before or right after it.
STEPS = [
    ("releases.ledger.ledger", "_append", "after"),
    ("releases.services.releases", "enqueue", "before"),
    ("releases.ledger.high_water_marks", "raise_to", "before"),
    ("releases.ledger.high_water_marks", "raise_to", "after"),
    ("releases.services.execution", "_claim", "before"),
    ("releases.services.execution", "_claim", "after"),
    ("releases.services.execution", "_charged_plan", "after"),
    ("releases.services.attempts", "about_to_open", "before"),
    ("releases.services.attempts", "about_to_open", "after"),
    ("releases.ledger.high_water_marks", "note_claim", "before"),
    ("releases.ledger.high_water_marks", "note_claim", "after"),
    ("releases.worker.runner", "_follow", "before"),
    ("releases.worker.runner", "run", "after"),
    ("releases.publication.files", "write", "after"),
    ("releases.services.execution", "_publish", "before"),
    ("releases.ledger.high_water_marks", "note_published", "before"),
    ("releases.ledger.high_water_marks", "note_published", "after"),
    ("releases.services.execution", "_publish", "after"),
]

KILLED = """
import importlib, os, signal
module, name, moment = {step!r}
patched = importlib.import_module(module)
original = getattr(patched, name)
def killing(*arguments, **options):
    if moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    outcome = original(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(patched, name, killing)
"""

SUBMIT = """
from celery import current_app
current_app.send_task = lambda *arguments, **options: None
release = Release.objects.get(title={title!r})
if release.state == "draft":
    key = uuid.uuid5(uuid.NAMESPACE_OID, release.title)
    services.releases.submit_release(release=release, key=key, by=release.dataset.owner)
"""

EXECUTE = """
from celery import current_app
current_app.send_task = lambda *arguments, **options: None
services.execution.execute_release(release_id=Release.objects.get(title={title!r}).pk)
"""

#: The curator presses the same button again, and a worker reconciles when leases have lapsed.
RECOVER = """
import time
from celery import current_app
current_app.send_task = lambda *arguments, **options: None
for release in Release.objects.filter(state="draft"):
    key = uuid.uuid5(uuid.NAMESPACE_OID, release.title)
    services.releases.submit_release(release=release, key=key, by=release.dataset.owner)
deadline = time.monotonic() + 240
while Release.objects.exclude(state="published").exists() and time.monotonic() < deadline:
    services.execution.reconcile()
    for release in Release.objects.filter(state="queued"):
        services.execution.execute_release(release_id=release.pk)
    time.sleep(0.1)
"""

OUTCOME = """
from django.conf import settings
from releases.publication import files
from releases.ledger import verification
answer = {"spent": Budget.objects.get().spent_epsilon, "releases": {},
          "faults": [fault.what for fault in verification.verify(Budget.objects.get())]}
for release in Release.objects.all():
    answer["releases"][release.title] = {
        "state": release.state,
        "attempts": release.attempts,
        "charges": LedgerEntry.objects.filter(kind="charge", release=release).count(),
        "answers": len(files.read_answers(files.folder_of(release))) if release.folder else 0,
    }
"""

ONE = "the release"


def outcome_of_one(stack):
    found = stack.run(OUTCOME)
    assert found["faults"] == []
    assert found["spent"] == 10**12
    one = found["releases"][ONE]
    return one["state"], one["attempts"], one["charges"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def stack(request, tmp_path):
    url = "" if request.param == "sqlite" else request.getfixturevalue("migrated_postgres")
    stack = Stack(tmp_path, database_url=url, lease=2)
    stack.migrate()
    table = tmp_path / "t.csv"
    table.write_text("sex\n" + "f\nm\nm\n" * 50)
    stack.run(
        f"""
        release = draft(budgeted('50', {COLUMNS!r}, {str(table)!r}))
        Release.objects.update(title={ONE!r})
        """
    )
    yield stack
    stack.stop()


def attempt(stack, code):
    """Run `code` in a process of its own; whether it lived to the end, and was not killed."""
    (done,) = stack.run_at_once([code])
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode == 0


def test_a_process_killed_at_any_step_leaves_one_charge_and_one_output_after_all(stack):
    titles = [f"{moment} {name}" for _, name, moment in STEPS]
    stack.run(
        f"""
        Release.objects.all().delete()
        for title in {titles!r}:
            release = draft(Dataset.objects.get())
            Release.objects.filter(pk=release.pk).update(title=title)
        """
    )
    for step, title in zip(STEPS, titles, strict=True):
        code = KILLED.format(step=step) + SUBMIT.format(title=title) + EXECUTE.format(title=title)
        assert not attempt(stack, code), f"nothing was killed {title}: the step is not on the way"
    stack.run(RECOVER)
    found = stack.run(OUTCOME)
    assert found["faults"] == []
    assert found["spent"] == len(STEPS) * 10**12
    for title, one in found["releases"].items():
        assert (one["state"], one["charges"], one["answers"]) == ("published", 1, 2), title
        assert one["attempts"] <= 2, title


def test_a_message_delivered_twice_at_once_gives_one_output(stack):
    stack.run(SUBMIT.format(title=ONE))
    mails = "from releases.notifications import messages\nmessages.send_waiting()"
    round_of_a_worker = f"{EXECUTE.format(title=ONE)}\n{mails}\nprint('done')"
    # One of the two also sends the e-mail that says so, here to standard output.
    said = [done.stdout for done in stack.run_at_once([round_of_a_worker] * 2)]
    assert all(each.endswith("done\n") for each in said)
    assert "".join(said).count("Subject: Finished: ") == 1
    assert outcome_of_one(stack) == ("published", 1, 1)
    folders = stack.run(
        "from django.conf import settings\n"
        "answer = len(list((settings.RELEASES_DIR / str(Release.objects.get().pk)).iterdir()))"
    )
    assert folders == 1


def test_a_clock_that_jumps_does_not_publish_twice(stack):
    """The clock jumps ahead in mid-run, so another worker takes over; the first one's result is nobody's."""
    stack.run(SUBMIT.format(title=ONE))
    answer = stack.run(
        """
        import threading
        from datetime import timedelta
        from unittest import mock
        from celery import current_app
        from django.utils import timezone
        from releases.worker import runner
        current_app.send_task = lambda *arguments, **options: None
        original = runner.run
        def overtaken(*arguments, **options):
            made = original(*arguments, **options)
            runner.run = original
            now, thread = timezone.now, threading.get_ident()
            # The first worker's heartbeat is another thread here and keeps its own clock.
            def ahead(hours):
                is_the_other = lambda: threading.get_ident() == thread
                return lambda: now() + timedelta(hours=hours) if is_the_other() else now()
            with mock.patch("django.utils.timezone.now", ahead(1)):
                services.execution.reconcile()
            with mock.patch("django.utils.timezone.now", ahead(2)):
                assert services.execution.execute_release(release_id=Release.objects.get().pk)
            return made
        runner.run = overtaken
        answer = services.execution.execute_release(release_id=Release.objects.get().pk)
        """
    )
    assert answer is False
    assert outcome_of_one(stack) == ("published", 2, 1)


def test_a_full_disc_while_publishing_is_one_failed_attempt_and_then_one_output(stack):
    stack.run(
        """
        release = Release.objects.get()
        services.releases.set_choice(release=release, epsilon="1", mechanism_name="laplace-histogram",
            options={"rows": 900000})
        """
    )
    stack.run(SUBMIT.format(title=ONE))
    stack.run(
        """
        import resource
        from celery import current_app
        current_app.send_task = lambda *arguments, **options: None
        # No file may grow beyond this: 900,000 synthetic rows as CSV cannot be written, the database can.
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
        assert not services.execution.execute_release(release_id=Release.objects.get().pk)
        """
    )
    assert stack.run("answer = Release.objects.get().state") == "queued"
    leftovers = stack.run(
        "from django.conf import settings\n"
        "answer = [str(each) for each in (settings.RELEASES_DIR / str(Release.objects.get().pk)).iterdir()]"
    )
    assert leftovers == []
    assert attempt(stack, EXECUTE.format(title=ONE))
    assert outcome_of_one(stack) == ("published", 2, 1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.redis
def test_a_broker_that_is_lost_and_comes_back_loses_no_release(tmp_path):
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    stack = Stack(tmp_path, broker_url=f"redis://127.0.0.1:{port}/0", lease=2)
    try:
        stack.migrate()
        table = tmp_path / "t.csv"
        table.write_text("sex\nf\nm\n")
        stack.run(f"draft(budgeted('3', {COLUMNS!r}, {str(table)!r}))")
        # The broker is away when the release is submitted: the charge stands and the release stays queued.
        stack.run(
            """
            release = Release.objects.get()
            services.releases.submit_release(release=release, key=uuid.uuid4(), by=release.dataset.owner)
            answer = release.state
            """
        )
        stack.start(command, "redis.log")
        worker = stack.start_worker()
        stack.wait_for("answer = Release.objects.filter(state='published').exists()")
        assert worker.poll() is None
        # And it goes away and comes back under a running worker.
        stack.kill(stack.processes[0])
        stack.run(
            """
            release = draft(Dataset.objects.get())
            services.releases.submit_release(release=release, key=uuid.uuid4(), by=release.dataset.owner)
            """
        )
        stack.start(command, "redis.log")
        stack.wait_for("answer = Release.objects.filter(state='published').count() == 2")
        assert stack.run("answer = LedgerEntry.objects.filter(kind='charge').count()") == 2
    finally:
        stack.stop()


def as_postgres(*command):
    """A command line run as the owner of a database cluster: PostgreSQL refuses to run as root."""
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else list(command)


def postgres_binaries():
    versions = sorted(os.listdir("/usr/lib/postgresql"), key=int)
    return f"/usr/lib/postgresql/{versions[-1]}/bin"


@pytest.mark.postgres
def test_a_database_restarted_in_mid_run_leads_to_one_output_under_one_charge(tmp_path):
    port, binaries = free_port(), postgres_binaries()
    cluster = f"/tmp/dpweb-test-cluster-{uuid.uuid4().hex[:10]}"
    subprocess.run(
        as_postgres(f"{binaries}/initdb", "--auth=trust", "-U", "postgres", "-D", cluster),
        check=True,
        capture_output=True,
        cwd="/",
    )
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"

    def control(action):
        how = ("-D", cluster, "-w", "-m", "fast", "-o", options, "-l", f"{cluster}/log")
        command = (f"{binaries}/pg_ctl", *how, action)
        subprocess.run(as_postgres(*command), check=True, capture_output=True, cwd="/")

    control("start")
    stack = Stack(tmp_path, database_url=f"postgresql://postgres@127.0.0.1:{port}/postgres", lease=3)
    try:
        stack.migrate()
        wide = "[dict(name=f'c{i}', type='integer', edges=list(range(201))) for i in range(3)]"
        table = tmp_path / "t.csv"
        table.write_text("c0,c1,c2\n1,2,3\n")
        stack.run(
            f"""
            release = draft(budgeted('3', {wide}, {str(table)!r}), mechanism='laplace-histogram')
            services.releases.submit_release(release=release, key=uuid.uuid4(), by=release.dataset.owner)
            """
        )
        stack.start_worker()
        stack.wait_for("answer = Release.objects.filter(state='running').exists()")
        control("restart")
        stack.wait_for("answer = Release.objects.filter(state='published').exists()", seconds=120)
        found = stack.run(OUTCOME)
        assert found["faults"] == []
        (one,) = found["releases"].values()
        assert one["charges"] == 1
        assert one["attempts"] <= 3
    finally:
        stack.stop()
        time.sleep(0.2)
        control("stop")
        shutil.rmtree(cluster, ignore_errors=True)
