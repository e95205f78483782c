"""Formulas on pages: what is shown is what was written, also where the browser has no font for mathematics."""

from __future__ import annotations

import re

import pytest

from releases.display.math import typeset


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (r"n\sqrt{\frac{\ln|X|}{2c}}", "n√(ln|X|)/(2c)"),
        (r"\sqrt{2 \ln\frac{k}{\beta}} + 1", "√2ln(k/β)+1"),
        (r"\sqrt{\frac{n^2 \ln|X|}{2T} + V^2}", "√((n2ln|X|)/(2T))+V2"),
        (r"\frac{1}{2} \sqrt{x}", "12√x"),
        (r"\sqrt{a} \sqrt{\tfrac{b}{c}}", "√a√b/c"),
    ],
)
def test_a_fraction_under_a_root_stays_under_it(written, shown):
    mathml = typeset(written)
    roots = re.findall(r"<msqrt>.*?</msqrt>", mathml)
    assert roots
    assert not any("<mfrac>" in root for root in roots)
    text = re.sub(r"\s", "", re.sub(r"<[^>]+>", "", mathml.replace("<msqrt>", "√")))
    assert (
        text.replace("&#x0007C;", "|")
        .replace("&#x0002F;", "/")
        .replace("&#x0002B;", "+")
        .replace("&#x003B2;", "β")
        .replace("&#x00028;", "(")
        .replace("&#x00029;", ")")
        == shown
    )
