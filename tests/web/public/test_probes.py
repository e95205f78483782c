"""/healthz, /readyz and /metrics: what they say, to whom, and what they never say."""

import logging
from datetime import timedelta

import pytest
from celery import current_app
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from releases import services
from releases.middleware import probes
from releases.models import AuditAction, AuditEvent, BudgetRequest, Release, ReleaseRequest, Session, Upload

TOKEN = "a token of this test alone 0123456789"
PARTS = ["database", "migrations", "broker", "cache", "marks"]


@pytest.fixture
def figures(client, settings):
    """Every figure as Prometheus reads it, by its name and kind."""
    settings.METRICS_TOKEN = TOKEN

    def read():
        answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
        assert answer["Content-Type"].startswith("text/plain")
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(answer.content.decode())
            for sample in family.samples
        }

    return read


def test_a_part_that_fails_is_named_and_nothing_else_is_told(client, monkeypatch, caplog):
    assert client.get("/readyz").json() == dict.fromkeys(PARTS, "ok")
    for name in PARTS:

        def fail():
            raise OSError("connection to postgresql://dpweb:secret@10.0.0.7/dpweb refused")

        with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
            patched.setitem(probes.CHECKS, name, fail)
            answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == dict.fromkeys(PARTS, "ok") | {name: "failing"}
        assert f"not ready: {name} (OSError)" in caplog.text
    assert "secret" not in caplog.text


def test_a_migration_that_was_not_applied_a_broker_and_a_cache_that_are_away_are_noticed(client, settings, monkeypatch):
    MigrationRecorder(connection).record_unapplied("releases", "0022_mixed_orders")
    away, backend = "redis://127.0.0.1:1/0", "django.core.cache.backends.redis.RedisCache"
    monkeypatch.setattr(current_app.conf, "broker_write_url", away)
    settings.CELERY_BROKER_URL = away
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": away}}
    failing = dict.fromkeys(("migrations", "broker", "cache"), "failing")
    assert client.get("/readyz").json() == dict.fromkeys(PARTS, "ok") | failing


def test_a_marks_folder_that_cannot_be_written_is_noticed_and_a_lost_one_is_not_made_anew(client, settings, tmp_path):
    settings.MARKS_DIR = tmp_path / "lost" / "marks"
    assert client.get("/readyz").json()["marks"] == "ok"
    assert not (tmp_path / "lost").exists()
    settings.MARKS_DIR.mkdir(parents=True)
    assert client.get("/readyz").json()["marks"] == "ok"
    assert list(settings.MARKS_DIR.iterdir()) == []
    # A folder that nobody may write to stops everybody but root, so: a file in its place.
    settings.MARKS_DIR.rmdir()
    settings.MARKS_DIR.write_text("")
    assert client.get("/readyz").json()["marks"] == "failing"


def test_metrics_are_for_whoever_shows_the_token_and_without_one_in_the_settings_there_are_none(settings, sofia, as_):
    for shown in (None, "Bearer ", "Bearer wrong", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "é"):
        headers = {"Authorization": shown} if shown is not None else {}
        settings.METRICS_TOKEN = TOKEN
        answer = as_(sofia).get("/metrics", headers=headers)
        assert (answer.status_code, answer["WWW-Authenticate"], answer.content) == (401, "Bearer", b"")
        settings.METRICS_TOKEN = ""
        assert as_(sofia).get("/metrics", headers=headers).status_code == 404


def test_what_waits_and_what_was_tried_and_refused_is_counted_from_the_database(
    figures, make_queued, dataset, alice, sofia, draft
):
    release = make_queued(dataset, epsilon="0.1")
    Release.objects.filter(pk=release.pk).update(attempts=2)
    session = make_queued(dataset, epsilon="0.1")
    Session.objects.create(release=session, total=1, total_half_width=1.0, noisy_threshold=1, closing_attempts=1)
    made = timezone.now() - timedelta(minutes=5)
    for state, attempts in (("waiting", 0), ("waiting", 1), ("reading", 1), ("refused", 1), ("failed", 3)):
        upload = Upload.objects.create(title="T", owner=alice, size=1, state=state, attempts=attempts)
        Upload.objects.filter(pk=upload.pk).update(created_at=made)
    for state in ("waiting", "denied", "denied"):
        BudgetRequest.objects.create(budget=dataset.budget, epsilon="1", requested_by=alice, state=state)
    ReleaseRequest.objects.create(release=draft, key=draft.pk, epsilon="1", requested_by=alice, state="denied")
    AuditEvent.objects.create(action=AuditAction.SIGN_IN_FAILED)
    found = figures()
    assert 300 <= found["dpweb_uploads_oldest_seconds",] < 900
    expected = {("dpweb_uploads_waiting",): 2}
    for name, numbers in (
        ("dpweb_attempts_total", {"release": 2, "closing": 1, "upload": 6}),
        ("dpweb_refusals_total", {"budget": 2, "release": 1, "sign-in": 1}),
        ("dpweb_reviews_waiting", {"budget": 1, "release": 0}),
    ):
        expected |= {(name, kind): number for kind, number in numbers.items()}
    assert {key: found[key] for key in expected} == expected


def test_the_figures_are_the_same_for_every_table(figures, make_queued, make_dataset, upload_file, alice, read_uploads):
    """Rows, results, running times and refused files change nothing."""

    def told(content):
        dataset = make_dataset(content=content)
        release = make_queued(dataset, epsilon="0.1")
        assert services.execution.execute_release(release_id=release.pk)
        after = {key: value for key, value in figures().items() if "oldest" not in key[0]}
        changed = {key: after[key] - before.get(key, 0) for key in after}
        return changed, after

    before = figures()
    header, row = b"person,age,sex\n", b"p%d,30,male\n"
    few, before = told(header + row % 1)
    many, before = told(header + b"".join(row % i for i in range(500)))
    assert {key: value for key, value in few.items() if value} == {("dpweb_attempts_total", "release"): 1}
    assert many == few


@pytest.mark.parametrize("address", ["/healthz", "/readyz", "/metrics"])
def test_a_probe_answers_by_any_name_without_https_to_reading_alone_and_sets_no_cookie(as_, alice, settings, address):
    """A balancer asks by a machine's address, inside the proxy."""
    settings.METRICS_TOKEN, settings.SECURE_SSL_REDIRECT = TOKEN, True
    shown = {"Authorization": f"Bearer {TOKEN}", "Host": "10.1.2.3:8000"}
    for client in (as_(alice), Client()):
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(address, headers=shown)
        assert answer.status_code == 200
        assert not answer.cookies
        assert answer["Cache-Control"] == "no-store"
        assert queries.captured_queries == [] or address != "/healthz", "health is told without the database"
        assert client.head(address, headers=shown).status_code == 200
        assert client.post(address, headers=shown).status_code == 405
        assert client.get("/catalogue/").status_code == 301
