"""Surveys under randomised response: what their people see and do, what respondents are told, what is kept of them."""

import csv
import io
import json
import re
from datetime import timedelta
from fractions import Fraction

import pytest
from django.db import DatabaseError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from releases import services
from releases.engine.mechanisms.survey_sampler import NUMBERS, SurveyLaw
from releases.models import AuditEvent, Budget, LedgerEntry, Survey, SurveyTally
from tests.stack import ROOT
from tests.web.pages import body, words
from tests.web.steps import again, refuses

TYPED = {"title": "Canteen", "question": "Do you smoke?", "answers": "Yes\nNo\n", "epsilon": "1", "group": ""}
#: 30, 20 and 10 reports.
REPORTS = [0] * 30 + [1] * 20 + [2] * 10


def page(client, name, survey):
    return client.get(reverse(name, args=[survey.pk]))


def send(client, survey, name="survey_answer", **data):
    return client.post(reverse(name, args=[survey.pk]), data)


def tallies(survey):
    return list(survey.tallies.order_by("answer").values_list("number", flat=True))


WRONG = [
    ({"title": ""}, "Title: nothing was typed."),
    ({"question": " "}, "Question: nothing was typed."),
    ({"answers": "\n".join(f"number {i}" for i in range(21))}, "answers: 21 must be 2 to 20 in number"),
    ({"answers": "Yes\nyes "}, "answers: 'Yes' must be in the list once only"),
    ({"epsilon": "0"}, "epsilon: '0' must be from 0.01 to 10"),
    ({"epsilon": "10.1"}, "epsilon: '10.1' must be from 0.01 to 10"),
    ({"group": "999"}, "Group: must be one that you belong to."),
]


def test_a_survey_is_put_together_and_opened(as_, alice, group):
    answer = as_(alice).post(reverse("new_survey"), TYPED | {"group": str(group.pk), "epsilon": "5e-1"})
    survey = Survey.objects.get()
    assert answer.url == reverse("survey", args=[survey.pk])
    assert (survey.answers, survey.group, survey.epsilon) == (["Yes", "No"], group, "0.5")
    opened = as_(alice).post(reverse("open_survey", args=[survey.pk]), follow=True)
    assert f"http://testserver/surveys/{survey.pk}/answer/" in words(opened)


def test_what_breaks_a_rule_is_named_and_nothing_typed_is_lost(as_, alice, make_survey):
    kept = {"title": "Tea, or coffee", "epsilon": "1"}
    for address in (reverse("new_survey"), reverse("change_survey", args=[make_survey("draft").pk])):
        refuses(lambda address=address, **change: as_(alice).post(address, TYPED | kept | change), WRONG, **kept)


def test_a_draft_can_be_changed_and_an_opened_survey_cannot(as_, alice, make_survey):
    survey = make_survey("draft")
    as_(alice).post(reverse("change_survey", args=[survey.pk]), TYPED | {"epsilon": "2"})
    survey.refresh_from_db()
    assert (survey.epsilon, survey.answers) == ("2", ["Yes", "No"])
    services.surveys.open_survey(survey=survey, by=alice)
    as_(alice).post(reverse("change_survey", args=[survey.pk]), TYPED | {"epsilon": "9"})
    survey.refresh_from_db()
    assert survey.epsilon == "2"


@pytest.mark.parametrize("verb", ["open_survey", "close_survey", "survey_visibility"])
@pytest.mark.parametrize("state", ["draft", "open", "closed", "public"])
def test_each_step_is_taken_from_the_state_before_it_and_from_no_other(as_, alice, make_survey, verb, state):
    survey = make_survey(state)
    steps = {"open_survey": {"draft": "open"}, "close_survey": {"open": "closed"}}
    leads = steps.get(verb, {"closed": "closed", "public": "closed"})
    before = Survey.objects.values().get()
    answer = words(as_(alice).post(reverse(verb, args=[survey.pk]), {"public": "yes"}, follow=True))
    if state in leads:
        assert again(survey).state == leads[state]
    else:
        assert Survey.objects.values().get() == before
        assert re.search(r"Only (a draft can be opened|an open survey can be closed|a closed survey has)", answer)


# Answering


def test_the_choice_belongs_to_no_form_so_that_no_browser_can_send_it(make_survey):
    main = body(page(Client(), "survey_answer", make_survey())).split("<main", 1)[1].split("</main>", 1)[0]
    ((tag, fields),) = re.findall(r"<form\b([^>]*)>(.*?)</form>", main, flags=re.DOTALL)
    assert re.findall(r'\bname="([^"]+)"', fields) == ["csrfmiddlewaretoken", "report"]
    assert 'id="' not in tag, "a field elsewhere could join a form that has an id"
    radios = re.findall(r"<input[^>]*true-answer[^>]*>", main)
    assert len(radios) == 3
    assert not any("form=" in each for each in radios)


