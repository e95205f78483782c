"""One report of releases that were planned together: their published reports, one behind the other.

Nothing is drawn again, and nothing is read but what was published.
"""

from __future__ import annotations

import re
from pathlib import Path

from releases.publication.report import HTML, latest

_BODY = re.compile(r"<body>(.*)</body>", re.DOTALL)
_HEADING = re.compile(r"(</?h)([1-5])\b")


def body_of(folder: Path) -> str:
    """What the report in a folder says, with each heading one level lower; empty where there is none."""
    try:
        found = _BODY.search(latest(folder, HTML).read_text())
    except FileNotFoundError:
        return ""
    return _HEADING.sub(lambda heading: f"{heading[1]}{int(heading[2]) + 1}", found[1]) if found else ""
