"""Coordinate the groups of real Kafka clients on one port of this machine. Every event goes to a SQLite file.

regroup serve --port 9092 --topic orders:7
regroup serve --port 0 --set group.initial.rebalance.delay.ms=0 --store /tmp/groups.db
regroup serve --port 9092 --brokers 3       (then type: stop 1, start 1)
regroup serve --mqtt mqtt://localhost:1883  (every event as JSON; `regroup watch` shows the groups)
"""

import argparse
import asyncio
import errno
import logging
import signal
import sys
import time
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TextIO, cast
from uuid import uuid4

import structlog

from regroup.cli import serve_loop, serve_mqtt
from regroup.cli.serve_prompt import BrokerPrompt
from regroup.coordinator.settings import InvalidSetting, Settings, UnknownSetting
from regroup.server.clock import Clock
from regroup.server.emulator import Emulator
from regroup.server.limits import LoopLog, allow_open_files
from regroup.server.releases import release_named
from regroup.server.settings import BrokerSettings, unknown_setting
from regroup.storage.sqlite import open_store

LEVELS = ("debug", "info", "warning", "error")
LAST_PORT = 65_535
MOST_BROKERS = 100
MOST_PARTITIONS = 10_000
"""Of one topic, as with `num.partitions`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="the address to listen on (default: this machine alone)")
    add("--port", type=port_number, default=9092, help="the port; 0 picks a free one (default: 9092)")
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
    add("--advertise", metavar="HOST:PORT", type=address, help="the address that clients are told, for containers")
    add("--store", metavar="FILE", type=Path, default=Path("regroup.db"), help="the history (default: regroup.db)")
    add(
        "--durability",
        choices=("disk", "process"),
        default="disk",
        help="what an answer survives: a power failure, or only the death of this process",
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
    add(
        "--set",
        metavar="NAME=VALUE",
        dest="settings",
        type=setting,
        action="append",
        default=[],
        help="a setting by its Kafka name; may be repeated",
    )
    serve_mqtt.add_arguments(parser)
    serve_loop.add_arguments(parser)
    add("--config", metavar="FILE", type=Path, help="settings from a TOML file, by their Kafka names")
    add("--log-format", choices=("text", "json"), default="text", help="how the log on standard error looks")
    add("--log-level", choices=LEVELS, default="info", help="the least that is logged (default: info)")


def run(args: argparse.Namespace) -> int:
    set_up_log(args.log_level, args.log_format)
    for port in (args.port, args.advertise[1] if args.advertise else 0):
        if port + args.brokers - 1 > LAST_PORT:
            raise InvalidSetting(f"{args.brokers} brokers from port {port} on go past the last port, {LAST_PORT}.")
    settings, broker_settings = settings_from(texts_from(args.config) | dict(args.settings))
    mqtt = serve_mqtt.plan_of(args)
    with asyncio.Runner(loop_factory=serve_loop.loop_factory(args.loop)) as runner:
        return runner.run(serve(args, emulator_for(args, settings, broker_settings), mqtt))


def emulator_for(args: argparse.Namespace, settings: Settings, broker_settings: BrokerSettings) -> Emulator:
    """What was asked for on the command line; nothing is opened yet."""
    return Emulator(
        partial(open_store, args.store, durability=args.durability),
        clock=Clock(started_at_ms=time.time_ns() // 1_000_000, monotonic_s=time.monotonic),
        new_uuid=uuid4,
        settings=settings,
        broker_settings=broker_settings,
        host=args.host,
        port=args.port,
        advertise=args.advertise,
        brokers=args.brokers,
        release=release_named(args.broker_version) if args.broker_version else None,
    )


def told_to_stop() -> asyncio.Event:
    """Set by SIGTERM or Ctrl-C."""
    enough, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, enough.set)
    return enough


async def serve(args: argparse.Namespace, emulator: Emulator, mqtt: serve_mqtt.MqttPlan | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C; then finish what was accepted."""
    enough = told_to_stop()
    asyncio.get_running_loop().set_exception_handler(LoopLog())
    allow_open_files()
    try:
        await emulator.start()
    except OSError as error:
        hint = " Try --port 0." if error.errno == errno.EADDRINUSE else ""
        print(f"regroup serve: cannot listen on {args.host}:{args.port}: {error.strerror}.{hint}", file=sys.stderr)
        return 2
    prompt = BrokerPrompt(emulator)
    try:
        for name, partitions in args.topics:
            await emulator.ensure_topic(name, partitions)
        print("listening on", ",".join(f"{host}:{port}" for host, port in emulator.addresses), flush=True)
        if args.brokers > 1:
            prompt.open()
        async with serve_mqtt.on_mqtt(mqtt, emulator):
            await enough.wait()
    finally:
        prompt.close()
        await emulator.close()
    return 0


def settings_from(texts: Mapping[str, str]) -> tuple[Settings, BrokerSettings]:
    """The coordinator's settings and the broker's, told apart by their names."""
    groups, broker = set(Settings.names()), set(BrokerSettings.names())
    for name in texts:
        if name not in groups | broker:
            raise UnknownSetting(unknown_setting(name, sorted(groups | broker)))
    return (
        Settings.from_texts({name: text for name, text in texts.items() if name in groups}),
        BrokerSettings.from_texts({name: text for name, text in texts.items() if name in broker}),
    )


def texts_from(path: Path | None) -> dict[str, str]:
    """The settings of a TOML file; `group.max.size = 5` and a table `[group.max]` with `size = 5` mean the same."""
    if path is None:
        return {}
    try:
        return dict(flattened("", tomllib.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"{path} cannot be read as TOML: {error}") from None


def flattened(prefix: str, values: Mapping[str, object]) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            rows += flattened(f"{name}.", value)
        else:
            rows.append((name, str(value).lower() if isinstance(value, bool) else str(value)))
    return rows


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


def setting(text: str) -> tuple[str, str]:
    """`NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no setting; write NAME=VALUE, for example group.max.size=5")
    return name.strip(), value.strip()


class Unconcerned:
    """A log that cannot be written, since its disk is full or its reader has gone, is no reason to stop serving."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


def set_up_log(level: str, form: str) -> None:
    """One line an event on standard error, so that standard output has nothing but what was asked for."""
    render: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if form == "text":
        render = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=24)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", Unconcerned(sys.stderr))),
    )
