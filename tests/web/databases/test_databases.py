"""Tables in databases: chosen from a list, counted where they are, with one budget for all that they will ever hold."""

import re
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError
from django.db import connection as site
from django.urls import reverse

from releases import checks, services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import InvalidInput
from releases.engine.tables.query import TableCounts, open_table
from releases.models import Dataset, Ending, EntryKind, LedgerEntry, Release, ReleaseState, RequestState, Session
from releases.planning import column_checks
from releases.presentation.sessions.past_answers import past_answer
from releases.services.connections import Unavailable
from releases.services.release_inputs import Refusal
from tests.web.conftest import COLUMNS, FOR_ROWS, rows_of
from tests.web.databases.conftest import OTHERWISE, PASSWORD, PATIENTS, counted
from tests.web.pages import body, words
from tests.web.steps import ask_for, protect, rule, submit

pytestmark = pytest.mark.postgres

PERSON = PrivacyUnit(kind="person", id_column="person", max_rows=3)


@pytest.fixture
def declared(register, prepare):
    """A dataset of a table, as far as a release of it wants it."""
    return lambda table="ward.patients", **given: prepare(register(table), COLUMNS, **given)


@pytest.fixture
def is_given_back(until_it_ends):
    """Whether the charge of a release that fails is given back, and its end is laid to the table."""

    def ended(release, *, number=1):
        until_it_ends(release)
        failed = (release.status, release.ended_because) == (ReleaseState.FAILED, Ending.AWAY)
        return failed and entries(EntryKind.RETURN) == number

    return ended


def males(release):
    return counted(release)["male"]


def entries(kind):
    return LedgerEntry.objects.filter(kind=kind).count()


MALES = sum(sex == "male" for _, _, sex in PATIENTS)


def test_a_table_is_chosen_declared_released_and_nothing_of_it_is_copied(as_, alice, clinic, declared, release_of):
    client = as_(alice)
    page = client.get(reverse("databases"), follow=True)
    offered = [value for value, _ in page.context["form"].fields["table"].choices]
    # Neither what the role may not read, nor a name that an address cannot hold.
    assert offered == ["", "ward.patients", "ward.stays", "ward.trap"]
    assert "one privacy budget. How many rows there are is never public" in words(page)
    client.post(reverse("database_table", args=["clinic"]), {"table": "ward.patients", "title": "Patients"})
    dataset = Dataset.objects.get()
    assert dataset.columns == ["person", "age", "sex", "note"]
    assert (dataset.connection, dataset.table, dataset.is_in_database) == ("clinic", "ward.patients", True)
    services.datasets.discard_dataset(dataset=dataset, by=alice)
    release = release_of(declared())
    assert release.status is ReleaseState.PUBLISHED
    assert males(release) == MALES
    assert not list(Path(settings.TABLES_DIR).glob("*"))


def test_one_budget_spans_what_the_table_holds_at_different_times(clinic, declared, release_of):
    """A column that is not declared may change too."""
    dataset = declared()
    before = release_of(dataset)
    clinic.run("ALTER TABLE ward.patients DROP COLUMN note", "ALTER TABLE ward.patients ADD COLUMN more text")
    clinic.run("INSERT INTO ward.patients SELECT 'new', 30, 'male', '' FROM generate_series(1, 7)")
    after = release_of(dataset)
    assert [males(each) for each in (before, after)] == [MALES, MALES + 7]
    spent = LedgerEntry.objects.filter(budget=dataset.budget, kind=EntryKind.CHARGE)
    assert sorted(spent.values_list("release", flat=True)) == sorted([before.pk, after.pk])


