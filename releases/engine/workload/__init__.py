"""What is asked: counting queries and statistics, their JSON format, and their sensitivity.

In: the workload format (JSON) and a ``Universe``. Out: ``Workload`` or ``Inquiry``, with sensitivities.
Imports run one way: ``queries.py``, ``statistics.py``, ``largest_error.py``, ``questions.py``, ``parsing.py``.
Read ``queries.py`` first.
"""
