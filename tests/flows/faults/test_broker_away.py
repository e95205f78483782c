"""With Redis away, whoever submits is not kept waiting: the row is the truth, and the message only a hint."""

from __future__ import annotations

import socket

import pytest

from tests.stack import Stack

COLUMNS = "[dict(name='c', type='integer', edges=list(range(5)))]"


@pytest.fixture
def redis_away():
    """The address of a Redis that takes connections and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}"


def test_a_whole_submission_takes_two_seconds_at_most(redis_away, tmp_path):
    stack = Stack(tmp_path, broker_url=f"{redis_away}/0")
    stack.environment["CACHE_URL"] = f"{redis_away}/1"
    stack.migrate()
    table = tmp_path / "t.csv"
    table.write_text("c\n" + "1\n2\n3\n" * 100)
    try:
        seconds, states = stack.run(
            f"""
            import re, time
            from django.test import Client
            from django.urls import reverse
            dataset = budgeted("10", {COLUMNS}, {str(table)!r})
            alice = dataset.owner
            drafts = [draft(dataset) for _ in range(2)]
            page = Client(headers={{"Host": "localhost"}})
            page.force_login(alice)
            seconds = []
            for release in drafts:
                address = reverse("confirm", args=[release.pk])
                form = page.get(address).content.decode()
                sent = dict(re.findall('<input type="hidden" name="(key|plan)" value="([^"]+)"', form))
                begun = time.monotonic()
                page.post(address, {{**sent, "title": release.title}})
                seconds.append(time.monotonic() - begun)
            answer = [seconds, sorted(set(Release.objects.values_list("state", flat=True)))]
            """
        )
    finally:
        stack.stop()
    assert states == ["queued"]
    assert max(seconds) <= 2, seconds
