"""Accuracy theorems as functions of public values: how far an answer may lie from the truth.

In: noise scales, numbers of queries, beta. Out: error bounds. Nothing here depends on data.
Read ``accuracy.py`` first.
"""
