"""Test any address that speaks Kafka with short stories, and report each behaviour in which it differs from Kafka.

regroup conformance --bootstrap 127.0.0.1:9092
regroup conformance --bootstrap 127.0.0.1:9092 --area join,sync --json report.json
regroup conformance --bootstrap 127.0.0.1:9092 --against 127.0.0.1:9192 --seeds 1-100
regroup conformance --bootstrap 127.0.0.1:9092 --against emulator --seeds 1-100
regroup conformance --list
"""

from argparse import ArgumentParser
from typing import Final

from regroup.cli.terminal.arguments import argument_type, host_and_port, new_file, seed_range, setting, whole_number

AREAS: Final = (
    "join",
    "sync",
    "heartbeat",
    "leave",
    "static",
    "leader",
    "timeout",
    "protocol",
    "limits",
    "describe",
    "list",
    "delete",
    "offset-commit",
    "offset-fetch",
    "offset-delete",
    "txn-offset",
    "validation",
    "recovery",
    "cg.val",
    "cg.join",
    "cg.regex",
    "cg.lim",
    "cg.static",
    "cg.leave",
    "cg.state",
    "cg.epoch",
    "cg.resp",
    "cg.int",
    "cg.rec",
    "cg.asr",
    "cg.sess",
    "cg.reb",
    "cg.od",
    "cg.topic",
    "cg.exp",
    "cg.oc",
    "cg.of",
    "cg.txn",
    "cg.desc",
    "cg.list",
    "cg.del",
    "cg.cfg",
    "cg.up",
    "cg.down",
    "cg.cm",
    "cg.fail",
)
"""The areas of the stories in regroup.conformance.stories, listed here because that takes long to load.

Those of the consumer protocol (KIP-848) begin with `cg.`.
"""
OWN_EMULATOR: Final = "emulator"
"""The value of --against that stands for an emulator in this process."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.description = __doc__
    parser.set_defaults(job="regroup.cli.conformance.command:run")
    add = parser.add_argument
    add("--bootstrap", metavar="HOST:PORT", type=broker, help="the broker to test, or one of a cluster")
    add("--list", action="store_true", help="list the stories, and run none")
    add("--json", metavar="FILE", type=new_file, help="write the report to this file, too")
    add("--brief", action="store_true", help="show failures and totals, and not every behaviour")
    _add_stories(parser)
    _add_broker(parser)
    _add_random_courses(parser)


def _add_stories(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("stories").add_argument
    add("--area", metavar="AREA,...", type=areas, default=(), help=f"only these areas: {', '.join(AREAS)}")
    add("--case", metavar="ID,...", type=names, action="extend", default=[], help="only these behaviours")
    add(
        "--longest",
        metavar="SECONDS",
        type=float,
        default=120,
        help="leave out stories that may take longer; one takes five minutes (default: %(default)s)",
    )
    add("--at-once", metavar="N", type=whole_number(1), default=80, help="stories at a time (default: %(default)s)")


def _add_broker(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("what the broker does not report").add_argument
    add("--restart", metavar="COMMAND", help="a command that stops the broker and starts it again")
    add(
        "--set",
        metavar="NAME=VALUE",
        dest="settings",
        type=numeric_setting,
        action="append",
        default=[],
        help="a setting of the broker; may be repeated",
    )
    add(
        "--newest",
        metavar="API=VERSION",
        type=numeric_setting,
        action="append",
        default=[],
        help="use no newer version of this API, even if the broker offers one; may be repeated",
    )


def _add_random_courses(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("random courses, in place of stories").add_argument
    add(
        "--against",
        metavar="HOST:PORT",
        type=broker_or_emulator,
        help="run random courses against both brokers, and compare the results; the word `emulator` stands for one in "
        "this process, which follows the first broker where Kafka leaves a choice",
    )
    seeds = seed_range(alone_is_count=False)
    add("--seeds", metavar="FIRST-LAST", type=seeds, default=range(1, 51), help="which courses (default: 1-50)")
    add("--courses", metavar="N", type=whole_number(1), default=24, help="courses at a time (default: %(default)s)")
    add(
        "--slot",
        metavar="MS",
        type=whole_number(1),
        default=500,
        help="at least so many milliseconds from move to move; more where the machine is busy (default: %(default)s)",
    )


def broker(text: str) -> str:
    """Check that a text is `HOST:PORT`, and return it unchanged."""
    host_and_port(text)
    return text


def broker_or_emulator(text: str) -> str:
    return text if text == OWN_EMULATOR else broker(text)


def names(text: str) -> list[str]:
    """Parse names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


@argument_type
def areas(text: str) -> tuple[str, ...]:
    """Parse names of areas with commas between them."""
    found = tuple(names(text))
    for name in found:
        if name not in AREAS:
            raise ValueError(f"unknown area: {name!r}; use {', '.join(AREAS)}")
    return found


@argument_type
def numeric_setting(text: str) -> tuple[str, str]:
    """Parse `NAME=NUMBER`."""
    name, value = setting(text)
    if not value.removeprefix("-").isdecimal():
        raise ValueError(f"invalid setting: {text!r}; write NAME=NUMBER, as in group.max.size=10 or JoinGroup=5")
    return name, value