def test_nothing_that_is_shown_kept_or_sent_tells_how_many_rows_a_growing_table_has_or_had(
    as_, alice, sofia, clinic, declared, make_queued, caplog, mailoutbox
):
    """What is published has noise of a hundred thousand rows, and hits one of these numbers once in 10,000 times."""
    males, females, more = 40_009, 64_720, 15_551
    fill = "INSERT INTO ward.patients SELECT 'x', 30, '{}', '' FROM generate_series(1, {})"
    clinic.run("TRUNCATE ward.patients", fill.format("male", males), fill.format("female", females))
    dataset, releases = declared(), []
    for step in ("at first", "grown"):
        if step == "grown":
            clinic.run(fill.format("male", more), "ANALYZE ward.patients", "VACUUM FULL ward.patients")
        release = make_queued(dataset, {"marginal": ["sex"]}, epsilon="0.00001", options=FOR_ROWS)
        assert services.execution.execute_release(release_id=release.pk), step
        release.refresh_from_db()
        releases.append(release)
    budget = dataset.budget.pk
    pages = [
        *(reverse(page, args=[dataset.pk]) for page in ("dataset_detail", "columns", "protection", "budget")),
        *(reverse(page, args=[each.pk]) for page in ("release_detail", "receipt") for each in releases),
        *(f"/api/releases/{each.pk}" for each in releases),
        *(
            f"/api/datasets/{dataset.pk}",
            reverse("budget_detail", args=[budget]),
            "/datasets/",
            "/releases/",
            "/notices/",
        ),
        *("/review/", "/review/budgets/", "/review/ledger.csv", reverse("connections"), "/"),
        reverse("compare_releases", args=[releases[0].pk]) + f"?other={releases[1].pk}",
    ]
    shown = {f"{page} as {who}": body(as_(who).get(page)) for page in pages for who in (alice, sofia)}
    for path in Path(settings.RELEASES_DIR).rglob("*"):
        if path.suffix in (".csv", ".json", ".md", ".html", ".txt"):
            shown[str(path)] = path.read_text()
    with site.cursor() as cursor:
        for table in site.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            shown[table] = repr(cursor.fetchall())
    shown["log"], shown["mail"] = caplog.text, "".join(each.body for each in mailoutbox)
    assert len(shown) > 60
    # What is published is found in this way, whatever sign is before it.
    for release in releases:
        (published, *_) = counted(release).values()
        assert re.search(
            rf"(?<![\d,]){abs(published):,}(?![\d,])",
            shown[f"{reverse('release_detail', args=[release.pk])} as {alice}"],
        )
    for number in (males, females, males + more, males + females, males + females + more, more):
        written = re.compile(rf"(?<![\w.-]){number}(?![\w-])|(?<![\d,]){number:,}(?![\d,])")
        assert not [place for place, text in shown.items() if written.search(text)], number


def test_a_live_session_counts_the_rows_that_are_there_at_each_question_and_charges_once(
    clinic, declared, alice, monkeypatch
):
    dataset, found, count = declared(), [], services.reading.count
    monkeypatch.setattr(services.reading, "count", lambda *given: found.append(count(*given)) or found[-1])
    options = {"population": 200, "questions": 10}
    release = services.sessions.draft_session(
        dataset=dataset, by=alice, title="Ask away", epsilon="45", options=options, way="pmw-online"
    )
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=release.pk)
    session = Session.objects.get(pk=release.pk)
    services.sessions.ask_session(session=session, query={"sex": ["male"]}, by=alice)
    clinic.run("INSERT INTO ward.patients SELECT 'new', 30, 'female', '' FROM generate_series(1, 7)")
    services.sessions.ask_session(session=session, query={"sex": ["female"]}, by=alice)
    assert found == [MALES, len(PATIENTS) - MALES + 7]
    clinic.run("ALTER TABLE ward.patients RENAME TO elsewhere")
    with pytest.raises(Refusal, match="Nothing was answered and nothing is used up"):
        services.sessions.ask_session(session=session, query={"age": {"to": 35}}, by=alice)
    assert (entries(EntryKind.CHARGE), session.answers.count()) == (1, 2)


