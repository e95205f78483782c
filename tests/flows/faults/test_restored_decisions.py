"""After a restored backup, however it was put back: nothing revoked is valid again, nothing lost is spent again, and
nothing unsettled goes on until a reviewer has looked."""

import shutil
import sqlite3

import pytest

from tests.flows.faults.test_backups import BEFORE, Site

#: What is there when the backup is made, to be revoked afterwards.
GIVEN = """
    from django.contrib.auth.models import Group
    from django.contrib.sessions.backends.db import SessionStore
    from releases.models import ApiToken, Role
    alice, sofia = people()
    def new(name, *roles):
        person = User.objects.create_user(name, password="a long password of theirs")
        for role in roles:
            services.roles.give_role(person=person, role=role, by=sofia)
        return person
    team = Group.objects.create(name="Team")
    for name in ("closed", "left", "demoted"):
        new(name, Role.REVIEWER).groups.add(team)
    services.tokens.make_token(user=User.objects.get(username="demoted"), name="leaked")
    open_one = SessionStore()
    open_one["of"] = "somebody"
    open_one.create()
    shared = dataset("asked")
    alice.groups.add(team)
    services.datasets.share_dataset(dataset=shared, group=team, by=alice)
    for title in ("shown", "hidden"):
        made = submit(dataset("untouched     "), title, epsilon="0.5")
        assert services.execution.execute_release(release_id=made.pk)
        services.releases.make_public(release=made, by=alice)
    survey = services.surveys.draft_survey(owner=alice, title="Tea", question="Tea?", answers=["yes", "no"],
        epsilon="1")
    services.surveys.open_survey(survey=survey, by=alice)
    asked = services.budgets.request_budget(
        dataset=dataset("newer"), epsilon="2", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice)
"""
#: Every protective decision, once.
REVOKED = """
    from django.contrib.auth.models import Group
    from releases.models import ApiToken, BudgetRequest, Role, Survey
    alice, sofia = people()
    closed, left, demoted = (User.objects.get(username=name) for name in ("closed", "left", "demoted"))
    services.tokens.revoke_token(token=ApiToken.objects.get())
    closed.is_active = False
    closed.save()
    left.groups.remove(Group.objects.get())
    services.roles.take_role(person=demoted, role=Role.REVIEWER, by=sofia)
    services.datasets.share_dataset(dataset=dataset("asked"), group=None, by=alice)
    services.releases.withdraw_release(release=release("shown"), by=alice)
    services.releases.make_private(release=release("hidden"), by=alice)
    services.budgets.freeze_budget(budget=dataset("cancelled  ").budget, by=sofia, reason="It leaks.")
    services.budgets.freeze_budget(budget=dataset("queued ").budget, by=sofia, reason="By mistake.")
    services.budgets.unfreeze_budget(budget=dataset("queued ").budget, by=sofia, reason="It was one.")
    services.surveys.close_survey(survey=Survey.objects.get(), by=alice)
    services.budgets.take_back_request(request=BudgetRequest.objects.get(state="waiting"), by=alice)
    services.session_closing.close_session(session=release("live").session, by=alice, send=False)
    services.organisation.change_settings(
        by=sofia, upload_cap_bytes=2**25, default_epsilon="", review_above="0.25", most_per_person="",
        is_two_person=False, reviewers=None, alert_addresses="")
    removable = dataset("newer")
    services.datasets.delete_rows(dataset=removable, by=alice)
    answer = str(Path(removable.location))
"""
STATE = """
    from django.contrib.sessions.models import Session as SignIn
    from releases.models import ApiToken, BudgetRequest, Organisation, Survey
    answer = {
        "tokens": ApiToken.objects.count(),
        "sessions": SignIn.objects.count(),
        "closed": User.objects.get(username="closed").is_active,
        "left": User.objects.get(username="left").groups.count(),
        "demoted": list(HeldRole.objects.filter(person__username="demoted", role="reviewer").values_list("role")),
        "group": str(dataset("asked").group),
        "public": Release.objects.filter(is_public=True).count(),
        "frozen": sorted(Budget.objects.filter(is_frozen=True).values_list("name", "frozen_reason")),
        "withdrawn": release("shown").state,
        "survey": Survey.objects.get().state,
        "asked": BudgetRequest.objects.get(budget=dataset("newer").budget_id).state,
        "live": release("live").state,
        "review": Organisation.current().review_above,
        "rows": dataset("newer").rows_deleted_at is None,
    }
"""
AT_ONCE = {
    "tokens": 0,
    "sessions": 0,
    "closed": False,
    "left": 0,
    "demoted": [],
    "group": "None",
    "public": 0,
    "frozen": [["cancelled  ", "It leaks."]],
}
#: Before a reviewer has looked, and after.
LATER = {
    "withdrawn": ("published", "withdrawn"),
    "survey": ("open", "closed"),
    "asked": ("waiting", "taken back"),
    "live": ("open", "closing"),
    "review": ("", "0.25"),
    "rows": (True, False),
}


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    site.migrate()
    yield site
    site.stop()


