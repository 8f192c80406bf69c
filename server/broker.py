"""One broker: it listens, hands each request to its handler, and knows its connections.

stored = await load(store, uuid4)
cluster = Cluster(stored, log, reign=await store.next_reign(), settings=settings, now_ms=clock, new_uuid=uuid4)
broker = Broker(cluster, TransactionCoordinator(cluster, offsets))
broker.serve(group_handlers)          # whoever answers the group APIs adds them before the start
await broker.start()                  # broker.address is known now
await broker.close()
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from typing import Any, Protocol, TypeAlias

from regroup.protocol.apis import APIS
from regroup.protocol.fields import Versions
from regroup.protocol.header import RequestHeader
from regroup.server.apis.cluster import ClusterApis
from regroup.server.apis.configs import ConfigApis
from regroup.server.apis.fetch import FetchApis
from regroup.server.apis.offsets import OffsetApis
from regroup.server.apis.partitions import PartitionFinder
from regroup.server.apis.produce import ProduceApis
from regroup.server.apis.topics import TopicApis
from regroup.server.apis.transactions import TransactionApis
from regroup.server.cluster.state import Cluster, Node
from regroup.server.cluster.transaction_coordinator import TransactionCoordinator
from regroup.server.net.connection import Connection
from regroup.server.net.exchange import Handler, Handlers
from regroup.server.releases import Release
from regroup.server.settings import ShownSetting, shown

NEWEST_TRANSACTION_VERSION = 2
"""Each transaction has an epoch of its own, and a write adds its partition by itself (KIP-890)."""


class Listener(Protocol):
    """What a broker needs of an asyncio.Server."""

    @property
    def sockets(self) -> Sequence[Any]:
        """The first knows its host and port by `getsockname()`."""

    def close(self) -> None: ...

    async def wait_closed(self) -> None: ...


Listen: TypeAlias = Callable[[Callable[[], asyncio.Protocol], str, int], Awaitable[Listener]]
"""Given what makes a protocol for each connection, a host and a port (0: any), begins to listen there."""


class Broker:
    """A node of the cluster with a port of its own. `port` 0 takes a free one; `advertise` is what clients are told.

    `release` limits the APIs to those of an older Apache Kafka.
    `other_settings` adds what is not the broker's own to its settings in DescribeConfigs.
    `listen` opens the port elsewhere than on this machine's network, as in a simulated one.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactions: TransactionCoordinator,
        *,
        node_id: int = 0,
        host: str = "127.0.0.1",
        port: int = 0,
        advertise: tuple[str, int] | None = None,
        release: Release | None = None,
        other_settings: Callable[[], Iterable[ShownSetting]] = tuple,
        listen: Listen | None = None,
    ) -> None:
        self._cluster = cluster
        self._transactions = transactions
        self._release = release
        self.node_id = node_id
        self.max_frame_bytes = cluster.settings.socket_request_max_bytes
        self.max_idle_s = cluster.settings.connections_max_idle_ms / 1000
        self._host, self._port, self._advertise = host, port, advertise
        self._other_settings = other_settings
        self._handlers: dict[int, Handler] = {}
        self._served: dict[int, Versions] = {}
        self._connections: dict[Connection, None] = {}
        self._names = count(1)
        self._listen = listen or asyncio.get_running_loop().create_server
        self._server: Listener | None = None
        self._all_closed = asyncio.Event()
        self.serve(self._own_handlers())

    def _own_handlers(self) -> dict[int, Handler]:
        finder = PartitionFinder(self._cluster, self.node_id)
        transaction_version = self._release.transaction_version if self._release else NEWEST_TRANSACTION_VERSION
        return {
            **ClusterApis(self._cluster, self.node_id, self._served, transaction_version).handlers(),
            **TopicApis(self._cluster).handlers(),
            **ConfigApis(self._cluster, self.node_id, self._shown_settings).handlers(),
            **ProduceApis(self._cluster, finder, self._transactions).handlers(),
            **TransactionApis(self._cluster, self.node_id, self._transactions).handlers(),
            **FetchApis(finder, self._cluster.settings).handlers(),
            **OffsetApis(finder).handlers(),
        }

    def _shown_settings(self) -> Iterable[ShownSetting]:
        yield from shown(self._cluster.settings)
        yield from self._other_settings()

    def serve(self, handlers: Handlers) -> None:
        """Answer these APIs too, and advertise them, in every version that can be read and that the release had."""
        for key, handler in handlers.items():
            versions = APIS[key].versions
            served = self._release.limit(key, versions) if self._release else versions
            if served is not None:
                self._handlers[key] = handler
                self._served[key] = served

    async def start(self) -> None:
        """Listen. OSError if the port is taken."""
        self._server = await self._listen(self._connection, self._host, self._port)
        self._host, self._port = self._server.sockets[0].getsockname()[:2]
        host, port = self._advertise or (self._host, self._port)
        self._cluster.nodes[self.node_id] = Node(self.node_id, host, port or self._port)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port on which this broker listens."""
        return self._host, self._port

    async def close(self, patience_s: float = 1.0) -> None:
        """Stop listening and close every connection; what was answered is sent, if the clients take it in time."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        self._cluster.nodes.pop(self.node_id, None)
        for connection in list(self._connections):
            connection.stop()
        await self._wait_for_connections(patience_s)
        await server.wait_closed()

    async def _wait_for_connections(self, patience_s: float) -> None:
        if self._connections:
            self._all_closed.clear()
            impatient = asyncio.get_running_loop().call_later(patience_s, self._abort_connections)
            await self._all_closed.wait()
            impatient.cancel()

    def _abort_connections(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    def versions_of(self, api_key: int) -> Versions:
        """The versions of an API that is served."""
        return self._served[api_key]

    def handler_of(self, header: RequestHeader) -> Handler | None:
        versions = self._served.get(header.api_key)
        return self._handlers[header.api_key] if versions is not None and header.api_version in versions else None

    def opened(self, connection: Connection) -> None:
        self._connections[connection] = None

    def closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if not self._connections:
            self._all_closed.set()

    def _connection(self) -> Connection:
        return Connection(self, f"{self.node_id}-{next(self._names)}")
