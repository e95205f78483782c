"""A worker killed in mid-run: after a restart there is one published result, under one charge."""

import uuid
from signal import SIGKILL

import pytest

from tests.flows.faults.test_protocol import KILLED as KILLED_AT
from tests.stack import Stack

# About four million cells: long enough in the worker to be killed half-way.
COLUMNS = "[dict(name=f'c{i}', type='integer', edges=list(range(160))) for i in range(3)]"


@pytest.fixture(params=["embedded", pytest.param("redis", marks=pytest.mark.redis)])
def stack(request, tmp_path):
    broker = "" if request.param == "embedded" else "redis://127.0.0.1:6379/9"
    stack = Stack(tmp_path, broker_url=broker)
    if broker:
        # A queue of this test's own: other tests and a developer's worker share the server.
        stack.environment["CELERY_TASK_DEFAULT_QUEUE"] = f"test-{uuid.uuid4().hex}"
    stack.migrate()
    yield stack
    stack.stop()


def test_a_worker_killed_in_mid_run_leads_to_one_published_result_under_one_charge(stack, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("c0,c1,c2\n" + "".join(f"{i % 159},{i % 77},{i % 13}\n" for i in range(5000)))
    stack.run(
        f"""
        dataset = budgeted('2', {COLUMNS}, {str(table)!r})
        release = draft(dataset, mechanism='laplace-histogram')
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=dataset.owner)
        """
    )
    first = stack.start_worker("first.log")
    stack.wait_for("answer = Release.objects.filter(state='running').exists()")
    stack.kill(first)
    assert stack.run("answer = Release.objects.get().state") == "running"
    stack.start_worker("second.log")
    stack.wait_for("answer = Release.objects.filter(state='published').exists()", seconds=120)
    answer = stack.run(
        """
        from releases.publication import files
        from releases.ledger import verification
        from django.conf import settings
        release = Release.objects.get()
        folders = list((settings.RELEASES_DIR / str(release.pk)).iterdir())
        charges = LedgerEntry.objects.filter(kind="charge").count()
        answers = len(files.read_answers(files.folder_of(release)))
        faults = [fault.what for fault in verification.verify(release.dataset.budget)]
        answer = [release.attempts, charges, answers, files.folder_of(release) in folders, faults]
        """
    )
    assert answer == [2, 1, 3 * 159, True, []]


#: No worker is told.
QUIET = "from celery import current_app\ncurrent_app.send_task = lambda *arguments, **options: None\n"
#: Where a worker is killed while it takes a table in, and whether right before or right after.
STEPS = [
    ("releases.services.uploads", "_claim", "after"),
    ("releases.services.uploads", "read_table", "after"),
    ("releases.services.uploads", "keep_dataset", "before"),
    ("releases.services.uploads", "keep_dataset", "after"),
    ("releases.services.uploads", "_remove_file", "before"),
]


@pytest.mark.parametrize("url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_a_worker_killed_at_any_step_leaves_one_dataset_and_no_file_beside_it(tmp_path, request, url):
    database = "" if url == "sqlite" else request.getfixturevalue("migrated_postgres")
    stack = Stack(tmp_path, database_url=database, lease=2)
    table = tmp_path / "t.csv"
    table.write_text("age,sex\n" + "".join(f"{i % 90},{i}\n" for i in range(400)))
    try:
        stack.migrate()
        for step in STEPS:
            name = stack.run(
                QUIET + f"alice, _ = people()\nupload = services.uploads.receive_upload("
                f"owner=alice, title={'{2} {1}'.format(*step)!r}, source=Path({str(table)!r}))\nanswer = str(upload.pk)"
            )
            code = QUIET + KILLED_AT.format(step=step) + f"\nservices.uploads.execute_upload(upload_id={name!r})"
            (done,) = stack.run_at_once([code])
            assert done.returncode == -SIGKILL, f"nothing was killed at {step}: it is not on the way"
        answer = stack.run(
            QUIET
            + """
import os, time
from django.conf import settings
from releases.models import AuditEvent, Notice, Upload
from releases.services import uploads
deadline = time.monotonic() + 240
while Upload.objects.exclude(state="stored").exists() and time.monotonic() < deadline:
    services.uploads.reconcile_uploads()
    for each in Upload.objects.filter(state="waiting"):
        services.uploads.execute_upload(upload_id=each.pk)
    time.sleep(0.1)
for path in uploads.incoming_folder().iterdir():
    os.utime(path, (1, 1))
services.uploads.reconcile_uploads()
answer = [
    Dataset.objects.count(), AuditEvent.objects.filter(action="upload").count(), Notice.objects.count(),
    len(list(settings.TABLES_DIR.glob("*.parquet"))), len(list(uploads.incoming_folder().iterdir())),
]
"""
        )
        assert answer == [len(STEPS)] * 4 + [0]
    finally:
        stack.stop()
