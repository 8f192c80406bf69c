"""The job of `regroup copy`: copies a store, which may be in use."""

from argparse import Namespace

from regroup.cli.jobs import CannotRun, cannot_run_after
from regroup.cli.terminal.progress import ProgressReporter
from regroup.cli.terminal.text import counted
from regroup.storage.sqlite.copying import copy_store
from regroup.storage.sqlite.files import missing_wal_text, wal_is_missing


@cannot_run_after(OSError)
def run(args: Namespace) -> int:
    """Copy the store. Raises CannotRun, StoreError."""
    if wal_is_missing(args.store):
        raise CannotRun(missing_wal_text(args.store))
    with ProgressReporter() as report:
        position = copy_store(args.store, args.to, lambda done, total: report("copying", done, total))
    print(f"{args.to} has the {counted(position, 'event')} up to position {position}.")
    return 0
