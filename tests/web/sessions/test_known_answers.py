"""Questions of a session that a finished release of the same table answers: for nothing, and only where it may."""

import csv
import io

import pytest
from django.urls import reverse

from releases import services
from releases.models import Audience, Dataset
from releases.publication import files
from tests.web.conftest import COLUMNS, CSV

YOUNG_WOMEN = {"from.age": "18", "to.age": "35", "in.sex": ["female"]}
TRUTH = sum(18 <= int(row["age"]) < 35 and row["sex"] == "female" for row in csv.DictReader(io.StringIO(CSV.decode())))


@pytest.fixture
def session(open_session):
    return open_session(budget="40", epsilon="1")


@pytest.fixture
def publish(session, make_draft, carry_out):
    def make(*, epsilon="30", mechanism="laplace-queries"):
        # Noise above its bound has a probability below 1e-9.
        dataset, asked = session.release.dataset, ({"marginal": ["sex"]}, {"marginal": ["age", "sex"]})
        return carry_out(make_draft(dataset, *asked, epsilon=epsilon, mechanism=mechanism, beta="1e-9"))

    return make


def ask(client, session, **more):
    return client.post(reverse("session", args=[session.pk]), YOUNG_WOMEN | more, follow=True)


def test_a_finished_release_answers_and_nothing_of_the_session_is_used(session, publish, as_, alice):
    release = publish()
    client = as_(alice)
    known = ask(client, session).context["page"].live.known
    rows = list(csv.DictReader((files.folder_of(release) / "answers.csv").open()))
    cells = [row for row in rows if row["age"][:2] in ("18", "25") and row["sex"] == "female"]
    assert len(cells) == 2
    number = {name: int(getattr(known, name).replace(",", "")) for name in ("estimate", "lower", "upper")}
    assert number["estimate"] == pytest.approx(sum(float(row["estimate"]) for row in cells), abs=0.5)
    assert number["lower"] == pytest.approx(sum(float(row["lower"]) for row in cells), abs=1)
    assert number["upper"] == pytest.approx(sum(float(row["upper"]) for row in cells), abs=1)
    assert number["lower"] <= TRUTH <= number["upper"]
    assert session.answers.count() == 0
    client.post(reverse("session", args=[session.pk]), {"query": known.query, "anyway": "1"})
    assert session.answers.count() == 1


def test_only_releases_that_the_person_may_read_are_looked_at(session, publish, as_, charlie, alice):
    services.sessions.let_ask(session=session, audience=Audience.EVERYBODY)
    release = publish()
    assert ask(as_(charlie), session).context["page"].live.known is None
    assert session.answers.count() == 1
    services.releases.make_public(release=release)
    assert ask(as_(charlie), session).context["page"].live.known is not None
    services.releases.withdraw_release(release=release, by=alice)
    assert ask(as_(charlie), session).context["page"].live.known is None


def test_what_is_wider_than_the_session_or_not_proved_is_not_taken(session, publish, as_, alice):
    publish(epsilon="0.05")
    assert ask(as_(alice), session).context["page"].live.known is None
    fitted = publish(mechanism="marginal-fit", epsilon="5")
    if fitted.result["receipt"]["bound"]["proof"] == "expected, not proved":
        assert ask(as_(alice), session, **{"to.age": "45"}).context["page"].live.known is None


def test_which_of_several_releases_answers_follows_from_their_plans_and_not_from_what_was_drawn(
    session, publish, as_, alice, monkeypatch
):
    """Noise far below the truth leaves an interval that is cut at 0, and so the narrowest of all."""
    closer, wider = publish(epsilon="3"), publish(epsilon="2")
    read = files.stored_rows

    def unlucky(path, start, stop):
        found = read(path, start, stop)
        cut = {"estimate": 0.0, "lower": 0.0, "upper": 0.5}
        return {name: [cut[name]] * len(found[name]) for name in found} if str(wider.pk) in str(path) else found

    monkeypatch.setattr(files, "stored_rows", unlucky)
    known = ask(as_(alice), session).context["page"].live.known
    assert str(closer.pk) in known.address


def test_a_release_that_counts_other_rows_is_not_taken(session, publish, as_, alice):
    services.datasets.declare_universe(
        dataset=session.release.dataset,
        columns=[{"name": "age", "type": "integer", "edges": [18, 40, 65], "outside": "drop"}, COLUMNS[1]],
        by=alice,
    )
    session.release.dataset.refresh_from_db()
    publish()
    assert ask(as_(alice), session).context["page"].live.known is None


def test_of_a_table_in_a_database_nothing_is_known_for_its_rows_change(session, publish, as_, alice, monkeypatch):
    publish()
    monkeypatch.setattr(Dataset, "is_in_database", property(lambda self: True))
    assert ask(as_(alice), session).context["page"].live.known is None