@pytest.mark.parametrize("answers", [2, 20])
def test_the_table_to_draw_by_hand_is_the_same_law(make_survey, answers):
    survey = make_survey(answers=[f"Answer {i}" for i in range(answers)])
    response = page(Client(), "survey_by_hand", survey)
    found = re.findall(r"<td>(\d{3} \d{3} \d{3}) to (\d{3} \d{3} \d{3})</td><td>([^<]+)</td>", body(response))
    ranges = [(int(first.replace(" ", "")), int(last.replace(" ", ""))) for first, last, _ in found]
    assert ranges == list(survey.law.ranges())
    sizes = [last - first + 1 for first, last in ranges]
    assert sizes == [survey.law.truth] + [survey.law.other] * (answers - 1)
    assert sum(sizes) == NUMBERS


def test_a_report_is_counted_and_that_is_all_that_is_kept_of_it(make_survey, as_, alice):
    """Whoever sends which report in which order, from where, signed in or not: nothing stored tells them apart."""

    def everything(reports, *people):
        survey = make_survey()
        events = AuditEvent.objects.count()
        for number, (report, who) in enumerate(zip(reports, people, strict=True)):
            client = Client(REMOTE_ADDR=f"192.0.2.{number}", HTTP_USER_AGENT=f"browser {number}")
            if who is not None:
                client.force_login(who)
                events += 1
            assert send(client, survey, report=report).status_code == 302
        assert AuditEvent.objects.count() == events
        columns = {field.attname for field in SurveyTally._meta.fields}
        assert columns == {"id", "survey_id", "answer", "number"}
        kept = Survey.objects.filter(pk=survey.pk).values().get()
        return tallies(survey), {name: kept[name] for name in ("state", "is_public", "result", "closed_at")}

    assert everything("012010", None, alice, None, None, None, None) == everything("200110", *[None] * 5, alice)


@pytest.mark.parametrize("name", ["survey_answer", "survey_by_hand"])
def test_what_is_no_report_is_refused_by_name_and_nothing_is_counted(make_survey, name):
    survey = make_survey()
    for report in ("", "3", "-1", "1.0", "²", "٣", " 1"):
        response = send(Client(), survey, name, report=report)
        assert response.status_code == 400, report
        assert "must be the number of an answer, from 0 to 2" in words(response)
        assert "answered" not in response.cookies
    assert send(Client(enforce_csrf_checks=True), survey, name, report="1").status_code == 403
    assert tallies(survey) == [0, 0, 0]


def test_a_browser_that_has_answered_is_asked_no_second_time(make_survey):
    survey, other, client = make_survey(), make_survey(), Client()
    assert send(client, survey, report="1").status_code == 302
    second = send(client, survey, report="1")
    assert second.status_code == 409
    assert "Not taken: this browser has answered before." in words(second)
    assert send(client, survey, "survey_by_hand", report="0").status_code == 409
    assert tallies(survey) == [0, 1, 0]
    assert send(client, other, report="1").status_code == 302


def test_the_cookie_is_the_same_for_everybody_and_tells_no_time(make_survey, monkeypatch):
    survey = make_survey()
    first = send(Client(), survey, report="0").cookies["answered"]
    later = timezone.now() + timedelta(days=3)
    monkeypatch.setattr("time.time", later.timestamp)
    second = send(Client(), survey, report="2").cookies["answered"]
    assert first.value == second.value
    assert first["path"] == f"/surveys/{survey.pk}/answer/"
    assert (first["httponly"], first["samesite"]) == (True, "Lax")


def test_a_closed_survey_takes_no_report_also_where_it_closes_while_somebody_chooses(make_survey, alice):
    survey = make_survey(reports=[0, 1])
    stale = again(survey)
    services.surveys.close_survey(survey=survey, by=alice)
    response = send(Client(), survey, report="1")
    assert response.status_code == 409
    with pytest.raises(services.release_inputs.Refusal, match="not open"):
        services.surveys.accept_report(survey=stale, report="0")
    assert tallies(survey) == [1, 1, 0]


