"""What a spreadsheet does with text that it opens."""

from __future__ import annotations

import unicodedata


def begins_a_formula(text: str) -> bool:
    """Whether a spreadsheet may take text for a formula by its sign: after spaces too, and where it is full-width."""
    return unicodedata.normalize("NFKC", text.lstrip()[:1])[:1] in tuple("=+-@")
