"""The job of `regroup export`: a part of a group's history as a picture, or all of it as a page."""

import asyncio
from argparse import Namespace
from collections.abc import Callable
from typing import Final

from regroup.classroom.languages import Language
from regroup.classroom.page.files import Run, html_file
from regroup.classroom.pictures.mermaid import mermaid_picture
from regroup.classroom.pictures.part import Unreadable
from regroup.classroom.pictures.svg import svg_picture
from regroup.classroom.pictures.text import text_picture
from regroup.classroom.points import PositionRange
from regroup.classroom.timeline import GroupTimeline
from regroup.cli.classroom.selection import messages_of, only_timeline, range_of
from regroup.cli.jobs import FILE_ERRORS, CannotRun, cannot_run_after
from regroup.cli.result_files import write_result
from regroup.cli.store.opening import open_store_to_read
from regroup.cli.terminal.text import printable_lines

PICTURES: Final[dict[str, Callable[[GroupTimeline, PositionRange], str]]] = {
    "svg": svg_picture,
    "mermaid": mermaid_picture,
}


@cannot_run_after(Unreadable, *FILE_ERRORS)
def run(args: Namespace) -> int:
    """Write the picture that the arguments ask for to the output file or standard output, or the page.

    Raises CannotRun, StoreError.
    """
    if args.html is not None:
        return write_page(args)
    if args.language is not Language.ENGLISH and args.form != "text":
        raise CannotRun(f"--{args.form} is in English; --language is for --text and --html")
    timeline = asyncio.run(only_timeline(args))
    within = range_of(args, timeline)
    if args.form == "text":
        picture = text_picture(timeline, within, args.language)
    else:
        picture = PICTURES[args.form](timeline, within)
    if args.output is None:
        print(printable_lines(picture), end="")
    else:
        write_result(args.output, picture)
    return 0


def write_page(args: Namespace) -> int:
    """Write the page with a group's whole history to the file of --html. Raises CannotRun, StoreError."""
    given = [name for name, value in (("--from", args.start), ("--to", args.end), ("--output", args.output)) if value]
    if given:
        raise CannotRun(f"--html FILE holds the whole history, and takes no {' and no '.join(given)}")
    shown = asyncio.run(_recorded_run(args))
    write_result(args.html, html_file([shown], args.language))
    return 0


async def _recorded_run(args: Namespace) -> Run:
    timeline = await only_timeline(args)
    async with await open_store_to_read(args.store) as store:
        return Run(args.store.name, timeline, await messages_of(store, timeline))
