"""Plays a plan: schedules its steps, lets the groups recover, and returns the verdict.

    outcome = play(plan)
    outcome.failed, outcome.verdict.violations, outcome.verdict.counts

Everything that decides what happens is in the plan, its seed included: the same plan gives the same history.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from regroup.coordinator.runtime.logger import log_sink
from regroup.lab.checker.verdict import RunVerdict, RunViolation
from regroup.lab.plan.plan import PlannedStep, SimulationPlan
from regroup.lab.simulation.actions import perform
from regroup.lab.simulation.disk import StoreOpener
from regroup.lab.simulation.expectation_checks import CHECK_INTERVAL_S, check_expectation, is_expectation
from regroup.lab.simulation.milestones import Milestones
from regroup.lab.simulation.overlooked_partitions import OverlookedPartitions
from regroup.lab.simulation.recovery import (
    NO_PROGRESS,
    READS_INVARIANT,
    RECOVERY_INVARIANT,
    ReadingProgress,
    end_faults,
    reading_obstacle,
    recovery_obstacle,
)
from regroup.lab.simulation.timeline import ExpectationResult, Timeline
from regroup.lab.simulation.virtual_clock import LoopLivelock, TooManyCallbacks, VirtualLoop, run_in_virtual_time
from regroup.lab.simulation.world import World
from regroup.server.net.refused_requests import UNENCODABLE_RESPONSE
from regroup.storage.records import NewRecord, Record

__all__ = ["RunOutcome", "play"]

TIME_ADVANCES: Final = "Virtual time advances: nothing is due again and again at the same instant."
NO_REBALANCE_STORM: Final = "No run is a rebalance storm: its work has an end."
NO_UNEXPECTED_EXCEPTION: Final = "No request, timer or task ends in an unexpected exception."


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The result of one simulated run: its verdict, what its store holds, and how it ended."""

    plan: SimulationPlan
    verdict: RunVerdict
    """Violations in the order of time, expectations that did not hold among them."""
    records: tuple[Record, ...]
    """The stored records; none if the brokers are down at the end of a run that was not aborted."""
    ended_ms: int
    """Length of the run in virtual time."""
    recovered: bool
    """Whether every group recovered in time."""
    expectations: tuple[ExpectationResult, ...] = ()
    """The expectations of the plan and whether they held, in the order in which they were decided."""
    steps_not_reached: tuple[PlannedStep, ...] = ()
    """Steps that did not happen: their milestone was never reached, or only when the faults were over."""

    @property
    def failed(self) -> bool:
        """Whether the run has a violation."""
        return bool(self.verdict.violations)

    @property
    def first_sentence(self) -> str:
        """The sentence of the first violation; empty if there is none."""
        return self.verdict.violations[0].sentence if self.verdict.violations else ""


def play(
    plan: SimulationPlan,
    *,
    check_invariants: bool = True,
    open_store: StoreOpener | None = None,
    timeline: Timeline | None = None,
    record: bool = False,
    max_callbacks: int | None = None,
    reports_storms: bool = False,
) -> RunOutcome:
    """Run a plan to its end, in this thread and in virtual time.

    Without `check_invariants` only expectations and recovery are checked. `open_store` opens the store to write to;
    without it the store is in memory. `timeline` gets what happens. With `record` the store also gets the exchanges,
    what the network did to them, and what members believed they owned; the events stay the same. `max_callbacks` bounds
    the work of the run: TooManyCallbacks ends one whose event loop calls more, or with `reports_storms` a violation of
    `NO_REBALANCE_STORM`. Raises InvalidSetting or ValueError for a plan that cannot be played, StoreError if the store
    cannot be opened at the start.
    """
    loop = VirtualLoop(max_callbacks)
    runs: list[SimulationRun] = []
    outcomes: list[RunOutcome] = []

    async def main() -> None:
        run = SimulationRun(
            plan, check_invariants=check_invariants, open_store=open_store, timeline=timeline, record=record
        )
        runs.append(run)
        with _silence_logging(loop, partial(run.world.report_violation, NO_UNEXPECTED_EXCEPTION)):
            outcomes.append(await run.play())
        loop.lift_bound()  # the run is over: what ends the loop does not count

    async def abort(error: LoopLivelock | TooManyCallbacks) -> None:
        if isinstance(error, LoopLivelock):
            outcomes.append(await runs[0].abort(TIME_ADVANCES, str(error)))
        elif reports_storms:
            generations = runs[0].milestones.generation_count
            work = f"{generations} generations and {max_callbacks:,} callbacks of the event loop, {error}"
            outcomes.append(await runs[0].abort(NO_REBALANCE_STORM, work))
        else:
            raise error

    run_in_virtual_time(main(), loop, abort)
    return outcomes[0]


