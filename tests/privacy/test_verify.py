"""`manage.py verify` from the command line: what it prints, and that it goes red."""

from fractions import Fraction
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from releases.engine.noise.randomness import StreamRandomness
from releases.engine.verification.recording import with_noise_scaled
from releases.ledger import ledger
from releases.management.commands.verify import Command
from releases.models import Budget, LedgerEntry


@pytest.fixture
def verify(monkeypatch):
    """Runs the command on a fixed stream; what it printed, line by line."""
    monkeypatch.setattr(Command, "randomness", StreamRandomness(b"verify"))

    def run(**options):
        said = StringIO()
        try:
            call_command("verify", stdout=said, **options)
        finally:
            run.lines = said.getvalue().splitlines()
        return run.lines

    return run


def test_one_mechanism_is_looked_at_under_both_relations_and_units_with_claim_and_proof_side_by_side(verify):
    lines = verify(only="laplace-numbers", runs=800)
    rows = [line.split() for line in lines if line.startswith("PASS")]
    looks = [
        ["laplace-numbers", relation, unit] for unit in ("row", "person") for relation in ("add_remove", "replace")
    ]
    assert [row[1:4] for row in rows] == looks * 2
    for _, _, _, unit, delta, claimed, proved, factor, proved_then, runs in rows[:4]:
        assert (delta, claimed, runs) == ("0", "1.000", "800" if unit == "row" else "400")
        assert factor in ("1/2", "1/3", "1/4")
        assert 0 <= float(proved) < 1 < float(proved_then)
    assert lines[-1].startswith("All 8 checks passed")
    head = next(index for index, line in enumerate(lines) if "claimed" in line)
    end = lines[head].index("claimed") + len("claimed")
    assert lines[head + 1][:end].endswith("1.000")
    assert all(len(line) <= 130 for line in lines)


def test_too_little_noise_turns_it_red(verify):
    with with_noise_scaled(Fraction(1, 3)), pytest.raises(CommandError, match="of 8 checks FAILED"):
        verify(only="laplace-numbers", runs=800)
    failed = [line.split()[1:4] for line in verify.lines if line.startswith("FAIL")]
    assert failed[:2] == [["laplace-numbers", "add_remove", "row"], ["laplace-numbers", "replace", "row"]]


def test_the_thresholds_of_ours_keep_their_claim_and_published_wrong_ones_are_shown_to_exceed_theirs(verify):
    lines = verify(only="thresholds")
    assert sum("ours" in line for line in lines) == 7
    for source in ("Roth, lecture", "Lee and Clifton", "Stoddard", "Chen, Xiao", "misuse"):
        assert any(source in line and line.startswith("PASS") for line in lines), source


@pytest.mark.django_db
def test_plans_for_another_protection_are_tried_on_every_budget_and_nothing_is_kept(verify, monkeypatch):
    lines = verify(only="protection")
    passed = [line.split() for line in lines if line.startswith("PASS")]
    assert [line[-7:] for line in passed] == [["yes", "7", "of", "7", "7", "of", "7"]] * 8
    assert not Budget.objects.exists()
    assert not LedgerEntry.objects.exists()
    monkeypatch.setattr(ledger, "check_protection", lambda budget, **planned: None)
    with pytest.raises(CommandError, match="8 of 8 checks FAILED"):
        verify(only="protection")


@pytest.mark.django_db
def test_the_ledger_is_audited_and_a_fault_in_it_turns_the_page_red(verify, monkeypatch):
    assert verify(only="ledger")[-2:] == ["", "All 1 checks passed in 0.0 minutes, 0.0 of the processor."]

    def faulty(*args, **kwargs):
        kwargs["stderr"].write("budget, entry 3: the hash is another\n")
        raise CommandError("1 faults in 7 entries of 1 budgets.")

    monkeypatch.setattr("releases.management.commands.verify.call_command", faulty)
    with pytest.raises(CommandError, match="2 of 2 checks FAILED"):
        verify(only="ledger")
    assert "FAIL  budget, entry 3: the hash is another" in verify.lines


def test_an_unknown_part_is_refused_and_the_known_ones_are_named(verify):
    with pytest.raises(CommandError, match=r"--only: noise must be one of samplers, thresholds, .*laplace-queries"):
        verify(only="noise")
    with pytest.raises(CommandError, match="--runs: -1 must be a whole number from 1"):
        verify(runs=-1)
