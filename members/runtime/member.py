"""Runs one member: the consumer machine on a transport, with an application that polls, works and polls again.

    member = Member("anna", settings, transport, Subscribe(("orders",)), habits=(parse_habit("pause:20s@30s"),))
    member.start()
    await member.close()

Time is that of the event loop, and nothing is used but `call_at`, `create_task` and futures, so that the loop's clock
may be a virtual one.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from regroup.assignors.interface import Assignor
from regroup.assignors.registry import assignor_named
from regroup.members.consumer.effects import (
    Change,
    Closed,
    CommitEnded,
    ConsumerError,
    Outgoing,
    PartitionsLost,
    PartitionsRevoked,
    PositionsFound,
    Step,
)
from regroup.members.consumer.inputs import (
    Answered,
    Close,
    Consumed,
    EnforceRebalance,
    Happening,
    Poll,
    PollReturned,
    Subscribe,
    TimePassed,
    Unanswered,
)
from regroup.members.consumer.machine import Consumer
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Phase
from regroup.members.faults import Habit, Kind, Moment, moments_in
from regroup.members.runtime.application import Application, MemberView
from regroup.members.runtime.fault_injection import Misbehaving
from regroup.members.runtime.fetcher import Fetched, Reader
from regroup.members.runtime.timers import Alarms
from regroup.members.runtime.workload import Ledger, Workload
from regroup.members.runtime.zombie import Zombie
from regroup.members.transports.base import Transport
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode

POLL_AGAIN_MS: Final = 1_000
"""After an error came out of poll(); an application would log it and go on."""

DEATHS: Final = (Kind.CRASH, Kind.RESTART, Kind.RESTART_AS_STRANGER)

Observer: TypeAlias = Callable[[str, Change | ConsumerError], None]


class Member:
    """`observe` is told, by the member's name, every change and every error that comes out of poll().

    `dies` is told its name whenever its process dies, to come back or not.
    `epoch_ms` is what to add to the loop's time to get the time that records bear.
    """

    def __init__(
        self,
        name: str,
        settings: ConsumerSettings,
        transport: Transport,
        subscription: Subscribe,
        *,
        habits: Iterable[Habit] = (),
        assignors: Iterable[Assignor] = (),
        workload: Workload | None = None,
        ledger: Ledger | None = None,
        observe: Observer = lambda name, happening: None,
        dies: Callable[[str], None] = lambda name: None,
        epoch_ms: int = 0,
    ) -> None:
        self.name = name
        self._settings = settings
        self._transport = transport
        self._subscription = subscription
        self._alarms = Alarms(lambda: self.is_over)
        self._misbehaving = Misbehaving(habits, self._alarms, self.misbehave)
        self._assignors = tuple(assignors)
        self._workload = workload
        self._ledger = ledger or Ledger()
        self._application = Application(
            workload or Workload(),
            self._ledger,
            stands=self._consumed,
            wakes=lambda: self._alarms.when_awake(self._work),
        )
        self._observe = observe
        self._dies = dies
        self._epoch_ms = epoch_ms
        self._condition = ""
        self._last_error = ""
        self.errors_seen: dict[int, None] = {}
        """The codes of every refusal that it was answered with, in the order in which each came first."""
        self._zombie: Zombie | None = None
        self._sleeps = 0
        self._is_over: asyncio.Future[None] | None = None
        self.consumer = self._new_consumer()
        self._reader = Reader(transport, settings, self._application)

    def _new_consumer(self) -> Consumer:
        own = {assignor.name: assignor for assignor in self._assignors}
        names = self._settings.partition_assignment_strategy
        offered = [own.get(name) or assignor_named(name) for name in names]
        return Consumer(self._settings, self._misbehaving.assignors(offered))

    @property
    def view(self) -> MemberView:
        consumer = self.consumer
        return MemberView(
            self.name,
            consumer.generation.member_id,
            consumer.generation.number,
            consumer.phase,
            consumer.is_leader,
            consumer.assigned,
            self._condition,
            self._last_error,
            self._application.processed,
            self._application.twice,
        )

    @property
    def is_over(self) -> bool:
        """It has left, crashed, or failed for good."""
        return self._condition in ("crashed", "left", "failed")

    @property
    def is_zombie(self) -> bool:
        """It acts for a generation that may be long over, and no longer takes part."""
        return self._zombie is not None

    # -- its life

    def start(self) -> None:
        """Join; must be called inside the event loop."""
        self._is_over = asyncio.get_running_loop().create_future()
        self._misbehaving.moment(Moment.STARTED)
        self._begin_polling()

    def _begin_polling(self) -> None:
        self._feed(self._subscription)
        self._feed(Poll())

    def enforce_rebalance(self, reason: str) -> None:
        """As an application does that knows better (KIP-568)."""
        self._alarms.when_awake(lambda: self._feed(EnforceRebalance(reason)))

    async def close(self) -> None:
        """Leave politely, if that is still possible; returns when the coordinator has answered or time is up."""
        if self._is_over is not None and self._condition in ("", "paused"):
            self._wake()
            self._feed(Close(timeout_ms=min(self._settings.request_timeout_ms, 5_000)))
            await self._is_over
        self._stop()

    def _stop(self) -> None:
        self._reader.close()
        self._alarms.cancel()
        if self._is_over is not None and not self._is_over.done():
            self._is_over.set_result(None)

    def _end(self, condition: str) -> None:
        self._condition = condition
        self._stop()

    # -- the machine and its surroundings

    def _feed(self, happening: Happening) -> None:
        """A slow joiner is at work when the news of a rebalance reaches it; everybody else is inside poll()."""
        if self._zombie is not None:
            return
        slow_ms = self._misbehaving.delay_ms(Kind.SLOW_JOIN)
        consumer = self.consumer
        if slow_ms is None or not consumer.is_polling or consumer.phase is not Phase.STABLE:
            self._step(happening)
            return
        self._step(PollReturned())
        self._step(happening)
        if consumer.wants_to_join:
            self._alarms.after(slow_ms, self._poll)
        else:
            self._poll()

    def _poll(self) -> None:
        if not self.consumer.is_polling and self._zombie is None:
            self._step(Poll())
            self._work()

    def _step(self, happening: Happening) -> None:
        self._carry_out(self.consumer.receive(happening, self._alarms.now_ms()))

    def _carry_out(self, step: Step) -> None:
        # The timer comes first: what follows may lead to further steps, whose deadlines are the newer ones.
        self._alarms.set_deadline(step.deadline_ms, lambda: self._feed(TimePassed()))
        if step.hang_up:
            self._transport.hang_up()
        for change in step.changes:
            self._note(change)
        for outgoing in step.requests:
            self._alarms.when_awake(partial(self._misbehaving.send, outgoing, self._transmit))
        if step.raised is not None:
            self._poll_failed(step.raised)

    def _poll_failed(self, error: ConsumerError) -> None:
        self._last_error = str(error)
        self._observe(self.name, error)
        if error.fatal:
            self._condition = "failed"
            self._stop()
        else:
            self._alarms.after(POLL_AGAIN_MS, self._poll)

    def _note(self, change: Change) -> None:
        self._observe(self.name, change)
        match change:
            case PositionsFound(offsets) if self._workload is not None:
                self._reader.read_from(offsets)
            case PartitionsRevoked(partitions) | PartitionsLost(partitions):
                self._reader.stop(partitions)
                self._application.drop(partitions)
            case CommitEnded(offsets, error, _):
                if error is not None:
                    self._last_error = str(error)
                    if error.code is not None:
                        self.errors_seen[error.code] = None
                else:
                    for partition, offset in offsets.items():
                        self._ledger.committed(partition, offset)
            case Closed():
                self._end("left")
        for moment in moments_in(change):
            self._misbehaving.moment(moment)

    # -- requests

    def _transmit(self, outgoing: Outgoing) -> None:
        consumer = self.consumer

        def answered(answer: Answered | Unanswered) -> None:
            if consumer is self.consumer:
                self._alarms.when_awake(lambda: self._hear(answer))

        self._transport.send(outgoing, answered)

    def _hear(self, answer: Answered | Unanswered) -> None:
        if isinstance(answer, Unanswered):
            self._last_error = answer.reason
        elif code := getattr(answer.response, "error_code", 0):
            self.errors_seen[code] = None
            if code != ErrorCode.MEMBER_ID_REQUIRED:
                self._last_error = ErrorCode.named(code)
        self._feed(answer)

    # -- the application

    def _consumed(self, positions: dict[TopicPartition, int]) -> None:
        if self._zombie is not None:
            self._zombie.consumed(positions)
        else:
            self._step(Consumed(positions))

    def _work(self) -> None:
        """Poll returns what there is; the application works on it and polls again."""
        if self._workload is None or not (self.consumer.returns_records or self._zombie):
            return
        batch = self._application.take()
        if not batch:
            return
        if self._zombie is None:
            self._step(PollReturned())
        reader = self._reader
        self._alarms.after(self._workload.process_ms * len(batch), lambda: self._worked(batch, reader))

    def _worked(self, batch: Sequence[Fetched], reader: Reader) -> None:
        """What a process that has died or been closed since was working on is left to the next owner."""
        if reader is not self._reader or self.consumer.is_closing:
            return
        self._application.worked(batch, self._alarms.now_ms() + self._epoch_ms)
        self._poll()
        if self._zombie is not None:
            self._work()
        self._reader.proceed()

    # -- habits

    def misbehave(self, habit: Habit) -> None:
        """Begin to behave so now, whatever moment the habit names."""
        if habit.kind.lasts:
            self._misbehaving.begin(habit)
            return
        milliseconds = habit.milliseconds or 0
        if habit.kind in DEATHS:
            self._dies(self.name)
        elif self._condition == "restarting":
            return  # there is no process that could
        match habit.kind:
            case Kind.CRASH:
                self._end("crashed")
            case Kind.PAUSE:
                self._sleep(milliseconds, self._wake, "paused")
            case Kind.LEAVE:
                asyncio.get_running_loop().call_soon(self._alarms.when_awake, lambda: self._feed(Close()))
            case Kind.ZOMBIE:
                self._zombie = Zombie(self.consumer, self._settings, self._transport, self._zombie_heard)
                # A commit keeps a member alive as a heartbeat does, so its generation would never grow old.
                self._sleep(self._settings.session_timeout_ms * 2, self._rise, "zombie")
            case Kind.RESTART:
                self._sleep(milliseconds, self._start_anew, "restarting")
            case Kind.RESTART_AS_STRANGER:
                self._settings = replace(self._settings, group_instance_id=None)
                self._sleep(milliseconds, self._start_anew, "restarting")

    def _sleep(self, milliseconds: int, then: Callable[[], None], condition: str) -> None:
        """The last sleep counts: whoever dies in its sleep does not wake from it."""
        self._condition = condition
        self._sleeps += 1
        this = self._sleeps
        self._alarms.sleep(milliseconds, lambda: then() if this == self._sleeps else None)

    def _wake(self) -> None:
        if self._alarms.is_asleep:
            self._condition = ""
            self._alarms.catch_up()
            self._feed(TimePassed())

    def _rise(self) -> None:
        self._alarms.catch_up()
        self._work()
        self._reader.proceed()
        if self._zombie is not None:
            self._zombie.commit_on(self._alarms)

    def _zombie_heard(self, code: int) -> None:
        self._last_error = f"commit: {ErrorCode.named(code)}" if code else ""
        if code:
            self.errors_seen[code] = None

    def _start_anew(self) -> None:
        self._condition = ""
        self._zombie = None
        self._alarms.begin_anew()
        self._application.clear()
        self._transport.hang_up()
        self._reader.close()
        self._reader = Reader(self._transport, self._settings, self._application)
        self.consumer = self._new_consumer()
        self._begin_polling()
