"""A whole emulator: store, journal, topics, coordinators and brokers, brought up in order and taken down in order.

emulator = Emulator(partial(open_store, "groups.db"), clock=clock, new_uuid=uuid4, brokers=3)
await emulator.start()
host, port = emulator.address             # of the first broker; `addresses` has all of them
await emulator.stop_broker(1)             # another broker loads its groups
await emulator.start_broker(1)
await emulator.close()
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TypeAlias
from uuid import UUID

import structlog

from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import InvalidSetting, Settings
from regroup.server.apis.group_offsets import GroupOffsetApis
from regroup.server.apis.groups import GroupApis
from regroup.server.apis.transactional_offsets import TransactionalOffsetApis
from regroup.server.broker import Broker, Listen
from regroup.server.clock import Clock
from regroup.server.cluster.causes import START
from regroup.server.cluster.group_router import GroupShares
from regroup.server.cluster.state import Cluster, load
from regroup.server.cluster.topics import name_is_illegal
from regroup.server.cluster.transaction_coordinator import TransactionCoordinator
from regroup.server.releases import Release
from regroup.server.settings import BrokerSettings, shown
from regroup.storage.errors import StoreError
from regroup.storage.journal import Journal
from regroup.storage.store import EventStore

OpenStore: TypeAlias = Callable[[], Awaitable[EventStore]]

SNAPSHOT_RECORDS = 50_000
"""So many records after the last snapshot the next one is due, if nobody says otherwise."""
SNAPSHOT_LOOK_S = 5.0
"""How often that is looked at."""
REOPEN_PAUSE_S = 0.5
"""Before a store that has failed is opened again; after each try that fails it is twice as long."""
LONGEST_REOPEN_PAUSE_S = 5.0


class Emulator:
    """Brokers in one process, with one store. Broker n listens on `port` + n; if that is 0, each takes a free port.

    `advertise` is the address that clients are told, for containers and tunnels; its port, too, is that of broker 0.
    `release` limits what is served to the APIs of an older Apache Kafka.
    `listen` and `make_coordinator` put the brokers on another network, and let somebody watch the coordinators.
    A store that fails while serving (a full disk, say) is opened again until it works; in the meantime groups are
    loading, as after a crash of Kafka's own coordinator, and nothing that was acknowledged is lost.
    """

    def __init__(
        self,
        open_store: OpenStore,
        *,
        clock: Clock,
        new_uuid: Callable[[], UUID],
        settings: Settings | None = None,
        broker_settings: BrokerSettings | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        advertise: tuple[str, int] | None = None,
        brokers: int = 1,
        release: Release | None = None,
        listen: Listen | None = None,
        make_coordinator: Callable[..., GroupCoordinator] = GroupCoordinator,
        snapshot_records: int = SNAPSHOT_RECORDS,
    ) -> None:
        self._open_store = open_store
        self._clock, self._new_uuid = clock, new_uuid
        self.settings = settings or Settings()
        self.broker_settings = broker_settings or BrokerSettings()
        self._listen = (host, port, advertise)
        self._node_ids = range(brokers)
        self._release = release
        self._listen_with, self._make_coordinator = listen, make_coordinator
        self._snapshot_records = snapshot_records
        self._moving = asyncio.Lock()
        self._log = structlog.get_logger("emulator")
        self._mending: asyncio.Task[None] | None = None
        self._is_closing = False
        self._is_whole = False
        """What is in memory is what the store holds, or will hold: not between a failure and the load that mends it."""
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load what the store holds, then listen. Raises StoreError, or OSError if the port is taken."""
        self.store = await self._open_store()
        try:
            await self._assemble()
        except BaseException:
            await self.store.close()
            raise

    async def _assemble(self) -> None:
        async for record in self.store.read(after=max(self.store.last_position - 1, self.store.trimmed_through)):
            self._clock.not_before(record.at_ms)
        stored = await load(self.store, self._new_uuid)
        reign = await self.store.next_reign()
        self.journal = Journal(self.store)
        self.cluster = Cluster(
            stored,
            self.journal,
            reign=reign,
            settings=self.broker_settings,
            now_ms=self._clock,
            new_uuid=self._new_uuid,
            offsets_topic_partitions=self.settings.offsets_topic_num_partitions,
            node_ids=self._node_ids,
        )
        self.shares = GroupShares(
            self.cluster,
            lambda owns: self._make_coordinator(self.journal, settings=self.settings, now=self._clock, owns=owns),
        )
        self.transactions = TransactionCoordinator(self.cluster, self.shares)
        self.journal.on_failure(self._mend)
        await self.shares.start()
        self.transactions.start()
        self.brokers = [self._make_broker(node_id) for node_id in self._node_ids]
        await self._listen_everywhere()
        self._cut = 0
        self._is_whole = True
        self._looking = asyncio.create_task(self._look_for_snapshots(), name="snapshots")

    def _make_broker(self, node_id: int) -> Broker:
        host, port, advertise = self._listen
        broker = Broker(
            self.cluster,
            self.transactions,
            node_id=node_id,
            host=host,
            port=port + node_id if port else 0,
            advertise=(advertise[0], advertise[1] + node_id) if advertise else None,
            release=self._release,
            other_settings=partial(shown, self.settings),
            listen=self._listen_with,
        )
        groups = self.shares.at(node_id)
        broker.serve(GroupApis(self.cluster, groups).handlers())
        broker.serve(GroupOffsetApis(self.cluster, groups).handlers())
        broker.serve(TransactionalOffsetApis(self.cluster, groups, self.transactions).handlers())
        return broker

    async def _listen_everywhere(self) -> None:
        try:
            for broker in self.brokers:
                await broker.start()
        except OSError:
            for broker in self.brokers:
                await broker.close()
            raise

    @property
    def broker(self) -> Broker:
        """The first one."""
        return self.brokers[0]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each broker, also of one that is stopped."""
        return [broker.address for broker in self.brokers]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port on which the first broker listens."""
        return self.broker.address

    async def stop_broker(self, node_id: int) -> None:
        """As if this broker had been shut down: the next one leads its partitions, and loads its groups.

        A broker that is stopped already stays so. Raises StoreError if the store takes nothing.
        """
        async with self._moving:
            if node_id in self.cluster.nodes:
                reign = await self.store.next_reign()
                del self.cluster.nodes[node_id]
                moved = self._let_go(reign)
                await self.brokers[node_id].close()
                await self._take_over(moved)
                self._log.info("broker-stopped", broker=node_id)

    async def start_broker(self, node_id: int) -> None:
        """It listens where it did, leads its own partitions again, and loads its groups.

        A broker that runs already goes on. Raises StoreError, or OSError if the port is taken by now.
        """
        async with self._moving:
            if node_id not in self.cluster.nodes:
                reign = await self.store.next_reign()
                await self.brokers[node_id].start()
                await self._take_over(self._let_go(reign))
                self._log.info("broker-started", broker=node_id)

    def _let_go(self, reign: int) -> list[int]:
        """Whatever has another leader now is led in a new epoch, and coordinated by nobody for the moment."""
        moved = self.shares.let_go()
        for share in moved:
            self.cluster.lead_anew(share, reign - 1)
        return moved

    async def _take_over(self, moved: list[int]) -> None:
        await self.journal.durable(self.journal.last_position)
        await self.shares.take_over(moved)

    async def close(self) -> None:
        """Stop taking requests, make durable what was accepted, leave a snapshot, and close the store."""
        self._is_closing = True
        for task in (self._looking, self._mending):
            if task:
                task.cancel()
        self.transactions.stop()
        self.shares.stop()
        for broker in self.brokers:
            await broker.close()
        try:
            if self._is_whole:
                self.cluster.close()
                await self.take_snapshot()
            await self.journal.close()
        finally:
            await self.store.close()

    async def ensure_topic(self, name: str, partitions: int) -> None:
        """Make a topic if it is missing. Raises InvalidSetting if no topic may have this name."""
        if name in self.cluster.topics.by_name:
            return
        if fault := name_is_illegal(name, self.cluster.topics.by_name):
            raise InvalidSetting(fault)
        self.cluster.create_topic(name, partitions, cause=START)
        await self.journal.durable(self.journal.last_position)

    async def take_snapshot(self) -> None:
        """Make the next start quick: it reads this, and only what came after."""
        cut = self.journal.last_position
        topics = self.cluster.take_snapshot()
        snapshots = self.shares.take_snapshots() + ([topics] if topics else [])
        try:
            await self.journal.durable(cut)
            await self.store.save_snapshots(cut, snapshots)
            self.shares.snapshots_are_saved(snapshots)
            self._cut = cut
        except StoreError as error:
            self._log.warning("snapshot-failed", error=str(error))

    async def _look_for_snapshots(self) -> None:
        while True:
            await asyncio.sleep(SNAPSHOT_LOOK_S)
            if self._is_whole and self.journal.last_position - self._cut >= self._snapshot_records:
                await self.take_snapshot()

    def _mend(self, error: StoreError) -> None:
        """Once is enough: if the store fails again while it is being mended, the same task tries again.

        A store that fails while it is being closed stays closed.
        """
        self._is_whole = False
        if not self._is_closing and (self._mending is None or self._mending.done()):
            self._mending = asyncio.get_running_loop().create_task(self._reopen(), name="reopen the store")

    async def _reopen(self) -> None:
        with suppress(StoreError):
            await self.store.close()
        pause_s = REOPEN_PAUSE_S
        for tries in count(1):
            await asyncio.sleep(pause_s)
            try:
                self.store = await self._open_store()
                stored = await load(self.store, self._new_uuid)
                reign = await self.store.next_reign()
                self.journal.reopen(self.store)
                self.cluster.reload(stored, reign)
                await self.shares.start()
                self.transactions.start()
                if self.journal.failure:
                    raise self.journal.failure
            except StoreError as error:
                pause_s = min(2 * pause_s, LONGEST_REOPEN_PAUSE_S)
                if tries.bit_count() == 1:  # the 1st, 2nd, 4th, 8th …: the disk may stay full for days
                    self._log.warning("store-still-fails", tries=tries, error=str(error))
                self.journal.give_up(error)
                with suppress(StoreError):
                    await self.store.close()
            else:
                self._is_whole = True
                self._log.info("store-reopened", position=self.store.last_position)
                return