@pytest.mark.parametrize("way", ["pmw-online", "noise-online"])
def test_what_a_session_says_is_true_of_rows_that_have_come_since_it_was_opened(
    clinic, declared, alice, as_, close, way
):
    """It knows how many rows there were when it was opened, and a later question counts more."""
    release = services.sessions.draft_session(
        dataset=declared(),
        by=alice,
        title="Ask away",
        epsilon="45",
        options={"population": 200, "questions": 10},
        way=way,
    )
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
    assert services.execution.execute_release(release_id=release.pk)
    session = Session.objects.get(pk=release.pk)
    clinic.run("INSERT INTO ward.patients SELECT 'new', 30, 'female', '' FROM generate_series(1, 3000)")
    females = len(PATIENTS) - MALES + 3000
    services.sessions.ask_session(session=session, query={"sex": ["female"]}, by=alice)
    shown = words(as_(alice).get(reverse("session", args=[session.pk])))
    assert "its rows may change while the session is open" in shown
    plan = services.sessions.plan_of_session(session)
    answer = past_answer(session.answers.get(), session, plan.schema.universe)
    assert answer.lower <= females <= answer.upper
    # That so many updates are never needed would be proved of the rows of then alone.
    ended = SimpleNamespace(updates_left=0, rules=plan.rules, universe=plan.schema.universe)
    assert not services.sessions._is_settled(session, ended)
    (row,) = (each for each in rows_of(close(session)) if each["sex"] == "female")
    assert float(row["lower"]) <= females <= float(row["upper"])


def test_all_that_a_run_counts_is_of_one_moment_and_its_session_cannot_write(clinic, declared, opens_tables):
    """The owner of the table could."""
    table = open_table(f"{clinic.url}#ward.patients")
    counts = TableCounts(table, declared().schema)
    before = counts.marginals([("sex",), ("age",)])
    clinic.run("INSERT INTO ward.patients VALUES ('new', 30, 'male', '')", "DELETE FROM ward.patients WHERE age < 30")
    assert [each.tolist() for each in counts.marginals([("sex",), ("age",)])] == [each.tolist() for each in before]
    assert counts.histogram().sum() == counts.tally(("sex",)).counts.sum() == len(PATIENTS)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        table._connection.execute("DELETE FROM ward.patients")


def test_the_rows_of_a_person_are_bounded_in_the_database(clinic, declared, release_of):
    clinic.run("INSERT INTO ward.patients SELECT 'p0', 30, 'male', '' FROM generate_series(1, 1000)")
    # Each person has three rows at first, so only of p0 is it open which three are kept.
    others = sum(sex == "male" for person, _, sex in PATIENTS if person != "p0")
    assert others - 2 <= males(release_of(declared(unit=PERSON))) <= others + 3 + 2


@pytest.mark.confined
def test_the_confined_process_reaches_a_database_and_its_refusals_name_no_secret(
    declared, release_of, queue, until_it_ends, caplog
):
    assert males(release_of(declared())) == MALES
    trapped = queue(declared("ward.trap"))
    until_it_ends(trapped)
    # A row made it fail, so the charge stays, and nothing says which row or why.
    assert (trapped.status, trapped.ended_because) == (ReleaseState.FAILED, "")
    assert entries(EntryKind.CHARGE) == 2
    assert not LedgerEntry.objects.filter(kind=EntryKind.RETURN).exists()
    assert "zero" not in caplog.text
    assert PASSWORD not in caplog.text


def test_a_number_of_rows_that_comes_and_goes_is_never_public(register, make_dataset, alice):
    dataset, uploaded = register(), make_dataset(epsilon="")
    with pytest.raises(InvalidInput, match="add_remove for Patients, a table in a database"):
        protect(dataset, alice, neighbours=NeighbouringRelation.REPLACE)
    protect(uploaded, alice, neighbours=NeighbouringRelation.REPLACE)
    with pytest.raises(InvalidInput, match="add_remove"):
        services.datasets.join_population(dataset=dataset, other=uploaded, by=alice)


def test_the_page_that_declares_the_id_of_a_person_says_which_texts_are_one_person(as_, alice, register, make_dataset):
    in_database = register()
    services.datasets.declare_universe(dataset=in_database, columns=COLUMNS, by=alice)
    for dataset in (in_database, make_dataset(epsilon="")):
        page = words(as_(alice).get(reverse("protection", args=[dataset.pk])))
        assert "1 and 1.0, A and a, or é as one character and as e with an accent, are two people" in page
        assert "a no-break space does" in page


