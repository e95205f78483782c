"""Backups, as the documentation says: made, put back, and nothing done since is done, spent or given back again."""

import json
import shlex
import textwrap
from pathlib import Path

import pytest

from tests.stack import ROOT, Stack

COLUMNS = [{"name": "sex", "type": "categorical", "categories": ["f", "m"]}]

#: What the tests' scripts share: datasets by name, each with people and a budget of its own.
NAMES = f"""
    from releases.engine.errors import EngineError
    from releases.ledger import high_water_marks as marks, ledger, refusals, stale_ledger as behind
    from releases.publication import files
    from releases.publication.files import sha256_of
    from releases.models import ReleaseState, Session
    COLUMNS = {COLUMNS!r}
    def release(title):
        return Release.objects.get(title=title)
    def submit(dataset, title, epsilon="1"):
        made = draft(dataset, epsilon=epsilon)
        Release.objects.filter(pk=made.pk).update(title=title)
        made.refresh_from_db()
        services.releases.submit_release(release=made, key=uuid.uuid4(), by=made.dataset.owner, send=False)
        return made
    def dataset(name):
        return Dataset.objects.get(title=name)
    def reviewer():
        return User.objects.get(username="sofia")
    def refused(act):
        try:
            act()
        except (EngineError, services.release_inputs.Refusal, refusals.LedgerRefusal) as refusal:
            return str(refusal)
        return "it was done"
    def digests(title):
        folder = files.folder_of(release(title))
        return {{path.name: sha256_of(path) for path in sorted(folder.iterdir())}}
    def spent(name):
        return dataset(name).budget.spent_epsilon / 10**12
"""

#: Until the backup is made: one dataset for each thing that goes on afterwards.
BEFORE = """
    def granted(name, epsilon="3"):
        table = Path(FOLDER) / f"{name}.csv"
        table.write_text("sex\\n" + f"f\\nm\\nm\\n" * (50 + len(name)))
        made = budgeted(epsilon, COLUMNS, table)
        Dataset.objects.filter(pk=made.pk).update(title=name)
        made.refresh_from_db()
        Budget.objects.filter(pk=made.budget_id).update(name=name)
        return made
    live = services.sessions.draft_session(
        dataset=granted("asked"), by=people()[0], title="live", epsilon="2", options={"questions": 50})
    services.releases.submit_release(release=live, key=uuid.uuid4(), by=people()[0], send=False)
    assert services.execution.execute_release(release_id=live.pk)
    services.sessions.ask_session(session=release("live").session, query={"sex": ["f"]}, by=people()[0])
    submit(granted("queued "), "waits")
    submit(granted("cancelled  "), "unwanted")
    submit(granted("untouched     "), "untouched")
    alice, sofia = people()
    table = Path(FOLDER) / "newer.csv"
    table.write_text("sex\\n" + "f\\nm\\n" * 77)
    newer = services.datasets.ingest_dataset(owner=alice, title="newer", source=table)
    services.datasets.declare_universe(dataset=newer, columns=COLUMNS)
    services.datasets.declare_protection(dataset=newer, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE)
"""

#: What happens after it: answers, a publication, a refund whose room is used, and a budget.
AFTER = """
    alice, sofia = people()
    for query in ({"sex": ["m"]}, {"sex": ["f", "m"]}):
        services.sessions.ask_session(session=release("live").session, query=query, by=alice)
    assert services.execution.execute_release(release_id=release("waits").pk)
    services.releases.cancel_release(release=release("unwanted"), by=alice)
    for number in range(3):
        services.execution.execute_release(release_id=submit(dataset("cancelled  "), f"instead {number}").pk)
    asked = services.budgets.request_budget(
        dataset=dataset("newer"), epsilon="2", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice)
    services.budgets.approve_request(request=asked, by=sofia)
    assert services.execution.execute_release(release_id=submit(dataset("newer"), "of the newer", epsilon="1.5").pk)
    answer = {"files": digests("waits"), "budget": str(dataset("newer").budget_id)}
"""


def commands_of(heading):
    """The `manage.py` lines below a heading of docs/operations/backup.md, as lists of arguments."""
    page = (ROOT / "docs/operations/backup.md").read_text()
    text = page.split(f"\n## {heading}\n", 1)[1].split("\n## ")[0]
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    found = [shlex.split(line.split("manage.py ", 1)[1], comments=True) for line in lines if "manage.py " in line]
    assert found, f"the page has no commands under {heading}"
    return found


class Site(Stack):
    """An installation that follows the page."""

    def follow(self, heading, backup, *more, fails_at=""):
        """Run the commands under a heading; what they print. The one named `fails_at` must end with status 1."""
        said = ""
        for command in commands_of(heading):
            arguments = [str(backup) if "backups/" in each else each for each in command]
            done = self.manage(*arguments, *(more if arguments[0] == "restore" else ()))
            expected = 1 if arguments[0] == fails_at else 0
            assert done.returncode == expected, (arguments, done.stdout, done.stderr)
            said += done.stdout + done.stderr
        return said

    def do(self, code):
        names = NAMES + f"    FOLDER = {str(self.folder)!r}\n"
        return self.run(textwrap.dedent(names) + textwrap.dedent(code))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def site(request, tmp_path):
    url = "" if request.param == "sqlite" else request.getfixturevalue("migrated_postgres")
    site = Site(tmp_path, database_url=url)
    site.migrate()
    yield site
    site.stop()


