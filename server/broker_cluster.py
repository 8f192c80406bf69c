"""A complete emulator: store, journal, topics, coordinators and brokers, started and stopped together.

async with await BrokerCluster.start() as cluster:         # in memory, on a free port
    host, port = cluster.address                           # of the first broker; `addresses` has all of them
    await cluster.stop_broker(1)                           # another broker loads its groups
    await cluster.start_broker(1)

options = ClusterOptions(brokers=3, port=9092)
cluster = await BrokerCluster.start(partial(open_store, "groups.db"), options)
await cluster.close()
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Self, TypeAlias

from regroup.coordinator.group import Group
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.logger import get_logger
from regroup.coordinator.settings import InvalidSetting
from regroup.server.apis.consumer_groups.handlers import ConsumerGroupApis
from regroup.server.apis.consumer_groups.patterns import PatternSearch
from regroup.server.apis.group_offsets import GroupOffsetApis
from regroup.server.apis.groups import GroupApis
from regroup.server.apis.transactional_offsets import TransactionalOffsetApis
from regroup.server.broker import Broker
from regroup.server.cluster.events import BROKER_START
from regroup.server.cluster.group_router import GroupRouter
from regroup.server.cluster.loading import StoredClusterState
from regroup.server.cluster.state import ClusterState
from regroup.server.cluster.transaction_coordinator import TransactionCoordinator
from regroup.server.cluster_options import ClusterEnvironment, ClusterOptions
from regroup.server.history.opening import StoreReopening, open_history
from regroup.server.history.upkeep import HistoryUpkeep
from regroup.server.leadership import ShardLeadership
from regroup.server.limits import MAX_UNREAD_RESPONSES
from regroup.server.net.request_gate import RequestGate
from regroup.server.net.request_observer import RequestObservers
from regroup.server.net.responses.response_buffer import UnreadBytes
from regroup.server.net.turns import TurnQueue
from regroup.server.recording.recorder import Recorder
from regroup.server.recording.writer import RecordingWriter
from regroup.server.refusals.notices import RefusalNotices
from regroup.server.settings import describe_settings
from regroup.server.store_checks import warn_of_time_gap
from regroup.storage.errors import StoreError, StoreFailed, StoreLost
from regroup.storage.journal import Journal
from regroup.storage.memory import MemoryStore
from regroup.storage.store import EventStore

__all__ = ["StoreFactory", "ClusterOptions", "ClusterEnvironment", "BrokerCluster"]

StoreFactory: TypeAlias = Callable[[], Awaitable[EventStore]]
"""Opens the store: at the start, and again after the store has failed."""


class BrokerCluster:
    """One or several brokers in this process, over one store. `BrokerCluster.start` creates it.

    If the store fails while the brokers run (a full disk, for example), it is opened again until that works. Meanwhile
    requests about groups are answered as during a load, as after a crash of Kafka's coordinator. No change that a
    client got a response for is lost.
    """

    @classmethod
    async def start(
        cls,
        open_store: StoreFactory | None = None,
        options: ClusterOptions | None = None,
        environment: ClusterEnvironment | None = None,
        *,
        reopen_store: StoreFactory | None = None,
    ) -> Self:
        """Open the store, by default an empty one in memory, load topics and groups from it, and let all brokers
        listen.

        After a failure of the store, `reopen_store` is called in place of `open_store`; it should not create a store.
        If `start` is cancelled, everything that was started is stopped. Raises StoreError, or OSError if a port is in
        use.
        """
        open_store = open_store or MemoryStore().open
        options = options or ClusterOptions()
        environment = environment or ClusterEnvironment()
        store, stored, epoch, time_gap_ms = await open_history(open_store, environment.clock, environment.new_uuid)
        cluster = cls(reopen_store or open_store, options, environment, store, stored, epoch)
        try:
            await cluster._start()
        except BaseException:
            with suppress(StoreError):
                await cluster._abandon()
            raise
        warn_of_time_gap(time_gap_ms)
        return cluster

    def __init__(
        self,
        open_store: StoreFactory,
        options: ClusterOptions,
        environment: ClusterEnvironment,
        store: EventStore,
        stored: StoredClusterState,
        coordinator_epoch: int,
    ) -> None:
        self.options = options
        self.store = store
        self.journal = Journal(store)
        self.state = self._new_state(environment, stored, coordinator_epoch)
        self.router = GroupRouter(self.state, partial(self._new_coordinator, environment))
        self.turns = TurnQueue()
        self._unread = UnreadBytes(options.max_response_bytes * MAX_UNREAD_RESPONSES)
        self.transactions = TransactionCoordinator(self.state, self.router, self.turns)
        self.refusals = RefusalNotices(self.state.now_ms)
        self.observers: RequestObservers = [self.refusals]
        """They are called with every exchange of every broker."""
        self.recorder = environment.recorder
        """Keeps the latest exchanges of every broker as bytes; None if exchanges are not recorded."""
        if self.recorder is None and options.record_max_bytes:
            self.recorder = Recorder(self.state.now_ms)
        self._recording = self._new_recording()
        self.brokers = [self._new_broker(node_id, environment) for node_id in range(options.brokers)]
        self._reopening = StoreReopening(self, open_store)
        self._leadership = ShardLeadership(self.state, self.router, self.journal, self.brokers, lambda: self.store)
        self._log = get_logger("broker-cluster")
        self.last_snapshot_position = 0
        """Position of the last snapshot that this cluster has taken; 0 before the first."""
        self.is_consistent = True
        """Whether memory and store agree. False from a failure of the store until the next load."""
        self._upkeep = HistoryUpkeep(
            self,
            self.state.now_ms,
            snapshot_interval_records=options.snapshot_interval_records,
            keep_ms=options.keep_ms,
        )
        self._is_closing = False
        self.journal.on_failure(self._on_store_failure)

    def _new_state(
        self, environment: ClusterEnvironment, stored: StoredClusterState, coordinator_epoch: int
    ) -> ClusterState:
        settings = self.options.settings
        return ClusterState(
            stored,
            self.journal,
            coordinator_epoch=coordinator_epoch,
            settings=self.options.broker_settings,
            now_ms=environment.clock,
            new_uuid=environment.new_uuid,
            offsets_topic_partitions=settings.offsets_topic_num_partitions,
            node_ids=range(self.options.brokers),
            group_settings=settings,
        )

    def _new_coordinator(self, environment: ClusterEnvironment, owns: Callable[[str], bool]) -> GroupCoordinator:
        return environment.coordinator_factory(
            self.journal,
            settings=self.options.settings,
            now=environment.clock,
            owns=owns,
            topics=lambda: self.state.topics_image,
            settings_of=self.state.settings_of_group,
        )

    def _new_recording(self) -> RecordingWriter | None:
        """Make the RecordingWriter that writes recorded exchanges to the store; None if no exchanges are to be
        stored."""
        max_bytes = self.options.record_max_bytes
        if self.recorder is None or not max_bytes:
            return None
        return RecordingWriter(self.recorder, lambda: self.store, self.state.now_ms, max_bytes=max_bytes)

    def _new_broker(self, node_id: int, environment: ClusterEnvironment) -> Broker:
        options = self.options
        advertise = (options.advertise[0], options.advertise[1] + node_id) if options.advertise else None
        broker = Broker(
            self.state,
            self.transactions,
            node_id=node_id,
            host=options.host,
            port=options.port_of(node_id),
            advertise=advertise,
            release=options.release,
            other_settings=partial(describe_settings, options.settings),
            listen=environment.listen,
            observers=self.observers,
            max_response_bytes=options.max_response_bytes,
            turns=self.turns,
            unread=self._unread,
        )
        broker.gate = environment.gate_factory(node_id) if environment.gate_factory else None
        broker.recorder = self.recorder
        groups = self.router.groups_of_broker(node_id)
        patterns = PatternSearch(self.state, groups, self.turns)
        broker.add_handlers(GroupApis(self.state, groups, patterns.prepare).handlers())
        if options.release is None or options.release.group_version:
            broker.add_handlers(ConsumerGroupApis(self.state, groups, patterns).handlers())
        broker.add_handlers(GroupOffsetApis(self.state, groups).handlers())
        broker.add_handlers(TransactionalOffsetApis(self.state, groups, self.transactions).handlers())
        return broker

    async def _start(self) -> None:
        await self.router.start()
        self.transactions.start()
        if self._recording is not None:
            self._recording.start()
        for broker in self.brokers:
            await broker.start()
        self._upkeep.start()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop all brokers, wait until the accepted events are durable, save a snapshot, and close the store.

        Raises StoreLost if the store's files were deleted or replaced, so that events for which clients got responses
        are lost.
        """
        await self._stop_brokers()
        try:
            if self.is_consistent:
                self.state.close()
                await self.take_snapshot()
            await self.journal.close()
            if self._recording is not None:
                await self._recording.close()
        finally:
            await self.store.close()
        if isinstance(self.journal.failure, StoreLost):
            raise self.journal.failure

    async def _stop_brokers(self) -> None:
        self._is_closing = True
        await self._upkeep.stop()
        await self._reopening.stop()
        self.transactions.stop()
        self.router.stop()
        for broker in self.brokers:
            await broker.close()
        if self._recording is not None:
            await self._recording.stop()
        self.refusals.close()

    async def _abandon(self) -> None:
        """Clean up after a failed start: stop everything that has been started."""
        await self._stop_brokers()
        self.journal.fail(StoreFailed("The start was abandoned."))
        await self.journal.close()
        await self.store.close()

    async def kill(self) -> None:
        """Stop as a killed process does: events that are not durable are lost, no response is sent, and no snapshot is
        saved."""
        if self._recording is not None:
            await self._recording.stop()
        for broker in self.brokers:
            await broker.stop_listening()
        self._is_closing = True
        for broker in self.brokers:
            broker.abort_connections()
        self.transactions.stop()
        self.router.stop()
        self.journal.fail(StoreFailed("the process was killed"))
        await self._stop_brokers()
        await self.journal.close()
        await self.store.close()

    # Brokers and groups

    @property
    def broker(self) -> Broker:
        """The first broker."""
        return self.brokers[0]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each broker, stopped ones included."""
        return [broker.address for broker in self.brokers]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first broker."""
        return self.broker.address

    def coordinator_of(self, group_id: str) -> GroupCoordinator:
        """The coordinator of the group with this id, at the broker that leads the group's partition of
        `__consumer_offsets`."""
        return self.router.coordinator_of(group_id)

    def groups(self) -> Iterator[Group]:
        """Every group that exists, on all brokers."""
        for coordinator in self.router.coordinators:
            yield from coordinator.groups()

    def install_gates(self, gate_factory: Callable[[int], RequestGate]) -> None:
        """Give each broker a gate: every request from now on must pass it, also on connections that are open."""
        for broker in self.brokers:
            broker.gate = gate_factory(broker.node_id)
        self.forget_cached_responses()

    def forget_cached_responses(self) -> None:
        """Drop the cached response of every connection, so that its next request is decoded and passes the gate. It is
        called when a gate may stop requests that it let through before."""
        for broker in self.brokers:
            for connection in broker.connections():
                connection.forget_cached_response()

    async def ensure_topic(self, name: str, partitions: int) -> None:
        """Create a topic if it does not exist. Raises InvalidSetting if the name is invalid."""
        if name in self.state.topics:
            return
        if name_error := self.state.topic_name_error(name):
            raise InvalidSetting(name_error)
        self.state.create_topic(name, partitions, cause=BROKER_START)
        await self.journal.wait_until_durable(self.journal.last_position)

    async def stop_broker(self, node_id: int) -> None:
        """Stop the broker with this node id. The next broker then leads its partitions and loads its groups. If the
        broker is stopped already, nothing happens.

        Raises StoreError if the store has failed.
        """
        await self._leadership.stop_broker(node_id)

    async def start_broker(self, node_id: int) -> None:
        """Start a stopped broker on its address: it leads its partitions again and loads its groups.

        Raises StoreError if the store has failed, or OSError if the port is in use by now.
        """
        await self._leadership.start_broker(node_id)

    async def move_coordinator(self, group_id: str, node_id: int) -> None:
        """Make the broker with this node id the leader of the shard to which the group belongs, as a preferred leader
        election does in Kafka.

        The other groups of the shard move with it, and so do the partitions of topics that belong to the shard. Raises
        StoreError if the store has failed.
        """
        await self._leadership.move(self.router.shard_of(group_id), node_id)

    def begin_load(self, group_id: str) -> None:
        """Put the coordinator of the group into the state of loading its groups. Until `finish_load` is called,
        requests to it are answered as in Kafka during a load: with COORDINATOR_LOAD_IN_PROGRESS, or with success for
        heartbeats."""
        self.coordinator_of(group_id).begin_load()

    async def finish_load(self, group_id: str) -> None:
        """End the load that `begin_load` began; if it has ended already, nothing happens. Raises StoreError if the
        store has failed."""
        await self._leadership.load(self.router.shard_of(group_id))

    # Snapshots

    async def take_snapshot(self) -> None:
        """Save the state of topics and groups, so that the next load folds only the events after it."""
        position = self.journal.last_position
        cluster_snapshot = self.state.take_snapshot()
        snapshots = self.router.take_snapshots() + ([cluster_snapshot] if cluster_snapshot else [])
        try:
            await self.journal.wait_until_durable(position)
            await self.store.save_snapshots(position, snapshots)
            self.router.mark_saved(snapshots)
            self.last_snapshot_position = position
        except StoreLost as error:
            self._log.error("store-lost", error=str(error))
            self.journal.fail(error)
        except StoreError as error:
            self._log.warning("snapshot-failed", error=str(error))

    # A store that fails

    def _on_store_failure(self, error: StoreError) -> None:
        """Begin to open the failed store again, unless the cluster is being closed."""
        self.is_consistent = False
        if not self._is_closing:
            self._reopening.start()
