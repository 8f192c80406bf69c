"""Which broker of a cluster leads which shard of `__consumer_offsets`, and the loads that follow when this changes."""

import asyncio
from collections.abc import Callable, Sequence

from regroup.coordinator.runtime.logger import get_logger
from regroup.server.broker import Broker
from regroup.server.cluster.group_router import GroupRouter
from regroup.server.cluster.state import ClusterState
from regroup.storage.journal import Journal
from regroup.storage.store import EventStore

log = get_logger("broker-cluster")


class ShardLeadership:
    """Stops and starts brokers and moves shards between them, one change at a time.

    A shard that has a new leader gets a new coordinator epoch, and its groups are loaded again from the store. Each
    change raises StoreError if the store has failed. `store` returns the store, which is another one after a failure.
    """

    def __init__(
        self,
        state: ClusterState,
        router: GroupRouter,
        journal: Journal,
        brokers: Sequence[Broker],
        store: Callable[[], EventStore],
    ) -> None:
        self._state = state
        self._router = router
        self._journal = journal
        self._brokers = brokers
        self._store = store
        self._changing = asyncio.Lock()

    async def stop_broker(self, node_id: int) -> None:
        """Stop the broker with this node id; the next broker leads its shards. If the broker is stopped already,
        nothing happens."""
        async with self._changing:
            if node_id in self._state.nodes:
                coordinator_epoch = await self._store().next_coordinator_epoch()
                del self._state.nodes[node_id]
                moved = self._stop_moved_shards(coordinator_epoch)
                await self._brokers[node_id].close()
                await self._start_shards(moved)
                log.info("broker-stopped", broker=node_id)

    async def start_broker(self, node_id: int) -> None:
        """Start a stopped broker on its address; it leads its shards again. Raises OSError if its port is in use."""
        async with self._changing:
            if node_id not in self._state.nodes:
                coordinator_epoch = await self._store().next_coordinator_epoch()
                await self._brokers[node_id].start()
                await self._start_shards(self._stop_moved_shards(coordinator_epoch))
                log.info("broker-started", broker=node_id)

    async def move(self, shard: int, node_id: int) -> None:
        """Make the broker with this node id the leader of the shard, and load the shard's groups there."""
        async with self._changing:
            coordinator_epoch = await self._store().next_coordinator_epoch()
            self._state.prefer_leader(shard, node_id)
            await self._start_shards(self._stop_moved_shards(coordinator_epoch))

    async def load(self, shard: int) -> None:
        """Start the coordinator of the shard again, which loads the shard's groups from the store. If the coordinator
        runs, because another change has started it meanwhile, nothing happens."""
        async with self._changing:
            if not self._router.coordinators[shard].is_ready:
                await self._start_shards([shard])

    def _stop_moved_shards(self, coordinator_epoch: int) -> list[int]:
        """Stop the coordinators of the shards whose leader has changed, and set the leader epoch of these shards to one
        below `coordinator_epoch`. Returns these shards."""
        moved = self._router.stop_moved_shards()
        for shard in moved:
            self._state.bump_leader_epoch(shard, coordinator_epoch - 1)
        return moved

    async def _start_shards(self, shards: list[int]) -> None:
        await self._journal.wait_until_durable(self._journal.last_position)
        await self._router.start_shards(shards)