@pytest.fixture
def restored(site, tmp_path):
    """After the backup was put back, with what was published in between."""
    site.do(BEFORE)
    site.follow("Backup", tmp_path / "copy")
    site.published = site.do(AFTER)
    refused = site.manage("restore", str(tmp_path / "copy"))
    assert refused.returncode == 1
    assert "--discard-newer" in refused.stderr
    site.audit = site.follow("Restore", tmp_path / "copy", "--discard-newer", fails_at="audit")
    return site


def test_after_a_restored_backup_nothing_is_done_again_until_a_reviewer_lets_it_go_on_from_what_is_known(restored):
    for what in (
        "the release live: it had answered 3 questions; the database knows 1",
        "the release waits: a worker had begun it (attempt 1; the database knows of none)",
        "the release unwanted: it had been cancelled and given back",
        "cancelled  , budget: the database is older than its mark",
        "newer, budget: the database is older than its mark: it has 0 of 2 entries",
    ):
        assert what in restored.audit, restored.audit
    assert "untouched" not in restored.audit
    tried = restored.do(
        """
        alice, sofia = people()
        live, waits, unwanted = release("live"), release("waits"), release("unwanted")
        def ask_for_a_budget():
            asked = services.budgets.request_budget(
                dataset=dataset("newer"), epsilon="2", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice)
            services.budgets.approve_request(request=asked, by=sofia)
        answer = [
            refused(lambda: services.sessions.ask_session(session=live.session, query={"sex": ["m"]}, by=alice)),
            refused(lambda: services.session_closing.close_session(session=live.session, by=alice)),
            refused(lambda: services.releases.cancel_release(release=waits, by=alice)),
            refused(lambda: services.releases.cancel_release(release=unwanted, by=alice)),
            refused(lambda: submit(dataset("cancelled  "), "more")),
            refused(ask_for_a_budget),
        ]
        assert [services.execution.execute_release(release_id=each.pk) for each in (waits, unwanted)] == [False, False]
        assert release("waits").attempts == release("unwanted").attempts == 0
        # What is not behind waits too, until a reviewer has looked.
        assert not services.execution.execute_release(release_id=release("untouched").pk)
        services.restoring.acknowledge_marks(by=sofia)
        assert services.execution.execute_release(release_id=release("untouched").pk)
        assert [services.execution.execute_release(release_id=each.pk) for each in (waits, unwanted)] == [False, False]
        """
    )
    assert all("restored" in each and "on the page Backups" in each for each in tried), tried
    restored.do(
        """
        for name in ("asked", "queued ", "cancelled  ", "newer"):
            services.restoring.restore_ledger(budget=dataset(name).budget, by=reviewer())
        assert [each.budget.name for each in services.restoring.all_missing()] == []
        live = release("live")
        assert live.state == "closing", live.state
        assert services.execution.execute_release(release_id=live.pk)
        """
    )
    found = restored.do(
        """
        answer = {
            "states": {each.title: each.state for each in Release.objects.all()},
            "files": digests("waits"),
            "answers": len(files.read_answers(files.folder_of(release("live")))),
            "spent": {name.strip(): spent(name) for name in ("asked", "queued ", "cancelled  ", "newer")},
            "returns": LedgerEntry.objects.filter(kind="return").count(),
            "caps": dataset("newer").budget.epsilon,
            "more": refused(lambda: submit(dataset("newer"), "more", epsilon="1")),
        }
        """
    )
    assert found["states"] == {
        "live": "published",
        "waits": "published",
        "unwanted": "failed",
        "untouched": "published",
        "more": "draft",
    }, found
    # The very files that were seen, and the answers that the database knows.
    assert found["files"] == restored.published["files"]
    assert found["answers"] == 1
    assert found["spent"] == {"asked": 2.0, "queued": 1.0, "cancelled": 3.0, "newer": 1.5}
    assert (found["returns"], found["caps"]) == (0, "2")
    assert "With this release, 125% of the budget would be spent, and 25% is left" in found["more"]
    audit = restored.manage("audit")
    assert audit.returncode == 0, audit.stderr


def test_a_backup_of_another_version_or_over_a_running_worker_is_refused(site, tmp_path):
    site.do(BEFORE)
    site.follow("Backup", copy := tmp_path / "copy")
    assert not list(copy.rglob("*.jsonl"))
    manifest = json.loads((copy / "manifest.json").read_text())
    newer = {**manifest, "migrations": [*manifest["migrations"], ["releases", "9999_later"]]}
    (copy / "manifest.json").write_text(json.dumps(newer))
    refused = site.manage("restore", str(copy), "--discard-newer")
    assert refused.returncode == 1
    assert "does not know releases.9999_later" in refused.stderr
    (copy / "manifest.json").write_text(json.dumps(manifest))
    site.do(
        """
        from datetime import timedelta
        from django.utils import timezone
        Release.objects.filter(title="waits").update(
            state="running", run_token=uuid.uuid4(), lease_until=timezone.now() + timedelta(hours=1))
        """
    )
    refused = site.manage("restore", str(copy), "--discard-newer")
    assert refused.returncode == 1
    assert "A worker is running" in refused.stderr
    (copy / "manifest.json").unlink()
    assert "never finished" in site.manage("restore", str(copy)).stderr
    assert "exists already" in site.manage("backup", str(copy)).stderr
    assert (Path(copy) / "database").stat().st_mode & 0o077 == 0
