"""Who learns what: nobody learns of rows what was not paid for, on any page and in any answer of any operation.

Whole worlds are built twice, with tables that differ in one person, or with an upload that matches a table and one that
does not, and every address of the site and every operation of the API is visited by everybody. The addresses are read
from the site's table of contents: one that is added is visited, or fails here by its name. What a reviewer without a
stake may see of a match is shown to differ, so that the comparison is known to see.
"""

import difflib
import re
import uuid
from pathlib import Path

import pytest
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, transaction
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern

from releases import services
from releases.api import api
from releases.models import ApiToken, BudgetRequest, Dataset, Notice, Upload
from releases.questions.together import PartAsked
from releases.urls import urlpatterns
from tests.web.conftest import COLUMNS, WORKLOAD, give, person
from tests.web.pages import body, masked
from tests.web.undoing import undone

#: So many people that the same rows are evidence of the same people.
TABLE = b"person,age,sex\n" + b"".join(
    f"p{i},{18 + (i * 7 % 400) / 10},{'female' if i % 3 else 'male'}\n".encode() for i in range(400)
)
ONE_OFF = TABLE.replace(b"p7,22.9,", b"p7,23.9,")
ONE_MORE = TABLE + b"p400,30,male\n"

SCHEMA = {"version": 1, "unit": {"kind": "row"}, "neighbours": "add_remove", "columns": COLUMNS}

#: Which object of a world stands in an address, by the name that the address gives it. What is new has to be named.
OBJECTS = {
    "upload_id": ("upload",),
    "database": ("database",),
    "dataset_id": ("hers", "his"),
    "release_id": ("release", "draft"),
    "request_id": ("request", "review"),
    "budget_id": ("budget", "his budget"),
    "workload_id": ("nothing",),
    "collection_id": ("collection",),
    "survey_id": ("nothing",),
    "token_id": ("token",),
    "connection_id": ("nothing",),
    "page": ("nothing",),
    "name": ("file",),
    "form": ("none",),
}


def routes(patterns, before=""):
    """Every route of the site's table of contents, the API's too."""
    for each in patterns:
        route = before + str(each.pattern)
        if isinstance(each, URLPattern):
            yield route
        else:
            yield from routes(each.url_patterns, route)


ROUTES = sorted({route for route in routes(urlpatterns) if not route.startswith("api/")} | {"api/"})
LOOKED_AT = [("GET", route) for route in ROUTES]
#: An empty form is sent to every page.
SENT = [("POST", route) for route in ROUTES]
OPERATIONS = sorted(
    (method, f"api{path}")
    for prefix, router in api._routers
    for path, view in router.path_operations.items()
    for operation in view.operations
    for method in operation.methods
)
_PLACE = re.compile(r"<\w+:(\w+)>|\{(?:\w+:)?(\w+)\}")


def addresses(route, world):
    """The route with each object of the world in its place."""
    names = [first or second for first, second in _PLACE.findall(route)]
    unknown = [name for name in names if name not in OBJECTS]
    assert not unknown, f"{route}: nothing in the worlds of this test stands for {unknown}; add it to OBJECTS"
    found = [route]
    for name in names:
        found = [
            _PLACE.sub(lambda _, value=value: str(value), each, count=1)
            for each in found
            for value in (world[kind] for kind in OBJECTS[name])
        ]
    return [f"/{each}" for each in found]


def test_every_address_and_operation_is_one_that_the_walk_can_visit():
    world = dict.fromkeys([kind for kinds in OBJECTS.values() for kind in kinds], "x")
    assert len(ROUTES) > 70
    assert len(OPERATIONS) > 30
    for route in [*ROUTES, *(path for _, path in OPERATIONS)]:
        assert all("<" not in each and "{" not in each for each in addresses(route, world))
    with pytest.raises(AssertionError, match="a-new-page"):
        addresses("a-new-page/<uuid:thing_id>/", world)


class _Nothing(Exception):
    """Undoes what one request did."""


@pytest.fixture
def people(alice, bob, charlie, sofia, group):
    """Colleague, stranger, reviewers with and without a stake, owner, and a reader who is not signed in."""
    rita = person("rita", "reviewer", "curator")
    rita.groups.add(group)
    for each in (bob, charlie):
        give(each, "curator")
    return {"alice": alice, "bob": bob, "charlie": charlie, "rita": rita, "sofia": sofia, "nobody": None}


