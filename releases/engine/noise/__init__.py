"""Randomness, and exact draws from it: noise on integers, noise on lattices, private selection.

In: words from the operating system, and rational parameters. Out: integers with exactly the stated law.
Nothing here knows tables or budgets. Read ``randomness.py`` first, then ``discrete.py``.
"""
