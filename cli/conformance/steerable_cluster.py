"""An emulator in this process that elects the same leaders as another broker, so that the two can be compared."""

import dataclasses
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from msgspec.structs import replace

from regroup.coordinator.commands import Command, JoinGroup
from regroup.coordinator.decision import first_candidate
from regroup.coordinator.group import Group
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.pending_responses import ResponseCallback
from regroup.coordinator.serialization import Cause
from regroup.coordinator.settings import CoordinatorSettings
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions
from regroup.server.cluster.events import BROKER_START
from regroup.storage.memory import MemoryStore


class SteerableCluster:
    """One broker of the newest release, with a store in memory, whose leaders, member ids and topic ids can be chosen.

    Without a choice, the member that joined first leads, and ids are drawn at random.
    """

    def __init__(self, options: ClusterOptions, store: MemoryStore) -> None:
        self._preferred: dict[str, str] = {}
        self._member_ids: dict[str, str] = {}
        self._options = options
        self._store = store
        self._next_ids: list[bytes] = []
        self._cluster: BrokerCluster | None = None

    def prefer_leader(self, group_id: str, member_id: str) -> None:
        """Make this member the leader when the group elects its next one."""
        self._preferred[group_id] = member_id

    def give_member_id(self, group_id: str, member_id: str) -> None:
        """Give this id to the next member that joins the group without one; with an empty id, a random one."""
        self._member_ids[group_id] = member_id

    def with_given_id(self, command: Command) -> Command:
        """The command; if it comes from a member without an id, with the id that `give_member_id` has set."""
        if not isinstance(command, JoinGroup) or command.member_id:
            return command
        given = self._member_ids.pop(command.group_id, "")
        return replace(command, new_member_id=given, new_short_member_id=given) if given else command

    def create_topic(self, name: str, partitions: int, topic_id: bytes) -> None:
        """Create a topic with this number of partitions and this topic id."""
        self.draw_next([topic_id])
        self._running.state.create_topic(name, partitions, cause=BROKER_START)

    def draw_next(self, topic_ids: Iterable[bytes]) -> None:
        """Set the ids for the next topics that are created; assignors take topics in the order of their ids."""
        self._next_ids = [*topic_ids]

    def _draw(self) -> UUID:
        return UUID(bytes=self._next_ids.pop(0)) if self._next_ids else uuid4()

    def choose_leader(self, group_id: str, candidates: Sequence[str]) -> str:
        """The preferred member of the group if it is a candidate, otherwise the first candidate (a LeaderPolicy)."""
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
        """Yield the present state of every group."""
        return self._running.groups()

    async def start(self) -> None:
        """Load the groups from the store, and open the port."""
        factory = partial(_SteeredCoordinator, self, choose_leader=self.choose_leader)
        environment = ClusterEnvironment(coordinator_factory=factory, new_uuid=self._draw)
        self._cluster = await BrokerCluster.start(self._store.open, self._options, environment)
        self._options = dataclasses.replace(self._options, port=self._cluster.address[1])

    async def close(self) -> None:
        """Stop the broker."""
        await self._running.close()

    async def restart(self) -> None:
        """Stop the broker, and start it again with the same store and address."""
        await self.close()
        await self.start()


class _SteeredCoordinator(GroupCoordinator):
    """A coordinator in which members that join without an id can get one that was set before."""

    def __init__(self, cluster: SteerableCluster, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cluster = cluster

    def submit(self, command: Command, on_response: ResponseCallback | None = None, cause: Cause | None = None) -> None:
        super().submit(self._cluster.with_given_id(command), on_response, cause)


@asynccontextmanager
async def run_steerable_cluster(
    settings: Mapping[str, str], topic_ids: Iterable[bytes] = ()
) -> AsyncIterator[SteerableCluster]:
    """Run a SteerableCluster within the `async with` block.

    Of the settings only those of a coordinator are used. The first topics that are created get these ids.
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
