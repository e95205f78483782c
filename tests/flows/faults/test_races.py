"""Many processes at one budget or one survey: exactly what fits is granted, and nobody sees an error."""

import subprocess

import pytest

from tests.stack import ROOT, Stack

COLUMNS = [{"name": "sex", "type": "categorical", "categories": ["f", "m"]}]

RACER = """
import sys
from releases.ledger import ledger, refusals
from fractions import Fraction
from releases.engine.accounting.events import PureEvent
dataset = Dataset.objects.get()
granted = refused = 0
for _ in range({tries}):
    release = services.releases.draft_release(dataset=dataset, by=dataset.owner)
    try:
        ledger.charge(release=release, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE,
                      events=[PureEvent(epsilon=Fraction(1, 10))], delta=Fraction(0),
                      key=uuid.uuid4(), actor=dataset.owner)
        granted += 1
    except refusals.LedgerRefusal:
        refused += 1
print(granted, refused)
"""


def race(stack, code, *, processes):
    """What each of so many processes prints that run the same at once; none may say anything of an error."""
    racers = stack.run_at_once([code] * processes)
    assert [(racer.returncode, racer.stderr) for racer in racers] == [(0, "")] * processes
    return [racer.stdout for racer in racers]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def stack(request, tmp_path):
    url = "" if request.param == "sqlite" else request.getfixturevalue("migrated_postgres")
    stack = Stack(tmp_path, database_url=url)
    stack.migrate()
    yield stack
    stack.stop()


