"""The job of `regroup serve`: brokers in this process until SIGTERM or Ctrl-C, with settings by their Kafka names."""

import asyncio
import errno
import sys
import tomllib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import structlog

from regroup.cli.jobs import CannotRun
from regroup.cli.serve.log import configure_log
from regroup.cli.serve.mqtt import ServeMqttOptions, embedded_mqtt_broker, mqtt_options, serve_over_mqtt
from regroup.cli.serve.prompt import BrokerPrompt
from regroup.cli.terminal.arguments import MAX_PORT, load
from regroup.cli.terminal.signals import stop_on_signals
from regroup.coordinator.settings import CoordinatorSettings
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.server.net.process_limits import LoopExceptionHandler, raise_open_file_limit
from regroup.server.releases import ANY_RELEASE, Release, newest_release, release_named
from regroup.server.settings import BrokerSettings, settings_from_texts
from regroup.storage.sqlite.files import missing_wal_text, wal_is_missing
from regroup.storage.sqlite.threaded import open_store


def run(args: Namespace) -> int:
    configure_log(args.log_level, args.log_format)
    for port in (args.port, args.advertise[1] if args.advertise else 0):
        if port + args.brokers - 1 > MAX_PORT:
            raise CannotRun(f"{args.brokers} brokers from port {port} on need ports above {MAX_PORT}.")
    options, mqtt = cluster_options(args), mqtt_options(args)
    with asyncio.Runner(loop_factory=loop_factory(args.loop)) as runner:
        runner.run(serve(args, options, mqtt))
    return 0


def cluster_options(args: Namespace) -> ClusterOptions:
    """The brokers that the arguments describe."""
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
        record_max_bytes=args.record_max_bytes if args.record else 0,
    )


def emulated_release(name: str | None) -> Release | None:
    """The release of `--broker-version`, the newest one by default; None for `any`."""
    if name == ANY_RELEASE:
        return None
    return release_named(name) if name else newest_release()


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of `asyncio` or `uvloop` event loops."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = load(f"{name}:new_event_loop")
    except ImportError:
        raise CannotRun("uvloop is not installed: pip install uvloop") from None
    return factory


async def serve(args: Namespace, options: ClusterOptions, mqtt: ServeMqttOptions | None) -> None:
    """Serve until SIGTERM or Ctrl-C, also while it is still starting; then finish the requests that were accepted."""
    stop = stop_on_signals()
    asyncio.get_running_loop().set_exception_handler(LoopExceptionHandler())
    raise_open_file_limit()
    serving = asyncio.create_task(serve_until_cancelled(args, options, mqtt))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


async def serve_until_cancelled(args: Namespace, options: ClusterOptions, mqtt: ServeMqttOptions | None) -> None:
    """Start everything, and stop it when this is cancelled. Raises CannotRun, StoreError."""
    async with embedded_mqtt_broker(mqtt):  # before the store is made: it may not be installed, or its port be taken
        await serve_cluster(args, options, mqtt)


async def serve_cluster(args: Namespace, options: ClusterOptions, mqtt: ServeMqttOptions | None) -> None:
    """Start the brokers, and close them when this is cancelled. "listening" is printed when everything listens."""
    is_incomplete = wal_is_missing(args.store)
    open_here = partial(open_store, args.store, durability=args.durability)
    try:
        cluster = await BrokerCluster.start(open_here, options, reopen_store=partial(open_here, create=False))
    except OSError as error:
        hint = " Try --port 0." if error.errno == errno.EADDRINUSE else ""
        raise CannotRun(f"cannot listen on {args.host}:{args.port}: {error.strerror}.{hint}") from error
    if is_incomplete:
        structlog.get_logger("serve").warning("write-ahead-log-is-missing", hint=missing_wal_text(args.store))
    prompt = BrokerPrompt(cluster)
    try:
        for name, partitions in args.topics:
            await cluster.ensure_topic(name, partitions)
        async with serve_over_mqtt(mqtt, cluster):
            print("listening on", ",".join(f"{host}:{port}" for host, port in cluster.addresses), flush=True)
            if mqtt is not None:
                print("feed on", mqtt.address, flush=True)
            if args.brokers > 1:
                if sys.stdin.isatty():
                    last = args.brokers - 1
                    print(f"type stop N or start N to stop or start a broker, N from 0 to {last}", flush=True)
                prompt.open()
            await asyncio.get_running_loop().create_future()
    finally:
        prompt.close()
        await cluster.close()


def read_settings(args: Namespace) -> tuple[CoordinatorSettings, BrokerSettings]:
    """Read the settings of the coordinator and of the broker; `--set` overrides the file.

    Raises UnknownSetting, InvalidSetting, and CannotRun for a file that cannot be read.
    """
    return settings_from_texts(read_settings_file(args.config) | dict(args.settings))


def read_settings_file(path: Path | None) -> dict[str, str]:
    """Read a TOML file; `group.max.size = 5` and a table `[group.max]` with `size = 5` mean the same."""
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
