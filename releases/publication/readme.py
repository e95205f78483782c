"""What the downloads of a release say of themselves: accuracy, cost, protection, and how to cite it.

All of it is read off the receipt, so it is the same whenever it is asked for, and there for every release of old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from textwrap import fill
from typing import Any

from django.urls import reverse
from django.utils.text import slugify

from releases.publication.receipt import (
    counted_by,
    counted_in_words,
    limit_in_words,
    percent,
    protects_text,
    sensible,
    spent,
    spent_text,
    synthetic_beside,
)
from releases.publication.replicates import replicates_in_words

README = "README.txt"
#: What each file holds, by the beginning of its name.
FILES = {
    "answers": "Every answer with its error band",
    "totals": "What all groups of each question are together, with error bands",
    "associations": "The counts of every pair of columns that was chosen, each with its error band",
    "boundaries": "The regions of the maps, by column, as GeoJSON",
    "synthetic": "Synthetic rows",
    "replicates": "Replicates of the synthetic rows, for intervals of numbers worked out from them",
    "disclosure_test": "What an attack finds out on invented tables, in numbers",
    "trust_map": "How far the synthetic rows can be trusted",
    "dictionary": "What every column, bin and category means",
    "receipt": "The receipt, to judge the release without the data",
    "report": "The result to read and to print, with charts",
    "notebook": "A notebook that draws the charts again",
    "README": "This text: accuracy, cost, protection, and how to cite it",
    "release": "All of these, and how to cite them",
}
#: How a quotation of a check begins.
BY_CHECK = "By the check of the columns"
#: Digits of a version: of two releases' receipts, none will ever share so many by accident.
_VERSION_LENGTH = 16
#: Of a title and of an identifier in the name of a file.
_SLUG_LENGTH, _SHORT_LENGTH = 40, 8
_WIDTH = 100


def description_of(receipt: Mapping[str, Any]) -> dict[str, str]:
    """What stands beside the numbers wherever a file has room for it."""
    return {
        "release": receipt["release"],
        "path": path_of(receipt),
        "title": receipt["title"],
        "dataset": receipt["dataset"],
        "date": receipt["date"],
        "sentence": receipt["bound"]["sentence"],
        "confidence": confidence_of(receipt),
        "bound": receipt["bound"]["proof"],
        **spent(receipt),
        "protects": protects_text(receipt),
        "mechanism": receipt["mechanism"]["name"],
    }


def path_of(receipt: Mapping[str, Any]) -> str:
    """Of the release's page, on whichever site it is."""
    return reverse("release_detail", args=[receipt["release"]])


def confidence_of(receipt: Mapping[str, Any]) -> str:
    return percent(1 - Fraction(receipt["bound"]["beta"]))


def name_of(title: str, number: str) -> str:
    """What the files of a release are told apart by, among those of others: its title and its short identifier."""
    return f"{slugify(title)[:_SLUG_LENGTH].strip('-') or 'release'}-{number[:_SHORT_LENGTH]}"


def citation_text(receipt: Mapping[str, Any], *, digest: str, address: str) -> str:
    """What a person writes below a number taken from a release."""
    spent_on = f"{sensible(spent_text(receipt))}; {receipt['mechanism']['title']}"
    return (
        f"{receipt['title']}. {receipt['dataset']}, released under differential privacy ({spent_on}), "
        f"{receipt['date']}. Version {version_of(digest)}. {address}"
    )


def version_of(digest: str) -> str:
    return digest[:_VERSION_LENGTH]


def readme_text(
    receipt: Mapping[str, Any],
    names: Iterable[str],
    *,
    digest: str,
    address: str,
    table: str = "",
    attack: Iterable[str] = (),
    check: Iterable[str] = (),
) -> str:
    """The text that goes with the files.

    Args:
        names: of the files it goes with.
        digest: SHA-256 of receipt.json.
        address: of the release's page.
        table: what the table is, as the curator had put it when the release was made.
        attack: what was found out on invented tables, in sentences.
        check: what a check of the columns says of the rows that are left out, in sentences.
    """
    bound, beside, counted = receipt["bound"], synthetic_beside(receipt), counted_by(receipt)
    check = [*check]
    is_checked = any(each.startswith(BY_CHECK) for each in check)
    of_answers = "It speaks of the answers, not of the synthetic rows. " if receipt["synthetic_rows"] else ""
    parts = {
        **({"The table": [table]} if table else {}),
        "Accuracy": [
            bound["sentence"],
            f"This bound is {bound['proof']}. {of_answers}It speaks of the {counted.many} that were counted: "
            f"{counted.many} that the rules below leave out are not in the true counts that it means, however many they"
            " are.",
            f"Its page names every certificate of its measured quality, also those made later: {address}",
        ],
        counted.many.capitalize(): [counted_in_words(receipt, is_checked=is_checked), *check],
        **({"Synthetic rows": said} if (said := [*filter(None, (limit_in_words(receipt), beside))]) else {}),
        **({"Intervals from replicates": [*intervals]} if (intervals := replicates_in_words(receipt)) else {}),
        **({"What an attack finds out": said} if (said := [*attack]) else {}),
        "Cost": [f"{spent_text(receipt)}, by {receipt['mechanism']['title']}. {receipt['mechanism']['source']}"],
        "Protection": [f"Protects {protects_text(receipt)}."],
        # Receipts of old do not say it themselves; the dictionary does for all.
        "Values that were not declared": list(receipt.get("rules_in_words", ())) or ["See dictionary.csv."],
        "Files": [f"{name}: {FILES[name.split('.')[0]]}" for name in names],
        "How to cite": [
            citation_text(receipt, digest=digest, address=address),
            f"The version is the beginning of the SHA-256 of receipt.json: {digest}",
        ],
    }
    heads = [receipt["title"], f"{receipt['dataset']}, {receipt['date']}", f"Release {receipt['release']}"]
    body = "\n\n".join(f"{title}\n\n" + "\n".join(map(_wrapped, lines)) for title, lines in parts.items())
    return "\n".join(heads) + f"\n\n\n{body}\n"


def _wrapped(line: str) -> str:
    return fill(
        line, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
