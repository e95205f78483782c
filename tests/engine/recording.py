"""Re:cord-play: what a mechanism draws, and with which parameters, on two tables with the same randomness.

A mechanism whose noise has a scale, number or order that depends on the data is not private, however right its formula.
`record` runs it and writes down every call of a sampler, so that two runs can be compared draw by draw;
`with_noise_scaled` gives it too little noise, so that a test can show that it would have noticed.

The idea is that of Re:cord-play (arXiv 2602.17454, PETS 2026).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from releases.engine import noise, randomness, scaled_noise, selection
from releases.engine.mechanisms.base import mechanisms
from releases.engine.randomness import StreamRandomness

#: Everything that turns randomness into a draw, by the module that defines it.
SAMPLERS = {
    noise: ("discrete_laplace", "discrete_gaussian"),
    scaled_noise: ("rounded_noise",),
    selection: ("exponential_mechanism", "permute_and_flip", "report_noisy_max"),
    randomness: ("bernoulli", "choose", "random_bits", "random_below", "uniform_bits", "uniform_below"),
}


@dataclass(frozen=True)
class Draw:
    """One call of a sampler.

    Attributes:
        sampler: its name.
        parameters: every argument that is a plain number or a shape; arrays by their shape, functions left out.
    """

    sampler: str
    parameters: tuple[tuple[str, Any], ...]


@dataclass
class Recording:
    """What one run did.

    Attributes:
        result: what it returned.
        draws: the calls of samplers, in order.
        words: how many random words were asked for, call by call.
        private: the arrays that samplers were given (scores, weights), in order.
        drawn: what the samplers returned, in order.
    """

    result: Any = None
    draws: list[Draw] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    private: list[np.ndarray] = field(default_factory=list)
    drawn: list[Any] = field(default_factory=list)

    @property
    def flow(self) -> tuple[list[Draw], list[int]]:
        """All that must be the same on neighbouring tables."""
        return self.draws, self.words


class MeteredRandomness:
    """A fixed stream that notes how many words are asked for."""

    def __init__(self, seed: bytes, asked: list[int]) -> None:
        self._stream = StreamRandomness(seed)
        self._asked = asked

    def words(self, count: int) -> np.ndarray:
        self._asked.append(count)
        return self._stream.words(count)


def record(run: Callable[[Any], Any], *, seed: bytes) -> Recording:
    """Call `run(rng)` on the stream of that seed and write down its draws."""
    recording = Recording()

    def noted(name: str, sampler: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(sampler)
        def call(*args: Any, **kwargs: Any) -> Any:
            recording.draws.append(Draw(name, tuple(_parameters(args, kwargs, recording.private))))
            recording.drawn.append(sampler(*args, **kwargs))
            return recording.drawn[-1]

        return call

    with _replaced(noted):
        recording.result = run(MeteredRandomness(seed, recording.words))
    return recording


@contextmanager
def with_noise_scaled(factor: Fraction) -> Iterator[None]:
    """Every scale times `factor`, every epsilon of a selection divided by it: too little noise for a factor below 1."""

    def wrong(name: str, sampler: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(sampler)
        def call(*args: Any, **kwargs: Any) -> Any:
            for argument, power in (("scale", 1), ("multiplier", 1), ("variance", 2), ("epsilon", -1)):
                if argument in kwargs:
                    kwargs[argument] = kwargs[argument] * factor**power
            return sampler(*args, **kwargs)

        return call

    with _replaced(wrong):
        yield


@contextmanager
def _replaced(wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Put wrapped samplers where mechanisms imported them; inside the samplers' own modules nothing changes."""
    mechanisms()  # imports every one of them
    wrapped = {
        id(getattr(home, name)): wrap(name, getattr(home, name)) for home, names in SAMPLERS.items() for name in names
    }
    changed = []
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("releases.engine.") or module in SAMPLERS:
            continue
        for name, value in list(vars(module).items()):
            if id(value) in wrapped:
                changed.append((module, name, value))
                setattr(module, name, wrapped[id(value)])
    try:
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)


def _parameters(args: tuple[Any, ...], kwargs: dict[str, Any], private: list[np.ndarray]) -> Iterator[tuple[str, Any]]:
    named = [(str(position), value) for position, value in enumerate(args)] + sorted(kwargs.items())
    for name, value in named:
        if name == "rng" or hasattr(value, "words") or callable(value):
            continue
        if isinstance(value, (np.ndarray, list)):
            array = np.asarray(value)
            private.append(array)
            yield name, ("array", array.shape)
        else:
            yield name, value
