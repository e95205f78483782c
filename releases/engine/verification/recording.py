"""Re:cord-play: what a mechanism draws, and with which parameters, on two tables with the same randomness.

A mechanism whose noise has a scale, number or order that depends on the data is not private, however right its formula.
`record` runs it and writes down every call of a sampler, so that two runs can be compared draw by draw;
`with_noise_scaled` gives it too little noise, so that a check can show that it would have noticed.

The idea is that of Re:cord-play (arXiv 2602.17454, PETS 2026). Both put wrapped samplers in the place of the right ones
for as long as they run, in the whole process: for a process that releases nothing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, isqrt
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from releases.engine.mechanisms import randomized_response
from releases.engine.mechanisms.base import mechanisms
from releases.engine.noise import discrete, lattice, randomness, selection
from releases.engine.noise.randomness import Randomness, StreamRandomness
from releases.engine.smalldb import strategies

#: What modules define, by name.
Names: TypeAlias = dict[ModuleType, tuple[str, ...]]

#: What draws noise, by the module that defines it.
NOISE: Names = {discrete: ("discrete_laplace", "discrete_gaussian"), lattice: ("rounded_noise",)}
#: What chooses a candidate.
_CHOICES = ("exponential_mechanism", "permute_and_flip", "report_noisy_max")
#: Everything that turns randomness into a draw, by the module that defines it.
SAMPLERS: Names = {
    **NOISE,
    selection: _CHOICES,
    randomness: ("bernoulli", "choose", "random_bits", "random_below", "uniform_bits", "uniform_below"),
}
#: What else is given an epsilon that decides a law: the coins of a survey, and the layers of small databases.
RATES: Names = {randomized_response: ("truth_interval",), strategies: ("DrawSetting",)}
#: Arguments that decide how much noise there is, and the power of its scale that each is.
_POWERS = (("scale", 1), ("multiplier", 1), ("variance", 2), ("epsilon", -1))

_Wrap: TypeAlias = Callable[[str, Callable[..., Any]], Callable[..., Any]]


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
    private: list[NDArray[Any]] = field(default_factory=list)
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

    def words(self, count: int) -> NDArray[np.uint64]:
        self._asked.append(count)
        return self._stream.words(count)


def record(run: Callable[[Randomness], Any], *, seed: bytes) -> Recording:
    """Call `run(rng)` on the stream of that seed and write down its draws."""
    recording = Recording()

    def noted(name: str, sampler: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(sampler)
        def call(*args: Any, **kwargs: Any) -> Any:
            recording.draws.append(Draw(name, tuple(_parameters(args, kwargs, recording.private))))
            recording.drawn.append(sampler(*args, **kwargs))
            return recording.drawn[-1]

        return call

    with _replaced(noted, SAMPLERS):
        recording.result = run(MeteredRandomness(seed, recording.words))
    return recording


@contextmanager
def with_noise_scaled(factor: Fraction, *, at_home: bool = False) -> Iterator[None]:
    """Every scale times `factor`, every epsilon of a choice divided by it: too little noise for a factor below 1.

    With `at_home`, in the samplers' own modules too, where their self-test calls them.
    """

    def wrong(name: str, sampler: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(sampler)
        def call(*args: Any, **kwargs: Any) -> Any:
            if name == "truth_interval":
                args = (args[0] / factor, *args[1:])
            for argument, power in _POWERS:
                if argument in kwargs:
                    kwargs[argument] = kwargs[argument] * factor**power
            return sampler(*args, **kwargs)

        return call

    with _replaced(wrong, SAMPLERS, at_home=at_home), _replaced(wrong, RATES, at_home=True):
        yield


@contextmanager
def with_extreme_draws(size: int | None, signs: Sequence[int], place: int) -> Iterator[None]:
    """Draws as far out as a law goes, or further than it goes in practice, for a check that no draw makes a run fail.

    Args:
        size: of every draw of noise; None for fifty scales, which noise passes once in 10**21 draws.
        signs: of the draws, in turn.
        place: the position of every candidate chosen, from the front or, below 0, from the back of the scores' order.
    """

    def extreme(name: str, sampler: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(sampler)
        def call(*args: Any, **kwargs: Any) -> Any:
            if name in _CHOICES:
                # Drawn all the same: what a choice refuses may depend on the scores.
                sampler(*args, **kwargs)
                by_score = np.argsort(np.asarray(args[0], dtype=object), kind="stable")
                return int(by_score[min(place, by_score.size - 1)])
            if name == "rounded_noise":
                sampler(*args, **kwargs)
                return int(kwargs["most"]) * signs[0]
            # Not drawn, which would take most of the time: beyond what is checked here, noise refuses nothing.
            if "scale" in kwargs:
                scale = discrete.checked_scale(kwargs["scale"])
            else:
                scale = Fraction(isqrt(ceil(discrete.checked_variance(kwargs["variance"]))) + 1)
            drawn = np.empty(kwargs["size"], dtype=np.int64)
            reach = min(ceil(50 * scale) if size is None else size, discrete.LARGEST_NOISE)
            return (np.resize(np.array(signs, dtype=np.int64), drawn.size) * reach).reshape(drawn.shape)

        return call

    with _replaced(extreme, {**NOISE, selection: _CHOICES}):
        yield


@contextmanager
def _replaced(wrap: _Wrap, defined: Names, *, at_home: bool = False) -> Iterator[None]:
    """Put wrapped samplers where mechanisms imported them; in their own modules too only where `at_home`."""
    mechanisms()  # imports every one of them
    wrapped = {
        id(getattr(home, name)): wrap(name, getattr(home, name)) for home, names in defined.items() for name in names
    }
    changed = []
    for module, name in _places(len(sys.modules)):
        value = getattr(module, name, None)
        if id(value) in wrapped and (at_home or module not in defined):
            changed.append((module, name, value))
            setattr(module, name, wrapped[id(value)])
    try:
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)


@functools.lru_cache(maxsize=1)
def _places(_modules: int) -> list[tuple[ModuleType, str]]:
    """Where the engine names what can be replaced, by its own name or another; looked up again after an import."""
    wanted = {name for defined in (SAMPLERS, RATES) for names in defined.values() for name in names}
    return [
        (module, name)
        for module_name, module in list(sys.modules.items())
        if module_name.startswith("releases.engine.")
        for name, value in list(vars(module).items())
        if name in wanted or getattr(value, "__name__", None) in wanted
    ]


def _parameters(
    args: tuple[Any, ...], kwargs: dict[str, Any], private: list[NDArray[Any]]
) -> Iterator[tuple[str, Any]]:
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
