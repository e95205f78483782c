"""A table sent in Chromium and read by a real worker: watched, left alone, refused, and killed half-way."""

from __future__ import annotations

import re
import sys
import time
from signal import SIGKILL

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import PASSWORD
from tests.flows.faults.test_protocol import KILLED as KILLING
from tests.stack import Stack

pytestmark = pytest.mark.browser

WINDOWS = [
    pytest.param({"size": PHONE}, id="phone"),
    pytest.param({"size": DESKTOP, "javascript": False}, id="no-javascript"),
]

#: Lets the worker take its time over each table, so that a person can watch it.
SLOW = """
import os, time
from pathlib import Path
import django
django.setup()
from releases.worker import runner
run = runner.run
def slow(job, *, report=None, **given):
    def held(step, share):
        report(step, share)
        while Path({gate!r}).exists():
            time.sleep(0.2)
            report(step, share)
    return run(job, report=report and held, **given)
runner.run = slow
from dpweb.celery import app
app.worker_main(["worker", "--concurrency", "1", "--pool", "solo", "--loglevel", "INFO", "--without-gossip",
                 "--without-mingle"])
"""


@pytest.fixture
def gate(installation, tmp_path):
    """While this file is there, the worker that reads tables stands still in every step."""
    gate = installation.folder / "gate"
    gate.touch()
    yield gate
    gate.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def installation(installation):
    """With a worker that can be held up, in place of the usual one."""
    for process in installation.processes:
        installation.kill(process)
    script = installation.folder / "slow_worker.py"
    script.write_text(SLOW.format(gate=str(installation.folder / "gate")))
    installation.start([sys.executable, str(script)], "slow_worker.log")
    return installation


def fill_in(window, title, table):
    window.go("/datasets/new/", "upload")
    window.page.get_by_label("What the table is").fill(title)
    window.page.get_by_label("Table", exact=True).set_input_files(table)


def table_of(tmp_path, tag, end=""):
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n" + "".join(f"{i % 90},{tag}-{i}\n" for i in range(400)) + end)
    return path


def again(window):
    """Without JavaScript the page looks again by itself too, by a refresh that a test need not wait for."""
    if not window.javascript:
        window.page.reload()


def wait_to_read(window, words):
    for _ in range(60):
        again(window)
        if words in window.page.locator("main").inner_text():
            return
        time.sleep(0.5)
    window.reads(words)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_table_is_watched_left_and_found_again(visitor, gate, tmp_path, request, window):
    tag = request.node.callspec.id
    alice = visitor(**window)
    alice.sign_in("alice", PASSWORD)
    fill_in(alice, f"Watched, {tag}", table_of(tmp_path, tag))
    alice.press("Upload and go on")
    alice.heading(f"Watched, {tag}")
    address = alice.page.url
    assert re.search(r"/uploads/[0-9a-f-]{36}/$", address)
    wait_to_read(alice, "Checking the text")
    alice.reads("You can close this page")
    alice.look("upload being read")
    alice.page.reload()
    alice.heading(f"Watched, {tag}")
    # The tab is closed, and the table is found again among the datasets.
    alice.page.close()
    alice.page = alice.context.new_page()
    alice.go("/datasets/", "datasets with an upload")
    expect(alice.page.get_by_role("row", name=f"Watched, {tag}")).to_contain_text("reading")
    alice.follow(f"Watched, {tag}")
    gate.unlink()
    alice.wait_for_columns()
    assert alice.page.url.endswith("/columns/")
    alice.page.goto("/")
    alice.reads(f"Stored: Watched, {tag}")
    alice.follow(f"Stored: Watched, {tag}")
    alice.heading("What can the columns hold?")


def test_how_much_is_sent_is_shown_and_a_mistake_is_told_beside_its_field(visitor, site, tmp_path):
    """The file goes by a script: its progress is shown, and the answer is put in the page's place."""
    alice = visitor()
    alice.sign_in("alice", PASSWORD)
    page = alice.page
    alice.go("/datasets/new/", "upload")
    shown = page.evaluate(
        """() => { window.shown = [];
        const label = document.querySelector("[data-sending] label");
        new MutationObserver(() => window.shown.push(label.textContent)).observe(label, {childList: true});
        return window.shown; }"""
    )
    assert shown == []
    page.get_by_label("What the table is").fill("Twice")
    page.get_by_label("Table", exact=True).set_input_files(
        {"name": "twice.csv", "mimeType": "text/csv", "buffer": b"a,a\n" + b"1,2\n" * 400_000}
    )
    alice.press("Upload and go on")
    alice.reads("twice.csv: Two columns are named a.")
    assert any(re.match(r"Sending the file: \d+% sent", words) for words in page.evaluate("window.shown"))
    expect(page.get_by_label("What the table is")).to_have_value("Twice")
    expect(page.get_by_label("Table", exact=True)).to_be_focused()
    # The form that has come in its place is sent the same way.
    page.get_by_label("Table", exact=True).set_input_files(table_of(tmp_path, "twice"))
    alice.press("Upload and go on")
    alice.wait_for_columns()


