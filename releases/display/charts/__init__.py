"""Vega-Lite specifications of the site's charts. Data come from plans or from published results only.

In: plain values, formatted where the browser would write them otherwise. Out: specifications as JSON.
Read ``answers.py`` first.
"""
