"""Uploads are streamed to disc, cut off at the cap, and taken from people who have signed in only."""

from __future__ import annotations

import tempfile
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile
from django.core.files.uploadhandler import FileUploadHandler, SkipFile, TemporaryFileUploadHandler

from releases.models import Organisation
from releases.services.uploads import incoming_folder

#: How much of a refused upload is still read. A browser that is cut off in mid-upload shows a broken connection
#: instead of the page that says why; beyond this much it is cut off.
_READ_ON = 4 * 2**30
_CHUNK = 2**20


class CappedUploadHandler(FileUploadHandler):
    """Counts bytes and refuses what is beyond the organisation's cap.

    Neither Django nor gunicorn limits files. Raising `RequestDataTooBig` gives a clean 400, where `StopUpload` leaves
    the browser with a broken connection.
    """

    def handle_raw_input(
        self, input_data: Any, META: dict[str, Any], content_length: int, boundary: str, encoding: str | None = None
    ) -> None:
        self._input = input_data
        self._room = Organisation.current().upload_cap_bytes
        # The form's other fields take some room too.
        if content_length > self._room + settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            self._refuse()

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        # Forms are read before the view asks who is there; the disc is not for strangers. The view then asks them to
        # sign in.
        if self.request is None or not self.request.user.is_authenticated:
            raise SkipFile
        super().new_file(*args, **kwargs)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        self._room -= len(raw_data)
        if self._room < 0:
            self._refuse()
        return raw_data

    def file_complete(self, file_size: int) -> None:
        return None

    def _refuse(self) -> None:
        """Read the rest of the request, keep none of it, and refuse."""
        left = _READ_ON
        while left > 0 and (chunk := self._input.read(_CHUNK)):
            left -= len(chunk)
        raise RequestDataTooBig


class IncomingFile(TemporaryUploadedFile):
    """A file that goes where tables wait for their worker, so that keeping it is giving it a name, not copying it."""

    def __init__(
        self, name: str | None, content_type: str | None, size: int, charset: str | None, content_type_extra: Any = None
    ) -> None:
        folder = incoming_folder()
        folder.mkdir(parents=True, exist_ok=True)
        file = tempfile.NamedTemporaryFile(suffix=".part", dir=folder)  # noqa: SIM115  Django closes it with the request
        # Past Django's own, which knows one folder for all.
        UploadedFile.__init__(self, file, name, content_type, size, charset, content_type_extra)


class IncomingFileUploadHandler(TemporaryFileUploadHandler):
    """As Django's for large files, and for small ones too."""

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        FileUploadHandler.new_file(self, *args, **kwargs)
        self.file = IncomingFile(self.file_name, self.content_type, 0, self.charset, self.content_type_extra)
