"""The sum of many MD5 hashes, beside Python's own."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest

from releases.engine.tables.files.md5 import add_hashes


def summed(texts: list[bytes]) -> list[int]:
    places = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    sums = np.zeros(4, np.uint64)
    add_hashes(places, np.frombuffer(b"".join(texts), np.uint8), sums)
    return sums.tolist()


def by_python(texts: list[bytes]) -> list[int]:
    words = [struct.unpack("<4I", hashlib.md5(text, usedforsecurity=False).digest()) for text in texts]
    return [sum(word) for word in zip(*words, strict=True)] or [0] * 4


@pytest.mark.parametrize("size", range(260))
def test_a_text_of_each_length_has_its_hash(size):
    text = bytes((7 * place + size) % 256 for place in range(size))
    assert summed([text]) == by_python([text])


@pytest.mark.parametrize("number", [0, 1, 63, 64, 65, 128, 1000])
def test_hashes_of_many_texts_are_added_up(number):
    texts = [bytes([place % 251]) * (place * 37 % 300) for place in range(number)]
    assert summed(texts) == by_python(texts)


def test_long_texts_among_short_ones_are_hashed_to_their_ends():
    texts = [b"x" * (1_000_003 if place % 50 == 7 else place % 3) for place in range(200)]
    assert summed(texts) == by_python(texts)


def test_part_of_a_column_is_hashed_where_it_lies():
    whole = b"".join(bytes([place]) * place for place in range(100))
    places = np.cumsum([0, *range(100)], dtype=np.int64)
    sums = np.ones(4, np.uint64)
    add_hashes(places[40:90], np.frombuffer(whole, np.uint8), sums)
    expected = by_python([bytes([place]) * place for place in range(40, 89)])
    assert sums.tolist() == [each + 1 for each in expected]
