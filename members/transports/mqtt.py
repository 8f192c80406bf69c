"""A transport over an MQTT broker, for members on machines that reach that broker and no Kafka broker.

Requests go as Kafka's own frames to one topic, and responses come from another; both topics contain the client's name
and the incarnation of its present connection to the MQTT broker. The connections that `TcpTransport` opens share the
two topics: each request gets a correlation id that is unique among all of them, and its response the original one. An
empty message closes the connections, from either side; after one from the coordinator this client connects again, with
a new incarnation. When the connection to the MQTT broker breaks, that broker
publishes the last will, which the coordinator receives.
"""

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

import aiomqtt

from regroup.members.consumer.effects import NodeAddress
from regroup.members.transports.tcp import TcpTransport
from regroup.mqtt.address import MqttAccess, MqttAddress
from regroup.mqtt.link import MqttLink, Outbox, ReconnectRequested, cancel_and_wait, run_until_first_ends
from regroup.mqtt.payloads import decode_payload
from regroup.mqtt.topics import MqttTopics
from regroup.mqtt.transport import DISCONNECT, MqttByteTransport
from regroup.protocol.exceptions import Malformed
from regroup.protocol.frames import FrameReader

COORDINATOR_TIMEOUT_S: Final = 5.0
"""Seconds for which a request waits for the MQTT broker, and for the coordinator's presence on it."""
LEAVE_TIMEOUT_S: Final = 1.0
ANY_ADDRESS: Final = NodeAddress(-1, "mqtt", 1)
"""The address of every broker over MQTT: the gateway hands each request to the right one."""