@pytest.fixture
def visit(as_, settings):
    """What everybody is answered everywhere, and from how many queries: time that rows could change is none of ours."""
    folders = [Path(settings.TABLES_DIR), Path(settings.RELEASES_DIR)]

    def files():
        return {
            path: path.read_bytes() for each in folders if each.is_dir() for path in each.rglob("*") if path.is_file()
        }

    def answer(client, method, address, digests=()):
        """One answer; what it did is undone."""
        shown = ""
        kept = files() if method != "GET" else {}
        cache.clear()
        # No request that is followed empties the connection's list of queries, which has an end.
        connection.queries_log.clear()
        try:
            with transaction.atomic(), CaptureQueriesContext(connection) as queries:
                is_json = method != "GET" and address.startswith("/api/")
                sent = {"data": "{}", "content_type": "application/json"} if is_json else {}
                response = getattr(client, method.lower())(address, **sent)
                shown = body(response)
                # Of a page that no browser keeps, Expires is the time of the answer.
                heads = {name: value for name, value in response.headers.items() if name != "Expires"}
                if "Content-Length" in heads and not response.streaming:
                    # A time on a whole second is written shorter than others.
                    assert heads["Content-Length"] == str(len(response.content))
                    heads["Content-Length"] = str(len(masked(response.content.decode())))
                shown = f"{response.status_code} {sorted(heads.items())}\n{shown}"
                raise _Nothing
        except _Nothing:
            pass
        for path, content in kept.items():
            if not path.exists():
                path.write_bytes(content)
        # A hash is masked, so what would tell equal rows from others by one is looked for first.
        assert not any(digest in shown for digest in digests), f"{address} shows the digest of a table"
        return f"{len(queries)} queries\n{masked(shown)}"

    def everywhere(world, people, *, pages=LOOKED_AT, senders=()):
        seen = {"what was said to everybody": world["said"]}
        # The first page that a process answers reads what the process then remembers.
        answer(as_(None), "GET", "/")
        for name, user in people.items():
            client = as_(user)
            for method, route in [*pages, *(SENT if name in senders else ()), *OPERATIONS]:
                for number, address in enumerate(addresses(route, world)):
                    seen[f"{method} {route} {number} as {name}"] = answer(client, method, address, world["digests"])
        return seen

    return everywhere


def bring(client, title, content):
    """What the uploader of a table is answered, until the request waits for a reviewer; and the worker's queries."""
    answers = [client.post("/api/datasets", {"title": title, "table": SimpleUploadedFile("table.csv", content)})]
    number = answers[0].json()["id"]
    with CaptureQueriesContext(connection) as queries:
        assert services.uploads.execute_upload(upload_id=number)
    for method, path, given in (
        ("get", f"uploads/{number}", {}),
        ("put", f"datasets/{number}/schema", SCHEMA),
        ("post", f"datasets/{number}/budget-requests", {"epsilon": "3", "delta": "0.000001", "policy": "zcdp"}),
    ):
        answers.append(getattr(client, method)(f"/api/{path}", given, content_type="application/json"))
    assert [each.status_code for each in answers] == [202, 200, 200, 201]
    said = [masked(f"{sorted(each.headers.items())} {body(each)}") for each in answers]
    return Dataset.objects.get(pk=number), [len(queries), *said]


@pytest.fixture
def world(people, group, as_, make_draft, no_worker):
    """Her table with a budget, a queued release and a draft; his table with a request that waits."""

    def build(hers, his, uploader, *, hers_first=True):
        alice, rita, sofia, owner = (people[name] for name in ("alice", "rita", "sofia", uploader))
        made, answered = {}, []
        for whose in ("hers", "his") if hers_first else ("his", "hers"):
            mine = alice if whose == "hers" else owner
            made[whose], answers = bring(as_(mine), whose.capitalize(), hers if whose == "hers" else his)
            answered.append(answers)
            request = made[f"request of {whose}"] = made[whose].budget.requests.get()
            if whose == "hers":
                services.datasets.share_dataset(dataset=made["hers"], group=group, by=alice)
                # A reviewer who has edited it has a stake in it.
                services.datasets.rename_dataset(dataset=made["hers"], title="Hers, renamed", by=rita)
            if whose == "hers" and hers_first:
                services.budgets.approve_request(request=request, by=sofia)
        with CaptureQueriesContext(connection) as queries:
            services.fingerprints.take_fingerprints()
        answered.append(len(queries))
        made["hers"].refresh_from_db()
        release = draft = collection = None
        if hers_first:
            release = make_draft(made["hers"], epsilon="0.5")
            services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
            draft = services.releases.draft_release(dataset=made["hers"], by=alice)
            services.releases.set_questions(release=draft, workload=WORKLOAD)
            collection = services.collections.draft_collection(
                dataset=made["hers"],
                by=alice,
                title="Planned together",
                epsilon="0.2",
                parts=[PartAsked(title="A part", workload=WORKLOAD)],
            )
        token = ApiToken.objects.filter(user=alice).first()
        return {
            "answered": answered,
            "said": masked(str(list(Notice.objects.order_by("pk").values_list("person__username", "title", "text")))),
            "digests": [
                digest
                for each in Dataset.objects.select_related("fingerprint")
                for digest in (each.digest, each.fingerprint.digest)
                if digest
            ],
            "upload": made["his"].pk,
            "database": "clinic",
            "hers": made["hers"].pk,
            "his": made["his"].pk,
            "release": release.pk if release else uuid.uuid4(),
            "draft": draft.pk if draft else uuid.uuid4(),
            "collection": collection.pk if collection else uuid.uuid4(),
            "request": made["request of his"].pk,
            "review": made["request of hers"].pk,
            "budget": made["hers"].budget_id,
            "his budget": Dataset.objects.get(pk=made["his"].pk).budget_id,
            "token": token.pk if token else 1,
            "nothing": uuid.UUID(int=1),
            "file": "answers.csv",
            "none": "csv",
        }

    return build


