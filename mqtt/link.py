"""A connection to an MQTT broker that is opened again after every loss, and queues of outgoing messages.

    link = MqttLink(address, access, report=print)
    await link.run(session)         # session(client) runs once for each connection

Every connection begins a clean session at the broker, so the session must send again what the last one has lost.
"""

import asyncio
import logging
import random
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

import aiomqtt

from regroup.mqtt.address import MqttAccess, MqttAddress

MIN_RETRY_DELAY_S: Final = 0.2
MAX_RETRY_DELAY_S: Final = 10.0
STABLE_AFTER_S: Final = 5.0
"""After a connection that lasted this many seconds, the next attempt is made after MIN_RETRY_DELAY_S."""
MQTT_TIMEOUT_S: Final = 10.0
"""A connection is given up if the broker acknowledges nothing for this many seconds."""
KEEPALIVE_INTERVAL_S: Final = 15
"""The MQTT keepalive interval in seconds. The broker publishes the last will of a silent client after one and a half
times this interval."""
MAX_IN_FLIGHT: Final = 32
"""How many messages are sent before the first is acknowledged. aiomqtt searches all of them for each
acknowledgement."""
MAX_QUEUED_INCOMING: Final = 20_000
"""How many received messages may wait for the session; further ones are lost, as with a broker whose queue is full."""
DISCONNECT_TIMEOUT_S: Final = 1.0
CANCEL_INTERVAL_S: Final = 1.5

_silent = logging.getLogger("regroup.mqtt")
_silent.setLevel(logging.CRITICAL)
"""The logger of aiomqtt. Its own lines are suppressed, because the link reports each error once."""


class ReconnectRequested(Exception):
    """Raised by a session of MqttLink to get a new connection, for example because the last will of the present one is
    out of date."""


class MqttMessage(NamedTuple):
    """A message to publish: its topic, its payload, and whether the broker is to retain it."""

    topic: str
    payload: bytes
    retain: bool = False


