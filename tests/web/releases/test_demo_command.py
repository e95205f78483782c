"""`manage.py demo`: where its site listens, who can sign in, what is public, and what happens when a process ends."""

from __future__ import annotations

import socket

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from releases import services
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


def test_the_site_listens_at_the_port_that_was_asked_for_or_at_the_first_free_one_from_8000_on(started, free_port):
    for options in (("--port", str(free_port)), ()):
        with pytest.raises(Begun):
            call_command("demo", *options)
    assert started[0] == f"127.0.0.1:{free_port}"
    assert 8000 <= int(started[1].split(":")[1]) < 8200


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


class Process:
    """A child that ends when a test says so."""

    log = "worker.log"

    def __init__(self, is_running=True):
        self.is_running = is_running

    def is_alive(self):
        return self.is_running

    def kill(self):
        self.is_running = False


def test_a_process_that_ends_is_started_again_and_that_is_said():
    made, said = [], []
    kept = demo._Kept("worker", lambda: made.append(Process()) or made[-1], say=said.append)
    kept.keep()
    assert (len(made), said) == (1, [])
    made[0].is_running = False
    kept.keep()
    assert kept.child is made[1]
    assert said == ["The worker ended and was started again; see worker.log."]


def test_a_process_that_ends_whenever_it_is_started_is_given_up():
    kept = demo._Kept("worker", lambda: Process(is_running=False), say=lambda _: None)
    for _ in range(demo.MAX_EARLY_ENDS):
        kept.keep()
    with pytest.raises(CommandError, match=r"ends whenever it is started; see worker\.log"):
        kept.keep()


@pytest.mark.django_db
def test_passwords_stay_the_same_and_only_the_owner_reads_them(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    first = demo.Command()._make_accounts()
    hashed = dict(User.objects.values_list("username", "password"))
    assert demo.Command()._make_accounts() == first
    assert dict(User.objects.values_list("username", "password")) == hashed
    assert len(set(first.values())) == 3
    assert all(User.objects.get(username=name).check_password(password) for name, password in first.items())
    assert (tmp_path / "demo_passwords.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.django_db
def test_one_release_is_made_public_and_stays_private_once_somebody_made_it_so(published):
    demo.Command()._make_public(published)
    published.refresh_from_db()
    assert published.is_public
    services.releases.make_private(release=published)
    demo.Command()._make_public(published)
    published.refresh_from_db()
    assert not published.is_public