def put_back_by_hand(site, copy):
    """As an operator with a shell does, who does not know the command."""
    source, target = sqlite3.connect(copy / "database"), sqlite3.connect(site.folder / "var" / "db.sqlite3")
    source.backup(target)
    target.close()
    source.close()


def test_what_was_revoked_after_the_backup_is_revoked_again(site, tmp_path):
    site.do(BEFORE + GIVEN)
    site.follow("Backup", tmp_path / "copy")
    site.do(REVOKED)
    site.follow("Restore", tmp_path / "copy", "--discard-newer", fails_at="audit")
    assert site.do(STATE) == AT_ONCE | {name: before for name, (before, _) in LATER.items()}
    found = site.do(
        """
        from releases.models.stakes import budgets_at_stake
        sofia = people()[1]
        before = budgets_at_stake(sofia).count()
        answer = [services.restoring.acknowledge_marks(by=sofia), budgets_at_stake(sofia).count() - before]
        """
    )
    assert found == [[], 0]
    assert site.do(STATE) == AT_ONCE | {name: after for name, (_, after) in LATER.items()}
    audit = site.manage("audit")
    assert audit.returncode == 0, audit.stderr


def test_a_reviewer_may_leave_out_what_is_final_and_not_what_concerns_them(site, tmp_path):
    site.do(BEFORE + GIVEN)
    site.follow("Backup", tmp_path / "copy")
    site.do(REVOKED)
    site.do('User.objects.filter(username="demoted").update(is_active=True)')
    site.follow("Restore", tmp_path / "copy", "--discard-newer", fails_at="audit")
    found = site.do(
        """
        from releases.models import AuditEvent, Installation
        everything = services.reapplying.forgotten_decisions(Installation.own())
        assert "By mistake." not in [each.detail for each in everything]
        rows = {each.number for each in everything if each.action == "delete rows"}
        demoted = User.objects.get(username="demoted")
        refusal = refused(lambda: services.restoring.acknowledge_marks(by=demoted))
        frozen = {each.number for each in everything if each.action == "freeze"}
        stake = refused(lambda: services.restoring.acknowledge_marks(by=people()[0], leave_out=rows))
        services.restoring.acknowledge_marks(by=people()[1], leave_out=rows | frozen)
        said = AuditEvent.objects.filter(action="restore").order_by("pk").last().detail
        is_there = dataset("newer").rows_deleted_at is None
        answer = [refusal, stake, said, is_there, dataset("cancelled  ").budget.is_frozen]
        """
    )
    assert "Somebody else has to decide" in found[0]
    assert "owns the data; somebody else has to" in found[1]
    assert "left out: deleted the rows of newer" in found[2]
    assert found[3:] == [True, True]


def test_a_backup_that_was_put_back_by_hand_is_noticed_and_everything_unsettled_waits(site, tmp_path):
    site.do(BEFORE + GIVEN)
    site.follow("Backup", tmp_path / "copy")
    # One decision alone, and nothing of any release or budget.
    site.do("from releases.models import ApiToken; services.tokens.revoke_token(token=ApiToken.objects.get())")
    put_back_by_hand(site, tmp_path / "copy")
    found = site.do(
        """
        from releases.models import ApiToken
        from releases.middleware import restored
        before = ApiToken.objects.count()
        tried = services.execution.execute_release(release_id=release("untouched").pk)
        restored.look_once()
        answer = [before, tried, ApiToken.objects.count()]
        services.restoring.acknowledge_marks(by=people()[1])
        assert services.execution.execute_release(release_id=release("untouched").pk)
        """
    )
    assert found == [1, False, 0]
    assert site.manage("audit").returncode == 0


