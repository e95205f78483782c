"""How far synthetic rows can be trusted: the file beside them, and what the result page says of it."""

from collections import Counter

import pytest

from releases import services
from releases.publication import files
from releases.publication import trust_section as page_of_trust
from releases.publication.trust_map import TRUST_MAP
from tests.web.conftest import CSV, rows_of


def bin_of(row):
    edges = [18, 25, 35, 45, 55, 65]
    position = max(place for place, edge in enumerate(edges[:-1]) if int(row["age"]) >= edge)
    return f"{edges[position]} to {edges[position + 1] - (position < 4)}", row["sex"]


def test_the_file_is_what_answers_and_rows_say(publish):
    """Worked out again from the downloads alone."""
    release = publish({"marginal": ["age", "sex"]}, mechanism="marginal-fit", epsilon="0.5")
    answers, rows, found = (rows_of(release, name) for name in ("answers.csv", "synthetic.csv", TRUST_MAP))
    found = {tuple(row[f"column_{place}"] for place in (1, 2, 3) if row[f"column_{place}"]): row for row in found}
    assert set(found) == {("age",), ("sex",), ("age", "sex")}
    assert {row["state"] for row in found.values()} == {"measured"}
    counted = Counter(map(bin_of, rows))
    ends = {
        (each["age"], each["sex"]): (float(each["lower"]), float(each["upper"]), float(each["estimate"]))
        for each in answers
    }
    assert counted.keys() <= ends.keys()
    off = max(max(abs(counted[cell] - end) for end in found_ends[:2]) for cell, found_ends in ends.items())
    pair = found["age", "sex"]
    assert float(pair["rows_off_at_most"]) == pytest.approx(off, abs=0.011)
    total = sum(estimate for *_, estimate in ends.values())
    away = sum(abs(counted[cell] / len(rows) - estimate / total) for cell, (*_, estimate) in ends.items()) / 2
    assert float(pair["share_off_estimated"]) == pytest.approx(away, abs=1e-4)
    assert away <= float(pair["share_off_at_most"]) <= 1
    assert found["age",]["association"] == ""
    assert 0 <= float(pair["association"]) <= 1


def test_a_bound_is_rounded_towards_caution():
    """A distance of 1.01% is within 1.1% and within 2%, and an agreement of at least 98.9%."""
    assert page_of_trust._at_most(0.0101) == "1.1"
    assert page_of_trust._at_most(0.0101, 100) == "2"
    assert page_of_trust._at_most(0.01, 100) == "1"
    assert page_of_trust._agreement(0.0101) == "98.9%"


def test_neighbouring_tables_with_the_same_release_have_the_same_map(publish, monkeypatch):
    made = []
    run_plan = services.execution.reading.run_plan

    def once(*given, **more):
        made.append(made[0] if made else run_plan(*given, **more))
        return made[0]

    monkeypatch.setattr(services.execution.reading, "run_plan", once)
    releases = [publish(content=content, mechanism="marginal-fit") for content in (CSV, CSV + b"p9999,30,male\n")]
    assert len(made) == 2
    one, other = ((files.folder_of(each) / TRUST_MAP).read_bytes() for each in releases)
    assert one == other
    one, other = (each.result["receipt"]["synthetic_quality"] for each in releases)
    assert one == other
