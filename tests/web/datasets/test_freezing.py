"""Freezing a budget stops what has not begun: queued releases wait, open sessions answer nothing new."""

from datetime import timedelta

import pytest
from django.utils import timezone

from releases import services
from releases.models import Audience, EntryKind, LedgerEntry, Release, ReleaseState, Session, SessionAnswer
from releases.services import execution
from releases.worker import runner

WOMEN, MEN = {"sex": ["female"]}, {"sex": ["male"]}


@pytest.fixture(autouse=True)
def sent(no_worker):
    """The releases that a worker was told of."""
    return no_worker


@pytest.fixture
def asked(session, alice):
    """The session after how many women there are was asked in it."""
    services.sessions.ask_session(session=session, query=WOMEN, by=alice)
    return session


@pytest.fixture
def freeze(dataset):
    return lambda: services.budgets.freeze_budget(budget=dataset.budget, reason="A complaint.")


@pytest.fixture
def unfreeze(dataset):
    return lambda: services.budgets.unfreeze_budget(budget=dataset.budget)


def kinds():
    return list(LedgerEntry.objects.exclude(kind=EntryKind.GRANT).values_list("kind", flat=True))


def test_no_worker_begins_a_queued_release_of_a_frozen_budget(queued, freeze, unread):
    freeze()
    assert not services.execution.execute_release(release_id=queued.pk)
    queued.refresh_from_db()
    assert (queued.state, queued.attempts, kinds()) == (ReleaseState.QUEUED, 0, [EntryKind.CHARGE])


def test_it_is_sent_again_and_runs_once_the_budget_is_unfrozen(queued, sent, freeze, unfreeze):
    freeze()
    Release.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert services.execution.reconcile() == 0
    unfreeze()
    assert services.execution.reconcile() == 1
    assert sent == [queued.pk]
    assert services.execution.execute_release(release_id=queued.pk)
    queued.refresh_from_db()
    assert (queued.state, kinds()) == (ReleaseState.PUBLISHED, [EntryKind.CHARGE])


def test_a_claim_compares_and_sets_its_own_row_alone(queued, django_assert_max_num_queries):
    with django_assert_max_num_queries(4) as asked:
        assert execution._claim(queued.pk)
    (claim,) = [each["sql"] for each in asked if each["sql"].startswith("UPDATE")]
    # In a subquery the state would be that of the statement's beginning, and two workers could claim one release.
    outer = claim.split("IN (SELECT")[0]
    assert '"releases_release"."state" = ' in outer


def test_a_session_that_answers_nothing_new_is_not_offered_to_be_asked_in(session, charlie, freeze):
    services.sessions.let_ask(session=session, audience=Audience.EVERYBODY)
    assert list(Session.objects.that_answer(charlie)) == [session]
    freeze()
    assert not Session.objects.that_answer(charlie).exists()


def test_an_open_session_answers_nothing_new_and_touches_no_data_until_the_budget_is_unfrozen(
    asked, alice, monkeypatch, freeze, unfreeze, close
):
    """It can be closed all the same."""
    freeze()
    with monkeypatch.context() as patch:
        patch.setattr(runner, "run", lambda *_, **__: pytest.fail("the data were touched"))
        with pytest.raises(services.release_inputs.Refusal, match="A reviewer has frozen the budget"):
            services.sessions.ask_session(session=asked, query=MEN, by=alice)
        assert SessionAnswer.objects.count() == 1
        again = services.sessions.ask_session(session=asked, query={"age": {"from": 18, "to": 65}} | WOMEN, by=alice)
        assert again.exchange.kind.value == "asked before"
    unfreeze()
    services.sessions.ask_session(session=asked, query=MEN, by=alice)
    assert SessionAnswer.objects.count() == 2
    freeze()
    assert close(asked).status is ReleaseState.PUBLISHED
