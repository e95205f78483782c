"""Every page of the site in Chromium, on a desk and on a telephone, in light and in dark: nothing sticks out, and axe
finds nothing. What is visited follows from the list of addresses that the access tests keep complete."""

import itertools
import re

import pytest
from playwright.sync_api import Error, expect

from releases.questions.base import Want, offered_statistics
from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import PASSWORD
from tests.web.shared.test_access import GETS

pytestmark = pytest.mark.browser

#: Addresses that show no page of their own; those that give a file to keep say so themselves.
NO_PAGES = {
    "answers",  # JSON
    "download",  # a file by its name
    "release_status",  # a part of a page
    "upload_status",  # a part of a page
    "unsent",  # there is one only after a session has ended; looked at in test_refusals.py
}

WORLD = """
    from pathlib import Path
    from releases import services
    from releases.engine.accounting.filters import Policy
    from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
    from datetime import timedelta
    from django.utils import timezone
    from releases.models import ApiToken, Organisation, RegisteredConnection, Upload
    from releases.questions.together import PartAsked
    from celery import current_app
    current_app.send_task = lambda *arguments, **options: None

    alice, sofia = (User.objects.get(username=name) for name in ("alice", "sofia"))
    source = Path({folder!r}) / "people.csv"
    source.write_text("age,sex,tea,coffee\\n" + "".join(
        f"{{18 + (i * 7) % 48}},{{'female' if i % 3 else 'male'}},{{'yes' if i % 2 else 'no'}},"
        f"{{'no' if i % 5 else 'yes'}}\\n" for i in range(300)))
    dataset = services.datasets.ingest_dataset(owner=alice, title="A survey with a long title about tea and coffee",
                                      source=source)
    services.datasets.declare_universe(dataset=dataset, columns=[
        {{"name": "age", "type": "integer", "edges": [18, 25, 35, 45, 55, 65]}},
        {{"name": "sex", "type": "categorical", "categories": ["female", "male"]}},
        {{"name": "tea", "type": "categorical", "categories": ["yes", "no"]}},
        {{"name": "coffee", "type": "categorical", "categories": ["yes", "no"]}},
    ])
    services.datasets.declare_protection(dataset=dataset, unit=PrivacyUnit(),
        neighbours=NeighbouringRelation.ADD_REMOVE)
    corners = [[9, 50], [10, 50], [10, 51], [9, 50]]
    square = {{"properties": {{"is": "yes"}}, "geometry": {{"type": "Polygon", "coordinates": [corners]}}}}
    services.boundaries.declare_boundaries(dataset=dataset, column="tea", given={{
        "type": "FeatureCollection", "features": [square]}})

    def ask(epsilon):
        return services.budgets.request_budget(dataset=dataset, epsilon=epsilon, delta="0.000001", policy=Policy.ZCDP,
                                       reason="The yearbook.", by=alice)

    def draft(epsilon, queries=({{"marginals": 2}},), mechanism="laplace-queries"):
        release = services.releases.draft_release(dataset=dataset, by=alice)
        services.releases.set_questions(release=release, workload={{"version": 1, "queries": list(queries)}})
        services.releases.set_choice(release=release, epsilon=epsilon, mechanism_name=mechanism)
        return release

    def submit(release):
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
        return release

    services.budgets.approve_request(request=ask("20"), by=sofia)
    request = ask("30")
    published, public = submit(draft("4")), submit(draft("7", ({{"marginals": 2}}, {{"marginal": ["tea"]}})))
    live = services.sessions.draft_session(dataset=dataset, by=alice, title="", epsilon="1")
    submit(live)
    for each in (published, public, live):
        assert services.execution.execute_release(release_id=each.pk)
    services.releases.make_public(release=public)
    live.refresh_from_db()
    services.sessions.ask_session(session=live.session, query={{"sex": ["female"]}}, by=alice)
    for each in (published, public):
        each.refresh_from_db()
    certified = submit(services.certificates.draft_certificate(of=public, by=alice, epsilon="0.05"))
    assert services.execution.execute_release(release_id=certified.pk)

    def survey(state):
        made = services.surveys.draft_survey(owner=alice, title="Tea or coffee, " + state,
            question="What do you drink?",
                                     answers=["tea", "coffee", "both"], epsilon="1")
        if state != "draft":
            services.surveys.open_survey(survey=made, by=alice)
            services.surveys.accept_report(survey=made, report="1")
        if state in ("closed", "public"):
            services.surveys.close_survey(survey=made, by=alice)
        if state == "public":
            services.surveys.make_survey_public(survey=made, by=alice)
        return str(made.pk)

    def together(published=None):
        asked = [
            PartAsked(title=title, workload={{"version": 1, "queries": [query]}})
            for title, query in (("Counts by sex", {{"marginal": ["sex"]}}), ("Average age by tea",
                {{"mean": {{"columns": ["age"], "by": ["tea"]}}}}))
        ]
        planned = services.collections.draft_collection(
            dataset=dataset, by=alice, title="Tables of the yearbook", epsilon="0.2", parts=asked)
        methods = ("laplace-queries", "laplace-numbers")
        for part, name in zip(planned.parts.select_related("release"), methods, strict=True):
            services.releases.set_choice(
                release=part.release, epsilon="0.1", beta=part.release.beta, mechanism_name=name)
        if published is not None:
            planned.parts.filter(place=0).update(release=published)
        return str(planned.pk)

    Organisation.objects.create(upload_cap_bytes=2**21, review_above="13.8")
    upload = services.uploads.receive_upload(owner=alice, title="Next year's survey", source=source)
    # Nobody sends its message again while it is looked at.
    Upload.objects.update(lease_until=timezone.now() + timedelta(days=1))
    source.write_text("age,sex\\n30,female\\n31\\n")
    refused = services.uploads.receive_upload(owner=alice, title="A survey with a line too short", source=source)
    services.uploads.execute_upload(upload_id=refused.pk)
    reviewed = submit(draft("2"))
    asked_back = submit(draft("2.5")).reviews.get()
    services.reviews.ask_back_release(request=asked_back, by=sofia, note="Who reads it?")
    session = submit(services.sessions.draft_session(dataset=dataset, by=alice, title="", epsilon="2")).reviews.get()
    workload = services.workloads.save_workload(release=draft("1"), name="Yearly tables of tea and coffee", by=alice)
    for name in ("clinic", "regional_registry"):
        connection = RegisteredConnection.objects.create(name=name, registered_by=sofia,
            address="postgresql://reader@database.hospital.example.org:5432/" + name + "?sslmode=verify-full",
            server_version="PostgreSQL 15.8 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit", software="dpweb 1 (0123)")
    answer = {{
        "connection": str(connection.pk), "page": "reference/formats",
        "workload": str(workload.pk), "upload": str(upload.pk), "upload_refused": str(refused.pk),
        "dataset": str(dataset.pk), "draft": str(draft("1").pk), "queued": str(submit(draft("0.5")).pk),
        "published": str(published.pk), "public": str(public.pk), "session": str(live.pk),
        "certificate": str(services.certificates.draft_certificate(of=published, by=alice, epsilon="0.05").pk),
        "certified": str(certified.pk), "survey_draft": survey("draft"), "survey_open": survey("open"),
        "survey_closed": survey("closed"), "survey_public": survey("public"),
        "request": str(request.pk), "budget": str(dataset.budget_id), "review": str(reviewed.reviews.get().pk),
        "asked_back": str(asked_back.pk), "session_review": str(session.pk),
        "collection": together(), "collection_public": together(public),
        "token": ApiToken.objects.create(user=alice, name="a script", digest="of nothing").pk,
    }}
"""


