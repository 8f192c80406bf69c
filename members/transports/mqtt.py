"""A transport over an MQTT broker: for members on machines that reach that broker, and no Kafka.

Requests go as Kafka's own frames to one topic, and answers come from another; both topics hold the client's name and
the incarnation of its present connection to the MQTT broker. Several connections, as `TcpTransport` has them, share the
two topics: here each request gets a correlation id that no other has, and its answer the old one again. An empty
message hangs up, from either side. If the connection breaks without a goodbye, the MQTT broker tells the coordinator
so: that is the last will.
"""

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Final

import aiomqtt

from regroup.members.consumer.effects import Address
from regroup.members.transports.tcp import TcpTransport
from regroup.mqtt.address import MqttAccess, MqttAddress
from regroup.mqtt.link import MqttLink, Outbox, cancelled, together
from regroup.mqtt.topics import Topics
from regroup.protocol.exceptions import Malformed
from regroup.protocol.frames import FrameReader

COORDINATOR_PATIENCE_S: Final = 5.0
"""For a connection to the MQTT broker, and for word of a coordinator there."""
GOODBYE_S: Final = 1.0
HANG_UP: Final = b""
ANYWHERE: Final = Address(-1, "mqtt", 1)
"""Over MQTT there is one way to all brokers; whichever is in charge gets the request."""


