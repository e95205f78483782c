"""Files that are made to take all memory or time, or to crash a library, end as a refusal of the confined process."""

import gzip
import re
import zipfile
from pathlib import Path

import pytest

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


def test_a_library_that_crashes_says_so(monkeypatch, ended):  # noqa: F811
    """A process that is killed does not; see `test_runner`."""
    probe(monkeypatch, "import os\nos.abort()")
    with pytest.raises(runner.Crashed):
        asked()


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
