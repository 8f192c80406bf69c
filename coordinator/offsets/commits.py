"""OffsetCommit, OffsetFetch, OffsetDelete, and the expiry of offsets."""

from collections.abc import Iterable, Sequence

from regroup.coordinator import responses
from regroup.coordinator.commands import (
    DeleteTopicOffsets,
    ExpireOffsets,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    RequestedOffset,
)
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import GroupCreated, GroupDeleted, OffsetsCommitted, OffsetsDeleted, OffsetsWritten
from regroup.coordinator.group import CommittedOffset, Group, MemberId, OffsetsByPartition
from regroup.coordinator.offsets.evolve_offsets import merge_offsets
from regroup.coordinator.offsets.log_batch_size import offsets_fit
from regroup.coordinator.offsets.rules import OffsetRules
from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.java_order import utf16_order
from regroup.protocol.messages.offsets import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET = CommittedOffset(-1)


def offset_commit(rules: OffsetRules, decision: DecisionBuilder, command: OffsetCommit) -> Decision:
    """Handle an OffsetCommit: write its offsets, if the offset rules of the group accept the request."""
    codes = metadata_codes(decision.settings, command.offsets)
    accepted = with_code_none(command.offsets, codes)
    if refused := rules.refuse_commit(decision.group, command, accepted):
        return decision.build(responses.offset_commit_response(command, refused))
    if command.member_id in decision.group.members:
        decision.touch_session(command.member_id)
    if not offsets_fit(command.group_id, accepted):
        return decision.build(responses.offset_commit_response(command, ErrorCode.UNKNOWN_SERVER_ERROR))
    if not decision.group.exists:
        decision.apply(GroupCreated, by_join=False, reason="OffsetCommit")
    expires_at_ms = None if command.retention_ms is None else command.at_ms + command.retention_ms
    if offsets := accepted_offsets(accepted, command.at_ms, expires_at_ms):
        write_offsets(decision, offsets, command.member_id, decision.append_deadline_ms(command))
    return decision.build_after_pending_appends(responses.offset_commit_response(command, codes))


def with_code_none(offsets: Sequence[RequestedOffset], codes: Sequence[ErrorCode]) -> Sequence[RequestedOffset]:
    """Those of the offsets whose error code is NONE. `codes` has one code for each offset, in the same order."""
    if not any(codes):
        return offsets
    return [each for each, code in zip(offsets, codes, strict=True) if code is ErrorCode.NONE]


def write_offsets(
    decision: DecisionBuilder, offsets: OffsetsByPartition, member_id: MemberId, commit_deadline_ms: int | None
) -> None:
    if commit_deadline_ms is None:
        decision.apply(OffsetsCommitted, member_id=member_id, offsets=offsets)
    else:
        decision.apply(OffsetsWritten, member_id=member_id, offsets=offsets, commit_deadline_ms=commit_deadline_ms)


def metadata_codes(settings: CoordinatorSettings, offsets: Iterable[RequestedOffset]) -> list[ErrorCode]:
    """One error code for each offset: OFFSET_METADATA_TOO_LARGE if its metadata exceed `offset.metadata.max.bytes`,
    otherwise NONE. The other offsets of the request are committed all the same, also one for the same partition."""
    max_units = settings.offset_metadata_max_bytes
    accepted, too_large = ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE
    texts = [offset.metadata for offset in offsets]
    if not any(texts) or 2 * max(map(len, texts)) <= max_units:  # a character has one or two UTF-16 code units
        return [accepted] * len(texts)
    return [too_large if len(utf16_order(text)) > 2 * max_units else accepted for text in texts]


def accepted_offsets(
    accepted: Iterable[RequestedOffset], at_ms: int, expires_at_ms: int | None = None
) -> OffsetsByPartition:
    """The accepted offsets as values of the group's state; of several for one partition, the last one counts."""
    committed: dict[str, dict[int, CommittedOffset]] = {}
    topic, partitions = None, dict[int, CommittedOffset]()
    for offset in accepted:
        if offset.topic != topic:  # mostly the offsets of a topic follow each other
            topic = offset.topic
            partitions = committed.setdefault(topic, {})
        partitions[offset.partition] = CommittedOffset(
            offset.offset, offset.leader_epoch, offset.metadata, at_ms, expires_at_ms
        )
    return committed


