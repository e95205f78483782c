"""Levels: a counted row of a dirty table always has bins that go together, and each combination that may be is had.

Columns look up a text of a row, or its first characters, or have these as they are.
"""

from __future__ import annotations

import random
from collections import Counter

from releases.engine.domain.schema import Schema
from releases.engine.tables.query import TableCounts
from tests.engine.tables.reference import Reference
from tests.engine.tables.reference_formulas import value, written
from tests.engine.tables.test_contract import EACH_ENGINE, WORDS, without_nul

TOWN, OTHER_TOWN = "Gemeinde \\", "plain"
#: Alike to a careless reader: in case, in composed letters, by spaces, by quotation marks.
TEXTS = ["t1", "T1", "t2", "t 2", "é", "e\u0301", "ß", "ss", "a'b", 'a"b', "%s", "\\n", "𝔘", "other", "f", "zz"]
#: More than a chain of comparisons takes.
MANY = [f"c{place}" for place in range(70)]


def declared(drawn):
    """A column of towns with all that can be declared of it, and two or three that look its texts up."""
    many = MANY if drawn.random() < 0.3 else []
    codes = drawn.sample(TEXTS, drawn.randrange(3))
    towns = [*drawn.sample([each for each in TEXTS if each not in codes], drawn.randrange(2, 9)), *many]
    town = {"name": TOWN, "type": "categorical", "categories": towns, "missing": codes, **rules(drawn, towns)}
    columns, formulas = [town], {}
    for place in range(drawn.randrange(2, 4)):
        found = drawn.sample(TEXTS, drawn.randrange(1, 4))
        text, known = ("column", TOWN), TEXTS
        if drawn.random() < 0.6:
            first = drawn.randrange(1, 4)
            text, known = ("prefix", text, first), beginnings(first)
        if text[0] == "prefix" and drawn.random() < 0.5:
            tree, categories = text, drawn.sample(known, drawn.randrange(2, 6))
        else:
            keys = [*drawn.sample(known, drawn.randrange(2, min(12, len(known)))), *many]
            table = {key: drawn.choice([*found, "v0"]) for key in keys}
            categories = [*found, *drawn.sample(["v0", "v1", "v2"], 2)]
            tree = ("recode", text, table, drawn.choice([None, *found, "v1"]))
        name = f"level {place}"
        formulas[name] = tree
        made = {"name": name, "type": "categorical", "categories": categories, "formula": written(tree)}
        columns.append({**made, **rules(drawn, categories)})
    drawn.shuffle(columns)
    plain = {"name": OTHER_TOWN, "type": "categorical", "categories": TEXTS[:3], "outside": TEXTS[0]}
    return {"version": 1, "columns": [*columns, plain]}, formulas


def beginnings(first):
    """What so many characters of a text can be; and what they cannot be, for it is longer."""
    return [*dict.fromkeys(each[:first].strip() for each in TEXTS), "a'b"]


def rules(drawn, categories):
    found = {"outside": drawn.choice(["drop", *categories[:2]])}
    if drawn.random() < 0.4:
        found["missing_as"] = drawn.choice(["drop", *categories[:2]])
    return found


def all_texts(drawn):
    """Each text that a declaration may name, written in several ways, and others."""
    spaced = [f" {each}\t" for each in TEXTS] + [f"\u00a0{each}" for each in TEXTS[:3]]
    # Which begin as one that may be named, and are none.
    longer = [
        f"{each:{first}}~" for first in (1, 2, 3) for each in [*beginnings(first), *(one[:first] for one in MANY)]
    ]
    texts = [*TEXTS, *MANY, *spaced, *dict.fromkeys(longer), "~", *WORDS, None, "", "  "]
    return without_nul([{TOWN: each, OTHER_TOWN: drawn.choice([None, *TEXTS])} for each in texts])


@EACH_ENGINE
def test_the_bins_of_a_hierarchy_that_occur_in_a_table_of_all_texts_are_its_ways(load, request):
    """As each database counts, and as the reference does: neither more nor fewer."""
    drawn, seen = random.Random(4), Counter()
    rows = all_texts(drawn)
    table = load(rows, request)
    for _ in range(60 if load.__name__ == "in_duckdb" else 8):
        schema_json, formulas = declared(drawn)
        schema = Schema.from_json(schema_json)
        of_one = [name for name in schema.universe.names if name != OTHER_TOWN]
        for names in ([*of_one, OTHER_TOWN], of_one, of_one[1:]):
            about = schema.project(names)
            said = [{**each} for each in schema_json["columns"] if each["name"] in names]
            read = {TOWN: next(each for each in schema_json["columns"] if each["name"] == TOWN)}
            made = {each: lambda row, tree=tree, read=read: value(tree, row, read) for each, tree in formulas.items()}
            reference = Reference({"columns": said, "unit": {"kind": "row"}}, rows, made)
            counted = [name for name in about.universe.names if name != OTHER_TOWN]
            cells = {cell for cell, many in reference.cells(counted).items() if many}
            marginal = TableCounts(table, about).marginal(tuple(counted))
            assert {tuple(map(int, cell)) for cell in zip(*marginal.nonzero(), strict=True)} == cells
            if not about.universe.hierarchies:
                assert len(cells) == marginal.size or len(counted) < 2
                continue
            (found,) = about.universe.hierarchies
            assert list(found.names) == counted
            assert set(found.ways) == cells
            seen["limited"] += 1
            seen["none"] += not cells
            for fine in counted:
                for coarse in counted:
                    beside = [
                        {cell[counted.index(coarse)] for cell in cells if cell[counted.index(fine)] == place}
                        for place in range(len(about.universe[fine].categories))
                    ]
                    mapped = found.map_between(fine, coarse)
                    assert (mapped is None) is any(len(each) > 1 for each in beside)
                    if mapped is not None:
                        assert [{place} - {-1} for place in mapped] == beside
                        seen["levels"] += fine != coarse
                    else:
                        seen["no levels"] += 1
    assert seen["limited"] > 20
    assert seen["levels"] > 20
    assert seen["no levels"] > 20
