"""The process of an emulator: its brokers with store, clock, ports and log, which can be started, killed, and started
again.
"""

import asyncio
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from functools import partial
from typing import Self

from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.logger import log_sink
from regroup.coordinator.runtime.timers import TICK_MS
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment
from regroup.server.clock import Clock
from regroup.server.faults.cluster_facts import ClusterFacts
from regroup.server.faults.gate import FaultRules
from regroup.server.recording.event_links import EventLinks
from regroup.server.recording.exchange import RecordedExchange
from regroup.server.recording.recorder import Recorder
from regroup.server.recording.selection import ExchangeFilter, select_exchanges
from regroup.storage.memory import MemoryStore
from regroup.storage.store import EventStore
from regroup.testing.clock.manual_clock import ManualClock, ManualClockLoop
from regroup.testing.errors import ActRefused, EmulatorDown
from regroup.testing.groups.changes import Changes
from regroup.testing.interference import BrokerGate, Interference
from regroup.testing.options import ProcessOptions


class EmulatorProcess:
    """The brokers of an emulator, which can be killed and started again.

    A kill ends the brokers; their addresses, fault rules, recorded exchanges and clock remain.
    """

    def __init__(self, options: ProcessOptions) -> None:
        self.options = options
        self.changes = Changes()
        self.started_at_ms = 0
        facts = ClusterFacts(lambda: self._cluster)
        self.recorder = Recorder(self.now_ms) if options.record else None
        self._links = EventLinks()
        self.interference = Interference(FaultRules(facts))
        self.interference.faults.on_change = self._forget_cached_responses
        self.interference.faults.recorder = self.recorder
        self.interference.faults.on_hit = self._on_change
        self.ports: tuple[int, ...] = ()
        """The ports of the brokers; empty before the start."""
        self._memory = MemoryStore()
        self._cluster: BrokerCluster | None = None
        self._clock: Clock | None = None
        self._log = ExitStack()
        self._services = AsyncExitStack()

    async def start(self) -> Self:
        """Start the brokers: listen, create the topics, and start the services. Raises StoreError, or OSError if a port
        is in use."""
        if self.options.log is not None:
            self._log.enter_context(log_sink(self.options.log))
        try:
            await self._start_brokers()
            for name, partitions in self.options.topics:
                await self.cluster.ensure_topic(name, partitions)
            await self._start_services()
        except BaseException:
            await self.close()
            raise
        self.started_at_ms = self.now_ms()
        return self

    async def close(self) -> None:
        """Close the brokers and the store."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, ManualClockLoop):
            loop.release()
        with self._log:
            try:
                await self._services.aclose()
            finally:
                cluster, self._cluster = self._cluster, None
                if cluster is not None:
                    await cluster.close()

    async def kill(self) -> None:
        """End the brokers as a killed process ends: what is not durable is lost. Only the services are stopped in
        order."""
        cluster, self._cluster = self.cluster, None
        try:
            await self._services.aclose()
        finally:
            await cluster.kill()
        self.changes.notify()

    async def restart(self) -> None:
        """Start the brokers again at the same addresses, from the events in the store. Raises StoreError or OSError as
        `start` does."""
        if self._cluster is not None:
            raise ActRefused("the emulator runs: kill() it first")
        await self._start_brokers()
        try:
            await self._start_services()
        except BaseException:
            await self.kill()  # the restart can be tried again
            raise

    async def _start_brokers(self) -> None:
        options = self.options
        self._cluster = await BrokerCluster.start(
            options.open_store or self._memory.open,
            replace(options.cluster, ports=self.ports) if self.ports else options.cluster,
            self._environment(),
            reopen_store=options.reopen_store,
        )
        self.ports = tuple(port for _, port in self._cluster.addresses)
        self._cluster.observers.append(self._on_change)
        self._cluster.state.event_listeners.append(lambda event: self.changes.notify())
        self.changes.notify()

    async def _start_services(self) -> None:
        for service in self.options.services:
            await self._services.enter_async_context(service(self.cluster))

    def _environment(self) -> ClusterEnvironment:
        if self._clock is None:
            self._clock = ManualClock(self.manual_loop()) if self.options.clock == "manual" else Clock()
        tick_ms = 0 if self.options.clock == "manual" else TICK_MS
        return ClusterEnvironment(
            clock=self._clock,
            coordinator_factory=partial(GroupCoordinator, observer=self.changes, timer_tick_ms=tick_ms),
            gate_factory=lambda node_id: BrokerGate(node_id, self.interference),
            recorder=self.recorder,
        )

    @property
    def is_running(self) -> bool:
        """Whether the brokers run: False before the start, and from a kill to the restart."""
        return self._cluster is not None

    @property
    def cluster(self) -> BrokerCluster:
        """The brokers. Raises EmulatorDown while there are none."""
        if self._cluster is None:
            raise EmulatorDown("the emulator is not running: use `with Emulator(...)`, or restart() it after a kill()")
        return self._cluster

    @property
    def wait_timeout_s(self) -> float:
        return self.options.wait_timeout_s

    @property
    def history(self) -> EventStore:
        """The store with the history. A store in memory can be read also while no broker runs."""
        return self._memory if self.options.open_store is None else self.cluster.store

    def now_ms(self) -> int:
        """The time of the brokers in epoch milliseconds."""
        if self._clock is None:
            raise EmulatorDown("the emulator has no time before it is started")
        return self._clock()

    def manual_loop(self) -> ManualClockLoop:
        """The running loop, whose clock can be turned. Raises ActRefused if its clock cannot be turned by hand."""
        loop = asyncio.get_running_loop()
        if self.options.clock != "manual":
            raise ActRefused('this emulator runs in real time; Emulator(clock="manual") has a clock to advance')
        if not isinstance(loop, ManualClockLoop):
            raise ActRefused(
                "a manual clock stops every timer of the loop, so it needs a loop of its own: "
                'use `with Emulator(clock="manual")`, or run this in a ManualClockLoop'
            )
        return loop

    async def recorded_exchanges(self, wanted: ExchangeFilter) -> list[RecordedExchange] | None:
        """The recorded exchanges that pass the filter, with the events to which they led; None if exchanges are not
        recorded."""
        if self.recorder is None:
            return None
        rows = self.recorder.rows()
        exchanges = list(select_exchanges(rows, wanted))
        if self.options.open_store is None or self._cluster is not None:
            await self._links.read(self.history, from_ms=rows[0].at_ms if rows else self.now_ms())
        return self._links.link(exchanges)

    def _on_change(self, *what: object) -> None:
        self.changes.notify()

    def _forget_cached_responses(self) -> None:
        if self._cluster is not None:
            self._cluster.forget_cached_responses()
