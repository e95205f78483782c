"""The sum of the MD5 hashes of many texts (RFC 1321), compiled by numba. Importing this imports numba: do it late.

DuckDB hashes one text after another, which takes longer than all else that is done with an uploaded file. Here each of
`_LANES` lanes has a text of its own, and one step of the hash is done in all lanes at once. A lane whose text has come
to its end takes the next one, so that a long text holds up no other.
"""

from __future__ import annotations

from math import sin
from typing import Any

import numpy as np

from releases.engine.tables.kernels import jit

#: Enough for the widest registers, and few enough for the nearest cache.
_LANES = 64
_BLOCK = 64
#: A last block has the end mark and, in its last eight bytes, how long the text is.
_ROOM = 56
_START = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], np.uint32)
_ADDED = np.array([int(abs(sin(step + 1)) * 2**32) for step in range(64)], np.uint32)
_ROTATED = np.array([each for four in ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))
                     for each in four * 4], np.uint32)  # fmt: skip
_WORD = np.array([(step, 5 * step + 1, 3 * step + 5, 7 * step)[step // 16] % 16 for step in range(64)])


@jit
def add_hashes(offsets: Any, data: Any, sums: Any) -> None:
    """Add the four words of each text's hash to `sums`.

    A word is four bytes of the hash, the least significant first. Sums of fewer than 2**32 texts do not overflow.

    Args:
        offsets: where in `data` each text begins, and where the last one ends; 64-bit integers, shape (texts + 1,).
        data: the bytes of all texts.
        sums: 64-bit unsigned integers, shape (4,); changed in place.
    """
    texts = len(offsets) - 1
    words = np.zeros((16, _LANES), np.uint32)
    state, before = np.zeros((4, _LANES), np.uint32), np.zeros((4, _LANES), np.uint32)
    blocks = np.zeros((_LANES, _BLOCK), np.uint8)
    whole = blocks.view(np.uint32)
    text, done = np.arange(_LANES), np.zeros(_LANES, np.int64)
    for lane in range(_LANES):
        for place in range(4):
            state[place, lane] = _START[place]
    following, ended = _LANES, 0
    while ended < texts:
        for lane in range(_LANES):
            if text[lane] < texts:
                begin, end = offsets[text[lane]], offsets[text[lane] + 1]
                _fill(blocks[lane], data, begin + done[lane], end)
                if end - begin - done[lane] < _ROOM:
                    whole[lane, 14] = np.uint32((8 * (end - begin)) & 0xFFFFFFFF)
                    whole[lane, 15] = np.uint32((8 * (end - begin)) >> 32)
        # Read once all are filled: a word waits for the bytes that it is made of.
        for place in range(16):
            for lane in range(_LANES):
                words[place, lane] = whole[lane, place]
        for place in range(4):
            for lane in range(_LANES):
                before[place, lane] = state[place, lane]
        _mix(words, state)
        for place in range(4):
            for lane in range(_LANES):
                state[place, lane] += before[place, lane]
        for lane in range(_LANES):
            if text[lane] < texts:
                is_last = offsets[text[lane] + 1] - offsets[text[lane]] - done[lane] < _ROOM
                done[lane] += _BLOCK
                if is_last:
                    for place in range(4):
                        sums[place] += np.uint64(state[place, lane])
                        state[place, lane] = _START[place]
                    text[lane], done[lane] = following, 0
                    following += 1
                    ended += 1


@jit
def _fill(block: Any, data: Any, begin: int, end: int) -> None:
    """The next block of a text, with the mark behind its end and zeros behind that."""
    left = min(max(end - begin, 0), _BLOCK)
    for place in range(left):
        block[place] = data[begin + place]
    for place in range(left, _BLOCK):
        block[place] = 0
    if begin <= end < begin + _BLOCK:
        block[left] = 0x80


@jit
def _mix(words: Any, state: Any) -> None:
    """The 64 steps with one block of each lane."""
    for step in range(64):
        a, b = state[(64 - step) % 4], state[(65 - step) % 4]
        c, d = state[(66 - step) % 4], state[(67 - step) % 4]
        word, added, left = words[_WORD[step]], _ADDED[step], _ROTATED[step]
        right = np.uint32(np.uint32(32) - left)
        # A loop for each of the four functions: the compiler does all lanes at once where there is no branch within.
        if step < 16:
            for lane in range(_LANES):
                mixed = np.uint32(a[lane] + ((b[lane] & c[lane]) | (~b[lane] & d[lane])) + added + word[lane])
                a[lane] = np.uint32(b[lane] + np.uint32(np.uint32(mixed << left) | np.uint32(mixed >> right)))
        elif step < 32:
            for lane in range(_LANES):
                mixed = np.uint32(a[lane] + ((d[lane] & b[lane]) | (~d[lane] & c[lane])) + added + word[lane])
                a[lane] = np.uint32(b[lane] + np.uint32(np.uint32(mixed << left) | np.uint32(mixed >> right)))
        elif step < 48:
            for lane in range(_LANES):
                mixed = np.uint32(a[lane] + (b[lane] ^ c[lane] ^ d[lane]) + added + word[lane])
                a[lane] = np.uint32(b[lane] + np.uint32(np.uint32(mixed << left) | np.uint32(mixed >> right)))
        else:
            for lane in range(_LANES):
                mixed = np.uint32(a[lane] + (c[lane] ^ (b[lane] | ~d[lane])) + added + word[lane])
                a[lane] = np.uint32(b[lane] + np.uint32(np.uint32(mixed << left) | np.uint32(mixed >> right)))
