"""The job of `regroup serve`: runs brokers in this process until SIGTERM or Ctrl-C, with settings by their
Kafka names.
"""

import asyncio
import errno
import gc
import os
import sys
import tomllib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import structlog

from regroup.cli.jobs import CannotRun
from regroup.cli.serve.brokers import ServedBrokers, ServeOptions, plain_brokers
from regroup.cli.serve.control import ControlOptions, control_options
from regroup.cli.serve.log import configure_log
from regroup.cli.serve.mqtt import embedded_mqtt_broker, mqtt_options
from regroup.cli.serve.prompt import ServePrompt
from regroup.cli.terminal.arguments import load
from regroup.cli.terminal.signals import stop_on_signals
from regroup.coordinator.settings import CoordinatorSettings, InvalidSetting
from regroup.notation.addresses import MAX_PORT
from regroup.server.broker_cluster import ClusterOptions
from regroup.server.net.process_limits import LoopExceptionHandler, raise_open_file_limit
from regroup.server.releases import ANY_RELEASE, Release, newest_release, release_named
from regroup.server.settings import BrokerSettings, settings_from_texts
from regroup.storage.sqlite.files import missing_wal_text, remove_store, store_exists, wal_is_missing
from regroup.storage.sqlite.threaded import open_store

if TYPE_CHECKING:
    from regroup.server.faults.rule import FaultRule


class ServePlan(NamedTuple):
    """What `regroup serve` starts, as read from its arguments: brokers, control ports, MQTT."""

    options: ServeOptions
    ports: tuple[ControlOptions, ...]
    """The options of the ports of --control and --page."""
    rules: "list[FaultRule]"


def run(args: Namespace) -> int:
    configure_log(args.log_level, args.log_format)
    for port in (args.port, args.advertise[1] if args.advertise else 0):
        if port + args.brokers - 1 > MAX_PORT:
            raise CannotRun(f"{args.brokers} brokers from port {port} on need ports above {MAX_PORT}.")
    plan = serve_plan(args)
    with asyncio.Runner(loop_factory=loop_factory(args.loop)) as runner:
        runner.run(serve(args, plan))
    return 0


def serve_plan(args: Namespace) -> ServePlan:
    """Check everything that can be checked before the store is opened, and return the plan. Raises CannotRun,
    UnknownSetting, InvalidSetting."""
    open_here = partial(open_store, args.store, durability=args.durability)
    options = ServeOptions(
        cluster=cluster_options(args),
        open_store=open_here,
        reopen_store=partial(open_here, create=False),
        topics=tuple(args.topics),
        mqtt=mqtt_options(args),
    )
    rules = load("regroup.cli.serve.faults:read_fault_rules")(args.faults) if args.faults else []
    return ServePlan(options, control_options(args), rules)


def cluster_options(args: Namespace) -> ClusterOptions:
    """The options of the brokers, from the arguments."""
    settings, broker_settings = read_settings(args)
    return ClusterOptions(
        settings=settings,
        broker_settings=broker_settings,
        host=args.host,
        port=args.port,
        advertise=args.advertise,
        brokers=args.brokers,
        max_response_bytes=args.max_response_bytes,
        release=emulated_release(args.broker_version),
        keep_ms=args.keep,
        record_max_bytes=args.record_max_bytes if args.record else 0,
    )


def emulated_release(name: str | None) -> Release | None:
    """The release that `--broker-version` names, by default the newest; None for `any`."""
    if name == ANY_RELEASE:
        return None
    return release_named(name) if name else newest_release()


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """The function that makes an event loop of `asyncio` or `uvloop`; with `auto`, of uvloop if it is installed."""
    if name == "auto":
        name = "uvloop" if find_spec("uvloop") else "asyncio"
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = load(f"{name}:new_event_loop")
    except ImportError:
        raise CannotRun("uvloop is not installed: pip install uvloop") from None
    return factory


