"""The job of `regroup serve`: brokers in this process until SIGTERM or Ctrl-C."""

import asyncio
import errno
from argparse import Namespace
from collections.abc import Callable
from functools import partial

from regroup.cli.jobs import CannotRun
from regroup.cli.serve.log import configure_log
from regroup.cli.serve.mqtt import ServeMqttOptions, mqtt_options, serve_over_mqtt
from regroup.cli.serve.prompt import BrokerPrompt
from regroup.cli.serve.settings import read_settings
from regroup.cli.terminal.arguments import MAX_PORT, load
from regroup.cli.terminal.signals import stop_on_signals
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.server.net.process_limits import LoopExceptionHandler, raise_open_file_limit
from regroup.server.releases import release_named
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
        release=release_named(args.broker_version) if args.broker_version else None,
    )


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of `asyncio` or `uvloop` event loops."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = load(f"{name}:new_event_loop")
    except ImportError:
        raise CannotRun("uvloop is not installed: pip install uvloop") from None
    return factory


async def serve(args: Namespace, options: ClusterOptions, mqtt: ServeMqttOptions | None) -> None:
    """Serve until SIGTERM or Ctrl-C; then finish the requests that were accepted."""
    stop = stop_on_signals()
    asyncio.get_running_loop().set_exception_handler(LoopExceptionHandler())
    raise_open_file_limit()
    try:
        cluster = await BrokerCluster.start(partial(open_store, args.store, durability=args.durability), options)
    except OSError as error:
        hint = " Try --port 0." if error.errno == errno.EADDRINUSE else ""
        raise CannotRun(f"cannot listen on {args.host}:{args.port}: {error.strerror}.{hint}") from error
    prompt = BrokerPrompt(cluster)
    try:
        for name, partitions in args.topics:
            await cluster.ensure_topic(name, partitions)
        print("listening on", ",".join(f"{host}:{port}" for host, port in cluster.addresses), flush=True)
        if args.brokers > 1:
            prompt.open()
        async with serve_over_mqtt(mqtt, cluster):
            await stop.wait()
    finally:
        prompt.close()
        await cluster.close()
