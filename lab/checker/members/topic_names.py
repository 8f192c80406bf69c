"""What a member of the consumer protocol does next that is assigned topics whose names it does not know, or the
partitions that it has under new topic ids.

names = AssignedTopicNames(now_ms, paused)
names.add_member("anna")
names.on_response("anna", message, response)   # an assignment, or names of topics; None for a request that has failed
names.on_request("anna", message)              # the violation that this request is, or None
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import MetadataResponse
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)

ASKS_ONCE_MORE: Final = (
    "A member of the consumer protocol that reads no records, and is assigned topics whose names it does not know, "
    "sends its next heartbeat as soon as it has got a Metadata response."
)
REPORTS_NEW_IDS: Final = (
    "If a topic was deleted and created again, and a member of the consumer protocol that reads no records is assigned "
    "the same partitions under the new topic id, it reports these with its next heartbeat."
)
TOPIC_NAME_SENTENCES: Final = (ASKS_ONCE_MORE, REPORTS_NEW_IDS)
SLACK_MS: Final = 2
"""Times of members and of the run are rounded to milliseconds."""


@dataclass(slots=True)
class _Names:
    """What one process knows of topics."""

    known: dict[bytes, str] = field(default_factory=dict)
    """Names of topics, by their ids."""
    reported: set[tuple[bytes, int]] = field(default_factory=set)
    """The partitions that it has reported last, by topic id and number."""
    to_report: set[tuple[bytes, int]] | None = None
    """Its last assignment, if that has these partitions under other topic ids."""
    lacks_some: bool = False
    """Whether its last assignment had topics whose names it did not know, and has learnt none since."""
    heartbeats: set[int] = field(default_factory=set)
    """Identities of its heartbeats without a response."""
    due_ms: int | None = None

    def named(self, partitions: set[tuple[bytes, int]]) -> set[tuple[str | None, int]]:
        """The same partitions by the names of their topics, None for one that the member does not know."""
        return {(self.known.get(topic_id), number) for topic_id, number in partitions}


class AssignedTopicNames:
    """The members of a run that have the consumer protocol and read no records, by name.

    The fetcher of a member that reads records asks for names as well, and nothing in a response shows whose it is.
    `now_ms` is the time of the run, `paused` are the members that pause.
    """

    def __init__(self, now_ms: Callable[[], int], paused: Container[str]) -> None:
        self._now_ms, self._paused = now_ms, paused
        self._members: dict[str, _Names] = {}

    def add_member(self, name: str) -> None:
        """Begin to check the process of a member."""
        self._members[name] = _Names()

    def on_new_life(self, name: str) -> None:
        """Forget what was known of a member: its process has ended, and the next one knows nothing."""
        if name in self._members:
            self._members[name] = _Names()

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check when a member sends a heartbeat, and that it reports partitions under new topic ids."""
        names = self._members.get(name)
        if names is None or not isinstance(message, ConsumerGroupHeartbeatRequest):
            return None
        names.heartbeats.add(id(message))
        due, names.to_report = names.to_report, None
        reported = None if message.topic_partitions is None else _partitions(message.topic_partitions)
        if reported is not None:
            names.reported = reported
        if due is not None and reported != due and message.member_epoch > 0:
            return MemberViolation(REPORTS_NEW_IDS, f"the heartbeat of {name} reports others, or nothing")
        due_ms, names.due_ms = names.due_ms, None
        if due_ms is None or (late_ms := self._now_ms() - due_ms) <= SLACK_MS:
            return None
        return MemberViolation(ASKS_ONCE_MORE, f"{name} sends it {late_ms} ms later")

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note what a member learns.

        After a request that has failed or was refused it may look for its coordinator, join again, or end.
        """
        names = self._members.get(name)
        if names is None:
            return
        if id(message) in names.heartbeats:
            names.heartbeats.discard(id(message))
        elif isinstance(message, ConsumerGroupHeartbeatRequest):
            return  # of a former process
        match response:
            case MetadataResponse():
                names.known.update({each.topic_id: each.name for each in response.topics if each.name})
                if names.lacks_some and not names.heartbeats and name not in self._paused:
                    names.due_ms = self._now_ms()
                names.lacks_some = False
            case ConsumerGroupHeartbeatResponse(error_code=0, assignment=assignment):
                if assignment is not None:
                    assigned = _partitions(assignment.topic_partitions)
                    names.lacks_some = any(each.topic_id not in names.known for each in assignment.topic_partitions)
                    has_new_ids = (
                        not names.lacks_some
                        and assigned != names.reported
                        and names.named(assigned) == names.named(names.reported)
                    )
                    names.to_report = assigned if has_new_ids else None
            case None | ConsumerGroupHeartbeatResponse():
                names.lacks_some, names.due_ms = False, None


def _partitions(topics: Iterable[ConsumerGroupTopicPartitions]) -> set[tuple[bytes, int]]:
    return {(topic.topic_id, number) for topic in topics for number in topic.partitions}
