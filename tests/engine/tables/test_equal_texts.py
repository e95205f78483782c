"""Which texts are one person or one category, and which are two: case, spaces of Unicode, NFC and NFD, and digits."""

from __future__ import annotations

import unicodedata

import pytest

from releases.engine.domain.schema import Schema
from releases.engine.tables.query import TableCounts
from tests.engine.tables.test_contract import EACH_ENGINE

NFC, NFD = "Zoë Brontë", unicodedata.normalize("NFD", "Zoë Brontë")
#: Texts of which each is another person, and another category.
APART = (
    *("anna", "Anna", "ANNA", "ß", "ss", "SS", "\ufb01", "fi", "1", "01", "1.0", "1.", "+1", "1e0", "\uff11"),
    *(NFC, NFD, "\u212b", "\u00c5", "A\u030a", "I", "i", "\u0130", "\u0131", "\uac00", "\u1100\u1161"),
    *("\u00a0anna", "anna\u00a0", "an\u00a0na", "an na", "\u2003anna", "anna\u200b", "\ufeffanna", "anna\u3000"),
    *("anna\u2028", "anna\u0085", "\u202fanna", "an\tna"),
)
#: What is around a text of them and makes none of them another.
AROUND = ("{}", " {}", "{}  ", "\t{}\n", "\x0b{}\x0c", "{}\r\n")
NOBODY = ("", " ", "\t \n", None)


def test_the_texts_are_as_different_as_they_are_meant_to_be():
    assert NFC != NFD
    assert unicodedata.normalize("NFC", NFD) == NFC
    assert len(set(APART)) == len(APART)
    # Each rule of comparison that is not ours would make some of them one.
    for rule in (str.casefold, str.strip, lambda text: unicodedata.normalize("NFC", text)):
        assert len(set(map(rule, APART))) < len(APART)


@EACH_ENGINE
@pytest.mark.parametrize("most", [1, 2])
def test_each_text_is_a_person_of_its_own_whatever_plain_spaces_are_around_it(load, most, request):
    """Of each person so many rows are kept as are counted: one person more or less would show."""
    rows = [{"id": form.format(text), "any": "x"} for text in APART for form in AROUND]
    rows += [{"id": text, "any": "x"} for text in NOBODY]
    schema = Schema.from_json(
        {
            "version": 1,
            "columns": [{"name": "any", "type": "categorical", "categories": ["x", "y"]}],
            "unit": {"kind": "person", "id": "id", "max_rows": most},
            "neighbours": "add_remove",
        }
    )
    counts = TableCounts(load(rows, request), schema)
    assert counts.marginal(("any",)).tolist() == [len(APART) * most, 0]
    assert counts.texts("any").counts.tolist() == [len(APART) * most]


@EACH_ENGINE
@pytest.mark.parametrize("many", [False, True], ids=["compared", "joined"])
def test_each_text_is_a_category_of_its_own_whatever_plain_spaces_are_around_it(load, many, request):
    """Declared are those that a declaration can name, without spaces around them; others are others."""
    named = [text for text in APART if text.isprintable() and text == text.strip()]
    assert {NFC, NFD, "1", "01", "1.0", "ß", "ss"} <= set(named)
    more = [f"more {place}" for place in range(80)] if many else []
    categories = [*named, *more, "other"]
    rows = [{"word": form.format(text)} for text in APART for form in AROUND] + [{"word": text} for text in NOBODY]
    word = {"name": "word", "type": "categorical", "categories": categories, "outside": "other", "missing_as": "drop"}
    schema = Schema.from_json({"version": 1, "columns": [word], "unit": {"kind": "row"}, "neighbours": "add_remove"})
    counts = TableCounts(load(rows, request), schema)
    others = (len(APART) - len(named)) * len(AROUND)
    assert counts.marginal(("word",)).tolist() == [len(AROUND)] * len(named) + [0] * len(more) + [others]
    texts = counts.texts("word")
    assert dict(zip(texts.texts.tolist(), texts.counts.tolist(), strict=True)) == dict.fromkeys(APART, len(AROUND))


@EACH_ENGINE
def test_long_texts_that_begin_alike_are_others_and_their_rows_stay_together(load, request):
    """Their order is by more than their first bytes. Spaces within are no spaces around."""
    begins = ["é" * 3000, "a" + " " * 200_000]
    ids = [f"{begin}{end}" for begin in begins for end in "abcde"]
    # Of each person one row after the other, so that rows of one that are kept apart would be counted apart.
    rows = [{"id": f" {each}\t", "any": f"{each[::-1]} "} for _ in range(6) for each in ids]
    any_ = {"name": "any", "type": "categorical", "categories": [ids[0][::-1], "y"], "outside": "y"}
    unit = {"kind": "person", "id": "id", "max_rows": 2}
    schema = Schema.from_json({"version": 1, "columns": [any_], "unit": unit, "neighbours": "add_remove"})
    counts = TableCounts(load(rows, request), schema)
    assert counts.marginal(("any",)).tolist() == [2, 2 * (len(ids) - 1)]
    texts = counts.texts("any")
    assert dict(zip(texts.texts.tolist(), texts.counts.tolist(), strict=True)) == {each[::-1]: 2 for each in ids}
    assert len(texts.texts) == len(ids)
