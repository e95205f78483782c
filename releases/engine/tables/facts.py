"""How an uploaded file is written, as its curator declares it; nothing of it is found in rows.

What is not declared is proposed from what is public: the byte order mark, the line that names the columns, the names of
sheets and of an archive's members, and the country that the file comes from, where that is declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from releases.engine.errors import InvalidInput
from releases.engine.tables.locales import Habits, checked_locale, habits_of
from releases.engine.tables.number import THOUSANDS, NumberForm

#: As Python calls them, and as people do.
ENCODINGS = {
    "utf-8": "UTF-8",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16, little-endian",
    "utf-16-be": "UTF-16, big-endian",
    "windows-1250": "Windows-1250 (Central European)",
    "windows-1251": "Windows-1251 (Cyrillic)",
    "windows-1252": "Windows-1252 (Western European)",
    "windows-1253": "Windows-1253 (Greek)",
    "windows-1254": "Windows-1254 (Turkish)",
    "windows-1257": "Windows-1257 (Baltic)",
    "latin-1": "Latin-1",
}
#: Of files that are read here.
SUFFIXES = (
    *(".csv", ".tsv", ".txt", ".xlsx", ".xlsm", ".ods", ".sav", ".zsav", ".dta", ".sas7bdat", ".xpt"),
    *(".parquet", ".feather", ".arrow", ".zip", ".gz"),
)
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": " "}
QUOTES = ('"', "'", "none")
_LONGEST_NAME = 500
_TYPED = ("has_header", "header_row", "number_names")


#: The field of a refusal that is the fault of a server.
SERVER = "server"


class UnreadableTable(InvalidInput):
    """An uploaded file is not a table that can be read. The message is for the person who has the file.

    Attributes:
        field: the fact that is wrong, or `table`, where the rule is a sentence of its own.
    """

    def __init__(self, rule: str, *, value: object = "file", field: str = "table") -> None:
        super().__init__(field, value, rule)

    def __str__(self) -> str:
        return self.rule if self.field == "table" else super().__str__()


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFacts:
    """What is declared of a file. An empty text is not declared.

    Attributes:
        locale: of the country that it comes from, which proposes how numbers and dates are written.
        separator: of values in a text file: one character.
        encoding: of a text file, one of `ENCODINGS`.
        decimal: the decimal sign of numbers that are text, in a file of any kind: a point or a comma.
        thousands: the sign between thousands in numbers that are text, one of `number.THOUSANDS`.
        quote: around values of a text file that hold a separator, one of `QUOTES`.
        has_header: the row `header_row` names the columns; else they are numbered.
        number_names: columns may be named by numbers, such as 2023; else these are taken for values, and refused.
        sheet: of a workbook, by its name, or its number from 1.
        header_row: of a text file or a workbook, from 1; rows above it are skipped.
        member: of an archive, by its name.
    """

    locale: str = ""
    separator: str = ""
    encoding: str = ""
    decimal: str = ""
    thousands: str = ""
    quote: str = ""
    has_header: bool = True
    number_names: bool = False
    sheet: str = ""
    header_row: int = 1
    member: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "locale", checked_locale(self.locale))
        _check_separator(self.separator, self.quote)
        _check_one_of("encoding", self.encoding, ENCODINGS)
        _check_one_of("decimal", self.decimal, (".", ","))
        _check_one_of("thousands", self.thousands, THOUSANDS)
        _check_one_of("quote", self.quote, QUOTES)
        if self.thousands and self.thousands == (self.decimal or "."):
            raise InvalidInput("thousands", self.thousands, "must not be the decimal sign")
        if not 1 <= self.header_row <= 1000:
            raise InvalidInput("header_row", self.header_row, "must be from 1 to 1,000")
        for field in ("sheet", "member"):
            if len(getattr(self, field)) > _LONGEST_NAME:
                raise InvalidInput(field, getattr(self, field), f"must be at most {_LONGEST_NAME} characters long")

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> FileFacts:
        """Read facts as programs and forms give them: a separator also by its name, numbers also as text.

        Raises:
            InvalidInput: naming the field, the value and the rule.
        """
        known = {each.name for each in fields(cls)}
        for name in given:
            if name not in known:
                raise InvalidInput("facts", name, f"must be one of {', '.join(sorted(known))}")
        texts = {name: str(value) for name, value in given.items() if value is not None and name not in _TYPED}
        texts["separator"] = SEPARATORS.get(texts.get("separator", ""), texts.get("separator", ""))
        texts["encoding"] = texts.get("encoding", "").lower()
        return cls(
            **texts,
            has_header=_yes_or_no("has_header", given, usual=True),
            number_names=_yes_or_no("number_names", given, usual=False),
            header_row=_whole(given.get("header_row")),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def habits(self) -> Habits | None:
        """Those of its country; None where none is declared."""
        return habits_of(self.locale) if self.locale else None

    def with_habits(self) -> FileFacts:
        """With the signs of numbers that its country has. Where commas separate values and its numbers have a decimal
        comma, either sign is likely, and none is proposed."""
        if (habits := self.habits) is None:
            return self
        proposed = "" if self.separator == habits.decimal == "," else habits.decimal
        decimal = self.decimal or proposed
        thousands = habits.thousands if decimal == habits.decimal and self.separator != habits.thousands else ""
        return replace(self, decimal=decimal, thousands=self.thousands or thousands)

    @property
    def number_form(self) -> NumberForm:
        return NumberForm(decimal=self.decimal or ".", thousands=self.thousands)

    @property
    def quote_sign(self) -> str:
        return {"": '"', "none": ""}.get(self.quote, self.quote)

    def in_words(self) -> str:
        """What was declared or proposed, for people."""
        named = {sign: name for name, sign in SEPARATORS.items()} | {".": "point", "'": "apostrophe"}
        said = [
            f"from {self.habits.country}" if self.habits is not None else "",
            f"{self.member} of the archive" if self.member else "",
            f"sheet {self.sheet}" if self.sheet else "",
            "" if self.has_header else "no line names the columns",
            "names can be numbers" if self.number_names else "",
            f"names in row {self.header_row}" if self.header_row > 1 else "",
            f"separator {named.get(self.separator, self.separator)}" if self.separator else "",
            ENCODINGS.get(self.encoding, ""),
            f"quotation mark {self.quote}" if self.quote else "",
            f"decimal sign {named[self.decimal]}" if self.decimal else "",
            f"thousands sign {named.get(self.thousands, self.thousands)}" if self.thousands else "",
        ]
        return ", ".join(each for each in said if each)


def _check_separator(separator: str, quote: str) -> None:
    if not separator:
        return
    if len(separator) != 1 or separator.isalnum() or separator in "\r\n\0" or separator == (quote or '"'):
        raise InvalidInput(
            "separator",
            separator,
            f"must be one sign that is no letter, digit or quotation mark, or one of {', '.join(SEPARATORS)}",
        )


def _check_one_of(field: str, value: str, known: Any) -> None:
    if value and value not in known:
        raise InvalidInput(field, value, f"must be one of {', '.join(each for each in known if each)}")


def _yes_or_no(field: str, given: Mapping[str, Any], *, usual: bool) -> bool:
    value = given.get(field)
    said = {None: usual, "yes": True, "true": True, "no": False, "false": False}
    if isinstance(value, bool):
        return value
    if (found := said.get(value if value is None else str(value).lower())) is None:
        raise InvalidInput(field, value, "must be yes or no")
    return found


def _whole(value: object) -> int:
    if value is None:
        return 1
    if isinstance(value, bool) or not str(value).isdecimal() or len(str(value)) > 9:
        raise InvalidInput("header_row", value, "must be a whole number")
    return int(str(value))
