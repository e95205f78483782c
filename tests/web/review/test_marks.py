"""What is remembered outside the database: written before it is shown, never too low, obeyed where it knows more."""

import json
import multiprocessing
import re
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import CLOSED, Totals
from releases.ledger import chain, high_water_marks, ledger, record, refusals
from releases.models import Budget, EntryKind, Installation, LedgerEntry, Release, ReleaseState
from releases.publication import files
from releases.worker import runner
from tests.web.pages import words
from tests.web.steps import ask_for, execute, submit

pytestmark = pytest.mark.usefixtures("no_worker")


@pytest.fixture
def live(dataset, alice):
    """An open session in which one question was asked."""
    made = services.sessions.draft_session(
        dataset=dataset, by=alice, title="Ask", epsilon="1", options={"questions": 50}
    )
    submit(made, alice)
    assert execute(made)
    made.refresh_from_db()
    services.sessions.ask_session(session=made.session, query={"sex": ["female"]}, by=alice)
    return made.session


def audited():
    return " ".join(fault.what for fault in services.organisation.verify_ledgers(by=None).faults)


def known():
    return Release.objects.get()


def _raise_all(barrier, folder, budgets, number):
    from django.conf import settings

    settings.MARKS_DIR = folder
    for budget in budgets:
        barrier.wait()
        mark = high_water_marks.Mark(sequence=number, hash=str(number), totals=Totals(spent_epsilon=number))
        high_water_marks.raise_to(budget, mark)


def test_eight_processes_that_raise_one_mark_at_once_never_leave_it_too_low(settings):
    budgets = [uuid.uuid4() for _ in range(60)]
    for budget in budgets:
        high_water_marks.begin(budget)
    context = multiprocessing.get_context("fork")
    given = context.Barrier(8), str(settings.MARKS_DIR), budgets
    processes = [context.Process(target=_raise_all, args=(*given, number)) for number in range(1, 9)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    assert [high_water_marks.read(budget).sequence for budget in budgets] == [8] * 60


def test_a_line_that_a_crash_has_cut_off_is_no_line_and_the_next_is_whole(settings):
    release = uuid.uuid4()
    high_water_marks.note_claim(release, 1)
    older = Path(settings.MARKS_DIR) / "releases" / f"{release}.jsonl"
    for path in (Path(settings.MARKS_DIR) / "record.jsonl", older):
        with path.open("a") as file:
            file.write('{"answer": 1')
    assert high_water_marks.story(release) == high_water_marks.Story(claims=1)
    high_water_marks.note_answer(release, 1)
    assert high_water_marks.story(release) == high_water_marks.Story(claims=1, answers=1)
    assert older.read_text() == '{"claim": 1}\n{"answer": 1}\n'


@pytest.mark.parametrize("line", ["{", "[]", '{"what": 1}', '{"claim": "x"}', "\xff"])
def test_a_whole_line_that_says_nothing_is_an_error(settings, line):
    """In the record, and in what an older version wrote."""
    release, folder = uuid.uuid4(), Path(settings.MARKS_DIR)
    chain.belong_to(Installation.own().key)
    (folder / "releases" / f"{release}.jsonl").write_text(f"{line}\n", encoding="latin-1")
    for _ in range(2):
        with pytest.raises(high_water_marks.Unreadable):
            high_water_marks.story(release)
        high_water_marks.note_claim(uuid.uuid4(), 1)
    with (folder / "record.jsonl").open("a", encoding="latin-1") as file:
        file.write(f"{line}\n")
    with pytest.raises(high_water_marks.Unreadable):
        chain.read()
    assert "cannot be read" in record.look().fault


def test_a_sum_that_a_mark_does_not_state_is_no_room_and_one_that_is_not_known_here_bounds_nothing(settings):
    budget = uuid.uuid4()
    high_water_marks.begin(budget)
    (Path(settings.MARKS_DIR) / f"{budget}.json").write_text(
        '{"sequence": 2, "hash": "x", "totals": {"spent_epsilon": 5, "spent_of_later": 7}}'
    )
    closed = dict.fromkeys(Totals().amounts(), CLOSED) | {"spent_orders": (CLOSED,) * len(Totals().spent_orders)}
    assert high_water_marks.read(budget).totals == Totals(**closed | {"spent_epsilon": 5})


def test_a_mark_that_is_gone_is_not_made_again_by_the_next_entry(dataset):
    standing = high_water_marks.read(dataset.budget.pk)
    high_water_marks._path(dataset.budget.pk).unlink()
    with pytest.raises(high_water_marks.Unreadable):
        high_water_marks.raise_to(dataset.budget.pk, replace(standing, sequence=9))
    assert high_water_marks.read(dataset.budget.pk) is None


def test_an_attempt_is_remembered_before_the_table_is_opened(queued, monkeypatch):
    seen, run = [], runner.run

    def looked_at(*args, **given):
        seen.append(high_water_marks.story(queued.pk).claims)
        return run(*args, **given)

    monkeypatch.setattr(runner, "run", looked_at)
    assert execute(queued)
    assert seen == [1]


def test_a_release_whose_remembered_files_were_changed_fails_and_touches_no_data(queued, monkeypatch, settings):
    settings.MAX_ATTEMPTS = 3
    assert execute(queued)
    Release.objects.change(state=ReleaseState.QUEUED, result=None, folder="")
    told = high_water_marks.story(queued.pk).published
    (files.folder_of(Release(folder=told.folder)) / "answers.csv").write_text("other")
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("data were touched again"))
    assert [execute(queued) for _ in range(2)] == [False] * 2
    assert known().state == ReleaseState.FAILED
    assert not LedgerEntry.objects.filter(kind=EntryKind.RETURN).exists()


