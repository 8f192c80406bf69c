"""The arguments of `regroup lesson`."""

from argparse import ArgumentParser

LESSON_HELP = """\
Learn how consumer groups work: a text, a question to answer before the result is shown, the replay of a run in the lab
with its moments explained, and a task that is checked by running it.

regroup lesson                        the lessons, and what you have done
regroup lesson 3                      take one; answers are read line by line
regroup lesson 3 --language zh        in Simplified Chinese
regroup lesson show 1 > mine.yaml     the file of a lesson, to begin one of your own with
regroup lesson check mine.yaml        check it
regroup lesson mine.yaml              take it
"""
LANGUAGES = ("en", "zh")


def add_arguments(parser: ArgumentParser) -> None:
    parser.description = LESSON_HELP
    parser.set_defaults(job="regroup.cli.classroom.lesson.job:run")
    parser.add_argument(
        "what", metavar="LESSON", nargs="*", help="a number, an id or a file; `check FILE`; `show LESSON`; or nothing"
    )
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="English or Chinese (default: en)")
