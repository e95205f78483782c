"""Noisy marginals chosen for a workload, and the tables fitted to them.

In: a workload. Out: which marginals are measured how precisely, then answers consistent with all of them.
Read ``mechanism.py`` first, then ``design.py``. Other mechanisms that fit tables use ``common.py``.
"""
