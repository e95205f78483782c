"""With Redis away, whoever submits is not kept waiting: the row is the truth, and the message only a hint."""

import socket
import textwrap

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


#: Sums up how long the request has waited for answers that did not come: by the limits of its calls, for the time that
#: passes says how busy the machine is.
WAITED = """
    import socket, threading, time
    waited = [0.0]
    def count(seconds):
        if threading.current_thread() is threading.main_thread():
            waited[0] += seconds
    class Socket(socket.socket):
        def _waiting(self, call, *given):
            try:
                return call(*given)
            except TimeoutError:
                count(self.gettimeout())
                raise
        def connect(self, *given): return self._waiting(super().connect, *given)
        def recv(self, *given): return self._waiting(super().recv, *given)
        def recv_into(self, *given): return self._waiting(super().recv_into, *given)
    socket.socket = Socket
    sleep, join = time.sleep, threading.Thread.join
    def slept(seconds):
        count(seconds)
        sleep(seconds)
    time.sleep = slept
    def joined(thread, timeout=None):
        join(thread, timeout)
        if thread.is_alive():
            count(timeout)
    threading.Thread.join = joined
"""


def test_a_whole_submission_waits_two_seconds_at_most(redis_away, tmp_path):
    stack = Stack(tmp_path, broker_url=f"{redis_away}/0")
    stack.environment["CACHE_URL"] = f"{redis_away}/1"
    stack.migrate()
    table = tmp_path / "t.csv"
    table.write_text("c\n" + "1\n2\n3\n" * 100)
    try:
        seconds, states = stack.run(
            textwrap.dedent(WAITED)
            + textwrap.dedent(f"""
            import re
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
                waited[0] = 0.0
                page.post(address, {{**sent, "title": release.title}})
                seconds.append(waited[0])
            answer = [seconds, sorted(set(Release.objects.values_list("state", flat=True)))]
            """)
        )
    finally:
        stack.stop()
    assert states == ["queued"]
    assert 0 < max(seconds) <= 2, seconds
