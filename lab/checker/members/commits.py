"""Commits of classic members: when one is repeated, and when not; and that a member commits at all.

commits = Commits(now_ms, paused)
commits.on_note("anna", note)                       # anna becomes a zombie
commits.on_request("anna", message)                 # the violation that this request is, or None
commits.on_response("anna", message, response)      # its response; None if it has failed
commits.on_completed("anna", change)                # anna's consumer reports that a commit is complete
commits.on_revoked("anna", partitions)              # the violation that this is, or None
"""

from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.consumer.effects import CommitCompleted, ConsumerErrorKind
from regroup.members.faults import MemberFaultKind
from regroup.members.runtime.notes import FaultBegan, MemberNote
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import JoinGroupRequest, LeaveGroupRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse

NOT_REPEATED: Final = (
    "A member whose commit is refused because of its membership sends no further commit with that member id and "
    "generation."
)
REPEATED: Final = (
    "A member that has to give up partitions repeats the commit before it, as long as it may, after an error that may "
    "be temporary."
)
COMMITS_AT_LAST: Final = (
    "A member with automatic commits that joins again has committed since it fetched committed offsets, a minute ago "
    "or more."
)
COMMIT_SENTENCES: Final = (NOT_REPEATED, REPEATED, COMMITS_AT_LAST)
OF_THE_MEMBERSHIP: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}
)
SHORTEST_TIME_MS: Final = 4_000
"""A commit before partitions are given up is repeated for so long at least: a process that is closed gives it 5 s, a
rebalance `max.poll.interval.ms`. A backoff of up to a second may be left of that."""
LONGEST_BACKOFF_MS: Final = 1_200
"""`retry.backoff.max.ms`, 1,000 by default, which is spread by 20 %."""
COMMITS_AT_LAST_MS: Final = 60_000
"""Longer than a request may be under way, and than any interval of automatic commits in a plan."""

CommitOffsets: TypeAlias = frozenset[tuple[TopicPartition, int]]
"""The offsets of a commit, which name it."""


@dataclass(slots=True)
class _Process:
    """What the requests of one process have shown."""

    is_classic: bool = False
    refused: set[tuple[str, int]] = field(default_factory=set)
    """Member ids and generations whose commits were refused because of the membership."""
    sent_ms: dict[CommitOffsets, int] = field(default_factory=dict)
    """When each commit that is not complete was sent first, by its offsets."""
    failed_ms: dict[CommitOffsets, tuple[int, int]] = field(default_factory=dict)
    """When the last commit of these offsets that has failed was sent first, and when it ended."""
    failed_early_ms: int = -1
    """When a commit that was sent a short while before ended with an error that may be temporary; -1 if none has."""
    fetched_ms: dict[TopicPartition, int] = field(default_factory=dict)
    """When the committed offset of an owned partition was fetched, if there is one, and nothing committed since."""
    overdue: str = ""
    """The partitions that were given up without a commit."""


