"""Show groups live, from the feed that `regroup serve --mqtt` publishes: their states, members, and who died.

regroup watch --mqtt mqtt://localhost:1883
regroup watch --mqtt mqtts://broker.school:8883/classroom-7 --group payments
regroup watch --mqtt mqtt://localhost:1883 --events --from-start | grep member-expelled

On a terminal a table is drawn again and again; otherwise, and with --events, each event is a line. User and password
come from REGROUP_MQTT_USERNAME and REGROUP_MQTT_PASSWORD, or from --mqtt-settings. Ctrl-C ends it.
"""

import argparse
import asyncio
import signal
import time
from functools import partial
from typing import Final

import aiomqtt
import msgspec
from rich.console import Console
from rich.live import Live

from regroup.cli.mqtt_arguments import access_for, add_mqtt_settings, mqtt_address
from regroup.cli.terminal.consoles import Stopping
from regroup.cli.terminal.output import complain
from regroup.cli.watch.table import Board, death_line, event_line, table
from regroup.mqtt.address import MqttAccess
from regroup.mqtt.link import MqttLink, together
from regroup.mqtt.topics import Topics
from regroup.server.mqtt.messages import DeathMessage, FeedMessage, Presence
from regroup.server.mqtt.reader import FeedReader
from regroup.server.mqtt.refusals import Refusals
from regroup.server.mqtt.summaries import GroupSummary

REFRESH_S: Final = 0.25
ASK_AGAIN_S: Final = 0.5
"""How long a gap may last before what is missing is asked for, again if need be."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--mqtt", metavar="URL", type=mqtt_address, required=True, help="the MQTT broker: mqtt://HOST:PORT[/CLUSTER]")
    add_mqtt_settings(parser)
    add("--group", metavar="G", help="only this group")
    add("--events", action="store_true", help="a line for each event, also on a terminal")
    add("--from-start", action="store_true", help="ask for every group's events from the first on")
    add("--for", metavar="SECONDS", dest="for_s", type=float, help="stop after so long")


def run(args: argparse.Namespace) -> int:
    return asyncio.run(watch(args, access_for(args.mqtt, args.mqtt_settings)))


async def watch(args: argparse.Namespace, access: MqttAccess) -> int:
    """Until Ctrl-C, or the end of the time."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    if args.for_s is not None:
        loop.call_later(args.for_s, stop.set)
    console = Stopping(stop)
    draws = console.is_terminal and not args.events
    watcher = Watcher(args, None if draws else console)
    link = MqttLink(args.mqtt, access, tell=partial(complain, "watch"))
    parts = [link.run(watcher.session), stop.wait()]
    await together(*parts, *([draw(console, watcher.board)] if draws else []))
    return 0


async def draw(console: Console, board: Board) -> None:
    """The table, four times a second."""
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while True:
            live.update(table(board, int(time.time() * 1000)), refresh=True)
            await asyncio.sleep(REFRESH_S)


class Watcher:
    """Reads one cluster's feed. `console` gets a line for each event, if there is one."""

    def __init__(self, args: argparse.Namespace, console: Console | None) -> None:
        self._topics = Topics(args.mqtt.cluster)
        self._group: str | None = args.group
        self._from_start: bool = args.from_start
        self._console = console
        self._refuse = Refusals(partial(complain, "watch"))
        self._reader = FeedReader(from_start=args.from_start)
        self.board = Board(args.mqtt)

    async def session(self, client: aiomqtt.Client) -> None:
        """For `MqttLink.run`."""
        topics = self._topics
        groups = topics.all_groups if self._group is None else topics.group(self._group, "").rstrip("/")
        wanted = [topics.coordinator, *(f"{groups}/{kind}" for kind in ("state", "deaths", "events"))]
        if self._group is None and self._console is not None:
            wanted.append(topics.group(None, "events"))
        await client.subscribe([(topic, 1) for topic in wanted])
        await together(self._listen(client), self._ask_again(client))

    async def _listen(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            if isinstance(message.payload, bytes):
                self.hear(message.topic.value, message.payload)

    def hear(self, topic: str, payload: bytes) -> None:
        """One message. What cannot be read is dropped, with a line."""
        levels = self._topics.levels(topic)
        try:
            if levels:
                self._hear(levels, payload)
        except (ValueError, OverflowError, RecursionError) as error:
            self._refuse(f"{topic[:200]} cannot be read: {error}")

    def _hear(self, levels: tuple[str, ...], payload: bytes) -> None:
        match levels[-1]:
            case "coordinator":
                self.board.coordinator = msgspec.json.decode(payload, type=Presence)
            case "state":
                self._hear_state(levels[1], payload)
            case "deaths":
                self._hear_death(msgspec.json.decode(payload, type=DeathMessage))
            case "events":
                self._hear_events(msgspec.json.decode(payload, type=FeedMessage))

    def _hear_state(self, level: str, payload: bytes) -> None:
        if not payload:
            self.board.groups.pop(level, None)
            return
        summary = msgspec.json.decode(payload, type=GroupSummary)
        self.board.groups[level] = summary
        self._reader.heard_of(summary.group, summary.number)

    def _hear_death(self, death: DeathMessage) -> None:
        self.board.died(death)
        if self._console is not None:
            self._console.print(death_line(death))

    def _hear_events(self, message: FeedMessage) -> None:
        for event in self._reader.take(message):
            self.board.note(message.group, event)
            if self._console is not None:
                self._console.print(event_line(message.group, event))

    async def _ask_again(self, client: aiomqtt.Client) -> None:
        """What was missing a while ago and is missing still was lost by the broker, or came before our time."""
        before: dict[str | None, int] = {}
        while True:
            await asyncio.sleep(ASK_AGAIN_S)
            missing = dict(self._reader.missing())
            for group, number in missing.items():
                if self._from_start or before.get(group) == number:
                    request = msgspec.json.encode({"from": number})
                    await client.publish(self._topics.group(group, "again"), request, qos=1)
            before = missing
