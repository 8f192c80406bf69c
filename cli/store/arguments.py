"""The arguments of the commands that work on a store: `events`, `replay`, `exchanges`, `why`, `verify` and others."""

from argparse import ArgumentParser
from typing import Final

from regroup.cli.terminal.arguments import duration_ms, loaded_type, store_file

EVENTS_HELP = """\
Show a store's events, oldest first: what happened, to which member, and why.

regroup events regroup.db --group payments
regroup events regroup.db --follow                     wait for what a running emulator writes next
regroup events regroup.db --format jsonl | jq .type    one JSON object a line, for other programs
"""
REPLAY_HELP = """\
Show the state of a store's groups at a position: the fold of every event up to there.

A terminal shows text: state, generation, and who owns what. Programs get JSON with everything; bytes are in base64
there, and `topics` and `partitions` beside them show what they hold, where they can be decoded.

regroup replay regroup.db
regroup replay regroup.db --group payments --at 120
regroup replay regroup.db --format json | jq .groups
"""
EXCHANGES_HELP = """\
Show the requests and responses that `regroup serve --record` has kept in a store, oldest first.

regroup exchanges regroup.db --group payments
regroup exchanges regroup.db --client second --api Heartbeat --api JoinGroup
regroup exchanges regroup.db --from 12:00:40 --to 12:01 --verbose     the decoded messages, too
regroup exchanges regroup.db --json | jq .answer                      one JSON object a line

A run of equal heartbeats is one line with their number. `events` are the positions of the events to which a request
led; `regroup events` shows them. Times are UTC; a time of day means the last day on which something was recorded.
"""
WHY_HELP = """\
Say in sentences why something happened to a group: the chain of causes, from its events.

regroup why regroup.db --group payments                        its last rebalance
regroup why regroup.db --group payments --member second        the last thing that happened to a member
regroup why regroup.db --group payments --event 120            one event, by its position

A member is named by its client id, instance id or member id. A store that was written with `regroup serve --record`
says more; what was not recorded is called so.
"""
VERIFY_HELP = """\
Fold a store's whole history, check every invariant, and compare the snapshots with the fold.

  regroup verify regroup.db

The exit code is 0 if everything holds, and 1 if not; then the position of the first fault is shown. It is 2 for a
file that cannot be read as a store.
"""
TRIM_HELP = """\
Delete the oldest events of a store, so that a long history stays small. The groups keep their state.

  regroup trim regroup.db --before 100000
  regroup trim regroup.db --older-than 7d

The file stays as long as it is; the next events are written into the space that becomes free. Stop the emulator first:
only one process may write to a store. `regroup serve --keep 7d` trims while it runs.
"""
COPY_HELP = """\
Copy a store, also while an emulator writes to it. The copy is one file, complete and checked.

  regroup copy regroup.db monday.db

A copy of the file alone, by other means, is none while the store is being written: its last events are in the
write-ahead log beside it, regroup.db-wal.
"""

moment: Final = loaded_type("regroup.cli.store.times:parse_moment")


def add_events_arguments(parser: ArgumentParser) -> None:
    parser.description = EVENTS_HELP
    parser.set_defaults(job="regroup.cli.store.events:run")
    _add_store(parser)
    _add_group(parser)
    parser.add_argument("--after", metavar="POSITION", type=int, default=0, help="only events after this position")
    parser.add_argument("--follow", action="store_true", help="wait for more; end with Ctrl-C")
    parser.add_argument(
        "--format", choices=("text", "jsonl"), default="text", help="for people, or for programs (default: text)"
    )


def add_replay_arguments(parser: ArgumentParser) -> None:
    parser.description = REPLAY_HELP
    parser.set_defaults(job="regroup.cli.store.history:run_replay")
    _add_store(parser)
    _add_group(parser)
    parser.add_argument("--at", metavar="POSITION", type=int, help="the state after this event (default: the last)")
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        help="for people, or for programs (default: text on a terminal, else json)",
    )


def add_exchanges_arguments(parser: ArgumentParser) -> None:
    parser.description = EXCHANGES_HELP
    parser.set_defaults(job="regroup.cli.store.exchanges:run")
    _add_store(parser)
    add = parser.add_argument
    add("--group", metavar="G", default="", help="only requests that name this group")
    add("--member", metavar="M", default="", help="only those of a member: its member id, instance id or client id")
    add("--client", metavar="C", default="", help="only those with this client id")
    add("--api", metavar="A", dest="apis", action="append", default=[], help="only this API; may be repeated")
    add("--from", metavar="TIME", dest="from_time", type=moment, help="only those that went on at this time or later")
    add("--to", metavar="TIME", dest="to_time", type=moment, help="only those that began at this time or earlier")
    add("--json", action="store_true", help="one JSON object a line, for programs")
    add("--verbose", action="store_true", help="show the decoded messages below each line")


def add_why_arguments(parser: ArgumentParser) -> None:
    parser.description = WHY_HELP
    parser.set_defaults(job="regroup.cli.store.why:run")
    _add_store(parser)
    parser.add_argument("--group", metavar="G", required=True, help="the group")
    parser.add_argument("--member", metavar="M", help="a member: its member id, instance id or client id")
    parser.add_argument("--event", metavar="POSITION", type=int, help="the position of an event of the group")
    parser.add_argument("--json", action="store_true", help="the sentences as a tree, for programs")


def add_verify_arguments(parser: ArgumentParser) -> None:
    parser.description = VERIFY_HELP
    parser.set_defaults(job="regroup.cli.store.history:run_verify")
    _add_store(parser)


def add_trim_arguments(parser: ArgumentParser) -> None:
    parser.description = TRIM_HELP
    parser.set_defaults(job="regroup.cli.store.history:run_trim")
    _add_store(parser)
    first = parser.add_mutually_exclusive_group(required=True)
    first.add_argument("--before", metavar="POSITION", type=int, help="the first event to keep")
    first.add_argument(
        "--older-than", metavar="DURATION", type=duration_ms, help="delete events of an earlier time, such as 7d or 12h"
    )


def add_copy_arguments(parser: ArgumentParser) -> None:
    parser.description = COPY_HELP
    parser.set_defaults(job="regroup.cli.store.copy:run")
    _add_store(parser)
    parser.add_argument("to", metavar="TO", type=store_file, help="the new file; nothing is overwritten")


def _add_store(parser: ArgumentParser) -> None:
    """Add the argument of the store. A running emulator may write to that store at the same time."""
    parser.add_argument("store", metavar="STORE", type=store_file, help="the file that `regroup serve --store` writes")


def _add_group(parser: ArgumentParser) -> None:
    parser.add_argument("--group", metavar="G", help="only this group")
