"""The words of `regroup serve`."""

import argparse
from pathlib import Path
from typing import Final

from regroup.cli.serve import log, loop, mqtt, settings

LAST_PORT: Final = 65_535
MOST_BROKERS: Final = 100
MOST_PARTITIONS: Final = 10_000
"""Of one topic, as with `num.partitions`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """By theme: where it listens, what it keeps, how it behaves, what it says."""
    _add_place(parser)
    _add_brokers(parser)
    _add_history(parser)
    settings.add_arguments(parser)
    mqtt.add_arguments(parser)
    loop.add_arguments(parser)
    log.add_arguments(parser)


def _add_place(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="the address to listen on (default: this machine alone)")
    add("--port", type=port_number, default=9092, help="the port; 0 picks a free one (default: 9092)")
    add("--advertise", metavar="HOST:PORT", type=address, help="the address that clients are told, for containers")


def _add_brokers(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--brokers",
        metavar="N",
        type=number_of_brokers,
        default=1,
        help="brokers in this process, on the ports from --port on; groups live on the one that leads their partition "
        "of __consumer_offsets. Type `stop 1` and `start 1` to stop and start one (default: 1)",
    )
    add(
        "--broker-version",
        metavar="RELEASE",
        help="serve the API versions that this release of Apache Kafka did, such as 2.8 (default: all that are known)",
    )


def _add_history(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--store", metavar="FILE", type=Path, default=Path("regroup.db"), help="the history (default: regroup.db)")
    add(
        "--durability",
        choices=("disk", "process"),
        default="disk",
        help="what an answer survives: a power failure, or only the death of this process (default: disk)",
    )
    add(
        "--topic",
        metavar="NAME:N",
        dest="topics",
        type=topic,
        action="append",
        default=[],
        help="a topic with N partitions, made if it is missing; may be repeated",
    )


def port_number(text: str) -> int:
    """A number that TCP has a port for; 0 means any."""
    if not text.isdecimal() or int(text) > LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; write a number from 0 to {LAST_PORT}")
    return int(text)


def number_of_brokers(text: str) -> int:
    """How many brokers."""
    if not text.isdecimal() or not 1 <= int(text) <= MOST_BROKERS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of brokers; write one from 1 to {MOST_BROKERS}")
    return int(text)


def address(text: str) -> tuple[str, int]:
    """`HOST:PORT`."""
    host, colon, number = text.rpartition(":")
    if not (colon and host and number.isdecimal() and 0 < int(number) <= LAST_PORT):
        raise argparse.ArgumentTypeError(f"{text!r} is no address; write HOST:PORT, for example kafka.local:9092")
    return host, int(number)


def topic(text: str) -> tuple[str, int]:
    """`NAME:PARTITIONS`; without a number one partition."""
    name, _, count = text.partition(":")
    if not name or not (count or "1").isdecimal() or not 1 <= int(count or "1") <= MOST_PARTITIONS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no topic; write NAME:PARTITIONS, for example orders:7 (at most {MOST_PARTITIONS})"
        )
    return name, int(count or "1")
