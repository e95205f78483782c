"""A notebook that reads the files of a release, from the folder that it lies in, and draws its charts again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from releases.engine.replicates.combine import SHIFTS
from releases.engine.replicates.validity import LEAST_SHARE, StatisticOfRows
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
import json

import numpy as np

# What each question is drawn as, in the order of its answers.
SHAPES = SAID


def show(title):
    plt.title(title)
    plt.tight_layout()
    plt.show()


def bars(rows, columns):
    labels = [", ".join(str(text) for text in row if text) for row in rows[columns].to_numpy()]
    plt.figure(figsize=(8, 1 + 0.3 * len(rows)))
    plt.barh(labels, rows["estimate"], alpha=0.55)
    plt.hlines(labels, rows["lower"], rows["upper"], color="black")
    plt.gca().invert_yaxis()


def squares(numbers, texts, across="", down=""):
    height, width = numbers.shape
    plt.figure(figsize=(3 + 0.7 * width, 2 + 0.4 * height))
    plt.imshow(numbers.to_numpy(), aspect="auto", cmap="Greens", vmin=0)
    for (row, column), text in np.ndenumerate(texts.to_numpy()):
        is_dark = numbers.to_numpy()[row, column] > np.nanmax(numbers.to_numpy()) / 2
        plt.text(column, row, text, ha="center", va="center", color="white" if is_dark else "black")
    plt.xticks(range(width), numbers.columns, rotation=40, ha="right")
    plt.yticks(range(height), numbers.index)
    plt.xlabel(across)
    plt.ylabel(down)


def heat(rows, down, across):
    numbers = rows.pivot(index=down, columns=across, values="estimate")
    numbers = numbers.reindex(index=rows[down].unique(), columns=rows[across].unique())
    squares(numbers, numbers.map(lambda number: f"{number:,.0f}"), across, down)
    plt.colorbar()


def in_time(rows, spans):
    drawn = [(row, *pd.to_datetime(span)) for (_, row), span in zip(rows.iterrows(), spans) if span]
    plt.figure(figsize=(8, 4))
    for row, start, end in drawn:
        plt.bar(start, row["estimate"], width=end - start, align="edge", color="tab:blue", alpha=0.55)
        plt.vlines(start + (end - start) / 2, row["lower"], row["upper"], color="black")
    plt.xticks(rotation=40, ha="right")


def on_map(rows, column, labels):
    shapes = json.loads(Path("boundaries.json").read_text())[column]["features"]
    shapes = {each["properties"]["label"]: each["geometry"]["coordinates"] for each in shapes}
    colours = plt.cm.ScalarMappable(plt.Normalize(rows["estimate"].min(), rows["estimate"].max()), "Greens")
    plt.figure(figsize=(7, 6))
    for label, number in zip(labels, rows["estimate"]):
        for outer, *holes in shapes.get(label, []):
            plt.fill(*np.transpose(outer), facecolor=colours.to_rgba(number), edgecolor="black")
            for hole in holes:
                plt.fill(*np.transpose(hole), facecolor="white", edgecolor="black")
    plt.gca().set_aspect("equal", "datalim")
    plt.axis("off")
    plt.colorbar(colours, ax=plt.gca())


numbers = ["estimate", "lower", "upper"]
for query, shape in zip(answers["query"].unique(), SHAPES):
    rows = answers[answers["query"] == query].astype(dict.fromkeys(numbers, float))
    columns = [name for name in rows.columns if name not in ("query", *numbers) and (rows[name] != "").any()]
    if shape["is_heat"]:
        heat(rows, *columns)
    elif shape["spans"]:
        in_time(rows, shape["spans"])
    else:
        bars(rows, columns)
    show(query)
    if shape["map_of"]:
        on_map(rows, *shape["map_of"])
        show(query)"""
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
_TOTALS = """\
# What all groups of each question are together.
totals = pd.read_csv("totals.csv", keep_default_na=False)
totals"""
_SYNTHETIC = """\
synthetic = pd.read_csv("synthetic.csv")
synthetic.describe(include="all")"""
_TRUST = """\
# How far each relation in the synthetic rows can be trusted; what is not known is empty.
trust = pd.read_csv("trust_map.csv", keep_default_na=False) if Path("trust_map.csv").exists() else None
trust"""
_TRUST_CHARTS = """\
def matrix(pairs, numbers, texts):
    names = list(dict.fromkeys([*pairs["column_1"], *pairs["column_2"]]))
    drawn, written = (pd.DataFrame(empty, index=names, columns=names) for empty in (np.nan, ""))
    for one, other, number, text in zip(pairs["column_1"], pairs["column_2"], numbers, texts):
        drawn.loc[other, one], written.loc[other, one] = number, text
    squares(drawn, written)


# Of each pair: within how many per cent its table is certified, else what is known of it.
levels = {"independent": 0, "modelled": 1, "measured": 2}
if trust is not None and (pairs := trust[(trust["column_2"] != "") & (trust["column_3"] == "")][:200]).size:
    off = [float(each or 1) for each in pairs["share_off_at_most"]]
    known = [each != "" for each in pairs["share_off_at_most"]]
    stronger = [3 - each if is_known else levels[state] for each, is_known, state in zip(off, known, pairs["state"])]
    texts = [f"{each:.0%}" if is_known else state for each, is_known, state in zip(off, known, pairs["state"])]
    matrix(pairs, stronger, texts)
    show("Which relations to trust")
    if (pairs := pairs[pairs["association"] != ""]).size:
        together = pairs["association"].astype(float)
        matrix(pairs, together, [f"{each:.2f}" for each in together])
        show("Which columns go together in the synthetic rows")"""
_ASSOCIATIONS = """\
associations = pd.read_csv("associations.csv", keep_default_na=False)
for _, rows in associations.groupby("pair", sort=False):
    down, across = rows["first_column"].iloc[0], rows["second_column"].iloc[0]
    heat(rows.rename(columns={"first_value": down, "second_value": across}).astype({"estimate": float}), down, across)
    show(f"{down} × {across}")"""


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
    StatisticOfRows.SHARE: """\
for column in columns:
    for value in filter(lambda value: is_large(column, value), replicates[column].unique()):
        found[f"share with {column} = {value}"] = interval(lambda rows: share(rows, column, value))""",
    StatisticOfRows.MEAN: """\
for name in numbers[2:]:
    found[f"mean {name}"] = interval(lambda rows: np.average(rows[name], weights=rows["count"]))""",
    StatisticOfRows.DIFFERENCE: """\
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
    StatisticOfRows.SLOPE: """\
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


def notebook_of(
    report: Report, *, has_totals: bool, has_synthetic_rows: bool, replicates: Mapping[str, Any] | None
) -> str:
    """As JSON of nbformat 4.

    Args:
        replicates: what the receipt says of them.
    """
    of_answers = [table for table in report.tables if not table.says]
    is_drawn = all(table.is_measured and table.has_one_axis for table in of_answers)
    said = [f"# {report.title}", report.headline, report.bound, report.citation]
    shapes = [{"is_heat": each.is_heat, "spans": each.spans, "map_of": each.map_of} for each in of_answers]
    draws = _DRAW.replace("SAID", repr(shapes if is_drawn else []), 1)
    codes = [_READ, _DRAW_DATES if is_drawn and any(table.of_dates for table in of_answers) else draws]
    codes += [_TOTALS] if has_totals else []
    codes += [_ASSOCIATIONS] if len(of_answers) < len(report.tables) else []
    codes += [_SYNTHETIC, _TRUST, _TRUST_CHARTS] if has_synthetic_rows else []
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