class SimulationRun:
    """One run of a plan: it carries out the steps, waits for recovery and makes the verdict. It is the observer of its
    world."""

    def __init__(
        self,
        plan: SimulationPlan,
        *,
        check_invariants: bool,
        open_store: StoreOpener | None,
        timeline: Timeline | None = None,
        record: bool = False,
    ) -> None:
        self.plan = plan
        self.world = World(
            plan, self, check_invariants=check_invariants, open_store=open_store, timeline=timeline, record=record
        )
        self.milestones = Milestones(self.world, self.reach_milestone)
        self.on_member_change = self.milestones.on_member_change
        self._overlooked = OverlookedPartitions(self.world)
        self._progress_before = NO_PROGRESS
        """What each group had processed and committed at the last step of the plan."""
        self._faults_are_over = False
        """Whether the faults are over. From then on only expectations are carried out."""
        self._waiting: dict[str, list[PlannedStep]] = {}
        """The steps that wait for a milestone, by its sentence."""
        self._too_late: list[PlannedStep] = []
        """Steps whose time or milestone came when the faults were over."""

    def on_stored(self, records: Sequence[NewRecord]) -> None:
        """Apply stored records to the milestones, and to what groups may overlook."""
        self.milestones.on_stored(records)
        self._overlooked.on_stored(records)

    async def play(self) -> RunOutcome:
        """Start brokers and members, carry out the steps of the plan, end its faults, and wait until the groups have
        recovered."""
        world = self.world
        await world.brokers.start()
        await self._create_topics()
        if world.recording:
            world.recording.start(self.plan.network)
        world.members.start_producers()
        for planned in self.plan.steps:
            self._schedule(planned)
        await asyncio.sleep(_faults_end_ms(self.plan) / 1000)
        self._faults_are_over = True
        world.note("the faults end: network, disk and brokers work again, unsound members are stopped")
        await end_faults(world)
        self.reach_milestone("faults are over")
        recovered = await self._wait_for_recovery()
        return await self._end(recovered)

    async def _create_topics(self) -> None:
        broker_cluster = self.world.brokers.broker_cluster
        assert broker_cluster is not None
        for topic, partitions in self.plan.topics.items():
            await broker_cluster.ensure_topic(topic, partitions)

    async def _wait_for_recovery(self) -> bool:
        """Wait until every group has recovered and every expectation is decided. Returns whether that came in time."""
        world = self.world
        deadline_s = world.loop.time() + self.plan.recovery_timeout_ms / 1000
        while (obstacle := self._obstacle()) or world.tasks:
            if obstacle and world.loop.time() >= deadline_s:
                world.report_violation(*obstacle)
                return False
            await asyncio.sleep(CHECK_INTERVAL_S)
        return True

    def _obstacle(self) -> tuple[str, str] | None:
        """The sentence that does not hold yet, and why; None if all groups have recovered and read."""
        if (missing := recovery_obstacle(self.world, self._overlooked)) is not None:
            return RECOVERY_INVARIANT, missing
        unread = reading_obstacle(self.world, self._progress_before)
        return None if unread is None else (READS_INVARIANT, unread)

    async def _end(self, recovered: bool) -> RunOutcome:
        world = self.world
        not_reached = [each for waiting in self._waiting.values() for each in waiting]
        for planned in not_reached:
            if is_expectation(planned.step):
                world.report_expectation(planned, f"its milestone was not reached: {planned.trigger.milestone}")
        world.is_over = True
        if world.recording:
            await world.recording.stop()
        if world.timeline is not None:
            world.timeline.names.update(world.members.names)
        await world.brokers.wait_until_durable()
        records = await world.brokers.records()
        verdict = world.checker.finish(records) if world.checker else RunVerdict()
        ended_ms = world.now_ms
        for task in (*world.tasks, *world.background):
            task.cancel()
        await world.members.close()
        await world.brokers.close()
        if world.recording:
            await world.recording.close()
        violations = self._all_violations(verdict)
        return RunOutcome(
            self.plan,
            verdict.with_violations(violations),
            records or (),
            ended_ms,
            recovered,
            tuple(world.expectations),
            self._steps_not_reached(),
        )

    async def abort(self, sentence: str, reason: str) -> RunOutcome:
        """End a run whose time does not advance any more, or whose work has no end: its brokers write nothing more.

        The sentence is a violation after those that were found before, with the reason as its detail. The checks of the
        end are not made.
        """
        world = self.world
        world.report_violation(sentence, reason)
        verdict = world.checker.verdict() if world.checker else RunVerdict()
        violations, ended_ms = self._all_violations(verdict), world.now_ms
        world.is_over = True
        if world.timeline is not None:
            world.timeline.names.update(world.members.names)
        await world.disk.close()
        if world.recording:
            await world.recording.close()
        return RunOutcome(
            self.plan,
            verdict.with_violations(violations),
            await world.disk.read_records(),
            ended_ms,
            recovered=False,
            expectations=tuple(world.expectations),
            steps_not_reached=self._steps_not_reached(),
        )

    def _steps_not_reached(self) -> tuple[PlannedStep, ...]:
        """The steps whose milestone was not reached or came too late, in the order of the plan."""
        waiting = [each for steps in self._waiting.values() for each in steps if not is_expectation(each.step)]
        order = {planned: number for number, planned in enumerate(self.plan.steps)}
        return tuple(sorted([*waiting, *self._too_late], key=lambda planned: order[planned]))

    def _all_violations(self, verdict: RunVerdict) -> list[RunViolation]:
        """The violations of this verdict and those that the run has reported itself, in the order of time."""
        return sorted([*verdict.violations, *self.world.violations], key=lambda each: each.at_ms)

    # Steps

    def _schedule(self, planned: PlannedStep) -> None:
        trigger = planned.trigger
        if trigger.milestone:
            self._waiting.setdefault(trigger.milestone, []).append(planned)
        else:
            self.world.loop.call_at(trigger.delay_ms / 1000, self._carry_out, planned)

    def _carry_out(self, planned: PlannedStep) -> None:
        if self.world.is_over:
            return
        if is_expectation(planned.step):
            check_expectation(planned, self.world, self.milestones)
        elif self._faults_are_over:
            self._too_late.append(planned)
        else:
            self.world.note(planned)
            perform(planned.step, self.world)
            self._progress_before = ReadingProgress.of(self.world)

    # WorldObserver

    def reach_milestone(self, milestone: str) -> None:
        """Carry out the steps of the plan that wait for this milestone, unless it was reached before."""
        for planned in self._waiting.pop(milestone, ()):
            if planned.trigger.delay_ms:
                self.world.loop.call_later(planned.trigger.delay_ms / 1000, self._carry_out, planned)
            else:
                self._carry_out(planned)


def _faults_end_ms(plan: SimulationPlan) -> int:
    """When the faults end: at the time in the plan, but not before the last step that has a fixed time."""
    times = [planned.trigger.delay_ms for planned in plan.steps if not planned.trigger.milestone]
    return max([plan.faults_end_ms, *times])


@contextmanager
def _silence_logging(loop: asyncio.AbstractEventLoop, on_exception: Callable[[str], None]) -> Iterator[None]:
    """Log nothing inside the block: thousands of runs would flood the terminal.

    Unexpected exceptions in handlers, timers and tasks go to `on_exception`, and why a response cannot be encoded.
    """

    def drop(logger: str, method: str, event: str, fields: dict[str, Any]) -> None:
        if method == "exception" or (method == "error" and fields.get("exc_info")):
            on_exception(repr(sys.exc_info()[1]))
        elif str(fields.get("reason", "")).startswith(UNENCODABLE_RESPONSE):
            on_exception(fields["reason"])

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        on_exception(f"{context['message']}: {context.get('exception')!r}")

    loop.set_exception_handler(handle)
    with log_sink(drop):
        yield
