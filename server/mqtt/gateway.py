"""Remote clients: their requests come in MQTT messages, and are handled by the same code as those of TCP connections.

A client has a name, and each of its connections to the MQTT broker an incarnation, which is part of its topics and of
its last will. The newest incarnation counts; last wills of an older one are late, and are ignored. Only a client's
presence says for sure which incarnation is newer, and presences are missed while the connection to the MQTT broker is
lost. So a request of an incarnation without a presence is served, but does not end another incarnation.

Any client that may publish can send a request or a presence in another one's name. A request out of order, or of an
incarnation that has ended, is answered by a disconnection: a connected client comes back with a new incarnation.
"""

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

import msgspec

from regroup.coordinator import commands as c
from regroup.coordinator.serialization import Cause
from regroup.mqtt.link import Outbox
from regroup.mqtt.payloads import decode_payload
from regroup.mqtt.topics import MqttTopics
from regroup.mqtt.transport import DISCONNECT
from regroup.protocol.exceptions import Malformed
from regroup.protocol.frames import FrameReader
from regroup.server.broker_cluster import BrokerCluster
from regroup.server.mqtt.connection_losses import ConnectionLoss, ConnectionLosses
from regroup.server.mqtt.messages import LOST, MAX_CONTROL_MESSAGE_BYTES, ONLINE, ConnectionLossMessage, Presence
from regroup.server.mqtt.remote_client import MessageTransport, ObservedBroker, RemoteClient
from regroup.server.mqtt.routing import broker_id_for, queue_of
from regroup.server.net.connection import Connection

MAX_REMOTE_CLIENTS: Final = 10_000
MAX_NAME_LENGTH: Final = 249
"""The most characters of a client's name, and of an incarnation, because both become part of events."""
MAX_REQUEST_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The most bytes in one message of a client. MQTT itself allows 256 MB."""
MAX_QUEUED_RESPONSE_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of responses that wait until the MQTT broker takes them."""
MAX_ENDED_INCARNATIONS: Final = 8
"""How many ended incarnations of a client name are remembered, to recognize their late messages."""
LAST_WILL_REASON: Final = "the last will of its connection was published"


