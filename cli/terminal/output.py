"""What the commands say, and what becomes of it where it cannot be said: a full disk, a reader that has gone."""

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

CANNOT_BE_DONE: Final = 2
CANNOT_BE_WRITTEN: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a write says if there is no room, or nothing there any more to write to."""
ESCAPED: Final = "regroup-escaped"


def told_to_the_end(command: str, act: Callable[[], int]) -> int:
    """Act, and see to it that all that was said has arrived; the exit code.

    A reader who has seen enough, `head` for instance, is no fault. If the disk is full, that is told in one line, and
    never by the code 1, which means that something was found wrong.
    """
    code = 0
    try:
        try:
            code = act()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        say_no_more()
    except OSError as error:
        if error.filename is not None or error.errno not in CANNOT_BE_WRITTEN:
            raise
        say_no_more()
        complain(command, f"the output cannot be written: {error.strerror}. Free some room, or send it elsewhere.")
        return CANNOT_BE_DONE
    return code


def say_no_more() -> None:
    """Python would try once more at its end, and complain again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(command: str, text: str) -> None:
    """One line on standard error. If not even that can be written, the exit code has to do."""
    try:
        print(f"regroup {command}: {printable(text)}", file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def escape_what_cannot_be_encoded() -> None:
    """An old encoding has no “…”: it is shown as JSON would escape it, so that what is JSON remains JSON."""
    codecs.register_error(ESCAPED, escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ESCAPED)


def escaped(error: UnicodeError) -> tuple[str, int]:
    """For `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def own_name() -> str:
    """What to type to call this program again: it may lie in a folder where no shell looks, as after `make demo`."""
    called = sys.argv[0]
    if Path(called) == Path(__file__).with_name("__main__.py"):
        return f"{shlex.quote(sys.executable)} -m regroup.cli"
    found = shutil.which("regroup")
    if Path(called).name != "regroup" or (found and Path(found).resolve() == Path(called).resolve()):
        return "regroup"
    return shlex.quote(called)
