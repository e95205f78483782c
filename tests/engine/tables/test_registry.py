"""The kinds of places that are known, each of which says everything."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import pytest

from releases.engine.tables import connection, registry
from releases.engine.tables.databases import Database
from tests.engine.tables.test_contract import ENGINES
from tests.engine.tables.test_golden import DIALECTS

DATABASES = [each for each in registry.KINDS.values() if isinstance(each, Database)]


@pytest.mark.parametrize("kind", registry.KINDS.values(), ids=registry.KINDS)
def test_a_kind_that_lacks_a_part_cannot_be_made(kind):
    parts = {each.name: getattr(kind, each.name) for each in fields(kind)}
    assert type(kind)(**parts) == kind
    for name in parts:
        with pytest.raises(TypeError, match=name):
            replace(kind, **{name: None})
        with pytest.raises(TypeError, match=name):
            type(kind)(**{each: part for each, part in parts.items() if each != name})
    for name in ("scheme", "title", "form"):
        with pytest.raises(TypeError, match=f"does not say its {name}"):
            replace(kind, **{name: ""})


def test_each_scheme_has_one_kind():
    assert [each.scheme for each in registry.KINDS.values()] == list(registry.KINDS)
    forms = Counter(each.form for each in registry.KINDS.values())
    assert [each.scheme for each in registry.KINDS.values() if forms[each.form] > 1] == []


def test_every_kind_of_database_counts_beside_the_reference_or_has_its_statements_in_a_file():
    tested = {{"postgres": "postgresql", "spark": "sc"}.get(each.id, each.id) for each in ENGINES} | set(DIALECTS)
    assert {each.scheme for each in DATABASES} - tested == set()


@pytest.mark.parametrize("kind", DATABASES, ids=[each.scheme for each in DATABASES])
def test_nothing_of_a_database_is_opened_in_a_process_that_is_not_confined(kind, monkeypatch):
    monkeypatch.setattr(connection, "_is_confined", False)
    url = f"{kind.scheme}://reader@127.0.0.1:1/clinic"
    for opened in (
        lambda: kind.session(url),
        lambda: kind.table(url, "ward.patients"),
        lambda: kind.asked(url).__enter__(),
    ):
        with pytest.raises(connection.Unconfined):
            opened()