async def serve(args: Namespace, plan: ServePlan) -> None:
    """Serve until SIGTERM or Ctrl-C, also while it is still starting; then finish the requests that were accepted."""
    stop = stop_on_signals()
    handler = LoopExceptionHandler()
    asyncio.get_running_loop().set_exception_handler(handler)
    raise_open_file_limit()
    watching = asyncio.create_task(handler.watch_open_files())
    serving = asyncio.create_task(serve_until_cancelled(args, plan))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    watching.cancel()
    stopping.cancel()
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


async def serve_until_cancelled(args: Namespace, plan: ServePlan) -> None:
    """Start everything, and stop it when this coroutine is cancelled. Raises CannotRun, StoreError."""
    # Before the store is made: it may not be installed, or its port be taken.
    async with embedded_mqtt_broker(plan.options.mqtt):
        await serve_brokers(args, plan)


async def serve_brokers(args: Namespace, plan: ServePlan) -> None:
    """Start the brokers, and close them when this coroutine is cancelled. "listening" is printed when all ports
    listen."""
    is_incomplete, is_new = wal_is_missing(args.store), not store_exists(args.store)
    async with AsyncExitStack() as stack:
        try:
            brokers, lines = await start_brokers(plan, stack)
        except (OSError, CannotRun, InvalidSetting) as error:
            if is_new:
                remove_store(args.store)
            if isinstance(error, OSError):
                raise CannotRun(f"cannot listen on {args.host}:{args.port}: {reason_of(error)}") from error
            raise
        if is_incomplete:
            structlog.get_logger("serve").warning("write-ahead-log-is-missing", hint=missing_wal_text(args.store))
        for rule in plan.rules:
            brokers.faults.add(rule)
        collect_less_garbage()
        print("listening on", ",".join(f"{host}:{port}" for host, port in brokers.addresses), flush=True)
        for line in lines:
            print(line, flush=True)
        if args.brokers > 1 or sys.stdin.isatty():
            prompt = ServePrompt(brokers, args.brokers)
            if sys.stdin.isatty():
                print(prompt.hint, flush=True)
            prompt.open()
            stack.callback(prompt.close)
        await asyncio.get_running_loop().create_future()


def collect_less_garbage() -> None:
    """Let Python's garbage collector look at fewer objects.

    What was made so far lives as long as the process, and to look through it again would take 40 ms each time. Values
    have no cycles, so collections find little; with the usual thresholds a group of 5,000 members takes a tenth longer.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def reason_of(error: OSError) -> str:
    """Why the brokers cannot listen, as text. The event loop's own text would repeat the address."""
    if error.errno == errno.EADDRINUSE:
        return "another program uses the port. Try --port 0."
    text = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    return f"{text}."


async def start_brokers(plan: ServePlan, stack: AsyncExitStack) -> tuple[ServedBrokers, list[str]]:
    """Start the brokers, which are closed with the stack. Returns them with the lines that name their further
    addresses."""
    lines = [] if plan.options.mqtt is None else [f"feed on {plan.options.mqtt.address}"]
    if not plan.ports:
        return await stack.enter_async_context(plain_brokers(plan.options)), lines
    controlled_brokers = load("regroup.cli.serve.controlled:controlled_brokers")
    brokers, ports = await stack.enter_async_context(controlled_brokers(plan.options, plan.ports))
    return brokers, [*ports, *lines]


def read_settings(args: Namespace) -> tuple[CoordinatorSettings, BrokerSettings]:
    """Read the settings of the coordinator and of the broker; `--set` overrides the file.

    Raises UnknownSetting, InvalidSetting, and CannotRun for a file that cannot be read.
    """
    return settings_from_texts(read_settings_file(args.config) | dict(args.settings))


def read_settings_file(path: Path | None) -> dict[str, str]:
    """Read the settings in a TOML file, by their Kafka names; `group.max.size = 5` and a table `[group.max]` with `size
    = 5` mean the same."""
    if path is None:
        return {}
    try:
        return dict(_flatten("", tomllib.loads(path.read_text(encoding="utf-8"))))
    except OSError as error:
        raise CannotRun(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise CannotRun(f"{path} cannot be read as TOML: {error}") from None


def _flatten(prefix: str, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", str(value).lower() if isinstance(value, bool) else str(value)
