"""Regions on a map: boundaries that a curator uploads, and the maps of the releases that are made afterwards."""

import csv
import io
import json
import re
import zipfile
from itertools import pairwise

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from releases import services
from releases.models import AuditEvent
from releases.publication.files import folder_of
from tests.web.pages import body, link, words
from tests.web.public.test_api import Program

#: The middle of each region of the table, by which it is known again in a drawing: longitude and latitude.
MIDDLES = {"north": (10, 54), "east": (14, 52), "south": (11, 48)}
LABELS = [*MIDDLES, "elsewhere"]
COLUMNS = [
    {"name": "age", "type": "integer", "edges": [18, 25, 35, 45, 55, 65]},
    {"name": "region", "type": "categorical", "categories": LABELS},
    {"name": "ward", "type": "categorical", "categories": ["1", "2"]},
]
PEOPLE = b"age,sex,region,ward\n" + b"".join(
    f"{18 + (i * 7) % 48},male,{('north', 'east', 'east', 'south')[i % 4]},{1 + i % 2}\n".encode() for i in range(200)
)
QUESTIONS = [{"marginal": ["region"]}, {"marginal": ["region", "ward"]}, {"marginal": ["ward"]}]


def ring(x, y, size=1.0, *, clockwise=False):
    """A square around a point."""
    corners = [
        [x - size, y - size],
        [x + size, y - size],
        [x + size, y + size],
        [x - size, y + size],
        [x - size, y - size],
    ]
    return corners[::-1] if clockwise else corners


def region(name, *rings, **more):
    return {
        "type": "Feature",
        "properties": {"code": 7, "NAME": name, "population": 123456, **more},
        "geometry": {"type": "Polygon", "coordinates": list(rings) or [ring(*MIDDLES.get(name.lower(), (0, 0)))]},
    }


def collection(*features):
    return {"type": "FeatureCollection", "features": list(features)}


#: As others make them: in capitals, with what the table does not have, one way round and the other, and a lake.
GERMANY = collection(
    region("North", ring(*MIDDLES["north"]), ring(*MIDDLES["north"], 0.5)),
    region("EAST", ring(*MIDDLES["east"], clockwise=True)),
    region("south"),
    region("Atlantis"),
    region("Atlantis", ring(1, 1)),
    region("\ud800"),
)


@pytest.fixture
def people(make_declared):
    return make_declared(COLUMNS, content=PEOPLE, epsilon="100")


@pytest.fixture
def upload(as_, alice, people):
    """What alice sends on the page: a value as JSON, or bytes as they are."""

    def send(given, column="region", person=alice):
        content = given if isinstance(given, bytes) else json.dumps(given).encode()
        file = SimpleUploadedFile("regions.geojson", content)
        return as_(person).post(link("region_maps", people), {"column": column, "boundaries": file}, follow=True)

    return send


@pytest.fixture
def mapped(upload, people):
    assert upload(GERMANY).status_code == 200
    return people


def specification(response, name):
    """A drawing of a page; None where it has none."""
    found = re.search(
        rf'<script id="{name}" type="application/json">(.*?)</script>', response.content.decode(), re.DOTALL
    )
    return json.loads(found[1]) if found else None


def drawn(chart):
    """By label what is drawn of a region."""
    return {each["label"]: each for each in chart["data"]["values"]}


def signed_area(points):
    """By the sum of triangles from the first corner; positive where they run against the clock."""
    (x0, y0), *rest = points
    return sum((a - x0) * (d - y0) - (c - x0) * (b - y0) for (a, b), (c, d) in pairwise(rest)) / 2


def test_a_curator_uploads_boundaries_sees_them_and_removes_them(as_, alice, people, upload):
    client = as_(alice)
    assert link("region_maps", people) in body(client.get(link("columns", people)))
    said = words(upload(GERMANY))
    assert "The map of region has 3 of 4 categories, found by “NAME”." in said
    assert "Left out, since they are no category: Atlantis, no name." in said
    page = client.get(link("region_maps", people))
    assert "Not on the map: elsewhere." in words(page)
    shown = drawn(specification(page, "map-0"))
    assert set(shown) == set(MIDDLES)
    # Nothing of the file but names and corners.
    assert "123456" not in body(page)
    assert AuditEvent.objects.filter(detail="a map of region, with 3 of 4 categories", actor=alice).count() == 1
    client.post(link("region_maps", people), {"remove": "region"})
    assert not people.boundaries.exists()
    assert AuditEvent.objects.filter(detail="no map of region").count() == 1