def test_a_connection_that_breaks_loses_nothing_typed(visitor, site, tmp_path):
    alice = visitor()
    alice.sign_in("alice", PASSWORD)
    fill_in(alice, "On a train", table_of(tmp_path, "train"))
    alice.page.route("**/datasets/new/", lambda route: route.abort())
    alice.press("Upload and go on")
    alice.reads("The file could not be sent: the connection to the server broke.")
    alice.look("upload with a broken connection")
    alice.page.unroute("**/datasets/new/")
    alice.press("Upload and go on")
    alice.wait_for_columns()


def wait_until_a_file_is_coming_in(installation, *, yes):
    until = time.monotonic() + 30
    while bool(list(installation.folder.rglob("incoming/*.part"))) is not yes:
        assert time.monotonic() < until, f"a file is {'not ' if yes else 'still '}coming in"
        time.sleep(0.2)


@pytest.mark.parametrize("how", ["stopped", "left"])
def test_a_file_that_is_half_sent_is_not_stored(visitor, site, installation, how):
    alice = visitor()
    alice.sign_in("alice", PASSWORD)
    page = alice.page
    csv = {"name": "half.csv", "mimeType": "text/csv", "buffer": b"a,b\n" + b"1,2\n" * 450_000}
    fill_in(alice, f"Half of it, {how}", csv)
    line = page.context.new_cdp_session(page)
    line.send("Network.enable")
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 40_000}
    line.send("Network.emulateNetworkConditions", slow)
    alice.press("Upload and go on")
    alice.reads("% sent")
    wait_until_a_file_is_coming_in(installation, yes=True)
    if how == "stopped":
        page.get_by_role("button", name="Stop sending").click()
        expect(page.locator("[data-sending]")).to_be_hidden()
        expect(page.get_by_label("What the table is")).to_have_value(f"Half of it, {how}")
    else:
        page.once("dialog", lambda dialog: dialog.accept())
        page.goto(f"http://{site}/datasets/")
    # Not before the server has put it away: a faster line could still send the rest before the browser closes it.
    wait_until_a_file_is_coming_in(installation, yes=False)
    line.send("Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1})
    alice.go("/datasets/", "datasets")
    assert f"Half of it, {how}" not in page.locator("main").inner_text()


@pytest.fixture
def stack(tmp_path):
    stack = Stack(tmp_path, lease=2)
    stack.migrate()
    yield stack
    stack.stop()


#: No worker is told.
QUIET = "from celery import current_app\ncurrent_app.send_task = lambda *arguments, **options: None\n"
#: Where a worker is killed while it takes a table in, and whether right before or right after.
KILLED = [
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
    table = table_of(tmp_path, "killed")
    try:
        stack.migrate()
        for step in KILLED:
            name = stack.run(
                QUIET + f"alice, _ = people()\nupload = services.uploads.receive_upload("
                f"owner=alice, title={'{2} {1}'.format(*step)!r}, source=Path({str(table)!r}))\nanswer = str(upload.pk)"
            )
            code = QUIET + KILLING.format(step=step) + f"\nservices.uploads.execute_upload(upload_id={name!r})"
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
        assert answer == [len(KILLED)] * 4 + [0]
    finally:
        stack.stop()


def test_a_message_delivered_twice_at_once_makes_one_dataset(stack, tmp_path):
    table = table_of(tmp_path, "raced")
    stack.run(QUIET + f"services.uploads.receive_upload(owner=people()[0], title='Raced', source=Path({str(table)!r}))")
    code = f"{QUIET}from releases.models import Upload\n"
    code += "services.uploads.execute_upload(upload_id=Upload.objects.get().pk)"
    assert [racer.returncode for racer in stack.run_at_once([code] * 3)] == [0, 0, 0]
    answer = stack.run(
        "from releases.models import Notice, Upload\n"
        "answer = [Dataset.objects.count(), Notice.objects.count(), Upload.objects.get().attempts]"
    )
    assert answer == [1, 1, 1]
