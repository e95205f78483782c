"""Files that are made to take all memory or time, or to crash a library, end as a refusal of the confined process."""

import gzip
import pickle
import re
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.site import bombs
from releases import services
from releases.engine.tables.facts import UnreadableTable
from releases.models import Upload, UploadState
from releases.services import reading
from releases.services.datasets import upload_limits
from releases.services.uploads import TOO_MUCH
from releases.worker import runner
from tests.engine.tables.files import formats
from tests.web.worker.test_runner import asked, ended, probe  # noqa: F401  a fixture

pytestmark = pytest.mark.confined


def zeros():
    return b"0," * 2**27


def lying(content):
    """A zip archive whose directory says that its member is small."""
    made = bytearray(content)
    for mark, place in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = made.index(mark) + place
        made[at : at + 4] = (1000).to_bytes(4, "little")
    return bytes(made)


def sparse():
    """A sheet with a value in its first cell and one in its last."""
    made = formats.xlsx({"a": [["a", "b"], [1.0, 2.0]]})
    sheet = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
        '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
        "</sheetData></worksheet>"
    )
    with zipfile.ZipFile(formats.io.BytesIO(made)) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    return formats.zipped(members | {"xl/worksheets/sheet1.xml": sheet})


BOMBS = {
    "gz": lambda: gzip.compress(zeros(), mtime=0),
    "zip that lies": lambda: lying(formats.zipped({"a.csv": zeros()})),
    "sparse xlsx": sparse,
    "xlsx": lambda: formats.zipped({"xl/workbook.xml": zeros()}),
}


@pytest.mark.parametrize("kind", list(BOMBS))
def test_a_bomb_is_refused_within_256_megabytes(tmp_path, settings, kind):
    reading.upload_start(written(tmp_path, formats.separated(",")), table=upload_limits())
    status = Path(f"/proc/{runner._reader.pid}/status").read_text()
    settings.READER_MEMORY_BYTES = int(re.search(r"VmData:\s+(\d+) kB", status)[1]) * 1024 + 2**28
    source = written(tmp_path, BOMBS[kind]())
    settings.READ_TIME_LIMIT = 20
    with pytest.raises((UnreadableTable, runner.OverLimit)) as error:
        reading.upload(source, tmp_path / "stored.parquet", table=upload_limits())
    assert "longer" not in str(error.value)


def written(folder, content):
    (folder / "sent").write_bytes(content)
    return folder / "sent"


#: Quick to make, of the benchmark's; and what each is refused for.
OF_THE_BENCHMARK = {
    "xlsx: one long text in many cells": "takes more memory",
    "xlsx: a value in the first cell and one in the last": "takes more memory",
    "ods: one row repeated": "takes more memory",
    "ods: cells and rows repeated": "takes more memory",
    "ods: a long text repeated": "takes more memory",
    "ods: a text of very many spaces": "takes more memory",
    "sav: says a billion rows": "The SPSS file unfolds to more than 200 times its size",
}


@pytest.mark.parametrize("name", [*OF_THE_BENCHMARK, "xlsm"])
def test_a_bomb_is_refused_by_the_limits_that_a_site_has_where_nobody_set_any(tmp_path, name):
    with_macros = {"xlsm": lambda: formats.with_macros(bombs.BOMBS["xlsx: one long text in many cells"]())}
    source = written(tmp_path, (with_macros | bombs.BOMBS)[name]())
    with pytest.raises(UnreadableTable) as error:
        reading.upload(source, tmp_path / "stored.parquet", table=upload_limits())
    assert OF_THE_BENCHMARK.get(name, "takes more memory") in str(error.value)


def test_honest_files_that_unfold_to_much_are_taken_by_these_limits(tmp_path):
    rows = [(float(place), place / 7, "Ulm" if place % 3 else None) for place in range(30_000)]
    for content in (
        formats.statistical("zsav", rows),
        formats.with_macros(formats.xlsx({"Data": [formats.NAMES, *rows]})),
    ):
        found = reading.upload(written(tmp_path, content), tmp_path / "stored.parquet", table=upload_limits())
        assert (found.columns, found.rows) == (formats.NAMES, 30_000)


def test_how_much_a_workbook_may_come_to_is_that_of_a_sheet_as_programs_write_it(tmp_path):
    """They end a sheet with all the rows and columns that it could have, repeated and empty."""
    plain = bombs._repeated(text="town") + bombs._repeated(rows=7, text="Ulm")
    rest = '<table:table-cell table:number-columns-repeated="16384"/>'
    rest = f'<table:table-row table:number-rows-repeated="1048568">{rest}</table:table-row>'
    source = written(tmp_path, bombs._ods(plain + rest))
    found = reading.upload(source, tmp_path / "stored.parquet", table=upload_limits())
    assert (found.columns, found.rows) == (("town",), 7)


@pytest.mark.parametrize(
    ("said", "rows"), [(2**31 - 1, 3), (-1, 3), (3, 3), (2, 2), (4, None), (10**6, None), (10**9, None)]
)
def test_an_spss_file_has_the_rows_that_it_says_or_does_not_say_how_many(tmp_path, said, rows):
    """The format's two ways not to say it are minus one and the largest number."""
    source = written(tmp_path, bombs.says_many_rows(said))
    if rows is None:
        with pytest.raises(UnreadableTable, match="SPSS file"):
            reading.upload(source, tmp_path / "stored.parquet", table=upload_limits())
    else:
        assert reading.upload(source, tmp_path / "stored.parquet", table=upload_limits()).rows == rows


