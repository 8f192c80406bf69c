"""Bugs of consumers: they read, commit or keep partitions and offsets that they should not."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    AssignorMember,
    ClusterMetadata,
    LastAssignment,
    RebalanceProtocol,
)
from regroup.assignors.sticky.assignor import CooperativeStickyAssignor
from regroup.lab.planted_bugs.bug import BugContext, combine, patch_attribute, planted_bug
from regroup.members.consumer import requests
from regroup.members.consumer.effects import CommittedOffsetsFetched, PartitionsLost, PartitionsRevoked
from regroup.members.consumer.error_actions import ErrorAction, MembershipReset
from regroup.members.consumer.heartbeats import Heartbeats
from regroup.members.consumer.inputs import RequestFailed
from regroup.members.consumer.machine import ConsumerMachine
from regroup.members.consumer.metadata import ConsumerMetadata, MetadataSnapshot
from regroup.members.consumer.offsets import ConsumerOffsets, PendingCommit
from regroup.members.consumer.rebalance import ConsumerRebalance
from regroup.members.consumer.state import Membership, MemberState
from regroup.members.runtime.application import FetchedRecord, SimulatedApplication
from regroup.members.runtime.fetcher import Fetcher
from regroup.members.runtime.producer import SimulatedProducer
from regroup.protocol.consumer.subscription import Assignment, TopicPartition, decode_assignment
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import HeartbeatResponse, JoinGroupRequest
from regroup.protocol.messages.records import FetchRequest


@planted_bug
def member_reads_revoked_partitions() -> BugContext:
    """A member continues to read partitions after it has revoked or lost them."""
    return patch_attribute(Fetcher, "remove_partitions", lambda fetcher, partitions: None)


@planted_bug
def member_takes_records_of_another_position() -> BugContext:
    """A member takes the records of a Fetch response also if it has lost the partition meanwhile and got it back at
    another position."""
    right = Fetcher._process

    def wrong(fetcher: Fetcher, response: Message, request: Message) -> bool:
        if isinstance(request, FetchRequest):
            request = fetcher._fetch_request(list(fetcher._positions))  # as if it had asked from where it is now
        return right(fetcher, response, request)

    return patch_attribute(Fetcher, "_process", wrong)


@planted_bug
def member_takes_topics_it_has_given_up() -> BugContext:
    """A member takes the partitions that it is assigned, also of topics to which it subscribes no more."""
    right = ConsumerRebalance._complete

    def wrong(rebalance: ConsumerRebalance) -> bool:
        metadata, assigned = rebalance.metadata, rebalance.group_join.assignment_bytes
        if len(assigned) < 2:
            return right(rebalance)
        topics = {*metadata.topics, *(each.topic for each in decode_assignment(assigned).partitions)}
        with patch_attribute(ConsumerMetadata, "topics", property(lambda metadata: tuple(sorted(topics)))):
            return right(rebalance)

    return patch_attribute(ConsumerRebalance, "_complete", wrong)


@planted_bug
def fenced_automatic_commit_ends_nothing() -> BugContext:
    """A member whose automatic commit is refused with FENCED_INSTANCE_ID polls on, until a heartbeat is refused."""
    return patch_attribute(PendingCommit, "is_asynchronous", property(lambda commit: not commit.is_auto_commit))


@planted_bug
def member_commits_what_it_fetched() -> BugContext:
    """A member commits up to the last fetched record, not the last processed one."""
    add_right, complete_right = SimulatedApplication.add_records, SimulatedApplication.complete_batch

    def add_records(application: SimulatedApplication, records: Sequence[FetchedRecord]) -> None:
        add_right(application, records)
        application.on_positions({each.partition: each.offset + 1 for each in records})

    def complete_batch(application: SimulatedApplication, records: Sequence[FetchedRecord], now_ms: int) -> None:
        with patch_attribute(application, "on_positions", lambda positions: None):  # no position goes back
            complete_right(application, records, now_ms)

    return combine(
        patch_attribute(SimulatedApplication, "add_records", add_records),
        patch_attribute(SimulatedApplication, "complete_batch", complete_batch),
    )


@planted_bug
def member_starts_one_offset_too_far() -> BugContext:
    """A member takes the committed offset for that of the last processed record, and starts after it."""
    right = Fetcher.add_partitions

    def add_partitions(fetcher: Fetcher, offsets: Mapping[TopicPartition, int | None]) -> None:
        right(fetcher, {each: None if offset is None else offset + 1 for each, offset in offsets.items()})

    return patch_attribute(Fetcher, "add_partitions", add_partitions)


@planted_bug
def member_starts_one_offset_too_early() -> BugContext:
    """A member starts with the record before the committed offset, which another has processed."""
    right = Fetcher.add_partitions

    def add_partitions(fetcher: Fetcher, offsets: Mapping[TopicPartition, int | None]) -> None:
        right(fetcher, {each: offset - 1 if offset else offset for each, offset in offsets.items()})

    return patch_attribute(Fetcher, "add_partitions", add_partitions)


@planted_bug
def member_ignores_its_poll_timeout() -> BugContext:
    """A member sends heartbeats for ever, however long its application has not been inside poll()."""
    right = Heartbeats.check_timers

    def check_timers(heartbeats: Heartbeats, is_polling: bool) -> None:
        heartbeats.record_poll()
        right(heartbeats, is_polling)

    return patch_attribute(Heartbeats, "check_timers", check_timers)


@planted_bug
def member_leaves_at_half_its_poll_interval() -> BugContext:
    """A member leaves when its application has been outside poll() for half of max.poll.interval.ms."""

    def record_poll(heartbeats: Heartbeats) -> None:
        heartbeats._poll_expires_ms = heartbeats._in_flight.now_ms + heartbeats._settings.max_poll_interval_ms // 2

    return patch_attribute(Heartbeats, "record_poll", record_poll)


@planted_bug
def member_falls_silent_at_its_poll_timeout() -> BugContext:
    """A member whose application is outside poll() for too long sends no more heartbeats, and no LeaveGroup either."""
    right = ConsumerMachine._leave

    def leave(machine: ConsumerMachine, reason: str, leaves_group: bool | None = None) -> None:
        right(machine, reason, False if "poll timeout" in reason else leaves_group)

    return patch_attribute(ConsumerMachine, "_leave", leave)


@planted_bug
def cooperative_member_revokes_nothing() -> BugContext:
    """A cooperative member adds its assignment to what it owns, even if partitions were taken from it."""
    right = ConsumerRebalance._apply_assignment

    def apply_assignment(rebalance: ConsumerRebalance, assignor: Assignor, assignment: Assignment) -> None:
        if rebalance.protocol is RebalanceProtocol.COOPERATIVE:
            both = tuple(dict.fromkeys((*rebalance.offsets.owned_partitions, *assignment.partitions)))
            assignment = Assignment(assignment.version, both, assignment.user_data)
        right(rebalance, assignor, assignment)

    return patch_attribute(ConsumerRebalance, "_apply_assignment", apply_assignment)


@planted_bug
def cooperative_leader_moves_partitions_at_once() -> BugContext:
    """A cooperative leader assigns a partition to its next owner while the present one still has it."""

    def assign(
        assignor: CooperativeStickyAssignor, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]
    ) -> Assignments:
        return assignor._assign(cluster, members)[0] if members else {}

    return patch_attribute(CooperativeStickyAssignor, "assign", assign)


@planted_bug
def removed_member_keeps_its_partitions() -> BugContext:
    """A member that learns that it is not in the group any more reads on until its next assignment."""
    return patch_attribute(ConsumerRebalance, "lose_all_partitions", lambda rebalance: None)


@planted_bug
def closed_member_stays() -> BugContext:
    """A consumer that is closed sends no LeaveGroup: its member stays until its session expires."""
    return patch_attribute(ConsumerMachine, "_leave", lambda machine, reason, leaves_group=None: None)


@planted_bug
def joining_member_does_not_leave() -> BugContext:
    """A consumer that is closed, or unsubscribes, while its JoinGroup has no response sends no LeaveGroup."""
    right = ConsumerMachine._leave

    def leave(machine: ConsumerMachine, reason: str, leaves_group: bool | None = None) -> None:
        right(machine, reason, False if machine.state is MemberState.PREPARING_REBALANCE else leaves_group)

    return patch_attribute(ConsumerMachine, "_leave", leave)


@planted_bug
def member_finds_no_first_offset() -> BugContext:
    """A member never asks where a partition begins for which no offset is committed."""
    right = Fetcher.send_fetches

    def send_fetches(fetcher: Fetcher) -> None:
        to_reset, fetcher._to_reset = fetcher._to_reset, type(fetcher._to_reset)()
        right(fetcher)
        fetcher._to_reset = to_reset

    return patch_attribute(Fetcher, "send_fetches", send_fetches)


@planted_bug
def member_takes_a_refusal_for_no_offset() -> BugContext:
    """A member whose OffsetFetch is refused begins as if no offset were committed."""

    def begin_without(offsets: ConsumerOffsets, action: ErrorAction, code: int) -> None:
        offsets.changes.append(CommittedOffsetsFetched(dict.fromkeys(offsets._unknown_positions)))
        offsets._unknown_positions = {}

    return patch_attribute(ConsumerOffsets, "_fetch_failed", begin_without)


@planted_bug
def member_keeps_the_partitions_of_a_refused_generation() -> BugContext:
    """A member whose generation is refused joins again as if only a rebalance had begun."""
    right = Membership.reset

    def reset(membership: Membership, reset: MembershipReset, reason: str) -> None:
        if reset is MembershipReset.GENERATION:
            membership.request_rejoin(reason)
        else:
            right(membership, reset, reason)

    return patch_attribute(Membership, "reset", reset)


@planted_bug
def assignor_remembers_the_generation_before() -> BugContext:
    """The user data of a member's assignor name the generation before that of its last assignment."""
    right = Assignor.on_assignment

    def on_assignment(assignor: Assignor, assignment: Assignment, generation: int) -> LastAssignment:
        return right(assignor, assignment, generation - 1)

    return patch_attribute(Assignor, "on_assignment", on_assignment)


