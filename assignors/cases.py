"""Cases as JSON: an assignor, and one rebalance or a sequence of them, with what each member brings along.

    {"id": "…", "assignor": "sticky", "partitionsPerTopic": {"t0": 2}, "members": [{"id": "C0", "topics": ["t0"]}]}
    {"id": "…", "assignor": "sticky", "steps": [{"event": "…", "partitionsPerTopic": …, "members": …}, …]}

`owned` is what a member had (for the coordinator's own assignors: `current`), `generation` the generation in its
Subscription, `userDataGeneration` the one in its user data; `userDataRaw` replaces the user data, in hexadecimal.
"""

from base64 import urlsafe_b64decode
from typing import Annotated, Literal

import msgspec

from regroup.assignors.interface import Assignments, Cluster, Member
from regroup.assignors.registry import BUILT_IN, assign_checked, assignor_named
from regroup.assignors.server_side.interface import ServerAssignor, ServerGroup, ServerMember, in_order
from regroup.assignors.server_side.range import ServerRangeAssignor
from regroup.assignors.server_side.uniform import UniformAssignor
from regroup.protocol.consumer.sticky_user_data import (
    StickyUserData,
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
)
from regroup.protocol.consumer.subscription import NO_GENERATION, TopicPartition

SERVER_SIDE: dict[str, type[ServerAssignor]] = {"server-range": ServerRangeAssignor, "server-uniform": UniformAssignor}
MOST_PARTITIONS = 10_000_000

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_PARTITIONS)]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class MemberRecord(msgspec.Struct, rename="camel", frozen=True):
    """One member of one rebalance."""

    id: str
    topics: tuple[str, ...] = ()
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[tuple[str, Int32], ...] = ()
    current: tuple[tuple[str, Int32], ...] = ()
    generation: Int32 | None = None
    user_data_generation: Int32 | None = None
    user_data_raw: str | None = None

    def had(self) -> tuple[TopicPartition, ...]:
        """What it had before, in the listed order."""
        return tuple(TopicPartition(topic, number) for topic, number in self.owned or self.current)

    def as_member(self, assignor: str) -> Member:
        """As the leader sees it; raises `ValueError` for user data that is not hexadecimal."""
        generation = NO_GENERATION if self.generation is None else max(self.generation, NO_GENERATION)
        owned = () if assignor.startswith("sticky") else self.had()
        return Member(
            tuple(dict.fromkeys(self.topics)),
            self._user_data(assignor),
            owned,
            generation,
            self.rack or None,
            self.instance_id,
        )

    def _user_data(self, assignor: str) -> bytes | None:
        if self.user_data_raw is not None:
            try:
                return bytes.fromhex(self.user_data_raw)
            except ValueError:
                raise ValueError(f"userDataRaw of member {self.id} is not hexadecimal") from None
        if assignor.startswith("sticky") and (self.owned or self.user_data_generation is not None):
            return encode_sticky_user_data(StickyUserData(self.had(), self.user_data_generation))
        if assignor == "cooperative-sticky" and self.user_data_generation is not None:
            return encode_cooperative_sticky_user_data(self.user_data_generation)
        return None


class StepRecord(msgspec.Struct, rename="camel", frozen=True):
    """One rebalance."""

    partitions_per_topic: dict[str, Count]
    members: tuple[MemberRecord, ...]
    racks: dict[str, tuple[tuple[str | None, ...], ...]] = {}
    event: str | None = None
    subscription_type: Literal["homogeneous", "heterogeneous"] | None = None
    topic_ids: dict[str, str] = {}
    topic_order: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises `ValueError` for what no group can be."""
        ids = [member.id for member in self.members]
        twice = next((name for name in ids if ids.count(name) > 1), None) if len(set(ids)) < len(ids) else None
        if twice is not None:
            raise ValueError(f"member {twice} is listed twice")
        if sum(self.partitions_per_topic.values()) > MOST_PARTITIONS:
            raise ValueError(f"more than {MOST_PARTITIONS} partitions in all")

    def cluster(self) -> Cluster:
        """The metadata."""
        return Cluster(self.partitions_per_topic, self.racks)

    def group(self) -> ServerGroup:
        """The group as the coordinator sees it. `topicOrder` is the order of all members' topics, where it is given."""
        members = {
            member.id: ServerMember(self._in_order(member.topics), member.had(), member.instance_id)
            for member in self.members
        }
        ids = {topic: urlsafe_b64decode(text + "==") for topic, text in self.topic_ids.items()}
        homogeneous = None if self.subscription_type is None else self.subscription_type == "homogeneous"
        return ServerGroup(self.partitions_per_topic, members, ids, homogeneous)

    def _in_order(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        listed = [topic for topic in self.topic_order if topic in topics]
        return (*listed, *(topic for topic in topics if topic not in listed))


class Case(msgspec.Struct, frozen=True):
    """One record: an assignor and its rebalances, one after the other. `sequence` says that it was written as such."""

    id: str
    assignor: str
    steps: tuple[StepRecord, ...]
    sequence: bool


class _Head(msgspec.Struct, frozen=True):
    id: str
    assignor: str | None = None
    kind: str | None = None
    hash: int | None = None
    steps: tuple[StepRecord, ...] | None = None


def read_case(line: bytes) -> Case:
    """Read one line; raises `ValueError` or `msgspec.MsgspecError`, saying what is wrong with it."""
    head = msgspec.json.decode(line, type=_Head)
    if head.kind is not None or head.hash is not None:
        what = "bytes of the consumer protocol" if head.kind is not None else "a hash of a key"
        raise ValueError(f"this record is about {what}, not about an assignor; there is nothing to deal out")
    if head.assignor is None:
        raise ValueError("the field `assignor` is missing")
    steps = head.steps if head.steps is not None else (msgspec.json.decode(line, type=StepRecord),)
    for step in steps:
        step.check()
    return Case(head.id, head.assignor, steps, sequence=head.steps is not None)


def deal(assignor: str, step: StepRecord) -> Assignments:
    """Let the assignor deal in one rebalance; raises `AssignorError`, or `ValueError` for bytes that are none."""
    if assignor in SERVER_SIDE:
        return in_order(SERVER_SIDE[assignor]().assign(step.group()))
    members = {member.id: member.as_member(assignor) for member in step.members}
    chosen = assignor_named(assignor)
    if assignor in BUILT_IN:
        return chosen.assign(step.cluster(), members)
    return assign_checked(chosen, step.cluster(), members)
