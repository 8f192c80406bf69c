"""What a member does before it leaves its group by itself: it commits, and gives its partitions up.

closed = ClosedMembers(now_ms)
closed.add_member("ben", auto_commits=True)
closed.on_record("ben", partition, 17)                   # ben has processed a record
closed.on_change("ben", change)                          # his consumer reports it: the violation, or None
closed.on_request("ben", message)                        # ben sends a request: the violation that this is, or None
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from regroup.lab.checker.members.commits import offsets_of
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.lab.checker.members.poll_timeouts import REASONS_OF_CALLS, ROUNDING_MS
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerError,
    LeftGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.faults import MemberFaultKind
from regroup.members.runtime.notes import FaultBegan, MemberNote
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.message import Message
from regroup.protocol.messages.group import LeaveGroupRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest

GIVES_UP_FIRST: Final = "A member that is closed or unsubscribes gives its partitions up before it leaves its group."
COMMITS_FIRST: Final = (
    "A classic member with automatic commits that is closed has committed all that it has processed before it gives "
    "its partitions up and leaves its group."
)
CLOSED_SENTENCES: Final = (GIVES_UP_FIRST, COMMITS_FIRST)
CLOSES: Final = REASONS_OF_CALLS[0]


@dataclass(slots=True)
class _Process:
    """What one process owns, and has processed and not committed."""

    owned: set[TopicPartition] = field(default_factory=set)
    uncommitted: dict[TopicPartition, int] = field(default_factory=dict)
    """The offset behind the last record that it has processed in each partition, if it has sent no commit of it."""
    left_out: tuple[TopicPartition, ...] = ()
    """The partitions among these that it gave up last."""
    gave_up_ms: int = -1


class ClosedMembers:
    """The members of a run, by name. `now_ms` is the time of the run."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._processes: dict[str, _Process] = {}
        self._without_auto_commit: set[str] = set()
        self._zombies: set[str] = set()

    def on_new_life(self, name: str) -> None:
        """Forget what was known of a member: its process has ended."""
        self._processes.pop(name, None)
        self._zombies.discard(name)

    def add_member(self, name: str, *, auto_commits: bool) -> None:
        """Begin to check a member; `auto_commits` says whether its consumer commits by itself."""
        (self._without_auto_commit.discard if auto_commits else self._without_auto_commit.add)(name)

    def on_note(self, name: str, note: MemberNote) -> None:
        """Note a zombie, which is not judged any more."""
        if isinstance(note, FaultBegan) and note.fault.kind is MemberFaultKind.ZOMBIE:
            self._zombies.add(name)

    def on_record(self, name: str, partition: TopicPartition, offset: int) -> None:
        """Note that a member has processed a record."""
        self._process(name).uncommitted[partition] = offset + 1

    def on_change(self, name: str, change: ConsumerChange | ConsumerError) -> MemberViolation | None:
        """Note which partitions a member has got, given up or lost. When it leaves by a call of its application, it
        must have none."""
        process = self._process(name)
        match change:
            case PartitionsAssigned(partitions):
                process.owned.update(partitions)
            case PartitionsRevoked(partitions):
                process.left_out = tuple(each for each in partitions if each in process.uncommitted)
                process.gave_up_ms = self._now_ms()
                self._drop(process, partitions)
            case PartitionsLost(partitions):
                self._drop(process, partitions)
            case LeftGroup(reason) if reason in REASONS_OF_CALLS and process.owned and name not in self._zombies:
                return MemberViolation(GIVES_UP_FIRST, f"{name} leaves, and has {_listed(process.owned)}")
        return None

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Note a commit, and check the commits before a LeaveGroup because of close()."""
        process = self._process(name)
        if isinstance(message, OffsetCommitRequest):
            for partition, offset in offsets_of(message):
                if process.uncommitted.get(partition, offset + 1) <= offset:
                    del process.uncommitted[partition]
        elif isinstance(message, LeaveGroupRequest) and name not in self._zombies:
            return self._check_leave(name, process, {each.reason for each in message.members})
        return None

    def _check_leave(self, name: str, process: _Process, reasons: set[str | None]) -> MemberViolation | None:
        has_just_given_up = self._now_ms() - process.gave_up_ms <= ROUNDING_MS
        if CLOSES in reasons and has_just_given_up and process.left_out and name not in self._without_auto_commit:
            return MemberViolation(COMMITS_FIRST, f"{name} leaves, and has not committed {_listed(process.left_out)}")
        return None

    def _process(self, name: str) -> _Process:
        return self._processes.setdefault(name, _Process())

    @staticmethod
    def _drop(process: _Process, partitions: tuple[TopicPartition, ...]) -> None:
        for each in partitions:
            process.owned.discard(each)
            process.uncommitted.pop(each, None)


def _listed(partitions: set[TopicPartition] | tuple[TopicPartition, ...]) -> str:
    return ", ".join(map(str, sorted(partitions)))
