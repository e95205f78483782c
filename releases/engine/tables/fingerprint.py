"""What recognises rows that come back in another dress: a digest of what is counted, and a sketch of all rows.

Both are keyed, so that without the installation's key neither tells anything, not even to whoever guesses a row. Both
take a value as it is counted, without spaces around it and a number as that number, and ignore the names of columns and
the order of rows and columns.

The digest is the same where the declared columns hold the same rows, and else another.

Few distinct rows are no evidence of the same people: 137 of 500 who smoke are two distinct rows, and whoever invents
them would be answered how many there are. So neither says anything below `ENOUGH` distinct rows, which is as many as a
sample keeps: above, nobody without the key knows which rows are in it.

The sketch lets two tables be compared of which one is gone. For a set S of columns let h_S(row) be the sum of the keyed
hashes of the row's values in S, modulo 2**48. Kept are, for all columns, all but one, and each two, the `_KEPT` least
h_S with a mark of how often each occurs: a bottom-k sample (Cohen and Kaplan 2007, Summarizing data using bottom-k
sketches) of the distinct rows. Tables that differ by columns left out, added or renamed have the sets of those columns
that stayed in common.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from itertools import combinations
from math import exp, lgamma, log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from releases.engine.tables.connection import Limits, connect
from releases.engine.tables.number import PLAIN, NumberForm
from releases.engine.tables.stored import number_form_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

#: Least hashes kept of each set of columns: a share is estimated to within a few hundredths.
_KEPT = 256
#: Distinct rows from which on two tables can be evidence of the same people.
ENOUGH = _KEPT
#: Of wider tables, sets without one column, and sets of two, are taken of these many columns alone.
_LEFT_OUT, _PAIRED = 16, 8
#: Columns that one statement hashes.
_AT_A_TIME = 500
#: A list of columns of which each is hashed or brought into one form: one expression to plan, however many there are.
_EACH_CELL = "list_transform([{}], lambda each: cell(each))"
_EACH_VALUE = "list_transform([{}], lambda each: value(each))"
#: Rows by which the chance of two people's being alike is estimated.
_SAMPLED = 4096
_HASH_BITS = 48
_MASK = (1 << _HASH_BITS) - 1
_MARK_BITS = 16
#: Standard deviations by which a share must be surely above what chance explains, and above `FEW`.
_SURE = 3.0
#: Shares that are told apart: from a few rows on, from half of them on, from nearly all on.
FEW, HALF, ALL = 0.1, 0.5, 0.9
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """The least hashes of one set of columns, in order.

    Attributes:
        chance: the share that tables of unrelated people may have in common, rounded up to a hundredth.
        marked: the hashes in the upper bits, below them a keyed mark of how often each occurs.
    """

    chance: float
    marked: NDArray[np.uint64]


def digests(path: Path, columns: Sequence[str], *, key: bytes, limits: Limits | None = None) -> tuple[bool, str | None]:
    """What is known of a table by equality alone.

    Returns:
        Whether it has `ENOUGH` distinct rows for an equal file to be evidence of the same people; and a text that is
        the same for the same rows of the columns, whatever else the table holds: empty below `ENOUGH`, None without
        columns.
    """
    connection = _connect(path, key, limits)
    try:
        is_telling = _has_enough(connection, "SELECT DISTINCT * FROM read_parquet(?)", path)
        return is_telling, _counted_digest(connection, path, columns, key) if columns else None
    finally:
        connection.close()


def _counted_digest(connection: DuckDBPyConnection, path: Path, columns: Sequence[str], key: bytes) -> str:
    values = _EACH_VALUE.format(", ".join(_identifier(name) for name in columns))
    # Sorted within the row, so that names and places do not matter.
    texts = (
        f"(SELECT concat({_secret(key)}, array_to_string(list_sort({values}), chr(31))) AS text FROM read_parquet(?))"
    )
    row = connection.execute(
        f"SELECT count(*), sum(md5_number_lower(text)), sum(md5_number_upper(text)) FROM {texts}", [str(path)]
    ).fetchone()
    if not _has_enough(connection, f"SELECT DISTINCT text FROM {texts}", path):
        return ""
    assert row is not None
    return hmac.new(key, repr((len(columns), [int(each or 0) for each in row])).encode(), hashlib.sha256).hexdigest()


def _has_enough(connection: DuckDBPyConnection, distinct: str, path: Path) -> bool:
    found = connection.execute(f"SELECT count(*) FROM ({distinct} LIMIT {ENOUGH})", [str(path)]).fetchone()
    return found is not None and int(found[0]) >= ENOUGH


def sketch(path: Path, *, key: bytes, limits: Limits | None = None) -> bytes:
    """A sketch of all columns of a stored table."""
    connection = _connect(path, key, limits)
    try:
        width, rows = _hash_cells(connection, path)
        sets = _sets(width)
        seen = connection.execute(f"SELECT * FROM cells USING SAMPLE reservoir({_SAMPLED} ROWS)").fetchnumpy()
        alike = {name: np.asarray(column, dtype=np.uint64) for name, column in seen.items()}
        samples = [_sample(connection, each, rows, key, _coincidence(each, alike)) for each in sets]
    finally:
        connection.close()
    return _pack(samples)


def share_in_common(one: bytes, other: bytes) -> float:
    """The share of rows that two tables have in common beyond chance, of the smaller one's; 0 where it may be chance.

    Of all sets of columns that of the greatest share counts, where both samples are full. A share p that would be c for
    unrelated people is stated as (p - c) / (1 - c) (Cohen's kappa), where the lower end of Wilson's interval is sure
    that it is above `FEW`.
    """
    left, right = unpack(one), unpack(other)
    met = np.intersect1d(_all(left), _all(right))
    if not met.size:
        return 0.0
    ours = [each for each in left if np.isin(each.marked, met).any()]
    theirs = [each for each in right if np.isin(each.marked, met).any()]
    return max((_share(a, b) for a in ours for b in theirs), default=0.0)


def unpack(packed: bytes) -> list[Sample]:
    version, number = struct.unpack_from("<BH", packed)
    if version != _VERSION:
        return []
    heads = [struct.unpack_from("<HB", packed, 3 + 3 * position) for position in range(number)]
    samples, offset = [], 3 + 3 * number
    for size, chance in heads:
        samples.append(Sample(chance / 100, np.frombuffer(packed, dtype="<u8", count=size, offset=offset)))
        offset += 8 * size
    return samples


def _pack(samples: Sequence[Sample]) -> bytes:
    heads = b"".join(struct.pack("<HB", each.marked.size, round(100 * each.chance)) for each in samples)
    return (
        struct.pack("<BH", _VERSION, len(samples))
        + heads
        + b"".join(each.marked.astype("<u8").tobytes() for each in samples)
    )


def _all(samples: Sequence[Sample]) -> NDArray[np.uint64]:
    return np.concatenate([each.marked for each in samples] or [np.zeros(0, dtype=np.uint64)])


def _share(one: Sample, other: Sample) -> float:
    if min(one.marked.size, other.marked.size) < ENOUGH:
        return 0.0
    # Below the lesser of the last hashes kept both samples are complete.
    last = min(int(one.marked[-1]), int(other.marked[-1]))
    ours, theirs = (each.marked[each.marked <= last] for each in (one, other))
    compared = min(int(ours.size), int(theirs.size))
    hits = int(np.intersect1d(ours, theirs).size)
    chance = max(one.chance, other.chance)
    if not hits or chance >= 1:
        return 0.0
    share = min(hits / compared, 1.0)
    least = (share + _SURE**2 / (2 * compared)) - _SURE * sqrt(
        share * (1 - share) / compared + (_SURE / (2 * compared)) ** 2
    )
    if least / (1 + _SURE**2 / compared) < chance + FEW * (1 - chance):
        return 0.0
    return (share - chance) / (1 - chance)


#: A set of columns: by name those that are added to, or taken from, the sum of all.
_Set = tuple[bool, tuple[str, ...]]


def _sets(width: int) -> list[_Set]:
    """All columns, all but one, and each two; a column alone tells nobody from another."""
    if width < 2:
        return []
    left_out = [f"cell_{i}" for i in range(min(width, _LEFT_OUT))] if width > 3 else []
    paired = [f"cell_{i}" for i in range(min(width, _PAIRED))] if width > 2 else []
    return [(True, ()), *((True, (name,)) for name in left_out), *((False, pair) for pair in combinations(paired, 2))]


def _hash_cells(connection: DuckDBPyConnection, path: Path) -> tuple[int, int]:
    """Make table `cells`: of each row the sum of all its cells' hashes, and the hashes of the columns that sets name.

    Columns are taken by the least hash in them, which is the same for the same column whatever is beside it.
    Returns the numbers of the table's columns and rows.
    """
    described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    names = [_identifier(column[0]) for column in described]
    (_hash_wide if len(names) > _LEFT_OUT else _hash_narrow)(connection, path, names)
    counted = connection.execute("SELECT count(*) FROM cells").fetchone()
    assert counted is not None
    return len(names), int(counted[0])


def _hash_narrow(connection: DuckDBPyConnection, path: Path, names: list[str]) -> None:
    hashed = "CREATE TEMP TABLE hashed AS SELECT cell(COLUMNS(*)) FROM read_parquet(?)"
    connection.execute(hashed, [str(path)])
    least = connection.execute("SELECT min(COLUMNS(*)) FROM hashed").fetchone()
    assert least is not None
    cells = ", ".join(f"{names[i]} AS cell_{place}" for place, i in enumerate(_chosen(least)))
    connection.execute(f"CREATE TEMP VIEW cells AS SELECT {cells}, {' + '.join(names)} AS total FROM hashed")


def _hash_wide(connection: DuckDBPyConnection, path: Path, names: list[str]) -> None:
    """Some columns at a time, since the time to plan and run one statement of thousands grows faster than they do.

    Within a statement the columns are a list, so that there is one expression to plan rather than one a column.
    """
    table = "read_parquet(?, file_row_number = true)"
    connection.execute("CREATE TEMP TABLE parts (row BIGINT, total UBIGINT)")
    least: list[int] = []
    for start in range(0, len(names), _AT_A_TIME):
        listed = _EACH_CELL.format(", ".join(names[start : start + _AT_A_TIME]))
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE hashed AS SELECT file_row_number AS row, {listed} AS hashes FROM {table}",
            [str(path)],
        )
        connection.execute("INSERT INTO parts SELECT row, CAST(list_sum(hashes) AS UBIGINT) FROM hashed")
        found = connection.execute(
            "SELECT min(hash) FROM (SELECT unnest(hashes) AS hash, generate_subscripts(hashes, 1) AS place "
            "FROM hashed) GROUP BY place ORDER BY place"
        ).fetchall()
        least.extend(each[0] for each in found)
    cells = ", ".join(f"cell({names[i]}) AS cell_{place}" for place, i in enumerate(_chosen(least)))
    connection.execute(
        f"CREATE TEMP TABLE cells AS SELECT {cells}, whole.total FROM {table} AS rows JOIN (SELECT row, "
        "CAST(sum(total) AS UBIGINT) AS total FROM parts GROUP BY row) AS whole ON rows.file_row_number = whole.row",
        [str(path)],
    )


def _chosen(least: Sequence[int]) -> list[int]:
    """Which columns sets can name: those with the least hashes."""
    return sorted(range(len(least)), key=least.__getitem__)[:_LEFT_OUT]


def _sample(connection: DuckDBPyConnection, columns: _Set, rows: int, key: bytes, coincidence: float) -> Sample:
    """The least hashes of one set of columns, each with how often it occurs."""
    is_all, names = columns
    summed = " - ".join(["total", *names]) if is_all else " + ".join(names)
    query = (
        f"SELECT hash, count(*) AS times FROM (SELECT ({summed}) & {_MASK} AS hash FROM cells) WHERE hash <= ? "
        f"GROUP BY hash ORDER BY hash LIMIT {_KEPT}"
    )
    # Where nearly all rows differ, as many as are kept are found among few.
    likely = min(_MASK, 4 * _KEPT * (_MASK // max(rows, 1)))
    found = connection.execute(query, [likely]).fetchnumpy()
    if len(found["hash"]) < _KEPT and likely < _MASK:
        found = connection.execute(query, [_MASK]).fetchnumpy()
    hashes, times = (np.asarray(found[name]).astype(np.uint64) for name in ("hash", "times"))
    marks = np.array([_mark(key, *each) for each in zip(hashes.tolist(), times.tolist(), strict=True)], dtype=np.uint64)
    marked = (hashes << np.uint64(_MARK_BITS)) | marks
    chance = max(coincidence, _alike_by_number(times))
    return Sample(min(1.0, np.ceil(100 * chance) / 100), marked)


def _mark(key: bytes, value: int, times: int) -> int:
    mark = hashlib.blake2b(struct.pack("<QQ", value, times), key=key[:64], digest_size=_MARK_BITS // 8)
    return int.from_bytes(mark.digest())


def _coincidence(columns: _Set, rows: dict[str, NDArray[np.uint64]]) -> float:
    """How often two rows agree in all columns of a set but one: numbers that count people agree with any others'."""
    is_all, names = columns
    if not is_all:
        return max(_collision(rows[name]) for name in names)
    rest = rows["total"] - sum((rows[name] for name in names), start=np.uint64(0))
    others = [name for name in rows if name != "total" and name not in names]
    return max((_collision(rest - rows[name]) for name in others), default=1.0)


def _collision(values: NDArray[np.uint64]) -> float:
    """The share of pairs of rows with one value."""
    size = values.size
    if size < 2:
        return 1.0
    times = np.unique(values, return_counts=True)[1].astype(float)
    return float((times**2).sum() - size) / (size * (size - 1))


def _alike_by_number(times: NDArray[np.uint64]) -> float:
    """The share of distinct rows that other people of the same kind have just as often.

    By Poisson's law with the mean that was seen; of those seen once, with Good and Turing's estimate of the mean.
    """
    if not times.size:
        return 1.0
    number, rows = np.unique(times, return_counts=True)
    by_times = dict(zip(number.tolist(), rows.tolist(), strict=True))
    once = by_times.get(1, 0)
    alike = 0.0
    for each, how_many in by_times.items():
        if each == 1:
            alike += how_many * min(exp(-1), 2 * by_times.get(2, 0) / once)
        else:
            alike += how_many * exp(-each + each * log(each) - lgamma(each + 1))
    return alike / times.size


def _connect(path: Path, key: bytes, limits: Limits | None) -> DuckDBPyConnection:
    connection = connect(paths=[path], limits=limits, options={"preserve_insertion_order": "false"})
    # As `query` reads a value: without spaces around it. Numbers are equal as numbers, texts in any capitals.
    connection.execute(
        "CREATE TEMP MACRO trimmed(x) AS nullif(trim(CAST(x AS VARCHAR), ' ' || chr(9) || chr(10) || chr(11) || "
        "chr(12) || chr(13)), '')"
    )
    number = _plain_number("trimmed(x)", number_form_of(connection, path))
    connection.execute(
        "CREATE TEMP MACRO value(x) AS "
        f"coalesce(CAST(TRY_CAST({number} AS DOUBLE) + 0.0 AS VARCHAR), lower(trimmed(x)), chr(30))"
    )
    connection.execute(
        f"CREATE TEMP MACRO cell(x) AS md5_number_lower(concat({_secret(key)}, value(x))) & {_MASK}::UBIGINT"
    )
    return connection


def _plain_number(text: str, form: NumberForm) -> str:
    """SQL for a number in the plain form, of text that writes one in the table's own."""
    if form == PLAIN:
        return text
    plain = text
    for sign, instead in form.rewritten:
        plain = f"replace({plain}, {_literal(sign)}, '{instead}')"
    return f"CASE WHEN regexp_matches({text}, {_literal(form.grammar)}) THEN {plain} END"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _secret(key: bytes) -> str:
    """The key of the hashes within DuckDB, as a literal; of no use for the digests."""
    return f"'{hmac.new(key, b'rows', hashlib.sha256).hexdigest()}'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
