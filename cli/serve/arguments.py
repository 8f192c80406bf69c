"""Coordinate the groups of real Kafka clients on one port of this machine. Every event goes to a SQLite file.

regroup serve --port 9092 --topic orders:7
regroup serve --port 0 --set group.initial.rebalance.delay.ms=0 --store /tmp/groups.db
regroup serve --port 9092 --brokers 3       (then type: stop 1, start 1)
regroup serve --mqtt mqtt://localhost:1883  (every event as JSON; `regroup watch` shows the groups)
regroup serve --control 127.0.0.1:9080      (look at groups and act on them over HTTP, from a test in any language)
regroup serve --page 127.0.0.1:9081         (watch the groups on a page, and add, crash and pause members there)
"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from regroup.cli.terminal.arguments import (
    add_mqtt_settings_argument,
    argument_type,
    host,
    host_and_port,
    loaded_type,
    port,
    setting,
    store_file,
    whole_number,
)
from regroup.notation.durations import parse_duration_ms

MAX_BROKERS: Final = 100
MIN_MAX_RESPONSE_BYTES: Final = 64 * 1024
MAX_MAX_RESPONSE_BYTES: Final = 2**31 - 1
DEFAULT_MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
"""The same value as in `regroup.server.limits`, which is not imported here, so that help is quick."""
MIN_RECORD_MAX_BYTES: Final = 1024 * 1024
DEFAULT_RECORD_MAX_BYTES: Final = 256 * 1024 * 1024
MIN_KEEP_MS: Final = 60_000
MAX_TOPIC_PARTITIONS: Final = 10_000
"""The most partitions of a topic, the same as for `num.partitions`."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments: addresses, brokers, the store, settings, MQTT, control, the event loop and the log."""
    parser.description = __doc__
    parser.set_defaults(job="regroup.cli.serve.command:run")
    _add_broker_arguments(parser)
    _add_store_arguments(parser)
    _add_setting_arguments(parser)
    _add_mqtt_arguments(parser)
    _add_control_arguments(parser)
    _add_process_arguments(parser)


def _add_broker_arguments(parser: ArgumentParser) -> None:
    """Add where the brokers listen, how many they are, and which release they emulate."""
    add = parser.add_argument
    add("--host", type=host, default="127.0.0.1", help="the address to listen on (default: this machine alone)")
    add("--port", type=port, default=9092, help="the port; 0 picks a free one (default: 9092)")
    add(
        "--advertise",
        metavar="HOST:PORT",
        type=host_and_port,
        help="the address that clients are to connect to, where it differs, as with containers",
    )
    add(
        "--brokers",
        metavar="N",
        type=whole_number(1, MAX_BROKERS, what="number of brokers"),
        default=1,
        help="brokers in this process, on consecutive ports from --port on; each leads some partitions of "
        "__consumer_offsets and coordinates their groups. Type `stop 1` and `start 1` to stop and start one "
        "(default: 1)",
    )
    add(
        "--broker-version",
        metavar="RELEASE",
        help="serve the API versions of this release of Apache Kafka, such as 2.8; `any` serves all that are known, "
        "also to clients that are too old for the newest release (default: the newest)",
    )


def _add_store_arguments(parser: ArgumentParser) -> None:
    """Add the store, what it records, and the topics."""
    add = parser.add_argument
    add(
        "--store", metavar="FILE", type=store_file, default=Path("regroup.db"), help="the history (default: regroup.db)"
    )
    add(
        "--durability",
        choices=("disk", "process"),
        default="disk",
        help="what an acknowledged change survives: a power failure, or only a crash of this process (default: disk)",
    )
    add(
        "--keep",
        metavar="DURATION",
        type=kept_ms,
        default=0,
        help="delete events from the store that are older, such as 7d or 12h, in small portions while it serves; the "
        "groups keep their state (default: keep all)",
    )
    add(
        "--record",
        action="store_true",
        help="keep every request and its response in the store too, for `regroup exchanges` and `regroup why`",
    )
    add(
        "--record-max-bytes",
        metavar="N",
        type=whole_number(MIN_RECORD_MAX_BYTES, what="number of bytes"),
        default=DEFAULT_RECORD_MAX_BYTES,
        help="how much of the store they may take, compressed; the oldest are deleted (default: 268435456, which is "
        "256 MiB)",
    )
    add(
        "--topic",
        metavar="NAME:N",
        dest="topics",
        type=topic,
        action="append",
        default=[],
        help="a topic with N partitions, created if it is missing; may be repeated",
    )


