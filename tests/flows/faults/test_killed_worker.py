"""A worker killed in mid-run: after a restart there is one published result, under one charge."""

from __future__ import annotations

import uuid

import pytest

from tests.stack import Stack

# About four million cells: long enough in the worker to be killed half-way.
COLUMNS = "[dict(name=f'c{i}', type='integer', edges=list(range(160))) for i in range(3)]"
# A million: with as many synthetic rows, longer than a lease.
FEWER = "[dict(name=f'c{i}', type='integer', edges=list(range(100))) for i in range(3)]"


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


def test_a_worker_killed_while_it_closes_a_session_leads_to_one_release_and_no_further_charge(stack, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("c0,c1,c2\n" + "".join(f"{i % 99},{i % 77},{i % 13}\n" for i in range(5000)))
    stack.run(
        f"""
        dataset = budgeted('2', {FEWER}, {str(table)!r})
        # Many synthetic rows: long enough in the worker to be killed half-way, and to outlive a lease.
        live = services.sessions.draft_session(dataset=dataset, by=dataset.owner, title="Live", epsilon="1",
                                      options={{"rows": 1_000_000}})
        services.releases.submit_release(release=live, key=uuid.uuid4(), by=dataset.owner, send=False)
        assert services.execution.execute_release(release_id=live.pk)
        live.refresh_from_db()
        services.sessions.ask_session(session=live.session, query={{"c0": {{"to": 50}}}}, by=dataset.owner)
        services.session_closing.close_session(session=live.session, by=dataset.owner)
        """
    )
    first = stack.start_worker("first.log")
    stack.wait_for("answer = Release.objects.filter(state='closing', run_token__isnull=False).exists()")
    stack.kill(first)
    assert stack.run("answer = Release.objects.get().state") == "closing"
    stack.start_worker("second.log")
    stack.wait_for("answer = Release.objects.filter(state='published').exists()", seconds=180)
    answer = stack.run(
        """
        from releases.publication import files
        from releases.ledger import verification
        release = Release.objects.get()
        charges = LedgerEntry.objects.filter(kind="charge").count()
        faults = [fault.what for fault in verification.verify(release.dataset.budget)]
        answers = len(files.read_answers(files.folder_of(release)))
        answer = [release.session.closing_attempts, charges, answers, faults]
        """
    )
    # The second attempt was the last: its lease was extended for as long as it took.
    assert answer == [2, 1, 1, []]
