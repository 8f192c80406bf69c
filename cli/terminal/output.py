"""Standard output and standard error of every command, with errors handled for a full disk and a closed pipe."""

import codecs
import errno
import io
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from regroup.cli.terminal.text import printable

EXIT_CANNOT_RUN: Final = 2
"""The exit code of a command that cannot be carried out. Code 1 means that it was carried out and found something
wrong."""
EXIT_INTERRUPTED: Final = 130
"""The exit code that shells give to a command that was ended by Ctrl-C."""
WRITE_ERRNOS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing to a full disk, or to a device that is no longer there."""
ESCAPE_HANDLER: Final = "regroup-escaped"


def run_and_flush(command: str, run: Callable[[], int]) -> int:
    """Run a command, flush standard output, and return the exit code.

    A reader that closes the pipe early, as `head` does, is no error. A full disk is reported in one line, with exit
    code 2.
    """
    code = 0
    try:
        try:
            code = run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
    except OSError as error:
        if error.filename is not None or error.errno not in WRITE_ERRNOS:
            raise
        silence_stdout()
        print_error(command, f"cannot write the output: {error.strerror}; free some space, or send it elsewhere")
        return EXIT_CANNOT_RUN
    return code


def silence_stdout() -> None:
    """Redirect standard output to /dev/null, because Python flushes it at exit and would report the error again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_error(command: str, text: str) -> None:
    """Print one line on standard error. If even that fails, only the exit code is left."""
    try:
        print(f"regroup {command}: {printable(text)}", file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def escape_unencodable_output() -> None:
    """Make standard output escape characters that the terminal's encoding lacks, in the way of JSON, so that JSON stays
    valid."""
    codecs.register_error(ESCAPE_HANDLER, escape_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ESCAPE_HANDLER)


def escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Escape characters that cannot be encoded: an error handler for `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def program_name() -> str:
    """The words that run this program again: the name or path with which it was called, or `python -m regroup`."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m regroup"
    found = shutil.which("regroup")
    if called.name != "regroup" or (found and Path(found).resolve() == called.resolve()):
        return "regroup"
    return shlex.quote(sys.argv[0])