def test_what_a_worker_had_begun_is_neither_run_again_nor_given_back(queued, alice, sofia, monkeypatch):
    high_water_marks.note_claim(queued.pk, 1)
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("data were touched again"))
    assert not execute(queued)
    with pytest.raises(services.release_inputs.Refusal, match="Its charge stays"):
        services.releases.cancel_release(release=queued, by=alice)
    assert (known().state, known().attempts) == (ReleaseState.QUEUED, 0)
    assert "a worker had begun it (attempt 1; the database knows of none)" in audited()
    services.restoring.restore_ledger(budget=queued.dataset.budget, by=sofia)
    assert (known().state, audited()) == (ReleaseState.FAILED, "")
    assert not LedgerEntry.objects.filter(kind=EntryKind.RETURN).exists()


def test_the_ledger_itself_gives_nothing_back_of_what_a_worker_had_begun(queued, alice):
    """Whoever has ended the release: the record knows an attempt that the database does not."""
    high_water_marks.note_claim(queued.pk, 1)
    Release.objects.update(state=ReleaseState.CANCELLED)
    with pytest.raises(refusals.LedgerRefusal, match="an attempt at its release may have opened the table"):
        ledger.give_back(release=queued, actor=alice)
    assert not LedgerEntry.objects.filter(kind=EntryKind.RETURN).exists()


def test_a_release_that_was_cancelled_once_is_not_run_and_its_cancellation_can_be_made_again(queued, alice):
    """It was not committed: where it was, the budget's mark is ahead of the ledger."""
    high_water_marks.note_cancelled(queued.pk)
    assert not execute(queued)
    assert (known().state, known().attempts) == (ReleaseState.QUEUED, 0)
    services.releases.cancel_release(release=queued, by=alice)
    assert known().state == ReleaseState.CANCELLED
    assert audited() == ""


def test_a_session_that_had_answered_more_answers_nothing_and_is_closed_by_a_reviewer(live, alice, sofia):
    high_water_marks.note_answer(live.pk, 4)
    for act in (
        lambda: services.sessions.ask_session(session=live, query={"sex": ["male"]}, by=alice),
        lambda: services.session_closing.close_session(session=live, by=alice, send=False),
    ):
        with pytest.raises(services.release_inputs.Refusal, match="it had answered 4 questions; the database knows 1"):
            act()
    assert "it had answered 4 questions" in audited()
    services.restoring.restore_ledger(budget=live.release.dataset.budget, by=sofia)
    assert known().state == ReleaseState.CLOSING
    assert execute(live)
    assert (known().state, audited()) == (ReleaseState.PUBLISHED, "")


def test_every_answer_is_remembered_and_a_repeated_one_is_none(live, alice):
    told = high_water_marks.story(live.pk)
    assert (told.claims, told.is_opened, told.answers) == (1, True, 1)
    services.sessions.ask_session(session=live, query={"sex": ["female"]}, by=alice)
    assert high_water_marks.story(live.pk).answers == 1
    services.sessions.ask_session(session=live, query={"sex": ["male"]}, by=alice)
    assert high_water_marks.story(live.pk).answers == 2
    assert audited() == ""


def test_a_session_that_was_open_is_not_opened_again(live, alice):
    Release.objects.update(state=ReleaseState.QUEUED)
    assert not execute(live)
    assert "it was open" in audited()


