"""A run's files are complete on disc before anything of it is visible, and are published rather than drawn again; and
an attempt that failed looks like one that runs."""

import json
import logging
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

import dpweb.celery
from releases import services
from releases.models import Attempt, Release, ReleaseState
from releases.publication import files
from releases.services import execution, session_closing
from releases.worker import jobs
from tests.web.pages import link, words


def crash(*args, **kwargs):
    raise RuntimeError("the machine stops here")


def folders(release):
    return sorted((Path(files.settings.RELEASES_DIR) / str(release.pk)).iterdir())


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def stopped(queued, monkeypatch):
    """The folder of an attempt that wrote everything, and came to no more."""
    with monkeypatch.context() as patched:
        patched.setattr(session_closing, "as_published", crash)
        assert not services.execution.execute_release(release_id=queued.pk)
    (folder,) = folders(queued)
    return folder


def test_a_complete_run_is_published_by_the_next_attempt_byte_for_byte(queued, stopped, monkeypatch):
    before = contents(stopped)
    monkeypatch.setattr(jobs, "run_release", lambda *args, **kwargs: pytest.fail("data were touched again"))
    assert services.execution.execute_release(release_id=queued.pk)
    release = Release.objects.get()
    assert (release.state, release.attempts, files.folder_of(release)) == (ReleaseState.PUBLISHED, 2, stopped)
    assert contents(stopped) == before
    assert set(release.result["files"]) == set(before) - {files.COMPLETE}
    assert release.result["receipt"] == json.loads(before[files.RECEIPT])


@pytest.mark.parametrize("step", ["_write_table", "_seal"])
def test_what_is_cut_off_before_it_is_complete_never_has_a_folder_s_name(queued, monkeypatch, step):
    with monkeypatch.context() as patched:
        patched.setattr(files, step, crash)
        assert not services.execution.execute_release(release_id=queued.pk)
    assert files.made_before(queued) is None
    assert folders(queued) == []
    assert services.execution.execute_release(release_id=queued.pk)


def test_a_worker_that_was_killed_while_it_wrote_holds_up_nothing(queued):
    token = execution._claim(queued.pk)
    (Path(files.settings.RELEASES_DIR) / str(queued.pk) / f"{token}.partial").mkdir(parents=True)
    Release.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert services.execution.reconcile() == 1
    assert services.execution.execute_release(release_id=queued.pk)
    assert folders(queued) == [files.folder_of(Release.objects.get())]


def test_a_complete_folder_that_was_changed_afterwards_is_not_published(queued, stopped):
    (stopped / "answers.csv").write_text("other")
    assert services.execution.execute_release(release_id=queued.pk)
    release = Release.objects.get()
    assert files.folder_of(release) != stopped
    assert folders(queued) == [files.folder_of(release)]


@pytest.mark.parametrize("said", ["", "null", "another"])
def test_a_folder_that_does_not_say_that_it_is_of_this_release_is_not_published(queued, stopped, said):
    seal = json.loads((stopped / files.COMPLETE).read_text())
    said = json.dumps({**seal, "release": "another"}) if said == "another" else said
    (stopped / files.COMPLETE).write_text(said)
    assert files.made_before(queued) is None


def test_of_two_complete_runs_the_first_is_published_and_the_other_goes(queued, stopped, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(files, "made_before", lambda release: None)
        patched.setattr(session_closing, "as_published", crash)
        assert not services.execution.execute_release(release_id=queued.pk)
    assert len(folders(queued)) == 2
    assert services.execution.execute_release(release_id=queued.pk)
    assert folders(queued) == [stopped]


# What is seen of an attempt


def shown_of(release, as_, alice):
    """Every page and answer that says how far a release is."""
    names = [("release_detail", release), ("release_status", release), ("dataset_detail", release.dataset)]
    pages = [words(as_(alice).get(link(*each))) for each in names]
    token = services.tokens.make_token(user=alice, name="a script")
    told = as_(None).get(f"/api/releases/{release.pk}", headers={"authorization": f"Bearer {token}"})
    assert told.status_code == 200
    return pages, told.json()


def test_an_attempt_that_failed_after_reading_looks_like_one_that_runs(queued, as_, alice, settings):
    settings.RETRY_SECONDS = 900
    assert execution._claim(queued.pk)
    Attempt.objects.update(opened_at=timezone.now())
    Release.objects.update(step="In progress")
    running = shown_of(queued, as_, alice)
    Release.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert services.execution.reconcile() == 1
    assert Release.objects.get().state == ReleaseState.QUEUED
    assert shown_of(queued, as_, alice) == running


def test_no_step_and_no_share_of_a_run_is_written_anywhere(queued, monkeypatch):
    seen = set()
    run = jobs.run_release

    def watched(plan, counts, *, rng, progress):
        def noted(step, share):
            progress.asked_at = 0.0
            progress(step, share)
            seen.add(tuple(Release.objects.values_list("step", "share_done").get()))

        return run(plan, counts, rng=rng, progress=noted)

    monkeypatch.setattr(jobs, "run_release", watched)
    assert services.execution.execute_release(release_id=queued.pk)
    assert seen == {("In progress", 0.0)}


def test_a_day_is_all_that_a_page_or_an_answer_says_of_when_a_run_was_finished(published, as_, alice):
    at = timezone.localtime(published.published_at)
    pages = [as_(alice).get(link(name, published)) for name in ("release_detail", "receipt")]
    for page in pages:
        assert f"{at:%H:%M}" not in page.content.decode()
        assert str(at.year) in words(page)
    Release.objects.update(is_public=True)
    (listed,) = as_(None).get("/api/catalogue").json()["releases"]
    assert listed["published_at"] == at.date().isoformat()


def test_a_worker_s_log_does_not_say_how_long_a_task_took():
    assert dpweb.celery
    assert not logging.getLogger("celery.app.trace").isEnabledFor(logging.INFO)
