"""Every address of the site, visited by everybody: who may see what, and who may change what."""

import gzip
import re
import uuid
from collections import Counter
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import get_resolver, reverse

from releases import models, services, urls
from releases.models import ApiToken, CollectionPart, Organisation, RegisteredConnection, Release
from releases.publication.archive import download_names
from releases.questions.together import PartAsked
from tests.stack import ROOT
from tests.web.conftest import CSV
from tests.web.pages import body, inline_code
from tests.web.steps import ask_for

PEOPLE = ("nobody", "alice", "bob", "charlie", "sofia")
#: Of what a request could have changed.
_CHANGED = """Dataset Budget BudgetRequest Release Collection CollectionPart ReleaseRequest Session
    SessionAnswer SessionCells Survey SurveyTally LedgerEntry Organisation RegisteredConnection ApiToken Notice
    MailChoice Upload SavedWorkload WorkloadVersion RegionBoundaries"""
MODELS = (User, *(getattr(models, name) for name in _CHANGED.split()))
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
#: Led to another page.
MOVED, OURS_MOVED = seen(LOGIN, 302, 302, 302, 302), seen(LOGIN, 302, 302, 404, 404)

#: What a GET of an object's addresses, by their names, gives each person. A new address must be added here.
PAGES = (
    (ALL, "", "home words catalogue documentation programs"),
    (SIGNED_IN, "", "published_tables"),
    (SIGNED_IN, "", "ways dataset_list release_list workload_list session_list survey_list new_survey notices tokens"),
    (seen(LOGIN, 200, 200, 403, 403), "", "upload databases"),
    (STAFF, "", "review_queue budget_board board_csv ledger ledger_csv audit_log audit_csv backups people connections"),
    (STAFF, "", "organisation"),
    (POST_ONLY, "", "read_notices choose_mail"),
    (MOVED, "", "unsent"),
    (ALL, "page", "documentation_page"),
    # Of one that the settings do not name.
    (seen(LOGIN, 404, 404, 403, 403), "database", "database_table"),
    (HERS, "upload", "upload_detail upload_status"),
    (HERS, "upload_refused", "upload_detail"),
    (POST_ONLY, "upload", "discard_upload"),
    (OURS, "dataset", "dataset_detail columns take_over check_columns learn_range learn_categories codebook_file"),
    (OURS, "dataset", "impossible region_maps"),
    (OURS, "dataset", "rename_dataset share_dataset delete_dataset protection budget new_collection new_session"),
    (POST_ONLY, "dataset", "take_back_budget new_release"),
    (OURS, "collection", "collection confirm_collection"),
    (ALL, "collection_public", "collection collection_report"),
    # Nothing of it is published.
    (seen(LOGIN, 404, 404, 404, 404), "collection", "collection_report"),
    (OURS_MOVED, "collection_public", "confirm_collection"),
    (OURS_MOVED, "draft", "release_detail certify"),
    (OURS, "draft", "questions compare confirm plan_file save_workload"),
    (POST_ONLY, "draft", "discard_draft load_plan"),
    (OURS, "queued", "release_detail release_status"),
    (POST_ONLY, "queued", "cancel_release"),
    (OURS, "published", "release_detail release_status visibility answers receipt registry download certify"),
    (OURS, "published", "compare_releases"),
    (POST_ONLY, "published", "withdraw attack"),
    (ALL, "public", "release_detail release_status answers receipt registry download compare_releases"),
    (OURS_MOVED, "public", "questions compare confirm visibility"),
    (OURS, "public", "plan_file save_workload certify"),
    (OURS, "certificate", "confirm"),
    (OURS, "certified", "release_detail"),
    (OURS, "workload", "workload edit_workload share_workload"),
    (OURS_MOVED, "workload", "use_workload"),  # no dataset is named
    (POST_ONLY, "workload", "discard_workload"),
    (OURS, "session", "session transcript_csv transcript_json"),
    (OURS_MOVED, "session", "save_workload"),
    (POST_ONLY, "session", "session_audience session_close"),
    (OURS, "survey_draft", "survey change_survey"),
    (POST_ONLY, "survey_draft", "open_survey"),
    (seen(404, 404, 404, 404, 404), "survey_draft", "survey_answer survey_by_hand"),
    (OURS, "survey_open", "survey"),
    (OURS_MOVED, "survey_open", "change_survey"),
    (POST_ONLY, "survey_open", "close_survey"),
    (ALL, "survey_open", "survey_answer survey_by_hand"),
    (seen(LOGIN, 404, 404, 404, 404), "survey_open", "survey_csv survey_receipt"),
    (OURS, "survey_closed", "survey survey_visibility survey_csv survey_receipt"),
    (ALL, "survey_closed", "survey_answer"),
    (ALL, "survey_public", "survey survey_csv survey_receipt"),
    (OURS_MOVED, "survey_public", "survey_visibility"),
    (STAFF, "request", "budget_request"),
    (STAFF, "budget", "budget_detail"),
    (STAFF, "review", "release_request"),
    (seen(LOGIN, 404, 404, 404, 405), "connection", "remove_connection"),
    (POST_ONLY, "token", "revoke_token"),
)
GETS = {(name, thing): expected for expected, thing, names in PAGES for name in names.split()}

