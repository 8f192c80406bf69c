"""Coordinate the groups of real Kafka clients on one port of this machine. Every event goes to a SQLite file.

regroup serve --port 9092 --topic orders:7
regroup serve --port 0 --set group.initial.rebalance.delay.ms=0 --store /tmp/groups.db
regroup serve --port 9092 --brokers 3       (then type: stop 1, start 1)
regroup serve --mqtt mqtt://localhost:1883  (every event as JSON; `regroup watch` shows the groups)
"""

import argparse
import asyncio
import errno
import signal
import time
from functools import partial
from uuid import uuid4

from regroup.cli.serve import loop as serve_loop
from regroup.cli.serve import mqtt as serve_mqtt
from regroup.cli.serve.arguments import LAST_PORT, add_arguments
from regroup.cli.serve.log import set_up_log
from regroup.cli.serve.prompt import BrokerPrompt
from regroup.cli.serve.settings import settings_of
from regroup.cli.terminal.output import CANNOT_BE_DONE, complain
from regroup.coordinator.settings import InvalidSetting, Settings
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.server.net.process_limits import LoopLog, allow_open_files
from regroup.server.releases import release_named
from regroup.server.settings import BrokerSettings
from regroup.storage.sqlite.threaded import open_store

__all__ = ["add_arguments", "run", "set_up_log"]


def run(args: argparse.Namespace) -> int:
    set_up_log(args.log_level, args.log_format)
    for port in (args.port, args.advertise[1] if args.advertise else 0):
        if port + args.brokers - 1 > LAST_PORT:
            raise InvalidSetting(f"{args.brokers} brokers from port {port} on go past the last port, {LAST_PORT}.")
    settings, broker_settings = settings_of(args)
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
        complain("serve", f"cannot listen on {args.host}:{args.port}: {error.strerror}.{hint}")
        return CANNOT_BE_DONE
    prompt = BrokerPrompt(emulator)
    try:
        await open_doors(args, emulator, prompt)
        async with serve_mqtt.on_mqtt(mqtt, emulator):
            await enough.wait()
    finally:
        prompt.close()
        await emulator.close()
    return 0


async def open_doors(args: argparse.Namespace, emulator: Emulator, prompt: BrokerPrompt) -> None:
    """Clients are told to come once the topics are there."""
    for name, partitions in args.topics:
        await emulator.ensure_topic(name, partitions)
    print("listening on", ",".join(f"{host}:{port}" for host, port in emulator.addresses), flush=True)
    if args.brokers > 1:
        prompt.open()
