"""Partitions that a classic member owns, and whose committed offsets it has yet to fetch: it keeps asking for them.

unread = UnreadPartitions(now_ms)
unread.add_member("anna", stay)                  # stay() says when anna's application was last outside poll()
unread.on_assigned("anna", [partition])          # anna has got the partition
unread.on_fetched("anna", [partition])           # anna knows its committed offset, or that there is none
unread.on_given_up("anna", [partition])
unread.on_request("anna", message)               # the violation that this request shows, or None
unread.on_response("anna", message)
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.runtime.application import PollStay
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.group import HeartbeatRequest, JoinGroupRequest
from regroup.protocol.messages.offsets import OffsetFetchRequest

ASKS_FOR_OFFSETS: Final = (
    "A classic member that knows its coordinator, and whose application is inside poll(), asks for the committed "
    "offsets of all partitions that it owns within 10 s, and again until it has them."
)
LIMIT_MS: Final = 10_000
"""More than `retry.backoff.ms`, after which a member repeats a request that was refused."""


@dataclass(slots=True)
class _Member:
    """What one process owns and has asked for; `stay()` says when its application was last outside poll()."""

    stay: Callable[[], PollStay | None]
    unread: set[TopicPartition] = field(default_factory=set)
    open_fetches: set[int] = field(default_factory=set)
    """The OffsetFetch requests without a response, by identity."""
    since_ms: int = 0
    """When it last asked, joined, looked for its coordinator, got partitions, or was interrupted."""


class UnreadPartitions:
    """The classic members of a run, by name. `now_ms` is the time of the run."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._members: dict[str, _Member] = {}

    def add_member(self, name: str, stay: Callable[[], PollStay | None]) -> None:
        """Begin to check a member."""
        self._members[name] = _Member(stay, since_ms=self._now_ms())

    def on_new_life(self, name: str) -> None:
        """Forget what the process of a member owned: it has ended."""
        if member := self._members.get(name):
            self.add_member(name, member.stay)

    def on_interruption(self, name: str) -> None:
        """Note that a member does something else for a while: it pauses, goes on, or has a fault."""
        if member := self._members.get(name):
            member.since_ms = self._now_ms()

    def on_assigned(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        """Note that a member has got these partitions."""
        if member := self._members.get(name):
            member.unread.update(partitions)
            member.since_ms = self._now_ms()

    def on_fetched(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        """Note that a member knows the committed offsets of these partitions, or that there are none."""
        if member := self._members.get(name):
            member.unread.difference_update(partitions)

    def on_given_up(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        """Note that a member owns these partitions no more."""
        self.on_fetched(name, partitions)

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check a heartbeat: by then the member has asked for all offsets that it does not know."""
        member, now_ms = self._members.get(name), self._now_ms()
        if member is None:
            return None
        if isinstance(message, OffsetFetchRequest):
            member.open_fetches.add(id(message))
        if isinstance(message, OffsetFetchRequest | JoinGroupRequest | FindCoordinatorRequest):
            member.since_ms = now_ms
        if not isinstance(message, HeartbeatRequest) or not member.unread or member.open_fetches:
            return None
        stay = member.stay()
        inside_since_ms = member.since_ms if stay is None else now_ms if stay.back_ms is None else stay.back_ms
        waited_ms = now_ms - max(member.since_ms, inside_since_ms)
        if waited_ms <= LIMIT_MS:
            return None
        member.since_ms = now_ms
        partitions = ", ".join(sorted(map(str, member.unread)))
        return MemberViolation(ASKS_FOR_OFFSETS, f"{name} has not asked for those of {partitions} for {waited_ms} ms")

    def on_response(self, name: str, message: Message) -> None:
        """Note that a request has its response, or has failed."""
        member = self._members.get(name)
        if member is None:
            return
        if id(message) in member.open_fetches or isinstance(message, FindCoordinatorRequest):
            member.open_fetches.discard(id(message))
            member.since_ms = self._now_ms()
