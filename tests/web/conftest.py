"""The four people of the web tests, and what alice owns."""

from __future__ import annotations

import csv
import json
import uuid
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.urls import reverse

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import PrivacyUnit
from releases.models import HeldRole, Upload, UploadState
from releases.notifications import messages
from releases.publication import files
from tests.web import recordings
from tests.web.pages import inline_code
from tests.web.steps import ask_for, protect

CSV = b"person,age,sex\n" + b"".join(
    f"p{i},{18 + (i * 7) % 48},{'female' if i % 3 else 'male'}\n".encode() for i in range(200)
)
COLUMNS = [
    {"name": "age", "type": "integer", "edges": [18, 25, 35, 45, 55, 65]},
    {"name": "sex", "type": "categorical", "categories": ["female", "male"]},
]
WORKLOAD = {"version": 1, "queries": [{"marginals": 1}, {"marginals": 2}]}
#: The rules of both columns drop rows, and no synthetic rows are made of tables that count different ones.
FOR_ROWS = {"rows_counted": "same"}
PASSWORD = "correct horse battery staple"


@pytest.fixture(autouse=True)
def _collected_static_files(settings, tmp_path):
    """WhiteNoise looks for the folder of collected files, which only an installation has, and for each file when it is
    asked for: at the start of every test it would read all of them."""
    settings.STATIC_ROOT = tmp_path
    settings.WHITENOISE_AUTOREFRESH = True
    return settings


def person(name, *roles, **fields):
    """An account; it is an analyst, as each new one is, and has the roles that are named."""
    user = User.objects.create_user(name, f"{name}@example.org", PASSWORD, **fields)
    give(user, *roles)
    return user


def give(user, *roles):
    """Make somebody what they are not yet, whatever an administrator would say."""
    for role in roles:
        HeldRole.objects.get_or_create(person=user, role=role)
    user.__dict__.pop("_roles", None)


def reviewers():
    return User.objects.filter(held_roles__role="reviewer")


@pytest.fixture
def group(db):
    return Group.objects.create(name="Survey team")


@pytest.fixture
def alice(group):
    """Owns everything here."""
    user = person("alice", "curator")
    user.groups.add(group)
    return user


@pytest.fixture
def bob(group):
    """Shares alice's group."""
    user = person("bob", "curator")
    user.groups.add(group)
    return user


@pytest.fixture
def charlie(db):
    """Has nothing."""
    return person("charlie")


@pytest.fixture
def sofia(db):
    """Reviews and administers."""
    return person("sofia", "reviewer", "administrator", is_staff=True)


@pytest.fixture
def as_(client):
    """A browser signed in as somebody."""

    def sign_in(user):
        if user is None:
            client.logout()
        elif not _is_signed_in(client, user):
            client.force_login(user)
        return client

    return sign_in


def _is_signed_in(client, user):
    """Signing in takes as long as a page, and most tests ask for several as one person."""
    session = client.session if settings.SESSION_COOKIE_NAME in client.cookies else {}
    return (session.get(SESSION_KEY), session.get(HASH_SESSION_KEY)) == (str(user.pk), user.get_session_auth_hash())


@pytest.fixture
def confirmed(as_):
    """A browser of somebody who has just shown again who they are."""

    def confirm(user):
        cache.clear()
        client = as_(user)
        assert client.post("/accounts/reauthenticate/", {"password": PASSWORD}).status_code == 302
        return client

    return confirm


@pytest.fixture
def upload_file(tmp_path):
    def write(content=CSV, name="survey.csv"):
        path = tmp_path / f"{uuid.uuid4().hex}-{name}"
        path.write_bytes(content)
        return path

    return write


@pytest.fixture
def read_uploads(db):
    """What a worker does next: read every table that was received. Returns how many are stored."""

    def read():
        waiting = Upload.objects.filter(state=UploadState.WAITING).order_by("created_at")
        return sum(
            services.uploads.execute_upload(upload_id=each) for each in list(waiting.values_list("pk", flat=True))
        )

    return read


@pytest.fixture(autouse=True)
def _empty_cache(db):
    """Every web test may use the database; and what is set up from a recording has the same identifier in each."""
    cache.clear()


@pytest.fixture
def once(tmp_path, monkeypatch):
    """Make what a key names, or what a test before this one made where all was the same."""
    return partial(recordings.once, folder=tmp_path, monkeypatch=monkeypatch)


@pytest.fixture
def make_dataset(alice, group, upload_file, once):
    """A dataset of alice's, shared with her group, as far as asked: uploaded, declared, protected, budgeted."""

    def make(*, epsilon="2", delta="0.000001", policy=Policy.ZCDP, content=CSV, owner=None, sofia=None, unit=None):
        owner = owner or alice
        give(owner, "curator")

        def really():
            dataset = services.datasets.ingest_dataset(
                owner=owner, title="Survey", source=upload_file(content), group=group
            )
            services.datasets.declare_universe(dataset=dataset, columns=COLUMNS, by=owner)
            protect(dataset, owner, unit=unit or PrivacyUnit())
            if epsilon:
                reviewer = sofia or reviewers().first() or person("grantor", "reviewer")
                asked = ask_for(dataset, owner, epsilon, delta=delta, policy=policy)
                services.budgets.approve_request(request=asked, by=reviewer)
                dataset.refresh_from_db()
            return dataset

        return once(repr((epsilon, delta, policy, content, owner.pk, sofia and sofia.pk, unit)), really)

    return make


