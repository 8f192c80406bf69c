"""The real broker cluster on simulated parts: it can crash, and starts again from what the disk has kept."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Final, TypeAlias
from uuid import UUID

from regroup.coordinator.group import Group
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.kafka_log import DelayedLog
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.simulation.disk import SimulatedDisk
from regroup.lab.simulation.network.simulated_network import ProtocolFactory, SimulatedListener, SimulatedNetwork
from regroup.lab.simulation.virtual_clock import START_MS, HostClock
from regroup.members.consumer.effects import NodeAddress
from regroup.protocol.errors import ErrorCode
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions
from regroup.server.clock import Clock
from regroup.server.cluster.state import ClusterState
from regroup.server.net.request_observer import RequestObserver
from regroup.server.recording.recorder import Recorder
from regroup.server.releases import newest_release, release_named
from regroup.storage.errors import StoreError
from regroup.storage.records import Record

BASE_PORT: Final = 9092
"""Port of broker 0. Broker n listens on port 9092 + n."""
BROKER_ADDRESS: Final = "brokers"
RESTART_INTERVAL_S: Final = 1.0
"""Seconds between two attempts to start the process while the disk refuses to open."""
RECORDS_PER_SNAPSHOT: Final = 20
"""Records between two snapshots.

It is small, so that loads after a crash begin with a snapshot, as they do after months of operation.
"""
CoordinatorFactory: TypeAlias = Callable[..., GroupCoordinator]


def broker_host(broker: int) -> str:
    """The name of a broker's host."""
    return f"broker {broker}"


