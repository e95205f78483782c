"""The samplers as they are installed here: their chi-square self-test, and whether it notices a wrong scale."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction

from releases.engine.noise.discrete import self_test
from releases.engine.noise.randomness import Randomness, SamplerFailure
from releases.engine.verification.recording import with_noise_scaled

#: A scale that a library's fault could make; the self-test sees one that is off by 3%.
_OFF = (Fraction(9, 10), Fraction(11, 10))


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplersSeen:
    """One round of the self-test.

    Attributes:
        factor: what every scale was multiplied by; 1 for the samplers as they are.
        failure: what the self-test said; empty where it passed.
    """

    factor: Fraction
    failure: str

    @property
    def is_as_it_should_be(self) -> bool:
        return (self.failure == "") == (self.factor == 1)


def samplers_seen(*, false_alarm: float, rng: Randomness) -> Iterator[SamplersSeen]:
    """Test the samplers as they are, and with scales a tenth too small and too large.

    Args:
        false_alarm: the probability that right samplers fail.
        rng: where the words come from.
    """
    for factor in (Fraction(1), *_OFF):
        failure = ""
        with nullcontext() if factor == 1 else with_noise_scaled(factor, at_home=True):
            try:
                self_test(rng, false_alarm=false_alarm)
            except SamplerFailure as fault:
                failure = str(fault)
        yield SamplersSeen(factor=factor, failure=failure)
