"""Combinations that cannot occur: declared on a page, copied, published, and in no synthetic row."""

import csv
import io
import json
import zipfile

import pytest

from releases import services
from releases.engine.errors import InvalidInput
from releases.models import AuditEvent, Dataset, Release
from releases.services.release_inputs import Refusal
from tests.web.pages import body, link, words
from tests.web.public.test_api import Program
from tests.web.steps import refuses

#: Four hundred rows, forty of them by mistake of married children.
PEOPLE = b"age,sex,status,work\n" + b"".join(
    f"{age},female,{status},{work}\n".encode()
    for age, status, work, many in (
        *(("9", "single", "none", 100), ("9", "married", "none", 40), ("40", "single", "some", 60)),
        *(("40", "married", "some", 120), ("40", "married", "none", 80)),
    )
    for _ in range(many)
)
COLUMNS = [
    {"name": "age", "type": "integer", "edges": [0, 15, 80]},
    {"name": "status", "type": "categorical", "categories": ["single", "married"]},
    {"name": "work", "type": "categorical", "categories": ["none", "some"]},
]
MARRIED = {"age": ["0 to 14"], "status": ["married"]}
TOGETHER = [{"marginal": ["age", "status"]}, {"marginal": ["status", "work"]}]


@pytest.fixture
def people(make_declared):
    return make_declared(COLUMNS, content=PEOPLE, epsilon="20")


@pytest.fixture
def page(as_, alice, people):
    """What alice sends by the page, as a form without scripts does."""
    return lambda **data: as_(alice).post(link("impossible", people), data)


def declared(dataset):
    return Dataset.objects.get(pk=dataset.pk).impossible


def test_a_curator_chooses_columns_then_bins_and_no_row_of_a_release_has_them(
    as_, alice, people, page, make_draft, carry_out
):
    client = as_(alice)
    assert link("impossible", people) in body(client.get(link("columns", people)))
    first = client.get(link("impossible", people), {"column": ["age", "status", ""]})
    assert [each in body(first) for each in ('value="0 to 14"', 'value="married"', 'value="some"')] == [
        True,
        True,
        False,
    ]
    after = client.post(
        link("impossible", people),
        {"column": ["age", "status"], "bins_0": ["0 to 14"], "bins_1": ["married"]},
        follow=True,
    )
    assert "Declared impossible: age: 0 to 14, and status: married." in words(after)
    assert declared(people) == [MARRIED]
    assert AuditEvent.objects.filter(detail__contains="impossible combinations: age: 0 to 14").count() == 1
    assert "age: 0 to 14, and status: married" in words(client.get(link("dataset_detail", people)))

    people.refresh_from_db()
    release = carry_out(make_draft(people, *TOGETHER, mechanism="marginal-fit", epsilon="10"))
    sent = body(client.get(link("release_detail", release) + "files/synthetic.csv"))
    rows = list(csv.DictReader(io.StringIO(sent)))
    assert len(rows) > 300
    assert not [row for row in rows if int(row["age"]) < 15 and row["status"] == "married"]
    assert {row["status"] for row in rows if int(row["age"]) >= 15} == {"single", "married"}
    # The forty rows are left out: 360 are counted, within noise of standard deviation below 3.
    receipt = release.result["receipt"]
    assert abs(receipt["total"]["estimate"] - 360) < 20
    assert receipt["schema"]["impossible"] == [MARRIED]
    assert receipt["schema"]["impossible_rows"] == "drop"
    said = "A row of the table that has one of these combinations is left out of every count. No synthetic row has one."
    assert said in receipt["rules_in_words"]
    files = link("release_detail", release) + "files/"
    archive = zipfile.ZipFile(io.BytesIO(b"".join(client.get(files + "release.zip").streaming_content)))
    (readme,) = [archive.read(each).decode() for each in archive.namelist() if each.endswith("README.txt")]
    assert "Declared impossible: age: 0 to 14, and status: married." in " ".join(readme.split())
    lines = list(csv.DictReader(io.StringIO(body(client.get(files + "dictionary.csv")))))
    assert {each["label"]: each["impossible"] for each in lines if each["column"] == "age"} == {
        "0 to 14": "status: married",
        "15 to 80": "",
    }
    services.releases.make_public(release=release)
    assert "Declared impossible" in words(client.get(link("release_detail", release)))


