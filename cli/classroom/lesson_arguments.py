"""The arguments of `regroup lesson`."""

from argparse import ArgumentParser
from pathlib import Path

from regroup.cli.terminal.arguments import whole_number
from regroup.notation.addresses import MAX_PORT

LESSON_HELP = """\
Learn how consumer groups work: a text, a question to answer before the result is shown, the replay of a run in the lab
with its moments explained, and a task that is checked by running it.

regroup lesson                        the lessons, and what you have done
regroup lesson 3                      take one; answers are read line by line
regroup lesson 3 --language zh        in Simplified Chinese
regroup lesson show 1 > mine.yaml     the file of a lesson, to begin one of your own with
regroup lesson check mine.yaml        check it
regroup lesson mine.yaml              take it
regroup lesson --page                 all lessons in a browser, on this machine alone, until Ctrl-C
regroup lesson 8 --page --assignor mine.py
"""
LANGUAGES = ("en", "zh")


def add_arguments(parser: ArgumentParser) -> None:
    parser.description = LESSON_HELP
    parser.set_defaults(job="regroup.cli.classroom.lesson.job:run")
    parser.add_argument(
        "what", metavar="LESSON", nargs="*", help="a number, an id or a file; `check FILE`; `show LESSON`; or nothing"
    )
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="English or Chinese (default: en)")
    parser.add_argument("--page", action="store_true", help="in a browser (pip install starlette uvicorn)")
    port = whole_number(0, MAX_PORT, what="port")
    parser.add_argument("--port", metavar="P", type=port, help="with --page: listen on this port (default: a free one)")
    parser.add_argument(
        "--assignor", metavar="FILE", type=Path, help="with --page: the Python file of a task that asks for an assignor"
    )
