"""What is drawn for two tables, and noise taken away: `releases.engine.verification.recording`, for the tests."""

from __future__ import annotations

from releases.engine.verification.recording import (
    SAMPLERS,
    Draw,
    MeteredRandomness,
    Recording,
    record,
    with_noise_scaled,
)

__all__ = ["SAMPLERS", "Draw", "MeteredRandomness", "Recording", "record", "with_noise_scaled"]