@planted_bug
def member_swaps_its_timeouts() -> BugContext:
    """JoinGroup has the session timeout as rebalance timeout, and the rebalance timeout as session timeout."""
    right = requests.join_group

    def join_group(*arguments: Any) -> JoinGroupRequest:
        message = right(*arguments)
        session_timeout_ms, rebalance_timeout_ms = message.rebalance_timeout_ms, message.session_timeout_ms
        return replace(message, session_timeout_ms=session_timeout_ms, rebalance_timeout_ms=rebalance_timeout_ms)

    return patch_attribute(requests, "join_group", join_group)


@planted_bug
def closed_member_commits_nothing() -> BugContext:
    """A consumer that is closed gives its partitions up without a commit, although it commits automatically."""
    right = ConsumerOffsets.auto_commit_positions

    def auto_commit_positions(offsets: ConsumerOffsets, retry_for_ms: int) -> PendingCommit | None:
        is_in_rebalance = retry_for_ms == offsets.settings.rebalance_timeout_ms
        return right(offsets, retry_for_ms) if is_in_rebalance else None

    return patch_attribute(ConsumerOffsets, "auto_commit_positions", auto_commit_positions)


@planted_bug
def unsubscribing_member_leaves_first() -> BugContext:
    """A consumer that unsubscribes leaves its group, and then loses the partitions that it had to give up."""
    right = ConsumerMachine._leave

    def leave(machine: ConsumerMachine, reason: str, leaves_group: bool | None = None) -> None:
        given_up = [each for each in machine._changes if isinstance(each, PartitionsRevoked)]
        machine._changes[:] = [each for each in machine._changes if each not in given_up]
        right(machine, reason, leaves_group)
        machine._changes.extend(PartitionsLost(each.partitions) for each in given_up)

    return patch_attribute(ConsumerMachine, "_leave", leave)