def test_outer_rings_run_clockwise_and_holes_the_other_way_however_the_file_has_them(mapped):
    shapes = mapped.boundaries.get().shapes
    for label, middle in MIDDLES.items():
        ((outer, *holes),) = shapes[label]
        assert signed_area(outer) == -4
        assert [signed_area(hole) for hole in holes] == ([1] if label == "north" else [])
        assert (sum(x for x, _ in outer[:-1]) / 4, sum(y for _, y in outer[:-1]) / 4) == middle


def test_corners_are_rounded_and_islands_too_small_to_see_are_left_out(upload, people):
    wide, tiny = ring(10.123456, 54), ring(3, 50, 0.00001)
    tiny_and_wide = {"type": "MultiPolygon", "coordinates": [[tiny], [wide]]}
    upload(collection(region("north") | {"geometry": tiny_and_wide}))
    ((outer,),) = people.boundaries.get().shapes["north"]
    assert sorted({x for x, _ in outer}) == [9.1235, 11.1235]


def test_codes_that_are_numbers_name_regions_too(upload, people):
    said = words(upload(collection(region("x", ring(1, 1), code=1), region("y", ring(4, 1), code=2)), column="ward"))
    assert "The map of ward has 2 of 2 categories, found by “code”." in said


METRES = ring(450_000, 5_900_000)
NESTED = b'{"type": "FeatureCollection", "features": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
WRONG = {
    "not JSON": (b"region,shape\n", "The boundary file is not JSON"),
    "not text": (b"\xff\xfe\x00", "regions.geojson is not text in UTF-8"),
    "empty": (b"", "The boundary file is not JSON"),
    "nested too deeply": (NESTED, "it is nested too deeply"),
    "one shape alone": (region("north"), "Boundary file, type: 'Feature' must be FeatureCollection"),
    "no features": ({"type": "FeatureCollection"}, "Boundary file, features: 'NoneType' must be a list of objects"),
    "too many features": (collection(*[{}] * 2_001), "Boundary file, features: 2001 must be at most 2,000"),
    "no name": (
        collection(region("Atlantis")),
        "'code, NAME, population' must have a value that is one of the column's categories, such as north, east, south",
    ),
    "two of one name": (
        collection(region("south"), region("north"), region("North")),
        "Boundary file, feature 3, NAME: 'North' names feature 2 too",
    ),
    "a geometry collection": (
        collection(region("north") | {"geometry": {"type": "GeometryCollection", "geometries": []}}),
        "Boundary file, feature 1, geometry: 'GeometryCollection' must be a Polygon or a MultiPolygon",
    ),
    "no geometry": (
        collection(region("north") | {"geometry": None}),
        "Boundary file, feature 1, geometry: nothing is given; must be a Polygon or a MultiPolygon",
    ),
    "metres": (
        collection(region("south"), region("north", METRES)),
        "Boundary file, feature 2, coordinates: '449999.0, 5899999.0' must be longitude and latitude in degrees",
    ),
    "not a number": (
        b'{"type": "FeatureCollection", "features": [{"properties": {"n": "north"}, "geometry": {"type": "Polygon", '
        b'"coordinates": [[[NaN, 1], [1, 1], [1, 2], [NaN, 1]]]}}]}',
        "feature 1, coordinates: 'nan, 1' must be longitude and latitude",
    ),
    "text for a number": (collection(region("north", [["1", "2"]])), 'coordinates: ["1", "2"] must be longitude and'),
    "half a sign": (
        collection(region("north") | {"geometry": {"type": "Polygon", "coordinates": [[["\ud800", 1]]]}}),
        'coordinates: ["\\ud800", 1] must be longitude and latitude',
    ),
    "too short a ring": (collection(region("north", [[1, 1], [2, 2], [1, 1]])), "'a ring of 3 points' must have four"),
    "an open ring": (
        collection(region("north", ring(1, 1)[:-1])),
        "'a ring of 4 points' must have four or more, the last",
    ),
    "no ring": (collection(region("north", [])), "'list' must be a list of points, not an empty one"),
    "no area": (collection(region("north", ring(1, 1, 0.00001))), "'no area' must be larger than a few metres"),
    "too many points": (
        collection(region("north", ring(1, 1)[:1] * 20_001)),
        "points: 'more than 20,000' must be at most 20,000; simplify the shapes first",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_file_is_refused_with_its_place_and_rule_and_the_column_stays_chosen(upload, people, wrong):
    given, said = WRONG[wrong]
    answer = upload(given)
    assert answer.status_code == 400
    assert said in words(answer)
    assert '<option value="region" selected>' in body(answer)
    assert not people.boundaries.exists()


def test_a_file_of_two_megabytes_is_refused_unread_with_what_to_do(upload, people):
    answer = upload(b" " * 2_000_000)
    assert answer.status_code == 400
    assert "the rest of a form at most 1 MB. Nothing was stored." in words(answer)
    assert "Simplify the boundaries of regions" in words(answer)
    assert not people.boundaries.exists()


def test_only_columns_of_categories_have_maps_and_only_the_team_sees_them(as_, upload, people, bob, charlie):
    assert upload(GERMANY, column="age").status_code == 400
    assert "age" not in re.findall(r'<option value="(\w+)"', body(as_(bob).get(link("region_maps", people))))
    assert upload(GERMANY, person=charlie).status_code == 404
    assert upload(GERMANY, person=bob).status_code == 200
    assert people.boundaries.count() == 1


def test_a_program_declares_boundaries_and_hears_what_is_not_on_the_map(client, alice, people):
    program, path = Program(client, alice), f"/datasets/{people.pk}/boundaries"
    given = collection(*GERMANY["features"][:-1])
    answer = program.send("put", path, {"column": "region", "boundaries": given})
    assert answer.json() == {
        "column": "region",
        "named_by": "NAME",
        "not_on_map": ["elsewhere"],
        "left_out": ["Atlantis"],
    }
    refused = program.send("put", path, {"column": "age", "boundaries": given})
    assert (refused.status_code, refused.json()["field"]) == (400, "column")
    assert people.boundaries.count() == 1
    program.send("put", path, {"column": "region", "boundaries": None})
    assert not people.boundaries.exists()


@pytest.mark.draws
def test_a_release_shows_keeps_and_publishes_its_map(as_, alice, mapped, make_draft, carry_out, upload):
    release = carry_out(make_draft(mapped, *QUESTIONS, epsilon="30"))
    services.releases.make_public(release=release)
    # Whatever is uploaded later, the result stays as it is.
    upload(collection(region("north", ring(100, 10))))
    client = as_(None)
    page = client.get(link("release_detail", release))
    chart = specification(page, "map-data")
    shown = drawn(chart)
    assert set(shown) == set(MIDDLES)
    assert shown["north"]["geometry"]["coordinates"][0][0][0][0] in (9, 11)
    assert "Not on the map: elsewhere." in words(page)
    assert chart["encoding"]["color"]["condition"]["title"] == "rows"
    files = link("release_detail", release) + "files/"
    answers = [
        row for row in csv.DictReader(io.StringIO(body(client.get(files + "answers.csv")))) if row["query"] == "region"
    ]
    assert {row["region"] for row in answers} == set(LABELS)
    for row in answers:
        if row["region"] in shown:
            numbers = [shown[row["region"]][name] for name in ("estimate", "lower", "upper")]
            assert numbers == [float(row[name]) for name in ("estimate", "lower", "upper")]
    # Neither two columns nor one without boundaries.
    for number in ("1", "2"):
        assert specification(client.get(link("release_detail", release), {"question": number}), "map-data") is None

    archive = zipfile.ZipFile(io.BytesIO(b"".join(client.get(files + "release.zip").streaming_content)))
    inside = {name.split("/")[1]: archive.read(name).decode(errors="replace") for name in archive.namelist()}
    kept = json.loads(inside["boundaries.json"])
    assert {each["properties"]["label"] for each in kept["region"]["features"]} == set(MIDDLES)
    assert list(kept) == ["region"]
    assert body(client.get(files + "boundaries.json")) == inside["boundaries.json"]
    assert "boundaries.json: The regions of the maps, by column, as GeoJSON" in " ".join(inside["README.txt"].split())
    assert "boundaries.json" in release.result["files"]
    assert "boundaries.json" in json.loads((folder_of(release) / "complete.json").read_text())["files"]
    # Of three questions each has its bars or squares, and the first its map, of three outlines.
    assert inside["report.html"].count("<figure") == 4
    assert inside["report.html"].count('aria-roledescription="geoshape"') == 3
    assert "Not on the map: elsewhere." in inside["report.html"]


def test_the_notebook_draws_regions_the_darker_the_larger_their_number(
    mapped, make_draft, carry_out, drawn_by_notebook
):
    """Of four people two are in the east, one in the north, where there is a lake, and one in the south."""
    release = carry_out(make_draft(mapped, {"marginal": ["region"]}, epsilon="30"))
    darkness = {name: [] for name in MIDDLES}
    for each in drawn_by_notebook(release)["region"].patches:
        middle = each.get_path().vertices[:-1].mean(axis=0)
        (name,) = (name for name, (x, y) in MIDDLES.items() if abs(middle[0] - x) + abs(middle[1] - y) < 0.01)
        darkness[name].append(3 - sum(each.get_facecolor()[:3]))
    assert [len(each) for each in darkness.values()] == [2, 1, 1]
    assert darkness["north"][1] == 0, "the lake"
    assert darkness["east"][0] > 1 + max(darkness["north"][0], darkness["south"][0])


def test_means_and_medians_by_region_have_a_map_in_the_unit_of_their_column(as_, alice, mapped, make_draft, carry_out):
    services.codebooks.describe_dataset(dataset=mapped, notes={"age": {"unit": "years"}}, by=alice)
    questions = {
        "laplace-numbers": {"mean": {"columns": ["age"], "by": ["region"]}},
        "counted-quantile": {"quantiles": {"column": "age", "at": [0.5], "by": "region"}},
    }
    for mechanism, query in questions.items():
        release = carry_out(make_draft(mapped, query, mechanism=mechanism, epsilon="20"))
        page = as_(alice).get(link("release_detail", release))
        chart = specification(page, "map-data")
        assert chart["encoding"]["color"]["condition"]["title"] == "years"
        assert all(18 <= each["lower"] <= each["estimate"] <= each["upper"] <= 65 for each in drawn(chart).values())
    both = {"mean": {"columns": ["age"], "by": ["region", "ward"]}}
    release = carry_out(make_draft(mapped, both, mechanism="laplace-numbers", epsilon="20"))
    assert specification(as_(alice).get(link("release_detail", release)), "map-data") is None
    assert "boundaries.json" not in release.result["files"]


def test_which_regions_are_drawn_does_not_depend_on_the_rows(as_, alice, mapped, make_declared, make_draft, carry_out):
    """Nobody is in the south of the other table; the map has it with its number all the same."""
    other = make_declared(COLUMNS, content=PEOPLE.replace(b"south", b"north"), epsilon="100")
    services.taking_over.take_over(dataset=other, source=mapped, is_same_people=None, by=alice)
    both = [carry_out(make_draft(each, QUESTIONS[0], epsilon="30")) for each in (mapped, other)]
    assert len({(folder_of(each) / "boundaries.json").read_bytes() for each in both}) == 1
    for each in both:
        regions = drawn(specification(as_(alice).get(link("release_detail", each)), "map-data")).values()
        assert all(None not in (found["estimate"], found["lower"], found["upper"]) for found in regions)
        assert len(regions) == 3


def test_a_table_of_the_next_year_takes_maps_over_and_keeps_its_own(alice, mapped, make_dataset):
    services.boundaries.declare_boundaries(
        dataset=mapped, column="ward", given=collection(region("1", ring(1, 1)), region("2", ring(5, 1))), by=alice
    )
    following = make_dataset(content=PEOPLE + b"20,male,north,1\n", epsilon="")
    services.datasets.declare_universe(dataset=following, columns=COLUMNS, by=alice)
    following.refresh_from_db()
    own = collection(region("north", ring(100, 10)))
    services.boundaries.declare_boundaries(dataset=following, column="region", given=own, by=alice)
    services.taking_over.take_over(dataset=following, source=mapped, is_same_people=None, by=alice)
    taken = {each.column: each.shapes for each in following.boundaries.all()}
    assert set(taken) == {"region", "ward"}
    assert set(taken["region"]) == {"north"}
    assert taken["ward"] == mapped.boundaries.get(column="ward").shapes


def test_a_column_that_is_declared_with_other_labels_lists_those_that_are_not_on_its_map(as_, alice, mapped):
    def declare(labels):
        column = {"name": "region", "type": "categorical", "categories": labels}
        services.datasets.declare_universe(dataset=mapped, columns=[column, COLUMNS[2]], by=alice)
        return words(as_(alice).get(link("region_maps", mapped)))

    assert "Not on the map: west, far away." in declare(["north", "west", "far away"])
    assert "None of its categories is on this map any more." in declare(["west", "far away"])