def test_a_plan_for_a_public_number_of_rows_reads_no_table_in_a_database(declared, queue, until_it_ends, monkeypatch):
    queued = queue(declared())
    plan = services.releases.plan_of(release=queued)
    public = replace(plan, schema=replace(plan.schema, neighbours=NeighbouringRelation.REPLACE))
    monkeypatch.setattr("releases.services.execution._charged_plan", lambda release: public)
    assert until_it_ends(queued).status is ReleaseState.FAILED
    assert entries(EntryKind.RETURN) == 1


#: What is done to a table or its server, and what is said then of a release that has read nothing.
CHANGES = {
    "gone": ("ALTER TABLE ward.patients DROP COLUMN sex", "has no column sex any more"),
    "renamed": ("ALTER TABLE ward.patients RENAME COLUMN age TO years", "has no column age any more"),
    "of another type": (
        "ALTER TABLE ward.patients ALTER COLUMN age TYPE text",
        "another type now: text and not integer",
    ),
    "called otherwise": ("ALTER TABLE ward.patients RENAME TO people", "lists no table ward.patients any more"),
    "not readable": ("REVOKE SELECT ON ward.patients FROM reader", "lists no table ward.patients any more"),
    "away": ("ALTER ROLE reader NOLOGIN", "does not answer, or does not let this site sign in"),
}
#: By a formula, and by a lookup table.
MADE = [
    {"name": "decade", "type": "integer", "edges": [0, 3, 9], "formula": "floor(age / 10)"},
    {"name": "known", "type": "categorical", "categories": ["w", "m"], "formula": 'recode(sex, {"female": "w"}, "m")'},
]
#: Of which no release here is.
DECLARED_LATER = [{"name": "note", "type": "categorical", "categories": ["well", "ill"]}]


@pytest.fixture
def each_kind(declared, make_draft, alice, settings):
    """A dataset whose columns a release of each kind reads, and what makes a draft of each."""
    settings.MAX_ATTEMPTS = 2
    dataset = declared()
    services.datasets.declare_universe(dataset=dataset, columns=[*COLUMNS, *MADE], by=alice)

    def checking():
        plan = column_checks.planned_check(dataset.schema, dataset.budget, rows=len(PATIENTS))
        return services.column_checks.draft_check(dataset=dataset, plan=plan, by=alice)

    def asking():
        given = {"title": "Ask away", "epsilon": "1", "options": {"population": 200}, "way": "pmw-online"}
        return services.sessions.draft_session(dataset=dataset, by=alice, **given)

    return dataset, {
        "tables": lambda: make_draft(dataset, {"marginal": ["age", "sex"]}, epsilon="1"),
        "made columns": lambda: make_draft(dataset, {"marginal": ["decade", "known"]}, epsilon="1"),
        "a check": checking,
        "a session": asking,
    }


@pytest.mark.parametrize(("change", "says"), CHANGES.values(), ids=CHANGES)
def test_whatever_a_release_is_it_is_refused_before_its_charge_and_its_charge_is_given_back_after_it(
    clinic, each_kind, alice, is_given_back, change, says
):
    """Also where the column is declared no longer since the release was planned."""
    dataset, draft_of = each_kind
    queued, drafts = ({kind: make() for kind, make in draft_of.items()} for _ in range(2))
    for release in queued.values():
        submit(release, alice)
    clinic.run(change)
    for kind, release in drafts.items():
        with pytest.raises(Refusal, match=f"{says}.*Nothing was charged"):
            pytest.fail(f"{kind}: {submit(release, alice)}")
    assert entries(EntryKind.CHARGE) == len(queued)
    services.datasets.declare_universe(dataset=dataset, columns=DECLARED_LATER, by=alice)
    for place, (kind, release) in enumerate(queued.items(), start=1):
        assert is_given_back(release, number=place), kind


