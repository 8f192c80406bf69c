"""A whole emulator: store, journal, topics, coordinator and broker, brought up in order and taken down in order.

emulator = Emulator(partial(open_store, "groups.db"), now_ms=clock, new_uuid=uuid4)
await emulator.start()
host, port = emulator.address
await emulator.close()
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeAlias
from uuid import UUID

import structlog

from regroup.coordinator.coordinator import GroupCoordinator
from regroup.coordinator.settings import InvalidSetting, Settings
from regroup.server.apis.group_offsets import GroupOffsetApis
from regroup.server.apis.groups import GroupApis
from regroup.server.broker import Broker
from regroup.server.clock import Clock
from regroup.server.cluster import Cluster, load
from regroup.server.settings import BrokerSettings, ShownSetting
from regroup.server.topics import name_is_illegal
from regroup.storage.errors import StoreError
from regroup.storage.journal import Journal
from regroup.storage.store import EventStore

OpenStore: TypeAlias = Callable[[], Awaitable[EventStore]]

SNAPSHOT_RECORDS = 50_000
"""So many records after the last snapshot the next one is due."""
SNAPSHOT_LOOK_S = 5.0
"""How often that is looked at."""
REOPEN_PAUSE_S = 0.5
"""Between two tries to open a store that has failed."""
INT_KIND = 3
"""Kafka's number for a whole number, in DescribeConfigs."""


class Emulator:
    """One broker on one port. `advertise` is the address that clients are told, for containers and tunnels.

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
    ) -> None:
        self._open_store = open_store
        self._clock, self._new_uuid = clock, new_uuid
        self.settings = settings or Settings()
        self.broker_settings = broker_settings or BrokerSettings()
        self._listen = (host, port, advertise)
        self._log = structlog.get_logger("emulator")
        self._mending: asyncio.Task[None] | None = None
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
        )
        self.coordinator = GroupCoordinator(self.journal, settings=self.settings, now=self._clock)
        self.journal.on_failure(self._mend)
        await self.coordinator.start()
        host, port, advertise = self._listen
        self.broker = Broker(
            self.cluster, host=host, port=port, advertise=advertise, other_settings=self._coordinator_settings
        )
        self.broker.serve(GroupApis(self.cluster, self.coordinator).handlers())
        self.broker.serve(GroupOffsetApis(self.cluster, self.coordinator).handlers())
        await self.broker.start()
        self._cut = 0
        self._looking = asyncio.create_task(self._look_for_snapshots(), name="snapshots")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port on which the broker listens."""
        return self.broker.address

    async def close(self) -> None:
        """Stop taking requests, make durable what was accepted, leave a snapshot, and close the store."""
        for task in (self._looking, self._mending):
            if task:
                task.cancel()
        self.coordinator.stop()
        await self.broker.close()
        if self.journal.failure is None:
            self.cluster.close()
            await self.take_snapshot()
        await self.journal.close()
        await self.store.close()

    async def ensure_topic(self, name: str, partitions: int) -> None:
        """Make a topic if it is missing. Raises InvalidSetting if no topic may have this name."""
        if name in self.cluster.topics.by_name:
            return
        if fault := name_is_illegal(name, self.cluster.topics.by_name):
            raise InvalidSetting(fault)
        self.cluster.create_topic(name, partitions)
        await self.journal.durable(self.journal.last_position)

    async def take_snapshot(self) -> None:
        """Make the next start quick: it reads this, and only what came after."""
        cut = self.journal.last_position
        topics = self.cluster.take_snapshot()
        snapshots = self.coordinator.take_snapshots() + ([topics] if topics else [])
        try:
            await self.journal.durable(cut)
            await self.store.save_snapshots(cut, snapshots)
            self._cut = cut
        except StoreError as error:
            self._log.warning("snapshot-failed", error=str(error))

    async def _look_for_snapshots(self) -> None:
        while True:
            await asyncio.sleep(SNAPSHOT_LOOK_S)
            if self.journal.failure is None and self.journal.last_position - self._cut >= SNAPSHOT_RECORDS:
                await self.take_snapshot()

    def _coordinator_settings(self) -> Iterator[ShownSetting]:
        defaults = Settings().by_name()
        for name, value in self.settings.by_name().items():
            yield ShownSetting(name, str(value), str(defaults[name]), INT_KIND)

    def _mend(self, error: StoreError) -> None:
        """Once is enough: if the store fails again while it is being mended, the same task tries again."""
        if self._mending is None or self._mending.done():
            self._mending = asyncio.get_running_loop().create_task(self._reopen(), name="reopen the store")

    async def _reopen(self) -> None:
        await self.store.close()
        while True:
            await asyncio.sleep(REOPEN_PAUSE_S)
            try:
                self.store = await self._open_store()
                stored = await load(self.store, self._new_uuid)
                reign = await self.store.next_reign()
                self.journal.reopen(self.store)
                self.cluster.reload(stored, reign)
                await self.coordinator.start()
            except StoreError as error:
                self._log.warning("store-still-fails", error=str(error))
                await self.store.close()
            else:
                self._log.info("store-reopened", position=self.store.last_position)
                return
