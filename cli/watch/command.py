"""The job of `regroup watch`: reads the feed of one cluster over MQTT, and shows it."""

import asyncio
import time
from argparse import Namespace
from functools import partial
from typing import Final

import aiomqtt
import msgspec
from rich.console import Console
from rich.live import Live

from regroup.cli.mqtt_access import load_mqtt_access
from regroup.cli.terminal.consoles import StopOnBrokenPipeConsole
from regroup.cli.terminal.output import EXIT_CANNOT_RUN, print_error
from regroup.cli.terminal.signals import stop_on_signals
from regroup.cli.watch.lines import connection_loss_line, event_line, refusal_line
from regroup.cli.watch.table import WatchedCluster, groups_table
from regroup.mqtt.address import MqttAccess
from regroup.mqtt.link import MqttLink, run_until_first_ends
from regroup.mqtt.payloads import decode_payload
from regroup.mqtt.topics import MqttTopics
from regroup.server.mqtt.group_summary import GroupSummary
from regroup.server.mqtt.messages import ConnectionLossMessage, FeedMessage, Presence, RefusalMessage, TopicNames
from regroup.server.mqtt.reader import FeedReader
from regroup.server.rate_limited_log import RateLimitedLog

REFRESH_INTERVAL_S: Final = 0.25
SILENCE_S: Final = 2.0
"""If nothing was received for this many seconds after the connection, a line says so."""
REPLAY_REQUEST_INTERVAL_S: Final = 0.5
"""Events that are missing for this many seconds are requested, and again after each further interval."""


def run(args: Namespace) -> int:
    return asyncio.run(watch(args, load_mqtt_access(args.mqtt, args.mqtt_settings)))


async def watch(args: Namespace, access: MqttAccess) -> int:
    """Show the feed until Ctrl-C, or until the time is over; return the exit code: 2 if it never connected."""
    stop = stop_on_signals()
    if args.for_s is not None:
        asyncio.get_running_loop().call_later(args.for_s, stop.set)
    console = StopOnBrokenPipeConsole(stop)
    shows_table = console.is_terminal and not args.events
    watcher = FeedWatcher(args, None if shows_table else console)
    link = MqttLink(args.mqtt, access, report=partial(print_error, "watch"))
    tasks = [link.run(watcher.session), stop.wait(), *([draw(console, watcher.cluster)] if shows_table else [])]
    await run_until_first_ends(*tasks)
    if not watcher.has_connected:
        print_error("watch", f"never connected to {args.mqtt}")
        return EXIT_CANNOT_RUN
    watcher.report_silence()
    return 0


async def draw(console: Console, cluster: WatchedCluster) -> None:
    """Redraw the table of groups until cancelled."""
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while True:
            live.update(groups_table(cluster, int(time.time() * 1000), console.width), refresh=True)
            await asyncio.sleep(REFRESH_INTERVAL_S)


class FeedWatcher:
    """Reads the feed of one cluster. If it has a console, it prints a line for each event."""

    def __init__(self, args: Namespace, console: Console | None) -> None:
        self._topics = MqttTopics(args.mqtt.cluster)
        self._group: str | None = args.group
        self._from_start: bool = args.from_start
        self._console = console
        self._report = RateLimitedLog(partial(print_error, "watch"))
        self._topic_names: dict[str, str] = {}
        """Names of topics by id: those that the coordinator publishes, and those whose creation the feed has shown."""
        self._reader = FeedReader(from_start=args.from_start)
        self.cluster = WatchedCluster(args.mqtt)
        self.has_connected = False
        self._has_heard = False
        """Whether something was received: about the watched group, if there is one, otherwise about any."""
        self._has_reported_silence = False

    async def session(self, client: aiomqtt.Client) -> None:
        """Subscribe and read on one connection, for `MqttLink.run`."""
        topics = self._topics
        groups = topics.all_groups if self._group is None else topics.group(self._group, "").rstrip("/")
        wanted = [
            topics.coordinator,
            topics.topic_names,
            *(f"{groups}/{kind}" for kind in ("state", "connection-losses", "refusals", "events")),
        ]
        if self._group is None and self._console is not None:
            wanted.append(topics.group(None, "events"))
        await client.subscribe([(topic, 1) for topic in wanted])
        self.has_connected = True
        await run_until_first_ends(
            self._read(client), self._request_missing_events(client), self._report_silence_later()
        )

    async def _report_silence_later(self) -> None:
        await asyncio.sleep(SILENCE_S)
        self.report_silence()
        await asyncio.Event().wait()

    def report_silence(self) -> None:
        """Print one line, once, if nothing was received: the name of the cluster or of the group may be misspelled."""
        if self._has_heard or self._has_reported_silence:
            return
        self._has_reported_silence = True
        cluster = self._topics.root.removeprefix("regroup/")
        if self.cluster.coordinator is None:
            print_error("watch", f"no coordinator has published anything as cluster {cluster} yet; waiting for one")
        elif self._group is not None:
            print_error("watch", f"nothing was published about group {self._group!r} yet; waiting for it")

    async def _read(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            if isinstance(message.payload, bytes):
                self.handle_message(message.topic.value, message.payload)

    def handle_message(self, topic: str, payload: bytes) -> None:
        """Handle one message. One that cannot be decoded is reported and dropped."""
        levels = self._topics.levels(topic)
        try:
            if levels:
                self._handle(levels, payload)
        except (ValueError, OverflowError, RecursionError) as error:
            self._report(f"{topic[:200]} cannot be decoded: {error}")

    def _handle(self, levels: tuple[str, ...], payload: bytes) -> None:
        self._has_heard |= (levels[0] == "groups" or self._group is None) and bool(payload)
        match levels[-1]:
            case "coordinator":
                self.cluster.coordinator = decode_payload(payload, Presence)
            case "topics":
                self._topic_names |= decode_payload(payload, TopicNames).names
            case "state" if not payload:
                self.cluster.groups.pop(levels[1], None)
            case "state":
                summary = decode_payload(payload, GroupSummary)
                self.cluster.groups[levels[1]] = summary
                self._reader.note_event_number(summary.group, summary.event_number)
            case "connection-losses":
                loss = decode_payload(payload, ConnectionLossMessage)
                self.cluster.record_connection_loss(loss)
                if self._console is not None:
                    self._console.print(connection_loss_line(loss))
            case "refusals":
                refusal = decode_payload(payload, RefusalMessage)
                self.cluster.refusals[refusal.group] = refusal
                if self._console is not None:
                    self._console.print(refusal_line(refusal))
            case "events":
                message = decode_payload(payload, FeedMessage)
                for event in self._reader.accept(message):
                    self.cluster.record_event(message.group, event)
                    if self._console is not None:
                        self._console.print(event_line(message.group, event, self._topic_names))

    async def _request_missing_events(self, client: aiomqtt.Client) -> None:
        """Request the events that have been missing for an interval: the MQTT broker has lost them, or they precede
        this connection."""
        before: dict[str | None, int] = {}
        while True:
            await asyncio.sleep(REPLAY_REQUEST_INTERVAL_S)
            missing = dict(self._reader.gaps())
            for group, number in missing.items():
                if self._from_start or before.get(group) == number:
                    request = msgspec.json.encode({"from": number})
                    await client.publish(self._topics.group(group, "replay"), request, qos=1)
            before = missing
