"""Every address of the site, visited by everybody: who may see what, and who may change what."""

from __future__ import annotations

import re
import uuid
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import get_resolver, reverse

from releases import services, urls
from releases.engine.accounting.filters import Policy
from releases.models import (
    ApiToken,
    Budget,
    BudgetRequest,
    Collection,
    CollectionPart,
    Dataset,
    LedgerEntry,
    MailChoice,
    Notice,
    Organisation,
    RegisteredConnection,
    Release,
    ReleaseRequest,
    Session,
    SessionAnswer,
    Survey,
    SurveyTally,
    Upload,
    Workload,
    WorkloadVersion,
)
from releases.publication.archive import download_names
from releases.questions.together import PartAsked
from tests.web.conftest import CSV, PASSWORD
from tests.web.pages import inline_code

pytestmark = pytest.mark.django_db

PEOPLE = ("nobody", "alice", "bob", "charlie", "sofia")
#: Of what a request could have changed.
MODELS = (
    *(Dataset, Budget, BudgetRequest, Release, Collection, CollectionPart, ReleaseRequest, Session, SessionAnswer),
    *(Survey, SurveyTally, LedgerEntry, Organisation, RegisteredConnection, ApiToken, Notice, MailChoice, Upload),
    *(Workload, WorkloadVersion, User),
)
LOGIN = "login"


def seen(nobody, alice, bob, charlie, sofia):
    return dict(zip(PEOPLE, (nobody, alice, bob, charlie, sofia), strict=True))


ALL = seen(200, 200, 200, 200, 200)
SIGNED_IN = seen(LOGIN, 200, 200, 200, 200)
#: Those of the dataset; for everybody else it does not exist, staff included.
OURS = seen(LOGIN, 200, 200, 404, 404)
#: A person's own, and nobody else's.
HERS = seen(LOGIN, 200, 404, 404, 404)
STAFF = seen(LOGIN, 404, 404, 404, 200)
POST_ONLY = seen(LOGIN, 405, 405, 405, 405)

