"""The disclosure test of a release: the command, the file beside the rows, and what the page says of it."""

import io
import json
import re
import subprocess
import zipfile
from html import unescape

import pytest
from django.core.management import CommandError, call_command

from releases import services, tasks
from releases.engine.disclosure import membership
from releases.models import AuditAction, AuditEvent, DisclosureState, DisclosureTest, LedgerEntry
from releases.publication import attacked_release, files, report
from releases.publication.disclosure import DISCLOSURE_TEST
from releases.publication.joined_report import body_of
from releases.worker import leases
from tests.web.pages import body, link, visible_text, visible_words, words

OUTCOME = {"inside": 0.5, "outside": 0.49, "difference": 0.01, "margin": 0.02, "people": 100}
LEAKING = {"inside": 0.584, "outside": 0.511, "difference": 0.0731, "margin": 0.0178, "people": 100}


@pytest.fixture
def few(monkeypatch):
    """Few people in one table."""
    monkeypatch.setattr(membership, "PEOPLE", 200)
    monkeypatch.setattr(membership, "MOST_TABLES", 1)


@pytest.fixture
def attack(few, capsys):
    """Runs the command."""

    def run(release):
        call_command("attack", str(release.pk))
        return capsys.readouterr().out

    return run


@pytest.fixture
def write(full):
    """Puts an outcome beside the rows of the release."""

    def to_file(**changed):
        found = {"confidence": 0.95, "columns": {"age": OUTCOME}, "most_frequent": 0.3, "allowed": 0.4621172}
        found |= dict.fromkeys(("everybody", "unusual", "leak", "leak_unusual"), OUTCOME)
        found |= {"tables": 8, "people": 2000, "rows": 8000}
        (files.folder_of(full) / DISCLOSURE_TEST).write_text(json.dumps(found | changed))
        return full

    return to_file


def test_the_command_stores_what_was_found_and_the_page_shows_it(full, attack, as_, alice):
    before = body(as_(alice).get(link("release_detail", full)))
    assert "What an attack finds out" not in before
    said = attack(full)
    assert re.search(r"Right guesses in 100 tries: [\d.]+ of people in the table, [\d.]+ of others", said)
    page = as_(alice).get(link("release_detail", full))
    assert "What an attack finds out" in body(page)
    assert "guesses the missing one right in" in words(page)
    stored = json.loads((files.folder_of(full) / DISCLOSURE_TEST).read_text())
    assert stored["release"] == str(full.pk)
    assert stored["everybody"]["people"] == 200
    sent = as_(alice).get(link("download", full, DISCLOSURE_TEST))
    assert json.loads(b"".join(sent)) == stored


def test_it_reads_no_table_charges_nothing_and_changes_nothing_that_was_published(full, attack, monkeypatch):
    from releases.services import reading
    from releases.worker import runner

    def untouchable(*given, **more):
        raise AssertionError("a table was opened")

    monkeypatch.setattr(reading, "run_plan", untouchable)
    monkeypatch.setattr(runner, "run", untouchable)
    folder = files.folder_of(full)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result, lines, entries = full.result, LedgerEntry.objects.count(), AuditEvent.objects.count()
    attack(full)
    full.refresh_from_db()
    assert full.result == result
    assert (LedgerEntry.objects.count(), AuditEvent.objects.count()) == (lines, entries)
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in (DISCLOSURE_TEST, "tested-report.html", "tested-report.pdf"):
        assert after.pop(name)
    assert after == before


@pytest.mark.draws
def test_from_then_on_the_report_says_what_the_page_says_of_the_attack_wherever_it_is_handed_out(
    full, attack, as_, alice
):
    def sent(name):
        return b"".join(as_(alice).get(link("download", full, name)))

    before = {name: sent(name) for name in ("report.html", "report.pdf")}
    assert "attack" not in before["report.html"].decode()
    attack(full)
    page = as_(alice).get(link("release_detail", full)).context["page"]
    test, report = page.disclosure, sent("report.html")
    said = " ".join(unescape(report.decode()).split())
    cells = [cell for row in test.rows for cell in (row.people, row.inside, row.outside, row.more)]
    for each in (test.found, test.compared, *cells, *test.method):
        assert each in said, each
    assert sent("report.pdf").startswith(b"%PDF-")
    assert len(sent("report.pdf")) > len(before["report.pdf"])
    with zipfile.ZipFile(io.BytesIO(sent("release.zip"))) as archive:
        archived = {name.split("/")[1]: archive.read(name) for name in archive.namelist()}
    assert archived["report.html"] == report
    assert archived["report.pdf"] == sent("report.pdf")
    assert not any(name.startswith("tested") for name in archived)
    assert test.found in unescape(body_of(files.folder_of(full)))
    (shown,) = [each for row in page.downloads.values() for each in row if each.name == "report.html"]
    assert shown.size == files.readable_size(len(report))


