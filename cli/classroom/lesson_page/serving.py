"""The job of `regroup lesson --page`: serves the page of lessons on this machine alone."""

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import Final

from regroup.classroom.lessons.library import number_of
from regroup.cli.classroom.lesson.keeping import kept_progress
from regroup.cli.classroom.lesson.sound import sound_lesson
from regroup.cli.classroom.lesson_page.lessons import OwnFile, PageLessons
from regroup.cli.classroom.lesson_page.run_process import RunProcess
from regroup.cli.classroom.lesson_page.wanted import OWN
from regroup.cli.jobs import CannotRun
from regroup.cli.terminal.signals import stop_on_signals
from regroup.control.web.access import Access
from regroup.control.web.lesson_routes import lesson_application
from regroup.control.web.listening import serve_application

HOST: Final = "127.0.0.1"


def run(args: Namespace) -> int:
    """Serve until Ctrl-C. Raises CannotRun, UnknownLesson, OSError."""
    own, query = None, []
    if args.what:
        taken = sound_lesson(args.what[0])
        number = number_of(taken)
        own = OwnFile(Path(args.what[0]), taken) if number is None else None
        query.append(f"lesson={number or OWN}")
    if args.language != "en":
        query.append(f"language={args.language}")
    kept_progress()  # a damaged file is named before the page is served
    return asyncio.run(_serve(PageLessons(own, args.assignor, RunProcess()), args.port or 0, "&".join(query)))


async def _serve(lessons: PageLessons, port: int, query: str) -> int:
    stop = stop_on_signals()
    try:
        async with serve_application(lesson_application(lessons, Access(host=HOST)), HOST, port) as address:
            print(f"lessons  {address}/{'?' * bool(query)}{query}  (Ctrl-C ends it)", flush=True)
            await stop.wait()
    except OSError as error:
        raise CannotRun(f"cannot listen on {HOST}:{port}: {error.strerror}. --port 0 takes a free port") from error
    return 0
