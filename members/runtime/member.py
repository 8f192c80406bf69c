"""One simulated member: a consumer on a transport, with an application that polls and processes, and with faults.

    member = SimulatedMember("anna", settings, transport, Subscribe(("orders",)), faults=(parse_fault("crash@30s"),))
    member.start()
    await member.close()

Time is that of the event loop. Only `call_at`, `create_task` and futures are used, so that the loop's clock may be a
virtual one.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from regroup.members.consumer.effects import ConsumerChange, ConsumerError
from regroup.members.consumer.inputs import Close, EnforceRebalance, Subscribe, TimePassed, Unsubscribe
from regroup.members.consumer.machine import ConsumerMachine
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import MemberFault, MemberFaultKind, MemberMilestone
from regroup.members.runtime.application import MemberView, PollStay, SimulatedApplication
from regroup.members.runtime.driver import ConsumerDriver
from regroup.members.runtime.fault_injection import FaultInjector
from regroup.members.runtime.notes import FaultBegan, FaultEnded, MemberNote
from regroup.members.runtime.timers import MemberTimers
from regroup.members.runtime.workload import RecordLedger, Workload
from regroup.members.transports.base import MemberTransport

__all__ = ["MemberObserver", "SimulatedMember"]

MAX_CLOSE_TIMEOUT_MS: Final = 5_000
STOPPED_CONDITIONS: Final = ("crashed", "left", "failed")
"""The conditions of a member that does nothing any more."""
PROCESS_EXITS: Final = (MemberFaultKind.CRASH, MemberFaultKind.RESTART, MemberFaultKind.RESTART_AS_STRANGER)

MemberObserver: TypeAlias = Callable[[str, ConsumerChange | ConsumerError], None]
"""Called with the name of a member, and a change of its consumer or an error of its poll()."""
NoteObserver: TypeAlias = Callable[[str, MemberNote], None]
"""Called with the name of a member, and a refused request, or a fault that begins or ends."""


class SimulatedMember:
    """A member that is started once and ends as left, crashed or failed.

    `observe` gets the member's name with every change, and with every error that comes out of poll(); `on_note` gets it
    with every refused request and every fault; `on_process_exit` gets it whenever a fault kills the process. For
    `workload`, `ledger` and `epoch_ms` see SimulatedApplication.
    """

    def __init__(
        self,
        name: str,
        settings: ConsumerSettings,
        transport: MemberTransport,
        subscription: Subscribe,
        *,
        faults: Iterable[MemberFault] = (),
        workload: Workload | None = None,
        ledger: RecordLedger | None = None,
        observe: MemberObserver = lambda name, change: None,
        on_note: NoteObserver = lambda name, note: None,
        on_process_exit: Callable[[str], None] = lambda name: None,
        epoch_ms: int = 0,
    ) -> None:
        self.name = name
        self._settings = settings
        self._subscription = subscription
        self._on_process_exit = on_process_exit
        self._note = partial(on_note, name)
        self._timers = MemberTimers(lambda: self._condition in STOPPED_CONDITIONS)
        self._injector = FaultInjector(
            faults, self._timers, self.inject_fault, lambda fault: self._note(FaultBegan(fault))
        )
        self._application = SimulatedApplication(workload, ledger or RecordLedger(), epoch_ms=epoch_ms)
        self._driver = ConsumerDriver(
            settings,
            transport,
            self._timers,
            self._injector,
            self._application,
            observe=partial(observe, name),
            on_note=self._note,
            on_end=self._end,
        )
        self._condition = ""
        self._pause_count = 0
        self._ended: asyncio.Future[None] | None = None

    @property
    def consumer(self) -> ConsumerMachine:
        """The consumer of the member's present process."""
        return self._driver.consumer

    @property
    def error_codes_seen(self) -> dict[int, None]:
        """The error codes in all responses to the member, each once, in the order of their first appearance."""
        return self._driver.error_codes_seen

    @property
    def view(self) -> MemberView:
        """The state of the member as a row of a table: ids, generation, partitions, condition and counts of records."""
        consumer = self.consumer
        return MemberView(
            self.name,
            consumer.generation.member_id,
            consumer.generation.generation_id,
            consumer.state,
            consumer.is_leader,
            consumer.assigned_partitions,
            self._condition,
            self._driver.last_error,
            self._application.processed_count,
            self._application.duplicate_count,
        )

    @property
    def outside_poll_ms(self) -> int:
        """For how long the application has not been inside poll(), in milliseconds; 0 while it is inside."""
        return self._driver.outside_poll_ms

    @property
    def last_poll_stay(self) -> PollStay | None:
        """When the application was last outside poll(); None if it has never left it."""
        return self._driver.last_poll_stay

    @property
    def is_stopped(self) -> bool:
        """Whether the member has left, crashed, or got a fatal error."""
        return self._condition in STOPPED_CONDITIONS

    @property
    def is_zombie(self) -> bool:
        """Whether the member acts for a generation that may be over, and takes no part in the group any more."""
        return self._driver.is_zombie

    # -- from its start to its end

    def start(self) -> None:
        """Subscribe to the topics, and join the group. This must be called inside the event loop."""
        self._ended = asyncio.get_running_loop().create_future()
        self._injector.reach_milestone(MemberMilestone.STARTED)
        self._driver.start(self._subscription)

    def enforce_rebalance(self, reason: str) -> None:
        """Let the member rejoin, and so the group rebalance, as the Java client's enforceRebalance() does (KIP-568)."""
        self._timers.run_when_resumed(lambda: self._driver.feed(EnforceRebalance(reason)))

    def unsubscribe(
        self, then: Callable[[], None] = lambda: None, *, on_due: Callable[[], None] = lambda: None
    ) -> None:
        """Let the application unsubscribe from all topics; the process goes on without a group.

        `on_due` is called when the application is to do so, which is at once or at the end of a pause, and `then` when
        it does: it processes its batch first.
        """
        self._call_consumer(on_due, lambda: self._change_subscription(Unsubscribe(), then))

    def subscribe(
        self,
        then: Callable[[], None] = lambda: None,
        *,
        topics: tuple[str, ...] = (),
        on_due: Callable[[], None] = lambda: None,
    ) -> None:
        """Let the application subscribe to these topics, or without any as it did at its start. The functions are
        called as those of `unsubscribe`."""
        subscription = Subscribe(topics) if topics else self._subscription
        self._call_consumer(on_due, lambda: self._change_subscription(subscription, then))

    def _call_consumer(self, on_due: Callable[[], None], call: Callable[[], None]) -> None:
        def make_call() -> None:
            on_due()
            self._driver.run_between_batches(call)

        self._timers.run_when_resumed(make_call)

    def _change_subscription(self, change: Subscribe | Unsubscribe, then: Callable[[], None]) -> None:
        then()
        self._driver.feed(change)

    async def close(self) -> None:
        """Close the consumer if it still runs.

        Returns when the coordinator has responded, or after a limited time.
        """
        if self._ended is not None and self._condition in ("", "paused"):
            self._resume()
            self._driver.feed(Close(timeout_ms=min(self._settings.request_timeout_ms, MAX_CLOSE_TIMEOUT_MS)))
            # A fault may end the process that has been told to close, and then it does not report its end.
            await asyncio.wait([self._ended], timeout=MAX_CLOSE_TIMEOUT_MS / 1000)
        self._stop()

    def _end(self, condition: str) -> None:
        self._condition = condition
        self._stop()

    def _stop(self) -> None:
        self._driver.stop()
        self._timers.cancel_all()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    # -- faults

    def inject_fault(self, fault: MemberFault) -> None:
        """Start a fault now, without waiting for its trigger."""
        if fault.kind.is_lasting:
            self._injector.start_fault(fault)
            return
        duration_ms = fault.duration_ms or 0
        if fault.kind in PROCESS_EXITS:
            self._on_process_exit(self.name)
        elif self._condition == "restarting" or self.is_zombie:
            return  # no process runs that the fault could happen to, or one that has left poll() for good
        self._note(FaultBegan(fault))
        match fault.kind:
            case MemberFaultKind.CRASH:
                self._end("crashed")
            case MemberFaultKind.PAUSE:
                self._pause(duration_ms, self._resume, "paused")
            case MemberFaultKind.NO_POLL:
                self._timers.run_when_resumed(lambda: self._driver.stay_outside_poll(duration_ms))
            case MemberFaultKind.LEAVE:
                loop = asyncio.get_running_loop()
                loop.call_soon(self._timers.run_when_resumed, lambda: self._driver.feed(Close()))
            case MemberFaultKind.ZOMBIE:
                self._driver.become_zombie()
                # A commit restarts the session timeout as a heartbeat does, so only the pause lets the session expire.
                self._pause(self._settings.session_timeout_ms * 2, self._resume_as_zombie, "zombie")
            case MemberFaultKind.RESTART:
                self._begin_restart(duration_ms)
            case MemberFaultKind.RESTART_AS_STRANGER:
                self._settings = replace(self._settings, group_instance_id=None)
                self._begin_restart(duration_ms)

    def end_fault(self, kind: MemberFaultKind) -> None:
        """End a lasting fault, if it has begun."""
        self._injector.end_fault(kind)

    def resume(self) -> None:
        """End a pause early. It has no effect on a member that is not paused."""
        if self._condition == "paused":
            self._pause_count += 1
            self._resume()

    def _pause(self, duration_ms: int, then: Callable[[], None], condition: str) -> None:
        """Pause the member, show it as `condition`, and call `then` after the duration.

        `then` is not called if another pause or restart has begun meanwhile.
        """
        self._condition = condition
        self._pause_count += 1
        count = self._pause_count
        self._timers.pause(duration_ms, lambda: then() if count == self._pause_count else None)

    def _resume(self) -> None:
        if self._timers.is_paused:
            self._end_pause()
            self._condition = ""
            self._timers.resume()
            self._driver.feed(TimePassed())

    def _end_pause(self) -> None:
        self._note(FaultEnded(self._condition))

    def _resume_as_zombie(self) -> None:
        self._end_pause()
        self._timers.resume()
        self._driver.resume_as_zombie()

    def _begin_restart(self, duration_ms: int) -> None:
        """End the process, which sends nothing more, and start the next one after the duration."""
        self._driver.stop()
        self._pause(duration_ms, self._restart, "restarting")

    def _restart(self) -> None:
        self._end_pause()
        self._condition = ""
        self._timers.resume_without_backlog()
        self._driver.restart(self._settings, self._subscription)
