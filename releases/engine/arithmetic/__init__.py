"""Arithmetic with proven error: interval bounds, and prices rounded up in integers.

In: fractions and integers. Out: intervals that hold the true value, and amounts never below it.
Read ``intervals.py`` first.
"""