def test_plain_counts_keep_the_rows_and_say_so_and_their_rows_have_none(as_, alice, people, make_draft, carry_out):
    services.datasets.declare_universe(dataset=people, columns=COLUMNS, impossible=[MARRIED], by=alice)
    people.refresh_from_db()
    same = {"rows_counted": "same"}
    release = carry_out(make_draft(people, *TOGETHER, mechanism="laplace-queries", epsilon="10", options=same))
    files = link("release_detail", release) + "files/"
    answers = list(csv.DictReader(io.StringIO(body(as_(alice).get(files + "answers.csv")))))
    (count,) = [float(row["estimate"]) for row in answers if (row["age"], row["status"]) == ("0 to 14", "married")]
    assert abs(count - 40) < 10
    receipt = release.result["receipt"]
    assert "impossible_rows" not in receipt["schema"]
    assert any("are counted as they are. No synthetic row has one." in each for each in receipt["rules_in_words"])
    rows = list(csv.DictReader(io.StringIO(body(as_(alice).get(files + "synthetic.csv")))))
    assert rows
    assert not [row for row in rows if int(row["age"]) < 15 and row["status"] == "married"]


def test_rows_of_a_closed_session_have_none(alice, people, carry_out, close, as_):
    services.datasets.declare_universe(dataset=people, columns=COLUMNS, impossible=[MARRIED], by=alice)
    people.refresh_from_db()
    options = {"population": 400, "questions": 20}
    release = carry_out(
        services.sessions.draft_session(dataset=people, by=alice, title="Live", epsilon="5", options=options)
    )
    for query in ({"age": {"to": 15}}, {"status": ["married"]}, {"status": ["married"], "age": {"to": 15}}):
        services.sessions.ask_session(session=release.session, query=query, by=alice)
    closed = close(release.session)
    rows = list(
        csv.DictReader(io.StringIO(body(as_(alice).get(link("release_detail", closed) + "files/synthetic.csv"))))
    )
    assert len(rows) > 100
    assert not [row for row in rows if int(row["age"]) < 15 and row["status"] == "married"]


def test_what_is_wrong_is_said_beside_the_form_and_what_was_ticked_stays(page, people):
    ticked = {"column": ["age", "status"], "bins_0": ["0 to 14"]}
    wrong = [
        (ticked, "status: no bin is ticked."),
        (ticked | {"bins_1": ["wed"]}, "status: “wed” is not one of its"),
        (ticked | {"bins_1": ["single", "married"]}, "status: 'all 2 bins' must leave at least one bin of the column"),
    ]
    for sent, _ in wrong:
        assert "checked" in body(page(**sent))
    refuses(page, [*wrong, (ticked | {"column": ["age"]}, "choose at least two different ones")])
    ticked |= {"bins_1": ["married"]}
    assert page(**ticked).status_code == 302
    refuses(page, [(ticked, "is declared twice")])
    assert declared(people) == [MARRIED]


def test_one_is_removed_and_pressing_twice_does_no_harm(page, people):
    page(column=["age", "status"], bins_0=["0 to 14"], bins_1=["married"])
    page(column=["age", "work"], bins_0=["0 to 14"], bins_1=["some"])
    for _ in range(2):
        assert page(remove=json.dumps(MARRIED, sort_keys=True)).status_code == 302
        assert declared(people) == [{"age": ["0 to 14"], "work": ["some"]}]


def test_columns_are_not_declared_in_a_way_that_takes_a_combination_its_bins(page, people, alice):
    page(column=["age", "status"], bins_0=["0 to 14"], bins_1=["married"])
    people.refresh_from_db()
    other = [{**COLUMNS[0], "edges": [0, 18, 80]}, *COLUMNS[1:]]
    with pytest.raises(InvalidInput, match="0 to 14"):
        services.datasets.declare_universe(dataset=people, columns=other, by=alice)
    services.datasets.declare_universe(dataset=people, columns=COLUMNS[::-1], by=alice)
    assert declared(people) == [MARRIED]


