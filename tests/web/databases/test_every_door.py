"""Whatever reads rows under a charge and fails once it may have read some: one outcome, whatever the cause.

A door is what people or programs call that has rows read. Those that there are are found in the code.
"""

import ast
import json
import re
from collections import defaultdict
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

import releases
from releases import services
from releases.ledger import high_water_marks
from releases.models import Dataset, EntryKind, LedgerEntry, Notice, Release, ReleaseState, Session
from releases.models.release_kinds import KINDS
from releases.planning import column_checks
from releases.questions.together import PartAsked
from releases.services.release_inputs import Refusal
from releases.worker import jobs, runner
from tests.web.conftest import COLUMNS, WORKLOAD
from tests.web.databases.conftest import PASSWORD
from tests.web.pages import as_words, body, masked
from tests.web.services_called import functions_called
from tests.web.steps import again, ask_for, protect, submit
from tests.web.undoing import undone

pytestmark = pytest.mark.postgres

PRODUCT = Path(releases.__file__).parent
#: Jobs that read rows under a charge, and why each other one needs none.
CHARGED = {"release", "opened_session", "count"}
UNCHARGED = {
    "start_of_upload": "its owner's own file, before it is a table",
    "upload": "its owner's own file, before it is a table",
    "digest": "for the ledger and reviewers: an upload, whose reading did not fail",
    "sketch": "for the ledger and reviewers: an upload, whose reading did not fail",
    "tables_of_server": "no row",
    "columns_of_server": "no row",
    "version_of_object": "no row",
}
#: What may be in no page, mail or log: texts of the rows, of the database and of the address.
HIDDEN = ("Mrs Smith", "4711", "zero", "garbage", "reader_", PASSWORD)
SEX, AGE = COLUMNS[1]["name"], COLUMNS[0]["name"]


# The doors: what each asks of a dataset, as a release that waits for a worker.


def asked_together(world):
    parts = [PartAsked(title="A part", workload=WORKLOAD)]
    drawn = services.collections.draft_collection(
        dataset=world.dataset, by=world.alice, title="Glance", epsilon="1", parts=parts
    )
    release = drawn.parts.get().release
    services.releases.set_choice(release=release, epsilon="1", mechanism_name="laplace-queries")
    return release


def asked_by_workload(world):
    kept = services.workloads.save_workload(
        release=world.draft(), name=f"Kept {Release.objects.count()}", by=world.alice
    )
    release = services.workloads.use_workload(version=kept.latest, dataset=world.dataset, by=world.alice)
    services.releases.set_choice(release=release, epsilon="1", mechanism_name="laplace-queries")
    return release


def asked_range(world):
    bounds = {"lowest": Decimal(0), "highest": Decimal(100), "decimals": 0}
    inside = services.release_inputs.read_beta("0.9")
    return services.learning.learn_range(
        dataset=world.dataset, column=AGE, inside=inside, epsilon="1", by=world.alice, **bounds
    )


def asked_categories(world):
    given = {"column": SEX, "other": "rest", "epsilon": "1", "delta": "0.0000001"}
    return services.learning.learn_categories(dataset=world.dataset, by=world.alice, **given)


def asked_check(world):
    plan = column_checks.planned_check(world.dataset.schema, world.dataset.budget, rows=60)
    return services.column_checks.draft_check(dataset=world.dataset, plan=plan, by=world.alice)


def asked_certificate(world):
    return services.certificates.draft_certificate(of=world.published(), by=world.alice, epsilon="0.1")


def asked_session(world, epsilon="1"):
    given = {"title": "Ask away", "epsilon": epsilon, "options": {"population": 200, "questions": 10}}
    return services.sessions.draft_session(dataset=world.dataset, by=world.alice, way="noise-online", **given)


def asked_in_a_session(world):
    """Already open: its first question is answered."""
    release = world.carry_out(asked_session(world))
    services.sessions.ask_session(session=release.session, query={SEX: ["male"]}, by=world.alice)
    return release.session


def command_release(world):
    world.command(world.named, epsilon="1", policy="zcdp", budget_delta="0.000001", columns=world.dataset.declared)


def command_certify(world):
    of = world.published()
    return lambda: call_command("certify", str(of.pk), epsilon="0.1")


#: By the name of what is called; those that are asked of an upload alone are named below.
DOORS = {
    "draft_release": lambda world: world.draft(),
    "draft_collection": asked_together,
    "use_workload": asked_by_workload,
    "learn_range": asked_range,
    "learn_categories": asked_categories,
    "draft_check": asked_check,
    "draft_certificate": asked_certificate,
    "draft_session": asked_session,
    "answer_or_offer": asked_in_a_session,
    "manage.py release": lambda world: lambda: command_release(world),
    "manage.py certify": command_certify,
}
#: A table in a database may have changed since the release that they speak of.
OF_UPLOADS_ALONE = {"draft_certificate", "manage.py certify"}