@pytest.fixture
def dataset(make_dataset):
    return make_dataset()


@pytest.fixture
def make_declared(make_dataset):
    """The same with other columns declared than those of every test."""

    def make(columns, **given):
        dataset = make_dataset(**given)
        services.datasets.declare_universe(dataset=dataset, columns=columns)
        dataset.refresh_from_db()
        return dataset

    return make


@pytest.fixture
def make_draft(alice):
    """A draft to be confirmed, of some questions or, with synthetic rows, of every table of one or two columns."""

    def make(dataset, *queries, epsilon="1", mechanism="laplace-queries", title="", **choice):
        workload = {"version": 1, "queries": list(queries)} if queries else WORKLOAD
        if not queries and mechanism in ("laplace-queries", "gaussian-queries"):
            choice.setdefault("options", FOR_ROWS)
        release = services.releases.draft_release(dataset=dataset, by=alice, title=title)
        services.releases.set_questions(release=release, workload=workload)
        services.releases.set_choice(release=release, epsilon=epsilon, mechanism_name=mechanism, **choice)
        return release

    return make


@pytest.fixture
def draft(dataset, make_draft):
    return make_draft(dataset)


@pytest.fixture
def make_queued(make_draft, alice):
    def make(dataset, *queries, **choice):
        release = make_draft(dataset, *queries, **choice)
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
        return release

    return make


@pytest.fixture
def queued(dataset, make_queued, once):
    return once("queued", lambda: make_queued(dataset))


@pytest.fixture
def carry_out(alice):
    """Alice, or somebody else, submits a draft, and a worker computes it unless it is to stay queued."""

    def run(release, *, execute=True, by=None):
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=by or alice, send=False)
        if execute:
            assert services.execution.execute_release(release_id=release.pk)
        release.refresh_from_db()
        return release

    return run


@pytest.fixture
def until_it_ends(settings):
    """Every attempt at a release fails."""

    def run(release):
        for _ in range(settings.MAX_ATTEMPTS):
            assert not services.execution.execute_release(release_id=release.pk)
        release.refresh_from_db()
        return release

    return run


@pytest.fixture
def make_sheet(as_, alice):
    """A page of alice's that learns something of a column: what she types there, unless a test types something else."""

    def make(page, dataset, typed):
        url, client = reverse(page, args=[dataset.pk]), as_(alice)

        def get(**data):
            response = client.get(url, {"column": typed["column"], **data})
            assert inline_code(response) == []
            return response

        return SimpleNamespace(get=get, post=lambda **data: client.post(url, {**typed, **data}))

    return make


def columns_page(client, dataset, learned=None):
    """The page of the columns, with what a release has learned of one filled in."""
    return client.get(reverse("columns", args=[dataset.pk]), {"learned": str(learned.pk)} if learned else {})


@pytest.fixture
def asked(make_dataset, alice):
    """A request for a budget that waits for a reviewer."""
    return ask_for(make_dataset(epsilon=""), alice, reason="For the yearbook.")


@pytest.fixture
def close():
    """Close a session as its curator asks and a worker does."""

    def run(session, *, by=None):
        release = services.session_closing.close_session(session=session, by=by, send=False)
        assert services.execution.execute_release(release_id=release.pk)
        release.refresh_from_db()
        return release

    return run


@pytest.fixture
def published(queued, once):
    def really():
        assert services.execution.execute_release(release_id=queued.pk)
        return queued

    once("published", really)
    queued.refresh_from_db()
    return queued


@pytest.fixture
def public(published):
    services.releases.make_public(release=published)
    published.refresh_from_db()
    return published


@pytest.fixture
def make_survey(alice, group):
    """A survey of alice's, shared with her group, as far as asked: draft, open, closed or public."""

    def make(state="open", *, answers=("Yes", "No", "Not telling"), epsilon="1", reports=(), title="Canteen"):
        survey = services.surveys.draft_survey(
            owner=alice,
            title=title,
            question="Do you smoke?",
            answers=list(answers),
            epsilon=epsilon,
            group=group,
        )
        if state == "draft":
            return survey
        services.surveys.open_survey(survey=survey, by=alice)
        for report in reports:
            services.surveys.accept_report(survey=survey, report=str(report))
        if state != "open":
            services.surveys.close_survey(survey=survey, by=alice)
        if state == "public":
            services.surveys.make_survey_public(survey=survey, by=alice)
        return survey

    return make


def write_json(path: Path, value) -> Path:
    path.write_text(json.dumps(value))
    return path


def rows_of(release, name="answers.csv") -> list[dict[str, str]]:
    """The lines of a published CSV file."""
    with (files.folder_of(release) / name).open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture
def no_worker():
    """No worker is told of a release; those that one would be told of. Patched by itself, so that recordings are still
    played."""
    told = []
    with pytest.MonkeyPatch.context() as patched:
        for module in ("releases", "reviews", "execution", "session_closing", "restoring"):
            patched.setattr(f"releases.services.{module}.enqueue", told.append)
        yield told


@pytest.fixture
def worker_round():
    """What is done within is followed by a round of a worker, which sends the e-mails."""

    @contextmanager
    def followed():
        yield
        messages.send_waiting()

    return followed
