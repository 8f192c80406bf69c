"""A running emulator on MQTT: its presence, its feed, and members from afar, over one connection to a broker.

service = MqttService(emulator, parse_mqtt("mqtt://localhost"), MqttAccess(), new_incarnation=lambda: uuid4().hex)
await service.start()         # behind emulator.start(); returns at once, whether a broker is there or not
await service.stop()          # before emulator.close()
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import aiomqtt
import msgspec
import structlog

from regroup.coordinator.group import Group
from regroup.mqtt.address import MqttAccess, MqttAddress
from regroup.mqtt.link import MqttLink, Outbox, cancelled, together
from regroup.mqtt.topics import Topics, decode_level
from regroup.server.broker_cluster import Emulator
from regroup.server.mqtt.deaths import Deaths
from regroup.server.mqtt.feed import Feed
from regroup.server.mqtt.gateway import Gateway
from regroup.server.mqtt.messages import Presence
from regroup.server.mqtt.refusals import Refusals
from regroup.server.mqtt.summaries import Summaries
from regroup.storage.errors import StoreError

SWEEP_S: Final = 2.0
"""For so long retained states are looked at whose group is gone."""
OWN_INCARNATIONS: Final = 100
"""So many earlier ones are known to be our own."""
LAST_WORDS_S: Final = 1.0
"""What the feed has not told when everything stops is told within this time, or after the next start."""


log = structlog.get_logger("mqtt")


class Named(msgspec.Struct):
    """Whose summary it is."""

    group: str


class MqttService:
    """`expels`: the last will of a member's connection makes it leave its group at once.

    `deaths` says whose connection was declared dead, for whoever shows groups. ValueError if certificates do not fit.
    """

    def __init__(
        self,
        emulator: Emulator,
        address: MqttAddress,
        access: MqttAccess,
        *,
        new_incarnation: Callable[[], str],
        expels: bool = False,
    ) -> None:
        self._emulator = emulator
        self._new_incarnation = new_incarnation
        self._incarnations: list[str] = []
        self.topics = Topics(address.cluster)
        refuse = Refusals(lambda text: log.warning("mqtt-refused", reason=text))
        self._refuse = refuse
        self.deaths = Deaths(self._somebody_died)
        self._summaries = Summaries(emulator.journal, self._group, self.deaths)
        self.feed = Feed(emulator.journal, self.topics, self._summaries, refuse=refuse)
        self._outbox = Outbox()
        self._gateway = Gateway(emulator, self.topics, self._outbox, self.deaths, expels=expels, refuse=refuse)
        self._link = MqttLink(address, access, tell=lambda text: log.warning("mqtt", what=text), will=self._will)
        self._running: asyncio.Task[None] | None = None
        self._client: aiomqtt.Client | None = None
        self.connected = asyncio.Event()
        """Set while there is a connection to the MQTT broker."""

    async def start(self) -> None:
        """Begin. StoreError if the store cannot say where the feed was."""
        await self.feed.load()
        self._running = asyncio.create_task(self._link.run(self._session), name="mqtt")

    async def stop(self) -> None:
        """Say goodbye, if there is anybody to say it to, and remember where the feed was."""
        if self._running is None:
            return
        with suppress(aiomqtt.MqttError, TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self._say_goodbye()
        await cancelled(self._running)
        self._running = None
        with suppress(StoreError):
            await self.feed.keep()

    async def _say_goodbye(self) -> None:
        if self._client is not None:
            await self.feed.told(self._emulator.journal.durable_position)
            await self._client.publish(self.topics.coordinator, self._presence("left"), qos=1, retain=True)

    # -- one connection

    def _will(self) -> aiomqtt.Will:
        """Each connection has an incarnation; a will that comes late speaks of an earlier one."""
        self._incarnations = [*self._incarnations[-OWN_INCARNATIONS:], self._new_incarnation()]
        return aiomqtt.Will(self.topics.coordinator, self._presence("died"), qos=1, retain=True)

    def _presence(self, state: str) -> bytes:
        return msgspec.json.encode(Presence(state, self._incarnations[-1], self._emulator.cluster.now_ms()))

    async def _session(self, client: aiomqtt.Client) -> None:
        topics = self.topics
        wanted = (
            topics.coordinator,
            f"{topics.root}/again",
            f"{topics.all_groups}/again",
            f"{topics.root}/members/+/presence",
            f"{topics.root}/members/+/+/requests",
        )
        await client.subscribe([(topic, 1) for topic in wanted])
        await client.publish(topics.coordinator, self._presence("here"), qos=1, retain=True)
        self._summaries.look_again()
        self._summaries.changed(self._group_names())
        self._client = client
        self.connected.set()
        try:
            await together(self._listen(client), self.feed.run(client), self._outbox.run(client), self._sweep(client))
        finally:
            self._client = None
            self.connected.clear()
            self._gateway.clear()
            self._outbox.clear()

    async def _listen(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            payload = message.payload if isinstance(message.payload, bytes) else b""
            try:
                self._hear(self.topics.levels(message.topic.value), payload, retained=message.retain)
            except Exception:
                # One message must not take the rest with it, whatever was wrong with it or with us.
                log.exception("mqtt-message", topic=message.topic.value[:200])

    def _hear(self, levels: tuple[str, ...], payload: bytes, *, retained: bool) -> None:
        try:
            match levels:
                case ("coordinator",):
                    self._hear_of_a_coordinator(payload, retained=retained)
                case ("again",) if not retained:
                    self.feed.again.ask(None, payload)
                case ("groups", group, "again") if not retained:
                    self.feed.again.ask(decode_level(group), payload)
                case ("groups", group, "state"):
                    self._hear_of_a_group(group, payload)
                case ("members", name, "presence") if not retained:
                    self._gateway.hear_presence(decode_level(name), payload)
                case ("members", name, incarnation, "requests") if not retained:
                    self._gateway.hear_requests(decode_level(name), decode_level(incarnation), payload)
        except ValueError as error:
            self._refuse(f"a topic cannot be read: {error}")

    # -- what is retained

    def _hear_of_a_coordinator(self, payload: bytes, *, retained: bool) -> None:
        """Our own word comes back. Anybody else's is the will of an earlier life, or a second coordinator's."""
        try:
            presence = msgspec.json.decode(payload, type=Presence)
        except ValueError:
            presence = Presence("died", "")
        if presence.incarnation == self._incarnations[-1]:
            return
        if presence.state == "here" and presence.incarnation not in self._incarnations:
            self._refuse(
                f"another coordinator is, or was until just now, on this MQTT broker as {self.topics.root}: give one "
                "of them another cluster, as in mqtt://HOST:PORT/CLUSTER"
            )
        elif not retained:
            self._outbox.put(self.topics.coordinator, self._presence("here"), retain=True)

    async def _sweep(self, client: aiomqtt.Client) -> None:
        """Clear the retained states of groups that went while nobody listened; then wait for ever."""
        topic = f"{self.topics.all_groups}/state"
        await client.subscribe(topic, qos=1)
        await asyncio.sleep(SWEEP_S)
        await client.unsubscribe(topic)
        await asyncio.Event().wait()

    def _hear_of_a_group(self, level: str, payload: bytes) -> None:
        """Its own payload says whose state it is; a topic may hold no more than a digest of a long name."""
        topic = f"{self.topics.root}/groups/{level}/state"
        try:
            name = msgspec.json.decode(payload, type=Named).group if payload else ""
        except ValueError:
            name = ""
        if payload and not (self.topics.group(name, "state") == topic and self._group(name).exists):
            self._outbox.put(topic, b"", retain=True)

    # -- the groups

    def _group(self, name: str) -> Group:
        shares = self._emulator.shares
        return shares.coordinators[shares.share_of(name)].group(name)

    def _group_names(self) -> list[str]:
        return [group.name for coordinator in self._emulator.shares.coordinators for group in coordinator.groups()]

    def _somebody_died(self, group: str) -> None:
        self._summaries.changed((group,))
        self.feed.wake()
