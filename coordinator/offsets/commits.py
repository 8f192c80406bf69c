"""Offsets: committed, fetched, deleted, and forgotten when they are old."""

from collections.abc import Collection, Iterable

from regroup.coordinator import responses
from regroup.coordinator.classic.protocol_vote import CONSUMER
from regroup.coordinator.classic.validation import refuse_generation
from regroup.coordinator.commands import (
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
    ForgetOldOffsets,
    ForgetTopic,
    OffsetToCommit,
)
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.events import GroupCreated, GroupDeleted, OffsetsCommitted, OffsetsForgotten, OffsetsWritten
from regroup.coordinator.group import CommittedOffset, Group, MemberId, Offsets, State
from regroup.coordinator.offsets.evolve_offsets import merged
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.java_order import utf16_order
from regroup.protocol.messages.offsets import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET = CommittedOffset(-1)


def commit_offsets(settings: Settings, group: Group, command: CommitOffsets) -> Decision:
    """Members commit for their generation; anybody may commit while nobody is in the group."""
    now = Unfolding(group, command.at_ms)
    if refused := refuse_commit(group, command):
        return now.ends(responses.committed(command, refused))
    if not group.exists:
        now.happens(GroupCreated(at_ms=now.at_ms, by_join=False, reason="somebody committed offsets for it"))
    if command.member_id:
        now.hears(command.member_id)
    too_long = notes_too_long(settings, command.offsets)
    expires_at_ms = None if command.retention_ms is None else command.at_ms + command.retention_ms
    if offsets := as_committed(command.offsets, too_long, command.at_ms, expires_at_ms):
        write(now, offsets, command.member_id, now.commit_deadline_ms(settings, command))
    return now.ends_behind_the_log(responses.committed(command, too_long))


def write(now: Unfolding, offsets: Offsets, member: MemberId, commit_deadline_ms: int | None) -> None:
    if commit_deadline_ms is None:
        now.happens(OffsetsCommitted(at_ms=now.at_ms, member=member, offsets=offsets))
    else:
        now.happens(
            OffsetsWritten(at_ms=now.at_ms, member=member, offsets=offsets, commit_deadline_ms=commit_deadline_ms)
        )


def refuse_commit(group: Group, command: CommitOffsets) -> ErrorCode | None:
    """In the order of Kafka's `validateOffsetCommit`.

    The outgoing generation may commit until the join phase ends, and then must wait.
    """
    if not group.exists:
        if command.generation_id < 0:
            return None
        return ErrorCode.GROUP_ID_NOT_FOUND if command.knows_missing_groups else ErrorCode.ILLEGAL_GENERATION
    if command.generation_id < 0 and group.state is State.EMPTY:
        return None
    if command.generation_id < 0 and not command.member_id and command.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    refused = refuse_generation(group, command.member_id, command.group_instance_id, command.generation_id)
    if refused is None and group.state is State.COMPLETING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return refused


def notes_too_long(settings: Settings, offsets: Iterable[OffsetToCommit]) -> dict[tuple[str, int], ErrorCode]:
    """The partitions whose note is too long; the others of the same request are committed nevertheless."""
    most_bytes = 2 * settings.offset_metadata_max_bytes
    return {
        (offset.topic, offset.partition): ErrorCode.OFFSET_METADATA_TOO_LARGE
        for offset in offsets
        if len(utf16_order(offset.metadata)) > most_bytes
    }


def as_committed(
    offsets: Iterable[OffsetToCommit],
    left_out: Collection[tuple[str, int]],
    at_ms: int,
    expires_at_ms: int | None = None,
) -> Offsets:
    committed: Offsets = {}
    for offset in offsets:
        if (offset.topic, offset.partition) not in left_out:
            committed.setdefault(offset.topic, {})[offset.partition] = CommittedOffset(
                offset.offset, offset.leader_epoch, offset.metadata, at_ms, expires_at_ms
            )
    return committed