class MqttLink:
    """Keeps a connection to an MQTT broker: after a loss it connects again, with a growing delay between attempts.

    `report` is called with one line of text when the connection is lost and when it is restored. `last_will` is called
    before each connection and returns the message that the broker publishes if that connection breaks, or None.
    """

    def __init__(
        self,
        address: MqttAddress,
        access: MqttAccess,
        *,
        report: Callable[[str], object],
        last_will: Callable[[], aiomqtt.Will | None] = lambda: None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.address = address
        self._access = access
        self._tls = access.tls_context(address)
        self._report = report
        self._last_will = last_will
        self._draw = draw
        self.connection_error: str | None = None
        """Why there is no connection now, as text; None while there is one."""

    async def run(self, session: Callable[[aiomqtt.Client], Awaitable[object]]) -> None:
        """Connect to the MQTT broker and call `session` with the client; connect again whenever the session has ended
        or failed. Never returns."""
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            try:
                async with _connected(self._new_client()) as client:
                    began_s = loop.time()
                    if self.connection_error is not None:
                        self._report(f"{self.address} is connected again")
                    self.connection_error = None
                    await session(client)
                    self._lost("the connection to the MQTT broker has ended")
            except Exception as error:  # noqa: BLE001  # an error in the handling of a message must not end the link
                self._lost(_describe(error))
            failures = 1 if loop.time() - began_s >= STABLE_AFTER_S else failures + 1
            delay_s = min(MIN_RETRY_DELAY_S * 2 ** min(failures - 1, 20), MAX_RETRY_DELAY_S)
            # A random part keeps the clients of a restarted broker from connecting all at once.
            await asyncio.sleep(delay_s * (0.5 + self._draw() / 2))

    def _new_client(self) -> aiomqtt.Client:
        client = aiomqtt.Client(
            self.address.host,
            self.address.port,
            username=self._access.username,
            password=self._access.password,
            tls_context=self._tls,
            will=self._last_will(),
            timeout=MQTT_TIMEOUT_S,
            keepalive=KEEPALIVE_INTERVAL_S,
            max_inflight_messages=MAX_IN_FLIGHT * 4,
            max_queued_outgoing_messages=0,
            max_queued_incoming_messages=MAX_QUEUED_INCOMING,
            logger=_silent,
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        )
        client.pending_calls_threshold = MAX_IN_FLIGHT * 4
        return client

    def _lost(self, error: str) -> None:
        if self.connection_error is None:
            self._report(f"{self.address}: {error}; connecting again")
        self.connection_error = error


def _describe(error: Exception) -> str:
    """The text of a connection error, with advice what the user can do about it."""
    if isinstance(error, aiomqtt.exceptions.MqttConnectError):
        return f"the broker refuses the connection ({error}): check REGROUP_MQTT_USERNAME and REGROUP_MQTT_PASSWORD"
    if isinstance(error, aiomqtt.MqttCodeError) or str(error).startswith("Disconnected"):
        return "the connection was lost"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    if isinstance(error, aiomqtt.MqttError | ReconnectRequested):
        # The words behind `[Errno 111]` say what it means.
        return re.sub(r"\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
    return f"{type(error).__name__}: {error}"


@asynccontextmanager
async def _connected(client: aiomqtt.Client) -> AsyncIterator[aiomqtt.Client]:
    """Connect the client on entry to the context and disconnect it at the end, also when the caller is cancelled while
    it connects."""
    connecting = asyncio.ensure_future(client.__aenter__())
    try:
        await asyncio.shield(connecting)
    except asyncio.CancelledError:
        # aiomqtt connects in a thread that cannot be stopped; its connection must not stay open.
        with suppress(aiomqtt.MqttError, TimeoutError):
            await asyncio.wait_for(connecting, DISCONNECT_TIMEOUT_S)
            await _disconnect(client)
        raise
    try:
        yield client
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(_disconnect(client), DISCONNECT_TIMEOUT_S)


async def _disconnect(client: aiomqtt.Client) -> None:
    with suppress(aiomqtt.MqttError):
        await client.__aexit__(None, None, None)
    with suppress(aiomqtt.MqttError):
        # Retrieves the exception that ended the connection; otherwise asyncio logs that it was never retrieved.
        async for _ in client.messages:
            pass


async def cancel_and_wait(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel tasks, and wait until they have ended; their exceptions are dropped."""
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        # Before Python 3.12 a wait_for may swallow a cancellation, so once is not always enough.
        done, running = await asyncio.wait(running, timeout=CANCEL_INTERVAL_S)
        for task in done:
            if not task.cancelled():
                task.exception()


async def run_until_first_ends(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run coroutines concurrently until the first one ends, and cancel the others. If it raised an exception, that is
    raised; of several that end at once, the exception of the one that is named first."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        await cancel_and_wait(*tasks)


async def publish_all(client: aiomqtt.Client, messages: Iterable[MqttMessage]) -> None:
    """Publish messages in order, several at a time without waiting for each acknowledgement. Returns when the MQTT
    broker has acknowledged all of them."""
    remaining = iter(messages)

    async def publish() -> None:
        for topic, payload, retain in remaining:
            await client.publish(topic, payload, qos=1, retain=retain)

    workers = [asyncio.ensure_future(publish()) for _ in range(MAX_IN_FLIGHT)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()


class Outbox:
    """A queue of MQTT messages. `run` publishes them in order over a connection; messages wait in the queue while there
    is no connection."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[MqttMessage] = asyncio.Queue()
        self.queued_bytes = 0
        """Total size of the queued messages in bytes."""

    def put(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Add a message to the end of the queue; with `retain` the MQTT broker keeps it for later subscribers."""
        self.queued_bytes += len(topic) + len(payload)
        self._queue.put_nowait(MqttMessage(topic, payload, retain))

    def clear(self) -> None:
        """Drop all queued messages, for example because their receivers have disconnected."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self.queued_bytes = 0

    async def run(self, client: aiomqtt.Client) -> None:
        """Publish the queued messages and those that are added later, several at a time, until the connection is
        lost."""
        await run_until_first_ends(*(self._publish(client) for _ in range(MAX_IN_FLIGHT)))

    async def _publish(self, client: aiomqtt.Client) -> None:
        while True:
            topic, payload, retain = await self._queue.get()
            self.queued_bytes -= len(topic) + len(payload)
            await client.publish(topic, payload, qos=1, retain=retain)