#: How a library ends its process: by a signal, by an exit, where an answer finds no memory.
ENDS = {
    "abort": "os.abort()",
    "exit": "os._exit(0)",
    "another exit": "os._exit(3)",
    "fault without a word": "faulthandler.disable()\nos.kill(os.getpid(), signal.SIGSEGV)",
    "illegal instruction": "os.kill(os.getpid(), signal.SIGILL)",
    "no room for the answer": "reader.pickle.dump = lambda *_, **__: 1 / 0",
}


@pytest.mark.parametrize("how", list(ENDS))
def test_a_library_that_ends_its_process_is_one_refusal_however_it_does(monkeypatch, ended, how):  # noqa: F811
    """A process that is killed is none; see `test_runner`."""
    probe(monkeypatch, f"import faulthandler, os, signal\nfrom releases.worker import reader\n{ENDS[how]}")
    with pytest.raises(runner.Crashed):
        asked()
    refused = "The file cannot be read: it is damaged, or takes more memory"
    with pytest.raises(UnreadableTable, match=refused), reading._crash_is_a_refusal():
        asked()


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_what_others_end_is_no_fault_of_the_file(monkeypatch, ended, signal):  # noqa: F811
    # A program that was started to outlive its terminal ignores SIGHUP, and so does all that it makes.
    noticed = "" if signal == "SIGKILL" else f"signal.signal(signal.{signal}, signal.SIG_DFL)\n"
    probe(monkeypatch, f"import os, signal\n{noticed}os.kill(os.getpid(), signal.{signal})")
    with pytest.raises(runner.Ended) as error, reading._crash_is_a_refusal():
        asked()
    assert type(error.value) is runner.Ended


ANSWER = pickle.dumps(("done", {"a": [1.5, "Ulm", b"x" * 40, 2**70], "b": None}))
#: What can be there of an answer when its process ends: its start, what others write, and bytes of which a reader of
#: pickles makes errors of its own, or a value where anything followed.
CUT_OFF = [
    *(ANSWER[:length] for length in range(len(ANSWER))),
    *(b"\x80\x05\x8c\x04doneC" + bytes([length]) for length in range(48)),
    *(
        b"Fatal Python error: Aborted\n",
        b"\x80\xff",
        b"\x80\x05\x8c\x02\xff\xfe",
        b"\x80\x05h\x05.",
        b"\x80\x05N.",
        b".",
    ),
    *(
        b"\x80\x05ccollections\nOrderedDict\nK\x01R.",
        b"\x80\x05\x8e" + b"\xff" * 8,
        b"\x80\x05(e.",
        b"\x80\x05cos\nsystem\n.",
    ),
]


@pytest.mark.parametrize(("end", "expected"), [("SIGKILL", runner.Ended), ("SIGABRT", runner.Crashed)])
def test_an_answer_that_is_cut_off_is_never_a_value_nor_another_error(monkeypatch, ended, tmp_path, end, expected):  # noqa: F811
    said = tmp_path / "said"
    written = f"report.stream.write(open({str(said)!r}, 'rb').read())\nreport.stream.flush()\n"
    probe(monkeypatch, f"import os, signal\n{written}os.kill(os.getpid(), signal.{end})")
    for content in CUT_OFF:
        said.write_bytes(content)
        with pytest.raises(runner.Ended) as error:
            asked(report=lambda *_: None)
        # Whoever asked ends a process that says what is no answer, which may be before it ends itself.
        assert type(error.value) in {expected, runner.Ended}, content
        if ANSWER.startswith(content):
            assert type(error.value) is expected, content


def test_a_job_that_had_no_memory_left_has_some_for_saying_so(monkeypatch, ended):  # noqa: F811
    filled = "global held\nheld = []\nsize = 2**24\nwhile size > 16:\n"
    filled += "    try: held.append(bytearray(size))\n    except MemoryError: size //= 2\nraise MemoryError"
    probe(monkeypatch, filled)
    with pytest.raises(runner.OverLimit, match="more memory"):
        asked(memory=2**30)


def test_of_jobs_at_once_each_hears_of_its_own_end(monkeypatch, ended):  # noqa: F811
    probe(monkeypatch, "import os, time\nif os.getpid() % 2: os.abort()\nreturn 7")

    def outcome(_):
        try:
            return asked()
        except runner.Crashed:
            return "crashed"

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(outcome, range(24)))
    assert set(found) == {7, "crashed"}


@pytest.mark.parametrize(
    ("error", "said"), [(runner.Crashed("It crashed."), "it is damaged"), (runner.OverLimit("It is long."), TOO_MUCH)]
)
def test_a_file_that_makes_a_library_crash_or_takes_too_much_is_refused_and_not_tried_again(
    alice, upload_file, monkeypatch, error, said
):
    upload = services.uploads.receive_upload(owner=alice, title="Sent", source=upload_file())

    def ends(*_, **__):
        raise error

    monkeypatch.setattr(runner, "run", ends)
    assert not services.uploads.execute_upload(upload_id=upload.pk)
    stored = Upload.objects.get()
    assert (stored.state, stored.attempts) == (UploadState.REFUSED, 1)
    assert said in stored.refusal
