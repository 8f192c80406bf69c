"""A plan comes to life: brokers, members, network and disk on one virtual clock, until all is told and well again.

    outcome = play(plan)
    outcome.failed, outcome.verdict.broken, outcome.counts

Everything that decides what happens is in the plan, its seed included: the same plan gives the same history.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import Settings
from regroup.lab.checker.judge import Broken, Judge, Verdict
from regroup.lab.plan.plan import Happening, Plan
from regroup.lab.simulation.actions import do
from regroup.lab.simulation.brokers import Brokers
from regroup.lab.simulation.disk import Disk, OpenStore
from regroup.lab.simulation.expectation_checks import LOOK_S, is_expectation
from regroup.lab.simulation.members import Company
from regroup.lab.simulation.milestones import Herald
from regroup.lab.simulation.network import Network
from regroup.lab.simulation.packet_tap import Wiretap, reads_along
from regroup.lab.simulation.quiet import FORESEEN, quiet
from regroup.lab.simulation.recovery import ALL_IS_WELL, heal, why_not_well
from regroup.lab.simulation.virtual_clock import TimeStandsStill, VirtualLoop, run_virtually
from regroup.members.consumer.effects import Change, ConsumerError
from regroup.server.net.connection import Connection
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord, Record
from regroup.storage.store import EventStore

TIME_PASSES: Final = "Time passes: nobody is busy for ever in one and the same moment."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has come to. `verdict.broken` is in order of time; expectations that did not hold are among them.

    `records` are the stored rows; there are none if the brokers are dead at the end.
    """

    plan: Plan
    verdict: Verdict
    records: tuple[Record, ...]
    ended_ms: int
    healed: bool

    @property
    def failed(self) -> bool:
        return bool(self.verdict.broken)

    @property
    def first_sentence(self) -> str:
        """Of what broke first; empty if nothing did."""
        return self.verdict.broken[0].sentence if self.verdict.broken else ""


def play(plan: Plan, *, judge: bool = True, open_store: OpenStore | None = None) -> Outcome:
    """Run a plan to its end, in this thread and without waiting.

    Without `judge` nobody looks at invariants; expectations and healing are still checked. Raises InvalidSetting or
    ValueError if the plan asks for what cannot be, StoreError if the store cannot be opened in the beginning.
    """
    loop = VirtualLoop()
    worlds: list[World] = []
    outcomes: list[Outcome] = []

    async def main() -> None:
        world = World(plan, judge=judge, open_store=open_store)
        worlds.append(world)
        with quiet(loop, partial(world.breaks, FORESEEN)):
            outcomes.append(await world.run())

    try:
        run_virtually(main(), loop)
    except TimeStandsStill as error:
        return worlds[0].stood_still(str(error))
    return outcomes[0]


async def _opened(store: EventStore) -> EventStore:
    """What lies in memory outlives the processes that have it open."""
    return store


def _told_by_ms(plan: Plan) -> int:
    """When faults end: not before everything has happened that happens at a time."""
    times = [happening.when.delay_ms for happening in plan.happenings if not happening.when.after]
    return max([plan.heal_ms, *times])