def offset_fetch(rules: OffsetRules, decision: DecisionBuilder, command: OffsetFetch) -> Decision:
    """Handle an OffsetFetch: return the committed offsets of the requested partitions, -1 where there is none. Whether
    the topic exists is not checked.

    Offsets of open transactions are not returned. With `require_stable` a partition that has one is answered with
    UNSTABLE_OFFSET_COMMIT, and the response waits for commits that the log has written and not committed.
    """
    group = decision.group
    if refused := rules.refuse_fetch(group, command):
        return decision.build(OffsetFetchResponseGroup(group_id=command.group_id, error_code=refused))
    after_append = group.last_pending_append if command.require_stable else None
    offsets = group.committed_offsets if after_append is None else offsets_with_pending_appends(group)
    requested = command.partitions
    if requested is None:
        requested = {topic: tuple(partitions) for topic, partitions in offsets.items()}
    topics = [
        OffsetFetchResponseTopics(
            name=topic,
            partitions=[
                fetched_partition(index, NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                if command.require_stable and group.has_pending_transactional_offset(topic, index)
                else fetched_partition(index, offsets.get(topic, {}).get(index, NO_OFFSET))
                for index in indexes
            ],
        )
        for topic, indexes in requested.items()
    ]
    response = OffsetFetchResponseGroup(group_id=command.group_id, topics=topics)
    return decision.build(response, after_append=after_append)


def offsets_with_pending_appends(group: Group) -> OffsetsByPartition:
    """Every offset, including those that the log has written and not committed."""
    offsets = group.committed_offsets
    for append in group.pending_appends.values():
        offsets = merge_offsets(offsets, append.offsets)
    return offsets


def fetched_partition(
    index: int, offset: CommittedOffset, code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        error_code=code,
    )


def offset_delete(rules: OffsetRules, decision: DecisionBuilder, command: OffsetDelete) -> Decision:
    """Handle an OffsetDelete: delete the offsets of the named partitions, except those of topics to which a member
    subscribes (KIP-496)."""
    group = decision.group
    if refused := rules.refuse_delete(group, command):
        return decision.build(responses.offset_delete_response(refused))
    codes: dict[str, dict[int, ErrorCode]] = {}
    deleted: dict[str, tuple[int, ...]] = {}
    for topic, indexes in command.partitions.items():
        if rules.is_subscribed(group, topic):
            codes[topic] = dict.fromkeys(indexes, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        codes[topic] = dict.fromkeys(indexes, ErrorCode.NONE)
        present = frozenset(group.partitions_with_offsets(topic))
        if there := tuple(index for index in indexes if index in present):
            deleted[topic] = there
    if deleted:
        decision.apply(OffsetsDeleted, partitions=deleted, reason="OffsetDelete")
    return decision.build_after_pending_appends(responses.offset_delete_response(ErrorCode.NONE, codes))


def expire_offsets(rules: OffsetRules, decision: DecisionBuilder, command: ExpireOffsets) -> Decision:
    """Delete offsets past their retention, and the group if nothing is left of it (KIP-211)."""
    group, expired = decision.group, dict[str, tuple[int, ...]]()
    for topic, partitions in offsets_with_pending_appends(group).items():
        indexes = tuple(
            index
            for index, offset in partitions.items()
            if is_expired(decision, rules, topic, offset) and not group.has_pending_transactional_offset(topic, index)
        )
        if indexes:
            expired[topic] = indexes
    if expired:
        decision.apply(OffsetsDeleted, partitions=expired, reason="retention expired")
    group = decision.group
    has_offsets = group.committed_offsets or group.pending_transactional_offsets or group.pending_appends
    if rules.is_empty(group) and not has_offsets:
        decision.apply(GroupDeleted, reason="no members and no offsets")
    return decision.build()


def delete_topic_offsets(decision: DecisionBuilder, command: DeleteTopicOffsets) -> Decision:
    """Delete the group's offsets of a deleted topic, since a later topic of the same name begins at offset 0."""
    if indexes := decision.group.partitions_with_offsets(command.topic):
        reason = f"topic {command.topic} was deleted"
        decision.apply(OffsetsDeleted, partitions={command.topic: indexes}, reason=reason)
    return decision.build()


def is_expired(decision: DecisionBuilder, rules: OffsetRules, topic: str, offset: CommittedOffset) -> bool:
    """Whether the offset has been kept for its retention time, or until the time that its commit has named, if it
    has."""
    since_ms = rules.retention_starts_ms(decision.group, topic, offset)
    if since_ms is None:
        return False
    if offset.expires_at_ms is not None:
        return decision.at_ms >= offset.expires_at_ms
    return decision.at_ms - since_ms >= decision.settings.offsets_retention_minutes * 60_000
