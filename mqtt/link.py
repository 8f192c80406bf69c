"""A connection to an MQTT broker that comes back by itself, and what is on its way to the broker.

    link = MqttLink(address, access, tell=print)
    await link.run(session)         # session(client) is called for each connection, and ends with it

Each connection is a new one to the broker as well (a clean session): what was lost with the old one is for the
session to notice and to send again.
"""

import asyncio
import logging
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple, TypeAlias

import aiomqtt

from regroup.mqtt.address import MqttAccess, MqttAddress

FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 10.0
LASTING_S: Final = 5.0
"""A connection that lasted so long was a good one: the next attempt comes soon."""
TIMEOUT_S: Final = 10.0
"""A broker that acknowledges nothing for so long is gone."""
KEEPALIVE_S: Final = 15
"""Of a connection that breaks without a word, the broker announces the last will after one and a half times this."""
IN_FLIGHT: Final = 32
"""Messages that are sent before the first is acknowledged. aiomqtt looks through all of them for each one."""
MOST_INCOMING: Final = 20_000
"""Messages that may wait to be looked at; what comes beyond them is lost, as with a broker whose queue is full."""
SAY_GOODBYE_S: Final = 1.0
CANCEL_AGAIN_S: Final = 1.5

Session: TypeAlias = Callable[[aiomqtt.Client], Awaitable[object]]

_silent = logging.getLogger("regroup.mqtt")
_silent.setLevel(logging.CRITICAL)
"""The library's own lines; what goes wrong is told once, by the link."""


class Outgoing(NamedTuple):
    """A message on its way to the broker."""

    topic: str
    payload: bytes
    retain: bool = False


class MqttLink:
    """Connects, and connects again with a growing pause. `tell` gets one line for each trouble, and for its end.

    `will` is asked before each connection: the last will that the broker announces if it breaks.
    """

    def __init__(
        self,
        address: MqttAddress,
        access: MqttAccess,
        *,
        tell: Callable[[str], object],
        will: Callable[[], aiomqtt.Will | None] = lambda: None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.address = address
        self._access = access
        self._tls = access.tls_for(address)
        self._tell = tell
        self._will = will
        self._draw = draw
        self.trouble: str | None = None
        """Why there is no connection at present."""

    async def run(self, session: Session) -> None:
        """Never returns. A session that returns or raises MqttError has lost its connection."""
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            try:
                async with entered(self._client()) as client:
                    began_s = loop.time()
                    self._well()
                    await session(client)
                    self._badly("the connection to the MQTT broker has ended")
            except Exception as error:  # noqa: BLE001  # whatever a message has led to, the link goes on
                self._badly(explained(error))
            failures = 1 if loop.time() - began_s >= LASTING_S else failures + 1
            pause_s = min(FIRST_PAUSE_S * 2 ** min(failures - 1, 20), LONGEST_PAUSE_S)
            # Many who lost the same broker should not come back in the same moment.
            await asyncio.sleep(pause_s * (0.5 + self._draw() / 2))

    def _client(self) -> aiomqtt.Client:
        client = aiomqtt.Client(
            self.address.host,
            self.address.port,
            username=self._access.username,
            password=self._access.password,
            tls_context=self._tls,
            will=self._will(),
            timeout=TIMEOUT_S,
            keepalive=KEEPALIVE_S,
            max_inflight_messages=IN_FLIGHT * 4,
            max_queued_outgoing_messages=0,
            max_queued_incoming_messages=MOST_INCOMING,
            logger=_silent,
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        )
        client.pending_calls_threshold = IN_FLIGHT * 4
        return client

    def _well(self) -> None:
        if self.trouble is not None:
            self._tell(f"{self.address} is there again")
        self.trouble = None

    def _badly(self, trouble: str) -> None:
        if self.trouble is None:
            self._tell(f"{self.address}: {trouble}; trying again")
        self.trouble = trouble


def explained(error: Exception) -> str:
    """What went wrong, and what could be done about it."""
    if isinstance(error, aiomqtt.exceptions.MqttConnectError):
        return f"the broker refuses us ({error}): look at REGROUP_MQTT_USERNAME and REGROUP_MQTT_PASSWORD"
    if isinstance(error, aiomqtt.MqttCodeError) or str(error).startswith("Disconnected"):
        return "the connection was lost"
    if isinstance(error, aiomqtt.MqttError | OSError):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {error}"


@asynccontextmanager
async def entered(client: aiomqtt.Client) -> AsyncIterator[aiomqtt.Client]:
    """Connected, and disconnected at the end, also if somebody loses patience while it connects."""
    opening = asyncio.ensure_future(client.__aenter__())
    try:
        await asyncio.shield(opening)
    except asyncio.CancelledError:
        # The library connects in a thread, which nobody can stop; what comes of it must not stay open.
        with suppress(aiomqtt.MqttError, TimeoutError):
            await asyncio.wait_for(opening, SAY_GOODBYE_S)
            await _leave(client)
        raise
    try:
        yield client
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(_leave(client), SAY_GOODBYE_S)


async def _leave(client: aiomqtt.Client) -> None:
    with suppress(aiomqtt.MqttError):
        await client.__aexit__(None, None, None)
    with suppress(aiomqtt.MqttError):
        # The reason for the end waits here to be heard; asyncio would complain that nobody did.
        async for _ in client.messages:
            pass


async def cancelled(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel tasks, and wait until they have ended; what they raise is not told."""
    waiting = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        # Before Python 3.12 a wait_for may swallow a cancellation, so once is not always enough.
        done, waiting = await asyncio.wait(waiting, timeout=CANCEL_AGAIN_S)
        for task in done:
            if not task.cancelled():
                task.exception()


async def together(*parts: Coroutine[Any, Any, object]) -> None:
    """Run them side by side until the first ends; the others are cancelled, and what it raised is raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await cancelled(*tasks)


async def publish_all(client: aiomqtt.Client, messages: Iterable[Outgoing]) -> None:
    """Publish in order, several in flight; returns when the broker has acknowledged all of them."""
    waiting = iter(messages)

    async def work() -> None:
        for topic, payload, retain in waiting:
            await client.publish(topic, payload, qos=1, retain=retain)

    workers = [asyncio.ensure_future(work()) for _ in range(IN_FLIGHT)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()


class Outbox:
    """Messages that leave in the order in which they were put in, as soon as there is a connection."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Outgoing] = asyncio.Queue()
        self.bytes = 0
        """How much waits."""

    def put(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Without waiting."""
        self.bytes += len(payload)
        self._waiting.put_nowait(Outgoing(topic, payload, retain))

    def clear(self) -> None:
        """Nobody is there any more who could want them."""
        while not self._waiting.empty():
            self._waiting.get_nowait()
        self.bytes = 0

    async def run(self, client: aiomqtt.Client) -> None:
        """Until the connection is lost."""
        await together(*(self._work(client) for _ in range(IN_FLIGHT)))

    async def _work(self, client: aiomqtt.Client) -> None:
        while True:
            topic, payload, retain = await self._waiting.get()
            self.bytes -= len(payload)
            await client.publish(topic, payload, qos=1, retain=retain)