def test_a_draft_that_had_been_run_is_not_submitted_again(draft, alice, sofia):
    high_water_marks.note_claim(draft.pk, 1)
    with pytest.raises(refusals.LedgerWentBack, match="a worker had begun it"):
        submit(draft, alice)
    services.restoring.restore_ledger(budget=draft.dataset.budget, by=sofia)
    assert known().state == ReleaseState.FAILED
    assert audited() == ""


@pytest.fixture
def refused(queued, live, make_draft, alice, sofia):
    """What everybody is told who wants anything to go on."""
    draft = make_draft(queued.dataset, epsilon="0.1")
    asked = ask_for(queued.dataset, alice, "12")
    acts = [
        lambda: services.releases.cancel_release(release=queued, by=alice),
        lambda: services.sessions.ask_session(session=live, query={"sex": ["male"]}, by=alice),
        lambda: services.session_closing.close_session(session=live, by=alice, send=False),
        lambda: submit(draft, alice),
        lambda: services.budgets.approve_request(request=asked, by=sofia),
    ]

    def told():
        said = []
        for act in acts:
            with pytest.raises((services.release_inputs.Refusal, refusals.LedgerWentBack)) as error:
                act()
            said.append(str(error.value))
        return said

    return told


def test_nothing_goes_on_while_a_mark_is_ahead_and_who_is_refused_learns_neither_names_nor_numbers(
    queued, refused, sofia, as_
):
    budget = Budget.objects.get()
    Budget.objects.filter(pk=budget.pk).update(name="Diagnoses of 1987")
    ahead = replace(ledger._mark_of(budget), sequence=budget.sequence + 7)
    for number, name in ((budget.pk, "Diagnoses of 1987"), (uuid.uuid4(), "Illnesses of 1988")):
        high_water_marks.put(number, replace(ahead, name=name))
        for said in refused():
            assert "Nothing goes on until a reviewer has looked at it" in said
            assert not re.search(r"Diagnoses|Illnesses|spent|\d", said)
    assert not execute(queued)
    with pytest.raises(refusals.LedgerWentBack):
        ledger.grant(budget=budget, epsilon="5", delta="0.000001", actor=sofia)
    page = words(as_(sofia).get(reverse("backups")))
    assert f"it has {budget.sequence} of {budget.sequence + 7} entries" in page
    assert "database does not: Illnesses of 1988" in page


def test_no_line_tells_more_than_numbers_and_digests_of_what_is_published(live, close, settings):
    """Nothing of a question, an answer or a row stands there."""
    close(live)
    for path in Path(settings.MARKS_DIR).rglob("*.json*"):
        assert "female" not in path.read_text()
    assert set(json.loads(high_water_marks._path(live.release.dataset.budget.pk).read_text())) == {
        *("sequence", "hash", "totals", "granted", "name", "owner", "tables")
    }
    told = (Path(settings.MARKS_DIR) / "releases" / f"{live.pk}.jsonl").read_text().splitlines()
    assert told[:3] == ['{"claim": 1}', '{"opened": true}', '{"answer": 1}']
    assert len(told) == 4


def test_the_marks_of_another_database_stop_everything_and_are_no_reviewer_s_to_take(queued, alice, sofia, as_):
    chain.belong_to(uuid.uuid4())
    assert not execute(queued)
    assert "the marks folder belongs to another database; set MARKS_DIR" in audited()
    with pytest.raises(services.release_inputs.Refusal, match=r"belongs to another database.*MARKS_DIR"):
        services.releases.cancel_release(release=queued, by=alice)
    with pytest.raises(refusals.LedgerRefusal, match="An operator has to do that"):
        services.restoring.acknowledge_marks(by=sofia)
    assert not as_(sofia).get(reverse("backups")).context["page"].waiting.can_go_on
    assert as_(sofia).get(reverse("review_queue")).context["page"].installation_waits


def test_a_worker_that_ends_between_what_is_remembered_and_the_commit_leads_to_the_very_same_files(queued, monkeypatch):
    note = high_water_marks.note_published

    def killed(*args):
        note(*args)
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(high_water_marks, "note_published", killed)
        assert not execute(queued)
    assert known().state == ReleaseState.QUEUED
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("data were touched again"))
    assert execute(queued)
    assert high_water_marks.story(queued.pk).published.folder == known().folder
    assert (known().state, known().attempts) == (ReleaseState.PUBLISHED, 2)
    assert known().result["receipt"]["answers"] == len(files.read_answers(files.folder_of(known())))
    assert audited() == ""
