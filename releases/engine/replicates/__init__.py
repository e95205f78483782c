"""Replicates of a release's synthetic rows: how far a number worked out from them can be off.

In: the plan and the counts of its synthetic rows, both released. Out: the same counts of other rows that could have
been released, and intervals made of them. Read ``draw.py`` first, then ``combine.py``; ``validity.py`` says where it
holds.
"""
