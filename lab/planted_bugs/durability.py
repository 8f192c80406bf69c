"""Bugs in committed offsets, in what waits for the store, and in what a coordinator loads from it."""

from collections.abc import Sequence

from msgspec.structs import replace

from regroup.coordinator.classic.offset_rules import ClassicOffsetRules
from regroup.coordinator.commands import OffsetCommit, RequestedOffset
from regroup.coordinator.decision import DecisionBuilder
from regroup.coordinator.events import CoordinatorLoaded
from regroup.coordinator.evolve import coordinator_loaded
from regroup.coordinator.group import Group, MemberId, OffsetsByPartition
from regroup.coordinator.offsets import commits
from regroup.coordinator.runtime import group_coordinator
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.pending_responses import PendingRequest
from regroup.coordinator.serialization import encode_snapshot
from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, patch_evolver, planted_bug
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from regroup.storage.records import Snapshot


@planted_bug
def zombie_may_commit() -> BugContext:
    """A commit is accepted from a member that was removed from the group."""
    right = ClassicOffsetRules.refuse_commit

    def refuse_commit(
        rules: ClassicOffsetRules, group: Group, command: OffsetCommit, accepted: Sequence[RequestedOffset]
    ) -> ErrorCode | None:
        refused = right(rules, group, command, accepted)
        return None if refused is ErrorCode.UNKNOWN_MEMBER_ID and command.member_id else refused

    return patch_attribute(ClassicOffsetRules, "refuse_commit", refuse_commit)


@planted_bug
def commit_keeps_one_partition() -> BugContext:
    """Only the last partition of a commit is stored; all are acknowledged."""
    right = commits.write_offsets

    def write_offsets(
        decision: DecisionBuilder, offsets: OffsetsByPartition, member_id: MemberId, append_deadline_ms: int | None
    ) -> None:
        topic, partitions = list(offsets.items())[-1]
        number, offset = list(partitions.items())[-1]
        right(decision, {topic: {number: offset}}, member_id, append_deadline_ms)

    return patch_attribute(commits, "write_offsets", write_offsets)


@planted_bug
def response_does_not_wait_for_the_disk() -> BugContext:
    """A response is sent before the events that it rests on are durable."""

    def send(coordinator: GroupCoordinator, request: PendingRequest, response: Structure) -> None:
        request.on_response(response)

    return patch_attribute(GroupCoordinator, "_send", send)


@planted_bug
def load_forgets_offsets() -> BugContext:
    """A coordinator that loads a group gets its members, but not its offsets."""

    def load(group: Group, event: CoordinatorLoaded) -> Group:
        return replace(coordinator_loaded(group, event), committed_offsets={})

    return patch_evolver(CoordinatorLoaded, load)


@planted_bug
def load_begins_at_generation_0() -> BugContext:
    """A coordinator that loads a group starts again with generation 0."""

    def load(group: Group, event: CoordinatorLoaded) -> Group:
        return replace(coordinator_loaded(group, event), generation_id=0)

    return patch_evolver(CoordinatorLoaded, load)


@planted_bug
def load_remembers_what_was_never_stored() -> BugContext:
    """A coordinator that loads a group continues where the former one was, although Kafka's log never held that."""

    def load(group: Group, event: CoordinatorLoaded) -> Group:
        return replace(group, loaded_at_ms=event.at_ms)

    return patch_evolver(CoordinatorLoaded, load)


@planted_bug
def snapshot_without_offsets() -> BugContext:
    """A snapshot holds a group's members, but not its offsets; loads begin with it."""

    def encode_without_offsets(group: Group, position: int, coordinator_epoch: int) -> Snapshot:
        return encode_snapshot(replace(group, committed_offsets={}), position, coordinator_epoch)

    return patch_attribute(group_coordinator, "encode_snapshot", encode_without_offsets)