#: Address by name and object, and what a GET gives each person. A new address must be added here.
GETS = {
    ("home", ""): ALL,
    ("words", ""): ALL,
    ("catalogue", ""): ALL,
    ("documentation", ""): ALL,
    ("documentation_page", "page"): ALL,
    ("programs", ""): ALL,
    ("ways", ""): SIGNED_IN,
    ("dataset_list", ""): SIGNED_IN,
    ("upload", ""): seen(LOGIN, 200, 200, 403, 403),
    ("databases", ""): seen(LOGIN, 200, 200, 403, 403),
    # Of one that the settings do not name.
    ("database_table", "database"): seen(LOGIN, 404, 404, 403, 403),
    ("upload_detail", "upload"): HERS,
    ("upload_detail", "upload_refused"): HERS,
    ("upload_status", "upload"): HERS,
    ("discard_upload", "upload"): POST_ONLY,
    ("dataset_detail", "dataset"): OURS,
    ("columns", "dataset"): OURS,
    ("take_over", "dataset"): OURS,
    ("check_columns", "dataset"): OURS,
    ("learn_range", "dataset"): OURS,
    ("learn_categories", "dataset"): OURS,
    ("codebook_file", "dataset"): OURS,
    ("rename_dataset", "dataset"): OURS,
    ("share_dataset", "dataset"): OURS,
    ("delete_dataset", "dataset"): OURS,
    ("protection", "dataset"): OURS,
    ("budget", "dataset"): OURS,
    ("take_back_budget", "dataset"): POST_ONLY,
    ("new_release", "dataset"): POST_ONLY,
    ("new_collection", "dataset"): OURS,
    ("collection", "collection"): OURS,
    ("collection", "collection_public"): ALL,
    # Nothing of it is published.
    ("collection_report", "collection"): seen(LOGIN, 404, 404, 404, 404),
    ("collection_report", "collection_public"): ALL,
    ("confirm_collection", "collection"): OURS,
    ("confirm_collection", "collection_public"): seen(LOGIN, 302, 302, 404, 404),
    ("release_list", ""): SIGNED_IN,
    ("release_detail", "draft"): seen(LOGIN, 302, 302, 404, 404),
    ("release_detail", "queued"): OURS,
    ("release_detail", "published"): OURS,
    ("release_detail", "public"): ALL,
    ("questions", "draft"): OURS,
    ("compare", "draft"): OURS,
    ("confirm", "draft"): OURS,
    ("questions", "public"): seen(LOGIN, 302, 302, 404, 404),
    ("compare", "public"): seen(LOGIN, 302, 302, 404, 404),
    ("confirm", "public"): seen(LOGIN, 302, 302, 404, 404),
    ("release_status", "queued"): OURS,
    ("release_status", "published"): OURS,
    ("release_status", "public"): ALL,
    ("cancel_release", "queued"): POST_ONLY,
    ("discard_draft", "draft"): POST_ONLY,
    ("visibility", "published"): OURS,
    ("visibility", "public"): seen(LOGIN, 302, 302, 404, 404),
    ("withdraw", "published"): POST_ONLY,
    ("answers", "published"): OURS,
    ("answers", "public"): ALL,
    ("receipt", "published"): OURS,
    ("registry", "published"): OURS,
    ("registry", "public"): ALL,
    ("receipt", "public"): ALL,
    ("download", "published"): OURS,
    ("download", "public"): ALL,
    ("plan_file", "draft"): OURS,
    ("plan_file", "public"): OURS,
    ("load_plan", "draft"): POST_ONLY,
    ("workload_list", ""): SIGNED_IN,
    ("workload", "workload"): OURS,
    ("edit_workload", "workload"): OURS,
    ("share_workload", "workload"): OURS,
    ("use_workload", "workload"): seen(LOGIN, 302, 302, 404, 404),  # no dataset is named
    ("discard_workload", "workload"): POST_ONLY,
    ("save_workload", "draft"): OURS,
    ("save_workload", "public"): OURS,
    ("save_workload", "session"): seen(LOGIN, 302, 302, 404, 404),
    ("certify", "draft"): seen(LOGIN, 302, 302, 404, 404),
    ("certify", "published"): OURS,
    ("certify", "public"): OURS,
    ("confirm", "certificate"): OURS,
    ("release_detail", "certified"): OURS,
    ("compare_releases", "published"): OURS,
    ("compare_releases", "public"): ALL,
    ("new_session", "dataset"): OURS,
    ("session_list", ""): SIGNED_IN,
    ("session", "session"): OURS,
    ("session_audience", "session"): POST_ONLY,
    ("session_close", "session"): POST_ONLY,
    ("transcript_csv", "session"): OURS,
    ("transcript_json", "session"): OURS,
    ("survey_list", ""): SIGNED_IN,
    ("new_survey", ""): SIGNED_IN,
    ("survey", "survey_draft"): OURS,
    ("survey", "survey_open"): OURS,
    ("survey", "survey_closed"): OURS,
    ("survey", "survey_public"): ALL,
    ("change_survey", "survey_draft"): OURS,
    ("change_survey", "survey_open"): seen(LOGIN, 302, 302, 404, 404),
    ("open_survey", "survey_draft"): POST_ONLY,
    ("close_survey", "survey_open"): POST_ONLY,
    ("survey_visibility", "survey_closed"): OURS,
    ("survey_visibility", "survey_public"): seen(LOGIN, 302, 302, 404, 404),
    ("survey_answer", "survey_draft"): seen(404, 404, 404, 404, 404),
    ("survey_answer", "survey_open"): ALL,
    ("survey_answer", "survey_closed"): ALL,
    ("survey_by_hand", "survey_draft"): seen(404, 404, 404, 404, 404),
    ("survey_by_hand", "survey_open"): ALL,
    ("survey_csv", "survey_open"): seen(LOGIN, 404, 404, 404, 404),
    ("survey_csv", "survey_closed"): OURS,
    ("survey_csv", "survey_public"): ALL,
    ("survey_receipt", "survey_open"): seen(LOGIN, 404, 404, 404, 404),
    ("survey_receipt", "survey_closed"): OURS,
    ("survey_receipt", "survey_public"): ALL,
    ("review_queue", ""): STAFF,
    ("budget_request", "request"): STAFF,
    ("budget_board", ""): STAFF,
    ("budget_detail", "budget"): STAFF,
    ("release_request", "review"): STAFF,
    ("board_csv", ""): STAFF,
    ("ledger", ""): STAFF,
    ("ledger_csv", ""): STAFF,
    ("audit_log", ""): STAFF,
    ("audit_csv", ""): STAFF,
    ("backups", ""): STAFF,
    ("people", ""): STAFF,
    ("connections", ""): STAFF,
    ("remove_connection", "connection"): seen(LOGIN, 404, 404, 404, 405),
    ("organisation", ""): STAFF,
    ("notices", ""): SIGNED_IN,
    ("read_notices", ""): POST_ONLY,
    ("choose_mail", ""): POST_ONLY,
    ("unsent", ""): seen(LOGIN, 302, 302, 302, 302),
    ("tokens", ""): SIGNED_IN,
    ("revoke_token", "token"): POST_ONLY,
}

