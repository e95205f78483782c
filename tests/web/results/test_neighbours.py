"""One person more or less: nobody sees a difference before a result is paid for.

The whole walk from the upload to the queued release is made twice, with two tables that differ in one person, and every
page that anybody can see on the way must be the same byte for byte, but for identifiers, times and tokens.
"""

import json
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from releases import services
from releases.models import Budget, BudgetRequest, Collection, Dataset, Release, Upload
from tests.web.conftest import COLUMNS, WORKLOAD
from tests.web.pages import body, field_value, link, masked
from tests.web.undoing import undone

#: A number of people that stands nowhere else on the site.
PEOPLE = 1237
TABLE = b"person,age,sex\n" + b"".join(
    f"p{i},{18 + (i * 7) % 48},{'female' if i % 3 else 'male'}\n".encode() for i in range(PEOPLE)
)
#: One more like the others, one outside every declared range, one with nothing filled in, one whose age is no number,
#: and one whose age is not a number. All at once, which is harder to hide than one of them.
MORE = b"p9995,30,male\np9996,999,unheard of\np9997,,\np9998,=1+1,'; DROP TABLE people\np9999,NaN,nan\n"
NEIGHBOUR = TABLE + MORE


@pytest.fixture
def walk(as_, alice, bob, charlie, sofia, no_worker):
    """Upload a table, go all the way to a queued release, and return every page that each person sees on the way."""
    people = {"alice": alice, "bob": bob, "charlie": charlie, "sofia": sofia, "nobody": None}

    def run(content, name="survey.csv", mechanism="laplace-histogram"):
        seen = {}

        def look(step, *addresses, only=people):
            for person, user in only.items():
                for address in addresses:
                    response = as_(user).get(address)
                    shown = f"{response.status_code} {sorted(response.headers.items())} {body(response)}"
                    seen[f"{step}: {masked(address)} as {person}"] = masked(shown)

        def do(step, user, address, data):
            response = as_(user).post(address, data)
            assert response.status_code == 302, body(response)
            seen[f"{step} by {user}"] = masked(response.url)
            return response

        everywhere = [
            "/",
            "/catalogue/",
            "/datasets/",
            "/releases/",
            "/review/",
            "/review/budgets/",
            "/review/ledger.csv",
        ]
        sent = {"title": "Survey", "table": SimpleUploadedFile(name, content)}
        upload = do("upload", alice, "/datasets/new/", sent).url
        received = Upload.objects.get()
        assert upload == link("upload_detail", received)
        look("sent", upload, f"{upload}status/", f"/api/uploads/{received.pk}", *everywhere)
        assert services.uploads.execute_upload(upload_id=received.pk)
        look("stored", upload, f"{upload}status/", f"/api/uploads/{received.pk}", "/notices/", *everywhere)
        dataset = Dataset.objects.get()
        services.datasets.share_dataset(dataset=dataset, group=alice.groups.get(), by=alice)
        steps = ("dataset_detail", "columns", "protection", "budget", "new_session", "new_collection", "region_maps")
        pages = [link(page, dataset) for page in steps]
        pages.append(link("learn_range", dataset) + "?column=age")
        pages.append(link("learn_categories", dataset) + "?column=sex&other=x&epsilon=1&delta=0.00001")
        pages.append(link("check_columns", dataset) + "?rows=300")
        look("uploaded", *pages, *everywhere)
        codebook = {"version": 1, "columns": COLUMNS}
        do("declare", alice, pages[1], {"codebook": json.dumps(codebook)})
        do("protect", alice, pages[2], {"kind": "row", "neighbours": "add_remove", "max_rows": "1"})
        shape = {"type": "Polygon", "coordinates": [[[9, 50], [10, 50], [10, 51], [9, 50]]]}
        drawn = {"type": "FeatureCollection", "features": [{"properties": {"is": "male"}, "geometry": shape}]}
        regions = SimpleUploadedFile("regions.json", json.dumps(drawn).encode())
        do("map", alice, pages[6], {"column": "sex", "boundaries": regions})
        look("protected", *pages)
        do("ask", alice, pages[3], {"epsilon": "3", "delta": "0.000001", "policy": "zcdp", "reason": "Yearbook."})
        request = reverse("budget_request", args=[BudgetRequest.objects.get().pk])
        look("asked", *pages, request, *everywhere)
        do("grant", sofia, request, {"epsilon": "3", "delta": "0.000001", "note": "", "decision": "approve"})
        do("draft", alice, link("new_release", dataset), {})
        release = Release.objects.get()
        draft = [link(page, release) for page in ("questions", "compare", "confirm")]
        do("question", bob, draft[0], {"workload": json.dumps(WORKLOAD)})
        look("questioned", *draft[:2])
        look("questioned", draft[1] + "?curves=1&error=30", only={"alice": alice})
        choice = {"epsilon": "1", "delta": "0", "beta": "0.05", "mechanism": mechanism}
        do("choose", alice, draft[1], choice)
        look("chosen", *draft, request, *everywhere)
        lines = {"form-TOTAL_FORMS": "6", "form-INITIAL_FORMS": "0", "epsilon": "0.5", "population": "1000"}
        asked = {"form-0-wanted": "mean", "form-0-number": "age", "form-0-first": "sex", "form-1-wanted": "rows"}
        do("plan several", alice, link("new_collection", dataset), lines | asked)
        together = [reverse(page, args=[Collection.objects.get().pk]) for page in ("confirm_collection", "collection")]
        look("planned together", *together, *everywhere)
        page = as_(alice).get(draft[2])
        do("confirm", alice, draft[2], {name: field_value(page, name) for name in ("key", "plan", "title")})
        result = [link(page, release) for page in ("release_detail", "release_status")]
        files = [link("download", release, file) for file in ("answers.csv", "receipt.json")]
        budget = reverse("budget_detail", args=[Budget.objects.get().pk])
        look("queued", *pages, *draft, *result, *files, budget, *everywhere)
        return seen

    def walk_and_forget(content, **more):
        with undone():
            return run(content, **more)

    return walk_and_forget


