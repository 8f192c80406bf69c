"""What one run has shown, as values: exchanges, lines of the client program, and events of the group.

All times are milliseconds after the fault hit; what came before it has negative times.
"""

from typing import Any, Final

import msgspec

GROUP_APIS: Final = (
    "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch",
)  # fmt: skip
NO_ANSWER: Final = "no answer"


class ObservedRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request about the group with its response, or a run of equal heartbeats."""

    at_ms: int
    answered_at_ms: int | None = None
    api: str
    version: int
    connection: str
    answer: str = "NONE"
    fault: str = ""
    """What the fault rule did to it."""
    member_id: str = ""
    generation: int | None = None
    offsets: dict[str, int] = {}
    """What an OffsetCommit commits: partition and offset."""
    count: int = 1
    last_at_ms: int | None = None
    """When the last of a run of heartbeats came."""

    @property
    def end_ms(self) -> int:
        """When it was answered, or else when it came."""
        return self.at_ms if self.answered_at_ms is None else self.answered_at_ms

    @property
    def latest_ms(self) -> int:
        """When it came, of a run the last one."""
        return self.at_ms if self.last_at_ms is None else self.last_at_ms

    @property
    def is_success(self) -> bool:
        return self.answer == "NONE" and not self.fault


class ProgramLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the client program: `assigned`, `revoked`, `lost`, `raised`, `read-again`, `skipped`, `exited` …"""

    at_ms: int
    what: str
    details: dict[str, Any] = {}


class ObservedEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of the group: its type, what led to it, and the offsets that it commits."""

    at_ms: int
    type: str
    cause: str = ""
    offsets: dict[str, int] = {}


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one client against one fault."""

    client: str
    fault: str
    version: str
    """Of the client library."""
    runtime: str
    settings: dict[str, Any]
    ended_at_ms: int
    hit: int
    """The index of the request that the fault hit."""
    requests: list[ObservedRequest]
    lines: list[ProgramLine]
    events: list[ObservedEvent]
