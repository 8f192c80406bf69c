"""Injects the faults of a running member: when they start, and what they do to its assignors and its SyncGroup."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from regroup.assignors.interface import Assignor
from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.faults import (
    FailingAssignor,
    MemberFault,
    MemberFaultKind,
    MemberMilestone,
    assign_one_partition_twice,
    drop_last_assignment,
)
from regroup.members.runtime.timers import MemberTimers
from regroup.protocol.messages.group import SyncGroupRequest


class FaultInjector:
    """Keeps the lasting faults that have begun, and calls `inject` with any other fault when it is triggered.

    `on_lasting` is called when a lasting fault begins.
    """

    def __init__(
        self,
        faults: Iterable[MemberFault],
        timers: MemberTimers,
        inject: Callable[[MemberFault], None],
        on_lasting: Callable[[MemberFault], None] = lambda fault: None,
    ) -> None:
        self._pending = list(faults)
        self._active: dict[MemberFaultKind, MemberFault] = {}
        self._timers = timers
        self._inject = inject
        self._on_lasting = on_lasting

    def wrap_assignors(self, assignors: Sequence[Assignor]) -> Sequence[Assignor]:
        """The assignors, each in a `FailingAssignor` if the member has the fault assignor-fails."""
        if not any(fault.kind is MemberFaultKind.ASSIGNOR_FAILS for fault in (*self._pending, *self._active.values())):
            return assignors
        return [FailingAssignor(each, lambda: MemberFaultKind.ASSIGNOR_FAILS in self._active) for each in assignors]

    def reach_milestone(self, milestone: MemberMilestone) -> None:
        """Start the pending faults that this milestone triggers, at once or after their delays."""
        triggered = [fault for fault in self._pending if fault.effective_trigger.milestone is milestone]
        self._pending = [fault for fault in self._pending if fault.effective_trigger.milestone is not milestone]
        for fault in triggered:
            if fault.effective_trigger.delay_ms:
                self._timers.call_after(fault.effective_trigger.delay_ms, partial(self.start_fault, fault))
            else:
                self.start_fault(fault)

    def start_fault(self, fault: MemberFault) -> None:
        """Start a fault now, without waiting for its trigger."""
        if fault.kind.is_lasting:
            self._active[fault.kind] = fault
            self._on_lasting(fault)
        else:
            self._inject(fault)

    def end_fault(self, kind: MemberFaultKind) -> None:
        """End a lasting fault. A request that it has delayed already stays delayed."""
        self._active.pop(kind, None)

    def delay_ms(self, kind: MemberFaultKind) -> int | None:
        """The duration in milliseconds of a lasting fault that has begun; None if no such fault has. `kind` is one of
        those that have a duration."""
        fault = self._active.get(kind) if self._active else None
        return None if fault is None else fault.duration_ms

    def send(self, request: OutgoingRequest, transmit: Callable[[OutgoingRequest], None]) -> None:
        """Transmit a request. A SyncGroup is changed, delayed or not sent if the member has such a fault."""
        if self._active and isinstance(request.message, SyncGroupRequest):
            if MemberFaultKind.NEVER_SYNC in self._active:
                return
            if MemberFaultKind.ASSIGNOR_FORGETS in self._active:
                request = replace(request, message=drop_last_assignment(request.message))
            if MemberFaultKind.ASSIGNOR_DOUBLES in self._active:
                request = replace(request, message=assign_one_partition_twice(request.message))
            if (delay_ms := self.delay_ms(MemberFaultKind.SLOW_SYNC)) is not None:
                self._timers.call_after(delay_ms, partial(transmit, request))
                return
        transmit(request)
