"""Where randomness comes from, and the exact draws everything else is made of.

The samplers ask a `Randomness` for uniform 64-bit words and for nothing else. In production that is
`OperatingSystemRandomness`; a test may pass `StreamRandomness`, or any object with a `words` method, to have
the same draws again or to feed bytes of its choice.
"""

from __future__ import annotations

import hashlib
import os
from math import prod
from typing import TYPE_CHECKING, Protocol

import numpy as np

from releases.engine.errors import EngineError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from releases.engine.arithmetic.intervals import CertifiedSums, Interval

#: Cells drawn at a time: a quarter of a megabyte of words, so that the work stays in the processor's cache.
CHUNK = 1 << 15

#: A comparison undecided after this many random bits has probability 2**-60000: something is broken instead.
_MAX_BITS = 1 << 16


class SamplerFailure(EngineError):
    """A sampler is broken, or stands where only a broken one can: nothing it drew may be released."""


class Randomness(Protocol):
    """A source of independent uniform words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` words, shape (count,): independent, each uniform on 0 ... 2**64 - 1."""
        ...


class OperatingSystemRandomness:
    """The operating system's generator (os.urandom), read again at every call.

    Nothing is kept in this process, so two workers forked from one parent can never draw equal noise.
    """

    #: Bytes asked of the system at a time: bounds the memory of one very large request.
    _PIECE = 1 << 23

    def words(self, count: int) -> NDArray[np.uint64]:
        _check_count(count)
        if 8 * count <= self._PIECE:
            return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
        drawn = np.empty(count, dtype=np.uint64)
        step = self._PIECE // 8
        for start in range(0, count, step):
            piece = min(step, count - start)
            drawn[start : start + piece] = np.frombuffer(os.urandom(8 * piece), dtype=np.uint64)
        return drawn


class StreamRandomness:
    """A fixed stream of words grown from a seed: ONLY for tests and simulations.

    Whoever knows the seed knows the noise, so production code never constructs one.

    Block i of the stream is SHAKE-256(length of the seed, seed, i), 65,536 bytes, read as little-endian
    words. How the words are asked for does not change them.
    """

    _BLOCK = 1 << 16

    def __init__(self, seed: bytes) -> None:
        self._prefix = len(seed).to_bytes(8, "little") + seed
        self._next_block = 0
        self._left = b""

    def words(self, count: int) -> NDArray[np.uint64]:
        _check_count(count)
        needed = 8 * count
        pieces, have = [self._left], len(self._left)
        while have < needed:
            block = hashlib.shake_256(self._prefix + self._next_block.to_bytes(8, "little"))
            pieces.append(block.digest(self._BLOCK))
            self._next_block += 1
            have += self._BLOCK
        stream = b"".join(pieces)
        self._left = stream[needed:]
        return np.frombuffer(stream[:needed], dtype="<u8").astype(np.uint64, copy=False)


def in_chunks(size: int | tuple[int, ...], draw: Callable[[int], NDArray[np.int64]]) -> NDArray[np.int64]:
    """Fill an int64 array of shape `size` with `draw(count)`, at most CHUNK cells at a time.

    Raises:
        InvalidInput: `size` is not a number of cells or a shape.
    """
    shape = size if isinstance(size, tuple) else (size,)
    if any(isinstance(length, bool) or not isinstance(length, (int, np.integer)) or length < 0 for length in shape):
        raise InvalidInput("size", size, "must be a number of cells, or a shape, not below 0")
    cells = prod(shape)
    drawn = np.empty(cells, dtype=np.int64)
    for start in range(0, cells, CHUNK):
        stop = min(start + CHUNK, cells)
        drawn[start:stop] = draw(stop - start)
    return drawn.reshape(shape)


def uniform_bits(bits: int, size: int | tuple[int, ...], rng: Randomness) -> NDArray[np.int64]:
    """Uniform integers in 0 ... 2**bits - 1, for 1 <= bits <= 63, as int64 of shape `size`.

    Raises:
        InvalidInput: `bits` or `size` is out of range.
    """
    if not 1 <= bits <= 63:
        raise InvalidInput("bits", bits, "must be between 1 and 63")
    unused = np.uint64(64 - bits)
    return in_chunks(size, lambda count: (rng.words(count) >> unused).view(np.int64))


