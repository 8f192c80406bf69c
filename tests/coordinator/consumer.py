"""Somebody who wants to be in the group of a story."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regroup.coordinator import commands as c
from regroup.coordinator.group import Protocol
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.errors import ErrorCode
from tests.coordinator.stage import GROUP, Request, Stage


@dataclass
class Consumer:
    """Somebody who wants to be in the group, and knows of it what it was told."""

    stage: Stage
    name: str
    version: int = 9
    """Of its JoinGroup."""
    instance_id: str | None = None
    protocol_type: str = "consumer"
    protocols: tuple[str, ...] = ("range", "roundrobin")
    topics: tuple[str, ...] = ("foo",)
    metadata: bytes | None = None
    """In place of a subscription to the topics."""
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    client_id: str = "c"
    client_host: str = "/10.0.0.7"
    id: str = ""
    generation: int = -1
    lives: int = field(default=1, repr=False)
    joined: Any = field(default=None, repr=False)
    """The last JoinGroup answer without an error."""

    def new_id(self) -> str:
        return self.name if self.lives == 1 else f"{self.name}-{self.lives}"

    def offers(self) -> tuple[Protocol, ...]:
        metadata = encode_subscription(Subscription(3, self.topics)) if self.metadata is None else self.metadata
        return tuple(Protocol(name, metadata) for name in self.protocols)

    def asks_to_join(self, **fields: Any) -> Request:
        """One JoinGroup, with the id it has, if any."""
        usual: dict[str, Any] = {
            "group_id": GROUP,
            "at_ms": self.stage.now_ms,
            "member_id": self.id,
            "new_member_id": self.new_id(),
            "group_instance_id": self.instance_id,
            "client_id": self.client_id,
            "client_host": self.client_host,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "protocol_type": self.protocol_type,
            "protocols": self.offers(),
            "can_be_asked_to_return": self.version >= 4,
            "can_skip_assignment": self.version >= 9,
        }
        return self.stage.tell(c.JoinGroup(**usual | fields), self._hears_of_joining)

    def joins(self, **fields: Any) -> Request:
        """JoinGroup, and once more if it was asked to return with an id."""
        asked = self.asks_to_join(**fields)
        if not asked.is_parked and asked.code is ErrorCode.MEMBER_ID_REQUIRED:
            return self.asks_to_join(**fields)
        return asked

    def _hears_of_joining(self, answer: Any) -> None:
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.id = answer.member_id
        if answer.error_code == ErrorCode.NONE:
            self.joined, self.generation = answer, answer.generation_id

    @property
    def leads(self) -> bool:
        return self.joined is not None and self.joined.leader == self.id

    def restarts(self) -> "Consumer":
        """A new process under the same instance id, if any: it knows nothing. Gives back the old one, a zombie now."""
        zombie = Consumer(**{name: getattr(self, name) for name in self.__dataclass_fields__})
        self.id, self.generation, self.joined, self.lives = "", -1, None, self.lives + 1
        return zombie

    def syncs(self, shares: Mapping[str, bytes] | None = None, **fields: Any) -> Request:
        """SyncGroup; a leader gives everybody `share of <member id>` unless told otherwise."""
        if shares is None and self.leads and not self.joined.skip_assignment:
            shares = {each.member_id: f"share of {each.member_id}".encode() for each in self.joined.members}
        usual = self._as_member() | {
            "protocol_type": self.protocol_type,
            "protocol_name": self.joined.protocol_name if self.joined else None,
            "assignment": shares or {},
        }
        return self.stage.tell(c.SyncGroup(**usual | fields))

    def beats(self, **fields: Any) -> Request:
        return self.stage.tell(c.Heartbeat(**self._as_member() | fields))

    def leaves(self, reason: str = "") -> Request:
        leaving = (c.Leaving(self.id, self.instance_id, reason),)
        return self.stage.tell(c.LeaveGroup(group_id=GROUP, at_ms=self.stage.now_ms, members=leaving))

    def commits(self, *offsets: tuple[str, int, int], **fields: Any) -> Request:
        """(topic, partition, offset); foo-0 at 100 if nothing is said."""
        return self.stage.tell(
            commit_command(self.stage.now_ms, offsets or (("foo", 0, 100),), self._as_member() | fields)
        )

    def _as_member(self) -> dict[str, Any]:
        """What every request of a member begins with."""
        return {
            "group_id": GROUP,
            "at_ms": self.stage.now_ms,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
        }


def syncs(consumers: list[Consumer]) -> None:
    """Everybody sends SyncGroup, the leader first."""
    for consumer in sorted(consumers, key=lambda each: not each.leads):
        consumer.syncs()


def commit_command(at_ms: int, offsets: Iterable[tuple[str, int, int]], about: Mapping[str, Any]) -> c.CommitOffsets:
    usual: dict[str, Any] = {
        "group_id": GROUP,
        "at_ms": at_ms,
        "offsets": tuple(c.OffsetToCommit(topic, number, offset) for topic, number, offset in offsets),
    }
    return c.CommitOffsets(**usual | dict(about))
