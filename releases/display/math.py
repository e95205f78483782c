"""Formulas on pages: written in LaTeX beside the code that computes them, shown as MathML."""

from __future__ import annotations

import re
from functools import lru_cache

import latex2mathml.converter
from django.utils.safestring import SafeString, mark_safe


@lru_cache(maxsize=256)
def typeset(latex: str) -> SafeString:
    """A formula of our own as MathML, which browsers show without any script."""
    flat = _without_fractions_under_roots(latex)
    return mark_safe(latex2mathml.converter.convert(flat, display="block"))  # noqa: S308  never a person's text


def _without_fractions_under_roots(latex: str) -> str:
    """Fractions under a root as A / B on one line.

    Where no font for mathematics is installed the sign of a root does not grow, and a fraction's denominator stands
    outside it: the formula shown would be another one.
    """
    start = latex.find(r"\sqrt{")
    if start < 0:
        return latex
    inside, rest = _group(latex, start + len(r"\sqrt"))
    while (found := re.search(r"\\[dt]?frac\{", inside)) is not None:
        top, behind = _group(inside, found.end() - 1)
        bottom, behind = _group(behind, 0)
        quotient = f"{_factor(top)} / {_factor(bottom)}"
        stands_alone = found.start() == 0 and not behind
        inside = inside[: found.start()] + (quotient if stands_alone else f"({quotient})") + behind
    return latex[:start] + rf"\sqrt{{{inside}}}" + _without_fractions_under_roots(rest)


def _group(latex: str, start: int) -> tuple[str, str]:
    """What stands in the braces that open at `start`, and what stands behind them."""
    depth = 0
    for position in range(start, len(latex)):
        depth += {"{": 1, "}": -1}.get(latex[position], 0)
        if depth == 0:
            return latex[start + 1 : position], latex[position + 1 :]
    raise ValueError(latex)


def _factor(latex: str) -> str:
    """In parentheses, if it is more than one symbol."""
    return latex if re.fullmatch(r"\\?\w+'?", latex) and not re.fullmatch(r"\d+\w+", latex) else f"({latex})"
