"""A notebook that reads the files of a release, from the folder that it lies in, and draws its charts again."""

from __future__ import annotations

import json
from typing import Any

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


def notebook_of(report: Report, *, has_synthetic_rows: bool) -> str:
    """As JSON of nbformat 4."""
    is_drawn = all(table.is_measured and table.has_one_axis for table in report.tables)
    said = [f"# {report.title}", report.headline, report.bound, report.citation]
    drawing = _DRAW_DATES if any(table.of_dates for table in report.tables) else _DRAW
    codes = [_READ, *([drawing] if is_drawn else []), *([_SYNTHETIC, _TRUST] if has_synthetic_rows else [])]
    cells = [_cell("markdown", "\n\n".join(filter(None, said))), *(_cell("code", code) for code in codes)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells},
        indent=1,
        ensure_ascii=False,
    )


def _cell(kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
    return cell | ({"outputs": [], "execution_count": None} if kind == "code" else {})
