"""A broker cluster on MQTT: its presence, its feed and its remote clients, over one connection to an MQTT broker.

address = parse_mqtt_address("mqtt://localhost")
service = MqttService(cluster, address, MqttAccess(), new_incarnation=lambda: uuid4().hex)
await service.start()         # returns at once, whether the MQTT broker can be reached or not
await service.stop()          # before cluster.close()
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import aiomqtt
import msgspec

from regroup.coordinator.group import Group
from regroup.coordinator.runtime.logger import get_logger
from regroup.coordinator.topics import TopicsImage
from regroup.mqtt.address import MqttAccess, MqttAddress
from regroup.mqtt.link import MqttLink, Outbox, cancel_and_wait, run_until_first_ends
from regroup.mqtt.payloads import decode_payload
from regroup.mqtt.topics import MqttTopics, decode_level
from regroup.server.broker_cluster import BrokerCluster
from regroup.server.mqtt.connection_losses import ConnectionLosses
from regroup.server.mqtt.feed import Feed
from regroup.server.mqtt.gateway import Gateway
from regroup.server.mqtt.messages import LOST, OFFLINE, ONLINE, Presence, refusal_payload
from regroup.server.mqtt.summaries import Summaries
from regroup.server.rate_limited_log import RateLimitedLog
from regroup.server.refusals.notices import RefusalNotice
from regroup.storage.errors import StoreError

RETAINED_STATE_SWEEP_S: Final = 2.0
"""How many seconds retained states are received after a connection, to clear those of groups that no longer exist."""
MAX_OWN_INCARNATIONS: Final = 100
"""How many earlier incarnations of this service are remembered, to recognize their late last wills."""
STOP_TIMEOUT_S: Final = 1.0
"""Seconds for which a stopping service waits for its events to be published; others are published after the next
start."""

log = get_logger("mqtt")


class _StateOwner(msgspec.Struct):
    """The field that is read of a retained summary: the id of the group that the summary is about."""

    group: str


class MqttService:
    """Publishes the cluster's events and serves its remote clients while the MQTT broker can be reached.

    With `remove_on_last_will` a member leaves its group when the last will of its connection is published. Raises
    ValueError for unusable certificates.
    """

    def __init__(
        self,
        cluster: BrokerCluster,
        address: MqttAddress,
        access: MqttAccess,
        *,
        new_incarnation: Callable[[], str],
        remove_on_last_will: bool = False,
    ) -> None:
        self._cluster = cluster
        self._new_incarnation = new_incarnation
        self._incarnations: list[str] = []
        self.topics = MqttTopics(address.cluster)
        self._log_refusal = RateLimitedLog(lambda reason: log.warning("mqtt-message-refused", reason=reason))
        self._log_failure = RateLimitedLog(lambda topic: log.exception("mqtt-message-failed", topic=topic))
        self._losses = ConnectionLosses(self._on_connection_loss)
        self._summaries = Summaries(cluster.journal, self._find_group, self._losses, self._topics_image)
        self.feed = Feed(
            cluster.journal, self.topics, self._summaries, self._topics_image, log_refusal=self._log_refusal
        )
        self._outbox = Outbox()
        self._gateway = Gateway(
            cluster,
            self.topics,
            self._outbox,
            self._losses,
            remove_on_last_will=remove_on_last_will,
            log_refusal=self._log_refusal,
        )
        self._link = MqttLink(
            address,
            access,
            report=lambda text: log.warning("mqtt-connection", reason=text),
            last_will=self._last_will,
        )
        self._running: asyncio.Task[None] | None = None
        self._client: aiomqtt.Client | None = None
        self.connected = asyncio.Event()
        """Set while there is a connection to the MQTT broker."""

    async def start(self) -> None:
        """Start in the background. Raises StoreError if the feed's position cannot be read."""
        await self.feed.load()
        self._cluster.refusals.listeners.append(self._on_refusal)
        self._running = asyncio.create_task(self._link.run(self._session), name="mqtt")

    async def stop(self) -> None:
        """Publish the remaining events and the end of the service, if connected, and save the feed's position."""
        if self._running is None:
            return
        with suppress(aiomqtt.MqttError, TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                if self._client is not None:
                    await self.feed.wait_until_published(self._cluster.journal.durable_position)
                if self._client is not None:
                    await self._client.publish(self.topics.coordinator, self._presence(OFFLINE), qos=1, retain=True)
        self._cluster.refusals.listeners.remove(self._on_refusal)
        await cancel_and_wait(self._running)
        self._running = None
        with suppress(StoreError):
            await self.feed.save_position()

    # -- one connection

    def _last_will(self) -> aiomqtt.Will:
        """The last will of the next connection. It contains a new incarnation, so that a last will that arrives late
        can be recognized."""
        self._incarnations = [*self._incarnations[-MAX_OWN_INCARNATIONS:], self._new_incarnation()]
        return aiomqtt.Will(self.topics.coordinator, self._presence(LOST), qos=1, retain=True)

    def _presence(self, state: str) -> bytes:
        return msgspec.json.encode(Presence(state, self._incarnations[-1], self._cluster.state.now_ms()))

    async def _session(self, client: aiomqtt.Client) -> None:
        topics = self.topics
        subscriptions = (
            topics.coordinator,
            f"{topics.root}/replay",
            f"{topics.all_groups}/replay",
            f"{topics.root}/members/+/presence",
            f"{topics.root}/members/+/+/requests",
        )
        await client.subscribe([(topic, 1) for topic in subscriptions])
        await client.publish(topics.coordinator, self._presence(ONLINE), qos=1, retain=True)
        self._summaries.rebuild_held()
        self._summaries.mark_changed(group.group_id for group in self._cluster.groups())
        self._client = client
        self.connected.set()
        try:
            await run_until_first_ends(
                self._receive(client), self.feed.run(client), self._outbox.run(client), self._sweep(client)
            )
        finally:
            self._client = None
            self.connected.clear()
            self._gateway.clear()
            self._outbox.clear()

    async def _receive(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            payload = message.payload if isinstance(message.payload, bytes) else b""
            try:
                self._handle(self.topics.levels(message.topic.value), payload, retained=message.retain)
            except Exception:  # noqa: BLE001  # logged with its traceback
                # An error in the handling of one message must not affect the others.
                self._log_failure(message.topic.value[:200])

    def _handle(self, levels: tuple[str, ...], payload: bytes, *, retained: bool) -> None:
        try:
            match levels:
                case ("coordinator",):
                    self._on_coordinator_presence(payload, retained=retained)
                case ("replay",) if not retained:
                    self.feed.replay_requests.add(None, payload)
                case ("groups", group, "replay") if not retained:
                    self.feed.replay_requests.add(decode_level(group), payload)
                case ("groups", group, "state"):
                    self._on_retained_state(group, payload)
                case ("members", name, "presence") if not retained:
                    self._gateway.receive_presence(decode_level(name), payload)
                case ("members", name, incarnation, "requests") if not retained:
                    self._gateway.receive_requests(decode_level(name), decode_level(incarnation), payload)
        except ValueError as error:
            self._log_refusal(str(error))

    # -- retained messages

    def _on_coordinator_presence(self, payload: bytes, *, retained: bool) -> None:
        """Handle a presence message on the coordinator's topic. It may be from this connection, the last will of an
        earlier connection, or from another coordinator."""
        try:
            presence = decode_payload(payload, Presence)
        except ValueError:
            presence = Presence(LOST, "")
        if presence.incarnation == self._incarnations[-1]:
            return
        if presence.state == ONLINE and presence.incarnation not in self._incarnations:
            self._log_refusal(
                f"another coordinator is, or was a moment ago, on this MQTT broker as {self.topics.root}: give one "
                "of them another cluster, as in mqtt://HOST:PORT/CLUSTER"
            )
        elif not retained:
            self._outbox.put(self.topics.coordinator, self._presence(ONLINE), retain=True)

    async def _sweep(self, client: aiomqtt.Client) -> None:
        """Receive the retained states for a while, to clear those of groups that no longer exist; then never return."""
        topic = f"{self.topics.all_groups}/state"
        await client.subscribe(topic, qos=1)
        await asyncio.sleep(RETAINED_STATE_SWEEP_S)
        await client.unsubscribe(topic)
        await asyncio.Event().wait()

    def _on_retained_state(self, level: str, payload: bytes) -> None:
        """Clear a retained state whose group does not exist. The payload names the group, since the topic may contain a
        digest of a long group id."""
        if not payload:
            return
        topic = f"{self.topics.root}/groups/{level}/state"
        try:
            group_id = decode_payload(payload, _StateOwner).group
        except ValueError:
            group_id = ""
        if self.topics.group(group_id, "state") != topic or not self._find_group(group_id).exists:
            self._outbox.put(topic, b"", retain=True)

    # -- groups

    def _find_group(self, group_id: str) -> Group:
        return self._cluster.coordinator_of(group_id).group(group_id)

    def _topics_image(self) -> TopicsImage:
        return self._cluster.state.topics_image

    def _on_refusal(self, notice: RefusalNotice) -> None:
        """Publish a notice about refused requests under the topic of its group. Without a connection to the MQTT broker
        the notice is dropped."""
        if self._client is not None:
            self._outbox.put(self.topics.group(notice.last.group_id, "refusals"), refusal_payload(notice))

    def _on_connection_loss(self, group_id: str) -> None:
        self._summaries.mark_changed((group_id,))
        self.feed.wake()