@pytest.mark.parametrize("place", range(len(CHANGES)), ids=CHANGES)
def test_once_rows_may_have_been_read_every_cause_has_one_reason_and_the_charge_stays(
    clinic, each_kind, alice, monkeypatch, until_it_ends, place
):
    _, draft_of = each_kind
    change, _ = list(CHANGES.values())[place]
    release, opening = list(draft_of.values())[place % len(draft_of)](), services.attempts.about_to_open
    submit(release, alice)

    def opened(*given):
        opening(*given)
        clinic.run(change)

    monkeypatch.setattr("releases.services.attempts.about_to_open", opened)
    if change == CHANGES["of another type"][0]:
        # Every text of these is read as the number that it was.
        assert services.execution.execute_release(release_id=release.pk)
        return
    until_it_ends(release)
    assert (release.status, release.ended_because) == (ReleaseState.FAILED, "")
    assert release.meaning == ReleaseState.FAILED.meaning
    assert (entries(EntryKind.CHARGE), entries(EntryKind.RETURN)) == (1, 0)


def test_a_table_that_is_listed_otherwise_is_refused_before_a_reviewer_s_approval_charges(
    clinic, declared, make_draft, alice, sofia, as_
):
    """Also where the column is declared no longer since."""
    dataset = declared()
    release = make_draft(dataset, {"marginal": ["sex"]}, epsilon="45")
    rule(review_above="1")
    assert submit(release, alice) is None
    asked = release.reviews.get()
    services.datasets.declare_universe(dataset=dataset, columns=DECLARED_LATER, by=alice)
    clinic.run("ALTER TABLE ward.patients RENAME COLUMN sex TO gender")
    with pytest.raises(Refusal, match=r"has no column sex any more\. Nothing was charged"):
        services.reviews.approve_release(request=asked, by=sofia)
    given = {"decision": "approve", "epsilon": "", "note": ""}
    page = as_(sofia).post(reverse("release_request", args=[asked.pk]), given)
    assert "has no column sex any more. Nothing was charged" in words(page)
    asked.refresh_from_db()
    assert (asked.state, entries(EntryKind.CHARGE)) == (RequestState.WAITING, 0)
    clinic.run("ALTER TABLE ward.patients RENAME COLUMN gender TO sex")
    services.reviews.approve_release(request=asked, by=sofia, send=False)
    assert entries(EntryKind.CHARGE) == 1


def test_a_database_that_is_away_costs_nothing(as_, alice, declared, release_of, queue, is_given_back, settings):
    dataset = declared()
    queued = queue(dataset)
    settings.CONNECTIONS = {"clinic": settings.CONNECTIONS["clinic"].replace("/dpweb", "/not_dpweb")}
    with pytest.raises(Refusal, match="is another database now"):
        release_of(dataset)
    dataset.catalogue["server"] = services.connections.connection_named("clinic").server
    dataset.save()
    with pytest.raises(Refusal, match=r"does not answer.*Nothing was charged"):
        release_of(dataset)
    assert as_(alice).get(reverse("database_table", args=["clinic"])).status_code == 409
    assert entries(EntryKind.CHARGE) == 1
    assert is_given_back(queued)


#: What makes a role more than one that reads, and what takes that away again.
RIGHTS = [
    ("ALTER ROLE reader SUPERUSER", "ALTER ROLE reader NOSUPERUSER"),
    ("ALTER ROLE reader CREATEROLE", "ALTER ROLE reader NOCREATEROLE"),
    ("GRANT CREATE ON SCHEMA ward TO reader", "REVOKE CREATE ON SCHEMA ward FROM reader"),
    ("GRANT INSERT ON ward.patients TO reader", "REVOKE INSERT ON ward.patients FROM reader"),
    ("GRANT UPDATE (age) ON ward.secrets TO reader", "REVOKE UPDATE (age) ON ward.secrets FROM reader"),
    ("GRANT DELETE ON ward.trap TO reader", "REVOKE DELETE ON ward.trap FROM reader"),
    ("GRANT pg_write_all_data TO reader", "REVOKE pg_write_all_data FROM reader"),
]


