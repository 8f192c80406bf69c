"""Standard output and standard error of every command, also on a full disk and on a closed pipe."""

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
"""The exit code of a command that cannot be carried out. 1 means that it was, and found something wrong."""
EXIT_INTERRUPTED: Final = 130
"""The exit code that shells give to a command that was ended by Ctrl-C."""
WRITE_ERRNOS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a write to a full disk, or to a device that is gone."""
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
    """Send standard output to /dev/null: Python flushes it at exit, and would report the error again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_error(command: str, text: str) -> None:
    """Print one line on standard error. If even that fails, only the exit code is left."""
    try:
        print(f"regroup {command}: {printable(text)}", file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def escape_unencodable_output() -> None:
    """Print characters that the terminal's encoding lacks as JSON escapes them, so that JSON stays JSON."""
    codecs.register_error(ESCAPE_HANDLER, escape_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ESCAPE_HANDLER)


def escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    """The error handler for `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def program_name() -> str:
    """Return the words that call this program again: the name or path it was called by, or `python -m regroup`."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m regroup"
    found = shutil.which("regroup")
    if called.name != "regroup" or (found and Path(found).resolve() == called.resolve()):
        return "regroup"
    return shlex.quote(sys.argv[0])
