"""An MQTT broker without a network, and the coordinator of the emulator behind it: for members in virtual time."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiomqtt

from regroup.mqtt.topics import MqttTopics
from regroup.protocol.frames import FrameReader, decode_request, encode_response
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

TOPICS = MqttTopics("main")
VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=18, min_version=0, max_version=3),
        ApiVersion(api_key=12, min_version=0, max_version=3),
    ]
)


class FakeClient:
    """A connection to the fake broker, with the methods of `aiomqtt.Client` that regroup calls."""

    def __init__(self, broker: "FakeMqttBroker", will: aiomqtt.Will | None) -> None:
        self._broker = broker
        self.will = will
        self.own_socket, self.socket_of_broker = socket.socketpair()
        self.socket_of_broker.setblocking(False)
        self.messages = self._read_messages()
        self._received: asyncio.Queue[aiomqtt.Message | None] = asyncio.Queue()
        self.subscribed: list[str] = []

    async def _read_messages(self) -> AsyncIterator[aiomqtt.Message]:
        while (message := await self._received.get()) is not None:
            yield message
        raise aiomqtt.MqttError("Disconnected during message iteration")

    @property
    def _client(self) -> "FakeClient":
        return self

    def socket(self) -> socket.socket:
        return self.own_socket

    async def __aenter__(self) -> "FakeClient":
        if not self._broker.is_reachable:
            await self.__aexit__()
            raise aiomqtt.MqttError("[Errno 111] Connection refused")
        self._broker.client = self
        return self

    async def __aexit__(self, *error: object) -> None:
        self._broker.client = None
        self.lose()
        for each in (self.own_socket, self.socket_of_broker):
            each.close()

    async def subscribe(self, topics: list[tuple[str, int]]) -> None:
        assert all(qos == 1 for _, qos in topics)
        self.subscribed += [topic for topic, _ in topics]
        if TOPICS.coordinator in self.subscribed and self._broker.state:
            self.receive(TOPICS.coordinator, json.dumps({"state": self._broker.state}).encode())

    async def publish(self, topic: str, payload: bytes, *, qos: int, retain: bool = False) -> None:
        assert qos == 1, "with 0 the broker may lose it"
        self._broker.on_publish(topic, payload)

    def lose(self) -> None:
        """Break the connection, as the client notices it."""
        self._received.put_nowait(None)

    def receive(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self._received.put_nowait(aiomqtt.Message(topic, payload, 1, retain, 1, None))


class FakeMqttBroker:
    """The broker, and the coordinator that is present on it as `state` says: it answers ApiVersions, and keeps any
    other request until the test answers it."""

    def __init__(self, state: str = "online") -> None:
        self.state = state
        self.is_reachable = True
        self.client: FakeClient | None = None
        """The present connection of the member; None if there is none."""
        self.published: list[tuple[str, bytes]] = []
        self.requests: list[tuple[str, RequestHeader, Message]] = []
        """The topic, the header and the body of each request without an answer."""

    def new_client(self, host: str, port: int, *, will: aiomqtt.Will | None = None, **options: Any) -> FakeClient:
        return FakeClient(self, will)

    @property
    def connection(self) -> FakeClient:
        assert self.client is not None
        return self.client

    def on_publish(self, topic: str, payload: bytes) -> None:
        self.published.append((topic, payload))
        for frame in FrameReader().feed(payload) if topic.endswith("/requests") else ():
            header, message = decode_request(frame)
            self.requests.append((topic, header, message))
            if isinstance(message, ApiVersionsRequest):
                self.answer(VERSIONS)

    def answer(self, response: Message, index: int = -1) -> None:
        """Answer the newest request, or another one by its index."""
        topic, header, _ = self.requests.pop(index)
        frame = encode_response(header.api_key, header.api_version, header.correlation_id, response)
        self.connection.receive(topic.removesuffix("requests") + "responses", frame)

    def announce(self, payload: bytes) -> None:
        """Publish the presence of the coordinator."""
        self.connection.receive(TOPICS.coordinator, payload)

    def presences(self) -> list[dict[str, str]]:
        """What the member has published of its own presence."""
        return [json.loads(payload) for topic, payload in self.published if topic.endswith("/presence")]


async def run_ready() -> None:
    """Let the event loop run what is ready, without time passing."""
    for _ in range(100):
        await asyncio.sleep(0)
