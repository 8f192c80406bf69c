"""What members say in their requests, compared with what they know: offsets in commits, and reasons for joining.

words = OwnWords()
words.on_request("anna", message)                   # the violation that this request is, or None
words.on_response("anna", message, response)        # its response; None if it has failed
words.on_fetched("anna", {partition: 17})           # the committed offsets that anna has got
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest

COMMITS_ALL_POSITIONS: Final = (
    "A commit of a classic member has each of its partitions for which it has fetched a committed offset, moved or not."
)
REASONS_ARE_TRUE: Final = "A member that joins because of an error has got that error in a response to that request."
OWN_WORDS_SENTENCES: Final = (COMMITS_ALL_POSITIONS, REASONS_ARE_TRUE)
_APIS: Final[dict[type[Message], str]] = {
    JoinGroupRequest: "JOIN_GROUP",
    SyncGroupRequest: "SYNC_GROUP",
    HeartbeatRequest: "HEARTBEAT",
    OffsetCommitRequest: "OFFSET_COMMIT",
}
_REASON: Final = re.compile(r"encountered (\w+) from (\w+) response")


class OwnWords:
    """What the members of a run know, by name: where they have to read, and which errors they have got."""

    def __init__(self) -> None:
        self._fetched: defaultdict[str, set[TopicPartition]] = defaultdict(set)
        """Partitions that a member owns, and whose committed offset it has fetched."""
        self._errors: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        """The errors that a process has got, each with the request."""
        self._unjudged: set[str] = set()
        """Members of the consumer protocol, which commit the partitions that they give up alone, and zombies."""

    def on_new_life(self, name: str) -> None:
        """Forget what was known of a member: its process has ended."""
        self._fetched.pop(name, None)
        self._errors.pop(name, None)
        self._unjudged.discard(name)

    def on_zombie(self, name: str) -> None:
        """Stop judging the commits of a member, since by the plan it is a zombie."""
        self._unjudged.add(name)

    def on_fetched(self, name: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Note the committed offsets that a member has fetched; None where there is none."""
        self._fetched[name].update(each for each, offset in offsets.items() if offset is not None)

    def on_owner_change(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        """Note that a member does not own these partitions any more."""
        self._fetched[name].difference_update(partitions)

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check the partitions of a commit, and the reason of a JoinGroup."""
        if isinstance(message, ConsumerGroupHeartbeatRequest):
            self._unjudged.add(name)
        elif isinstance(message, OffsetCommitRequest) and name not in self._unjudged:
            rows = [(topic.name, each) for topic in message.topics for each in topic.partitions]
            missing = self._fetched[name] - {TopicPartition(topic, each.partition_index) for topic, each in rows}
            if missing:
                listed = ", ".join(map(str, sorted(missing)))
                return MemberViolation(COMMITS_ALL_POSITIONS, f"the commit of {name} leaves out {listed}")
        elif isinstance(message, JoinGroupRequest):
            found = _REASON.search(message.reason or "")
            if found and (found[1], found[2]) not in self._errors[name]:
                return MemberViolation(REASONS_ARE_TRUE, f"{name} joins, and says: {message.reason}")
        return None

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note the error in a response; None for a request that has failed."""
        if response is not None and type(message) in _APIS and (code := first_error_code(response)):
            self._errors[name].add((ErrorCode.name_of(code), _APIS[type(message)]))
