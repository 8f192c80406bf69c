"""Errors of Spark as one line: which file is damaged or missing, and which command helps."""

import errno
import re
from typing import Final
from urllib.parse import unquote

from regroup.pipeline.locations.location import LocationLike, location_of

NO_SPACE: Final = "No space left on device"
DAMAGED_PATTERNS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"FAILED_READ_FILE[^\]]*\] Encountered error while reading file (.+?\.parquet)",
        r"CANNOT_READ_FILE_FOOTER[^\]]*\][^\n]*? (\S+?\.parquet)",
        r"(\S+\.parquet) is not a Parquet file",
    )
)
MISSING_PATTERNS: Final = (
    re.compile(r"FILE_NOT_EXIST\][^\n]*?reading file (.+?\.parquet)"),
    re.compile(r"PATH_NOT_FOUND\] Path does not exist: (.+?)\.(?=\s|\Z)"),
)
OWN_ERROR: Final = re.compile(r"^regroup\.\S+: (.*?)(?=\n\s*(?:\n|at )|\Z)", re.MULTILINE | re.DOTALL)
PYTHON_ERROR: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:: .*)?$", re.MULTILINE)
JAVA_CALL: Final = re.compile(r"An error occurred while calling \S+\.\n: ")
JAVA_CLASS: Final = re.compile(r"(?:[a-z]\w*\.)+[A-Z]\w*: ")


def spark_message(text: str, folder: LocationLike | None = None) -> str:
    """One line for an error of Spark with the trace `text`, in a command that uses `folder`.

    It is the message of an error of regroup in a worker, if there is one; else it names the file that is damaged or
    missing, or says that a disk is full; else it is the first line that says something.
    """
    if found := OWN_ERROR.search(text):
        return " ".join(found.group(1).split())
    if NO_SPACE in text:
        return no_space(folder)
    for pattern in MISSING_PATTERNS:
        if found := pattern.search(text):
            return missing(found.group(1), folder)
    for pattern in DAMAGED_PATTERNS:
        if found := pattern.search(text):
            return damaged(found.group(1), folder)
    return first_sensible_line(text)


def file_message(error: OSError, folder: LocationLike | None) -> str:
    """One line for an error of a file that this process used itself."""
    if error.errno == errno.ENOSPC:
        return no_space(folder)
    if error.filename is None:
        return " ".join(str(error.strerror or error).split())
    return f"{error.filename} cannot be used: {error.strerror}."


def no_space(folder: LocationLike | None) -> str:
    where = f"the disk of {folder} or" if folder is not None else "the disk"
    return f"no space left on {where} of Spark's temporary files: free some space, and run the command again."


def damaged(address: str, folder: LocationLike | None) -> str:
    return f"{plain_address(address)} is damaged: {_remedy(address, folder, 'tables {} --full')}"


def missing(address: str, folder: LocationLike | None) -> str:
    return f"{plain_address(address)} is missing: {_remedy(address, folder, 'tables {}')}"


def plain_address(address: str) -> str:
    """A path without `file:`, and any other address as it is."""
    return re.sub(r"^file:/+", "/", address)


def _remedy(address: str, folder: LocationLike | None, tables_again: str) -> str:
    """What makes the file or folder at this address again, by the part of the pipeline's folder that it is in."""
    plain = plain_address(address)
    start = "" if folder is None else f"{location_of(folder).address}/"
    inside = next((each.removeprefix(start) for each in (plain, unquote(plain)) if each.startswith(start)), "")
    match inside.partition("/")[0]:
        case "tables" if folder is not None:
            return f"regroup pipeline {tables_again.format(folder)}"
        case "bronze" | "snapshots" | "exchanges":
            return "regroup pipeline ingest STORES into a new folder."
        case "events" | "runs":
            return "regroup campaign PLAN into a new folder."
        case _:
            return "restore it from a copy."


def first_sensible_line(text: str) -> str:
    """The line of a trace that says what went wrong: of Python's part the error, else the first line of Java's."""
    _, traceback, after = text.rpartition("Traceback (most recent call last):")
    found = PYTHON_ERROR.search(after) if traceback else None
    line = found.group() if found else JAVA_CALL.sub("", text, count=1).strip().partition("\n")[0]
    return " ".join(JAVA_CLASS.sub("", line, count=1).split()) or "Spark ended with an error without a message."