class World:
    """Must be made inside a running virtual loop."""

    def __init__(self, plan: Plan, *, judge: bool, open_store: OpenStore | None) -> None:
        self.plan = plan
        self.loop = asyncio.get_running_loop()
        settings = Settings.from_texts({name: str(value) for name, value in plan.settings.items()})
        self.judge = Judge(settings, lambda: self.now_ms) if judge else None
        open_store = open_store or partial(_opened, MemoryStore())
        self.disk = Disk(open_store, self.chance("disk"), latency_ms=plan.disk_latency_ms, stored=self._stored)
        self.wiretap = Wiretap(self.point)
        self.network = self._make_network()
        self.brokers = self._make_brokers(settings)
        self.company = Company(
            plan, self.network, self.brokers, self.chance("members"), self._observe, self._gone, self.judge
        )
        self.herald = Herald(self)
        self.broken: list[Broken] = []
        self.is_healing = False
        """Faults are over: what is still to come of the plan does not happen, but what is expected still counts."""
        self.is_over = False
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._waiting: dict[str, list[Happening]] = {}

    def _make_network(self) -> Network:
        network = Network(self.loop, self.chance("network"), self.plan.network)
        network.wiretap = self.wiretap if reads_along(self.plan) else None
        network.connection_lost = self._connection_lost
        return network

    def _make_brokers(self, settings: Settings) -> Brokers:
        make = self.judge.make_coordinator if self.judge else GroupCoordinator
        chance, count = self.chance("ids"), self.plan.brokers
        return Brokers(self.network, self.disk, chance, count=count, settings=settings, make_coordinator=make)

    def chance(self, what: str) -> Random:
        """A stream of chance of its own for each room, so that one more draw here changes nothing there."""
        return Random(f"{self.plan.seed}/{what}")

    @property
    def now_ms(self) -> int:
        """Since the run began."""
        return round(self.loop.time() * 1000)

    # The run

    async def run(self) -> Outcome:
        await self.brokers.begin()
        await self._make_topics()
        self.company.produce()
        for happening in self.plan.happenings:
            self._schedule(happening)
        await asyncio.sleep(_told_by_ms(self.plan) / 1000)
        self.is_healing = True
        await heal(self)
        self.point("faults are over")
        healed = await self._becomes_well()
        return await self._end(healed)

    async def _make_topics(self) -> None:
        assert self.brokers.emulator is not None
        for topic, partitions in self.plan.topics.items():
            await self.brokers.emulator.ensure_topic(topic, partitions)

    async def _becomes_well(self) -> bool:
        """Wait until every group with living members is Stable and owns everything, and every expectation is over."""
        deadline_s = self.loop.time() + self.plan.bound_ms / 1000
        while (missing := why_not_well(self)) or self._tasks:
            if missing and self.loop.time() >= deadline_s:
                self.breaks(ALL_IS_WELL, missing)
                return False
            await asyncio.sleep(LOOK_S)
        return True

    async def _end(self, healed: bool) -> Outcome:
        for happening in (each for waiting in self._waiting.values() for each in waiting):
            if is_expectation(happening.step):
                self.breaks(f"{happening.step}.", f"it never came so far that {happening.when.after}")
        self.is_over = True
        await self.brokers.settled()
        records = await self.brokers.records()
        verdict = self.judge.finish(records) if self.judge else Verdict()
        ended_ms = self.now_ms
        for task in self._tasks:
            task.cancel()
        await self.company.close()
        await self.brokers.close()
        broken = sorted([*verdict.broken, *self.broken], key=lambda broken: broken.at_ms)
        return Outcome(self.plan, verdict.with_broken(broken), records or (), ended_ms, healed)

    def stood_still(self, where: str) -> Outcome:
        """What has come of a run that nobody can end."""
        self.breaks(TIME_PASSES, where)
        return Outcome(self.plan, Verdict().with_broken(self.broken), (), self.now_ms, False)

    # Happenings

    def _schedule(self, happening: Happening) -> None:
        if happening.when.after:
            self._waiting.setdefault(happening.when.after, []).append(happening)
        else:
            self.loop.call_at(happening.when.delay_ms / 1000, self._happens, happening)

    def point(self, sentence: str) -> None:
        """Something is true now that happenings may wait for; each waits for the first time only."""
        for happening in self._waiting.pop(sentence, ()):
            if happening.when.delay_ms:
                self.loop.call_later(happening.when.delay_ms / 1000, self._happens, happening)
            else:
                self._happens(happening)

    def _happens(self, happening: Happening) -> None:
        if not self.is_over and (not self.is_healing or is_expectation(happening.step)):
            do(happening.step, self)

    def spawn(self, act: Coroutine[Any, Any, None]) -> None:
        """What takes its time goes on beside everything else; the run does not end before it has."""
        task = self.loop.create_task(act)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def later(self, milliseconds: float, act: Callable[[], None]) -> None:
        """Once, unless the run is over by then."""
        self.loop.call_later(milliseconds / 1000, lambda: None if self.is_over else act())

    async def crash_brokers(self, *, silently: bool) -> None:
        """The brokers' process dies, and whoever watched its coordinators hears of it."""
        emulator = self.brokers.emulator
        if self.judge and emulator is not None:
            for coordinator in emulator.shares.coordinators:
                self.judge.crashed(coordinator)
        await self.brokers.crash(silently=silently)

    def breaks(self, sentence: str, detail: str) -> None:
        """Something does not hold that should."""
        self.broken.append(Broken(sentence, self.now_ms, None, detail))

    # What is heard of

    def _observe(self, name: str, happening: Change | ConsumerError) -> None:
        if self.judge and not isinstance(happening, ConsumerError):
            self.judge.changed(name, happening, self.now_ms)
        self.herald.observed(name, happening)

    def _gone(self, name: str) -> None:
        self.point(f"{name} is gone")

    def _connection_lost(self, protocol: asyncio.Protocol) -> None:
        if self.judge and isinstance(protocol, Connection):
            self.judge.connection_lost(protocol.name)

    def _stored(self, records: Sequence[NewRecord], position: int) -> None:
        if self.judge:
            self.judge.stored(records, position)
        self.herald.stored(records)
