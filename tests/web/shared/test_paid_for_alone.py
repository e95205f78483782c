"""What is published depends on what was paid for alone: where it is the same, so is everything that anybody sees.

Two worlds are built of tables that differ in people. In the second, the process that reads tables gives back what it
gave in the first: the same noisy numbers, the same opened session, the same counts for its questions. Whatever differs
then, on a page, in a file, in an answer of the API or in a size, has come from rows by another way.
"""

import copy
import itertools
import re
import zipfile
from functools import partial
from pathlib import Path

import pyarrow.parquet
import pytest
from django.conf import settings

from releases import services
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import ReleaseOutput
from releases.services import reading
from tests.web.conftest import FOR_ROWS
from tests.web.pages import masked
from tests.web.shared.test_who_learns_what import (
    _PLACE,
    OBJECTS,
    ONE_MORE,
    OPERATIONS,
    ROUTES,
    TABLE,
    bring,
    differing,
    people,
)
from tests.web.undoing import undone

__all__ = ["people"]

#: The beginning of its number, which tells files apart, and the sizes of files that are packed with it.
_OF_A_RELEASE = re.compile(r"-[0-9a-f]{8}(?=[-.])|[\d.]+ (bytes|kB|MB)\b")
#: What is released, each with a mechanism that can.
ASKED = {
    "Counts": ({"marginals": 1}, "laplace-queries", {"options": FOR_ROWS}),
    "A fit": ({"marginals": 2}, "marginal-fit", {"delta": "0.0000001"}),
    "A mean": ({"mean": {"columns": ["age"], "by": "sex"}}, "laplace-numbers", {}),
    "A median": ({"median": "age"}, "exponential-quantile", {}),
}


@pytest.fixture
def played(monkeypatch):
    """Let the process that reads give the same in every world, however often it is asked."""
    given, asked = [], itertools.count()

    def again(name, shaped=lambda given, *_: given):
        read = getattr(reading, name)

        def gives(*args, **more):
            place = next(asked)
            if place == len(given):
                given.append((name, copy.deepcopy(read(*args, **more))))
            assert given[place][0] == name
            return shaped(copy.deepcopy(given[place][1]), *args)

        monkeypatch.setattr(reading, name, gives)

    again("run_plan", lambda made, plan, *_: ReleaseOutput(plan=plan, result=made.result, records=made.records))
    again("open_session")
    again("count")

    def begin():
        nonlocal asked
        asked = itertools.count()
        for module in ("publication.files", "engine.noise.randomness"):
            monkeypatch.setattr(f"releases.{module}.OperatingSystemRandomness", partial(StreamRandomness, b"the same"))

    return begin


@pytest.fixture
def published_world(people, group, as_, make_draft, carry_out, close, no_worker):
    def build(content):
        alice, sofia = people["alice"], people["sofia"]
        dataset, _ = bring(as_(alice), "Hers", content)
        services.datasets.share_dataset(dataset=dataset, group=group, by=alice)
        services.budgets.approve_request(request=dataset.budget.requests.get(), by=sofia)
        dataset.refresh_from_db()
        made = {}
        for title, (query, mechanism, more) in ASKED.items():
            draft = make_draft(dataset, query, epsilon="0.3", mechanism=mechanism, title=title, **more)
            made[title] = carry_out(draft)
        certificate = services.certificates.draft_certificate(of=made["A fit"], by=alice, epsilon="0.1")
        made["A certificate"] = carry_out(certificate)
        for title in ("Open", "Closed"):
            draft = services.sessions.draft_session(
                dataset=dataset, by=alice, title=title, epsilon="0.4", options={"questions": "20", "population": "400"}
            )
            made[title] = carry_out(draft)
            for query in ({"sex": ["female"]}, {"sex": ["male"]}):
                services.sessions.ask_session(session=made[title].session, query=query, by=alice)
        made["Closed"] = close(made["Closed"].session)
        services.releases.make_public(release=made["Counts"], by=alice)
        return dataset, made

    return build


def files_of(release):
    """The files that a release has, as far as they say nothing of which release it is."""
    found = {}
    for path in sorted((Path(settings.RELEASES_DIR) / release.folder).iterdir()):
        if path.suffix == ".xlsx":
            with zipfile.ZipFile(path) as book:
                found |= {f"{path.name} {each}": masked(book.read(each).decode()) for each in book.namelist()}
        elif path.suffix == ".parquet":
            table = pyarrow.parquet.read_table(path)
            found[path.name] = masked(f"{table.schema.metadata}\n{table.replace_schema_metadata().to_pydict()}")
        else:
            found[path.name] = masked(path.read_text())
    return found


def answers_to(as_, people, dataset, made):
    """What is answered where something is looked at: of the table and of a public release to everybody, of others to
    whose they are."""
    looked_at = [*ROUTES, *(path for method, path in OPERATIONS if method == "GET")]
    for title, release in [("The table", None), *made.items()]:
        things = dict.fromkeys(OBJECTS, dataset.pk) | {"budget_id": dataset.budget_id, "name": "answers.json"}
        things |= {"request_id": dataset.budget.requests.get().pk, "token_id": 1, "page": "none", "form": "csv"}
        things |= {"database": "clinic"} | ({} if release is None else {"release_id": release.pk})
        for route in (each for each in looked_at if ("release_id" in each) is (release is not None)):
            address = "/" + _PLACE.sub(lambda name: str(things[name[1] or name[2]]), route)  # noqa: B023  called at once
            for name, user in people.items() if title in ("The table", "Counts") else [("alice", people["alice"])]:
                response = as_(user).get(address)
                heads = {each: value for each, value in response.headers.items() if each != "Expires"}
                content = b"".join(response.streaming_content) if response.streaming else response.content
                is_text = not response.get("Content-Type", "").endswith("zip")
                shown = masked(content.decode()) if is_text else f"{len(content)} bytes"
                if "Content-Length" in heads:
                    heads["Content-Length"] = len(shown)
                answer = masked(f"{response.status_code} {sorted(heads.items())}\n{shown}")
                yield f"{title}: {route} as {name}", _OF_A_RELEASE.sub("", answer)


def test_where_the_same_was_paid_for_everything_published_is_the_same(published_world, people, as_, played):
    asking = {name: people[name] for name in ("alice", "charlie", "sofia", "nobody")}
    seen = []
    for content in (TABLE, ONE_MORE):
        with undone():
            played()
            dataset, made = published_world(content)
            published = {title: each for title, each in made.items() if each.folder}
            files = {
                f"{title}: {name}": text for title, each in published.items() for name, text in files_of(each).items()
            }
            seen.append(files | dict(answers_to(as_, asking, dataset, made)))
    assert len(published) == len(ASKED) + 2
    assert len(seen[0]) > 300
    assert differing(*seen) == {}