def test_eight_processes_of_ten_tries_where_ten_fit_give_ten_grants_and_no_error(stack, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("sex\nf\nm\n")
    stack.run(f"budgeted('1', {COLUMNS!r}, {str(table)!r})")
    counts = [tuple(map(int, output.split())) for output in race(stack, RACER.format(tries=10), processes=8)]
    assert sum(granted for granted, _ in counts) == 10
    assert sum(refused for _, refused in counts) == 70
    answer = stack.run(
        """
        from releases.ledger import verification
        budget = Budget.objects.get()
        answer = [budget.spent_epsilon, LedgerEntry.objects.filter(kind="charge").count(),
                  [fault.what for fault in verification.verify(budget)]]
        """
    )
    assert answer == [10**12, 10, []]


CHANGER = """
import random
from releases.ledger import refusals
from releases.engine.errors import InvalidInput
units = [PrivacyUnit(), PrivacyUnit(kind="person", id_column="person", max_rows=10)]
submitted = refused = wrong = 0
for _ in range(12):
    # Read with its protection, as a page that is confirmed later.
    release = Release.objects.select_related("dataset__budget").get(pk=draft(Dataset.objects.get()).pk)
    try:
        # Two in three, so that each outcome is seen: none of 48 submits, or is refused, with a chance below 1e-12.
        if random.randrange(3):
            services.datasets.declare_protection(dataset=Dataset.objects.get(), unit=random.choice(units),
                                        neighbours=random.choice(list(NeighbouringRelation)))
    except InvalidInput:
        pass
    try:
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=release.submitted_by, send=False)
    except refusals.AnotherProtection:
        refused += 1
        continue
    submitted += 1
    # One statement, so one moment.
    seen = Release.objects.select_related("dataset__budget").get(pk=release.pk)
    planned, budget = seen.plan["schema"], seen.dataset.budget
    wrong += (planned["unit"], planned["neighbours"]) != (budget.unit, budget.neighbours)
    services.releases.cancel_release(release=seen, by=release.submitted_by)
print(submitted, refused, wrong)
"""


def test_four_processes_that_change_the_protection_and_submit_never_leave_what_was_planned_for_another(stack, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("person,sex\na,f\nb,m\n")
    stack.run(
        f"""
        from releases.models import Organisation
        Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.5")
        alice, sofia = people()
        dataset = services.datasets.ingest_dataset(owner=alice, title="Survey", source=Path({str(table)!r}))
        services.datasets.declare_universe(dataset=dataset, columns={COLUMNS!r})
        services.datasets.declare_protection(dataset=dataset, unit=PrivacyUnit(),
            neighbours=NeighbouringRelation.REPLACE)
        """
    )
    counts = [tuple(map(int, output.split())) for output in race(stack, CHANGER, processes=4)]
    assert sum(submitted for submitted, _, _ in counts) > 0
    assert sum(refused for _, refused, _ in counts) > 0
    assert sum(wrong for _, _, wrong in counts) == 0


def test_one_submission_pressed_by_four_at_once_is_one_charge(stack, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("sex\nf\nm\n")
    key = stack.run(f"draft(budgeted('5', {COLUMNS!r}, {str(table)!r}))\nanswer = str(uuid.uuid4())")
    pressed = f"""
        release = Release.objects.get()
        try:
            services.releases.submit_release(release=release, key=uuid.UUID({key!r}), by=release.dataset.owner,
                send=False)
            print("charged")
        except services.release_inputs.Refusal:
            print("refused")
        """
    race(stack, pressed, processes=4)
    assert stack.run("answer = LedgerEntry.objects.filter(kind='charge').count()") == 1
    assert stack.run("answer = Release.objects.get().state") == "queued"


RESPONDENTS = """
from releases.models import Survey
survey = Survey.objects.get()
accepted = [0, 0]
while True:
    report = accepted[0] > accepted[1]
    try:
        services.surveys.accept_report(survey=survey, report=str(int(report)))
    except services.release_inputs.Refusal:
        break
    accepted[report] += 1
print(*accepted)
"""


def test_a_survey_that_closes_while_reports_come_in_has_each_accepted_one_in_its_result(stack):
    stack.run(
        """
        alice, _ = people()
        survey = services.surveys.draft_survey(
            owner=alice, title="Tea", question="Tea?", answers=["Yes", "No"], epsilon="1")
        services.surveys.open_survey(survey=survey, by=alice)
        """
    )
    command = stack.script(RESPONDENTS)
    racers = [
        subprocess.Popen(
            command, cwd=ROOT, env=stack.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    stack.wait_for(
        "from releases.models import SurveyTally\nanswer = SurveyTally.objects.filter(number__gt=40).exists()"
    )
    told = stack.run(
        """
        from releases.models import Survey
        survey = Survey.objects.get()
        services.surveys.close_survey(survey=survey, by=survey.owner)
        answer = survey.result["reports"]
        """
    )
    outcomes = [racer.communicate(timeout=240) for racer in racers]
    assert [error for _, error in outcomes] == [""] * 3
    accepted = [sum(each) for each in zip(*(map(int, output.split()) for output, _ in outcomes), strict=True)]
    kept = stack.run(
        "from releases.models import SurveyTally\n"
        "answer = list(SurveyTally.objects.order_by('answer').values_list('number', flat=True))"
    )
    assert told == accepted == kept


def test_one_person_at_four_desks_releases_no_more_without_a_review_than_may_pass_unseen(stack, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("sex\nf\nm\n")
    stack.run(
        f"""
        from releases.models import Organisation
        Organisation.objects.create(upload_cap_bytes=2**30, review_above="0.35")
        budgeted('2', {COLUMNS!r}, {str(table)!r})
        """
    )
    desk = """
        passed = 0
        for _ in range(3):
            release = draft(Dataset.objects.get(), epsilon="0.1")
            passed += services.releases.submit_release(
                release=release, key=uuid.uuid4(), by=release.dataset.owner, send=False) is not None
        print(passed)
        """
    assert sum(int(output.split()[-1]) for output in race(stack, desk, processes=4)) == 3
    answer = stack.run(
        """
        from releases.ledger import verification
        budget = Budget.objects.get()
        states = list(Release.objects.order_by("state").values_list("state", flat=True))
        answer = [budget.spent_epsilon, states.count("queued"), states.count("awaiting review"),
                  [fault.what for fault in verification.verify(budget)]]
        """
    )
    assert answer == [3 * 10**11, 3, 9, []]
