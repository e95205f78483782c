"""Wrong uploads: renaming a dataset, deleting one that nothing was charged for, and deleting the rows of any other."""

import uuid
from pathlib import Path

import pytest
from django.urls import reverse

from releases import services, tasks
from releases.models import AuditEvent, Budget, BudgetRequest, Dataset, LedgerEntry, Notice, Organisation, Release
from tests.web.conftest import CSV
from tests.web.pages import words


def table_file(settings, dataset):
    return Path(settings.TABLES_DIR) / dataset.location


def ask(client, dataset, what=""):
    url = reverse("delete_dataset", args=[dataset.pk])
    return client.post(url, {"delete": what}, follow=True) if what else client.get(url)


# --- renaming ---------------------------------------------------------------------------------------------------------


def test_a_dataset_is_renamed_and_its_own_population_with_it(dataset, as_, alice):
    as_(alice).post(reverse("rename_dataset", args=[dataset.pk]), {"title": " Panel of 2026 "})
    dataset.refresh_from_db()
    assert (dataset.title, dataset.budget.name) == ("Panel of 2026", "Panel of 2026")


def test_a_title_that_says_nothing_or_too_much_is_refused(dataset, as_, alice):
    for typed in ("", "   ", "x" * 201):
        assert as_(alice).post(reverse("rename_dataset", args=[dataset.pk]), {"title": typed}).status_code == 400
        dataset.refresh_from_db()
        assert dataset.title == "Survey"


# --- deleting all of it -----------------------------------------------------------------------------------------------


def test_a_wrong_upload_is_deleted_with_its_file_and_the_log_remembers(fresh, as_, alice, settings):
    path = table_file(settings, fresh)
    ask(as_(alice), fresh)
    assert ask(as_(alice), fresh, "something").status_code == 200
    assert path.exists(), "neither by looking nor by a word that is no choice"
    ask(as_(alice), fresh, "everything")
    assert not path.exists()
    assert not Dataset.objects.exists()
    assert AuditEvent.objects.filter(action="upload", name="Survey").exists()


def test_a_granted_budget_stays_in_the_ledger_and_one_that_nobody_saw_goes(dataset, make_dataset, alice):
    unseen = make_dataset(epsilon="", content=CSV + b"one more,30,male\n")
    services.datasets.discard_dataset(dataset=unseen, by=alice)
    services.datasets.discard_dataset(dataset=dataset, by=alice)
    assert [budget.epsilon for budget in Budget.objects.all()] == ["2"]
    assert [entry.kind for entry in LedgerEntry.objects.all()] == ["grant"]
    assert services.organisation.verify_ledgers(by=None).faults == ()


def test_a_request_that_waits_is_taken_back(asked, sofia, alice):
    (dataset,) = asked.budget.datasets.all()
    services.datasets.discard_dataset(dataset=dataset, by=alice)
    assert BudgetRequest.objects.get().state == "taken back"
    assert not Notice.objects.filter(person=sofia, read_at=None).exists()


@pytest.mark.parametrize("state", ["cancelled", "withdrawn"])
def test_what_was_ever_charged_for_cannot_be_deleted(queued, as_, alice, settings, state):
    if state == "cancelled":
        services.releases.cancel_release(release=queued, by=alice)
    else:
        assert services.execution.execute_release(release_id=queued.pk)
        services.releases.withdraw_release(release=queued, by=alice)
    assert "Privacy was charged for it." in words(ask(as_(alice), queued.dataset, "everything"))
    assert Dataset.objects.filter(pk=queued.dataset_id).exists()
    assert table_file(settings, queued.dataset).exists()


def test_what_a_reviewer_was_asked_about_stays_readable(dataset, make_draft, alice, sofia):
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.5")
    release = make_draft(dataset)
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice)
    services.reviews.ask_back_release(request=release.reviews.get(), by=sofia, note="Why?")
    with pytest.raises(services.datasets.Kept, match="A reviewer was asked"):
        services.datasets.discard_dataset(dataset=dataset, by=alice)


# --- deleting the rows alone ------------------------------------------------------------------------------------------


def test_the_rows_of_what_was_charged_for_can_be_deleted_and_everything_else_stays(public, as_, alice, settings):
    dataset, spent = public.dataset, Budget.objects.get().spent_epsilon
    assert "Kept: 1 release with its files and receipts" in words(ask(as_(alice), dataset))
    ask(as_(alice), dataset, "rows")
    assert not table_file(settings, dataset).exists()
    assert as_(None).get(reverse("download", args=[public.pk, "answers.csv"])).status_code == 200
    assert Budget.objects.get().spent_epsilon == spent
    assert services.organisation.verify_ledgers(by=None).faults == ()


def test_what_a_process_that_ended_has_left_of_deleted_tables_is_deleted_by_the_next_round_of_a_worker(
    public, make_dataset, alice, settings, monkeypatch
):
    kept, discarded = (make_dataset(epsilon="", content=CSV + b"p9," + age + b",male\n") for age in (b"30", b"31"))
    with monkeypatch.context() as killed:
        killed.setattr("releases.services.datasets._remove_file", lambda _: None)
        services.datasets.delete_rows(dataset=public.dataset, by=alice)
        services.datasets.discard_dataset(dataset=Dataset.objects.get(pk=discarded.pk), by=alice)
    unknown = Path(settings.TABLES_DIR) / f"{uuid.uuid4()}.parquet"
    unknown.write_bytes(b"of a newer database")
    left = [table_file(settings, each) for each in (public.dataset, discarded)]
    assert all(path.exists() for path in left)
    tasks._reconcile()
    assert not any(path.exists() for path in left)
    assert table_file(settings, kept).exists()
    assert unknown.exists()


def test_nothing_more_is_charged_for_a_table_without_rows(published, make_draft, as_, alice):
    draft = make_draft(published.dataset, epsilon="0.1")
    services.datasets.delete_rows(dataset=published.dataset, by=alice)
    spent = Budget.objects.get().spent_epsilon
    with pytest.raises(services.release_inputs.Refusal, match="The rows of this dataset were deleted"):
        services.releases.submit_release(release=draft, key=uuid.uuid4(), by=alice)
    draft.refresh_from_db()
    assert (draft.state, Budget.objects.get().spent_epsilon) == ("draft", spent)
    with pytest.raises(services.release_inputs.Refusal, match="The rows of this dataset were deleted"):
        services.release_inputs.certifiable(Release.objects.select_related("dataset").get(pk=published.pk))
    response = as_(alice).post(reverse("new_release", args=[published.dataset.pk]), follow=True)
    assert "The rows of this dataset were deleted, so nothing more can be released from it." in words(response)


def test_a_release_on_its_way_or_an_open_session_needs_the_rows(queued, dataset, carry_out, as_, alice, settings):
    assert "The release Release 1 is queued and needs them." in words(ask(as_(alice), dataset, "rows"))
    services.releases.cancel_release(release=queued, by=alice)
    carry_out(services.sessions.draft_session(dataset=dataset, by=alice, title="", epsilon="1"))
    with pytest.raises(services.datasets.Kept, match="Close it first"):
        services.datasets.delete_rows(dataset=dataset, by=alice)
    assert table_file(settings, dataset).exists()
