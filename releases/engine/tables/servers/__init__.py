"""Databases that count themselves: one module a kind, with its entry for ``registry.py`` and its session."""
