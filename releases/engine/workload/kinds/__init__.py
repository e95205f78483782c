"""One module for each statistic: what is asked, how it is read from JSON, what its answer consists of.

In: parts of a workload's JSON. Out: a `Statistic`. `register` finds every module here; read `mean.py` first.
"""
