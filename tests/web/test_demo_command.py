"""`manage.py demo`: where its site listens."""

from __future__ import annotations

import socket

import pytest
from django.core.management import CommandError, call_command

from releases.management.commands import demo


class Begun(Exception):
    """The demo went as far as starting its site."""


@pytest.fixture
def started(monkeypatch):
    """The addresses at which the demo would have started its site."""
    addresses = []

    def start(address, **_):
        addresses.append(address)
        raise Begun

    class Worker:
        stop = staticmethod(lambda: None)

    monkeypatch.setattr(demo, "ensure_database", lambda: None)
    monkeypatch.setattr(demo, "start_worker", lambda **_: Worker())
    monkeypatch.setattr(demo, "start_site", start)
    return addresses


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_site_listens_at_the_port_that_was_asked_for(started, free_port):
    with pytest.raises(Begun):
        call_command("demo", "--port", str(free_port))
    assert started == [f"127.0.0.1:{free_port}"]


def test_without_a_port_it_takes_the_first_free_one_from_8000_on(started):
    with pytest.raises(Begun):
        call_command("demo")
    assert 8000 <= int(started[0].split(":")[1]) < 8200


def test_a_port_that_is_taken_is_said_before_anything_is_released(started):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CommandError, match=f"Port {port} cannot be had"):
            call_command("demo", "--port", str(port))
    assert started == []


@pytest.mark.parametrize("typed", ["0", "65536", "-1", "80a", "²"])
def test_what_is_no_port_is_refused(started, typed):
    with pytest.raises(CommandError, match="must be a port"):
        call_command("demo", f"--port={typed}")
    assert started == []
