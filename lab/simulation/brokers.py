"""The emulator as it lives in the laboratory: it can be killed, come back, and go on from what the disk has kept."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, Final
from uuid import UUID

from regroup.coordinator.group import Group
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.kafka_log import SlowLog
from regroup.coordinator.settings import Settings
from regroup.lab.simulation.disk import Disk
from regroup.lab.simulation.network import Factory, Listening, Network
from regroup.lab.simulation.virtual_clock import BEGIN_MS, HostClock
from regroup.members.consumer.effects import Address
from regroup.protocol.errors import ErrorCode
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.server.cluster.state import Cluster
from regroup.storage.errors import StoreError
from regroup.storage.records import Record

PORT: Final = 9092
"""Of broker 0; the others follow."""
ADDRESS: Final = "brokers"
RESTART_PAUSE_S: Final = 1.0
"""After a start that failed, since the disk was full for example, somebody tries again."""
SNAPSHOT_RECORDS: Final = 20
"""Few, so that who loads after a crash begins with snapshots, as it would after months of real life."""
MakeCoordinator = Callable[..., GroupCoordinator]


def host_of(broker: int) -> str:
    """The name of a broker's host."""
    return f"broker {broker}"


class Brokers:
    """One process with all brokers in it, each on a host of its own, over one disk."""

    def __init__(
        self,
        network: Network,
        disk: Disk,
        chance: Random,
        *,
        count: int,
        settings: Settings,
        make_coordinator: MakeCoordinator,
    ) -> None:
        self.count = count
        self.clock = HostClock(asyncio.get_running_loop())
        self.wall_ahead_ms = 0
        self._network, self._disk, self._chance = network, disk, chance
        self._settings, self._make_coordinator = settings, make_coordinator
        self._logs: list[SlowLog] = []
        self._log_latency_ms: int | None = None
        self._log_outcome = ErrorCode.NONE
        self._moving = asyncio.Lock()
        self.emulator: Emulator | None = None
        """None while the process is dead."""

    @property
    def addresses(self) -> list[Address]:
        """What clients are told to begin with."""
        return [Address(-1, ADDRESS, PORT + broker) for broker in range(self.count)]

    def now_ms(self) -> int:
        """What the hosts' wall clocks show, before a process has corrected it by what it finds on disk."""
        return BEGIN_MS + int(self.clock() * 1000) + self.wall_ahead_ms

    # Life and death of the process

    async def begin(self) -> None:
        """Open the disk and load. StoreError if the disk refuses."""
        emulator = self._make_emulator()
        await emulator.start()
        self.emulator = emulator

    async def start(self) -> None:
        """The same, as often as it takes."""
        async with self._moving:
            while self.emulator is None:
                try:
                    await self.begin()
                except StoreError:
                    await asyncio.sleep(RESTART_PAUSE_S)

    def _make_emulator(self) -> Emulator:
        self._logs.clear()
        return Emulator(
            self._disk.open,
            clock=Clock(started_at_ms=self.now_ms(), monotonic_s=self.clock),
            new_uuid=lambda: UUID(int=self._chance.getrandbits(128), version=4),
            settings=self._settings,
            host=ADDRESS,
            port=PORT,
            brokers=self.count,
            listen=self._listen,
            make_coordinator=self._make_coordinator_with_its_log,
            snapshot_records=SNAPSHOT_RECORDS,
        )

    async def _listen(self, factory: Factory, address: str, port: int) -> Listening:
        return await self._network.listen(host_of(port - PORT), factory, address, port)

    def _make_coordinator_with_its_log(self, *arguments: object, **options: object) -> GroupCoordinator:
        log = SlowLog(latency_ms=self._log_latency_ms, outcome=self._log_outcome)
        log.is_slow = self._log_latency_ms is not None
        self._logs.append(log)
        return self._make_coordinator(*arguments, **options, kafka_log=log)

    async def crash(self, *, silently: bool) -> None:
        """The process dies: what it knew is gone, what it was writing may have reached the disk or not.

        Silently, its clients do not learn of it, as when the power fails.
        """
        async with self._moving:
            emulator, self.emulator = self.emulator, None
            if emulator is None:
                return
            for broker in range(self.count):
                self._network.kill(host_of(broker), silently=silently)
            self._disk.let_go()
            # Taking it down in order only frees its timers and tasks: no word of it reaches the network or the disk.
            await emulator.close()

    async def close(self) -> None:
        """Take it down in good order."""
        async with self._moving:
            if self.emulator is not None:
                await self.emulator.close()

    async def heal(self) -> None:
        """The process runs, with all its brokers, and Kafka's log commits at once."""
        self.slow_log(None)
        await self.start()
        for broker in range(self.count):
            await self.start_broker(broker)

    async def stop_broker(self, broker: int) -> None:
        """Its groups go to the next broker that runs. The last one cannot be stopped."""
        if self.emulator is not None and len(self.emulator.cluster.nodes) > 1:
            await _unless_disk_fails(partial(self.emulator.stop_broker, broker))

    async def start_broker(self, broker: int) -> None:
        if self.emulator is not None:
            await _unless_disk_fails(partial(self.emulator.start_broker, broker))

    # What else can happen to it

    def jump(self, by_ms: int) -> None:
        """Clocks that are put forward are believed at once; those that are put back, only by the next process."""
        if by_ms > 0:
            self.clock.jump(by_ms)
        else:
            self.wall_ahead_ms += by_ms

    def slow_log(self, latency_ms: int | None, outcome: ErrorCode = ErrorCode.NONE) -> None:
        """Kafka's own log takes so long from now on, and ends so; None lets it commit at once again."""
        self._log_latency_ms, self._log_outcome = latency_ms, outcome
        for log in self._logs:
            log.is_slow, log.outcome = latency_ms is not None, outcome
            if latency_ms is None:
                log.settle_all()
            else:
                log.latency_ms = latency_ms

    # Looking in

    @property
    def cluster(self) -> Cluster | None:
        """Topics and partitions; None while the process is dead."""
        return self.emulator.cluster if self.emulator is not None else None

    def group(self, name: str) -> Group | None:
        """A group as its coordinator has it now; None while nobody coordinates it."""
        if self.emulator is None:
            return None
        shares = self.emulator.shares
        coordinator = shares.coordinators[shares.share_of(name)]
        return coordinator.group(name) if coordinator.is_ready else None

    async def records(self) -> tuple[Record, ...] | None:
        """All that is on disk; None while the process is dead."""
        return None if self.emulator is None else tuple([record async for record in self.emulator.store.read()])

    async def settled(self) -> None:
        """Everything that was accepted is on disk."""
        if self.emulator is not None and self.emulator.journal.failure is None:
            await self.emulator.journal.durable(self.emulator.journal.last_position)


async def _unless_disk_fails(act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await act()
    except StoreError:
        return