def test_a_role_that_may_do_more_than_read_is_refused(clinic, register):
    for right, undone in RIGHTS:
        clinic.run(right)
        with pytest.raises(Unavailable, match="must be one that reads tables and can do nothing else"):
            pytest.fail(f"{right}: {register()}")
        assert not Dataset.objects.exists()
        clinic.run(undone)
    assert register().table == "ward.patients"


def test_a_database_of_another_encoding_is_refused_before_anything_is_charged(clinic, register, settings):
    name = f"latin_{uuid.uuid4().hex[:8]}"
    made = "CREATE DATABASE {} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    clinic.run(made.format(name))
    try:
        settings.CONNECTIONS = {"clinic": clinic.address.rpartition("/")[0] + f"/{name}"}
        with pytest.raises(Unavailable, match="is not in UTF-8"):
            register()
    finally:
        clinic.run(f"DROP DATABASE {name}")


def test_a_database_that_counts_otherwise_is_refused_before_anything_is_charged(clinic, register, declared, release_of):
    dataset = declared()
    clinic.run(*OTHERWISE)
    for refused in (register, lambda: release_of(dataset)):
        with pytest.raises((Unavailable, Refusal), match="clinic counts texts, numbers, dates or persons otherwise"):
            refused()
    assert entries(EntryKind.CHARGE) == 0


def test_no_table_is_taken_that_the_database_does_not_list(as_, alice, register):
    for table in ("ward.secrets", "ward.odd.name", "pg_catalog.pg_authid", ""):
        with pytest.raises(InvalidInput):
            pytest.fail(f"{table}: {register(table)}")
        sent = as_(alice).post(reverse("database_table", args=["clinic"]), {"table": table, "title": "Mine"})
        assert (sent.status_code, Dataset.objects.count()) == (400, 0), table


def test_a_receipt_names_the_table_and_what_needs_the_same_rows_later_is_refused(declared, release_of):
    release = release_of(declared())
    assert release.result["receipt"]["source"] == {"database": "clinic", "table": "ward.patients"}
    with pytest.raises(Refusal, match="may have changed since"):
        services.release_inputs.certifiable(release)
    assert "database of their own" in services.datasets.why_rows_stay(release.dataset)


def test_the_same_table_is_recognised_and_gets_no_budget_of_its_own(declared, register, bob, sofia):
    first = declared()
    again = register(title="Patients again", owner=bob)
    services.datasets.declare_universe(dataset=again, columns=COLUMNS, by=bob)
    protect(again, bob)
    asked = ask_for(again, bob, "1", delta="0", policy=Policy.PURE)
    with pytest.raises(services.budgets.RowsKnown) as known:
        services.budgets.approve_request(request=asked, by=sofia)
    assert known.value.budgets == [first.budget]
    services.budgets.join_request(request=asked, to=first.budget.pk, by=sofia, note="The same table.")
    again.refresh_from_db()
    assert again.budget == first.budget


def test_a_password_is_stored_and_shown_nowhere(as_, alice, declared, release_of):
    release = release_of(declared())
    with site.cursor() as cursor:
        for table in site.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            assert PASSWORD not in repr(cursor.fetchall()), table
    for path in Path(settings.RELEASES_DIR).rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path
    for address in (reverse("dataset_detail", args=[release.dataset.pk]), reverse("receipt", args=[release.pk])):
        assert PASSWORD not in as_(alice).get(address).content.decode()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("postgresql://reader@db.example.org/clinic?sslmode=verify-full", ""),
        ("postgresql://reader:secret@db.example.org/clinic", "must have no password"),
        ("postgresql://reader@db.example.org/clinic?password=secret", "it has password"),
        ("postgresql://reader@[db/clinic", "whose host and port can be read"),
        ("postgresql://db.example.org/clinic", "must be postgresql://ROLE@HOST/DATABASE"),
        ("postgresql://reader@db.example.org/clinic#ward.patients", "must name no table"),
        ("postgresql://reader@db.example.org:5432/dpweb", "is the site's own"),
    ],
)
def test_the_site_does_not_start_with_an_address_that_is_wrong_or_holds_a_password(
    settings, monkeypatch, address, says
):
    own = {**settings.DATABASES["default"], "HOST": "db.example.org", "PORT": "", "NAME": "dpweb"}
    monkeypatch.setitem(settings.DATABASES, "default", own)
    settings.CONNECTIONS = {"clinic": address}
    found = [each.msg for each in checks.connections_are_named_without_passwords(None)]
    assert len(found) == bool(says)
    assert all(says in each and "secret" not in each for each in found)


