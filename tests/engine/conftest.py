"""Tests of the engine open tables in their own process, which the engine refuses where nothing confines it."""

import pytest

from releases.engine.tables import connection


@pytest.fixture(autouse=True)
def _may_open_tables(monkeypatch):
    monkeypatch.setattr(connection, "_is_confined", True)