def test_answering_is_in_no_audit_log_and_opening_closing_and_showing_are(make_survey):
    before = set(AuditEvent.objects.values_list("pk", flat=True))
    make_survey("public", reports=REPORTS)
    made = AuditEvent.objects.exclude(pk__in=before).exclude(action="join group").order_by("pk")
    assert list(made.values_list("action", "actor__username", "kind", "detail")) == [
        ("open survey", "alice", "survey", "epsilon 1 for each respondent, local model"),
        ("close survey", "alice", "survey", "60 reports"),
        ("make public", "alice", "survey", ""),
    ]


# The result


def test_the_receipt_lets_anybody_work_the_result_out_again_and_nothing_is_charged(make_survey, as_, alice):
    survey = make_survey("closed", reports=REPORTS)
    receipt = json.loads(body(page(as_(alice), "survey_receipt", survey)))
    told = receipt["law"]
    law = SurveyLaw(answers=told["answers"], truth=told["truth"], other=told["each_other"])
    assert law == SurveyLaw.of(epsilon=Fraction(1), answers=3)
    assert law.proves(epsilon=Fraction(receipt["epsilon"]))
    assert receipt["reports"] == [30, 20, 10]
    assert receipt["estimates"] == [round(float(each), 3) for each in law.estimates([30, 20, 10])]
    assert receipt["intervals"] == [list(each) for each in law.intervals([30, 20, 10], beta=0.05)]
    pairs = zip(law.estimates([30, 20, 10]), receipt["intervals"], strict=True)
    ends = [abs(end - float(each)) for each, two in pairs for end in two]
    assert survey.result["bound"]["half_width"] - 1 < max(ends) <= survey.result["bound"]["half_width"]
    # A day, and no time of day.
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", receipt["closed"])
    shown = words(page(as_(alice), "survey", survey))
    for text in (survey.result["bound"]["sentence"], f"{law.truth:,}", f"{law.other:,}", f"{NUMBERS:,}"):
        assert text in shown
    assert AuditEvent.objects.filter(action="download", detail="receipt.json", actor=alice).count() == 1
    assert not Budget.objects.exists()
    assert not LedgerEntry.objects.exists()


def test_the_reports_are_downloaded_as_csv_and_no_text_runs_in_a_spreadsheet(make_survey, as_, alice):
    survey = make_survey("closed", answers=["=1+1", "No"], reports=[0, 0, 1])
    response = page(as_(alice), "survey_csv", survey)
    assert response["Content-Disposition"] == 'attachment; filename="reports.csv"'
    rows = list(csv.DictReader(io.StringIO(body(response))))
    assert [(row["answer"], row["reports"]) for row in rows] == [("'=1+1", "2"), ("No", "1")]
    assert float(rows[0]["estimate"]) == survey.result["estimates"][0]


# What the database itself refuses


PROMISED = [
    *({"question": "Do you drink?"}, {"title": "Pub"}, {"answers": ["No", "Yes", "Not telling"]}, {"epsilon": "9"}),
    *({"truth": 2}, {"other": 1}, {"state": "draft"}, {"opened_at": timezone.now()}),
]
RESULT = [{"state": "open"}, {"result": {}}, {"closed_at": timezone.now()}]


def refused(match, change, *given, **changes):
    with pytest.raises(DatabaseError, match=match), transaction.atomic():
        pytest.fail(f"{given} {changes}: {change(*given, **changes)}")


@pytest.mark.parametrize(("state", "changes"), [("open", PROMISED), ("closed", [*PROMISED, *RESULT])])
def test_what_respondents_were_promised_and_a_result_cannot_be_changed_by_anybody(make_survey, state, changes):
    survey = Survey.objects.filter(pk=make_survey(state).pk)
    for change in changes:
        refused("is fixed", survey.update, **change)
    refused("is fixed", survey._raw_delete, "default")


def test_reports_are_only_ever_added_one_at_a_time_while_it_is_open(make_survey, alice):
    survey = make_survey(reports=[0, 0, 0, 0])
    tally = survey.tallies.filter(answer=0)
    for change in ({"number": 3}, {"number": 4}, {"number": 6}, {"number": 5, "answer": 7}):
        refused("one at a time", tally.update, **change)
    refused("one at a time", tally._raw_delete, "default")
    refused("one at a time", SurveyTally.objects.create, survey=survey, answer=7, number=1)
    services.surveys.close_survey(survey=survey, by=alice)
    refused("while the survey is open", tally.update, number=5)


def test_the_script_evaluates_nothing_keeps_nothing_and_draws_from_the_system():
    script = (ROOT / "releases/static/releases/survey.js").read_text()
    for word in ("eval", "innerHTML", "Math.random", "fetch(", "XMLHttpRequest", "localStorage", "sessionStorage"):
        assert word not in script
    assert "crypto.getRandomValues" in script
