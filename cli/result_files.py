"""Writes the results of a command to files, in which a former result stays whole until the new one is."""

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

STANDARD_OUTPUTS: Final = (1, 2)
SYSTEM_FOLDERS: Final = (Path("/dev"), Path("/proc"))
CANNOT_BE_REPLACED: Final = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EBUSY,
    errno.EXDEV,
    errno.ENAMETOOLONG,
)
"""Errors of a folder in which no file can be created or renamed, although the file itself may be writable."""


def write_result(path: Path, content: str | bytes) -> None:
    """Write the content to a new file and rename it, so that a crash or a full disk leaves the former content.

    What cannot be replaced is written in place: a pipe, a device, standard output, or a file in a folder that does not
    allow it. Raises OSError with the name of the file.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        if not _is_replaceable(path) or not _replace(path.resolve(), data):
            _write_in_place(path, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _is_replaceable(path: Path) -> bool:
    if path.exists() and not path.is_file():
        return False
    places = (path.absolute(), path.resolve())
    if any(place.is_relative_to(folder) for place in places for folder in SYSTEM_FOLDERS):
        return False
    return _standard_output(path) is None


def _standard_output(path: Path) -> int | None:
    """The descriptor of standard output or standard error, if that is this file."""
    for descriptor in STANDARD_OUTPUTS:
        with suppress(OSError):  # there is no such file, or the descriptor is closed
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return descriptor
    return None


def _replace(target: Path, data: bytes) -> bool:
    """Replace the file by a new one with this data. Returns whether its folder allows that."""
    written = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        with written.open("wb") as file:
            if target.exists():
                written.chmod(target.stat().st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        written.replace(target)
    except OSError as error:
        if error.errno in CANNOT_BE_REPLACED:
            return False
        raise
    finally:
        with suppress(OSError):
            written.unlink()
    return True


def _write_in_place(path: Path, data: bytes) -> None:
    descriptor = _standard_output(path)
    if descriptor is None:
        path.write_bytes(data)
        return
    # A file that is opened again has a position of its own: what is printed later would overwrite the data.
    sys.stdout.flush()
    sys.stderr.flush()
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
