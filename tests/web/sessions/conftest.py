"""Sessions as tests ask in them: opened once in a process, and played for each test that opens the same."""

import uuid

import pytest

from releases import services
from releases.models import Audience, Session
from tests.web.conftest import CSV


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