def _add_setting_arguments(parser: ArgumentParser) -> None:
    """Add the settings and limits."""
    add = parser.add_argument
    add(
        "--set",
        metavar="NAME=VALUE",
        dest="settings",
        type=setting,
        action="append",
        default=[],
        help="a setting by its Kafka name; may be repeated",
    )
    add(
        "--max-response-bytes",
        metavar="N",
        type=whole_number(MIN_MAX_RESPONSE_BYTES, MAX_MAX_RESPONSE_BYTES, what="number of bytes"),
        default=DEFAULT_MAX_RESPONSE_BYTES,
        help="close the connection of a client whose response would be larger (default: 67108864, which is 64 MiB)",
    )
    add("--config", metavar="FILE", type=Path, help="settings from a TOML file, by their Kafka names")


def _add_mqtt_arguments(parser: ArgumentParser) -> None:
    """Add the connection to an MQTT broker."""
    add = parser.add_argument
    add(
        "--mqtt",
        metavar="URL",
        type=loaded_type("regroup.cli.serve.mqtt:parse_mqtt_broker"),
        help="publish every event on this MQTT broker, and let members join over it: mqtt://HOST:PORT, mqtts:// for "
        "TLS, /CLUSTER behind it where several coordinators share a broker; `embedded` or `embedded:PORT` starts a "
        "broker here",
    )
    add_mqtt_settings_argument(parser)
    add(
        "--mqtt-will",
        choices=("watch", "expel"),
        default="watch",
        help="when the MQTT broker publishes the last will of a member: only report the lost connection, or remove "
        "the member from its group at once (default: watch)",
    )


def _add_control_arguments(parser: ArgumentParser) -> None:
    """Add the control port, the page and the fault rules."""
    add = parser.add_argument
    add(
        "--control",
        metavar="HOST:PORT",
        type=loaded_type("regroup.cli.serve.control:control_address"),
        help="look at groups, members and brokers, and act on them, over HTTP and JSON at this address; port 0 picks a "
        "free one. Beyond this machine a token is needed (docs/control.md; pip install starlette uvicorn)",
    )
    add(
        "--control-token",
        metavar="FILE",
        type=Path,
        help="a file with the token that every request to --control must carry; REGROUP_CONTROL_TOKEN in the "
        "environment does the same",
    )
    add(
        "--page",
        metavar="HOST:PORT",
        type=loaded_type("regroup.cli.serve.control:control_address"),
        help="show the groups live on a page at this address, where members can be added, crashed and paused "
        "(docs/classroom.md); it serves what --control serves too",
    )
    add(
        "--page-token",
        metavar="FILE",
        type=Path,
        help="a file with the token that every request to --page must carry; REGROUP_PAGE_TOKEN in the environment "
        "does the same",
    )
    add(
        "--page-read-only",
        action="store_true",
        help="let the page show and not act, for an audience; --control on another port acts",
    )
    add(
        "--faults",
        metavar="FILE",
        type=Path,
        help="a YAML file with rules for requests that are to be delayed, lost or answered with errors "
        "(docs/testing.md); more can be typed at the prompt",
    )


def _add_process_arguments(parser: ArgumentParser) -> None:
    """Add the event loop and the log."""
    add = parser.add_argument
    add(
        "--loop",
        choices=("auto", "asyncio", "uvloop"),
        default="auto",
        help="the event loop; uvloop (pip install uvloop) is quicker when clients wait for each response before they "
        "send the next request (default: auto, which is uvloop where it is installed and asyncio elsewhere)",
    )
    add(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="how the log on standard error looks (default: text)",
    )
    add(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="the lowest level that is logged (default: info)",
    )


@argument_type
def topic(text: str) -> tuple[str, int]:
    """Parse `NAME:PARTITIONS` to the topic name and the number of partitions, which is 1 if it is left out."""
    name, _, count = text.partition(":")
    count = count or "1"
    if not (name and count.isascii() and count.isdigit() and 1 <= int(count) <= MAX_TOPIC_PARTITIONS):
        raise ValueError(
            f"invalid topic: {text!r}; write NAME:PARTITIONS, for example orders:7 (at most {MAX_TOPIC_PARTITIONS})"
        )
    return name, int(count)


@argument_type
def kept_ms(text: str) -> int:
    """Parse the time for which events are kept, in milliseconds."""
    if (milliseconds := parse_duration_ms(text)) < MIN_KEEP_MS:
        raise ValueError(f"invalid duration: {text!r}; keep events for 1m at least, for example 12h or 7d")
    return milliseconds
