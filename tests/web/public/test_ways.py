"""The comparison of four ways: at a person's own numbers, without data, without JavaScript, and as a document."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from releases.engine.bounds import theory
from releases.engine.bounds.theory import Axis
from releases.engine.domain.privacy import NeighbouringRelation
from releases.planning import methods
from tests.web.pages import body, field_value, words

DOCS = Path(__file__).resolve().parents[3] / "docs"
REPLACE = NeighbouringRelation.REPLACE


@pytest.fixture
def show(as_, charlie):
    """Anybody who is signed in may look: there is nothing of anybody's in it."""
    return lambda **numbers: as_(charlie).get(reverse("ways"), numbers)


BROKEN = [
    ({"rows": "8,802"}, "rows: '8,802' must be a whole number from 1 to 1,000,000,000,000"),
    ({"rows": ""}, "rows: nothing was typed; must be a number"),
    ({"rows": "9" * 5000}, "at most 120 characters"),
    ({"cells": "1"}, "cells: 1 must be a whole number from 2 to 10^100"),
    ({"queries": "5", "changed": "6"}, "changed: 6 must be a whole number from 1 to 5"),
    ({"epsilon": "1,5"}, "epsilon: '1,5' must be a decimal number with a point"),
    ({"delta": "1"}, "delta"),
    ({"beta": "1"}, "beta: 1 must be a rational above 0 and below 1"),
]


@pytest.mark.django_db
def test_a_number_that_breaks_its_rule_is_refused_beside_its_field_and_nothing_typed_is_lost(show):
    for typed, message in BROKEN:
        shown = show(**typed)
        assert shown.status_code == 400
        assert message in words(shown)
        assert "<svg" not in body(shown)
        for name, value in typed.items():
            assert field_value(shown, name) == value


@pytest.mark.parametrize(
    ("neighbours", "page"),
    [(None, "four_ways.md"), ("add_remove", "four_ways_private_n.md")],
    ids=["public", "private"],
)
def test_the_document_in_docs_is_what_the_command_writes(tmp_path, capsys, neighbours, page):
    call_command("ways", out=tmp_path, neighbours=neighbours)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(written) == 5
    for name, content in written.items():
        assert (DOCS / name).read_text() == content, f"{name} is out of date: run manage.py ways"
    assert page in capsys.readouterr().out


def test_the_command_takes_other_numbers_and_refuses_bad_ones(tmp_path):
    call_command("ways", out=tmp_path, rows=1_000_000, queries=50, epsilon="0.5")
    text = (tmp_path / "four_ways.md").read_text()
    assert "n = 1,000,000, |X| = 290,304, k = 50, s = 50, epsilon = 0.5" in text
    assert "`manage.py ways --rows 1000000 --queries 50 --epsilon 0.5`" in text
    with pytest.raises(CommandError, match="rows: -5 must be a whole number"):
        call_command("ways", out=tmp_path, rows=-5)


@pytest.mark.django_db
def test_it_begins_with_the_sample_s_numbers_and_shows_every_bound_and_every_crossing(show):
    shown, private = show(), show(neighbours="add_remove")
    numbers = methods.sample_numbers()
    typed = [field_value(shown, name) for name in ("rows", "cells", "queries", "changed")]
    assert typed == ["8802", "290304", "733", "110"]
    for each in theory.bounds(numbers):
        assert f"±\u00a0{methods.count_text(each.alpha)}" in body(shown)
        assert theory.describe(each.way, is_pure=each.is_pure, neighbours=REPLACE).source in words(shown)
    # Where rows come and go it begins with what one row changes then.
    assert field_value(private, "changed") == "55"
    assert "n is private" in words(private)
    for each in theory.bounds(methods.sample_numbers(NeighbouringRelation.ADD_REMOVE)):
        assert f"±\u00a0{methods.count_text(each.alpha)}" in body(private)
    assert show(neighbours="both").status_code == 400
    assert body(shown).count("<math") == 16
    assert body(shown).count('<svg class="ways-chart"') == 4
    for axis, is_pure in itertools.product(Axis, (True, False)):
        for each in theory.crossings(numbers, axis, is_pure=is_pure):
            said = methods.value_text(axis, each.at)
            assert f"<title>{said}: {each.after.value} overtakes {each.before.value}</title>" in body(shown)
        for sentence in methods.sentences(numbers, axis, is_pure=is_pure):
            assert sentence in body(shown)