@pytest.mark.parametrize("loss", ["records deleted", "record deleted", "marks as old as the backup"])
def test_what_was_run_after_the_backup_is_not_run_again_where_its_records_are_lost(site, tmp_path, loss):
    site.do(BEFORE)
    site.follow("Backup", tmp_path / "copy")
    marks, old = tmp_path / "var-marks", tmp_path / "old-marks"
    shutil.copytree(marks, old)
    first = site.do(
        """
        assert services.execution.execute_release(release_id=release("waits").pk)
        answer = digests("waits")
        """
    )
    assert first
    put_back_by_hand(site, tmp_path / "copy")
    if loss == "marks as old as the backup":
        shutil.rmtree(marks)
        shutil.copytree(old, marks)
    else:
        for path in (marks / "releases").glob("*.jsonl"):
            path.unlink()
        if loss == "record deleted":
            (marks / "record.jsonl").unlink()
    run = 'answer = [services.execution.execute_release(release_id=release("waits").pk), release("waits").state]'
    assert site.do(run) == [False, "queued"]
    assert site.manage("audit").returncode == 1
    found = site.do(
        """
        sofia = people()[1]
        refused(lambda: services.restoring.acknowledge_marks(by=sofia))
        budget = dataset("queued ").budget
        refused(lambda: services.restoring.restore_ledger(budget=budget, by=sofia))
        answer = [services.execution.execute_release(release_id=release("waits").pk), release("waits").state,
                  LedgerEntry.objects.filter(kind="return").count()]
        """
    )
    assert found[0] is False
    assert found[1] == ("published" if loss == "records deleted" else "failed")
    assert found[2] == 0
    audit = site.manage("audit")
    assert audit.returncode == 0, audit.stderr


#: A table with a budget, made after the backup, and whatever becomes of a second budget for the same rows.
UPLOADED = """
    def granted(name, epsilon, rows=91):
        alice, sofia = people()
        table = Path(FOLDER) / "lost.csv"
        table.write_text("sex\\n" + "f\\nm\\n" * rows)
        made = services.datasets.ingest_dataset(owner=alice, title=name, source=table)
        services.datasets.declare_universe(dataset=made, columns=COLUMNS)
        services.datasets.declare_protection(dataset=made, unit=PrivacyUnit(),
            neighbours=NeighbouringRelation.ADD_REMOVE)
        asked = services.budgets.request_budget(
            dataset=made, epsilon=epsilon, delta="0.000001", policy=Policy.ZCDP, reason="", by=alice)
        services.budgets.approve_request(request=asked, by=sofia)
        return made
"""


def test_a_lost_budget_is_not_spent_a_second_time_by_whoever_owned_it(site, tmp_path):
    site.do(BEFORE)
    site.follow("Backup", tmp_path / "copy")
    lost = site.do(
        UPLOADED
        + """
    made = granted("lost", "2")
    assert services.execution.execute_release(release_id=submit(made, "once", epsilon="2").pk)
    answer = str(made.budget_id) if made.budget_id else str(dataset("lost").budget_id)
    """
    )
    site.follow("Restore", tmp_path / "copy", "--discard-newer", fails_at="audit")
    found = site.do(
        UPLOADED
        + """
    services.restoring.acknowledge_marks(by=people()[1])
    tight = refused(lambda: granted("again", "1.5"))
    Dataset.objects.filter(title="again").update(title="gone")
    granted("other rows of hers", "3", rows=92)
    more = refused(lambda: submit(dataset("other rows of hers"), "twice", epsilon="2"))
    answer = [tight, spent("other rows of hers"), more]
    """
    )
    assert "were lost with a restored backup" in found[0]
    assert found[1] == 2.0
    assert "With this release, 133.4% of the budget would be spent, and 33.3% is left" in found[2]
    settled = site.do(
        f"""
        alice, sofia = people()
        lost = uuid.UUID({lost!r})
        services.lost_budgets.settle_lost_budget(lost=lost, into=dataset("untouched     ").budget, by=sofia)
        twice = refused(lambda: services.lost_budgets.settle_lost_budget(lost=lost, into=None, by=sofia))
        answer = [twice, spent("untouched     "), len(services.lost_budgets.lost_budgets())]
        """
    )
    assert "somebody has said it before" in settled[0]
    assert settled[1:] == [3.0, 0]
    audit = site.manage("audit")
    assert "untouched" in audit.stderr or audit.returncode == 0
