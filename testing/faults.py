"""Fault rules in tests: the fields of a rule as keyword arguments, and the handle of a rule in force. Examples run with
`kafka`.
"""

from contextlib import suppress
from typing import Self, TypedDict

from regroup.server.faults.gate import ActiveFault, FaultRules
from regroup.server.faults.rule import CloseKind, CutKind, DropKind, FalseAnswer, FaultRule
from regroup.testing.clock.loop_thread import LoopThread
from regroup.testing.errors import EmulatorDown
from regroup.testing.groups.changes import Changes
from regroup.testing.groups.waiting import wait_for_change


class FaultConditions(TypedDict, total=False):
    """Which requests a rule matches: a request must fulfil all conditions that are given. FaultRule describes them."""

    version: int
    group: str
    member_id: str
    instance_id: str
    client_id: str
    topic: str
    partitions: tuple[int, ...]
    broker: int
    generation: int
    skip: int
    times: int
    chance: float
    seed: int
    expires_after_s: float


class FaultOptions(FaultConditions, total=False):
    """Which requests a rule matches, and what happens to them. FaultRule describes the fields."""

    on: str | tuple[str, ...]
    delay_s: float
    answer: int
    partition_error: int
    drop: DropKind
    close: CloseKind
    cut: CutKind
    cut_at: float
    false_answer: FalseAnswer
    repeat: bool
    hold: bool
    answer_delay_s: float
    throttle_ms: int


class AsyncFault:
    """The handle of a fault rule in force, from `AsyncEmulator.fault`. In `async with` the rule is removed at the end
    of the block."""

    def __init__(self, rules: FaultRules, fault: ActiveFault, changes: Changes, wait_timeout_s: float) -> None:
        self._rules = rules
        self._fault = fault
        self._changes = changes
        self._wait_timeout_s = wait_timeout_s

    @property
    def rule(self) -> FaultRule:
        """The fault rule as a value."""
        return self._fault.rule

    @property
    def number(self) -> int:
        """The number of the rule: rules count from 1 in the order in which they are added."""
        return self._fault.number

    @property
    def hits(self) -> int:
        """How many requests the rule has hit."""
        return self._fault.hits

    @property
    def matched(self) -> int:
        """How many requests fulfilled the conditions of the rule, also those that it let pass; none counts after its
        last hit."""
        return self._fault.matched

    @property
    def is_active(self) -> bool:
        """Whether the rule is in force: it was not removed and has not expired."""
        return self._rules.is_active(self._fault)

    async def wait_hits(self, hits: int = 1, *, timeout_s: float | None = None) -> None:
        timeout_s = self._wait_timeout_s if timeout_s is None else timeout_s
        if await wait_for_change(self._changes, lambda: self.hits >= hits or None, timeout_s) is None:
            counts = f"{self.hits} hits in {timeout_s:g} s, not {hits}; {self._fault.matched} requests have matched"
            raise TimeoutError(f"{counts}: {self._fault.rule}")

    async def release(self) -> None:
        self._fault.release()

    async def remove(self) -> None:
        self._rules.remove(self._fault)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.remove()


class FaultHandle:
    """The handle of a fault rule in force, from `Emulator.fault` or `Emulator.hold`. In `with` the rule is removed at
    the end of the block.

    >>> with kafka.fault(on="Heartbeat", client_id="first", drop="request") as silence:
    ...     silence.hits
    0
    """

    def __init__(self, thread: LoopThread, fault: AsyncFault) -> None:
        self._thread = thread
        self._fault = fault

    @property
    def hits(self) -> int:
        """How many requests the rule has hit.

        >>> kafka.fault(on="Metadata", delay_s=0.1).hits
        0
        """
        return self._fault.hits

    @property
    def matched(self) -> int:
        """How many requests fulfilled the conditions of the rule, also those that it let pass; none counts after its
        last hit.

        >>> from regroup.protocol.messages.cluster import ApiVersionsRequest
        >>> with kafka.fault(on="ApiVersions", throttle_ms=20, skip=1) as rule, kafka.connect() as connection:
        ...     throttled = [connection.send(ApiVersionsRequest(), version=1).throttle_time_ms for _ in range(3)]
        >>> throttled, rule.matched, rule.hits
        ([0, 20, 20], 3, 2)
        """
        return self._fault.matched

    @property
    def rule(self) -> FaultRule:
        """The fault rule as a value.

        >>> kafka.hold("SyncGroup", client_id="first").rule.client_id
        'first'
        """
        return self._fault.rule

    @property
    def number(self) -> int:
        """The number of the rule: rules count from 1 in the order in which they are added.

        >>> kafka.fault(on="Metadata", delay_s=0.1).number, kafka.hold("SyncGroup").number
        (1, 2)
        """
        return self._fault.number

    @property
    def is_active(self) -> bool:
        """Whether the rule is in force: it was not removed and has not expired. A rule that has hit `times` requests is
        still in force.

        >>> with kafka.hold("SyncGroup") as held:
        ...     held.is_active
        True
        >>> held.is_active
        False
        """
        return self._fault.is_active

    def wait_hits(self, hits: int = 1, *, timeout_s: float | None = None) -> None:
        """Wait until the rule has hit this many requests. Raises TimeoutError.

        >>> from regroup.protocol.messages.cluster import ApiVersionsRequest
        >>> with kafka.hold("ApiVersions", client_id="anna") as held, kafka.connect("anna") as connection:
        ...     response = connection.post(ApiVersionsRequest(), version=0)
        ...     held.wait_hits(1)
        """
        self._thread.run(self._fault.wait_hits(hits, timeout_s=timeout_s))

    def release(self) -> None:
        """Let the requests go on that the rule holds; later ones are held again.

        >>> from regroup.protocol.messages.cluster import ApiVersionsRequest
        >>> with kafka.hold("ApiVersions", client_id="anna") as held, kafka.connect("anna") as connection:
        ...     response = connection.post(ApiVersionsRequest(), version=0)
        ...     held.wait_hits(1)
        ...     held.release()
        ...     response.result(timeout=5).error_code
        0
        """
        self._thread.run(self._fault.release())

    def remove(self) -> None:
        """Remove the rule, and let the requests go on that it holds. A second call has no effect.

        >>> kafka.hold("SyncGroup").remove()
        """
        with suppress(EmulatorDown):
            self._thread.run(self._fault.remove())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()