#: What a POST by somebody who may not gives, and the status that shows that it was not done.
POSTS = {
    (name, thing): 404
    for thing, names in {
        "upload": "discard_upload",
        "dataset": "rename_dataset share_dataset delete_dataset columns take_over check_columns learn_range "
        "learn_categories protection budget take_back_budget new_release new_collection new_session",
        "collection": "confirm_collection",
        "collection_public": "confirm_collection",
        "draft": "questions compare confirm load_plan discard_draft save_workload",
        "queued": "cancel_release",
        "published": "visibility withdraw certify",
        "public": "visibility withdraw certify save_workload",
        "certificate": "confirm",
        "workload": "edit_workload share_workload use_workload discard_workload",
        "session": "session session_audience session_close",
        "survey_draft": "change_survey open_survey",
        "survey_open": "close_survey",
        "survey_closed": "survey_visibility",
        "survey_public": "survey_visibility",
        "request": "budget_request",
        "budget": "budget_detail",
        "review": "release_request",
        "connection": "remove_connection",
        "token": "revoke_token",
        "": "ledger backups people connections organisation",
    }.items()
    for name in names.split()
} | {("upload", ""): 403, ("database_table", "database"): 403, ("new_survey", ""): LOGIN, ("tokens", ""): LOGIN}


@pytest.fixture
def world(make_dataset, make_draft, make_queued, make_survey, upload_file, alice, bob, charlie, sofia, once):
    """One of everything, all of it alice's; bob shares her group."""

    def objects():
        dataset = make_dataset(epsilon="10")
        published, public = make_queued(dataset), make_queued(dataset)
        for release in (published, public):
            assert services.execution.execute_release(release_id=release.pk)
        services.releases.make_public(release=public)
        request = services.budgets.request_budget(
            dataset=dataset, epsilon="12", delta="0.000001", policy=Policy.ZCDP, reason="", by=alice
        )
        live = services.sessions.draft_session(
            dataset=make_dataset(epsilon="5", content=CSV + b"one more,30,male\n"), by=alice, title="", epsilon="1"
        )
        services.releases.submit_release(release=live, key=uuid.uuid4(), by=alice, send=False)
        assert services.execution.execute_release(release_id=live.pk)
        services.sessions.ask_session(session=live.session, query={"sex": ["female"]}, by=alice)
        for release in (published, public):
            release.refresh_from_db()
        certificate = services.certificates.draft_certificate(of=public, by=alice, epsilon="0.05")
        services.releases.submit_release(release=certificate, key=uuid.uuid4(), by=alice, send=False)
        assert services.execution.execute_release(release_id=certificate.pk)
        Organisation.objects.create(upload_cap_bytes=2**30, review_above="1")
        reviewed = make_draft(dataset, epsilon="2")
        services.releases.submit_release(release=reviewed, key=uuid.uuid4(), by=alice)
        review = reviewed.reviews.get()
        refused = services.uploads.receive_upload(owner=alice, title="Ragged", source=upload_file(b"a,b\n1\n"))
        assert not services.uploads.execute_upload(upload_id=refused.pk)
        found = {
            "upload": services.uploads.receive_upload(owner=alice, title="On its way", source=upload_file()).pk,
            "upload_refused": refused.pk,
            "database": "clinic",
            "page": "guide/reader",
            "dataset": dataset.pk,
            "draft": make_draft(dataset).pk,
            "queued": make_queued(dataset).pk,
            "published": published.pk,
            "public": public.pk,
            "certificate": services.certificates.draft_certificate(of=published, by=alice, epsilon="0.05").pk,
            "certified": certificate.pk,
            "session": live.pk,
            "request": request.pk,
            "budget": dataset.budget.pk,
            "review": review.pk,
            "token": ApiToken.objects.create(user=alice, name="a script", digest="of nothing").pk,
        }
        saved = services.workloads.save_workload(
            release=make_draft(dataset), name="Yearly", by=alice, group=dataset.group
        )
        found["workload"] = saved.pk
        for name in ("intensive_care", "surgery"):
            found["connection"] = RegisteredConnection.objects.create(
                name=name, address=f"postgresql://reader@127.0.0.1:1/{name}", registered_by=sofia
            ).pk
        found |= {f"collection{which}": planned_with(which, dataset, public, alice) for which in ("", "_public")}
        found |= {f"survey_{state}": make_survey(state).pk for state in ("draft", "open", "closed", "public")}
        return found

    people = {"nobody": None, "alice": alice, "bob": bob, "charlie": charlie, "sofia": sofia}
    return {"people": people, **once("world", objects)}


