"""A group member whose requests a story sends one by one, valid or not."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Self, TypedDict, Unpack

from regroup.conformance.harness.broker_under_test import UNKNOWN_TOPIC_ID
from regroup.conformance.harness.expect import PartitionKey, expect, expect_equal, expect_true
from regroup.conformance.harness.sent_request import SentRequest
from regroup.conformance.harness.story import (
    DEFAULT_ASSIGNORS,
    DEFAULT_REBALANCE_TIMEOUT_MS,
    StoryContext,
)
from regroup.protocol.client import DEFAULT_CLIENT_ID
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import DescribedGroup
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

AssignorMetadata = Mapping[str, bytes]
"""The protocols of a JoinGroup: the member's metadata by the name of each assignor, in the member's order."""


NO_TOPIC_IDS: Mapping[str, bytes] = MappingProxyType({})

USUAL_SESSION_TIMEOUT = -1
"""Stands for the usual session timeout of a story, which depends on the broker's settings."""


class MemberOptions(TypedDict, total=False):
    """The options that all members of a group can share."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: AssignorMetadata


@dataclass(eq=False)
class ConformanceMember:
    """One member of a group: its name for the transcript, and the member id and generation id that it got last.

    Raises NotObservable if the broker's settings do not allow its session timeout.
    """

    story: StoryContext
    name: str
    _: KW_ONLY
    instance_id: str | None = None
    protocols: AssignorMetadata = field(default_factory=lambda: DEFAULT_ASSIGNORS)
    session_timeout_ms: int = USUAL_SESSION_TIMEOUT
    rebalance_timeout_ms: int = DEFAULT_REBALANCE_TIMEOUT_MS
    protocol_type: str = "consumer"
    client_id: str = DEFAULT_CLIENT_ID
    id: str = field(default="", init=False)
    generation_id: int = field(default=-1, init=False)
    protocol_name: str | None = field(default="range", init=False)

    def __post_init__(self) -> None:
        if self.session_timeout_ms == USUAL_SESSION_TIMEOUT:
            self.session_timeout_ms = self.story.usual_session_timeout_ms
        self.story.check_session_timeout(self.session_timeout_ms)

    def replacement(self, **options: Unpack[MemberOptions]) -> Self:
        """A member with the same group instance id and no member id, as another process would be; `options` are its
        own.
        """
        return type(self)(self.story, f"{self.name}'s replacement", instance_id=self.instance_id, **options)

    def join_group(
        self,
        *,
        version: int | None = None,
        member_id: str | None = None,
        protocols: AssignorMetadata | None = None,
    ) -> SentRequest[JoinGroupResponse]:
        """Send one JoinGroup, by default with the member's own id and protocols.

        When the response arrives, the member takes over its member id and generation id.
        """
        return self.story.send(
            self.join_group_request(member_id=member_id, protocols=protocols),
            JoinGroupResponse,
            version=version,
            sender=self.name,
            client_id=self.client_id,
            on_response=self.apply_join_response,
        )

    def join_group_request(
        self, *, member_id: str | None = None, protocols: AssignorMetadata | None = None
    ) -> JoinGroupRequest:
        """The JoinGroup request that `join_group` sends; the arguments replace the member's own id and protocols."""
        return JoinGroupRequest(
            group_id=self.story.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in (self.protocols if protocols is None else protocols).items()
            ],
        )

    def apply_join_response(self, response: JoinGroupResponse) -> None:
        """Take over the member id, the generation id and the assignor from a response without an error."""
        if response.error_code in (E.NONE, E.MEMBER_ID_REQUIRED):
            self.id = response.member_id
        if response.error_code == E.NONE:
            self.generation_id = response.generation_id
            self.protocol_name = response.protocol_name

    async def obtain_member_id(self) -> None:
        """Send the first JoinGroup of KIP-394 and become a pending join member. Static members do not need it."""
        if self.id == "" and self.instance_id is None:
            await self.join_group()

    async def start_join(self) -> SentRequest[JoinGroupResponse]:
        """Obtain a member id if necessary, and send the JoinGroup whose response begins the next generation."""
        await self.obtain_member_id()
        return self.join_group()

    async def start_rebalance(self) -> SentRequest[JoinGroupResponse]:
        """Send a JoinGroup and expect that its response is pending: the group is then in PreparingRebalance."""
        return await (await self.start_join()).expect_pending()

    async def join(self) -> JoinGroupResponse:
        """Send a JoinGroup, and wait for its response, which begins the next generation."""
        return await (await self.start_join())

    def sync_group(
        self,
        assignments: Mapping[str, bytes] | None = None,
        *,
        version: int | None = None,
        member_id: str | None = None,
        generation_id: int | None = None,
        protocol_type: str | None = "",
        protocol_name: str | None = "",
    ) -> SentRequest[SyncGroupResponse]:
        """Send one SyncGroup; the leader's has `assignments`, by member id.

        Member id, generation id, protocol type and protocol name are the member's own unless they are given.
        """
        request = SyncGroupRequest(
            group_id=self.story.group_id,
            generation_id=self.generation_id if generation_id is None else generation_id,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type if protocol_type == "" else protocol_type,
            protocol_name=self.protocol_name if protocol_name == "" else protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in (assignments or {}).items()
            ],
        )
        return self.story.send(request, SyncGroupResponse, version=version, sender=self.name)

    def heartbeat(
        self, *, generation_id: int | None = None, member_id: str | None = None, version: int | None = None
    ) -> SentRequest[HeartbeatResponse]:
        """Send one Heartbeat, by default with the member's own ids."""
        request = HeartbeatRequest(
            group_id=self.story.group_id,
            generation_id=self.generation_id if generation_id is None else generation_id,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance_id,
        )
        return self.story.send(request, HeartbeatResponse, version=version, sender=self.name)

    async def expect_stable(self, members: int | None = None) -> None:
        """Expect that the group is Stable with this number of members, and that a heartbeat of this member succeeds."""
        await self.story.expect_state("Stable", members)
        expect(await self.heartbeat(), error=E.NONE)

    async def expect_rebalance(self, members: int | None = None) -> None:
        """Expect that the group is in PreparingRebalance with this number of members.

        A heartbeat of this member then gets REBALANCE_IN_PROGRESS, so that it rejoins.
        """
        await self.story.expect_state("PreparingRebalance", members)
        expect(await self.heartbeat(), error=E.REBALANCE_IN_PROGRESS)

    def commit_offsets(
        self,
        offsets: Mapping[PartitionKey, int],
        *,
        generation_id: int | None = None,
        member_id: str | None = None,
        metadata: Mapping[PartitionKey, str] | None = None,
        leader_epoch: int = -1,
        retention_time_ms: int = -1,
        version: int | None = None,
    ) -> SentRequest[OffsetCommitResponse]:
        """Send one OffsetCommit as a member of the group, by default with the member's own ids."""
        request = OffsetCommitRequest(
            group_id=self.story.group_id,
            generation_id_or_member_epoch=self.generation_id if generation_id is None else generation_id,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance_id,
            retention_time_ms=retention_time_ms,
            topics=offset_commit_topics(offsets, metadata, leader_epoch, self.story.target.topic_ids),
        )
        return self.story.send(request, OffsetCommitResponse, version=version, sender=self.name)

    def leave_group(self, *, version: int | None = None) -> SentRequest[LeaveGroupResponse]:
        """Send one LeaveGroup for this member."""
        return leave_group(self.story, self, version=version, sender=self.name)