def test_the_command_line_releases_from_a_table_by_its_database_s_name_or_address(clinic, command, settings, sofia):
    settings.CONNECTIONS = {}
    services.connections.register_connection(name="clinic", address=clinic.address, by=sofia)
    counts = {"female": len(PATIENTS) - MALES, "male": MALES}
    assert command("clinic#ward.patients") == counts
    assert command(f"{clinic.address}#ward.patients") == counts
    # One table, and one budget for both.
    assert Dataset.objects.get().budget.entries.filter(kind=EntryKind.CHARGE).count() == 2


def test_the_command_line_refuses_in_the_words_of_the_page(clinic, command, refused_alike):
    for change, undone, says in (
        (*RIGHTS[0], "The role by which this site signs in to clinic is a superuser"),
        (*RIGHTS[3], "The role by which this site signs in to clinic may write to tables"),
        ("ALTER ROLE reader NOLOGIN", "ALTER ROLE reader LOGIN", "clinic does not answer, or does not let this site"),
    ):
        clinic.run(change)
        assert says in refused_alike("clinic", "ward.patients")
        clinic.run(undone)
    clinic.run(*OTHERWISE)
    assert "clinic counts texts, numbers, dates or persons otherwise" in refused_alike("clinic", "ward.patients")
    clinic.run("DROP FUNCTION ward.chr")
    for table in ("ward.secrets", "ward.odd.name", "pg_catalog.pg_authid"):
        with pytest.raises(CommandError, match="must be one of the tables that clinic lists"):
            command(f"clinic#{table}")
    # A column that is not there, and a number of rows that would be public, as the pages and the API refuse them.
    with pytest.raises(CommandError, match="is not a column of the table"):
        command("clinic#ward.stays")
    with pytest.raises(CommandError, match=r"add_remove for ward\.patients, a table in a database"):
        command("clinic#ward.patients", neighbours="replace")
    assert entries(EntryKind.CHARGE) == 0


def test_the_command_line_refuses_a_table_that_changed_before_it_is_charged(clinic, command, monkeypatch):
    """The columns were declared a moment ago."""
    submit_release = services.releases.submit_release

    def changed(**given):
        clinic.run("ALTER TABLE ward.patients DROP COLUMN sex")
        return submit_release(**given)

    monkeypatch.setattr("releases.services.releases.submit_release", changed)
    with pytest.raises(CommandError, match=r"has no column sex any more\. Nothing was charged"):
        command("clinic#ward.patients")
    assert (entries(EntryKind.CHARGE), Release.objects.count()) == (0, 0)


def test_the_command_line_names_a_connection_that_is_not_used_and_no_secret_that_was_typed(clinic, command, settings):
    role, _, where = clinic.address.partition("@")
    for typed, says in (
        (f"{role}:hush@{where}#ward.patients", "no such connection"),
        (f"{role}:hush@{where}", "names no table; write #TABLE behind it"),
        ("clinic#", "names no table; write #TABLE behind it"),
        ("clinic", "clinic is not a file"),
        ("nowhere#ward.patients", "no such connection"),
    ):
        with pytest.raises(CommandError, match=says) as refused:
            command(typed)
        assert "hush" not in str(refused.value)
    settings.CONNECTIONS = {"clinic": f"{role}:hush@{where}"}
    with pytest.raises(CommandError, match=r"clinic is not used\. It must have no password") as refused:
        command("clinic#ward.patients")
    assert "hush" not in str(refused.value)
