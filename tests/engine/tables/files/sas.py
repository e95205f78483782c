"""A file as SAS writes it: by the C library inside pyreadstat, whose Python functions only read this format."""

from __future__ import annotations

import ctypes

from pyreadstat import _readstat_writer

_TEXT, _NUMBER = 0, 5
_WRITE = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


def sas7bdat(columns, rows):
    """The bytes of a file.

    Args:
        columns: by the name the label, the format and the width of a text, which is 0 for a number.
        rows: of values, where None is missing.
    """
    library, made = ctypes.CDLL(_readstat_writer.__file__), bytearray()

    def call(name, *arguments, gives=ctypes.c_int):
        function = getattr(library, f"readstat_{name}")
        function.restype = gives
        found = function(*arguments)
        assert gives is not ctypes.c_int or found == 0, (name, found)
        return ctypes.c_void_p(found)

    def write(data, length, _):
        made.extend(ctypes.string_at(data, length))
        return length

    callback, variables = _WRITE(write), []
    writer = call("writer_init", gives=ctypes.c_void_p)
    call("set_data_writer", writer, callback)
    for name, (label, form, width) in columns.items():
        kind = ctypes.c_int(_TEXT if width else _NUMBER)
        added = call("add_variable", writer, name.encode(), kind, ctypes.c_size_t(width), gives=ctypes.c_void_p)
        call("variable_set_label", added, label.encode(), gives=None)
        call("variable_set_format", added, form.encode(), gives=None)
        variables.append(added)
    call("begin_writing_sas7bdat", writer, None, ctypes.c_long(len(rows)))
    for row in rows:
        call("begin_row", writer)
        for variable, value in zip(variables, row, strict=True):
            if value is None:
                call("insert_missing_value", writer, variable)
            elif isinstance(value, str):
                call("insert_string_value", writer, variable, value.encode())
            else:
                call("insert_double_value", writer, variable, ctypes.c_double(value))
        call("end_row", writer)
    call("end_writing", writer)
    call("writer_free", writer, gives=None)
    return bytes(made)