@pytest.fixture(scope="module")
def world(installation, tmp_path_factory):
    """One of everything, all of it alice's."""
    return installation.run(WORLD.format(folder=str(tmp_path_factory.mktemp("world"))))


def addresses(world, person):
    """What a person's pages are, by name."""
    from django.urls import reverse

    for (name, thing), seen in GETS.items():
        if seen[person] == 200 and name not in NO_PAGES:
            yield f"{name} {thing}".strip(), reverse(name, args=[world[thing]] if thing else [])


def shows(window, path):
    """Whether an address has a page, which is opened; a browser keeps what is a file."""
    try:
        window.page.goto(path)
    except Error as error:
        if "Download is starting" not in error.message:
            raise
        return False
    return True


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("person", ["nobody", "alice", "sofia"])
def test_nothing_sticks_out_and_axe_finds_nothing(visitor, world, person, size):
    window = visitor(size=size)
    pages = dict(addresses(world, person))
    if person != "nobody":
        window.sign_in(person, PASSWORD)
    else:
        pages |= {"forgotten password": "/accounts/password/reset/"}
    if person == "sofia":
        # A reviewer's own pages; the rest are as everybody's.
        own = ("/review/", "/notices/")
        pages = {name: path for name, path in pages.items() if path == "/" or path.startswith(own)}
        pages |= {kind: f"/review/releases/{world[kind]}/" for kind in ("asked_back", "session_review")}
        assert len(pages) > 10
    if person == "alice":
        other, draft = f"/releases/{world['public']}/beside/?other={world['published']}", world["draft"]
        pages |= {"both releases": other}
        pages |= {"a workload on a dataset": f"/workloads/{world['workload']}/use/?dataset={world['dataset']}"}
        pages |= {f"questions, {kind}": f"/releases/{draft}/questions/?kind={kind}" for kind in offered_statistics()}
        pages |= {f"questions, {want}": f"/releases/{draft}/questions/?want={want}" for want in Want}
        accounts = ("password/change", "2fa", "email", "reauthenticate")
        pages |= {f"account, {each}": f"/accounts/{each}/" for each in accounts}
        pages |= {"a heat map": f"/releases/{world['published']}/?question=1", "404": "/nothing/"}
        pages |= {"a map": f"/releases/{world['public']}/?question=6"}
        assert len(pages) > 35
    for name, path in pages.items():
        if shows(window, path):
            window.look(name)


