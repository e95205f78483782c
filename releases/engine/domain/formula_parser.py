"""From the text of a formula to its tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import NoReturn

from releases.engine.domain.columns import FileColumn, is_plain
from releases.engine.domain.formula_tree import (
    DATE_OF,
    SIGNATURES,
    Call,
    Constant,
    Node,
    PerPerson,
    Read,
    Recode,
    Take,
    Type,
)
from releases.engine.errors import InvalidInput

#: Room for a lookup table of `MAX_ENTRIES` short codes.
MAX_LENGTH = 600_000
MAX_ENTRIES = 20_000
#: Each level of a tree is a step of the statement, or two.
MAX_DEPTH = 12
MAX_NODES = 300
MAX_COLUMNS_READ = 100
_MAX_OPEN = 40
_ENTRIES_SHOWN = 3
#: Characters that a refusal quotes.
_SHOWN_OF_PLACE, _SHOWN_OF_FORMULA = 30, 80
#: Of 1970-01-01.
_EPOCH = date(1970, 1, 1).toordinal()
_FUNCTIONS = (*SIGNATURES, "if", "coalesce", "is_missing", "text", "prefix", "recode")
_WORDS = ("and", "or", "not", "true", "false")
_PER_PERSON = {f"{take}_per_person": take for take in Take}
_TAKES = {
    Take.COUNT: tuple(Type),
    Take.SUM: (Type.NUMBER,),
    **dict.fromkeys((Take.ANY, Take.ALL), (Type.TRUTH,)),
    **dict.fromkeys((Take.MIN, Take.MAX), (Type.NUMBER, Type.DATE, Type.MOMENT)),
    Take.MOST_FREQUENT: (Type.TEXT, Type.TRUTH),
    **dict.fromkeys((Take.FIRST, Take.LAST), tuple(Type)),
}
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


# A schema is read at each look at a page, and a lookup table is long.
@lru_cache(maxsize=16)
def tree_of(text: str, reads: tuple[FileColumn, ...]) -> Node:
    return _Parser(text, {each.name: each for each in reads}).whole()


@lru_cache(maxsize=16)
def names_in(text: str) -> tuple[str, ...]:
    """The columns that a formula names, each once.

    Raises:
        InvalidInput: it has a sign that is none of the language.
    """
    names = [name for name, _ in _named(text)]
    if len(set(names)) > MAX_COLUMNS_READ:
        raise InvalidInput("formula", f"{len(set(names)):,} columns", f"must be at most {MAX_COLUMNS_READ}")
    return tuple(dict.fromkeys(names))


def _named(text: str) -> Iterator[tuple[str, _Token]]:
    """Each mention of a column: its name, and the token."""
    tokens = _tokens(text)
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        is_function = after is not None and after.text == "("
        if token.kind == "column":
            yield token.column, token
        elif token.kind == "word" and token.text not in _WORDS and not is_function:
            yield token.text, token


def with_names(text: str, names: Mapping[str, str]) -> str:
    """The same formula of columns that are called otherwise.

    Args:
        names: by the name in the formula, the new one.
    """
    pieces, place = list[str](), 0
    for name, token in _named(text):
        if name in names:
            pieces += [text[place : token.start], f"[{names[name].replace(']', ']]')}]"]
            place = token.start + len(token.text)
    return "".join([*pieces, text[place:]])


def dates_named(text: str) -> tuple[str, ...]:
    """The dates that a formula names, as it writes them, each once."""
    return tuple(dict.fromkeys(token.text for token in _tokens(text) if token.kind == "date"))


def table_text(table: Mapping[str, str]) -> str:
    """A lookup table as it is written in a formula."""
    return "{" + ", ".join(f"{_quoted(key)}: {_quoted(value)}" for key, value in table.items()) + "}"


@lru_cache(maxsize=16)
def shortened(text: str) -> str:
    """A formula of which each long table has its first entries alone, and how many more there are."""
    pieces, place = list[str](), 0
    table = list[_Token]()
    for token in _tokens(text):
        if token.text == "{":
            table = []
        elif token.kind == "text":
            table.append(token)
        elif token.text == "}" and len(table) > 2 * _ENTRIES_SHOWN:
            last = table[2 * _ENTRIES_SHOWN - 1]
            more = len(table) // 2 - _ENTRIES_SHOWN
            pieces += [text[place : last.start + len(last.text)], f", … {more:,} more"]
            place = token.start
    return "".join([*pieces, text[place:]])


# Signs

_TOKEN = re.compile(
    r"""\s*(?:(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})
    |(?P<number>[0-9]+(?:[.][0-9]+)?)
    |(?P<text>"(?:[^"]|"")*")
    |(?P<column>\[(?:[^\]]|\]\])*\])
    |(?P<word>[^\W\d]\w*)
    |(?P<sign><=|>=|!=|[-+*/<>=(),{}:]))""",
    re.VERBOSE,
)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@dataclass(frozen=True, kw_only=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def column(self) -> str:
        return self.text[1:-1].replace("]]", "]")

    @property
    def quoted(self) -> str:
        return self.text[1:-1].replace('""', '"')


@lru_cache(maxsize=1)
def _tokens(text: str) -> tuple[_Token, ...]:
    if len(text) > MAX_LENGTH:
        raise InvalidInput("formula", f"{len(text):,} characters", f"must be at most {MAX_LENGTH:,}")
    found, place, end = [], 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            rest = text[place:].lstrip()
            _refuse(text, len(text) - len(rest), "is no part of a formula; text is written between quotation marks")
        kind = match.lastgroup
        found.append(_Token(kind=kind, text=match[kind], start=match.start(kind)))
        place = match.end()
    return tuple(found)


def _refuse(text: str, start: int, rule: str) -> NoReturn:
    """What is there, and at which character of the formula."""
    rest = text[start : start + _SHOWN_OF_PLACE] or "the end"
    whole = text if len(text) <= _SHOWN_OF_FORMULA else f"{text[:_SHOWN_OF_FORMULA]}…"
    of_it = "" if rest == text else f" of “{whole}”"
    raise InvalidInput("formula", rest, f"(at character {start + 1}{of_it}) {rule}")


def _as_date(node: Node) -> Node:
    """The date of a date and time; anything else as it is. It was not written, so it is not counted."""
    if node.type is not Type.MOMENT:
        return node
    return Call(type=Type.DATE, name=DATE_OF, arguments=(node,), depth=node.depth)


def _alike(nodes: list[Node]) -> list[Node]:
    """Dates and times as dates where one of the others is a date."""
    return [_as_date(each) for each in nodes] if any(each.type is Type.DATE for each in nodes) else nodes


# Grammar, from what binds least to what binds most


class _Parser:
    def __init__(self, text: str, columns: Mapping[str, FileColumn]) -> None:
        self._text, self._tokens, self._columns = text, _tokens(text), columns
        self._place, self._nodes, self._open = 0, 0, 0
        # Of all rows of a person: the function that is being read, the first one, and the first column outside of any.
        self._within, self._function_of_person, self._outside = "", "", -1

    def whole(self) -> Node:
        if not self._tokens:
            raise InvalidInput("formula", self._text, "must not be empty")
        tree = self._either()
        if self._place < len(self._tokens):
            self._refuse("was not expected here")
        if self._function_of_person and self._outside >= 0:
            rule = (
                f"has a value in each row, and {self._function_of_person} one of each person: put it within a function "
                "of all rows of a person too, such as max_per_person or last_per_person"
            )
            _refuse(self._text, self._outside, rule)
        return tree

    def _per_person(self, named: _Token) -> Node:
        if self._within:
            rule = f"is within {self._within}, which takes a value of each row; {named.text} has one of each person"
            _refuse(self._text, named.start, rule)
        self._within = named.text
        found = self._taken(_PER_PERSON[named.text], named.start)
        self._within = ""
        if self._function_of_person:
            return self._counted(found)
        self._function_of_person = named.text
        return found

    def _taken(self, take: Take, start: int) -> PerPerson:
        if take is Take.COUNT and self._accepts(")"):
            return PerPerson(type=Type.NUMBER, take=take)
        of, by, lowest, highest = self._either(), None, Decimal(0), Decimal(0)
        if of.type not in _TAKES[take]:
            wanted = " or a ".join(each for each in _TAKES[take] if each is not Type.MOMENT)
            _refuse(self._text, start, f"takes a {wanted} of each row, and was given a {of.type}")
        if take is Take.SUM:
            lowest, highest = (self._end() for _ in range(2))
            if not lowest < highest:
                _refuse(self._text, start, "must have a lowest value of a row below the highest, such as 0, 1000")
        elif take.is_in_time:
            self._expects(",")
            named = self._value()
            if not isinstance(named, Read) or named.type not in (Type.DATE, Type.MOMENT):
                _refuse(self._text, start, "takes a value and a column that is declared with dates, which orders rows")
            by = self._columns[named.name]
        self._expects(")")
        type_ = Type.NUMBER if take is Take.COUNT else of.type
        return PerPerson(type=type_, take=take, of=of, by=by, lowest=lowest, highest=highest)

    def _end(self) -> Decimal:
        """One end of what a row's value is clamped to."""
        self._expects(",")
        is_minus = self._accepts("-")
        token = self._tokens[self._place] if self._place < len(self._tokens) else None
        if token is None or token.kind != "number" or len(token.text) > 40:
            self._refuse("was not expected here; the lowest and the highest value of a row were, such as 0, 1000")
        self._place += 1
        return -Decimal(token.text) if is_minus else Decimal(token.text)

    def _either(self) -> Node:
        return self._chain("or", self._both)

    def _both(self) -> Node:
        return self._chain("and", self._negated)

    def _chain(self, word: str, part: Callable[[], Node]) -> Node:
        start, parts = self._start, [part()]
        while self._accepts(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else self._call(start, word, parts, [Type.TRUTH] * len(parts), Type.TRUTH)

    def _negated(self) -> Node:
        start = self._start
        if not self._accepts("not"):
            return self._compared()
        with_rest = self._nested(self._negated)
        return self._call(start, "not", [with_rest], [Type.TRUTH], Type.TRUTH)

    def _compared(self) -> Node:
        start, left = self._start, self._sum()
        for sign in _COMPARISONS:
            if self._accepts(sign):
                left, right = (_as_date(each) for each in (left, self._sum()))
                if sign not in ("=", "!=") and left.type not in (Type.NUMBER, Type.DATE):
                    _refuse(self._text, start, f"is a {left.type}; {sign} compares numbers or dates")
                return self._call(start, sign, [left, right], [left.type] * 2, Type.TRUTH)
        return left

    def _sum(self) -> Node:
        start, minus = self._start, [self._accepts("-")]
        terms = [self._product()]
        while (sign := self._sign("+", "-")) is not None:
            minus.append(sign == "-")
            terms.append(self._product())
        if len(terms) == 1 and not minus[0]:
            return terms[0]
        return self._call(start, "+", terms, [Type.NUMBER] * len(terms), Type.NUMBER, minus=tuple(minus))

    def _product(self) -> Node:
        start, left = self._start, self._value()
        while (sign := self._sign("*", "/")) is not None:
            left = self._call(start, sign, [left, self._value()], [Type.NUMBER] * 2, Type.NUMBER)
        return left

    def _value(self) -> Node:
        if self._place >= len(self._tokens):
            self._refuse("a value is missing")
        token = self._tokens[self._place]
        self._place += 1
        if token.kind == "column":
            return self._read(token.column, token.start)
        if token.text in ("true", "false"):
            return self._constant(Type.TRUTH, token.text == "true")
        if token.kind == "word" and token.text not in _WORDS:
            return self._function(token) if self._accepts("(") else self._read(token.text, token.start)
        if token.text == "(":
            inside = self._nested(self._either)
            self._expects(")")
            return inside
        if token.kind not in ("date", "number", "text"):
            self._place -= 1
            self._refuse("was not expected here; a value was")
        return self._written(token)

    def _written(self, token: _Token) -> Node:
        if token.kind == "text":
            return self._constant(Type.TEXT, self._plain(token))
        if token.kind == "number":
            if len(token.text) > 40:
                _refuse(self._text, token.start, "has more than 40 digits")
            return self._constant(Type.NUMBER, float(token.text))
        try:
            return self._constant(Type.DATE, float(date.fromisoformat(token.text).toordinal() - _EPOCH))
        except ValueError:
            _refuse(self._text, token.start, "is no date of the calendar")

    def _read(self, name: str, start: int) -> Node:
        read = self._columns[name]
        dated = Type.MOMENT if read.has_time else Type.DATE
        type_ = dated if read.kind.is_of_dates else Type.NUMBER if read.is_numeric else Type.TEXT
        if not self._within and self._outside < 0:
            self._outside = start
        return self._counted(Read(type=type_, name=name))

    def _constant(self, type_: Type, value: float | str | bool) -> Node:
        return self._counted(Constant(type=type_, value=value))

    def _function(self, named: _Token) -> Node:
        name, start = named.text, named.start
        if name in _PER_PERSON:
            return self._per_person(named)
        if name not in _FUNCTIONS:
            _refuse(self._text, start, f"is no function; there are {', '.join((*_FUNCTIONS, *_PER_PERSON))}")
        if name == "recode":
            return self._recode(start)
        if name == "text":
            return self._as_text(start)
        arguments = [self._nested(self._either)]
        while self._accepts(","):
            arguments.append(self._nested(self._either))
        self._expects(")")
        if name in SIGNATURES:
            takes, gives = SIGNATURES[name]
            return self._call(start, name, arguments, takes, gives)
        return self._general(start, name, arguments)

    def _general(self, start: int, name: str, arguments: list[Node]) -> Node:
        """A function that takes values of several types."""
        if name in ("coalesce", "if"):
            arguments = _alike(arguments)
        first = arguments[0].type
        if name == "is_missing":
            return self._call(start, name, arguments, [first], Type.TRUTH)
        if name == "coalesce":
            return self._call(start, name, arguments, [first] * max(2, len(arguments)), first)
        if name == "prefix":
            node = self._call(start, name, arguments, [Type.TEXT, Type.NUMBER], Type.TEXT)
            length = arguments[1]
            if not isinstance(length, Constant) or length.value not in range(1, 1001):
                _refuse(self._text, start, "must have a whole number of characters that is written, 1 to 1,000")
            return node
        if len(arguments) not in (2, 3):
            _refuse(
                self._text,
                start,
                "takes a condition, the value where it is true, and perhaps the value where it is false",
            )
        chosen = arguments[1].type
        return self._call(start, name, arguments, [Type.TRUTH, *[chosen] * (len(arguments) - 1)], chosen)

    def _as_text(self, start: int) -> Node:
        named = self._value()
        if not isinstance(named, Read):
            _refuse(self._text, start, "takes the name of a column")
        self._expects(")")
        return self._counted(Read(type=Type.TEXT, name=named.name))

    def _recode(self, start: int) -> Node:
        of = self._nested(self._either)
        if of.type is not Type.TEXT:
            _refuse(
                self._text, start, f"looks up a text, and was given a {of.type}; text(column) is the text of a column"
            )
        self._expects(",")
        self._expects("{")
        table: dict[str, str] = {}
        while not self._accepts("}"):
            if table:
                self._expects(",")
            key = self._quoted_text()
            self._expects(":")
            value = self._quoted_text()
            if key in table:
                self._refuse(f"follows the key {key!r}, which is there twice")
            table[key] = value
        if not 1 <= len(table) <= MAX_ENTRIES:
            _refuse(
                self._text, start, f"must have a table of 1 to {MAX_ENTRIES:,} entries; this one has {len(table):,}"
            )
        otherwise = self._quoted_text() if self._accepts(",") else None
        self._expects(")")
        return self._counted(Recode(of=of, table=tuple(table.items()), otherwise=otherwise, depth=of.depth + 1))

    def _quoted_text(self) -> str:
        if self._place >= len(self._tokens) or self._tokens[self._place].kind != "text":
            self._refuse("was not expected here; a text between quotation marks was")
        self._place += 1
        return self._plain(self._tokens[self._place - 1])

    def _plain(self, token: _Token) -> str:
        if not is_plain(token.quoted) or len(token.quoted) > 1000:
            _refuse(
                self._text, token.start, "must be printable text of at most 1,000 characters, without spaces around it"
            )
        return token.quoted

    # Pieces

    def _call(
        self,
        start: int,
        name: str,
        arguments: Sequence[Node],
        takes: Sequence[Type],
        gives: Type,
        *,
        minus: tuple[bool, ...] = (),
    ) -> Node:
        if len(arguments) != len(takes):
            _refuse(
                self._text, start, f"takes {len(takes)} value{'' if len(takes) == 1 else 's'}, not {len(arguments)}"
            )
        pairs = list(zip(arguments, takes, strict=True))
        arguments = [_as_date(argument) if wanted is Type.DATE else argument for argument, wanted in pairs]
        for position, (argument, wanted) in enumerate(zip(arguments, takes, strict=True), start=1):
            if argument.type is not wanted:
                shown = "-" if name == "+" and any(minus) else name
                _refuse(
                    self._text, start, f"gives {shown} a {argument.type} as value {position}, which must be a {wanted}"
                )
        depth = 1 + max(each.depth for each in arguments)
        return self._counted(Call(type=gives, name=name, arguments=tuple(arguments), minus=minus, depth=depth))

    def _counted(self, node: Node) -> Node:
        self._nodes += 1
        if self._nodes > MAX_NODES or node.depth > MAX_DEPTH:
            rule = f"must be at most {MAX_NODES} values and operations, and at most {MAX_DEPTH} within each other"
            raise InvalidInput("formula", self._text[:60], rule)
        return node

    def _nested(self, part: Callable[[], Node]) -> Node:
        self._open += 1
        if self._open > _MAX_OPEN:
            self._refuse(f"is within more than {_MAX_OPEN} brackets")
        inside = part()
        self._open -= 1
        return inside

    @property
    def _start(self) -> int:
        return self._tokens[self._place].start if self._place < len(self._tokens) else len(self._text)

    def _accepts(self, sign: str) -> bool:
        return self._sign(sign) is not None

    def _sign(self, *signs: str) -> str | None:
        if self._place >= len(self._tokens) or self._tokens[self._place].text not in signs:
            return None
        self._place += 1
        return self._tokens[self._place - 1].text

    def _expects(self, sign: str) -> None:
        if not self._accepts(sign):
            self._refuse(f"was not expected here; {sign} was")

    def _refuse(self, rule: str) -> NoReturn:
        _refuse(self._text, self._start, rule)
