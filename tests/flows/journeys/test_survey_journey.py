"""A survey in Chromium: put together, answered on telephones, closed and read; what leaves a respondent's browser."""

import json
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import expect

from releases.engine.mechanisms.survey_sampler import NUMBERS, SurveyLaw
from tests.flows.browser import PHONE
from tests.flows.conftest import PASSWORD

pytestmark = pytest.mark.browser

QUESTION = "Do you smoke?"
ANSWERS = ["Every day", "Some days", "Never"]

OPEN = """
    alice = User.objects.get(username="alice")
    survey = services.surveys.draft_survey(
        owner=alice, title="Smoking", question={question!r}, answers={answers!r}, epsilon={epsilon!r})
    services.surveys.open_survey(survey=survey, by=alice)
    answer = [str(survey.pk), survey.truth, survey.other]
"""
TALLIES = """
    from releases.models import SurveyTally
    answer = list(SurveyTally.objects.filter(survey={survey!r}).order_by("answer").values_list("number", flat=True))
"""


@pytest.fixture
def open_survey(installation):
    """An open survey of alice's: its number and its law."""

    def make(answers, *, epsilon="1"):
        number, truth, other = installation.run(OPEN.format(question=QUESTION, answers=answers, epsilon=epsilon))
        return number, SurveyLaw(answers=len(answers), truth=truth, other=other)

    return make


def put_together(alice, title):
    """From the list to an open survey. Returns the link for respondents."""
    page = alice.page
    alice.go("/surveys/", "no surveys")
    alice.press("Put a survey together")
    alice.heading("Put a survey together")
    page.get_by_label("Title", exact=True).fill(title)
    page.get_by_label("Question", exact=True).fill(QUESTION)
    page.get_by_label("Answers, one a line").fill("\n".join(ANSWERS))
    page.get_by_label("Epsilon of each respondent").fill("1.5")
    alice.press("Keep as a draft")
    alice.heading(title)
    alice.look("survey draft")
    alice.press("Open the survey")
    alice.reads("Open. Give the link below to the people you ask.")
    alice.look("survey open")
    return page.locator("main a code").inner_text()


def respond(person, link, title, choice):
    """In the browser, by the script."""
    page = person.page
    person.go(link, "survey form")
    person.heading(title)
    person.reads("Your true answer is sent with probability")
    page.get_by_label(choice, exact=True).check()
    person.press("Randomise and send")
    person.reads("Your report has been counted. Thank you.")
    person.look("survey answered")
    person.go(link, "survey answered")
    expect(page.get_by_role("radio")).to_have_count(0)


def respond_by_hand(person, link, title):
    """Without JavaScript: what was drawn by hand is sent."""
    page = person.page
    page.goto(link)
    person.reads("This page cannot randomise your answer for you: its script does not run in this browser.")
    expect(page.get_by_role("radio")).to_have_count(0)
    expect(page.get_by_role("button", name="Randomise and send")).to_be_hidden()
    person.follow("Draw by hand instead")
    person.heading(title)
    person.look("survey by hand")
    page.get_by_label(ANSWERS[1], exact=True).check()
    person.press("Send what came out")
    person.reads("Your report has been counted. Thank you.")


def close_and_read(alice, title):
    alice.page.reload()
    expect(alice.page.locator("dl dd").first).to_have_text("4")
    alice.page.get_by_text("Close the survey").click()
    alice.press("Close for good")
    alice.reads("Closed. Nobody can answer any more, and the result is below.")
    alice.reads("every one of the 3 counts is within")
    expect(alice.page.locator("[data-chart] svg")).to_be_visible()
    alice.look("survey closed")
    alice.press("Make public")
    alice.press("Make it public")
    alice.reads("Public: everybody who has this page's address can read it")


def test_a_survey_is_made_answered_on_telephones_closed_and_read(visitor, tmp_path):
    title = "Smoking"
    alice = visitor()
    alice.sign_in("alice", PASSWORD)
    link = put_together(alice, title)
    for choice in ANSWERS:
        respond(visitor(size=PHONE), link, title, choice)
    respond_by_hand(visitor(size=PHONE, javascript=False), link, title)
    close_and_read(alice, title)
    receipt = json.loads(alice.download("receipt.json", tmp_path).read_text())
    assert receipt["respondents"] == 4
    assert receipt["cost"] == "epsilon 1.5 for each respondent, local model"
    charlie = visitor(size=PHONE)
    charlie.go(link, "survey closed to respondents")
    charlie.follow("Read the result")
    charlie.reads("every one of the 3 counts is within")
    charlie.look("survey result for everybody")