def planned_with(which, dataset, public, alice):
    """A collection of one draft; or one of which a part is public."""
    counts = {"version": 1, "queries": [{"marginal": ["sex"]}]}
    parts = [PartAsked(title="By sex", workload=counts)]
    planned = services.collections.draft_collection(
        dataset=dataset, by=alice, title="Planned together", epsilon="0.1", parts=parts
    )
    if which:
        CollectionPart.objects.filter(collection=planned).update(release=public)
    return planned.pk


def address(world, name, thing):
    arguments = [world[thing]] if thing else []
    return reverse(name, args=[*arguments, "answers.csv"] if name == "download" else arguments)


def outcome(response):
    if response.status_code == 302 and response.url.startswith("/accounts/login/"):
        return LOGIN
    return response.status_code


def test_every_address_of_the_site_is_in_this_file():
    rooms = ("upload", "dataset", "release", "collection", "workload", "session", "survey", "review")
    groups = [*(getattr(urls, f"{room}_urls") for room in rooms), urls.urlpatterns]
    names = {pattern.name for group in groups for pattern in group if hasattr(pattern, "name")}
    assert {name for name, _ in GETS} == names
    assert not {each for each in get_resolver("releases.urls").reverse_dict if isinstance(each, str)} - names


def test_everybody_sees_what_they_may_and_nothing_else(world, as_):
    found, looked_into = {key: {} for key in GETS}, set()
    for person in PEOPLE:
        client = as_(world["people"][person])
        for key in GETS:
            response = client.get(address(world, *key))
            found[key][person] = outcome(response)
            # A file is saved and not shown as a page of the site.
            is_file = response.get("Content-Disposition", "").startswith("attachment")
            is_html = response.get("Content-Type", "").startswith("text/html")
            is_page = response.status_code == 200 and is_html and not is_file
            if is_page and key not in looked_into:
                assert inline_code(response) == [], (key, person)
                looked_into.add(key)
    assert found == GETS
    assert len(looked_into) > 50


def snapshot():
    """Everything that a request could have changed."""
    return [list(model.objects.order_by("pk").values()) for model in MODELS]


def unseen_login(state):
    """A snapshot without the times of sign-ins."""
    return [[{name: value for name, value in row.items() if name != "last_login"} for row in rows] for rows in state]


#: What reviewers and administrators alone may do.
REVIEWER_S = (
    ("budget_request", "request"),
    ("budget_detail", "budget"),
    ("release_request", "review"),
    ("ledger", ""),
    ("backups", ""),
    ("people", ""),
    ("connections", ""),
    ("remove_connection", "connection"),
    ("organisation", ""),
)