def test_every_door_is_in_the_contract():
    """A service that makes a release, or has a question counted; a command that runs one; a job that reads rows."""
    calls = defaultdict(set)
    for path in (PRODUCT / "services").glob("*.py"):
        for each in ast.parse(path.read_text()).body:
            if isinstance(each, ast.FunctionDef):
                calls[each.name] |= set(_called(each))
    readers = {name for name, called in calls.items() if called & {f"reading.{job}" for job in _readings()}}
    assert readers == {"_run", "_open", "ask_session"}, "what reads rows under a charge"
    assert set(jobs.JOBS) == CHARGED | set(UNCHARGED)
    makers = {name for name, called in calls.items() if "Release.objects.create" in called}
    doors = _closure(makers | {"ask_session"}, calls) & set(functions_called())
    runners = {
        f"manage.py {path.stem}"
        for path in (PRODUCT / "management" / "commands").glob("*.py")
        if "execution.execute_release(" in path.read_text()
    }
    assert doors | runners == set(DOORS)


def _readings():
    """The functions of `reading.py` that start a job that reads rows under a charge."""
    for each in ast.parse((PRODUCT / "services" / "reading.py").read_text()).body:
        named = {ast.unparse(node) for node in ast.walk(each) if isinstance(node, ast.Attribute)}
        if isinstance(each, ast.FunctionDef) and named & {f"jobs.{job}" for job in CHARGED}:
            yield each.name


def _called(function):
    return (ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call))


def _closure(found, calls):
    while more := {name for name, called in calls.items() if {each.split(".")[-1] for each in called} & found} - found:
        found = found | more
    return found


# The sources, and how each fails once it is opened


class Upload:
    """A file of the site's own."""

    causes = ("garbage", "one byte", "out of memory")

    def __init__(self):
        self.path, self.content, self.named = None, b"", ""

    def fail(self, cause, patched):
        # A command stores a table of its own.
        self.path = Path(services.datasets.table_path(Dataset.objects.latest("created_at")))
        self.content = self.content or self.path.read_bytes()
        broken = bytearray(self.content)
        broken[len(broken) // 2] ^= 1
        match cause:
            case "garbage":
                self.path.write_bytes(b"garbage")
            case "one byte":
                self.path.write_bytes(broken)
            case "out of memory":
                patched.setattr(runner, "run", _out_of_memory)

    def mend(self):
        self.path.write_bytes(self.content)
        self.content = b""


class View:
    """A view whose rows can raise an error, in a database."""

    causes = ("a row", "other rows", "away", "out of memory")
    named = "clinic#ward.risky"

    def __init__(self, clinic):
        self.clinic = clinic
        clinic.run(
            "CREATE TABLE ward.numbered AS SELECT *, 4711 AS divisor FROM ward.patients",
            "CREATE VIEW ward.risky AS SELECT person, age + 0 / divisor AS age, "
            "CASE WHEN 1 / divisor = 0 THEN sex END AS sex FROM ward.numbered",
            "GRANT SELECT ON ward.risky TO reader",
        )

    def fail(self, cause, patched):
        match cause:
            case "a row":
                self.clinic.run("INSERT INTO ward.numbered VALUES ('Mrs Smith', 30, 'male', '', 0)")
            case "other rows":
                self.clinic.run("UPDATE ward.numbered SET divisor = 0 WHERE sex = 'female'")
            case "away":
                self.clinic.run("ALTER ROLE reader NOLOGIN")
            case "out of memory":
                patched.setattr(runner, "run", _out_of_memory)

    def mend(self):
        self.clinic.run(
            "DELETE FROM ward.numbered WHERE person = 'Mrs Smith'",
            "UPDATE ward.numbered SET divisor = 4711",
            "ALTER ROLE reader LOGIN",
        )


def _out_of_memory(*_, **__):
    raise runner.OverLimit("It takes more memory than a table may take.")


@pytest.fixture
def world(request, alice, sofia, bob, group, settings, upload_file, make_draft, carry_out, command):
    """A dataset of one source, with a budget for all that is asked of it."""
    settings.MAX_ATTEMPTS = 2

    def made(kind):
        if kind == "upload":
            dataset = services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file(), group=group)
            source = Upload()
        else:
            source = View(request.getfixturevalue("clinic"))
            listed = services.connections.tables_of(services.connections.connection_named("clinic"))
            dataset = services.connections.register_table(
                owner=alice, title="Survey", listed=listed, table="ward.risky", group=group
            )
        services.datasets.declare_universe(dataset=dataset, columns=COLUMNS, by=alice)
        protect(dataset, alice)
        services.budgets.approve_request(request=ask_for(dataset, alice, "100"), by=sofia)
        dataset.refresh_from_db()
        drafted = lambda **given: make_draft(dataset, {"marginal": [SEX, AGE]}, **given)  # noqa: E731
        published = lambda: carry_out(make_draft(dataset, {"marginal": [SEX]}, epsilon="0.1"))  # noqa: E731
        return SimpleNamespace(
            dataset=dataset,
            source=source,
            named=source.named or str(upload_file(name="of-command.csv")),
            alice=alice,
            draft=drafted,
            published=published,
            carry_out=carry_out,
            command=command,
        )

    return made


