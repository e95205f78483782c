"""The documentation's two roles on a real PostgreSQL: the site's own cannot alter the ledger, and can do its work."""

import re
import uuid

import psycopg
import pytest

from tests.conftest import POSTGRES_URL
from tests.stack import ROOT, Stack

pytestmark = pytest.mark.postgres

COLUMNS = [{"name": "sex", "type": "categorical", "categories": ["f", "m"]}]


def statements(name):
    """The indented block of the page, with names of this test alone: roles are the whole server's."""
    section = (ROOT / "docs/operations/postgres-roles.md").read_text()
    blocks = [block for block in re.split(r"\n(?! {4})[^\n]*", section) if ";" in block]
    lines = [line.strip() for line in "".join(blocks).splitlines() if line.strip().endswith(";")]
    return [each.replace("dpweb", name) for each in lines]


def signed_in(folder, url, **more):
    stack = Stack(folder, database_url=url)
    stack.environment |= more
    return stack


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An installation made as the page says, with a budget and a charge made by the site's role."""
    name = f"dpweb_{uuid.uuid4().hex[:8]}"
    of_the_server = statements(name)
    assert len(of_the_server) == 5
    place = POSTGRES_URL.rsplit("@", 1)[1].split("/")[0]
    url = f"postgresql://{name}_{{0}}:{{0}}%20password@{place}/{name}".format
    folder = tmp_path_factory.mktemp("roles")
    with psycopg.connect(POSTGRES_URL, autocommit=True) as connection:
        for each in of_the_server:
            connection.execute(each)
        try:
            owner = signed_in(folder, url("owner"), DATABASE_SITE_ROLE=f"{name}_site")
            owner.migrate()
            stack = Stack(folder, database_url=url("site"))
            table = folder / "t.csv"
            table.write_text("sex\nf\nm\n")
            spent = stack.run(
                f"""
                release = draft(budgeted('5', {COLUMNS!r}, {str(table)!r}))
                services.releases.submit_release(release=release, key=uuid.uuid4(), by=release.dataset.owner,
                    send=False)
                assert services.execution.execute_release(release_id=release.pk)
                again = draft(release.dataset, epsilon="0.5")
                services.releases.submit_release(release=again, key=uuid.uuid4(), by=again.dataset.owner, send=False)
                services.releases.cancel_release(release=again, by=again.dataset.owner)
                release.refresh_from_db()
                from releases.ledger import verification
                budget = Budget.objects.get()
                answer = [release.state, budget.spent_epsilon, [fault.what for fault in verification.verify(budget)]]
                """
            )
            assert spent == ["published", 10**12, []]
            # A backup is put back by the owner, who is not told the role's name: its rights are there again.
            owner = signed_in(folder, url("owner"))
            for command in (("backup", str(folder / "copy")), ("restore", str(folder / "copy"), "--discard-newer")):
                done = owner.manage(*command)
                assert done.returncode == 0, done.stderr
            allowed = stack.run(
                """
                services.restoring.acknowledge_marks(by=people()[1])
                again = draft(Release.objects.order_by("created_at").first().dataset, epsilon="0.25")
                services.releases.submit_release(release=again, key=uuid.uuid4(), by=again.dataset.owner, send=False)
                answer = services.execution.execute_release(release_id=again.pk)
                """
            )
            assert allowed is True
            assert "releases.W003" not in stack.manage("check", "--deploy").stderr
            assert "owns the ledger" in owner.manage("check", "--deploy").stderr
            owner.stop()
            yield url("site")
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
            for role in ("site", "owner"):
                connection.execute(f"DROP ROLE {name}_{role}")


#: On the ledger and on the audit log, each of which has a trigger of its own.
ON_BOTH = [
    "UPDATE {table} SET id = 1 WHERE false",
    "DELETE FROM {table}",
    "TRUNCATE {table} CASCADE",
    "ALTER TABLE {table} DISABLE TRIGGER ALL",
    "DROP TABLE {table} CASCADE",
    "CREATE TRIGGER mine BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION releases_ledger_append_only()",
    "CREATE RULE mine AS ON INSERT TO {table} DO INSTEAD NOTHING",
    "ALTER TABLE {table} OWNER TO CURRENT_USER",
    "INSERT INTO {table} SELECT * FROM {table} ON CONFLICT (id) DO UPDATE SET id = 7",
    "SELECT * FROM {table} FOR UPDATE",
]
DENIED = [
    *(each.format(table=table) for table in ("releases_ledgerentry", "releases_auditevent") for each in ON_BOTH),
    "ALTER TABLE releases_ledgerentry ENABLE REPLICA TRIGGER ledger_append_only",
    "DROP TRIGGER ledger_append_only ON releases_ledgerentry",
    "DROP TRIGGER audit_append_only ON releases_auditevent",
    "DROP TRIGGER budget_moves_with_an_entry ON releases_budget",
    "DROP FUNCTION releases_budget_guard CASCADE",
    "CREATE OR REPLACE FUNCTION releases_budget_guard() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RETURN NEW; END $$",
    "ALTER FUNCTION releases_budget_guard() RESET ALL",
    "SET session_replication_role = replica",
    "CREATE TEMPORARY TABLE releases_ledgerentry (id int)",
    "SET ROLE postgres",
    "TRUNCATE releases_budget CASCADE",
    "DELETE FROM releases_surveytally",
    "DELETE FROM django_migrations",
]


@pytest.mark.parametrize("statement", DENIED)
def test_the_site_s_role_can_neither_alter_the_ledger_or_the_audit_log_nor_take_a_guard_off(installed, statement):
    with psycopg.connect(installed) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE releases_budget SET spent_epsilon = 0, spent_rho = 0", "changes only with an entry"),
        ("UPDATE releases_budget SET epsilon = '9', cap_epsilon = 9000000000000", "changes only with an entry"),
        ("UPDATE releases_budget SET policy = 'pure'", "fixed once it was granted"),
        ("DELETE FROM releases_budget", "stays"),
    ],
)
def test_what_the_site_s_role_may_write_the_guards_still_judge(installed, statement, said):
    with psycopg.connect(installed) as connection, pytest.raises(psycopg.errors.RaiseException, match=said):
        connection.execute(statement)


def test_a_temporary_table_of_the_ledger_s_name_deceives_no_guard(migrated_postgres, tmp_path):
    """Where nobody made two roles."""
    stack = Stack(tmp_path, database_url=migrated_postgres)
    table = tmp_path / "t.csv"
    table.write_text("sex\nf\nm\n")
    stack.run(f"budgeted('5', {COLUMNS!r}, {str(table)!r})")
    with psycopg.connect(migrated_postgres) as connection:
        connection.execute("CREATE TEMPORARY TABLE releases_ledgerentry AS SELECT * FROM public.releases_ledgerentry")
        connection.execute(
            "UPDATE pg_temp.releases_ledgerentry SET previous = hash, hash = repeat('1', 64), sequence = 9"
        )
        with pytest.raises(psycopg.errors.RaiseException, match="changes only with an entry"):
            connection.execute("UPDATE releases_budget SET sequence = 9, head = repeat('1', 64)")
