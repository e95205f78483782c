"""One row of a table of answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One row of the table: a number with its error band, or what was chosen from a list."""

    labels: tuple[str, ...]
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    synthetic: float | None = None
    chosen: str = ""

    @property
    def is_outside(self) -> bool:
        """Whether the synthetic rows have a count that the released interval excludes."""
        if self.synthetic is None or self.lower is None or self.upper is None:
            return False
        return not self.lower <= round(self.synthetic) <= self.upper

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"label": ", ".join(self.labels)}
        return shown | {name: getattr(self, name) for name in ("estimate", "lower", "upper", "synthetic")}
