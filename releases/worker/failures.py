"""What a log says of a failure where data are touched: where it was, never with which values."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path


def log_failure(logger: logging.Logger, what: str, error: Exception) -> None:
    """Say where something failed, not with which values: an exception's text can hold rows."""
    places = " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[::-1]
    )
    logger.error("%s failed: %s at %s", what, type(error).__name__, places)
