"""Private multiplicative weights: all queries at once, and one query at a time in a session.

In: a workload, or queries as they come. Out: answers from a public hypothesis that the data correct now and then.
``session.py`` has the state machine of a session without mechanism or plan. Read ``offline.py`` first.
"""