@pytest.mark.draws
def test_a_worker_that_starts_writes_again_what_an_earlier_version_had_left_without_the_finding(
    full, write, as_, alice, monkeypatch
):
    """The earlier version stored what was found, and left the report as it was."""
    said = []
    write()
    monkeypatch.setattr(leases, "hint", lambda task, **ids: said.append((task, ids)))
    tasks.complete_reports()
    assert said == [("releases.report_attack", {"release_id": str(full.pk)})]
    before = b"".join(as_(alice).get(link("download", full, "report.html")))
    tasks.report_attack(**said[0][1])
    test = as_(alice).get(link("release_detail", full)).context["page"].disclosure
    after = b"".join(as_(alice).get(link("download", full, "report.html")))
    assert test.found not in unescape(before.decode())
    assert test.found in unescape(after.decode())
    assert b"".join(as_(alice).get(link("download", full, "report.pdf"))).startswith(b"%PDF-")
    # Once is enough, and a second message draws nothing.
    monkeypatch.setattr(report, "draw", lambda *_: pytest.fail("drawn twice"))
    tasks.report_attack(**said.pop()[1])
    tasks.complete_reports()
    assert said == []


def test_a_report_that_cannot_be_drawn_again_does_not_lose_the_test(full, attack, monkeypatch, as_, alice):
    def fails(*_):
        raise subprocess.TimeoutExpired(cmd="draw", timeout=1)

    attack(full)
    monkeypatch.setattr(report, "draw", fails)
    attack(full)
    folder = files.folder_of(full)
    # The earlier one said what an earlier test had found.
    assert not report.rewritten(folder)
    assert b"".join(as_(alice).get(link("download", full, "report.html"))) == (folder / "report.html").read_bytes()
    assert as_(alice).get(link("release_detail", full)).context["page"].disclosure.rows


def test_production_draws_from_the_operating_system(full, attack, monkeypatch):
    drawn = []
    really = attacked_release.disclosure_test
    monkeypatch.setattr(
        attacked_release, "disclosure_test", lambda plan, **more: drawn.append(more) or really(plan, **more)
    )
    attack(full)
    assert type(drawn[0]["rng"]).__name__ == "OperatingSystemRandomness"


def test_where_nothing_was_found_the_page_says_so_and_gives_the_most_it_can_be(write, as_, alice):
    """0.01 more, give or take 0.02."""
    said = visible_text(as_(alice).get(link("release_detail", write())))
    assert "in about 50 of 100 tries, whether or not the person is in the table" in said
    assert "it adds at most 3.0 right guesses in 100, with 95% confidence" in said
    assert "none more than the 46.3 that epsilon 1 allows" in said


def test_the_archive_has_the_test_from_then_on_and_its_text_says_what_was_found(full, write, as_, alice):
    def archived():
        stored = b"".join(as_(alice).get(link("download", full, "release.zip")))
        with zipfile.ZipFile(io.BytesIO(stored)) as archive:
            return {name.split("/")[1]: archive.read(name).decode(errors="replace") for name in archive.namelist()}

    before = archived()
    assert DISCLOSURE_TEST not in before
    assert "invented" not in before["README.txt"]
    write(everybody=LEAKING)
    after = archived()
    assert after[DISCLOSURE_TEST] == (files.folder_of(full) / DISCLOSURE_TEST).read_text()
    said = " ".join(after["README.txt"].split())
    assert "guesses the missing one right in 58 of 100 tries if the person is in the table, and in 51 if not." in said
    assert "none more than the 46.3 that epsilon 1 allows" in said
    assert DISCLOSURE_TEST in said
    assert {name: text for name, text in after.items() if name not in ("README.txt", DISCLOSURE_TEST)} == {
        name: text for name, text in before.items() if name != "README.txt"
    }


def test_where_a_leak_was_found_the_page_warns(write, as_, alice):
    said = words(as_(alice).get(link("release_detail", write(everybody=LEAKING))))
    assert "in 58 of 100 tries if the person is in the table, and in 51 if not" in said
    assert "Being in the table adds 5.5 to 9.1 right guesses in 100" in said
    said = words(as_(alice).get(link("release_detail", write(unusual=LEAKING, leak_unusual=LEAKING))))
    assert "Handing out every second row would add 7.3." in said
    assert "in about 50 of 100 tries, whether or not" in said
    assert "Of unusual people, being in the table adds 5.5 to 9.1" in said
    said = words(as_(alice).get(link("release_detail", write(columns={"age": OUTCOME, "sex": LEAKING}))))
    assert "Where sex is missing, being in the table adds 5.5 to 9.1" in said


