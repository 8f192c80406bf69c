"""One broker: it listens on its port, has the handlers of the served APIs, and keeps the list of its connections.

stored = await load_cluster_state(store, uuid4)
state = ClusterState(stored, journal, coordinator_epoch=1, settings=settings, now_ms=clock, new_uuid=uuid4)
broker = Broker(state, TransactionCoordinator(state, groups))
broker.add_handlers(group_handlers)   # before the start
await broker.start()                  # from now on `broker.address` has the port
await broker.close()
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from typing import Any, Protocol, TypeAlias

from regroup.coordinator.runtime.logger import get_logger
from regroup.protocol.apis import APIS
from regroup.protocol.fields import Versions
from regroup.protocol.header import RequestHeader
from regroup.server.apis.cluster import ClusterApis
from regroup.server.apis.configs import ConfigApis
from regroup.server.apis.fetch import FetchApis
from regroup.server.apis.partition_offsets import OffsetApis
from regroup.server.apis.partitions import PartitionFinder
from regroup.server.apis.produce import ProduceApis
from regroup.server.apis.topics import TopicApis
from regroup.server.apis.transaction_lists import TransactionListApis
from regroup.server.apis.transactions import TransactionApis
from regroup.server.cluster.state import BrokerNode, ClusterState
from regroup.server.cluster.transaction_coordinator import TransactionCoordinator
from regroup.server.limits import DEFAULT_MAX_RESPONSE_BYTES, MAX_UNREAD_RESPONSES
from regroup.server.net.broker_handle import OpenConnection
from regroup.server.net.connection import Connection
from regroup.server.net.exchange import RequestHandler, RequestHandlers
from regroup.server.net.request_gate import RequestGate
from regroup.server.net.request_observer import RequestObservers
from regroup.server.net.request_recorder import RequestRecorder
from regroup.server.net.responses.response_buffer import UnreadBytes
from regroup.server.net.turns import TurnQueue
from regroup.server.releases import ANY_RELEASE, Release
from regroup.server.settings import DescribedSetting, describe_settings

LATEST_GROUP_VERSION = 1
"""The newest level of the feature `group.version`: 1 enables groups of the consumer protocol (KIP-848)."""
LATEST_TRANSACTION_VERSION = 2
"""The newest level of the feature `transaction.version`: with 2 each transaction has its own producer epoch, and a
write adds its partition to the transaction (KIP-890)."""

log = get_logger("connection")

MAX_TURNS_TO_ACCEPT = 100
"""Turns of the loop that a broker waits for connections that are being accepted when it stops to listen."""


class Listener(Protocol):
    """The part of asyncio.Server that a broker uses."""

    @property
    def sockets(self) -> Sequence[Any]:
        """The listening sockets; `getsockname()` of the first one returns the host and port on which the broker
        listens."""

    def close(self) -> None: ...

    async def wait_closed(self) -> None: ...


ListenFunction: TypeAlias = Callable[[Callable[[], asyncio.Protocol], str, int], Awaitable[Listener]]
"""A function that listens: given a protocol factory, a host and a port (0 for a free one), it returns a Listener, as
`loop.create_server` does."""


class Broker:
    """A broker of the cluster with its own port; with `port` 0 it takes a free one. `advertise` is the address that
    clients get.

    `release` limits the APIs to those of one release of Apache Kafka. `other_settings` returns the settings that
    DescribeConfigs shows beside the broker's own. `listen` replaces the machine's network, as a simulation does.
    `observers` see every exchange. `turns` is shared by the brokers of one process.
    """

    def __init__(
        self,
        state: ClusterState,
        transactions: TransactionCoordinator,
        *,
        node_id: int = 0,
        host: str = "127.0.0.1",
        port: int = 0,
        advertise: tuple[str, int] | None = None,
        release: Release | None = None,
        other_settings: Callable[[], Iterable[DescribedSetting]] = tuple,
        listen: ListenFunction | None = None,
        observers: RequestObservers | None = None,
        max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES,
        turns: TurnQueue | None = None,
        unread: UnreadBytes | None = None,
    ) -> None:
        self._state = state
        self._release = release
        self.node_id = node_id
        self.max_frame_bytes = state.settings.socket_request_max_bytes
        self.max_response_bytes = max_response_bytes
        self.needs_whole_responses = False
        self.turns = turns or TurnQueue()
        self.unread = unread or UnreadBytes(max_response_bytes * MAX_UNREAD_RESPONSES)
        self.max_idle_s = state.settings.connections_max_idle_ms / 1000
        self.observers: RequestObservers = [] if observers is None else observers
        self.gate: RequestGate | None = None
        """Decides over each request before its handler is called. `BrokerCluster.install_gates` changes it while the
        brokers run."""
        self.recorder: RequestRecorder | None = None
        """Keeps the bytes of requests and responses; set it before the start."""
        self._host, self._port, self._advertise = host, port, advertise
        self._other_settings = other_settings
        self._handlers: dict[tuple[int, int], RequestHandler] = {}
        """Handlers by API key and version."""
        self._served: dict[int, Versions] = {}
        self._connections: dict[OpenConnection, None] = {}
        self._connection_numbers = count(1)
        self._listen = listen or asyncio.get_running_loop().create_server
        self._listener: Listener | None = None
        self._is_closed = False
        self._all_closed = asyncio.Event()
        self.add_handlers(self._own_handlers(transactions))

    def _own_handlers(self, transactions: TransactionCoordinator) -> RequestHandlers:
        """The handlers of all APIs except those about groups, by API key."""
        state, node_id, release = self._state, self.node_id, self._release
        finder = PartitionFinder(state, node_id)
        features = {
            "group.version": release.group_version if release else LATEST_GROUP_VERSION,
            "transaction.version": release.transaction_version if release else LATEST_TRANSACTION_VERSION,
        }
        return {
            **ClusterApis(state, node_id, self._served, features).handlers(),
            **TopicApis(state).handlers(),
            **ConfigApis(state, node_id, self._settings).handlers(),
            **ProduceApis(state, finder, transactions).handlers(),
            **TransactionApis(state, node_id, transactions).handlers(),
            **TransactionListApis(state, node_id).handlers(),
            **FetchApis(finder, state.settings, self.max_response_bytes).handlers(),
            **OffsetApis(finder).handlers(),
        }

    def _settings(self) -> Iterable[DescribedSetting]:
        yield from describe_settings(self._state.settings)
        yield from self._other_settings()

    def add_handlers(self, handlers: RequestHandlers) -> None:
        """Serve the APIs of these handlers too, each in every version that both the codec and the emulated release of
        Kafka have."""
        for key, handler in handlers.items():
            versions = APIS[key].versions
            served = self._release.limit(key, versions) if self._release else versions
            if served is None:
                continue
            self._served[key] = served
            for version in range(served.first, served.last + 1):
                if not (self._release and self._release.refuses(key, version)):
                    self._handlers[key, version] = handler

    async def start(self) -> None:
        """Listen on the broker's port, and add the broker to the nodes of the cluster. Raises OSError if the port is in
        use."""
        self._listener = await self._listen(self._new_connection, self._host, self._port)
        self._is_closed = False
        self._host, self._port = self._listener.sockets[0].getsockname()[:2]
        host, port = self._advertise or (self._host, self._port)
        self._state.nodes[self.node_id] = BrokerNode(self.node_id, host, port or self._port)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port on which this broker listens."""
        return self._host, self._port

    async def close(self, timeout_s: float = 1.0) -> None:
        """Stop listening and close every connection; responses that are not sent within the timeout are dropped."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        await self._close_listener(listener)
        self._state.nodes.pop(self.node_id, None)
        for connection in list(self._connections):
            connection.stop()
        if self._connections:
            self._all_closed.clear()
            timeout = asyncio.get_running_loop().call_later(timeout_s, self.abort_connections)
            await self._all_closed.wait()
            timeout.cancel()
        await listener.wait_closed()

    async def stop_listening(self) -> None:
        """Accept no more connections. Open connections stay open until `close`."""
        if self._listener is not None:
            await self._close_listener(self._listener)

    async def _close_listener(self, listener: Listener) -> None:
        """Close the listener once every accepted socket has been handed to its connection. If it were closed earlier,
        asyncio would leak the other sockets (seen with CPython 3.11)."""
        for _ in range(MAX_TURNS_TO_ACCEPT):
            if not any(_is_accepting(task) for task in asyncio.all_tasks()):
                break
            await asyncio.sleep(0)
        self._is_closed = True
        listener.close()

    def served_versions(self, api_key: int) -> Versions:
        """The versions in which this API is served. Raises KeyError for an API that is not served."""
        return self._served[api_key]

    def handler_for(self, header: RequestHeader) -> RequestHandler | None:
        """The handler for the API and version of a request; None if that version is not served."""
        return self._handlers.get((header.api_key, header.api_version))

    def refusal_of(self, header: RequestHeader) -> str:
        """Why the API and version in this request header are not served, and what can be done about it, as text for the
        log. The client is not sent this text; its connection is closed."""
        api = APIS.get(header.api_key)
        if api is None or api.key not in self._served:
            return f"the API {header.api_key}{f' ({api.name})' if api else ''} is not served"
        what, served = f"{api.name} v{header.api_version} is not served", self._served[api.key]
        if self._release is None:
            return f"{what}: all known versions are {served}"
        first = max(served.first, self._release.refused_below.get(api.key, 0))
        text = f"{what}: Apache Kafka {self._release.name} has {Versions(first, served.last)}"
        if header.api_version < first:
            return f"{text}; for a client that is older start with --broker-version {ANY_RELEASE}"
        return text

    def log_closed(self, connection: OpenConnection, reason: str) -> None:
        log.warning("connection closed", connection=connection.name, client=connection.client_host, reason=reason)

    def connections(self) -> list[OpenConnection]:
        """The open connections of this broker."""
        return list(self._connections)

    def abort_connections(self) -> None:
        """Close every connection at once; responses that are not sent yet are dropped."""
        for connection in list(self._connections):
            connection.abort()

    def add_connection(self, connection: OpenConnection) -> None:
        """Add a connection that was accepted. If the broker has closed in the meantime, the connection is closed
        too."""
        self._connections[connection] = None
        if self._is_closed:
            connection.abort()

    def remove_connection(self, connection: OpenConnection) -> None:
        self._connections.pop(connection, None)
        if not self._connections:
            self._all_closed.set()

    def _new_connection(self) -> Connection:
        return Connection(self, self._state.connection_name(f"{self.node_id}-{next(self._connection_numbers)}"))


def _is_accepting(task: asyncio.Task[Any]) -> bool:
    """Whether this task of asyncio is about to pass an accepted socket to its connection."""
    return getattr(task.get_coro(), "__name__", "") == "_accept_connection2"
