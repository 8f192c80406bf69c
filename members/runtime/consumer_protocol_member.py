"""A simulated member of the consumer protocol (KIP-848): its processes, one after the other, and its faults.

It has the methods of a `SimulatedMember`.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from regroup.members.consumer.consumer_protocol import ConsumerProtocolMachine
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import MemberFault, MemberFaultKind, MemberMilestone
from regroup.members.runtime.application import MemberView, PollStay, SimulatedApplication
from regroup.members.runtime.consumer_protocol_process import ConsumerProtocolProcess, ProcessParts
from regroup.members.runtime.fault_injection import FaultInjector
from regroup.members.runtime.member import (
    MAX_CLOSE_TIMEOUT_MS,
    PROCESS_EXITS,
    STOPPED_CONDITIONS,
    MemberObserver,
    NoteObserver,
)
from regroup.members.runtime.notes import FaultBegan, FaultEnded, RequestRefused
from regroup.members.runtime.timers import MemberTimers
from regroup.members.runtime.workload import RecordLedger, Workload
from regroup.members.transports.base import MemberTransport

FAULTS: Final = (
    MemberFaultKind.CRASH,
    MemberFaultKind.PAUSE,
    MemberFaultKind.LEAVE,
    MemberFaultKind.ZOMBIE,
    MemberFaultKind.RESTART,
    MemberFaultKind.RESTART_AS_STRANGER,
    MemberFaultKind.NO_POLL,
    MemberFaultKind.SLOW_JOIN,
    MemberFaultKind.SLOW_REVOKE,
)
"""The faults that this member can have."""


class ConsumerProtocolMember:
    """A member that is started once and ends as left, crashed or failed; with the parameters of SimulatedMember.

    A client of this protocol draws its member id itself, another one for each process: by a call of `draw_member_id`.
    """

    def __init__(
        self,
        name: str,
        settings: ConsumerSettings,
        transport: MemberTransport,
        subscription: Subscribe,
        *,
        pattern: str = "",
        draw_member_id: Callable[[], str],
        faults: Iterable[MemberFault] = (),
        observe: MemberObserver = lambda name, change: None,
        on_note: NoteObserver = lambda name, note: None,
        on_process_exit: Callable[[str], None] = lambda name: None,
        workload: Workload | None = None,
        ledger: RecordLedger | None = None,
        epoch_ms: int = 0,
    ) -> None:
        """If `pattern` is not empty, the member subscribes to the topics that match it, and the topics of
        `subscription` are ignored."""
        self.name = name
        self.error_codes_seen: dict[int, None] = {}
        self.is_zombie = False
        self._settings, self._transport = settings, transport
        self._topics, self._pattern = () if pattern else subscription.topics, pattern
        self._note, self._on_process_exit = partial(on_note, name), on_process_exit
        self._draw_member_id = draw_member_id
        self._timers = MemberTimers(lambda: self._condition in STOPPED_CONDITIONS)
        self._injector = FaultInjector(
            faults, self._timers, self.inject_fault, lambda fault: self._note(FaultBegan(fault))
        )
        self._application = SimulatedApplication(workload, ledger or RecordLedger(), epoch_ms=epoch_ms)
        self._parts = ProcessParts(
            transport,
            self._timers,
            self._injector,
            self._application,
            partial(observe, name),
            self._on_refusal,
            self._end,
        )
        self._condition = ""
        self._pause_count = 0
        self._ended: asyncio.Future[None] | None = None
        self._process = self._new_process()

    def _new_process(self) -> ConsumerProtocolProcess:
        settings = self._settings
        consumer = ConsumerProtocolMachine(
            settings.group_id,
            self._draw_member_id(),
            self._topics,
            settings.max_poll_interval_ms,
            settings.group_instance_id,
            pattern=self._pattern,
            assignor=settings.group_remote_assignor,
        )
        return ConsumerProtocolProcess(self._parts, settings, consumer)

    @property
    def consumer(self) -> ConsumerProtocolMachine:
        """The consumer of the member's present process."""
        return self._process.consumer

    @property
    def outside_poll_ms(self) -> int:
        """For how long the application has not been inside poll(), in milliseconds; 0 while it is inside."""
        return self._process.outside_poll_ms

    @property
    def last_poll_stay(self) -> PollStay | None:
        """When the application was last outside poll(); None if it has never left it."""
        return self._process.last_poll_stay

    @property
    def is_stopped(self) -> bool:
        """Whether the member has left, crashed, or ended because of a refused heartbeat."""
        return self._condition in STOPPED_CONDITIONS

    @property
    def view(self) -> MemberView:
        """The state of the member as a row of a table: ids, epoch, partitions, condition and counts of records."""
        generation, application = self.consumer.generation, self._application
        return MemberView(
            self.name,
            generation.member_id,
            generation.generation_id,
            self.consumer.state,
            False,
            self.consumer.assigned_partitions,
            self._condition,
            "",
            application.processed_count,
            application.duplicate_count,
        )

    def start(self) -> None:
        """Find the coordinator, and join with the first heartbeat. This must be called inside the event loop."""
        self._ended = asyncio.get_running_loop().create_future()
        self._injector.reach_milestone(MemberMilestone.STARTED)
        self._process.begin()

    def enforce_rebalance(self, reason: str) -> None:
        """Do nothing: a member of the consumer protocol cannot ask for a rebalance. SimulatedMember has the same
        method."""

    async def close(self) -> None:
        """Leave the group, if a process of the member runs; a static member leaves with epoch -2, which says that it
        will return.

        Returns when the coordinator has responded, or after a limited time.
        """
        self.resume()
        if self._ended is not None and not self._condition:
            self._process.leave()
            await asyncio.wait([self._ended], timeout=MAX_CLOSE_TIMEOUT_MS / 1000)
            if not self._ended.done():
                self._end("left")
        self._process.stop()
        self._timers.cancel_all()

    def _on_refusal(self, refused: RequestRefused, code: int) -> None:
        self.error_codes_seen[code] = None
        self._note(refused)

    # -- faults

    def inject_fault(self, fault: MemberFault) -> None:
        """Start a fault now, without regard to its trigger."""
        if fault.kind not in FAULTS:
            raise ValueError(f"a member of the consumer protocol cannot have the fault {fault.kind.value}")
        if fault.kind.is_lasting:
            self._injector.start_fault(fault)
            return
        if fault.kind in PROCESS_EXITS:
            self._on_process_exit(self.name)
        elif self._condition == "restarting" or self.is_zombie:
            return  # no process runs that the fault could happen to, or one that has left poll() for good
        self._note(FaultBegan(fault))
        match fault.kind:
            case MemberFaultKind.CRASH:
                self._end("crashed")
            case MemberFaultKind.PAUSE:
                self._pause(fault.duration_ms or 0, self._resume, "paused")
            case MemberFaultKind.NO_POLL:
                self._timers.run_when_resumed(lambda: self._process.stay_outside_poll(fault.duration_ms or 0))
            case MemberFaultKind.LEAVE:
                asyncio.get_running_loop().call_soon(self._timers.run_when_resumed, self._leave)
            case MemberFaultKind.ZOMBIE:
                self.is_zombie = True
                self._process.become_zombie()
                self._pause(2 * self._settings.session_timeout_ms, self._resume_as_zombie, "zombie")
            case MemberFaultKind.RESTART:
                self._begin_restart(fault.duration_ms or 0)
            case MemberFaultKind.RESTART_AS_STRANGER:
                self._settings = replace(self._settings, group_instance_id=None)
                self._begin_restart(fault.duration_ms or 0)

    def end_fault(self, kind: MemberFaultKind) -> None:
        """End a lasting fault, if it has begun."""
        self._injector.end_fault(kind)

    def resume(self) -> None:
        """End a pause early. It has no effect on a member that is not paused."""
        if self._condition == "paused":
            self._pause_count += 1
            self._resume()

    def _pause(self, duration_ms: int, then: Callable[[], None], condition: str) -> None:
        """Pause the member, show it as `condition`, and call `then` after the duration, unless another pause or restart
        has begun meanwhile."""
        self._condition = condition
        self._pause_count += 1
        count = self._pause_count
        self._timers.pause(duration_ms, lambda: then() if count == self._pause_count else None)

    def _resume(self) -> None:
        self._note(FaultEnded(self._condition))
        self._condition = ""
        self._timers.resume()

    def _begin_restart(self, duration_ms: int) -> None:
        """End the process, which sends nothing more, and start the next one after the duration."""
        self._process.stop()
        self._pause(duration_ms, self._restart, "restarting")

    def _restart(self) -> None:
        """Replace the process of the member by a new one, with another member id. A static member keeps its instance
        id."""
        self._note(FaultEnded(self._condition))
        self._condition, self.is_zombie = "", False
        self._timers.resume_without_backlog()
        self._process.stop()
        self._application.clear()
        self._transport.disconnect_coordinator()
        self._process = self._new_process()
        self._process.begin()

    def _resume_as_zombie(self) -> None:
        self._note(FaultEnded(self._condition))
        self._timers.resume_without_backlog()
        self._process.resume_as_zombie()

    def _leave(self) -> None:
        self._process.leave()

    def _end(self, condition: str) -> None:
        self._condition = condition
        self._process.stop()
        self._timers.cancel_all()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
