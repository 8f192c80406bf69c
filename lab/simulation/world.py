"""The parts of one simulation, on one virtual clock: brokers, members, network, disk and checker."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from random import Random
from typing import Any, Protocol

from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.checker import Checker
from regroup.lab.checker.verdict import RunViolation
from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.simulation.brokers import SimulatedBrokers
from regroup.lab.simulation.disk import SimulatedDisk, StoreOpener
from regroup.lab.simulation.members import SimulatedMembers
from regroup.lab.simulation.network.message_interception import MessageInterceptor, needs_interceptor
from regroup.lab.simulation.network.simulated_network import SimulatedNetwork
from regroup.lab.simulation.recording import RunRecording
from regroup.lab.simulation.timeline import ExpectationResult, MemberReport, Timeline, TimelineItem
from regroup.members.consumer.effects import ConsumerChange, ConsumerError
from regroup.members.runtime.notes import MemberNote
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.apis.transaction_lists import compile_pattern
from regroup.server.net.connection import Connection
from regroup.server.releases import release_named
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord


def subscribed_topics(planned: MemberPlan, topics: Iterable[str]) -> Iterable[str]:
    """The topics to which a member subscribes, by name or by its pattern; the first ones need not exist."""
    if not planned.pattern:
        return planned.topics
    compiled = compile_pattern(planned.pattern)
    return [topic for topic in topics if compiled.matches(topic)]


class WorldObserver(Protocol):
    """Gets the events of a simulation, after the checker has got them."""

    def reach_milestone(self, milestone: str) -> None:
        """Take a milestone that is reached: a request was sent, a response was received, or a member has stopped."""

    def on_member_change(self, name: str, change: ConsumerChange | ConsumerError) -> None:
        """Take a change of a member's consumer: partitions assigned or revoked, joined, closed, or an error."""

    def on_stored(self, records: Sequence[NewRecord]) -> None:
        """Take records that the disk has just stored."""