#: What each form would need to do its work, were it let.
FILLED = {
    "new_session": {"epsilon": "1", "delta": "0", "beta": "0.05", "questions": "9", "population": "200"},
    "session": {"in.sex": "male"},
    "session_audience": {"audience": "everybody"},
    "upload": {"title": "Mine"},
    "database_table": {"table": "ward.patients", "title": "Mine"},
    "rename_dataset": {"title": "Mine"},
    "share_dataset": {"group": ""},
    "take_back_budget": {},
    "delete_dataset": {"delete": "rows"},
    "new_survey": {"title": "Mine"},
    "change_survey": {"title": "Mine", "question": "What?", "answers": "a\nb", "epsilon": "1"},
    "survey_visibility": {"public": "yes"},
    "columns": {"codebook": '{"version": 1, "columns": [{"name": "age", "type": "integer", "edges": [0, 9]}]}'},
    "check_columns": {"rows": "5000"},
    "learn_range": {"column": "age", "lowest": "0", "highest": "150", "inside": "98", "epsilon": "1"},
    "learn_categories": {"column": "sex", "other": "other", "epsilon": "1", "delta": "0.000001"},
    "protection": {"kind": "row", "neighbours": "replace", "max_rows": "1"},
    "budget": {"epsilon": "50", "delta": "0.000001", "policy": "zcdp"},
    "questions": {"action": "clear"},
    "edit_workload": {"name": "Mine", "workload": '{"version": 1, "queries": [{"prefix": "age"}]}', "since": "1"},
    "new_collection": {
        "form-TOTAL_FORMS": "6",
        "form-INITIAL_FORMS": "0",
        "form-0-wanted": "counts",
        "form-0-first": "sex",
        "epsilon": "0.1",
    },
    "confirm_collection": {"action": "share", "epsilon": "0.2"},
    "share_workload": {"group": ""},
    "use_workload": {"action": "use"},
    "save_workload": {"name": "Mine"},
    "compare": {"epsilon": "9", "delta": "0", "beta": "0.05", "mechanism": "laplace-histogram"},
    "certify": {"epsilon": "0.05", "delta": "0", "beta": "0.05", "what": "synthetic rows"},
    "confirm": {"key": str(uuid.uuid4()), "title": "Taken over"},
    "visibility": {"public": "yes"},
    "budget_request": {"decision": "approve", "epsilon": "12", "delta": "0.000001"},
    "budget_detail": {"action": "freeze", "reason": "Mine."},
    "release_request": {"decision": "approve"},
    "backups": {"action": "acknowledge"},
    "people": {"person": "1", "give": "administrator"},
    "connections": {"name": "ward", "address": "postgresql://reader@127.0.0.1:1/ward"},
    "organisation": {"upload_cap": "1", "review_above": ""},
}


def test_everything_that_a_release_offers_is_for_whoever_may_read_it(world, as_):
    for person in PEOPLE:
        client = as_(world["people"][person])
        for thing in ("published", "public"):
            for name in download_names(Release.objects.get(pk=world[thing]).result):
                response = client.get(reverse("download", args=[world[thing], name]))
                assert outcome(response) == GETS["download", thing][person], (name, person)


@pytest.mark.parametrize("person", ["nobody", "charlie"])
def test_nobody_else_can_change_anything(world, as_, person):
    client = as_(world["people"][person])
    before = unseen_login(snapshot())
    for (name, thing), refused in POSTS.items():
        response = client.post(address(world, name, thing), FILLED.get(name, {}))
        expected = LOGIN if person == "nobody" else refused if refused != LOGIN else 400
        assert outcome(response) == expected, name
    assert unseen_login(snapshot()) == before


def test_a_curator_cannot_do_the_reviewer_s_work(world, as_):
    before = unseen_login(snapshot())
    for person in ("alice", "bob"):
        client = as_(world["people"][person])
        for name, thing in REVIEWER_S:
            response = client.post(address(world, name, thing), FILLED.get(name, {}))
            assert response.status_code == 404, (name, person)
    assert unseen_login(snapshot()) == before


def test_a_reviewer_cannot_do_the_curator_s_work(world, as_, sofia):
    client = as_(sofia)
    before = unseen_login(snapshot())
    for (name, thing), refused in POSTS.items():
        if refused == 404 and (name, thing) not in REVIEWER_S:
            assert client.post(address(world, name, thing), FILLED.get(name, {})).status_code == 404, name
    assert unseen_login(snapshot()) == before


@pytest.mark.parametrize("person", ["alice", "sofia"])
def test_a_form_without_its_token_changes_nothing(world, person):
    client = Client(enforce_csrf_checks=True)
    client.force_login(world["people"][person])
    before = unseen_login(snapshot())
    for name, thing in [*POSTS, ("new_release", "dataset"), ("read_notices", ""), ("choose_mail", "")]:
        response = client.post(address(world, name, thing), FILLED.get(name, {}))
        assert response.status_code == 403, name
        assert b"The form is out of date" in response.content
    assert unseen_login(snapshot()) == before


