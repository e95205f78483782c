"""A notebook that reads the files of a release, from the folder that it lies in, and draws its charts again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from releases.engine.replicates.combine import SHIFTS
from releases.engine.replicates.validity import LEAST_SHARE, Kind
from releases.publication.replicates import kinds_of, quantile_of
from releases.publication.report import Report

NOTEBOOK = "notebook.ipynb"
_READ = """\
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

assert Path("answers.csv").exists(), "Unpack release.zip and open the notebook there."
answers = pd.read_csv("answers.csv", keep_default_na=False)
answers"""
_DRAW = """\
def draw(query):
    rows = answers[answers["query"] == query]
    columns = [name for name in rows.columns if name not in ("query", "estimate", "lower", "upper")]
    labels = [", ".join(str(text) for text in row if text) for row in rows[columns].to_numpy()]
    estimate, lower, upper = (rows[name].astype(float) for name in ("estimate", "lower", "upper"))
    figure, axes = plt.subplots(figsize=(8, 1 + 0.3 * len(rows)))
    axes.barh(labels, estimate, alpha=0.55)
    axes.hlines(labels, lower, upper, color="black")
    axes.invert_yaxis()
    axes.set_title(query)
    plt.show()


for query in answers["query"].unique()[:12]:
    draw(query)"""
_DRAW_DATES = """\
from datetime import datetime


def draw(query):
    rows = answers[answers["query"] == query]
    estimate, lower, upper = (rows[name].map(datetime.fromisoformat) for name in ("estimate", "lower", "upper"))
    figure, axes = plt.subplots(figsize=(8, 1 + 0.3 * len(rows)))
    axes.hlines(rows["of"], lower, upper, color="black")
    axes.plot(estimate, rows["of"], "o")
    axes.invert_yaxis()
    axes.set_title(query)
    plt.show()


for query in answers["query"].unique()[:12]:
    draw(query)"""
_SYNTHETIC = """\
synthetic = pd.read_csv("synthetic.csv")
synthetic.describe(include="all")"""
_TRUST = """\
# How far each relation in the synthetic rows can be trusted; what is not known is empty.
trust = pd.read_csv("trust_map.csv", keep_default_na=False) if Path("trust_map.csv").exists() else None
trust"""


#: Of `replicates.csv`: what reads it, the rule, and for each kind of statistic that it is valid for, what works it out.
_REPLICATES = """\
import numpy as np

# How far numbers worked out from the synthetic rows can be off; README.txt says for which numbers this is valid.
replicates = pd.read_csv("replicates.csv", dtype=str, keep_default_na=False)
numbers = ["replicate", "count", *(name for name in replicates.columns if name.startswith("middle of "))]
replicates[numbers] = replicates[numbers].astype(float)
columns = [name for name in replicates.columns if name not in numbers]


def interval(number):
    values = np.array([number(rows) for _, rows in replicates.groupby("replicate")])
    released, drawn = values[0], values[1:]
    between, shift = drawn.var(ddof=1), drawn.mean() - released
    half = QUANTILE * np.sqrt((1 + 1 / len(drawn)) * between + (SHIFTS * shift) ** 2)
    return {"estimate": released, "lower": released - half, "upper": released + half}


def share(rows, column, value):
    return rows.loc[rows[column] == value, "count"].sum() / max(rows["count"].sum(), 1)


def is_large(column, value):
    return share(replicates[replicates["replicate"] == 0], column, value) >= LEAST


found = {}"""
_OF_KINDS = {
    Kind.SHARE: """\
for column in columns:
    for value in filter(lambda value: is_large(column, value), replicates[column].unique()):
        found[f"share with {column} = {value}"] = interval(lambda rows: share(rows, column, value))""",
    Kind.MEAN: """\
for name in numbers[2:]:
    found[f"mean {name}"] = interval(lambda rows: np.average(rows[name], weights=rows["count"]))""",
    Kind.DIFFERENCE: """\
def difference(column, value, by, one, other):
    return interval(
        lambda rows: share(rows[rows[by] == one], column, value) - share(rows[rows[by] == other], column, value)
    )


# Between the first two groups of the first column that has two of some size; put in your own.
groups = {by: [value for value in replicates[by].unique() if is_large(by, value)] for by in columns}
for by, (one, other, *_) in [(by, large) for by, large in groups.items() if len(large) > 1][:1]:
    for column, value in ((column, value) for column in columns if column != by for value in groups[column]):
        title = f"{column} = {value}: share where {by} = {one}, less that where {by} = {other}"
        found[title] = difference(column, value, by, one, other)""",
    Kind.SLOPE: """\
def slopes(outcome):
    names, terms = [], []
    for name in columns:
        if f"middle of {name}" in numbers:
            if f"middle of {name}" != outcome:
                names.append(name)
                terms.append(lambda rows, name=name: rows[f"middle of {name}"])
        else:
            # Each category against the last one.
            for value in replicates[name].unique()[:-1]:
                names.append(f"{name} = {value}")
                terms.append(lambda rows, name=name, value=value: (rows[name] == value) * 1.0)

    def line(rows):
        matrix = np.column_stack([np.ones(len(rows)), *(term(rows) for term in terms)])
        weighted = matrix * rows["count"].to_numpy()[:, None]
        return np.linalg.lstsq(weighted.T @ matrix, weighted.T @ rows[outcome].to_numpy(), rcond=None)[0]

    return {name: interval(lambda rows: line(rows)[place]) for place, name in enumerate(names, start=1)}


# Of the first column of numbers on all others.
for outcome in numbers[2:3]:
    for name, each in slopes(outcome).items():
        found[f"slope of {outcome} on {name}"] = each""",
}


def notebook_of(report: Report, *, has_synthetic_rows: bool, replicates: Mapping[str, Any] | None) -> str:
    """As JSON of nbformat 4.

    Args:
        replicates: what the receipt says of them.
    """
    is_drawn = all(table.is_measured and table.has_one_axis for table in report.tables)
    said = [f"# {report.title}", report.headline, report.bound, report.citation]
    drawing = _DRAW_DATES if any(table.of_dates for table in report.tables) else _DRAW
    codes = [_READ, *([drawing] if is_drawn else []), *([_SYNTHETIC, _TRUST] if has_synthetic_rows else [])]
    codes += _of_replicates(replicates) if replicates and replicates["number"] else []
    cells = [_cell("markdown", "\n\n".join(filter(None, said))), *(_cell("code", code) for code in codes)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells},
        indent=1,
        ensure_ascii=False,
    )


def _of_replicates(said: Mapping[str, Any]) -> list[str]:
    rule = f"QUANTILE, SHIFTS, LEAST = {quantile_of(said):.6g}, {SHIFTS:g}, {LEAST_SHARE:g}\n\n{_REPLICATES}"
    return [rule, *(_OF_KINDS[kind] for kind in kinds_of(said)), 'pd.DataFrame.from_dict(found, orient="index")']


def _cell(kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
    return cell | ({"outputs": [], "execution_count": None} if kind == "code" else {})