class MqttTransport(TcpTransport):
    """`name` is the member's on MQTT: nobody else in the cluster may have it. Must be made inside the event loop.

    `new_incarnation` gives a text that was never given before. ValueError if certificates do not fit.
    """

    def __init__(
        self,
        address: MqttAddress,
        access: MqttAccess,
        name: str,
        *,
        new_incarnation: Callable[[], str],
        client_id: str = "regroup",
        newest: Mapping[int, int] | None = None,
        tell: Callable[[str], object] = lambda trouble: None,
    ) -> None:
        super().__init__((ANYWHERE,), client_id=client_id, newest=newest, connect=self._open_pipe)
        self.name = name
        self._topics = Topics(address.cluster)
        self._new_incarnation = new_incarnation
        self._incarnation = ""
        self._outbox = Outbox()
        self._ids = count(1)
        self._asked: dict[int, tuple[_Pipe, bytes]] = {}
        self._client: aiomqtt.Client | None = None
        self._ready = asyncio.Event()
        self._link = MqttLink(address, access, tell=tell, will=self._will)
        self._running = asyncio.get_running_loop().create_task(self._link.run(self._session), name=f"mqtt {name}")

    async def close(self) -> None:
        """Drop all connections and say goodbye, so that nobody takes it for a crash."""
        await super().close()
        if self._client is not None:
            with suppress(aiomqtt.MqttError, TimeoutError):
                async with asyncio.timeout(GOODBYE_S):
                    await self._client.publish(self._presence_topic, self._presence("left"), qos=1)
        await cancelled(self._running)

    def crash(self) -> None:
        """Break the connection without a goodbye, as the death of the process would: the last will follows.

        Whoever comes back does so on a new connection.
        """
        broken = self._client._client.socket() if self._client else None  # aiomqtt itself only leaves politely
        if isinstance(broken, socket.socket):
            with suppress(OSError):
                broken.shutdown(socket.SHUT_RDWR)

    # -- the connection to the MQTT broker

    def _will(self) -> aiomqtt.Will:
        self._incarnation = self._new_incarnation()
        return aiomqtt.Will(self._presence_topic, self._presence("died"), qos=1)

    @property
    def _presence_topic(self) -> str:
        return self._topics.member(self.name, "presence")

    def _presence(self, state: str) -> bytes:
        return json.dumps({"state": state, "incarnation": self._incarnation}).encode()

    async def _session(self, client: aiomqtt.Client) -> None:
        responses = self._topics.connection(self.name, self._incarnation, "responses")
        await client.publish(self._presence_topic, self._presence("here"), qos=1)
        await client.subscribe([(responses, 1), (self._topics.coordinator, 1)])
        self._client = client
        try:
            await together(self._listen(client, responses), self._outbox.run(client))
        finally:
            self._client = None
            self._hang_up_all("the connection to the MQTT broker is lost")

    async def _listen(self, client: aiomqtt.Client, responses: str) -> None:
        async for message in client.messages:
            payload = message.payload if isinstance(message.payload, bytes) else b""
            if message.topic.value == self._topics.coordinator:
                self._hear_of_the_coordinator(payload)
            elif message.topic.value != responses or message.retain:
                continue  # amqtt sends what is retained to everybody
            elif payload == HANG_UP:
                self._drop_pipes("the coordinator has hung up")
            else:
                self._hear_answers(payload)

    def _hear_of_the_coordinator(self, payload: bytes) -> None:
        """A new one, or none: whatever was asked of the one before is not answered any more."""
        try:
            state = json.loads(payload).get("state")
        except (ValueError, AttributeError):
            return
        self._hang_up_all("the coordinator was started again" if state == "here" else "the coordinator is gone")
        if state == "here":
            self._ready.set()
        else:
            self._link.trouble = "the coordinator is not there"

    def _hear_answers(self, payload: bytes) -> None:
        try:
            for frame in FrameReader().feed(payload):
                asked = self._asked.pop(int.from_bytes(frame[:4], "big"), None)
                if asked is not None:
                    pipe, correlation_id = asked
                    pipe.receive(len(frame).to_bytes(4, "big") + correlation_id + frame[4:])
        except Malformed:
            self._drop_pipes("an answer cannot be read")

    def _hang_up_all(self, reason: str) -> None:
        self._ready.clear()
        self._outbox.clear()
        self._drop_pipes(reason)

    def _drop_pipes(self, reason: str) -> None:
        pipes = dict.fromkeys(pipe for pipe, _ in self._asked.values())
        self._asked.clear()
        for pipe in pipes:
            pipe.lose(reason)

    # -- the connections inside

    async def _open_pipe(self, make: Callable[[], asyncio.Protocol], host: str, port: int) -> None:
        try:
            async with asyncio.timeout(COORDINATOR_PATIENCE_S):
                await self._ready.wait()
        except TimeoutError:
            waited_for = self._link.trouble or f"nobody answers on {self._topics.coordinator}"
            raise ConnectionError(f"{waited_for}; is `regroup serve --mqtt` running there?") from None
        protocol = make()
        protocol.connection_made(_Pipe(self, protocol))

    def ask(self, pipe: "_Pipe", frame: bytes) -> None:
        """One request with its length in front, as a connection writes it.

        Without a coordinator to hear it, it is lost at once: sent later it would bear an incarnation that is over.
        """
        if not self._ready.is_set():
            asyncio.get_running_loop().call_soon(pipe.lose, "no coordinator is there to hear it")
            return
        number = next(self._ids)
        self._asked[number] = pipe, frame[8:12]
        topic = self._topics.connection(self.name, self._incarnation, "requests")
        self._outbox.put(topic, frame[:8] + number.to_bytes(4, "big") + frame[12:])

    def give_up(self, pipe: "_Pipe") -> None:
        """The connection was closed on this side. If it waited for answers, the other side need not keep them."""
        gone = [number for number, (asking, _) in self._asked.items() if asking is pipe]
        for number in gone:
            del self._asked[number]
        if gone and self._ready.is_set():
            self._outbox.put(self._topics.connection(self.name, self._incarnation, "requests"), HANG_UP)
            self._drop_pipes("another connection of this member was given up")


class _Pipe(asyncio.Transport):
    """What looks like a socket to one of the connections."""

    def __init__(self, transport: MqttTransport, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._transport = transport
        self._protocol = protocol
        self._is_over = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._transport.ask(self, bytes(data))

    def receive(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def lose(self, reason: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._protocol.connection_lost(ConnectionError(reason))

    def abort(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._transport.give_up(self)

    def close(self) -> None:
        self.abort()

    def is_closing(self) -> bool:
        return self._is_over