class Gateway:
    """Handles the requests of remote clients, which come in MQTT messages, through connections to the brokers.

    If `remove_on_last_will` is True, a member is removed from its group when the last will of its connection is
    published; otherwise the loss of the connection is only published. `log_refusal` is called with the reason for which
    a message is dropped.
    """

    def __init__(
        self,
        cluster: BrokerCluster,
        topics: MqttTopics,
        outbox: Outbox,
        connection_losses: ConnectionLosses,
        *,
        remove_on_last_will: bool,
        log_refusal: Callable[[str], object],
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._outbox = outbox
        self._losses = connection_losses
        self._remove_on_last_will = remove_on_last_will
        self._log_refusal = log_refusal
        self._clients: dict[str, RemoteClient] = {}
        self._ended: dict[str, deque[str]] = {}
        """The incarnations that have ended, by client name, in the order in which they ended."""
        self._connection_numbers = count(1)

    # -- messages of clients

    def receive_requests(self, name: str, incarnation: str, payload: bytes) -> None:
        """Handle a message of a client: one or more frames. An empty payload disconnects the client."""
        if payload == DISCONNECT:
            current = self._clients.get(name)
            if current is not None and current.incarnation == incarnation:
                current.disconnect()
            return
        client = self._find_or_add(name, incarnation)
        if client is None:
            return
        try:
            for frame in self._frames(payload):
                if self._clients.get(name) is client:
                    self._handle_request(client, frame)
        except Malformed as error:
            self._log_refusal(f"invalid request of client {name[:80]!r}: {error}")
            self._disconnect(client)

    def receive_presence(self, name: str, payload: bytes) -> None:
        """Handle a client's presence message, which is JSON: online, offline or lost."""
        try:
            if len(payload) > MAX_CONTROL_MESSAGE_BYTES:
                raise ValueError(f"{len(payload)} bytes, at most {MAX_CONTROL_MESSAGE_BYTES} are allowed")
            presence = decode_payload(payload, Presence)
        except ValueError as error:
            self._log_refusal(f"invalid presence of client {name[:80]!r}: {error}")
            return
        current = self._clients.get(name)
        if presence.state == ONLINE:
            client = self._find_or_add(name, presence.incarnation)
            if current is not None and client is not None and current is not client:
                self._remember_end(current)
        elif current is not None and current.incarnation == presence.incarnation:
            current.disconnect()
            del self._clients[name]
            self._remember_end(current)
            if presence.state == LOST:
                self._on_last_will(current)

    def clear(self) -> None:
        """Close all clients' connections, because the connection to the MQTT broker is lost and their open requests
        with it. The clients may still be connected, so their incarnations are kept."""
        for client in self._clients.values():
            client.disconnect()

    # -- clients and their incarnations

    def _find_or_add(self, name: str, incarnation: str) -> RemoteClient | None:
        """Return the client with this name in this incarnation, and add it if it is new. Returns None if that
        incarnation has ended, or if there are too many clients."""
        current = self._clients.get(name)
        if current is not None and current.incarnation == incarnation:
            return current
        if incarnation in self._ended.get(name, ()):
            self._log_refusal(f"client {name[:80]!r} uses an incarnation that has ended; it is disconnected")
            self._send_disconnect(name, incarnation)
            return None
        if not 0 < len(name) <= MAX_NAME_LENGTH or not 0 < len(incarnation) <= MAX_NAME_LENGTH:
            self._log_refusal(f"a client's name and incarnation must have 1 to {MAX_NAME_LENGTH} characters")
            return None
        if current is not None:
            # If it is the connected one after all, it sends its requests again.
            self._disconnect(current)
        elif not self._make_room():
            self._log_refusal(f"client {name[:80]!r} is refused: {MAX_REMOTE_CLIENTS} remote clients are connected")
            return None
        client = self._clients[name] = RemoteClient(name, incarnation)
        return client

    def _make_room(self) -> bool:
        """If there are too many clients, remove one without connections; returns whether another client can be added
        then. A client that was removed is added again with its next request; clients do not always publish that they
        end."""
        if len(self._clients) >= MAX_REMOTE_CLIENTS:
            idle = next((client for client in self._clients.values() if not client.transports), None)
            if idle is not None:
                del self._clients[idle.name]
        return len(self._clients) < MAX_REMOTE_CLIENTS

    def _remember_end(self, client: RemoteClient) -> None:
        ended = self._ended.pop(client.name, None) or deque(maxlen=MAX_ENDED_INCARNATIONS)
        ended.append(client.incarnation)
        self._ended[client.name] = ended
        if len(self._ended) > MAX_REMOTE_CLIENTS:
            del self._ended[next(iter(self._ended))]

    # -- requests and responses

    def _frames(self, payload: bytes) -> list[bytes]:
        if len(payload) > MAX_REQUEST_MESSAGE_BYTES:
            raise Malformed(f"a message of {len(payload)} bytes; at most {MAX_REQUEST_MESSAGE_BYTES} are allowed")
        reader = FrameReader(MAX_REQUEST_MESSAGE_BYTES)
        frames = list(reader.feed(payload))
        if reader.buffered_bytes or not frames:
            raise Malformed("a frame begins with its length in four bytes, and ends with the message or before it")
        return frames

    def _handle_request(self, client: RemoteClient, frame: bytes) -> None:
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        if client.repeats(correlation_id, frame):
            # MQTT may deliver a message twice; a second JoinGroup would create a second member.
            self._log_refusal(f"client {client.name[:80]!r} repeats correlation id {correlation_id}; it is dropped")
            return
        if correlation_id <= client.last_correlation_id:
            # Another client has sent a request in its name. The client comes back with an incarnation of its own.
            self._log_refusal(
                f"client {client.name[:80]!r} sends correlation id {correlation_id} after "
                f"{client.last_correlation_id}; it is disconnected"
            )
            self._disconnect(client)
            del self._clients[client.name]
            self._remember_end(client)
            return
        client.note_request(correlation_id, frame)
        node_id, queue = broker_id_for(self._cluster.state, frame), queue_of(frame)
        if node_id < 0:
            self._disconnect(client)
            return
        transport = client.transports.get((node_id, queue)) or self._open(client, node_id, queue)
        transport.receive(len(frame).to_bytes(4, "big") + frame)

    def _open(self, client: RemoteClient, node_id: int, queue: int) -> MessageTransport:
        topic = self._topics.connection(client.name, client.incarnation, "responses")
        transport = client.transports[node_id, queue] = MessageTransport(
            f"mqtt:{client.name}",
            lambda data: self._send(client, topic, data),
            lambda each, was_idle: client.remove_transport(each) if was_idle else self._disconnect(client),
        )
        broker = ObservedBroker(client, self._cluster.brokers[node_id], self._losses, self._log_refusal)
        name = self._cluster.state.connection_name(f"mqtt-{client.name}-{next(self._connection_numbers)}")
        transport.attach(Connection(broker, name))
        return transport

    def _send(self, client: RemoteClient, topic: str, data: bytes) -> None:
        if self._outbox.queued_bytes > MAX_QUEUED_RESPONSE_BYTES:
            self._log_refusal("the MQTT broker takes no responses; remote clients are disconnected")
            client.disconnect()
        else:
            self._outbox.put(topic, data)

    def _disconnect(self, client: RemoteClient) -> None:
        """Close the client's connections, and publish to it that its open requests get no response."""
        client.disconnect()
        self._send_disconnect(client.name, client.incarnation)

    def _send_disconnect(self, name: str, incarnation: str) -> None:
        if self._outbox.queued_bytes <= MAX_QUEUED_RESPONSE_BYTES:
            self._outbox.put(self._topics.connection(name, incarnation, "responses"), DISCONNECT)

    # -- last wills

    def _on_last_will(self, client: RemoteClient) -> None:
        """Publish that a member's connection was lost, and remove the member if `remove_on_last_will` is set."""
        if client.member is None:
            return
        group_id, member_id = client.member
        coordinator = self._cluster.coordinator_of(group_id)
        group = coordinator.group(group_id)
        member = (group.consumer or group).members.get(member_id)
        if member is None:
            return
        at_ms = self._cluster.state.now_ms()
        self._losses.add(ConnectionLoss(group_id, member_id, client.name, at_ms))
        message = ConnectionLossMessage(
            group=group_id,
            member_id=member_id,
            client_name=client.name,
            lost_at_ms=at_ms,
            session_timeout_ms=member.profile.session_timeout_ms,
            is_removed=self._remove_on_last_will,
        )
        self._outbox.put(self._topics.group(group_id, "connection-losses"), msgspec.json.encode(message))
        if self._remove_on_last_will:
            leaving = c.LeavingMember(member_id, member.instance_id, LAST_WILL_REASON)
            topics = self._cluster.state.topics_image
            command = c.LeaveGroup(group_id=group_id, at_ms=at_ms, members=(leaving,), topics=topics)
            cause = Cause(deadline="last-will", member_id=member_id, client_id=member.profile.client_id)
            coordinator.submit(command, cause=cause)
