"""Runs the job of a parsed command line. An error that the user can correct becomes one line on standard error and exit
code 2.
"""

from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from regroup.cli.terminal.arguments import load
from regroup.cli.terminal.output import EXIT_CANNOT_RUN, print_error
from regroup.coordinator.settings import InvalidSetting, UnknownSetting
from regroup.storage.errors import StoreDamaged, StoreError

FILE_ERRORS: Final = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)


class CannotRun(Exception):
    """Raised if a command cannot be carried out; the message says why, and what the user can do."""


def run_job(args: Namespace) -> int:
    """Import and run the job that the parsed arguments name; return its exit code.

    The arguments may also name `packages` that the job needs, and in `install` the command that installs them.
    """
    try:
        need_packages(getattr(args, "packages", ()), getattr(args, "install", ""))
        return int(load(args.job)(args))
    except StoreDamaged as error:
        store = getattr(args, "store", None)
        print_error(args.command, str(error) if store is None or store.name in str(error) else f"{store}: {error}")
        return EXIT_CANNOT_RUN
    except (CannotRun, StoreError, UnknownSetting, InvalidSetting) as error:
        print_error(args.command, str(error))
        return EXIT_CANNOT_RUN


def need_packages(packages: Iterable[str], install: str) -> None:
    """Raise CannotRun unless these packages are installed. Its message has `install`, the command to install them."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise CannotRun(f"{', '.join(missing)} not installed: {install}")


@contextmanager
def cannot_run_after(*errors: type[Exception]) -> Iterator[None]:
    """Convert errors of these types to CannotRun, within a `with` block or in a function that is decorated."""
    try:
        yield
    except errors as error:
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise CannotRun(text) from error