class SimulatedBrokers:
    """One process that runs all brokers, each on a host of its own, over one disk."""

    def __init__(
        self,
        network: SimulatedNetwork,
        disk: SimulatedDisk,
        rng: Random,
        *,
        count: int,
        settings: CoordinatorSettings,
        coordinator_factory: CoordinatorFactory,
        observers: Sequence[RequestObserver] = (),
        recorder: Recorder | None = None,
        release: str = "",
    ) -> None:
        self.count = count
        self._release = release_named(release) if release else newest_release()
        self.clock = HostClock(asyncio.get_running_loop())
        self.wall_clock_offset_ms = 0
        self._network, self._disk, self._rng = network, disk, rng
        self._settings, self._coordinator_factory = settings, coordinator_factory
        self._observers = observers
        self._recorder = recorder
        self._process_clock: Clock | None = None
        self._logs: list[DelayedLog] = []
        self._log_latency_ms: int | None = None
        self._log_outcome = ErrorCode.NONE
        self._lock = asyncio.Lock()
        """Locked while the process starts, crashes or stops."""
        self.broker_cluster: BrokerCluster | None = None
        """The brokers of the running process; None while the process is down."""

    @property
    def addresses(self) -> list[NodeAddress]:
        """The bootstrap addresses of clients."""
        return [NodeAddress(-1, BROKER_ADDRESS, BASE_PORT + broker) for broker in range(self.count)]

    def now_ms(self) -> int:
        """The wall clock of the brokers' hosts in epoch milliseconds.

        A process that starts begins no earlier than its stored records: `process_now_ms` is the clock corrected by
        this.
        """
        return START_MS + int(self.clock() * 1000) + self.wall_clock_offset_ms

    def process_now_ms(self) -> int:
        """The clock of the last process of the brokers, by which events get their times; it runs on while no process
        runs."""
        return self.now_ms() if self._process_clock is None else self._process_clock()

    # Starting and stopping the process

    async def start(self) -> None:
        """Start the process: open the store on the disk and load the groups. Raises StoreError if the disk refuses."""
        self._logs.clear()
        options = ClusterOptions(
            settings=self._settings,
            host=BROKER_ADDRESS,
            port=BASE_PORT,
            brokers=self.count,
            snapshot_interval_records=RECORDS_PER_SNAPSHOT,
            release=self._release,
        )
        clock = self._process_clock = Clock(started_at_ms=self.now_ms(), monotonic_s=self.clock)
        environment = ClusterEnvironment(
            clock=clock,
            new_uuid=lambda: UUID(int=self._rng.getrandbits(128), version=4),
            listen=self._listen,
            coordinator_factory=self._make_coordinator,
            recorder=self._recorder,
        )
        self.broker_cluster = await BrokerCluster.start(self._disk.open, options, environment)
        # Notices of refused requests are for MQTT and the log, and a simulation has neither.
        self.broker_cluster.observers[:] = self._observers

    async def start_with_retries(self) -> None:
        """Start the process, unless it runs already; try again until the disk allows it."""
        async with self._lock:
            while self.broker_cluster is None:
                try:
                    await self.start()
                except StoreError:
                    await asyncio.sleep(RESTART_INTERVAL_S)

    async def _listen(self, factory: ProtocolFactory, address: str, port: int) -> SimulatedListener:
        return await self._network.listen(broker_host(port - BASE_PORT), factory, address, port)

    def _make_coordinator(self, *arguments: object, **options: object) -> GroupCoordinator:
        """Make the coordinator of a broker, with a simulated Kafka log whose delay and errors the run can set."""
        log = DelayedLog(latency_ms=self._log_latency_ms, outcome=self._log_outcome)
        log.is_delaying = self._log_latency_ms is not None
        self._logs.append(log)
        return self._coordinator_factory(*arguments, **options, kafka_log=log)

    async def crash(self, *, silently: bool) -> None:
        """Kill the process: its memory is lost, and the commit in progress is on the disk or not.

        With `silently` connections are not closed, so clients do not notice it, as when the power fails.
        """
        async with self._lock:
            broker_cluster, self.broker_cluster = self.broker_cluster, None
            if broker_cluster is None:
                return
            for broker in range(self.count):
                self._network.stop_host(broker_host(broker), silently=silently)
            self._disk.detach()
            # Closing only releases timers and tasks now: nothing of it reaches the network or the disk.
            await broker_cluster.close()

    async def close(self) -> None:
        """Stop the process in order: what is queued is written first."""
        async with self._lock:
            if self.broker_cluster is not None:
                await self.broker_cluster.close()

    async def recover(self) -> None:
        """End all faults: the process and all its brokers run, and Kafka's log commits at once."""
        self.set_log_delay(None)
        await self.start_with_retries()
        for broker in range(self.count):
            await self.start_broker(broker)

    async def stop_broker(self, broker: int) -> None:
        """Stop one broker; the next running one takes over its groups. The last running broker does not stop."""
        if self.broker_cluster is not None and len(self.broker_cluster.state.nodes) > 1:
            with suppress(StoreError):  # recovery starts from what is stored
                await self.broker_cluster.stop_broker(broker)

    async def start_broker(self, broker: int) -> None:
        """Start one broker again, if the process runs."""
        if self.broker_cluster is not None:
            with suppress(StoreError):
                await self.broker_cluster.start_broker(broker)

    # Other faults

    def jump_clock(self, offset_ms: int) -> None:
        """Make the brokers' wall clock jump.

        A running process follows a jump only forwards; the next process may also start with an earlier time.
        """
        if offset_ms > 0:
            self.clock.jump(offset_ms)
        else:
            self.wall_clock_offset_ms += offset_ms

    def set_log_delay(self, latency_ms: int | None, outcome: ErrorCode = ErrorCode.NONE) -> None:
        """Set how long Kafka's own log takes for each record, and the error code with which it ends.

        With None it commits at once.
        """
        self._log_latency_ms, self._log_outcome = latency_ms, outcome
        for log in self._logs:
            log.is_delaying, log.outcome = latency_ms is not None, outcome
            if latency_ms is None:
                log.complete_all()
            else:
                log.latency_ms = latency_ms

    # State

    @property
    def cluster_state(self) -> ClusterState | None:
        """Topics and partitions; None while the process is down."""
        return self.broker_cluster.state if self.broker_cluster is not None else None

    @property
    def coordinators(self) -> list[GroupCoordinator]:
        """The coordinators of the running process."""
        return self.broker_cluster.router.coordinators if self.broker_cluster is not None else []

    def group(self, group_id: str) -> Group | None:
        """A group as its coordinator has it now; None while it has no coordinator."""
        if self.broker_cluster is None:
            return None
        coordinator = self.broker_cluster.coordinator_of(group_id)
        return coordinator.group(group_id) if coordinator.is_ready else None

    async def records(self) -> tuple[Record, ...] | None:
        """All stored records; None while the process is down."""
        if self.broker_cluster is None:
            return None
        if self.broker_cluster.journal.failure is not None:  # its store is closed, and opened again a moment later
            return await self._disk.read_records()
        return tuple([record async for record in self.broker_cluster.store.read()])

    async def wait_until_durable(self) -> None:
        """Wait until everything that coordinators have queued is stored."""
        if self.broker_cluster is not None and self.broker_cluster.journal.failure is None:
            journal = self.broker_cluster.journal
            await journal.wait_until_durable(journal.last_position)