def uniform_below(n: int, size: int | tuple[int, ...], rng: Randomness) -> NDArray[np.int64]:
    """Uniform integers in 0 ... n - 1, for 1 <= n <= 2**63, as int64 of shape `size`.

    A word at or above the largest multiple of n in 2**64 is drawn again: the rest spread evenly mod n.

    Raises:
        InvalidInput: `n` or `size` is out of range.
    """
    if not 1 <= n <= 1 << 63:
        raise InvalidInput("n", n, "must be between 1 and 2**63")
    # The multiple itself may be 2**64, which no word can hold: compare with the last word below it.
    last_kept = np.uint64((1 << 64) - (1 << 64) % n - 1)

    def draw(count: int) -> NDArray[np.int64]:
        words = rng.words(count)
        if last_kept != np.uint64(2**64 - 1):
            refused = np.flatnonzero(words > last_kept)
            if refused.size:
                words = words.copy()
            while refused.size:
                words[refused] = rng.words(refused.size)
                refused = refused[words[refused] > last_kept]
        return (words % np.uint64(n)).view(np.int64)

    return in_chunks(size, draw)


def random_bits(bits: int, rng: Randomness) -> int:
    """One uniform integer in 0 ... 2**bits - 1, of any length."""
    words = -(-bits // 64)
    drawn = int.from_bytes(rng.words(words).astype("<u8").tobytes(), "little")
    return drawn >> (64 * words - bits)


def random_below(n: int, rng: Randomness, *, most: int | None = None) -> int:
    """One uniform integer in 0 ... n - 1, of any length.

    Args:
        n: at least 1.
        rng: where the bits come from.
        most: where n must not be told by the number of words drawn, a public number that is not below n. At least
            64 bits more than it has are drawn, so that drawing again, which n decides, happens once in 2**64.

    Raises:
        InvalidInput: `n` is below 1, or above `most`.
    """
    if n < 1 or (most is not None and n > most):
        raise InvalidInput("n", n, "must be at least 1, and not above the most stated")
    bits = 64 * (2 + (most or n).bit_length() // 64)
    share = (1 << bits) // n
    while True:
        drawn = random_bits(bits, rng) // share
        if drawn < n:
            return drawn


def bernoulli(probability_at: Callable[[int], Interval], *, rng: Randomness, revealed: int = 0, bits: int = 0) -> bool:
    """True with probability exactly p, any real number that `probability_at(precision)` encloses.

    A uniform U in [0, 1) is revealed bit by bit until the enclosure of p no longer meets
    [u, u + 1) / 2**bits, where U is known to lie; then U < p is decided as it would be for U itself.

    Args:
        probability_at: returns (lo, hi) with lo <= p * 2**precision <= hi, narrowing as `precision` grows.
        rng: where the bits come from.
        revealed: the first `bits` bits of U, where the caller has drawn those already.
        bits: how many they are.
    """
    while bits <= _MAX_BITS:
        more = 64 if bits < 64 else bits
        revealed, bits = revealed << more | random_bits(more, rng), bits + more
        lo, hi = probability_at(bits)
        if revealed < lo:
            return True
        if revealed >= hi:
            return False
    raise SamplerFailure("a coin could not be decided: its probability does not narrow")


def choose(sums_at: Callable[[int], CertifiedSums], *, rng: Randomness) -> int:
    """An index with probability exactly w_k / sum of w: inversion of the distribution function, bit by bit.

    A uniform U in [0, 1) is revealed until one index surely holds all of [u, u + 1) / 2**bits. Works for
    infinitely many weights: `sums_at(precision)` lists more of them as the precision grows.
    """
    drawn, bits = random_bits(64, rng), 64
    while bits <= _MAX_BITS:
        index = sums_at(bits).locate(drawn, bits=bits)
        if index is not None:
            return index
        drawn, bits = drawn << bits | random_bits(bits, rng), 2 * bits
    raise SamplerFailure("a draw could not be decided: the weights do not narrow")


def _check_count(count: int) -> None:
    if count < 0:
        raise InvalidInput("count", count, "must not be below 0")
