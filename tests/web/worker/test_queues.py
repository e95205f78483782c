"""Releases and uploads wait in queues of their own, and somebody works on each."""

from __future__ import annotations

import shlex
import sys

import pytest
import yaml
from django.core.management import call_command

from dpweb.celery import app
from releases.management import processes
from releases.management.commands import demo
from tests.stack import ROOT

QUEUES = {"releases", "uploads"}


def test_what_is_sent_to_one_queue_comes_to_that_one_alone():
    """Over a broker in memory: each task is delivered once, to its own queue."""
    with app.connection_for_write("memory://") as connection, connection.channel() as channel:
        for queue in app.amqp.queues.consume_from.values():
            queue(channel).declare()
        for task in ("releases.execute", "releases.read_upload", "releases.read_upload"):
            app.send_task(task, kwargs={}, connection=connection)
        found = {}
        for name, queue in app.amqp.queues.consume_from.items():
            found[name] = []
            while (message := queue(channel).get()) is not None:
                found[name].append(message.headers["task"])
                message.ack()
    assert found == {"releases": ["releases.execute"], "uploads": ["releases.read_upload"] * 2}
    assert set(found) == QUEUES, "of a worker that is told no queue"


def test_the_compose_file_has_a_worker_for_each():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    commands = {name: each.get("command", []) for name, each in services.items()}
    told = {name: command[command.index("--queues") + 1] for name, command in commands.items() if "worker" in command}
    assert sorted(told.values()) == sorted(QUEUES)


@pytest.fixture
def started(monkeypatch):
    """The commands of the processes that were started."""
    commands = {}

    class Child:
        def __init__(self, name, command, **_):
            commands[name] = command

        stop = staticmethod(lambda: None)

    monkeypatch.setattr(processes, "Child", Child)
    return commands


def test_the_demo_starts_a_worker_for_each(started, monkeypatch):
    monkeypatch.setattr(demo, "ensure_database", lambda: None)
    monkeypatch.setattr(demo, "start_site", lambda *_, **__: processes.Child("site", []))
    monkeypatch.setattr(demo.Command, "_make_accounts", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call_command("demo")
    workers = [command for name, command in started.items() if name != "site"]
    assert sorted(command[command.index("--queues") + 1] for command in workers) == sorted(QUEUES)
    names = {command[command.index("--hostname") + 1] for command in workers}
    assert len(names) == 2, "two workers of one name would take each other for themselves"


def test_one_worker_alone_is_started_without_a_queue(started, tmp_path):
    processes.start_worker(log_folder=tmp_path)
    assert "--queues" not in shlex.join(started["worker"])
    assert started["worker"][0] == sys.executable
