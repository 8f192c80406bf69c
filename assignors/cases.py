"""Reads and runs assignor cases in JSON: an assignor, and one rebalance or several in sequence, with what each member
had before.

    {"id": "…", "assignor": "sticky", "partitionsPerTopic": {"t0": 2}, "members": [{"id": "C0", "topics": ["t0"]}]}
    {"id": "…", "assignor": "sticky", "steps": [{"event": "…", "partitionsPerTopic": …, "members": …}, …]}

`owned` is what a member had before (for the coordinator's assignors: `current`), `generation` the generation in its
Subscription, `userDataGeneration` the one in its user data; `userDataRaw` is the user data itself, in hexadecimal.
"""

from base64 import urlsafe_b64decode
from typing import Annotated, Literal

import msgspec

from regroup.assignors.interface import Assignments, AssignorMember, ClusterMetadata
from regroup.assignors.registry import BUILT_IN, assign_checked, assignor_named
from regroup.assignors.server_side.interface import ServerAssignor, ServerGroup, ServerMember, sorted_targets
from regroup.assignors.server_side.range import ServerRangeAssignor
from regroup.assignors.server_side.uniform import UniformAssignor
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.consumer.sticky_user_data import (
    StickyUserData,
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
)
from regroup.protocol.consumer.subscription import NO_GENERATION, TopicPartition

SERVER_SIDE: dict[str, type[ServerAssignor]] = {"server-range": ServerRangeAssignor, "server-uniform": UniformAssignor}
MAX_PARTITIONS = 10_000_000
"""The most partitions of all topics of one rebalance together."""

_PartitionCount = Annotated[int, msgspec.Meta(ge=0, le=MAX_PARTITIONS)]
_SignedInt32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class CaseMember(msgspec.Struct, rename="camel", frozen=True):
    """One member in one rebalance of a case."""

    id: str
    topics: tuple[str, ...] = ()
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[tuple[str, _SignedInt32], ...] = ()
    current: tuple[tuple[str, _SignedInt32], ...] = ()
    generation: _SignedInt32 | None = None
    user_data_generation: _SignedInt32 | None = None
    user_data_raw: str | None = None

    def previous_partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that the member had before this rebalance, in the order in which the case lists them."""
        return tuple(TopicPartition(topic, number) for topic, number in self.owned or self.current)

    def assignor_member(self, assignor: str) -> AssignorMember:
        """The member as the assignor gets it in the leader, with its subscription and user data. Raises `ValueError`
        for user data that is not hexadecimal."""
        return AssignorMember(
            tuple(dict.fromkeys(self.topics)),
            self._user_data(assignor),
            () if assignor.startswith("sticky") else self.previous_partitions(),
            NO_GENERATION if self.generation is None else max(self.generation, NO_GENERATION),
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
            return encode_sticky_user_data(StickyUserData(self.previous_partitions(), self.user_data_generation))
        if assignor == "cooperative-sticky" and self.user_data_generation is not None:
            return encode_cooperative_sticky_user_data(self.user_data_generation)
        return None


class CaseStep(msgspec.Struct, rename="camel", frozen=True):
    """One rebalance of a case: members, topics, and what led to it."""

    partitions_per_topic: dict[str, _PartitionCount]
    members: tuple[CaseMember, ...]
    racks: dict[str, tuple[tuple[str | None, ...], ...]] = {}
    event: str | None = None
    """What led to the rebalance, as text; None if the case does not say it."""
    subscription_type: Literal["homogeneous", "heterogeneous"] | None = None
    topic_ids: dict[str, str] = {}
    topic_order: tuple[str, ...] = ()
    """The order in which the members' topics are given to the assignor; empty for the order of the case."""

    def validate(self) -> None:
        """Raise `ValueError` for input that no group can have."""
        ids = [member.id for member in self.members]
        twice = next((name for name in ids if ids.count(name) > 1), None) if len(set(ids)) < len(ids) else None
        if twice is not None:
            raise ValueError(f"member {twice} is listed twice")
        if sum(self.partitions_per_topic.values()) > MAX_PARTITIONS:
            raise ValueError(f"too many partitions: more than {MAX_PARTITIONS} in all topics together")
        if self.subscription_type == "homogeneous" and len({frozenset(member.topics) for member in self.members}) > 1:
            raise ValueError("subscriptionType is homogeneous, and the members subscribe to different topics")

    def server_group(self) -> ServerGroup:
        """The group as the input of one of the coordinator's assignors."""
        members = {
            member.id: ServerMember(
                tuple(topic for topic in self.topic_order if topic in member.topics)
                + tuple(topic for topic in member.topics if topic not in self.topic_order),
                by_topic(member.previous_partitions()),
                member.instance_id,
            )
            for member in self.members
        }
        ids = {topic: urlsafe_b64decode(text + "==") for topic, text in self.topic_ids.items()}
        homogeneous = None if self.subscription_type is None else self.subscription_type == "homogeneous"
        return ServerGroup(self.partitions_per_topic, members, ids, homogeneous)


class AssignorCase(msgspec.Struct, frozen=True):
    """A case of a file: the name of an assignor, and its rebalances in sequence. `is_sequence` is True if the case was
    written with `steps`."""

    id: str
    assignor: str
    steps: tuple[CaseStep, ...]
    is_sequence: bool


class _CaseHead(msgspec.Struct, frozen=True):
    id: str
    assignor: str | None = None
    kind: str | None = None
    hash: int | None = None
    steps: tuple[CaseStep, ...] | None = None


def read_case(line: bytes) -> AssignorCase:
    """Read one line of a file of cases. Raises `ValueError` or `msgspec.MsgspecError`, which say what is wrong in
    it."""
    head = msgspec.json.decode(line, type=_CaseHead)
    if head.kind is not None or head.hash is not None:
        subject = "bytes of the consumer protocol" if head.kind is not None else "a hash of a key"
        raise ValueError(f"this record is about {subject}, not about an assignor")
    if head.assignor is None:
        raise ValueError("the field `assignor` is missing")
    steps = head.steps if head.steps is not None else (msgspec.json.decode(line, type=CaseStep),)
    for step in steps:
        step.validate()
    return AssignorCase(head.id, head.assignor, steps, is_sequence=head.steps is not None)


def assign_step(assignor: str, step: CaseStep) -> Assignments:
    """Run the assignor for one rebalance. Raises `AssignorError`, or `ValueError` for invalid user data."""
    if assignor in SERVER_SIDE:
        return sorted_targets(SERVER_SIDE[assignor]().assign(step.server_group()))
    members = {member.id: member.assignor_member(assignor) for member in step.members}
    cluster = ClusterMetadata(step.partitions_per_topic, step.racks)
    chosen = assignor_named(assignor, also_known=SERVER_SIDE)
    return chosen.assign(cluster, members) if assignor in BUILT_IN else assign_checked(chosen, cluster, members)