def test_every_page_is_the_same_with_people_more_or_less_and_shows_no_number_of_people(walk):
    one = walk(TABLE)
    assert len(one) > 250
    for address, shown in one.items():
        for number in (PEOPLE, PEOPLE + 1, PEOPLE + MORE.count(b"\n")):
            # Not as a part of a longer number: the length of a page is no number of people.
            assert not re.search(rf"(?<!\d){number}(?!\d)", shown), address
            assert f"{number:,}" not in shown, address
    other = walk(NEIGHBOUR)
    assert one.keys() == other.keys()
    assert {address for address in one if one[address] != other[address]} == set()


def test_a_file_that_is_no_text_is_told_to_its_curator_and_to_nobody_else(as_, alice, bob, charlie, sofia):
    """One more person whose row is bad UTF-8: the upload is refused, and no page shows that there was one."""
    people = {"bob": bob, "charlie": charlie, "sofia": sofia, "nobody": None, "alice": alice}
    pages = ["/", "/catalogue/", *map(reverse, ("dataset_list", "release_list", "review_queue", "budget_board"))]

    def all_pages():
        return {
            (name, page): masked(f"{answer.status_code} {sorted(answer.headers.items())} {body(answer)}")
            for name, person in people.items()
            for page in pages
            for answer in [as_(person).get(page)]
        }

    before = all_pages()
    table = SimpleUploadedFile("survey.csv", TABLE + b"p9999,30,caf\xe9\n")
    refused = as_(alice).post(reverse("upload"), {"title": "Survey", "table": table})
    assert refused.status_code == 400
    assert f"Line {PEOPLE + 2} is not UTF-8 text." in body(refused)
    assert all_pages() == before


def test_what_a_result_shows_besides_its_noisy_numbers_is_the_same_too(walk, as_, alice, make_dataset, make_queued):
    """Headings, labels, question titles, number of answers, names of files.

    The number of synthetic rows is chosen here; left open, it is the noisy total that was paid for.
    """
    frames = []
    for content in (TABLE, NEIGHBOUR):
        with undone():
            release = make_queued(make_dataset(content=content), options={"rows": 50})
            assert services.execution.execute_release(release_id=release.pk)
            release.refresh_from_db()
            page = masked(body(as_(alice).get(link("release_detail", release))))
            before, after = page.split("<tbody>")[0], page.split("Downloads</h2>")[1]
            before = _without_rows_beside_answers(before.split('<script id="answers-data"')[0])
            # The sentence at its head is made of the noisy numbers.
            before = re.sub(r'<p class="accuracy">.*?</p>', "", before)
            before = re.sub(r"About [\d,]+ rows counted", "About TOTAL rows counted", before)
            frames.append((before, sorted(release.result["files"]), _without_sizes(after)))
            receipt = release.result["receipt"]
            # How far synthetic rows are from the answers follows from both, which are paid for.
            paid = ("release", "content_digest", "total", "synthetic_beside", "synthetic_quality")
            frames[-1] += ({name: receipt[name] for name in receipt if name not in paid},)
    assert frames[0] == frames[1]


def _without_rows_beside_answers(text):
    said = r'(<div class="note wait"><p><strong>Mind the synthetic rows[.]</strong> |<p class="small muted">)'
    return re.sub(said + r"Asked the same questions.*?</p>(</div>)?", "", text)


def _without_sizes(text):
    return re.sub(r"[\d.]+ (bytes|kB|MB)", "SIZE", text)
