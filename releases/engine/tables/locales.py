"""How numbers and dates are written in a country, by the Common Locale Data Repository: what a file's country proposes.

The country is declared by the person who has the file; no row is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from releases.engine.domain.dates import DATE_FORMATS
from releases.engine.errors import InvalidInput
from releases.engine.tables.number import THOUSANDS

#: The code page in which Windows programs write text that is not Unicode, with the languages that it is for.
_CODE_PAGES = {
    "windows-1252": {
        *(
            "af",
            "ca",
            "da",
            "de",
            "en",
            "es",
            "eu",
            "fi",
            "fo",
            "fr",
            "ga",
            "gl",
            "id",
            "is",
            "it",
            "lb",
            "ms",
            "nb",
            "nl",
        ),
        *("nn", "pt", "sv", "sw"),
    },
    "windows-1250": {"bs", "cs", "hr", "hu", "pl", "ro", "sk", "sl", "sq", "sr_Latn"},
    "windows-1251": {"be", "bg", "mk", "ru", "sr", "uk"},
    "windows-1253": {"el"},
    "windows-1254": {"az", "tr"},
    "windows-1257": {"et", "lt", "lv"},
}
#: By the order of day, month and year, and the sign between them.
_FORMATS = {
    ("dMy", "."): "DD.MM.YYYY",
    ("dMy", "/"): "DD/MM/YYYY",
    ("dMy", "-"): "DD-MM-YYYY",
    ("Mdy", "/"): "MM/DD/YYYY",
    ("yMd", "/"): "YYYY/MM/DD",
    ("yMd", "-"): "YYYY-MM-DD",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Habits:
    """How numbers and dates are written in a country, and text where nothing says its encoding.

    Attributes:
        country: its name, with the language where it has several.
        decimal: a point or a comma; empty for other signs.
        thousands: one of `THOUSANDS`, or empty.
        date_format: one of `DATE_FORMATS`, or empty.
        encoding: one of `ENCODINGS`, or empty.
    """

    country: str
    decimal: str
    thousands: str
    date_format: str
    encoding: str


@cache
def countries() -> dict[str, str]:
    """By locale, such as ``de_CH``, the name of its country in the order of names."""
    from babel import Locale, UnknownLocaleError
    from babel.languages import get_official_languages

    english, found = Locale("en"), {}
    for territory, name in english.territories.items():
        if len(territory) != 2:
            continue
        languages = []
        for language in get_official_languages(territory, de_facto=True):
            try:
                languages.append(Locale.parse(f"{language}_{territory}"))
            except UnknownLocaleError:
                continue
        for each in languages:
            found[str(each)] = f"{name} ({each.get_language_name('en')})" if len(languages) > 1 else str(name)
    # Two locales of one name are of one language in two alphabets.
    names = list(found.values())
    for code, name in found.items():
        if names.count(name) > 1:
            script = Locale.parse(code).script
            found[code] = f"{name.removesuffix(')')}, {english.scripts.get(script, script)})"
    return dict(sorted(found.items(), key=lambda each: each[1]))


def checked_locale(given: str) -> str:
    """A locale as it is stored.

    Raises:
        InvalidInput: no country is known by it.
    """
    locale = given.replace("-", "_")
    if locale and locale not in countries():
        raise InvalidInput("locale", given, "must be the code of a language and a country, such as de_DE or en_US")
    return locale


@cache
def habits_of(locale: str) -> Habits:
    """What a country proposes, by a locale that is known."""
    from babel import Locale

    read = Locale.parse(locale)
    # By the digits that are read here, whatever others the country has.
    signs = read.number_symbols["latn"]
    decimal = signs["decimal"] if signs["decimal"] in (".", ",") else ""
    groups = (name for name, known in THOUSANDS.items() if signs["group"] in known)
    pattern = read.date_formats["short"].pattern
    order = "".join(dict.fromkeys(each for each in pattern if each in "dMy"))
    sign = next((each for each in pattern if each in "./-"), "")
    languages = {read.language, f"{read.language}_{read.script}"}
    pages = (page for page, known in _CODE_PAGES.items() if known & languages)
    return Habits(
        country=countries()[locale],
        decimal=decimal,
        thousands=next(groups, ""),
        date_format=_FORMATS.get((order, sign), DATE_FORMATS[0] if order == "yMd" else ""),
        encoding=next(pages, ""),
    )