@planted_bug
def leader_watches_its_own_topics() -> BugContext:
    """A leader does not notice that a topic has grown to which only other members of its group subscribe."""
    right = ConsumerMetadata.snapshot

    def snapshot(metadata: ConsumerMetadata) -> MetadataSnapshot:
        return {topic: racks for topic, racks in right(metadata).items() if topic in metadata.topics}

    return patch_attribute(ConsumerMetadata, "snapshot", snapshot)


@planted_bug
def member_gives_up_a_healthy_coordinator() -> BugContext:
    """A member takes no heartbeat that is answered with REBALANCE_IN_PROGRESS for a sign that its coordinator lives."""
    right = Heartbeats._on_response

    def wrong(heartbeats: Heartbeats, response: Message | RequestFailed, is_same_generation: bool) -> None:
        answered_at_ms = heartbeats._answered_at_ms
        right(heartbeats, response, is_same_generation)
        if isinstance(response, HeartbeatResponse) and response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            heartbeats._answered_at_ms = answered_at_ms

    return patch_attribute(Heartbeats, "_on_response", wrong)


@planted_bug
def member_forgets_partitions_without_an_offset() -> BugContext:
    """A member that keeps a partition in a rebalance, and does not know its committed offset, asks for it no more."""
    right = ConsumerOffsets.set_owned_partitions

    def wrong(offsets: ConsumerOffsets, partitions: tuple[TopicPartition, ...]) -> None:
        kept = frozenset(offsets.owned_partitions)
        right(offsets, partitions)
        offsets._unknown_positions = {each: None for each in offsets._unknown_positions if each not in kept}

    return patch_attribute(ConsumerOffsets, "set_owned_partitions", wrong)


@planted_bug
def producer_keeps_the_leader_that_refused() -> BugContext:
    """A producer goes on to send a partition's records to the broker that has refused them."""
    right = SimulatedProducer._on_response

    def wrong(producer: SimulatedProducer, counts: dict[TopicPartition, int], response: Any) -> None:
        leaders = dict(producer._leaders.by_partition)
        right(producer, counts, response)
        producer._leaders.by_partition.update(leaders)

    return patch_attribute(SimulatedProducer, "_on_response", wrong)
