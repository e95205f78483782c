"""The exponential mechanism over all small databases, drawn exactly and without enumerating them.

In: a workload, the number of rows W, the size m of a database. Out: one database, with the law of ``strategies.py``.
``strategies.py`` says how a workload's databases are drawn, ``candidates.py`` which there are, ``existence.py`` how
well one must fit. ``level_sampler.py`` draws the level of the largest error, then a database within it: by ``tree.py``
and ``forest_sampler.py`` where queries are nested or disjoint, by ``state_sampler.py`` where few are open at a time,
by ``enumeration.py`` where candidates are few.
Read ``strategies.py`` first.
"""
