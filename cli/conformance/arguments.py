"""What can be typed after `regroup conformance`."""

import argparse
from pathlib import Path

from regroup.cli.serve.arguments import address
from regroup.conformance.differential.duel import AT_ONCE as COURSES_AT_ONCE
from regroup.conformance.differential.random_course import SLOT_MS
from regroup.conformance.run.runner import AT_ONCE
from regroup.conformance.stories import CASES

OURS = "emulator"
"""As the one to compare with: an emulator of our own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `regroup conformance`."""
    add = parser.add_argument
    add("--bootstrap", metavar="HOST:PORT", type=_broker, help="the broker to examine, or one of a cluster")
    add("--list", action="store_true", help="show the stories and tell none")
    add("--json", metavar="FILE", type=_new_file, help="write what was found there too")
    add("--brief", action="store_true", help="show failures and totals, and not every behaviour")
    _add_choices(parser.add_argument_group("which stories"))
    _add_broker(parser.add_argument_group("what the broker cannot tell"))
    _add_comparison(parser.add_argument_group("random courses, instead of stories"))


def _add_choices(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add("--area", metavar="AREA,...", type=_areas, default=(), help=f"only these areas: {', '.join(_all_areas())}")
    add("--case", metavar="ID", action="append", default=[], help="only this behaviour; may be repeated")
    add(
        "--longest",
        metavar="SECONDS",
        type=float,
        default=120,
        help="leave out stories that may take longer; one takes five minutes (default: %(default)s)",
    )
    add("--at-once", metavar="N", type=_count, default=AT_ONCE, help="stories side by side (default: %(default)s)")


def _add_broker(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add("--restart", metavar="COMMAND", help="restarts the broker and returns when it is back")
    add(
        "--set",
        metavar="NAME=VALUE",
        dest="settings",
        type=_setting,
        action="append",
        default=[],
        help="a setting of the broker; may be repeated",
    )
    add(
        "--newest",
        metavar="API=VERSION",
        type=_setting,
        action="append",
        default=[],
        help="speak no newer version of this API than that, whatever the broker offers; may be repeated",
    )


def _add_comparison(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add(
        "--against",
        metavar="HOST:PORT",
        type=lambda text: text if text == OURS else _broker(text),
        help="play random courses to both brokers, and compare what they make of them; the word `emulator` stands for "
        "one of our own, which is told what the first broker chose where Kafka leaves a choice",
    )
    add("--seeds", metavar="FIRST-LAST", type=_seeds, default=range(1, 51), help="which courses (default: 1-50)")
    add(
        "--courses",
        metavar="N",
        type=_count,
        default=COURSES_AT_ONCE,
        help="so many side by side (default: %(default)s)",
    )
    add(
        "--slot",
        metavar="MS",
        type=_count,
        default=SLOT_MS,
        help="milliseconds from move to move; more where the machine is busy (default: %(default)s)",
    )


def _all_areas() -> list[str]:
    return [*dict.fromkeys(each.area for each in CASES.values())]


def _broker(text: str) -> str:
    address(text)
    return text


def _areas(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    for word in words:
        if word not in _all_areas():
            raise argparse.ArgumentTypeError(f"{word!r} is no area; there are {', '.join(_all_areas())}")
    return words


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} should be a number, at least 1")
    return int(text)


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    last = last or first
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise argparse.ArgumentTypeError(f"{text!r} should be two numbers, as in 1-100")
    return range(int(first), int(last) + 1)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and value.strip().lstrip("-").isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} should be NAME=NUMBER, as in group.max.size=10 or JoinGroup=5")
    return name.strip(), value.strip()


def _new_file(text: str) -> Path:
    """Said before anybody has waited for minutes."""
    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: no such folder, or a folder itself")
    return path