def fetch_offsets(settings: Settings, group: Group, command: FetchOffsets) -> Decision:
    """Where the group stands. Neither membership nor the topic's existence is looked at; -1 means nothing.

    What open transactions have written is not shown. Whoever asks for stable offsets is told that there is such a
    thing, and waits for commits that Kafka's log has written already.
    """
    behind = group.last_append if command.require_stable else None
    offsets = group.offsets if behind is None else with_written(group)
    asked = command.partitions
    if asked is None:
        asked = {topic: tuple(partitions) for topic, partitions in offsets.items()}
    topics = [
        OffsetFetchResponseTopics(
            name=topic,
            partitions=[
                fetched(number, NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                if command.require_stable and group.is_unstable(topic, number)
                else fetched(number, offsets.get(topic, {}).get(number, NO_OFFSET))
                for number in numbers
            ],
        )
        for topic, numbers in asked.items()
    ]
    return Decision(group, answer=OffsetFetchResponseGroup(group_id=command.group_id, topics=topics), behind=behind)


def with_written(group: Group) -> Offsets:
    """Every offset, also those that Kafka's log has written and not committed."""
    offsets = group.offsets
    for append in group.appends.values():
        offsets = merged(offsets, append.offsets)
    return offsets


def fetched(number: int, offset: CommittedOffset, code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=number,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        error_code=code,
    )


def delete_offsets(settings: Settings, group: Group, command: DeleteOffsets) -> Decision:
    """Offsets of a topic that a member subscribes to are kept (KIP-496)."""
    now = Unfolding(group, command.at_ms)
    if refused := refuse_deletion(group, command):
        return now.ends(responses.offsets_deleted(refused))
    codes = {
        topic: dict.fromkeys(numbers, deletion_code(group, topic)) for topic, numbers in command.partitions.items()
    }
    doomed = {
        topic: there
        for topic, numbers in command.partitions.items()
        if deletion_code(group, topic) is ErrorCode.NONE and (there := with_offsets_among(group, topic, numbers))
    }
    if doomed:
        now.happens(OffsetsForgotten(at_ms=now.at_ms, partitions=doomed, reason="somebody asked for it"))
    return now.ends_behind_the_log(responses.offsets_deleted(ErrorCode.NONE, codes))


def with_offsets_among(group: Group, topic: str, numbers: Iterable[int]) -> tuple[int, ...]:
    held = frozenset(group.partitions_with_offsets(topic))
    return tuple(number for number in numbers if number in held)


def refuse_deletion(group: Group, command: DeleteOffsets) -> ErrorCode | None:
    if not command.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not group.exists:
        return ErrorCode.GROUP_ID_NOT_FOUND
    opaque = group.protocol_type != CONSUMER and group.state is not State.EMPTY
    return ErrorCode.NON_EMPTY_GROUP if opaque else None


def deletion_code(group: Group, topic: str) -> ErrorCode:
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed(group, topic) else ErrorCode.NONE


def is_subscribed(group: Group, topic: str) -> bool:
    """Where subscriptions could not be read, every topic counts."""
    return group.subscribed_topics is None or topic in group.subscribed_topics


def forget_old_offsets(settings: Settings, group: Group, command: ForgetOldOffsets) -> Decision:
    """The regular look (KIP-211): offsets past their retention go, and a group with nothing left goes too."""
    now = Unfolding(group, command.at_ms)
    old = {
        topic: numbers
        for topic, partitions in with_written(group).items()
        if (
            numbers := tuple(
                n
                for n, offset in partitions.items()
                if is_old(settings, group, topic, offset, now.at_ms) and not group.is_unstable(topic, n)
            )
        )
    }
    if old:
        now.happens(OffsetsForgotten(at_ms=now.at_ms, partitions=old, reason="they outlived their retention"))
    if now.group.state is State.EMPTY and not (now.group.offsets or now.group.pending_offsets or now.group.appends):
        now.happens(GroupDeleted(at_ms=now.at_ms, reason="it has neither members nor offsets"))
    return now.ends()


def forget_topic(settings: Settings, group: Group, command: ForgetTopic) -> Decision:
    """A later topic of the same name is another one, and begins at 0."""
    now = Unfolding(group, command.at_ms)
    if numbers := group.partitions_with_offsets(command.topic):
        reason = f"topic {command.topic} was deleted"
        now.happens(OffsetsForgotten(at_ms=now.at_ms, partitions={command.topic: numbers}, reason=reason))
    return now.ends()


def is_old(settings: Settings, group: Group, topic: str, offset: CommittedOffset, at_ms: int) -> bool:
    """A group that had members keeps its offsets until long after it became Empty; otherwise each goes by its own age.

    While members gather nothing is forgotten, and in Stable only what nobody subscribes to.
    """
    retention_ms = settings.offsets_retention_minutes * 60_000
    since_ms = offset.committed_at_ms
    if group.protocol_type:
        if group.state is State.EMPTY:
            since_ms = group.state_since_ms
        elif group.state is not State.STABLE or group.protocol_type != CONSUMER or is_subscribed(group, topic):
            return False
    if offset.expires_at_ms is not None:
        return at_ms >= offset.expires_at_ms
    return at_ms - since_ms >= retention_ms
