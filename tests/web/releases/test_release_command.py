"""`manage.py release` where somebody else has to decide first: it stops, says so, and its exit code tells."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.core.management import CommandError, call_command

from releases.management.commands.release import WAITS_FOR_REVIEW
from releases.models import BudgetRequest, Dataset, Notice, Organisation, Release
from releases.planning.comparison import first_delta
from tests.engine.tables import formats
from tests.web.conftest import COLUMNS, WORKLOAD, person, write_json
from tests.web.releases.conftest import charges

pytestmark = pytest.mark.django_db


@pytest.fixture
def release(tmp_path, upload_file, monkeypatch):
    """Give the command; what it says and how it ends."""
    monkeypatch.setattr("releases.management.commands.release.ensure_database", lambda: None)
    schema = {"version": 1, "unit": {"kind": "row"}, "neighbours": "add_remove", "columns": COLUMNS}
    arguments = {
        "table": upload_file(name="people.csv"),
        "schema": write_json(tmp_path / "schema.json", schema),
        "workload": write_json(tmp_path / "workload.json", WORKLOAD),
        "mechanism": "laplace-queries",
        "out": tmp_path / "out",
        "budget": "5",
    }

    def give(epsilon, **others):
        said, code = io.StringIO(), 0
        try:
            call_command("release", **{**arguments, **others}, epsilon=epsilon, stdout=io.StringIO(), stderr=said)
        except SystemExit as ended:
            code = ended.code
        return code, said.getvalue(), (tmp_path / "out").exists()

    return give


def test_what_needs_a_review_stops_with_a_sentence_and_its_own_exit_code_and_what_needs_none_is_released(release):
    Organisation.objects.create(upload_cap_bytes=2**30, review_above="1")
    code, said, wrote = release("2")
    assert code == WAITS_FOR_REVIEW == 4
    assert said.startswith(
        "The release waits for a reviewer: the organisation reviews releases above epsilon 1, and this asks for 2. "
        "Nothing is charged"
    )
    assert not wrote
    assert not charges().exists()
    assert Release.objects.get().state == "awaiting review"
    assert release("1") == (0, "", True)


@pytest.fixture
def write(tmp_path):
    """The arguments that name files: columns of one's own, each counted."""

    def files(columns, **asked):
        schema = {"version": 1, "unit": {"kind": "row"}, "neighbours": "add_remove", "columns": columns}
        workload = {"version": 1, "queries": [{"marginals": 1}], **asked}
        written = {"schema": schema, "workload": workload}
        return {name: write_json(tmp_path / f"own-{name}", held) for name, held in written.items()}

    return files


def answers(tmp_path):
    return list(csv.DictReader((tmp_path / "out" / "answers.csv").open(newline="")))


def test_how_values_read_as_declared_is_asked_before_they_are_counted(release, write, tmp_path):
    """Of 200 people a third is below 34 in this declaration, which leaves the rest outside."""
    columns = [
        {"name": "age", "type": "integer", "edges": [18, 34], "outside": "drop"},
        {"name": "sex", "type": "categorical", "categories": ["f", "m"]},
    ]
    assert release("4", **write(columns, states=True)) == (0, "", True)
    found = [(row["age"] or row["sex"], float(row["estimate"])) for row in answers(tmp_path)]
    inside = sum(18 <= 18 + (i * 7) % 48 <= 34 for i in range(200))
    exact = [inside, 200 - inside, 0, 0, 0, 200, 0]
    assert [state for state, _ in found] == [
        *("as declared", "outside", "unreadable", "missing"),
        *("as declared", "outside", "missing"),
    ]
    # Noise of scale 1/2: beyond 12 once in 10^9 runs.
    assert all(abs(estimate - count) <= 12 for (_, estimate), count in zip(found, exact, strict=True))
    receipt = json.loads((tmp_path / "out" / "receipt.json").read_text())
    assert "Every row counts" in " ".join(receipt["rules_in_words"])
    assert "left out" not in " ".join(receipt["rules_in_words"])


@pytest.mark.parametrize(
    ("given", "begins_with"),
    [
        ({}, "0.000000001"),
        ({"budget_delta": "0.00002"}, "0.00000002"),
        ({"policy": "pure"}, "0"),
        ({"delta": "0.0000001"}, "0.0000001"),
    ],
)
def test_without_a_delta_a_release_begins_with_the_delta_of_a_draft_on_the_site_and_the_next_of_the_table_with_the_same(
    release, given, begins_with
):
    for others in (given, given if "delta" in given else {}):
        assert release("1", **others)[0] == 0
        made = Release.objects.latest("created_at")
        assert made.delta == begins_with
        if "delta" not in given:
            assert made.delta == first_delta(made.dataset.budget)


def test_under_the_two_person_rule_the_budget_waits_for_two_reviewers(release):
    person("sofia", "reviewer")
    Organisation.objects.create(upload_cap_bytes=2**30, is_two_person=True)
    code, said, wrote = release("1")
    assert (code, wrote) == (WAITS_FOR_REVIEW, False)
    assert said.startswith("The budget waits for two reviewers, as the two-person rule wants: epsilon 5")
    assert BudgetRequest.objects.get().state == "waiting"
    assert Notice.objects.filter(person__username="sofia").count() == 1
    with pytest.raises(CommandError, match="is already asked for and waits for a reviewer"):
        release("1")


def test_a_budget_granted_at_once_asks_nobody(release):
    sofia = person("sofia", "reviewer")
    assert release("1")[0] == 0
    assert not Notice.objects.for_home(sofia).exists()


def test_the_same_text_under_another_decimal_sign_is_another_dataset_with_the_budget_of_its_rows(release, upload_file):
    """Its numbers are others, so the first one's declaration does not count for it."""
    lines = "".join(f"20,{number};female\n" for number in range(100, 500))
    table = upload_file(f"age;sex\n{lines}".encode(), name="de.csv")
    with pytest.raises(CommandError, match="decimal: '' must be chosen, a point or a comma"):
        release("1", table=table)
    assert release("1", table=table, decimal=".")[0] == 0
    assert release("1", table=table, decimal=",")[0] == 0
    assert release("1", table=table, decimal=",")[0] == 0
    assert [each.read_as.decimal for each in Dataset.objects.order_by("created_at")] == [".", ","]
    assert len(set(Dataset.objects.values_list("budget", flat=True))) == 1


@pytest.mark.parametrize("name", ["xlsx", "dta"])
def test_numbers_typed_as_text_in_other_formats_are_read_by_the_declared_sign(
    release, write, upload_file, tmp_path, name
):
    table = upload_file(formats.FORMATS[name]([(1.0, "20,5", "Ulm")] * 40, ","), name=f"people.{name}")
    columns = [{"name": "height", "type": "number", "edges": [0, 20, 21], "outside": "drop"}]
    given = write(columns) | {"table": table}
    with pytest.raises(CommandError, match="separator: ';' has no meaning for a"):
        release("50", separator=";", **given)
    # With this epsilon the noise is 0, but for one time in 10^20.
    assert release("50", decimal=",", budget="100", **given)[0] == 0
    assert [float(row["estimate"]) for row in answers(tmp_path)] == [0, 40]
