"""A member of a group, as the stories speak of it. It does exactly what it is told, sensible or not."""

from collections.abc import Mapping, Sequence

from regroup.conformance.harness.connection import CLIENT_ID
from regroup.conformance.harness.expect import Partition
from regroup.conformance.harness.pending import Waiting
from regroup.conformance.harness.story import REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS, TWO_ASSIGNORS, Story
from regroup.protocol.errors import ErrorCode as E
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

Protocols = Mapping[str, bytes]


class Member:
    """One member with a name for the reader, and the id and generation that the broker gave it last."""

    def __init__(
        self,
        story: Story,
        name: str,
        *,
        instance: str | None = None,
        protocols: Protocols = TWO_ASSIGNORS,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
        protocol_type: str = "consumer",
        client_id: str = CLIENT_ID,
    ) -> None:
        self.story = story
        self.name = name
        self.instance = instance
        self.protocols = protocols
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocol_type = protocol_type
        self.client_id = client_id
        self.id = ""
        self.generation = -1
        self.chosen: str | None = "range"

    # Joining

    def asks_to_join(
        self,
        *,
        version: int | None = None,
        member_id: str | None = None,
        protocols: Protocols | None = None,
    ) -> Waiting[JoinGroupResponse]:
        """One JoinGroup, with the id that the member has. What comes is remembered."""
        request = self.join_request(member_id=member_id, protocols=protocols)
        asked = self.story.ask(request, JoinGroupResponse, version=version, speaker=self.name, client_id=self.client_id)
        return asked.then(self.remembers)

    def join_request(self, *, member_id: str | None = None, protocols: Protocols | None = None) -> JoinGroupRequest:
        """What `asks_to_join` sends."""
        return JoinGroupRequest(
            group_id=self.story.group,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in (self.protocols if protocols is None else protocols).items()
            ],
        )

    def remembers(self, answer: JoinGroupResponse) -> None:
        """Take over the id and the generation that the broker gave."""
        if answer.error_code in (E.NONE, E.MEMBER_ID_REQUIRED):
            self.id = answer.member_id
        if answer.error_code == E.NONE:
            self.generation = answer.generation_id
            self.chosen = answer.protocol_name

    async def gets_an_id(self) -> None:
        """The first half of joining (KIP-394): the member is pending now. Static members need no such thing."""
        if self.id == "" and self.instance is None:
            await self.asks_to_join()

    async def begins_to_join(self) -> Waiting[JoinGroupResponse]:
        """Both halves of joining; the answer to the second is not waited for."""
        await self.gets_an_id()
        return self.asks_to_join()

    async def knocks(self) -> Waiting[JoinGroupResponse]:
        """Join, and be kept waiting: the group is rebalancing now."""
        waiting = await self.begins_to_join()
        await waiting.is_parked()
        return waiting

    async def joins(self) -> JoinGroupResponse:
        """Join and wait for the next generation to begin."""
        return await (await self.begins_to_join())

    # Being there

    def syncs(
        self,
        shares: Mapping[str, bytes] | None = None,
        *,
        version: int | None = None,
        member_id: str | None = None,
        generation: int | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "",
    ) -> Waiting[SyncGroupResponse]:
        """One SyncGroup; the leader's `shares` say who gets what, by member id."""
        request = SyncGroupRequest(
            group_id=self.story.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance,
            protocol_type=protocol_type and self.protocol_type if protocol_type == "consumer" else protocol_type,
            protocol_name=self.chosen if protocol_name == "" else protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=share)
                for member, share in (shares or {}).items()
            ],
        )
        return self.story.ask(request, SyncGroupResponse, version=version, speaker=self.name)

    def beats(
        self, *, generation: int | None = None, member_id: str | None = None, version: int | None = None
    ) -> Waiting[HeartbeatResponse]:
        """One Heartbeat."""
        request = HeartbeatRequest(
            group_id=self.story.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance,
        )
        return self.story.ask(request, HeartbeatResponse, version=version, speaker=self.name)

    def commits(
        self,
        offsets: Mapping[Partition, int],
        *,
        generation: int | None = None,
        member_id: str | None = None,
        metadata: Mapping[Partition, str] | None = None,
        leader_epoch: int = -1,
        retention_time_ms: int = -1,
        version: int | None = None,
    ) -> Waiting[OffsetCommitResponse]:
        """One OffsetCommit as a member of the group."""
        request = OffsetCommitRequest(
            group_id=self.story.group,
            generation_id_or_member_epoch=self.generation if generation is None else generation,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance,
            retention_time_ms=retention_time_ms,
            topics=offset_topics(offsets, metadata, leader_epoch),
        )
        return self.story.ask(request, OffsetCommitResponse, version=version, speaker=self.name)

    # Leaving

    def leaves(self, *, version: int | None = None) -> Waiting[LeaveGroupResponse]:
        """One LeaveGroup for this member, in the form that the version has."""
        return leave(self.story, self, version=version, speaker=self.name)


def leave(
    story: Story, *members: Member | MemberIdentity, version: int | None = None, speaker: str = "an administrator"
) -> Waiting[LeaveGroupResponse]:
    """One LeaveGroup that takes these members out."""
    leaving = [
        MemberIdentity(member_id=each.id, group_instance_id=each.instance) if isinstance(each, Member) else each
        for each in members
    ]
    if version is not None and version < 3:
        request = LeaveGroupRequest(group_id=story.group, member_id=leaving[0].member_id)
    else:
        request = LeaveGroupRequest(group_id=story.group, members=leaving)
    return story.ask(request, LeaveGroupResponse, version=version, speaker=speaker)


def offset_topics(
    offsets: Mapping[Partition, int], metadata: Mapping[Partition, str] | None = None, leader_epoch: int = -1
) -> list[OffsetCommitRequestTopic]:
    """Offsets by partition, in the form of OffsetCommit."""
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
    return [OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()]


async def share_out(leader: Member, *followers: Member) -> None:
    """The leader gives everyone a share with the member's name on it, and the group becomes stable."""
    shares = {each.id: share_of(each) for each in (leader, *followers)}
    waiting: Sequence[Waiting[SyncGroupResponse]] = [each.syncs() for each in followers]
    await leader.syncs(shares)
    for each in waiting:
        await each


def share_of(member: Member) -> bytes:
    """What `share_out` gives to a member: bytes that no coordinator needs to understand."""
    return f"share of {member.name}".encode()
