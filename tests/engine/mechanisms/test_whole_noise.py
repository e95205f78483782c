"""Noise reaches what is released whole.

A plan states the scale of its noise, and the ledger is charged for that scale. Whoever halves noise after it was drawn
changes neither, and no bound is broken more often: answers only get closer than was paid for. So every draw of every
mechanism is an array here that can be added to numbers, and nothing else can be done with it; and every place of a
mechanism's code that draws noise has to be reached.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from releases.engine import mechanisms as room
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.mechanisms.base import Plan, mechanisms
from releases.engine.noise import discrete
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.tables.counts import Counts
from releases.engine.verification.cases import case_for, ways_of
from releases.engine.verification.tables import counted_rows, rows_of

ROOM = Path(room.__file__).parent
LAWS = ("discrete_laplace", "discrete_gaussian")
#: What may be done with noise by itself.
ADDING = {np.add, np.subtract, np.negative}
#: Plans of branches that the cases of `manage.py verify` do not take: columns and questions of each mechanism.
YES_NO = [{"name": name, "type": "categorical", "categories": ["no", "yes"]} for name in "abcd"]
BRANCHES = {
    "correlated-queries": (YES_NO, [{"count": {name: ["yes"]}} for name in "abcd"], {}),
    "mixture-fit": (YES_NO, [{"marginals": 3}], {}),
    "pmw-online": (YES_NO, [{"count": {"a": ["yes"], other: ["yes"]}} for other in "bcd"], {"updates": 1}),
    "smooth-median-laplace": (None, None, {"bound": "20"}),
}


class Noise(np.ndarray):
    """Draws that nothing was added to yet."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        assert ufunc in ADDING, f"noise goes through {ufunc.__name__} before it is added to anything"
        plain = [np.asarray(each) if isinstance(each, Noise) else each for each in inputs]
        if out is not None:
            options["out"] = tuple(np.asarray(each) for each in out)
        result = getattr(ufunc, method)(*plain, **options)
        return np.asarray(result).view(Noise) if all(isinstance(each, Noise) for each in inputs) else result

    def __getitem__(self, key):
        # A single draw is an array too, so that it is followed as well.
        return np.asarray(np.asarray(self)[key]).view(Noise)


@pytest.fixture
def reached(monkeypatch):
    """The lines of mechanisms, by file, from which noise was drawn."""
    lines = set()
    assert mechanisms(), "asked for, so that all are imported"
    for name in LAWS:
        really = getattr(discrete, name)

        def call(*, really=really, **given):
            frame = sys._getframe()
            while (frame := frame.f_back) is not None:
                if (path := Path(frame.f_code.co_filename)).is_relative_to(ROOM):
                    lines.add((path, frame.f_lineno))
            return np.asarray(really(**given)).view(Noise)

        for module in [each for path, each in sys.modules.items() if path.startswith("releases.engine.")]:
            if module is not discrete and getattr(module, name, None) is really:
                monkeypatch.setattr(module, name, call)
    return lines


def looks() -> Iterator[tuple[str, Plan, Counts]]:
    for name, neighbours, of_persons in product(mechanisms(), NeighbouringRelation, (False, True)):
        for way in ways_of(name):
            case = case_for(name, way=way, of_persons=of_persons)
            plan = case.plan(name, neighbours)
            yield f"{name} {way}", plan, counted_rows(plan.schema.universe, case.pairs[neighbours].one)
    for name, (columns, queries, options) in BRANCHES.items():
        case = case_for(name)
        case = replace(case, options=options) if columns is None else replace(case, columns=columns, queries=queries)
        plan = case.plan(name, NeighbouringRelation.ADD_REMOVE)
        size = len(plan.schema.universe.names)
        yield name, plan, rows_of(plan.schema.universe, [(0,) * size, (1,) * size] * 5000)


def test_nothing_is_done_to_noise_before_it_is_added_in_any_place_that_draws_it(reached):
    wrong = []
    for seed, (name, plan, rows) in enumerate(looks()):
        try:
            plan.run(rows, rng=StreamRandomness(b"%d" % seed))
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    assert not wrong
    places = {place for path in ROOM.rglob("*.py") for place in places_of(path)}
    assert len(places) > 20
    missed = {
        f"{path.relative_to(ROOM)}:{first}"
        for path, first, last in places
        if not any(path == where and first <= line <= last for where, line in reached)
    }
    assert not missed, "a plan in BRANCHES has to draw noise there"


def places_of(path):
    """Where a module draws: calls of a law, or of a noise's `draw`, which is given a shape and where to draw from."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        is_law = isinstance(node.func, ast.Name) and node.func.id in LAWS
        is_draw = isinstance(node.func, ast.Attribute) and node.func.attr == "draw" and len(node.args) == 2
        if is_law or is_draw:
            yield path, node.lineno, node.end_lineno
