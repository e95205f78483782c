"""Many processes at one budget or one survey: exactly what fits is granted, and nobody sees an error."""

from __future__ import annotations

import subprocess

import pytest

from tests.stack import ROOT, Stack

COLUMNS = [{"name": "sex", "type": "categorical", "categories": ["f", "m"]}]

RACER = """
import sys
from releases import ledger
from fractions import Fraction
from releases.engine.events import PureEvent
dataset = Dataset.objects.get()
granted = refused = 0
for _ in range({tries}):
    release = services.draft_release(dataset=dataset, by=dataset.owner)
    try:
        ledger.charge(release=release, events=[PureEvent(epsilon=Fraction(1, 10))], delta=Fraction(0),
                      key=uuid.uuid4(), actor=dataset.owner)
        granted += 1
    except ledger.LedgerRefusal:
        refused += 1
print(granted, refused)
"""


def race(stack, command, *, processes):
    """What each of so many processes prints that run the same at once; none may say anything of an error."""
    racers = [
        subprocess.Popen(
            command, cwd=ROOT, env=stack.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(processes)
    ]
    outcomes = [racer.communicate(timeout=240) for racer in racers]
    assert [error for _, error in outcomes] == [""] * processes
    return [output for output, _ in outcomes]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def stack(request, tmp_path):
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgres_database")
    stack = Stack(tmp_path, database_url=url)
    stack.migrate()
    yield stack
    stack.stop()


def test_eight_processes_of_ten_tries_where_ten_fit_give_ten_grants_and_no_error(stack, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("sex\nf\nm\n")
    stack.run(f"budgeted('1', {COLUMNS!r}, {str(table)!r})")
    command = stack.script(RACER.format(tries=10))
    counts = [tuple(map(int, output.split())) for output in race(stack, command, processes=8)]
    assert sum(granted for granted, _ in counts) == 10
    assert sum(refused for _, refused in counts) == 70
    answer = stack.run(
        """
        from releases import ledger
        budget = Budget.objects.get()
        answer = [budget.spent_epsilon, LedgerEntry.objects.filter(kind="charge").count(),
                  [fault.what for fault in ledger.verify(budget)]]
        """
    )
    assert answer == [10**12, 10, []]


def test_one_person_at_four_desks_spends_no_more_than_one_person_may(stack, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("sex\nf\nm\n")
    stack.run(
        f"""
        from releases.models import Organisation
        Organisation.objects.create(upload_cap_bytes=2**30, most_per_person="30")
        budgeted('1', {COLUMNS!r}, {str(table)!r})
        """
    )
    command = stack.script(RACER.format(tries=4))
    assert sum(int(output.split()[0]) for output in race(stack, command, processes=4)) == 3
    answer = stack.run(
        """
        from releases import ledger
        budget = Budget.objects.get()
        answer = [budget.spent_epsilon, [fault.what for fault in ledger.verify(budget)]]
        """
    )
    assert answer == [3 * 10**11, []]


def test_one_submission_pressed_by_four_at_once_is_one_charge(stack, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("sex\nf\nm\n")
    key = stack.run(f"draft(budgeted('5', {COLUMNS!r}, {str(table)!r}))\nanswer = str(uuid.uuid4())")
    command = stack.script(
        f"""
        release = Release.objects.get()
        try:
            services.submit_release(release=release, key=uuid.UUID({key!r}), by=release.dataset.owner, send=False)
            print("charged")
        except services.Refusal:
            print("refused")
        """
    )
    race(stack, command, processes=4)
    assert stack.run("answer = LedgerEntry.objects.filter(kind='charge').count()") == 1
    assert stack.run("answer = Release.objects.get().state") == "queued"


RESPONDENTS = """
from releases.models import Survey
survey = Survey.objects.get()
accepted = [0, 0]
while True:
    report = accepted[0] > accepted[1]
    try:
        services.accept_report(survey=survey, report=str(int(report)))
    except services.Refusal:
        break
    accepted[report] += 1
print(*accepted)
"""


def test_a_survey_that_closes_while_reports_come_in_has_each_accepted_one_in_its_result(stack):
    stack.run(
        """
        alice, _ = people()
        survey = services.draft_survey(
            owner=alice, title="Tea", question="Tea?", answers=["Yes", "No"], epsilon="1")
        services.open_survey(survey=survey, by=alice)
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
        services.close_survey(survey=survey, by=survey.owner)
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
    command = stack.script(
        """
        passed = 0
        for _ in range(3):
            release = draft(Dataset.objects.get(), epsilon="0.1")
            passed += services.submit_release(
                release=release, key=uuid.uuid4(), by=release.dataset.owner, send=False) is not None
        print(passed)
        """
    )
    racers = [
        subprocess.Popen(
            command, cwd=ROOT, env=stack.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    outcomes = [racer.communicate(timeout=240) for racer in racers]
    assert [error for _, error in outcomes] == [""] * 4
    assert sum(int(output.split()[-1]) for output, _ in outcomes) == 3
    answer = stack.run(
        """
        from releases import ledger
        budget = Budget.objects.get()
        states = list(Release.objects.order_by("state").values_list("state", flat=True))
        answer = [budget.spent_epsilon, states.count("queued"), states.count("awaiting review"),
                  [fault.what for fault in ledger.verify(budget)]]
        """
    )
    assert answer == [3 * 10**11, 3, 9, []]