def test_the_test_adds_few_words_to_the_page(write, full, as_, alice):
    """Those that show outside of closed details."""
    before = len(visible_words(as_(alice).get(link("release_detail", full))))
    after = len(visible_words(as_(alice).get(link("release_detail", write(everybody=LEAKING)))))
    assert 0 < after - before < 100


def test_what_cannot_be_tested_is_refused_in_words(full, make_queued, dataset, attack, monkeypatch):
    with pytest.raises(CommandError, match="is not published"):
        attack(make_queued(dataset, epsilon="0.25"))
    with pytest.raises(CommandError, match="is not here"):
        call_command("attack", "00000000-0000-0000-0000-000000000000")
    monkeypatch.setattr(membership, "MOST_SECONDS", 0.0)
    with pytest.raises(CommandError, match="One run on an invented table takes about"):
        attack(full)


def test_the_file_is_not_there_without_a_test_nor_for_strangers_of_a_private_release(full, write, as_, alice, charlie):
    address = link("download", full, DISCLOSURE_TEST)
    assert as_(alice).get(address).status_code == 404
    write()
    assert as_(charlie).get(address).status_code == 404


@pytest.fixture
def try_it(full, as_, alice):
    """Alice presses the button; a worker has not seen it yet."""

    def press(person=alice):
        return as_(person).post(link("attack", full))

    return press


def offer(full, as_, person):
    return as_(person).get(link("release_detail", full)).context["page"].attack


def test_the_button_lets_a_worker_try_the_attack_once(full, few, try_it, as_, alice, bob):
    lines = LedgerEntry.objects.count()
    assert offer(full, as_, bob).button
    assert try_it().status_code == 302
    assert offer(full, as_, bob) is not None
    assert not offer(full, as_, bob).button
    first = DisclosureTest.objects.get(release=full)
    try_it(bob)
    assert DisclosureTest.objects.get(release=full).asked_at == first.asked_at
    asked = AuditEvent.objects.filter(action=AuditAction.TEST, object_id=str(full.pk))
    assert [event.actor for event in asked] == [alice]
    assert services.disclosure_tests.execute_test(release_id=full.pk)
    assert not services.disclosure_tests.execute_test(release_id=full.pk)
    assert DisclosureTest.objects.get(release=full).state == DisclosureState.DONE
    page = as_(alice).get(link("release_detail", full)).context["page"]
    assert page.attack is None
    assert page.disclosure.rows
    assert LedgerEntry.objects.count() == lines


def test_only_the_people_of_the_dataset_may_try_it(full, try_it, as_, bob, charlie, sofia):
    type(full).objects.filter(pk=full.pk).update(is_public=True)
    for person in (charlie, sofia):
        assert try_it(person).status_code == 404
        assert offer(full, as_, person) is None
    assert not DisclosureTest.objects.exists()
    assert try_it(bob).status_code == 302


def test_an_attack_that_cannot_be_tried_says_why_and_can_be_tried_again(full, try_it, as_, alice, monkeypatch):
    monkeypatch.setattr(membership, "MOST_SECONDS", 0.0)
    try_it()
    assert not services.disclosure_tests.execute_test(release_id=full.pk)
    said = offer(full, as_, alice)
    assert "One run on an invented table takes about" in said.sentence
    assert said.button
    try_it()
    assert DisclosureTest.objects.get(release=full).state == DisclosureState.WAITING


def test_a_worker_that_was_killed_leaves_the_attack_to_another(full, few, try_it, monkeypatch):
    def killed(*given, **more):
        raise SystemExit

    try_it()
    with monkeypatch.context() as patched:
        patched.setattr(services.disclosure_tests, "attack_release", killed)
        with pytest.raises(SystemExit):
            services.disclosure_tests.execute_test(release_id=full.pk)
    row = DisclosureTest.objects.filter(release=full)
    assert row.get().state == DisclosureState.RUNNING
    services.disclosure_tests.reconcile_tests()
    assert row.get().state == DisclosureState.RUNNING
    row.update(lease_until=row.get().started_at)
    services.disclosure_tests.reconcile_tests()
    assert row.get().state == DisclosureState.WAITING
    assert services.disclosure_tests.execute_test(release_id=full.pk)


def test_a_release_without_synthetic_rows_is_not_tested(dataset, make_draft, carry_out, as_, alice):
    release = carry_out(make_draft(dataset, {"mean": ["age"]}, mechanism="laplace-numbers"))
    assert offer(release, as_, alice) is None
    with pytest.raises(services.release_inputs.Refusal, match="no synthetic rows"):
        services.disclosure_tests.ask_for_test(release=release, by=alice)