@contextmanager
def _fails_once_opened(source, cause):
    """As soon as it is on record that the table is opened."""
    with pytest.MonkeyPatch.context() as patched:
        for of, name in ((services.attempts, "about_to_open"), (high_water_marks, "note_asked")):
            before = getattr(of, name)

            def opened(*given, before=before):
                before(*given)
                source.fail(cause, patched)

            patched.setattr(of, name, opened)
        yield
    source.mend()


def of(kind):
    return LedgerEntry.objects.filter(kind=kind).count()


@pytest.mark.parametrize("kind", ["upload", "view"])
@pytest.mark.parametrize("door", DOORS)
def test_whatever_fails_once_rows_may_have_been_read_has_one_outcome_and_keeps_its_charge(
    world, as_, alice, bob, sofia, caplog, mailoutbox, until_it_ends, door, kind
):
    if kind == "view" and door in OF_UPLOADS_ALONE:
        with pytest.raises((Refusal, CommandError), match="may have changed since"):
            pytest.fail(str([asked() for asked in [DOORS[door](world(kind))] if callable(asked)]))
        return
    made, seen, logs = world(kind), {}, set()

    def pages(release):
        addresses = [reverse("release_detail", args=[release.pk]), f"/api/releases/{release.pk}"]
        if Session.objects.filter(pk=release.pk).exists():
            addresses += [reverse("session", args=[release.pk]), f"/api/sessions/{release.pk}"]
        return [body(as_(person).get(each)) for each in addresses for person in (alice, sofia)]

    def ended(asked):
        """What people see of it, and of asking again."""
        charged = of(EntryKind.CHARGE)
        if callable(asked):
            with pytest.raises(CommandError) as refused:
                asked()
            assert of(EntryKind.CHARGE) == charged + 1
            return [str(refused.value)]
        if isinstance(asked, Session):
            query = {"query": json.dumps({SEX: ["female"]})}
            other = {"query": json.dumps({AGE: {"from": 25}})}
            said = [
                _refused(as_(person).post(reverse("session", args=[asked.pk]), sent))
                for person, sent in ((alice, query), (alice, query), (bob, other))
            ]
            sent = {"query": json.loads(query["query"])}
            address = f"/api/sessions/{asked.pk}/questions"
            said.append(as_(alice).post(address, sent, content_type="application/json").content.decode())
            assert all(services.sessions.UNANSWERED in each for each in said), said
            assert of(EntryKind.CHARGE) == charged
            return [*said, *pages(asked.release)]
        submit(asked, alice)
        until_it_ends(asked)
        assert (asked.status, asked.ended_because) == (ReleaseState.FAILED, "")
        assert of(EntryKind.CHARGE) == charged + 1
        return pages(asked)

    through = DOORS[door](made)
    for cause in made.source.causes:
        with undone():
            asked = through if callable(through) else again(through)
            mailoutbox.clear()
            caplog.clear()
            Notice.objects.all().delete()
            with _fails_once_opened(made.source, cause):
                shown = ended(asked)
            notices = [(each.title, each.text) for each in Notice.objects.order_by("pk")]
            mailed = [(each.subject, each.body) for each in mailoutbox]
            assert of(EntryKind.RETURN) == 0
        found = [*shown, *map(str, notices), *map(str, mailed), caplog.text]
        assert not [word for word in HIDDEN for text in found if word in as_words(text)], cause
        seen[cause] = masked(repr((shown, notices, mailed)))
        if cause in ("a row", "other rows"):
            logs.add(masked(caplog.text))
    first = seen[made.source.causes[0]]
    for cause, text in seen.items():
        assert text == first, cause
    assert len(logs) <= 1, "the log depends on the rows"


def _refused(response):
    assert response.status_code == 409
    return re.sub(r"\s+", " ", as_words(body(response)))


def test_the_doors_are_of_every_kind_of_release(world):
    made = world("upload")
    releases_made = [DOORS[name](made) for name in DOORS if not name.startswith("manage.py")]
    assert {getattr(each, "release", each).kind for each in releases_made} == set(KINDS.values())