class World:
    """The parts of one simulation. Must be created inside a running virtual loop."""

    def __init__(
        self,
        plan: SimulationPlan,
        observer: WorldObserver,
        *,
        check_invariants: bool,
        open_store: StoreOpener | None,
        timeline: Timeline | None = None,
        record: bool = False,
    ) -> None:
        self.plan = plan
        self.loop = asyncio.get_running_loop()
        self.violations: list[RunViolation] = []
        """Failed expectations, and errors of the run itself. The violations of invariants are in `checker`."""
        self.expectations: list[ExpectationResult] = []
        """The expectations that were decided, in the order of their decisions."""
        self.timeline = timeline
        self.tasks: dict[asyncio.Task[None], None] = {}
        """Running tasks of steps."""
        self.background: set[asyncio.Task[None]] = set()
        """Running tasks of steps for which the run does not wait."""
        self._transactions = 0
        self.is_over = False
        self._observer = observer
        settings = CoordinatorSettings.from_texts({name: str(value) for name, value in plan.settings.items()})
        loop_s = self.loop.time
        offered = release_named(plan.release).apis if plan.release else None
        self.checker = Checker(settings, lambda: round(loop_s() * 1000), offered) if check_invariants else None
        if self.checker:
            self.checker.members.subscriptions.expect_topics(plan.topics)
        open_store = open_store or MemoryStore().open
        self.disk = SimulatedDisk(
            open_store,
            self._random_stream("disk"),
            latency_ms=plan.disk_latency_ms,
            on_stored=self._on_stored,
        )
        self.interceptor = MessageInterceptor(observer.reach_milestone)
        self.network = SimulatedNetwork(self.loop, self._random_stream("network"), plan.network)
        self.network.interceptor = self.interceptor if needs_interceptor(plan) else None
        self.network.on_connection_lost = self._on_connection_lost
        self.recording = RunRecording(self.disk, open_store, self._process_now_ms) if record else None
        """The recording of exchanges and observations to the store; None if the run is not recorded."""
        if self.recording:
            self.network.messages = self.recording.message_log(self.loop.time, plan.network)
        self.brokers = self._new_brokers(settings)
        self.members = self._new_members()

    def _new_brokers(self, settings: CoordinatorSettings) -> SimulatedBrokers:
        timeline = self.timeline
        return SimulatedBrokers(
            self.network,
            self.disk,
            self._random_stream("ids"),
            count=self.plan.brokers,
            settings=settings,
            coordinator_factory=self.checker.make_coordinator if self.checker else GroupCoordinator,
            observers=[timeline.observer(lambda: self.now_ms)] if timeline else [],
            recorder=self.recording.recorder if self.recording else None,
            release=self.plan.release,
        )

    def _new_members(self) -> SimulatedMembers:
        return SimulatedMembers(
            self.plan,
            self.network,
            self.brokers,
            self._random_stream("members"),
            on_change=self._on_member_change,
            on_stop=self._on_member_stop,
            checker=self.checker,
            on_note=self._on_member_note,
            on_read_again=self._on_read_again,
        )

    def _random_stream(self, part: str) -> Random:
        """A random stream for one part of the simulation: a further draw in one part changes nothing elsewhere."""
        return Random(f"{self.plan.seed}/{part}")

    @property
    def now_ms(self) -> int:
        """Milliseconds since the run began."""
        return round(self.loop.time() * 1000)

    def next_transaction(self) -> int:
        """Return the number of a transaction that begins: 1, 2, 3 …"""
        self._transactions += 1
        return self._transactions

    def spawn(self, act: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in a task of its own. The run does not end before the task has."""
        task = self.loop.create_task(act)
        self.tasks[task] = None
        task.add_done_callback(lambda done: self.tasks.pop(done, None))

    def later(self, delay_ms: float, act: Callable[[], None]) -> None:
        """Call a function after a delay, unless the run is over by then."""
        self.loop.call_later(delay_ms / 1000, lambda: None if self.is_over else act())

    async def crash_brokers(self, *, silently: bool) -> None:
        """Kill the brokers' process; the checker expects no more responses from its coordinators."""
        if self.checker:
            for coordinator in self.brokers.coordinators:
                self.checker.on_coordinator_crash(coordinator)
        await self.brokers.crash(silently=silently)

    def note(self, item: TimelineItem) -> None:
        """Add something that happens now to the timeline, if there is one."""
        if self.timeline is not None and not self.is_over:
            self.timeline.add(self.now_ms, item)

    def report_expectation(self, planned: PlannedStep, found: str | None) -> None:
        """Record that an expectation is decided.

        `found` is None if it holds; otherwise what was found instead, which is a violation.
        """
        result = ExpectationResult(planned, found)
        self.expectations.append(result)
        self.note(result)
        if found is not None:
            self.report_violation(f"{planned.step}.", found)

    def report_violation(self, sentence: str, detail: str) -> None:
        """Record a violation that the checker does not find: its sentence, and what was found."""
        self.violations.append(RunViolation(sentence, self.now_ms, None, detail))

    def subscribed_partitions(self, group_id: str) -> set[TopicPartition]:
        """Every partition of every topic to which a running member of the group subscribes."""
        state = self.brokers.cluster_state
        topics = state.topics if state else {}
        running = (self.plan.members[name] for name in self.members.running_members(group_id))
        subscribed = {topic for planned in running for topic in subscribed_topics(planned, topics)}
        return {
            TopicPartition(topic, number)
            for topic in sorted(subscribed & topics.keys())
            for number in range(topics[topic].partitions)
        }

    @property
    def topic_names(self) -> dict[str, str]:
        """The names of the topics by their ids, in Kafka's text form."""
        state = self.brokers.cluster_state
        return {each.topic_id: each.name for each in state.topics.values()} if state else {}

    # What happens

    def _on_member_change(self, name: str, change: ConsumerChange | ConsumerError) -> None:
        if self.checker:
            self.checker.members.on_change(name, change, self.now_ms)
        if self.timeline is not None:
            self.note(MemberReport(name, change, self.members.by_name[name].consumer.assigned_partitions))
        if self.recording:
            self._record_view(name, is_over=isinstance(change, ConsumerError) and change.is_fatal)
        self._observer.on_member_change(name, change)

    def _on_member_stop(self, name: str) -> None:
        if self.recording:
            self._record_view(name, is_over=True)
        self._observer.reach_milestone(f"{name} has stopped")

    def _record_view(self, name: str, *, is_over: bool) -> None:
        """Record the partitions that the member of this name now counts as its own; none if its process is over."""
        assert self.recording is not None
        consumer = self.members.by_name[name].consumer
        owned = () if is_over else consumer.assigned_partitions
        self.recording.on_view(name, self.plan.members[name].group, consumer.generation.member_id, owned)

    def _on_read_again(self, name: str, partition: TopicPartition, offset: int) -> None:
        if self.recording:
            self.recording.on_read_again(name, self.plan.members[name].group, partition, offset)

    def _process_now_ms(self) -> int:
        return self.brokers.process_now_ms()

    def _on_member_note(self, name: str, note: MemberNote) -> None:
        if self.checker:
            self.checker.members.on_note(name, note)
        self.note(MemberReport(name, note))

    def _on_connection_lost(self, protocol: asyncio.Protocol) -> None:
        if self.checker and isinstance(protocol, Connection):
            self.checker.on_connection_lost(protocol.name)

    def _on_stored(self, records: Sequence[NewRecord], position: int) -> None:
        if self.recording:
            self.recording.position = position
        if self.checker:
            self.checker.on_stored(records, position)
        for record in records if self.timeline else ():
            self.note(record)
        self._observer.on_stored(records)
