"""What can be said before anything is spent: comparisons of mechanisms, curves, what an epsilon means.

In: a draft's public inputs. Out: plans side by side, errors to expect, sentences for pages. Touches no data.
Read ``comparison.py`` first.
"""