#: What a POST by somebody who may not gives, and the status that shows that it was not done.
POSTS = {
    (name, thing): 404
    for thing, names in {
        "upload": "discard_upload",
        "dataset": "rename_dataset share_dataset delete_dataset columns impossible region_maps take_over check_columns "
        "learn_range learn_categories protection budget take_back_budget new_release new_collection new_session",
        "collection": "confirm_collection",
        "collection_public": "confirm_collection",
        "draft": "questions compare confirm load_plan discard_draft save_workload",
        "queued": "cancel_release",
        "published": "visibility withdraw certify attack",
        "public": "visibility withdraw certify attack save_workload",
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
def world(make_dataset, make_draft, make_queued, carry_out, make_survey, upload_file, alice, bob, charlie, sofia, once):
    """One of everything, all of it alice's; bob shares her group."""

    def objects():
        dataset = make_dataset(epsilon="10")
        published, public = carry_out(make_draft(dataset)), carry_out(make_draft(dataset))
        services.releases.make_public(release=public)
        request = ask_for(dataset, alice, "12")
        other = make_dataset(epsilon="5", content=CSV + b"one more,30,male\n")
        live = carry_out(services.sessions.draft_session(dataset=other, by=alice, title="", epsilon="1"))
        services.sessions.ask_session(session=live.session, query={"sex": ["female"]}, by=alice)
        certificate = carry_out(services.certificates.draft_certificate(of=public, by=alice, epsilon="0.05"))
        Organisation.objects.create(upload_cap_bytes=2**30, review_above="1")
        review = carry_out(make_draft(dataset, epsilon="2"), execute=False).reviews.get()
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
        saved = {"release": make_draft(dataset), "name": "Yearly", "by": alice, "group": dataset.group}
        found["workload"] = services.workloads.save_workload(**saved).pk
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
    parts = [PartAsked(title="By sex", workload={"version": 1, "queries": [{"marginal": ["sex"]}]})]
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


def directives(response):
    policy = response["Content-Security-Policy"]
    return {part.split()[0]: part.split()[1:] for part in policy.split(";") if part.strip()}


WANTED = {"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}
WANTED |= {"Cross-Origin-Opener-Policy": "same-origin"}
#: Names of pages that load the library of charts.
WITH_CHARTS = {"home", "ways", "release_detail", "compare", "budget_board", "budget_detail"}
STATIC = ROOT / "releases/static/releases"
#: What every page loads.
SHARED = ("site.css", "vendor/pico-2.1.1.min.css", "vendor/htmx-2.0.11.min.js")


def assert_is_closed_light_and_well_formed(response, address, *, is_part=False):
    """It may run and style the site's own files alone, asks no other host for anything, and may not be kept for others.
    HTML, style and htmx, compressed, are few bytes."""
    policy, page = directives(response), body(response)
    assert inline_code(response) == [], address
    assert policy["default-src"] == ["'none'"], address
    assert policy["script-src"] == policy["style-src"] == ["'self'"], address
    assert "unsafe" not in response["Content-Security-Policy"], address
    assert policy["frame-ancestors"] == policy["base-uri"] == ["'none'"], address
    assert policy["form-action"] == ["'self'"], address
    assert {name: response[name] for name in WANTED} == WANTED, address
    assert {"private", "no-store"} & set(response["Cache-Control"].split(", ")), address
    links = re.findall(r"""\b(?:src|href|action)=["']([a-z]+:[^"']*|//[^"']*)""", page)
    own = ("data:image/svg+xml", "http://testserver/")
    assert [link for link in links if not link.startswith(own)] == [], address
    common = sum(len(gzip.compress((STATIC / name).read_bytes())) for name in SHARED)
    assert common + len(gzip.compress(page.encode())) < 60_000, address
    if is_part:
        return
    assert '<html lang="en-GB">' in page, address
    assert re.search(r"<title>\s*\S.* · dpweb</title>", page, flags=re.DOTALL), address
    assert page.count("<h1") == 1, address
    assert f'href="{reverse("documentation")}"' in page, address
    ids = Counter(re.findall(r'\bid="([^"]+)"', page))
    assert [each for each, number in ids.items() if number > 1] == [], address


def test_everybody_sees_what_they_may_and_nothing_else(world, as_):
    found, looked_into, charted = {key: {} for key in GETS}, set(), set()
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
                is_part = key[0] in ("release_status", "upload_status")
                assert_is_closed_light_and_well_formed(response, (key, person), is_part=is_part)
                looked_into.add(key)
                charted |= {key[0]} if "vega" in body(response) else set()
    assert found == GETS
    assert len(looked_into) > 50
    assert charted == WITH_CHARTS


def snapshot():
    """Everything that a request could have changed, but for when people signed in and tokens were used."""
    return [
        [{name: each for name, each in row.items() if name not in ("last_login", "last_used_at")} for row in rows]
        for rows in (model.objects.order_by("pk").values() for model in MODELS)
    ]


#: What reviewers and administrators alone may do.
REVIEWER_S = [("budget_request", "request"), ("budget_detail", "budget"), ("release_request", "review")]
REVIEWER_S += [("remove_connection", "connection")]
REVIEWER_S += [(name, "") for name in ("ledger", "backups", "people", "connections", "organisation")]

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
    "new_collection": {"form-TOTAL_FORMS": "6", "form-INITIAL_FORMS": "0", "epsilon": "0.1"}
    | {"form-0-wanted": "counts", "form-0-first": "sex"},
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


CURATOR_S = [each for each, refused in POSTS.items() if refused == 404 and each not in REVIEWER_S]


@pytest.mark.parametrize(
    ("person", "forms"),
    [("nobody", POSTS), ("charlie", POSTS), ("alice", REVIEWER_S), ("bob", REVIEWER_S), ("sofia", CURATOR_S)],
    ids=["nobody", "charlie", "alice", "bob", "sofia"],
)
def test_nobody_can_do_what_is_somebody_else_s(world, as_, person, forms):
    """Neither a curator the reviewer's work, nor a reviewer the curator's."""
    client, before = as_(world["people"][person]), snapshot()
    for name, thing in forms:
        response, refused = client.post(address(world, name, thing), FILLED.get(name, {})), POSTS[name, thing]
        expected = LOGIN if person == "nobody" else refused if refused != LOGIN else 400
        assert outcome(response) == expected, name
    assert snapshot() == before


@pytest.mark.parametrize("person", ["alice", "sofia"])
def test_a_form_without_its_token_changes_nothing(world, person):
    client = Client(enforce_csrf_checks=True)
    client.force_login(world["people"][person])
    before = snapshot()
    for name, thing in [*POSTS, ("new_release", "dataset"), ("read_notices", ""), ("choose_mail", "")]:
        response = client.post(address(world, name, thing), FILLED.get(name, {}))
        assert response.status_code == 403, name
        assert b"The form is out of date" in response.content
    assert snapshot() == before


def test_a_group_member_may_work_on_the_dataset_until_they_leave_or_their_account_is_closed(world, as_, alice, bob):
    response = as_(bob).post(address(world, "new_release", "dataset"))
    assert response.status_code == 302
    assert Release.objects.filter(submitted_by=bob).exists()
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


def test_a_file_that_a_public_release_does_not_have_is_not_worth_a_sign_in(world, client):
    assert client.get(f"{address(world, 'release_detail', 'public')}files/nothing.csv").status_code == 404


def test_the_admin_is_for_staff_who_read_there_and_write_through_the_pages_only(world, as_, alice, charlie, sofia):
    for person in (None, alice, charlie):
        response = as_(person).get("/admin/releases/ledgerentry/")
        assert response.status_code == 302
        assert "/login/" in response.url
    sofia.is_superuser = True
    sofia.save()
    client = as_(sofia)
    before = snapshot()
    for model, thing in (("budget", "budget"), ("dataset", "dataset"), ("release", "draft")):
        assert client.get(f"/admin/releases/{model}/{world[thing]}/change/").status_code == 200
        for action in ("change", "delete"):
            assert client.post(f"/admin/releases/{model}/{world[thing]}/{action}/", {"post": "yes"}).status_code == 403
        assert client.post(f"/admin/releases/{model}/add/", {}).status_code == 403
    assert snapshot() == before
