"""Mechanisms: each plans without data, then runs once on exact counts.

In: a schema, a question and a budget; later the counts. Out: a ``Plan`` with price and bound, then a ``Result``.
A new mechanism is one module here: it is registered when it is imported, by ``base.register``.
Read ``base.py`` first, then ``queries.py``.
"""
