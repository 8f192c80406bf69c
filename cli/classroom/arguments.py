"""The arguments of `regroup story`, `export`, `view` and `step`."""

from argparse import ArgumentParser, ArgumentTypeError

from regroup.classroom.languages import Language
from regroup.cli.terminal.arguments import loaded_type, new_file, store_file, whole_number
from regroup.notation.addresses import MAX_PORT

STORY_HELP = """\
Write a group's life in sentences: who joined, who led, who got what, who was removed and why, what a rebalance cost.

regroup story regroup.db
regroup story regroup.db --group payments --from 120 --to 180
regroup story regroup.db --from 13:05:20 --to 13:06:00      times of day in UTC, as `regroup events` shows them
regroup story regroup.db --to 90s                           the first 90 seconds of each group

What was not recorded is left out: session clocks, lost messages, refused requests, what members believed they owned.
--language zh writes Simplified Chinese, with Kafka's own terms in English.
"""
EXPORT_HELP = """\
Draw a part of a group's history: members and coordinator, generations, and who owned which partition when.

regroup export regroup.db --group payments --svg --output payments.svg
regroup export regroup.db --group payments --from 120 --to 180 --mermaid
regroup export regroup.db --group payments --to 90s --text
regroup export regroup.db --group payments --html payments.html

--svg draws lanes, held JoinGroup and SyncGroup, generations, states and the owners of each partition. --mermaid is a
sequence diagram for a Markdown page. --text is for a terminal. What would be unreadable is refused, with a part of the
history that would not be. --html writes the page of `regroup view` with the whole history as one file, for a browser
without network.
"""
VIEW_HELP = """\
Show a group's history in a browser: a sequence, who owned what, the state machine, deadlines, offsets; step by step.

regroup view regroup.db
regroup view regroup.db --group payments --port 8080
regroup view eager.db cooperative.db        two histories on one time axis, with their totals

The page is served on this machine alone, until Ctrl-C, and fetches nothing from the network. A reload reads the store
again. #event-120 behind the address shows the event at position 120, ?language=zh is in Chinese, as with --language zh.
"""
STEP_HELP = """\
Walk a group's history key by key, in a full-screen view: the state table, what each member does, the deadlines that
run, who owns which partition, the event with its cause, and the request and response that led to it.

regroup step regroup.db
regroup step regroup.db --group payments --at 120
regroup step regroup.db --at 13:05:20                       a time of day in UTC, as `regroup events` shows it

→ and ← step, g goes to the next rebalance, d to the next deadline that ran out, : to a position, space plays, ? shows
all keys, q quits. It needs a terminal, best of 80 columns and 24 rows or more, and the package textual. NO_COLOR is
respected. What was not recorded is called not recorded.
"""
PLACE_HELP = "a position in the store, a time since the group's first event (90s), or a time in UTC (13:05:20)"


def add_story_arguments(parser: ArgumentParser) -> None:
    parser.description = STORY_HELP
    parser.set_defaults(job="regroup.cli.classroom.story:run")
    _add_store(parser)
    parser.add_argument("--group", metavar="G", help="only this group")
    _add_range(parser)
    _add_language(parser)


def add_export_arguments(parser: ArgumentParser) -> None:
    parser.description = EXPORT_HELP
    parser.set_defaults(job="regroup.cli.classroom.export:run")
    _add_store(parser)
    parser.add_argument("--group", metavar="G", help="the group to draw (default: the only one of the store)")
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--text", dest="form", action="store_const", const="text", help="lines for a terminal")
    form.add_argument("--mermaid", dest="form", action="store_const", const="mermaid", help="a sequence diagram")
    form.add_argument("--svg", dest="form", action="store_const", const="svg", help="a picture")
    form.add_argument("--html", metavar="FILE", type=new_file, help="write the page of `regroup view` to this file")
    _add_range(parser)
    _add_language(parser)
    parser.add_argument(
        "--output", metavar="FILE", type=new_file, help="write to this file (default: to the standard output)"
    )


def add_view_arguments(parser: ArgumentParser) -> None:
    parser.description = VIEW_HELP
    parser.set_defaults(
        job="regroup.cli.classroom.view:run", packages=("starlette", "uvicorn"), install="pip install starlette uvicorn"
    )
    _add_store(parser)
    parser.add_argument("store_2", metavar="STORE2", nargs="?", type=store_file, help="a second store, to compare with")
    parser.add_argument("--group", metavar="G", help="only this group (default: the page offers all)")
    port = whole_number(0, MAX_PORT, what="port")
    parser.add_argument("--port", metavar="P", type=port, default=0, help="listen on this port (default: a free one)")
    _add_language(parser)


def add_step_arguments(parser: ArgumentParser) -> None:
    parser.description = STEP_HELP
    parser.set_defaults(job="regroup.cli.classroom.step:run", packages=("textual",), install="pip install textual")
    _add_store(parser)
    parser.add_argument("--group", metavar="G", help="only this group")
    place = loaded_type("regroup.cli.classroom.selection:parse_place")
    parser.add_argument("--at", metavar="PLACE", type=place, help=f"begin at {PLACE_HELP}")
    _add_language(parser)


def _add_store(parser: ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", type=store_file, help="the file that `regroup serve --store` writes")


def _add_language(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--language", metavar="L", type=_language, default=Language.ENGLISH, help="en or zh (default: en)"
    )


def _language(text: str) -> Language:
    try:
        return Language(text)
    except ValueError:
        raise ArgumentTypeError(f"unknown language: {text!r}; give en (English) or zh (Simplified Chinese)") from None


def _add_range(parser: ArgumentParser) -> None:
    place = loaded_type("regroup.cli.classroom.selection:parse_place")
    parser.add_argument("--from", dest="start", metavar="PLACE", type=place, help=f"begin at {PLACE_HELP}")
    parser.add_argument("--to", dest="end", metavar="PLACE", type=place, help="end there; written as for --from")