def differing(one, other):
    """The addresses that were answered differently, and the lines that differ."""
    assert one.keys() == other.keys()
    found = {}
    for address in one:
        if one[address] != other[address]:
            lines = [each[address].replace("><", ">\n<").splitlines() for each in (one, other)]
            found[address] = "\n".join(list(difflib.unified_diff(*lines, lineterm="", n=0))[2:12])
    return found


def test_neighbouring_tables_look_the_same_to_everybody_everywhere(world, visit, people):
    own = TABLE.replace(b"p", b"q").replace(b"qerson", b"person")[:-200].rsplit(b"\n", 1)[0] + b"\n"
    seen = []
    for hers in (TABLE, ONE_MORE):
        with undone():
            seen.append(visit(world(hers, own, "charlie"), people, senders=("bob",)))
    assert len(seen[0]) > 900
    assert differing(*seen) == {}


@pytest.mark.parametrize(
    ("uploader", "hers_first"),
    [("alice", True), ("bob", False), ("charlie", True)],
    ids=["her own copy", "a colleague's guess that comes first", "a stranger's guess that comes later"],
)
def test_an_upload_that_matches_looks_the_same_to_all_but_reviewers_without_a_stake(
    world, visit, people, uploader, hers_first
):
    seen, answered = [], []
    for his in (TABLE, ONE_OFF):
        with undone():
            built = world(TABLE, his, uploader, hers_first=hers_first)
            answered.append(built["answered"])
            assert BudgetRequest.objects.count() == 2
            assert Upload.objects.count() == 2
            seen.append(visit(built, people, senders=("charlie",) if uploader == "charlie" else ()))
    # The same words and sizes, and the same work for whoever has a clock.
    assert answered[0] == answered[1]
    found = differing(*seen)
    assert {each: lines for each, lines in found.items() if not each.endswith(" as sofia")} == {}
    # The reviewer without a stake is shown the match, on the pages where it matters and nowhere else.
    shown = {each.split(" ")[1] for each in found}
    assert shown <= {"review/requests/<uuid:request_id>/", "review/budgets/<uuid:budget_id>/"}
    assert "review/requests/<uuid:request_id>/" in shown


def test_tables_are_compared_for_a_reviewer_s_page_and_nowhere_else(world, visit, people, monkeypatch):
    """So no time of an upload, of a page or of an answer can depend on what is alike."""

    def compared(*_, **__):
        pytest.fail("tables were compared")

    for name in ("recognition.counted_alike", "recognition._near", "budgets.counted_alike"):
        monkeypatch.setattr(f"releases.services.{name}", compared)
    built = world(TABLE, TABLE, "charlie", hers_first=False)
    others = {name: people[name] for name in ("alice", "bob", "charlie", "nobody")}
    visit(built, others, senders=others)
    with pytest.raises(pytest.fail.Exception, match="tables were compared"):
        visit(built, {"sofia": people["sofia"]}, pages=[("GET", "review/requests/<uuid:request_id>/")])


def test_an_approval_locks_nothing_by_what_is_alike_and_compares_nothing_while_it_locks(world, people, monkeypatch):
    """Whoever waits for a lock has a clock: a request of their own would be slow where their guess is right."""
    done, fetch, near = [], QuerySet._fetch_all, services.recognition._near

    def fetched(self):
        is_lock = self._result_cache is None and self.query.select_for_update
        fetch(self)
        if is_lock:
            done.append(f"{self.model.__name__} is locked, {len(self._result_cache)} of them")

    def compared(*given):
        done.append("sketches are compared")
        return near(*given)

    monkeypatch.setattr(QuerySet, "_fetch_all", fetched)
    monkeypatch.setattr(services.recognition, "_near", compared)
    seen = []
    for his in (TABLE, ONE_OFF):
        with undone():
            request = BudgetRequest.objects.get(pk=world(TABLE, his, "charlie", hers_first=False)["review"])
            done.clear()
            services.budgets.approve_request(request=request, by=people["sofia"])
            seen.append(list(done))
    assert seen[0] == seen[1]
    compared = [place for place, each in enumerate(done) if "compared" in each]
    locked = [place for place, each in enumerate(done) if "locked" in each]
    assert compared
    assert max(compared) < min(locked)


def test_the_operations_are_the_api_s_own():
    described = api.get_openapi_schema()["paths"]

    def shapes(paths):
        return {re.sub(r"\{.*?\}", "{}", each.removeprefix("/")) for each in paths}

    assert shapes(path for _, path in OPERATIONS) == shapes(described)