def test_a_schema_sent_by_a_program_or_pasted_as_a_codebook_declares_them(as_, alice, people, client):
    program = Program(client, alice)
    schema = {"version": 1, "columns": COLUMNS, "impossible": [MARRIED]}

    def put(value):
        return program.send("put", f"/datasets/{people.pk}/schema", value)

    assert put(schema).json()["schema"]["impossible"] == [MARRIED]
    kept = put({"version": 1, "columns": COLUMNS})
    assert kept.json()["schema"]["impossible"] == [MARRIED]
    refused = put({**schema, "impossible": [{**MARRIED, "status": ["wed"]}]})
    assert refused.status_code == 400
    assert "impossible[0].status" in refused.content.decode()
    assert put({**schema, "impossible_rows": "drop"}).status_code == 400
    assert put({**schema, "rows_counted": "by own columns"}).status_code == 400
    # As a plan says it, whose rows without an age are left out.
    refused = put({**schema, "impossible": [{**MARRIED, "age": "any"}]})
    assert (refused.status_code, "at least one bin" in refused.content.decode()) == (400, True)
    text = body(as_(alice).get(link("codebook_file", people)))
    assert "impossible" not in put({**schema, "impossible": []}).json()["schema"]
    as_(alice).post(link("columns", people), {"codebook": text})
    assert declared(people) == [MARRIED]


def test_next_years_table_takes_them_over(as_, people, ingest, alice):
    services.datasets.declare_universe(
        dataset=people, columns=COLUMNS, impossible=[MARRIED, {"age": ["0 to 14"], "work": ["some"]}], by=alice
    )
    following = ingest(b"age,status\n9,single\n", "Next year")
    address = f"{link('take_over', following)}?source={people.pk}"
    assert "Impossible combinations to take age: 0 to 14, and status: married" in words(as_(alice).get(address))
    services.taking_over.take_over(dataset=following, source=people, is_same_people=False, by=alice)
    assert declared(following) == [MARRIED]


def test_a_release_and_its_certificate_leave_the_same_rows_out(alice, people, make_draft, carry_out):
    services.datasets.declare_universe(dataset=people, columns=COLUMNS, impossible=[MARRIED], by=alice)
    people.refresh_from_db()
    release = carry_out(make_draft(people, *TOGETHER, mechanism="marginal-fit", epsilon="8"))
    certificate = carry_out(
        services.certificates.draft_certificate(of=release, by=alice, epsilon="8", delta="0.000001", beta="0.05")
    )
    schema = certificate.result["receipt"]["schema"]
    assert (schema["impossible"], schema["impossible_rows"]) == ([MARRIED], "drop")
    # The forty rows that were left out, which no synthetic row is near, would make it 40 at least.
    assert certificate.result["receipt"]["bound"]["alpha"] < 30
    services.datasets.declare_universe(dataset=people, columns=COLUMNS, impossible=[], by=alice)
    with pytest.raises(Refusal, match="columns have changed"):
        services.certificates.plan_certificate(of=Release.objects.get(pk=release.pk), epsilon="1")


def test_how_rows_are_counted_in_two_releases_is_compared(alice, people, make_draft):
    services.datasets.declare_universe(dataset=people, columns=COLUMNS, impossible=[MARRIED], by=alice)
    people.refresh_from_db()
    plans = {
        name: services.releases.plan_of(release=make_draft(people, *TOGETHER, mechanism=name))
        for name in ("marginal-fit", "mixture-fit", "laplace-queries", "gaussian-queries")
    }
    schemas = {name: plan.schema for name, plan in plans.items()}
    assert schemas["marginal-fit"].population == schemas["mixture-fit"].population
    assert schemas["laplace-queries"].population == schemas["gaussian-queries"].population
    assert schemas["marginal-fit"].population != schemas["laplace-queries"].population
