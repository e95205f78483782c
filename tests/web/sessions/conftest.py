"""Sessions as tests ask in them: opened once in a process, and played for each test that opens the same."""

import csv
import io
import uuid
from types import SimpleNamespace

import pytest
from django.urls import reverse

from releases import services
from releases.models import Audience, Release, Session
from releases.services import reading, session_state
from tests.web.conftest import CSV

PLAN = {"title": "Ask away", "epsilon": "5", "delta": "0", "beta": "0.05", "questions": "50", "population": "200"}
PLAN["way"] = "pmw-online"
ROWS = list(csv.DictReader(io.StringIO(CSV.decode())))
FEMALE = {"sex": ["female"]}


def rows_where(rule):
    return sum(map(rule, ROWS))


def page_of(session):
    return reverse("session", args=[session.pk])


def live_of(response):
    return response.context["page"].live


def replayed(session):
    """As another process would go on from what is stored."""
    session_state.forget()
    return session_state.replay(session, services.sessions.plan_of_session(session))


@pytest.fixture
def untouched(monkeypatch):
    """From now on no question is counted."""
    return lambda: monkeypatch.setattr(reading, "count", lambda *_, **__: pytest.fail("a question touched the table"))


@pytest.fixture
def program(as_, alice, carry_out):
    """What a program of alice's sends; and a session that it has begun."""

    def post(address, **sent):
        return as_(alice).post(address, sent, content_type="application/json")

    def begin(dataset, **sent):
        made = post(f"/api/datasets/{dataset.pk}/sessions", **sent).json()
        session = carry_out(Release.objects.get(pk=made["id"])).session
        return session, lambda **asked: post(f"/api/sessions/{session.pk}/questions", **asked)

    return SimpleNamespace(post=post, begin=begin)


@pytest.fixture
def open_session(make_dataset, alice, once):
    """An open session of alice's. Each `number` has a population, and so a budget, of its own."""

    def make(*, epsilon="5", budget="20", number=0, audience=Audience.GROUP, way="pmw-online", listed=None, **options):
        more = b"".join(b"x%d,40,female\n" % row for row in range(number))
        dataset = make_dataset(epsilon=budget, content=CSV + more)

        def really():
            release = services.sessions.draft_session(
                dataset=dataset,
                by=alice,
                title="Ask away",
                epsilon=epsilon,
                options={"population": 200, "questions": 50, **options},
                way=way,
                listed=listed,
            )
            services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
            assert services.execution.execute_release(release_id=release.pk)
            session = Session.objects.get(pk=release.pk)
            services.sessions.let_ask(session=session, audience=audience)
            return session

        return once(repr((epsilon, budget, number, audience, way, listed, sorted(options.items()))), really)

    return make
