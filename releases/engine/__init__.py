"""Differential privacy without the web: universes, workloads, mechanisms, accounting and exact noise.

Nothing here imports Django, Celery or the rest of the application; the engine can be used alone.
In: a schema, a question and a budget; later a table. Out: a plan with its price, then a result with its bounds.
Read ``run.py`` first: it is the whole numeric flow on one page. A reviewer of the privacy reads on in this order:
``domain/privacy.py``, ``accounting/events.py``, ``accounting/accountant.py``, ``accounting/filters.py``,
``noise/discrete.py``, ``mechanisms/queries.py``.
"""
