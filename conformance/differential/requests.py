"""Sends the request that a move of a random course stands for, as the present state of the groups requires it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from regroup.conformance.differential.course_group import ClientPhase, CourseGroup, CourseMember
from regroup.conformance.differential.course_producer import CourseProducer
from regroup.conformance.differential.random_course import CourseMove, MoveKind
from regroup.conformance.differential.subscriptions import ASSIGNOR_LISTS
from regroup.conformance.harness.broker_under_test import ABSENT_TOPIC, BAR_TOPIC, FOO_TOPIC, PARTITIONS_PER_TOPIC
from regroup.conformance.harness.expect import PartitionKey
from regroup.conformance.harness.member import leave_group
from regroup.conformance.harness.offsets import delete_offsets, fetch_offsets
from regroup.conformance.harness.sent_request import SentRequest
from regroup.protocol.messages.describe import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from regroup.protocol.messages.group import MemberIdentity

FIRST_VERSIONS_WITH_INSTANCE_ID: Final = {
    "JoinGroup": 5,
    "SyncGroup": 3,
    "Heartbeat": 3,
    "LeaveGroup": 3,
    "OffsetCommit": 7,
    "TxnOffsetCommit": 3,
}
FIRST_BATCH_LEAVE: Final = 3
FIRST_FETCH_OF_ALL_TOPICS: Final = 2
FIRST_STATES_FILTER, FIRST_TYPES_FILTER = 4, 5
FIRST_DESCRIBE_WITH_OPERATIONS: Final = 3
FIRST_STABLE_FETCH: Final = 7

STATES_FILTERS: Final = (
    (),
    ("Stable",),
    ("Empty", "Dead"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("nonsense",),
)
TYPES_FILTERS: Final = ((), ("classic",), ("consumer",), ("Classic",))

APIS_OF_MOVES: Final = {
    MoveKind.JOIN: "JoinGroup",
    MoveKind.SYNC: "SyncGroup",
    MoveKind.HEARTBEAT: "Heartbeat",
    MoveKind.LEAVE: "LeaveGroup",
    MoveKind.COMMIT: "OffsetCommit",
    MoveKind.FETCH: "OffsetFetch",
    MoveKind.DESCRIBE: "DescribeGroups",
    MoveKind.LIST: "ListGroups",
    MoveKind.DELETE_OFFSETS: "OffsetDelete",
    MoveKind.DELETE_GROUPS: "DeleteGroups",
    MoveKind.INIT_PRODUCER: "InitProducerId",
    MoveKind.ADD_OFFSETS: "AddOffsetsToTxn",
    MoveKind.COMMIT_IN_TRANSACTION: "TxnOffsetCommit",
    MoveKind.END_TRANSACTION: "EndTxn",
}
KINDS_OF_PHASES: Final = {ClientPhase.OUTSIDE: MoveKind.JOIN, ClientPhase.JOINS: MoveKind.JOIN}


@dataclass(frozen=True, slots=True)
class CourseRequest:
    """A request that was sent for a move, and the member or producer whose state the response changes."""

    sent: SentRequest[Any]
    group: int
    member: CourseMember | None = None
    producer: CourseProducer | None = None


@dataclass(frozen=True, slots=True)
class CourseScene:
    """Two groups and two producers of a course on one broker, and the versions that both brokers offer."""

    groups: Sequence[CourseGroup]
    producers: Sequence[CourseProducer]
    versions: Mapping[str, range]

    def send(self, number: int, move: CourseMove) -> CourseRequest | None:
        """Send the request of a move; None for a move without a request."""
        match move.kind:
            case MoveKind.NEXT:
                return self._send_next(number, move)
            case MoveKind.NEXT_OF_PRODUCER:
                group = self.groups[move.group]
                kind = self.producers[move.actor % len(self.producers)].next_kind(group.story.group_id, move.choice)
                return self._send_of_producer(number, move, kind)
            case MoveKind.WAIT | MoveKind.RESTART:
                return None
            case MoveKind.FETCH | MoveKind.DESCRIBE | MoveKind.LIST:
                return self._send_read(number, move, move.kind)
            case MoveKind.DELETE_OFFSETS | MoveKind.DELETE_GROUPS:
                return self._send_deletion(number, move)
            case (
                MoveKind.INIT_PRODUCER
                | MoveKind.ADD_OFFSETS
                | MoveKind.COMMIT_IN_TRANSACTION
                | MoveKind.END_TRANSACTION
            ):
                return self._send_of_producer(number, move, move.kind)
        return self._send_of_member(number, move, move.kind, self.groups[move.group].members[move.actor])

    def _send_next(self, number: int, move: CourseMove) -> CourseRequest:
        found = self.groups[move.group].next_client(move.actor)
        if found is None:
            kind = (MoveKind.FETCH, MoveKind.DESCRIBE, MoveKind.LIST)[int(move.choice * 3)]
            return self._send_read(number, move, kind)
        member, phase = found
        if phase is ClientPhase.WORKS:
            kind = MoveKind.COMMIT if move.choice < 0.5 else MoveKind.HEARTBEAT
        else:
            kind = KINDS_OF_PHASES.get(phase, MoveKind.SYNC)
        return self._send_of_member(number, move, kind, member)

    def _version(self, kind: MoveKind, drawn: float, member: CourseMember | None = None) -> int:
        """The version in which to send a request: drawn from those that both brokers offer and that can carry it."""
        api = APIS_OF_MOVES[kind]
        offered, oldest = self.versions[api], 0
        if member is not None and member.client.instance_id is not None:
            oldest = FIRST_VERSIONS_WITH_INSTANCE_ID.get(api, 0)
        possible = [version for version in offered if version >= oldest] or [offered[-1]]
        return possible[min(int(drawn * len(possible)), len(possible) - 1)]

    def _send_of_member(self, number: int, move: CourseMove, kind: MoveKind, member: CourseMember) -> CourseRequest:
        group, client = self.groups[move.group], member.client
        version = self._version(kind, move.version, member)
        borrowed_id = None
        if move.borrowed_from is not None:
            borrowed_id = group.members[move.borrowed_from].client.id if move.borrowed_from >= 0 else ""
        generation_id = client.generation_id + move.generation_offset
        sent: SentRequest[Any]
        match kind:
            case MoveKind.JOIN:
                client.protocol_type = move.protocol_type
                protocols = self._protocols(move, member)
                sent = client.join_group(version=version, member_id=borrowed_id, protocols=protocols)
            case MoveKind.SYNC:
                assignments = self._assignments(number, [each for each in group.members if each.client.id])
                sent = client.sync_group(
                    assignments, version=version, member_id=borrowed_id, generation_id=generation_id
                )
            case MoveKind.HEARTBEAT:
                sent = client.heartbeat(version=version, member_id=borrowed_id, generation_id=generation_id)
            case MoveKind.LEAVE:
                leaving = self._leaving(group, move, borrowed_id, version)
                sent = leave_group(group.story, *leaving, version=version, sender=client.name)
            case _:
                sent = client.commit_offsets(
                    self._offsets(number, move), version=version, member_id=borrowed_id, generation_id=generation_id
                )
        return CourseRequest(sent, move.group, member)

    def _protocols(self, move: CourseMove, member: CourseMember) -> Mapping[str, bytes]:
        """The assignors in a JoinGroup of this member, each with its metadata."""
        return dict(ASSIGNOR_LISTS[move.assignor_list])

    def _assignments(self, number: int, members: Sequence[CourseMember]) -> dict[str, bytes]:
        """The assignments in the leader's SyncGroup, by member id: bytes which a coordinator passes on without decoding
        them."""
        return {each.client.id: f"{number} for {each.client.name}".encode() for each in members}

    def _leaving(
        self, group: CourseGroup, move: CourseMove, borrowed_id: str | None, version: int
    ) -> list[MemberIdentity]:
        leaving = []
        for number in (move.actor, *(move.also_leaving if version >= FIRST_BATCH_LEAVE else ())):
            client = group.members[number].client
            member_id = client.id if number != move.actor or borrowed_id is None else borrowed_id
            if move.by_instance_id and client.instance_id is not None:
                member_id = ""
            leaving.append(MemberIdentity(member_id=member_id, group_instance_id=client.instance_id))
        return leaving

    def _offsets(self, number: int, move: CourseMove) -> dict[PartitionKey, int]:
        """The offsets that a move commits: of one partition, or of several, some of which do not exist."""
        partition = number % PARTITIONS_PER_TOPIC
        offsets = {((FOO_TOPIC, BAR_TOPIC)[number // 3 % 2], partition): number}
        if move.choice > 0.6:
            offsets |= {(BAR_TOPIC, partition): number + 100, (FOO_TOPIC, 0): number + 200}
        if move.choice > 0.9:
            offsets |= {(ABSENT_TOPIC, 0): number, (FOO_TOPIC, PARTITIONS_PER_TOPIC): number}
        return offsets

    def _group_ids(self, move: CourseMove) -> list[str]:
        """The groups that a request names: the group of the move, or both, or one that does not exist as well."""
        own, other = (self.groups[number].story.group_id for number in (move.group, 1 - move.group))
        if move.choice < 0.4:
            return [own]
        return [own, other] if move.choice < 0.85 else [other, f"{own}-absent", own]

    def _send_read(self, number: int, move: CourseMove, kind: MoveKind) -> CourseRequest:
        story, version = self.groups[move.group].story, self._version(kind, move.version)
        sent: SentRequest[Any]
        if kind is MoveKind.FETCH:
            names_partitions = version < FIRST_FETCH_OF_ALL_TOPICS or number % 2
            partitions = [*self._offsets(number, move)] if names_partitions else None
            stable = number % 3 == 0 and version >= FIRST_STABLE_FETCH
            group_ids = self._group_ids(move)
            sent = fetch_offsets(story, partitions, version=version, require_stable=stable, group_ids=group_ids)
        elif kind is MoveKind.DESCRIBE:
            operations = number % 2 == 0 and version >= FIRST_DESCRIBE_WITH_OPERATIONS
            describe = DescribeGroupsRequest(groups=self._group_ids(move), include_authorized_operations=operations)
            sent = story.send(describe, DescribeGroupsResponse, version=version)
        else:
            states = STATES_FILTERS[number % len(STATES_FILTERS)] if version >= FIRST_STATES_FILTER else ()
            types = TYPES_FILTERS[number % len(TYPES_FILTERS)] if version >= FIRST_TYPES_FILTER else ()
            list_groups = ListGroupsRequest(states_filter=[*states], types_filter=[*types])
            sent = story.send(list_groups, ListGroupsResponse, version=version)
        return CourseRequest(sent, move.group)

    def _send_deletion(self, number: int, move: CourseMove) -> CourseRequest:
        story, version = self.groups[move.group].story, self._version(move.kind, move.version)
        if move.kind is MoveKind.DELETE_OFFSETS:
            return CourseRequest(delete_offsets(story, *self._offsets(number, move)), move.group)
        request = DeleteGroupsRequest(groups_names=self._group_ids(move))
        return CourseRequest(story.send(request, DeleteGroupsResponse, version=version), move.group)

    def _send_of_producer(self, number: int, move: CourseMove, kind: MoveKind) -> CourseRequest:
        producer = self.producers[move.actor % len(self.producers)]
        group, version = self.groups[move.group], self._version(kind, move.version)
        sent: SentRequest[Any]
        match kind:
            case MoveKind.INIT_PRODUCER:
                sent = producer.send_init(version)
            case MoveKind.ADD_OFFSETS:
                sent = producer.send_add_offsets(group.story.group_id, version)
            case MoveKind.END_TRANSACTION:
                sent = producer.send_end(version, committed=number % 3 > 0)
            case _:
                is_of_member = move.kind is MoveKind.COMMIT_IN_TRANSACTION
                member = group.members[move.actor].client if is_of_member and number % 2 else None
                if member is not None:
                    version = self._version(kind, move.version, group.members[move.actor])
                if version < FIRST_VERSIONS_WITH_INSTANCE_ID["TxnOffsetCommit"]:
                    member = None
                sent = producer.producer.txn_offset_commit(
                    self._offsets(number, move),
                    member=member,
                    generation_id=member.generation_id + move.generation_offset if member else None,
                    group_id=group.story.group_id,
                    version=version,
                )
        return CourseRequest(sent, move.group, producer=producer)
