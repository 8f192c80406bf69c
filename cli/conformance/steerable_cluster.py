"""An emulator in this process that elects the same leaders as another broker, so that the two can be compared."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from uuid import UUID, uuid4

from regroup.coordinator.decision import first_candidate
from regroup.coordinator.group import Group
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import CoordinatorSettings
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions
from regroup.storage.memory import MemoryStore


class SteerableCluster:
    """One broker of the newest release, with a store in memory, whose leaders can be chosen.

    Without a choice, the member that joined first leads.
    """

    def __init__(self, options: ClusterOptions, store: MemoryStore) -> None:
        self._preferred: dict[str, str] = {}
        self._options = options
        self._store = store
        self._next_ids: list[bytes] = []
        self._cluster: BrokerCluster | None = None

    def prefer_leader(self, group_id: str, member_id: str) -> None:
        """Elect this member the next time that the group needs another leader."""
        self._preferred[group_id] = member_id

    def draw_next(self, topic_ids: Iterable[bytes]) -> None:
        """Give the next topics these ids, since assignors take topics in the order of their ids."""
        self._next_ids = [*topic_ids]

    def _draw(self) -> UUID:
        return UUID(bytes=self._next_ids.pop(0)) if self._next_ids else uuid4()

    def choose_leader(self, group_id: str, candidates: Sequence[str]) -> str:
        """The LeaderPolicy of the coordinators: the preferred member if it is a candidate, otherwise the first
        candidate."""
        preferred = self._preferred.get(group_id, "")
        return preferred if preferred in candidates else first_candidate(group_id, candidates)

    @property
    def address(self) -> str:
        """The address as `HOST:PORT`. It stays the same after a restart."""
        host, port = self._running.address
        return f"{host}:{port}"

    @property
    def _running(self) -> BrokerCluster:
        assert self._cluster is not None, "the cluster has not been started"
        return self._cluster

    def groups(self) -> Iterator[Group]:
        """Every group that exists."""
        return self._running.groups()

    async def start(self) -> None:
        """Load the store, and listen."""
        factory = partial(GroupCoordinator, choose_leader=self.choose_leader)
        environment = ClusterEnvironment(coordinator_factory=factory, new_uuid=self._draw)
        self._cluster = await BrokerCluster.start(self._store.open, self._options, environment)
        self._options = replace(self._options, port=self._cluster.address[1])

    async def close(self) -> None:
        """Stop the broker."""
        await self._running.close()

    async def restart(self) -> None:
        """Stop the broker, and start it again with the same store and address."""
        await self.close()
        await self.start()


@asynccontextmanager
async def run_steerable_cluster(
    settings: Mapping[str, str], topic_ids: Iterable[bytes] = ()
) -> AsyncIterator[SteerableCluster]:
    """Run such an emulator within the `async with` block. Of the settings, those of a coordinator are used.

    The first topics that are created get these ids.
    """
    names = CoordinatorSettings.names()
    options = ClusterOptions(
        settings=CoordinatorSettings.from_texts({name: settings[name] for name in names if name in settings}),
    )
    cluster = SteerableCluster(options, MemoryStore())
    await cluster.start()
    cluster.draw_next(topic_ids)
    try:
        yield cluster
    finally:
        await cluster.close()
