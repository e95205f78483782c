"""`manage.py release` where somebody else has to decide first, and what `manage.py demo` keeps and makes public."""

import io

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from releases import services
from releases.management.commands import demo
from releases.management.commands.release import WAITS_FOR_REVIEW
from releases.models import BudgetRequest, Notice, Organisation, Release
from tests.web.conftest import COLUMNS, WORKLOAD, person, write_json
from tests.web.releases.conftest import charges


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
            call_command("release", **{"stdout": io.StringIO(), **arguments, **others}, epsilon=epsilon, stderr=said)
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


@pytest.mark.parametrize(
    ("choice", "said", "rows"),
    [
        ([], "There are no synthetic rows unless --option rows_counted=same is given.", False),
        (["rows_counted=same"], "rows counted. How many were left out is not known.", True),
    ],
)
def test_it_says_which_rows_its_tables_counted_and_how_to_have_synthetic_ones(release, tmp_path, choice, said, rows):
    heard = io.StringIO()
    assert release("1", option=choice, stdout=heard)[0] == 0
    assert said in heard.getvalue()
    assert (tmp_path / "out" / "synthetic.csv").exists() is rows


def test_tables_of_rows_and_of_persons_are_released_together_and_no_way_to_synthetic_rows_is_said(
    release, tmp_path, upload_file
):
    visits = b"who,ward\n" + b"".join(b"%d,a\n%d,b\n" % (each, each) for each in range(60))
    ward = {"name": "ward", "type": "categorical", "categories": ["a", "b"]}
    number = {"name": "visits", "type": "integer", "edges": [0, 2, 9], "formula": "count_per_person()"}
    unit = {"kind": "person", "id": "who", "max_rows": 3}
    schema = {"version": 1, "unit": unit, "neighbours": "replace", "columns": [ward, number]}
    workload = {"version": 1, "queries": [{"marginal": ["ward"]}, {"marginal": ["visits"]}]}
    given = {
        "table": upload_file(visits, name="visits.csv"),
        "schema": write_json(tmp_path / "both.json", schema),
        "workload": write_json(tmp_path / "asked.json", workload),
    }
    heard = io.StringIO()
    assert release("5", stdout=heard, **given)[0] == 0
    assert "Each table counts the rows or persons that its own columns keep" in heard.getvalue()
    assert "synthetic rows" not in heard.getvalue()
    receipt = Release.objects.get().result["receipt"]
    # Two cells for each of three rows, and two for the person.
    assert receipt["mechanism"]["parameters"]["l1 sensitivity"] == "8"
    heard = io.StringIO()
    with pytest.raises(CommandError, match="Some questions count rows, and others persons"):
        release("0.1", stdout=heard, **{**given, "mechanism": "laplace-histogram"})
    assert charges().count() == 1


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


# The demo


def test_passwords_stay_the_same_and_only_the_owner_reads_them(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    first = demo.Command()._make_accounts()
    hashed = dict(User.objects.values_list("username", "password"))
    assert demo.Command()._make_accounts() == first
    assert dict(User.objects.values_list("username", "password")) == hashed
    assert len(set(first.values())) == 3
    assert all(User.objects.get(username=name).check_password(password) for name, password in first.items())
    assert (tmp_path / "demo_passwords.json").stat().st_mode & 0o777 == 0o600


def test_one_release_is_made_public_and_stays_private_once_somebody_made_it_so(published):
    demo.Command()._make_public(published)
    published.refresh_from_db()
    assert published.is_public
    services.releases.make_private(release=published)
    demo.Command()._make_public(published)
    published.refresh_from_db()
    assert not published.is_public
