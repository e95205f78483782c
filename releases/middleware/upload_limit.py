"""Uploads are streamed to disc, cut off at the cap, and taken from curators who have room for them only."""

from __future__ import annotations

import tempfile
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile
from django.core.files.uploadhandler import FileUploadHandler, SkipFile, TemporaryFileUploadHandler
from django.http import HttpRequest

from releases.engine.errors import InvalidInput
from releases.middleware.api_errors import is_for_programs
from releases.models import Organisation
from releases.services.uploads import NoRoom, check_upload, incoming_folder, room_of
from releases.storage.private_files import private_folder

#: How much of a refused upload is still read. A browser that is cut off in mid-upload shows a broken connection
#: instead of the page that says why; beyond this much it is cut off.
_READ_ON = 4 * 2**30
_CHUNK = 2**20
#: The field of forms and of the API that holds a table.
TABLE = "table"


def refused_table(request: HttpRequest) -> InvalidInput | None:
    """Why the table of a request was not stored, where it was not."""
    handlers = (each for each in request.upload_handlers if isinstance(each, CappedUploadHandler))
    return next((each.refusal for each in handlers), None)


class CappedUploadHandler(FileUploadHandler):
    """Counts bytes and refuses what is beyond the organisation's cap, or more than a person may have here.

    Neither Django nor gunicorn limits files. Raising `RequestDataTooBig` gives a clean 400, where `StopUpload` leaves
    the browser with a broken connection. A table that its sender may not bring is skipped as it comes in, so that the
    rest of the form is read; programs have no form, and are answered at its end.

    Attributes:
        refusal: why the table was skipped, in the words of the service that would refuse it.
    """

    refusal: InvalidInput | None = None

    def handle_raw_input(
        self, input_data: Any, META: dict[str, Any], content_length: int, boundary: str, encoding: str | None = None
    ) -> None:
        self._input = input_data
        self._room = Organisation.current().upload_cap_bytes
        self._at_least = content_length - settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        # The form's other fields take some room too.
        if self._at_least > self._room:
            self._refuse()

    def new_file(self, field_name: str, *args: Any, **kwargs: Any) -> None:
        # Forms are read before the view asks who is there; the disc is not for strangers. The view then asks them to
        # sign in.
        if self.request is None or not self.request.user.is_authenticated:
            raise SkipFile
        super().new_file(field_name, *args, **kwargs)
        self._person = self.request.user if field_name == TABLE else None
        if self._person is None:
            # A plan, which is no larger than a form.
            self._room = min(self._room, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
            return
        try:
            self._left = check_upload(self._person).left
        except InvalidInput as refusal:
            self.refusal = refusal
            raise SkipFile from None
        self._check_room(self._at_least)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        self._room -= len(raw_data)
        if self._room < 0:
            self._refuse()
        self._check_room(start + len(raw_data))
        return raw_data

    def upload_complete(self) -> None:
        if self.refusal is not None and self.request is not None and is_for_programs(self.request):
            raise self.refusal

    def file_complete(self, file_size: int) -> None:
        return None

    def _check_room(self, sent: int) -> None:
        if self._person is not None and sent > self._left:
            self.refusal = NoRoom(room_of(self._person), sent=f"more than {self._left:,} bytes")
            raise SkipFile

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
        folder = private_folder(incoming_folder())
        # Its mode is 0600 from the start.
        file = tempfile.NamedTemporaryFile(suffix=".part", dir=folder)  # noqa: SIM115  Django closes it with the request
        # Past Django's own, which knows one folder for all.
        UploadedFile.__init__(self, file, name, content_type, size, charset, content_type_extra)


class IncomingFileUploadHandler(TemporaryFileUploadHandler):
    """As Django's for large files, and for small ones too."""

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        FileUploadHandler.new_file(self, *args, **kwargs)
        self.file = IncomingFile(self.file_name, self.content_type, 0, self.charset, self.content_type_extra)