@pytest.mark.parametrize(
    ("size", "javascript"), [(PHONE, True), (DESKTOP, False)], ids=["phone", "desktop without JavaScript"]
)
def test_a_word_opens_its_meaning_by_keyboard_and_by_touch(visitor, world, size, javascript):
    window = visitor(size=size, javascript=javascript)
    page = window.page
    window.go("/catalogue/", "catalogue")
    word = page.get_by_role("button", name="epsilon", exact=True)
    meaning = page.locator("#word-epsilon")
    expect(meaning).to_be_hidden()
    word.focus()
    page.keyboard.press("Enter")
    expect(meaning).to_be_visible()
    box = meaning.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size["width"] + 0.5
    window.look("a word's meaning")
    page.keyboard.press("Tab")
    expect(meaning.get_by_role("link", name="All words")).to_be_focused()
    page.keyboard.press("Escape")
    expect(meaning).to_be_hidden()
    word.click()
    expect(meaning).to_be_visible()
    meaning.get_by_role("link", name="All words").click()
    window.heading("Glossary")
    assert page.url.endswith("/words/#epsilon")


#: Of whoever compares methods.
LAPTOP = {"width": 1280, "height": 800}


def test_a_table_of_two_columns_is_drawn_as_a_heat_map(visitor, world):
    window = visitor(size=PHONE)
    window.go(f"/releases/{world['public']}/?question=1", "public release on a telephone")
    expect(window.page.locator('[data-chart="heat-data"] svg [role="graphics-symbol"]').first).to_be_visible()


def test_two_releases_beside_each_other_take_a_few_lines_an_answer_on_a_telephone(visitor, world):
    window = visitor(size=PHONE)
    window.sign_in("alice", PASSWORD)
    window.page.goto(f"/releases/{world['public']}/beside/?other={world['published']}")
    rows = window.page.locator("table.pairs tbody tr")
    boxes = [each.bounding_box() for each in rows.all()]
    assert boxes
    # Four lines of text of 16 pixels.
    assert max(each["height"] for each in boxes) < 4 * 1.6 * 16 + 20
    for row in rows.all():
        cells = [each.bounding_box() for each in row.locator("td").all()]
        for first, second in itertools.combinations(filter(None, cells), 2):
            beside = first["x"] + first["width"] <= second["x"] + 1 or second["x"] + second["width"] <= first["x"] + 1
            assert beside or first["y"] + first["height"] <= second["y"] + 1


def test_a_comparison_fits_one_and_a_half_screens_with_its_chart_open_and_the_other_methods_on_one(visitor, world):
    window = visitor(size=LAPTOP)
    window.sign_in("alice", PASSWORD)
    page = window.page
    page.goto(f"/releases/{world['draft']}/compare/")
    # With a delta every method can be run.
    page.get_by_text("Delta, confidence and number of rows").click()
    page.get_by_label("Delta", exact=True).fill("0.000000001")
    window.press("Compare again")
    expect(page.locator("#curves svg")).to_be_visible()
    choose = page.get_by_role("button", name=re.compile("^Choose "))
    expect(choose).to_have_count(1)
    assert choose.bounding_box()["y"] < LAPTOP["height"]
    assert page.evaluate("document.documentElement.scrollHeight") <= 1.5 * LAPTOP["height"]
    window.look("comparison on a laptop")
    others = page.get_by_text("Other methods", exact=True)
    others.click()
    assert choose.count() > 10
    table = page.locator("table.plans").first.bounding_box()
    assert 200 < table["height"] <= LAPTOP["height"]
    window.look("comparison on a laptop, with the other methods")


def test_an_epsilon_is_typed_slid_or_worked_out_from_an_error_in_one_form(visitor, world):
    window = visitor(size=LAPTOP)
    window.sign_in("alice", PASSWORD)
    page = window.page
    page.goto(f"/releases/{world['draft']}/compare/")
    epsilon, slider = page.get_by_label("Epsilon", exact=True), page.get_by_label("On a scale")
    epsilon.fill("0.1")
    assert float(slider.input_value()) == -1
    slider.focus()
    page.keyboard.press("End")
    expect(epsilon).to_have_value("10")
    epsilon.fill("0.5")
    window.press("Compare again")
    expect(epsilon).to_have_value("0.5")
    page.get_by_label("Or the largest error, in rows").fill("30")
    window.press("Compare again")
    window.reads("an error of at most 30 takes epsilon")
    assert float(epsilon.input_value()) != 0.5
