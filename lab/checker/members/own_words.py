"""What members say in their requests and notes, compared with what they know and with the faults that they have.

words = OwnWords()
words.on_request("anna", message)                   # the violation that this request is, or None
words.on_response("anna", message, response)        # its response; None if it has failed
words.on_note("anna", note)                         # anna reports a refusal, or a fault that begins
words.on_fetched("anna", {partition: 17})           # the committed offsets that anna has got
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.consumer.effects import ConsumerError, ConsumerErrorKind
from regroup.members.faults import MemberFaultKind
from regroup.members.runtime.notes import FaultBegan, FaultEnded, MemberNote, RequestRefused
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import MetadataRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from regroup.protocol.messages.group import HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, SyncGroupRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse

COMMITS_ALL_POSITIONS: Final = (
    "A commit of a classic member has each of its partitions for which it has fetched a committed offset, moved or not."
)
REASONS_ARE_TRUE: Final = "A member that joins because of an error has got that error in a response to that request."
REPEATS_EVERYTHING: Final = (
    "A member of the consumer protocol says everything, also what it owns, in the heartbeat that joins and in the one "
    "after an error or a lost response."
)
REFUSALS_ARE_NOTED: Final = (
    "A member whose heartbeat is refused, and a classic zombie whose commit is, reports the error before it sends "
    "anything else."
)
ASKS_FOR_ITS_TOPICS: Final = (
    "A classic member that subscribes to topics asks for their metadata, and not for that of all topics."
)
REVOKES_SOMETHING: Final = "A member of the consumer protocol that reports a revocation has partitions to revoke."
FAILS_FOR_AN_ERROR: Final = "A member fails for good only with an error that a response to it had."
NEVER_SYNCS: Final = "A member with the fault never-sync sends no SyncGroup."
OWN_WORDS_SENTENCES: Final = (
    COMMITS_ALL_POSITIONS,
    REASONS_ARE_TRUE,
    REFUSALS_ARE_NOTED,
    ASKS_FOR_ITS_TOPICS,
    REVOKES_SOMETHING,
    REPEATS_EVERYTHING,
    FAILS_FOR_AN_ERROR,
    NEVER_SYNCS,
)
UNHANDLED_RESPONSES: Final = (
    MemberFaultKind.PAUSE,
    MemberFaultKind.ZOMBIE,
    MemberFaultKind.RESTART,
    MemberFaultKind.RESTART_AS_STRANGER,
)
"""The faults during which a member handles no response."""
_FROM_A_RESPONSE: Final = (ConsumerErrorKind.GROUP, ConsumerErrorKind.FENCED)
_APIS: Final[dict[type[Message], str]] = {
    JoinGroupRequest: "JOIN_GROUP",
    SyncGroupRequest: "SYNC_GROUP",
    HeartbeatRequest: "HEARTBEAT",
    OffsetCommitRequest: "OFFSET_COMMIT",
}
_REASON: Final = re.compile(r"encountered (\w+) from (\w+) response")
_REBALANCE_FOUND_BY_COMMIT: Final = "offset commit failed since group is already rebalancing"
"""The reason that Kafka's consumer gives after a commit with the error REBALANCE_IN_PROGRESS."""