class Commits:
    """The commits of the members of a run, by name. `now_ms` is the time of the run, `paused` are the members that
    pause, and handle no response."""

    def __init__(self, now_ms: Callable[[], int], paused: Container[str]) -> None:
        self._now_ms, self._paused = now_ms, paused
        self._processes: dict[str, _Process] = {}
        self._unjudged: set[str] = set()
        """Zombies, which commit in any case."""
        self._without_auto_commit: set[str] = set()

    def on_new_life(self, name: str) -> None:
        """Forget what was known of a member: its process has ended. A zombie commits on beside its next process."""
        self._processes.pop(name, None)

    def add_member(self, name: str, *, auto_commits: bool) -> None:
        """Begin to check a member; `auto_commits` says whether its consumer commits by itself."""
        (self._without_auto_commit.discard if auto_commits else self._without_auto_commit.add)(name)

    def on_note(self, name: str, note: MemberNote) -> None:
        """Note a zombie, which is not judged any more."""
        if isinstance(note, FaultBegan) and note.fault.kind is MemberFaultKind.ZOMBIE:
            self._unjudged.add(name)

    def _process(self, name: str) -> _Process:
        return self._processes.setdefault(name, _Process())

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check a commit by the ones that were refused before, and a JoinGroup by the commits before it."""
        process = self._process(name)
        match message:
            case OffsetCommitRequest():
                self._note_sent(process, offsets_of(message))
                process.fetched_ms.clear()
                sender = message.member_id, message.generation_id_or_member_epoch
                if sender in process.refused and name not in self._unjudged:
                    return MemberViolation(NOT_REPEATED, f"{name} commits again as {sender[0]} in {sender[1]}")
            case JoinGroupRequest():
                process.is_classic = True
                overdue, process.overdue = process.overdue, ""
                if overdue and name not in self._without_auto_commit:
                    return MemberViolation(COMMITS_AT_LAST, f"{name} has committed nothing of {overdue}")
            case LeaveGroupRequest():
                process.overdue = ""
        return None

    def _note_sent(self, process: _Process, offsets: CommitOffsets) -> None:
        """Note since when these offsets are being committed.

        Several commits of the same offsets may be under way, and fail together. What is sent within a backoff of that
        may repeat any of them, also one that was sent earlier than those that are complete.
        """
        sent_ms, ended_ms = process.failed_ms.pop(offsets, (0, -LONGEST_BACKOFF_MS - 1))
        now_ms = self._now_ms()
        process.sent_ms.setdefault(offsets, sent_ms if now_ms - ended_ms <= LONGEST_BACKOFF_MS else now_ms)

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note a commit that is refused because of the membership; None for a request that has failed.

        As in Java, the first error of a response decides: a topic that is unknown lets the member repeat the commit,
        whatever other partitions are refused for.
        """
        process = self._process(name)
        if not isinstance(message, OffsetCommitRequest) or response is None:
            return
        if not process.is_classic or name in self._paused:
            return
        if first_error_code(response) in OF_THE_MEMBERSHIP:
            process.refused.add((message.member_id, message.generation_id_or_member_epoch))

    def on_completed(self, name: str, change: CommitCompleted) -> None:
        """Note how a commit has ended."""
        process = self._process(name)
        offsets = frozenset(change.offsets.items())
        sent_ms = process.sent_ms.pop(offsets, None)
        if sent_ms is not None and change.error is not None:
            process.failed_ms[offsets] = sent_ms, self._now_ms()
        is_temporary = change.error is not None and change.error.kind is ConsumerErrorKind.RETRIABLE_COMMIT_FAILED
        if is_temporary and sent_ms is not None and self._now_ms() - sent_ms < SHORTEST_TIME_MS:
            process.failed_early_ms = self._now_ms()

    def on_unsubscribe(self, name: str) -> None:
        """Note that the application of a member unsubscribes: as in Java, it gives up its partitions without a
        commit."""
        self._process(name).fetched_ms.clear()

    def on_fetched(self, name: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Note the committed offsets that a member has fetched; None where there is none."""
        now_ms = self._now_ms()
        self._process(name).fetched_ms.update({each: now_ms for each, offset in offsets.items() if offset is not None})

    def on_lost(self, name: str, partitions: Collection[TopicPartition]) -> None:
        """Note that a member has lost these partitions."""
        for each in partitions:
            self._process(name).fetched_ms.pop(each, None)

    def on_revoked(self, name: str, partitions: Collection[TopicPartition]) -> MemberViolation | None:
        """Check the commit before a member gives up these partitions: one that failed was repeated."""
        process = self._process(name)
        since_ms = self._now_ms() - COMMITS_AT_LAST_MS
        overdue = [each for each in partitions if process.fetched_ms.get(each, since_ms) < since_ms]
        process.overdue = ", ".join(map(str, sorted(overdue)))
        self.on_lost(name, partitions)
        if not partitions or process.failed_early_ms != self._now_ms() or name in self._unjudged:
            return None
        return MemberViolation(REPEATED, f"{name} gives partitions up as soon as its commit has failed")


def offsets_of(message: OffsetCommitRequest) -> CommitOffsets:
    """The offsets that a request commits."""
    return frozenset(
        (TopicPartition(topic.name, each.partition_index), each.committed_offset)
        for topic in message.topics
        for each in topic.partitions
    )


def accepted_offsets(message: OffsetCommitRequest, response: OffsetCommitResponse | None) -> dict[TopicPartition, int]:
    """The offsets of a commit that its response accepts; none if the request has failed."""
    rows = [(topic.name, each) for topic in response.topics for each in topic.partitions] if response else []
    accepted = {(topic, each.partition_index) for topic, each in rows if not each.error_code}
    return {
        TopicPartition(topic.name, each.partition_index): each.committed_offset
        for topic in message.topics
        for each in topic.partitions
        if (topic.name, each.partition_index) in accepted
    }