def test_a_group_member_may_work_on_the_dataset(world, as_, bob):
    response = as_(bob).post(address(world, "new_release", "dataset"))
    assert response.status_code == 302
    assert Release.objects.filter(submitted_by=bob).exists()


def test_leaving_the_group_or_closing_the_account_ends_it(world, as_, alice, bob):
    bob.groups.clear()
    page = address(world, "dataset_detail", "dataset")
    assert as_(bob).get(page).status_code == 404
    client = as_(alice)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert outcome(client.get(page)) == LOGIN


def test_what_is_not_there_looks_like_what_one_may_not_see(world, as_, charlie):
    client = as_(charlie)
    for path, thing in (
        ("/datasets/{}/", "dataset"),
        ("/releases/{}/", "draft"),
        ("/releases/{}/compare/", "draft"),
        ("/review/budgets/{}/", "budget"),
    ):
        missing, hidden = (client.get(path.format(each)) for each in (uuid.uuid4(), world[thing]))
        assert missing.status_code == hidden.status_code == 404, path
        strip = [response.content.replace(b"charlie", b"") for response in (missing, hidden)]
        assert len({re.sub(rb'value="[^"]{64}"', b"", each) for each in strip}) == 1, path


@pytest.mark.parametrize("method", ["get", "head", "post"])
def test_whoever_is_not_signed_in_is_asked_to_and_not_told_what_exists(world, client, method):
    for name, thing in [key for key, expected in GETS.items() if key[1] and expected["nobody"] == LOGIN]:
        nothing = 10**6 if thing == "token" else uuid.uuid4()
        hidden, missing = address(world, name, thing), address({thing: nothing}, name, thing)
        asked = [getattr(client, method)(each) for each in (hidden, missing)]
        assert [outcome(response) for response in asked] == [LOGIN, LOGIN], name
        following = [parse_qs(urlsplit(response.url).query)["next"] for response in asked]
        # A form that did nothing leads back to the page it stood on; here the browser did not say which.
        assert following == ([["/"], ["/"]] if method == "post" else [[hidden], [missing]]), name


def test_a_link_opens_after_the_sign_in_where_there_is_something_to_see(world, client):
    for thing, status in (("published", 200), ("missing", 404)):
        link = reverse("release_detail", args=[world.get(thing, uuid.uuid4())])
        signing_in = client.get(link).url
        arrived = client.post(signing_in, {"login": "alice", "password": PASSWORD})
        assert arrived.url == link
        assert client.get(link).status_code == status
        client.logout()


def test_a_page_that_looks_on_from_a_script_leaves_for_the_sign_in(world, client):
    page = address(world, "release_detail", "queued")
    shown = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{page}"}
    asked = client.get(address(world, "release_status", "queued"), headers=shown)
    assert asked["HX-Redirect"] == f"/accounts/login/?next={quote(page, safe='')}"


def test_a_file_that_a_public_release_does_not_have_is_not_worth_a_sign_in(world, client):
    assert client.get(f"{address(world, 'release_detail', 'public')}files/nothing.csv").status_code == 404


def test_the_admin_is_for_staff(alice, charlie, as_):
    for person in (None, alice, charlie):
        response = as_(person).get("/admin/releases/ledgerentry/")
        assert response.status_code == 302
        assert "/login/" in response.url


def test_staff_read_in_the_admin_and_write_through_the_pages_only(world, as_, sofia):
    sofia.is_superuser = True
    sofia.save()
    client = as_(sofia)
    before = unseen_login(snapshot())
    for model, thing in (("budget", "budget"), ("dataset", "dataset"), ("release", "draft")):
        assert client.get(f"/admin/releases/{model}/{world[thing]}/change/").status_code == 200
        for action in ("change", "delete"):
            assert client.post(f"/admin/releases/{model}/{world[thing]}/{action}/", {"post": "yes"}).status_code == 403
        assert client.post(f"/admin/releases/{model}/add/", {}).status_code == 403
    assert unseen_login(snapshot()) == before