class MqttTransport(TcpTransport):
    """The transport of one member over MQTT. It must be made inside the event loop. `name` is unique in the cluster.

    `new_incarnation` returns a text that it has never returned before; `report` gets the errors of the connection to
    the MQTT broker. Raises ValueError for unusable certificates.
    """

    def __init__(
        self,
        address: MqttAddress,
        access: MqttAccess,
        name: str,
        *,
        new_incarnation: Callable[[], str],
        client_id: str = "regroup",
        max_versions: Mapping[int, int] | None = None,
        report: Callable[[str], object] = lambda error: None,
    ) -> None:
        super().__init__((ANY_ADDRESS,), client_id=client_id, max_versions=max_versions, connect=self._open_connection)
        self.name = name
        self._topics = MqttTopics(address.cluster)
        self._presence_topic = self._topics.member(name, "presence")
        self._new_incarnation = new_incarnation
        self._incarnation = ""
        self._outbox = Outbox()
        self._ids = count(1)
        self._requests: dict[int, tuple[MqttByteTransport, bytes]] = {}
        """By unique correlation id, the connection of each request and the correlation id that it had before."""
        self._client: aiomqtt.Client | None = None
        self._coordinator_is_present = asyncio.Event()
        self._report = report
        self._has_crashed = False
        self._link = MqttLink(address, access, report=self._report_unless_crashed, last_will=self._last_will)
        self._running = asyncio.get_running_loop().create_task(self._link.run(self._session), name=f"mqtt {name}")

    async def close(self) -> None:
        """Close all connections, and publish that the member has left: its last will is then not published."""
        await super().close()
        if self._client is not None:
            with suppress(aiomqtt.MqttError, TimeoutError):
                async with asyncio.timeout(LEAVE_TIMEOUT_S):
                    await self._client.publish(self._presence_topic, self._presence("offline"), qos=1)
        await cancel_and_wait(self._running)

    def crash(self) -> None:
        """Break the connection to the MQTT broker as a killed process does: the broker publishes the last will.

        The link then opens a new connection with a new incarnation.
        """
        self._has_crashed = True
        connection = self._client._client.socket() if self._client else None  # aiomqtt itself can only disconnect
        if isinstance(connection, socket.socket):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _report_unless_crashed(self, text: str) -> None:
        """Report an error of the connection to the MQTT broker, or that it works again, unless the error comes from
        `crash`."""
        if not self._has_crashed:
            self._report(text)

    # -- the connection to the MQTT broker

    def _last_will(self) -> aiomqtt.Will:
        self._incarnation = self._new_incarnation()
        return aiomqtt.Will(self._presence_topic, self._presence("lost"), qos=1)

    def _presence(self, state: str) -> bytes:
        return json.dumps({"state": state, "incarnation": self._incarnation}).encode()

    def _connection_topic(self, kind: str) -> str:
        return self._topics.connection(self.name, self._incarnation, kind)

    async def _session(self, client: aiomqtt.Client) -> None:
        self._has_crashed = False
        responses = self._connection_topic("responses")
        await client.publish(self._presence_topic, self._presence("online"), qos=1)
        await client.subscribe([(responses, 1), (self._topics.coordinator, 1)])
        self._client = client
        try:
            # In this order: that the coordinator has closed the connection says more than that it broke.
            await run_until_first_ends(self._listen(client, responses), self._outbox.run(client))
        finally:
            self._client = None
            self._reset("the connection to the MQTT broker is lost")

    async def _listen(self, client: aiomqtt.Client, responses: str) -> None:
        async for message in client.messages:
            payload = message.payload if isinstance(message.payload, bytes) else b""
            if message.topic.value == self._topics.coordinator:
                self._on_coordinator_presence(payload)
            elif message.topic.value != responses or message.retain:
                continue  # amqtt sends retained messages to all its clients
            elif payload == DISCONNECT:
                # Perhaps another client used this incarnation; a new connection has one of its own.
                raise ReconnectRequested("the coordinator has closed the connection")
            else:
                self._on_responses(payload)

    def _on_coordinator_presence(self, payload: bytes) -> None:
        """Handle a message that the coordinator has stopped or was restarted: fail all requests in flight, which get no
        response any more."""
        try:
            state = decode_payload(payload, dict[str, Any]).get("state")
        except ValueError:
            return
        self._reset("the coordinator has restarted" if state == "online" else "the coordinator is offline")
        if state == "online":
            self._coordinator_is_present.set()
        else:
            self._link.connection_error = "the coordinator is not there"

    def _on_responses(self, payload: bytes) -> None:
        try:
            for frame in FrameReader().feed(payload):
                request = self._requests.pop(int.from_bytes(frame[:4], "big"), None)
                if request is not None:
                    connection, correlation_id = request
                    connection.receive(len(frame).to_bytes(4, "big") + correlation_id + frame[4:])
        except Malformed:
            self._lose_connections("a response cannot be read")

    def _reset(self, reason: str) -> None:
        self._coordinator_is_present.clear()
        self._outbox.clear()
        self._lose_connections(reason)

    def _lose_connections(self, reason: str) -> None:
        connections = dict.fromkeys(connection for connection, _ in self._requests.values())
        self._requests.clear()
        for connection in connections:
            connection.lose(ConnectionError(reason))

    # -- the connections inside

    async def _open_connection(self, make_protocol: Callable[[], asyncio.Protocol], host: str, port: int) -> None:
        try:
            async with asyncio.timeout(COORDINATOR_TIMEOUT_S):
                await self._coordinator_is_present.wait()
        except TimeoutError:
            error = self._link.connection_error or f"no coordinator on {self._topics.coordinator}"
            raise ConnectionError(f"{error}; is `regroup serve --mqtt` running there?") from None
        connection = MqttByteTransport(
            lambda frame: self._send_request(connection, frame), lambda: self._close_connection(connection)
        )
        connection.attach(make_protocol())

    def _send_request(self, connection: MqttByteTransport, frame: bytes) -> None:
        """Publish one request with its length in front.

        Without a coordinator it fails at once: sent later it would have an incarnation that is over.
        """
        if not self._coordinator_is_present.is_set():
            error = ConnectionError("no coordinator is there to receive it")
            asyncio.get_running_loop().call_soon(connection.lose, error)
            return
        unique_id = next(self._ids)
        self._requests[unique_id] = connection, frame[8:12]
        self._outbox.put(self._connection_topic("requests"), frame[:8] + unique_id.to_bytes(4, "big") + frame[12:])

    def _close_connection(self, connection: MqttByteTransport) -> None:
        """Drop the requests of a closed connection.

        If there were any, an empty message makes the coordinator close all connections of the member.
        """
        unanswered = [each for each, (sender, _) in self._requests.items() if sender is connection]
        for unique_id in unanswered:
            del self._requests[unique_id]
        if unanswered and self._coordinator_is_present.is_set():
            self._outbox.put(self._connection_topic("requests"), DISCONNECT)
            self._lose_connections("another connection of this member was closed")