def test_all_that_leaves_the_browser_is_the_report(visitor, open_survey, installation):
    """Every request while people answer: one with a body, holding the token and a report, and the reports counted."""
    answers = [f"Answer {place}" for place in range(20)]
    # With epsilon 0.01 nearly every report differs from the answer, so a choice that is sent is soon seen.
    survey, _ = open_survey(answers, epsilon="0.01")
    person = visitor(size=PHONE)
    sent, reports, rounds = [], [0] * 20, 48
    person.page.on("request", lambda request: sent.append((request.method, request.url, request.post_data)))
    truths = 0
    for turn in range(rounds):
        person.context.clear_cookies()
        person.page.goto(f"/surveys/{survey}/answer/")
        sent.clear()
        person.page.get_by_label(f"Answer {turn % 20}", exact=True).check()
        person.press("Randomise and send")
        person.reads("Your report has been counted. Thank you.")
        bodies = [parse_qs(body) for _, _, body in sent if body]
        assert len(bodies) == 1
        assert set(bodies[0]) == {"csrfmiddlewaretoken", "report"}
        (report,) = bodies[0]["report"]
        assert all("?" not in url and f"{url}".endswith(("/answer/", ".css", ".js", ".svg")) for _, url, _ in sent), (
            sent
        )
        reports[int(report)] += 1
        truths += int(report) == turn % 20
    assert installation.run(TALLIES.format(survey=survey)) == reports
    # The truth comes with probability 0.0505: more by chance, of 48, less often than once in 10^9.
    assert truths <= 15


#: Runs the page's own script again and again, each time on a fresh copy of the page, and reads off what its form would
#: send. `words`, where given, are what the system's generator is made to say.
RUN = """
async ([choice, rounds, words]) => {
  const source = document.querySelector('script[src*="/survey."]').src;
  const survey = document.getElementById("survey"), clean = survey.cloneNode(true);
  clean.hidden = true;
  const reports = [];
  let asked = 0;
  if (words) {
    crypto.getRandomValues = (array) => { array[0] = words[asked]; asked += 1; return array; };
  }
  const radios = [];
  for (let turn = 0; turn < rounds; turn += 1) {
    const fresh = clean.cloneNode(true);
    document.getElementById("survey").replaceWith(fresh);
    const script = document.createElement("script");
    script.src = source;
    await new Promise((done) => { script.onload = done; document.body.append(script); });
    script.remove();
    const form = fresh.querySelector("form");
    form.addEventListener("submit", (event) => {
      radios.push([...new FormData(form).keys()].sort().join());
      reports.push(Number(new FormData(form).get("report")));
      event.preventDefault();
    });
    fresh.querySelectorAll("input[type=radio]")[choice].checked = true;
    form.requestSubmit();
  }
  return [reports, asked, [...new Set(radios)]];
}
"""


def run(person, survey, choice, rounds, words=None):
    person.page.goto(f"/surveys/{survey}/answer/")
    reports, asked, fields = person.page.evaluate(RUN, [choice, rounds, words])
    assert fields == ["csrfmiddlewaretoken,report"]
    assert len(reports) == rounds
    return reports, asked


@pytest.mark.parametrize("answers", [2, 20])
def test_the_script_makes_of_every_draw_what_the_engine_does_whatever_is_chosen(visitor, open_survey, answers):
    survey, law = open_survey([f"Answer {place}" for place in range(answers)])
    drawn = [number for first, last in law.ranges() for number in (first, last)]
    # 4 x 10^9 is the largest multiple of M below 2^32: words from there on are drawn again.
    words = [word for number in drawn for word in (4 * NUMBERS, 2**32 - 1, number + 3 * NUMBERS)]
    person = visitor()
    for choice in (0, answers - 1):
        reports, asked = run(person, survey, choice, len(drawn), words)
        assert reports == [(choice + law.shift(number)) % answers for number in drawn]
        assert asked == len(words)


#: Which of two submits in a row the page lets through; neither is sent.
PRESS_TWICE = """
() => {
  const let_through = [], form = document.querySelector("#survey form");
  const hold = (event) => { let_through.push(!event.defaultPrevented); event.preventDefault(); };
  document.addEventListener("submit", hold);
  form.requestSubmit();
  form.requestSubmit();
  document.removeEventListener("submit", hold);
  return let_through;
}
"""


def test_to_send_again_sends_the_same_report_and_to_press_twice_sends_once(visitor, open_survey, installation):
    """The network fails once. A second draw about the same person would say more of them."""
    survey, _ = open_survey([f"Answer {place}" for place in range(20)], epsilon="0.01")
    person = visitor(size=PHONE)
    page, reports = person.page, []
    page.goto(f"/surveys/{survey}/answer/")

    def fail(route):
        if route.request.method == "POST":
            reports.append(parse_qs(route.request.post_data)["report"])
            return route.fulfill(status=204)
        return route.continue_()

    page.route("**/answer/", fail)
    page.get_by_label("Answer 7", exact=True).check()
    # Twice before anything comes back.
    assert page.evaluate(PRESS_TWICE) == [True, False]
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
    person.press("Randomise and send")
    page.wait_for_timeout(300)
    assert len(reports) == 1
    # The browser stayed where it was; a page that comes back from history lets one send again.
    for _ in range(4):
        page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
        page.get_by_label("Answer 7", exact=True).check()
        person.press("Randomise and send")
        page.wait_for_timeout(100)
    assert len(reports) == 5
    assert len({report for (report,) in reports}) == 1
    assert installation.run(TALLIES.format(survey=survey)) == [0] * 20


def test_a_script_that_is_given_no_law_leaves_the_page_saying_that_it_cannot_randomise(visitor, open_survey):
    survey, _ = open_survey(["Yes", "No"])
    person = visitor()

    def spoiled(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace('data-other="', 'data-other="1'))

    person.page.route("**/answer/", spoiled)
    person.page.goto(f"/surveys/{survey}/answer/")
    person.reads("This page cannot randomise your answer for you")
    expect(person.page.get_by_role("radio")).to_have_count(0)