def leave_group(
    story: StoryContext,
    *members: ConformanceMember | MemberIdentity,
    version: int | None = None,
    sender: str = "admin",
) -> SentRequest[LeaveGroupResponse]:
    """Send one LeaveGroup for these members; up to v2 it can name only the first one."""
    leaving = [
        MemberIdentity(member_id=member.id, group_instance_id=member.instance_id)
        if isinstance(member, ConformanceMember)
        else member
        for member in members
    ]
    if version is not None and version < 3:
        request = LeaveGroupRequest(group_id=story.group_id, member_id=leaving[0].member_id)
    else:
        request = LeaveGroupRequest(group_id=story.group_id, members=leaving)
    return story.send(request, LeaveGroupResponse, version=version, sender=sender)


def offset_commit_topics(
    offsets: Mapping[PartitionKey, int],
    metadata: Mapping[PartitionKey, str] | None = None,
    leader_epoch: int = -1,
    topic_ids: Mapping[str, bytes] = NO_TOPIC_IDS,
) -> list[OffsetCommitRequestTopic]:
    """The topics of an OffsetCommit request for these offsets, by name and, since v10, by id."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, number), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=(metadata or {}).get((topic, number), ""),
            )
        )
    return [
        OffsetCommitRequestTopic(name=name, topic_id=topic_ids.get(name, UNKNOWN_TOPIC_ID), partitions=partitions)
        for name, partitions in topics.items()
    ]


async def sync_all(leader: ConformanceMember, *followers: ConformanceMember) -> None:
    """Let all members send SyncGroup, the leader with `assignment_of` each member: the group becomes Stable."""
    requests = [follower.sync_group() for follower in followers]
    await leader.sync_group({member.id: assignment_of(member) for member in (leader, *followers)})
    for request in requests:
        await request


def assignment_of(member: ConformanceMember) -> bytes:
    """The assignment that `sync_all` gives this member: bytes which a coordinator passes on without decoding them."""
    return f"assignment of {member.name}".encode()


def expect_member_id(response: JoinGroupResponse, prefix: str, replaced: str = "") -> None:
    """Expect that the response has a member id with this prefix, and not the id `replaced`."""
    expect_true(response.member_id.startswith(prefix), f"member id should begin with {prefix}: {response.member_id}")
    expect_true(response.member_id != replaced, f"member id should be a new one: {response.member_id}")


def expect_members(response: JoinGroupResponse, *members: ConformanceMember) -> None:
    """Expect that the leader's response lists exactly these members, in any order."""
    listed = sorted(member.member_id for member in response.members)
    expect_equal("members in the leader's response", sorted(member.id for member in members), listed)


def described_assignments(group: DescribedGroup) -> dict[str, bytes]:
    """The assignments that DescribeGroups returns, by member id."""
    return {member.member_id: member.member_assignment for member in group.members}
