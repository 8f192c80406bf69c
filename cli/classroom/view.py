"""The job of `regroup view`: serves the page of one store, or of two to compare, on this machine alone."""

import asyncio
from argparse import Namespace
from typing import Final

from regroup.classroom.languages import Language
from regroup.cli.classroom.view_runs import StoreRuns
from regroup.cli.jobs import CannotRun
from regroup.cli.terminal.signals import stop_on_signals
from regroup.control.web.access import Access
from regroup.control.web.listening import serve_application
from regroup.control.web.page_routes import page_application

HOST: Final = "127.0.0.1"


def run(args: Namespace) -> int:
    """Carry out `regroup view`: serve the page until Ctrl-C. Raises CannotRun, StoreError."""
    return asyncio.run(serve_page(args))


async def serve_page(args: Namespace) -> int:
    """Serve the page, and print its address. Raises CannotRun, StoreError."""
    stop = stop_on_signals()
    runs = StoreRuns([args.store, *filter(None, [args.store_2])], args.group)
    await runs.check()
    try:
        async with serve_application(page_application(runs, Access(host=HOST)), HOST, args.port) as address:
            query = "" if args.language is Language.ENGLISH else f"?language={args.language.value}"
            print(f"page  {address}/{query}  (Ctrl-C ends it)", flush=True)
            await stop.wait()
    except OSError as error:
        raise CannotRun(f"cannot listen on {HOST}:{args.port}: {error.strerror}. --port 0 takes a free port") from error
    return 0