class OwnWords:
    """What the members of a run know, by name: where they have to read, and which errors they have got."""

    def __init__(self, has_pattern: Callable[[str], bool] = lambda name: False) -> None:
        self._has_pattern = has_pattern
        """Whether a member subscribes to a pattern, and so asks for all topics."""
        self._fetched: defaultdict[str, set[TopicPartition]] = defaultdict(set)
        """Partitions that a member owns, and whose committed offset it has fetched."""
        self._errors: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        """The errors that a process has got, each with the request."""
        self._codes: defaultdict[str, set[int]] = defaultdict(set)
        """The error codes in the responses to a process, whatever it had asked."""
        self._unnoted: dict[str, str] = {}
        """The errors of heartbeats, and of a zombie's commits, that members have not reported yet."""
        self._late: set[str] = set()
        """Members that pause or restart, and handle no response meanwhile, and zombies, which never do."""
        self._never_sync: set[str] = set()
        """Members whose fault it is to send no SyncGroup."""
        self._classic: set[str] = set()
        """Members that have sent JoinGroup."""
        self._has_to_repeat: set[str] = set()
        """Members of the consumer protocol whose last heartbeat was refused, or has got no response."""
        self._unjudged: set[str] = set()
        """Members of the consumer protocol, which commit the partitions that they give up alone, and zombies."""
        self._zombies: set[str] = set()
        """Classic members that commit as zombies."""

    def on_new_life(self, name: str) -> None:
        """Forget what was known of a member: its process has ended."""
        self._fetched.pop(name, None)
        self._errors.pop(name, None)
        self._codes.pop(name, None)
        self._unnoted.pop(name, None)
        for members in (
            self._classic,
            self._never_sync,
            self._late,
            self._has_to_repeat,
            self._unjudged,
            self._zombies,
        ):
            members.discard(name)

    def on_zombie(self, name: str) -> None:
        """Stop judging the commits of a member, since by the plan it is a zombie."""
        self._unjudged.add(name)

    def on_note(self, name: str, note: MemberNote) -> None:
        """Take note that a member reports a refusal, or that a fault of it begins or ends."""
        match note:
            case RequestRefused():
                self._unnoted.pop(name, None)
            case FaultBegan(fault) if fault.kind is MemberFaultKind.NEVER_SYNC:
                self._never_sync.add(name)
            case FaultBegan(fault) if fault.kind in UNHANDLED_RESPONSES:
                self._late.add(name)
            case FaultEnded(condition):
                self._late.discard(name)
                if condition == MemberFaultKind.ZOMBIE.value and name in self._classic:
                    self._zombies.add(name)

    def on_error(self, name: str, error: ConsumerError) -> MemberViolation | None:
        """Check an error that a member reports: a fatal one of its group comes from a response."""
        if not error.is_fatal or error.kind not in _FROM_A_RESPONSE or error.code in self._codes[name]:
            return None
        return MemberViolation(FAILS_FOR_AN_ERROR, f"{name} fails: {error}")

    def on_fetched(self, name: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Note the committed offsets that a member has fetched; None where there is none."""
        self._fetched[name].update(each for each, offset in offsets.items() if offset is not None)

    def on_revoked(self, name: str, partitions: Collection[TopicPartition]) -> MemberViolation | None:
        """Note that a member reports that it gives these partitions up. A member of the consumer protocol has some."""
        self.on_lost(name, partitions)
        if partitions or name in self._classic or name not in self._unjudged:
            return None
        return MemberViolation(REVOKES_SOMETHING, f"{name} reports a revocation of nothing")

    def on_lost(self, name: str, partitions: Collection[TopicPartition]) -> None:
        """Note that a member has lost these partitions."""
        self._fetched[name].difference_update(partitions)

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check what a member sends: the partitions of a commit, the reason of a JoinGroup, and that it may send it."""
        if error := self._unnoted.pop(name, None):
            return MemberViolation(REFUSALS_ARE_NOTED, f"{name} has got {error}")
        match message:
            case ConsumerGroupHeartbeatRequest():
                self._unjudged.add(name)
                return self._check_heartbeat(name, message)
            case OffsetCommitRequest() if name not in self._unjudged:
                return self._check_commit(name, message)
            case JoinGroupRequest():
                self._classic.add(name)
                if not _errors_in(message.reason or "") <= self._errors[name]:
                    return MemberViolation(REASONS_ARE_TRUE, f"{name} joins, and says: {message.reason}")
            case MetadataRequest() if message.topics is None and name in self._classic and not self._has_pattern(name):
                return MemberViolation(ASKS_FOR_ITS_TOPICS, f"{name} asks for all topics")
            case SyncGroupRequest() if name in self._never_sync:
                return MemberViolation(NEVER_SYNCS, f"{name} sends SyncGroup")
        return None

    def _check_heartbeat(self, name: str, message: ConsumerGroupHeartbeatRequest) -> MemberViolation | None:
        has_to_repeat = message.member_epoch == 0 or (message.member_epoch > 0 and name in self._has_to_repeat)
        self._has_to_repeat.discard(name)
        subscription = message.subscribed_topic_names, message.subscribed_topic_regex
        says_everything = (
            message.rebalance_timeout_ms > 0 and subscription != (None, None) and message.topic_partitions is not None
        )
        if says_everything or not has_to_repeat:
            return None
        return MemberViolation(REPEATS_EVERYTHING, f"the heartbeat of {name} in epoch {message.member_epoch} does not")

    def _check_commit(self, name: str, message: OffsetCommitRequest) -> MemberViolation | None:
        rows = [(topic.name, each) for topic in message.topics for each in topic.partitions]
        missing = self._fetched[name] - {TopicPartition(topic, each.partition_index) for topic, each in rows}
        if not missing:
            return None
        listed = ", ".join(map(str, sorted(missing)))
        return MemberViolation(COMMITS_ALL_POSITIONS, f"the commit of {name} leaves out {listed}")

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note the error in a response; None for a request that has failed."""
        code = 0 if response is None else first_error_code(response)
        if code:
            self._codes[name].add(code)
        if code and type(message) in _APIS:
            self._errors[name].add((ErrorCode.name_of(code), _APIS[type(message)]))
        if isinstance(message, ConsumerGroupHeartbeatRequest) and message.member_epoch < 0:
            return  # a member that has left ignores whether it was one, as Kafka's consumer does
        if isinstance(message, ConsumerGroupHeartbeatRequest) and (response is None or code):
            self._has_to_repeat.add(name)
        is_heartbeat = isinstance(response, HeartbeatResponse | ConsumerGroupHeartbeatResponse)
        is_commit = isinstance(response, OffsetCommitResponse) and name in self._zombies
        if code and (is_heartbeat or is_commit) and name not in self._late:
            self._unnoted[name] = ErrorCode.name_of(code)


def _errors_in(reason: str) -> set[tuple[str, str]]:
    """The error that is a reason to join, with the request that had it; none if it is another reason."""
    if reason == _REBALANCE_FOUND_BY_COMMIT:
        return {(ErrorCode.REBALANCE_IN_PROGRESS.name, "OFFSET_COMMIT")}
    found = _REASON.search(reason)
    return {(found[1], found[2])} if found else set()
