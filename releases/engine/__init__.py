"""Differential privacy without the web: universes, workloads, mechanisms, accounting and exact noise.

Nothing here imports Django, Celery or the rest of the application; the engine can be used alone.
Read ``run.py`` first: it is the whole numeric flow on one page.
"""
