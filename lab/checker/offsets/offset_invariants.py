"""Invariants of committed offsets: what OffsetFetch returns, what a transaction's end does, and what may change them.

Each gets the checker's state and an exchange, and returns what was found; None if the invariant holds.
"""

from collections.abc import Mapping
from typing import Any, Final

from regroup.coordinator import commands as c
from regroup.coordinator.group import CommittedOffset, Group, GroupState
from regroup.lab.checker.coordinator_state import CheckerState
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.lab.checker.offsets.expiry import is_topic_held, retention_began_ms
from regroup.protocol.errors import ErrorCode

CHANGING_COMMANDS: Final = (
    *(c.OffsetCommit, c.EndTransaction, c.OffsetDelete, c.ExpireOffsets, c.DeleteTopicOffsets, c.DeleteGroup),
    *(c.CompleteAppend, c.FailAppend, c.LoadGroup, c.ForcedChange),
)
"""The commands that may change committed offsets."""

_WITH_KNOWN_TOPICS: Final = (GroupState.STABLE, GroupState.EMPTY)
"""The states of a classic group in which the subscriptions of its members are those of its generation."""


def offset_fetch_returns_what_is_committed(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """OffsetFetch returns the committed offsets, with their metadata, and -1 where there is none.

    With `require_stable` those that wait for Kafka's log count as committed: the response waits for the log, too,
    unless all of them have waited for longer than `offsets.commit.timeout.ms` (docs/not-emulated.md).
    """
    response: Any = exchange.response
    command: Any = exchange.command
    if exchange.error_code != 0:
        return None
    awaited = _awaited_offsets(exchange.after) if command.require_stable else {}
    for topic in response.topics:
        for each in topic.partitions:
            key = topic.name, each.partition_index
            known = awaited.get(key, exchange.after.committed_offset(*key))
            due = (-1, "") if known is None else (known.offset, known.metadata)
            if each.error_code == 0 and (each.committed_offset, each.metadata) != due:
                return f"{topic.name}-{each.partition_index}: {each.committed_offset}, and {due[0]} is committed"
    return None


def offsets_of_open_transactions_are_unstable(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """OffsetFetch with `require_stable` refuses the partitions of open transactions alone as unstable (KIP-447)."""
    command: Any = exchange.command
    response: Any = exchange.response
    if exchange.error_code != ErrorCode.NONE:
        return None
    for topic in response.topics:
        for each in topic.partitions:
            key = topic.name, each.partition_index
            # This looks into the transactions itself: the group's own method for it decides the response.
            pending = exchange.before.pending_transactional_offsets.values()
            is_open = command.require_stable and any(key[1] in offsets.get(key[0], ()) for offsets in pending)
            if (each.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT) is not is_open:
                found = "has an open transaction" if is_open else "has no open transaction"
                return f"{key[0]}-{key[1]} {found}, and is answered with {ErrorCode.name_of(each.error_code)}"
    return None


def _awaited_offsets(group: Group) -> dict[tuple[str, int], CommittedOffset]:
    """The offsets that the log has written and not committed, by topic and partition: of several the newest; none if no
    request waits for the log any more."""
    if all(append.has_timed_out for append in group.pending_appends.values()):
        return {}
    return {
        (topic, index): offset
        for _, append in sorted(group.pending_appends.items())
        for topic, partitions in append.offsets.items()
        for index, offset in partitions.items()
    }


def deleted_offsets_are_gone(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A partition for which OffsetDelete succeeds has no committed offset when the request was handled (KIP-496)."""
    response: Any = exchange.response
    for topic in response.topics:
        for each in topic.partitions:
            left = exchange.after.committed_offset(topic.name, each.partition_index)
            if each.error_code == 0 and left is not None:
                return f"{topic.name}-{each.partition_index} still has offset {left.offset}"
    return None


def only_subscribed_topics_keep_their_offsets(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """OffsetDelete refuses the topics to which a member subscribes, and no others (KIP-496).

    In a classic group that rebalances the subscriptions may be those of the generation before: it is not judged.
    """
    group = exchange.before
    response: Any = exchange.response
    if response.error_code != ErrorCode.NONE or not (group.consumer or group.state in _WITH_KNOWN_TOPICS):
        return None
    for topic in response.topics:
        is_held = is_topic_held(group, topic.name)
        codes = {each.error_code for each in topic.partitions} & {ErrorCode.NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
        if codes and codes != {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_held else ErrorCode.NONE}:
            answers = ", ".join(ErrorCode.name_of(each) for each in sorted(codes))
            subscribers = "subscribers" if is_held else "no subscribers"
            return f"{topic.name} has {subscribers}, and is answered with {answers}"
    return None


def offsets_change_with_a_reason(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """Committed offsets change only by commits, ended transactions, deletions and the log.

    A commit changes the partitions that it names, and no others.
    """
    before, after, command = exchange.before, exchange.after, exchange.command
    if before.committed_offsets is after.committed_offsets:
        return None
    changed = changed_offsets(before, after)
    if changed and not isinstance(command, CHANGING_COMMANDS) and after.exists:
        return f"{type(command).__name__} changes {_listed(changed)}"
    if isinstance(command, c.OffsetCommit) and before.exists:
        named = {(each.topic, each.partition): each.offset for each in command.offsets}
        for key, (_, now) in changed.items():
            if key not in named or now is None or now.offset != named[key]:
                return f"a commit of {named} changes {_listed({key: changed[key]})}"
    return None


def a_transaction_ends_as_a_whole(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """The offsets of a committed transaction become those of its group, and those of an aborted one never do."""
    command, before, after = exchange.command, exchange.before, exchange.after
    assert isinstance(command, c.EndTransaction)
    if command.producer_id in after.pending_transactional_offsets:
        return f"the transaction of producer {command.producer_id} is still open"
    pending = before.pending_transactional_offsets.get(command.producer_id, {})
    wins = {
        (topic, index): each.offset
        for topic, partitions in pending.items()
        for index, each in partitions.items()
        if command.committed and not each.is_superseded
    }
    for key in sorted({*changed_offsets(before, after), *wins}):
        now, due = after.committed_offset(*key), wins.get(key, before.committed_offset(*key))
        if now != due:
            ended = "committed" if command.committed else "aborted"
            return f"a transaction that {ended} leaves {key[0]}-{key[1]} at {now and now.offset}, due was {due}"
    return None


def offsets_expire_after_their_retention(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """An offset expires only after its retention, and not while a member subscribes to its topic.

    In a classic group that had members and is Empty, the retention counts from when the group became Empty (KIP-211).
    """
    if not isinstance(exchange.command, c.ExpireOffsets):
        return None
    before, at_ms = exchange.before, exchange.command.at_ms
    retention_ms = state.settings.offsets_retention_minutes * 60_000
    for (topic, index), (former, _) in changed_offsets(before, exchange.after).items():
        if former is None:
            continue
        kept_ms = at_ms - retention_began_ms(before, former)
        if former.expires_at_ms is not None and at_ms < former.expires_at_ms:
            return f"{topic}-{index} was to be kept for {former.expires_at_ms - at_ms} ms more"
        if former.expires_at_ms is None and kept_ms < retention_ms:
            return f"the retention of {topic}-{index} began {kept_ms} ms ago"
        if is_topic_held(before, topic):
            return f"members subscribe to {topic}, or might, or the group rebalances"
    return None


def changed_offsets(
    before: Group, after: Group
) -> Mapping[tuple[str, int], tuple[CommittedOffset | None, CommittedOffset | None]]:
    """The partitions whose committed offset differs between two states of a group, each with both offsets."""
    former, present = _flat(before), _flat(after)
    return {
        key: (former.get(key), present.get(key)) for key in {**former, **present} if former.get(key) != present.get(key)
    }


def _flat(group: Group) -> dict[tuple[str, int], CommittedOffset]:
    return {
        (topic, index): each
        for topic, partitions in group.committed_offsets.items()
        for index, each in partitions.items()
    }


def _listed(changed: Mapping[tuple[str, int], tuple[CommittedOffset | None, CommittedOffset | None]]) -> str:
    texts = [
        f"{topic}-{index} from {former and former.offset} to {now and now.offset}"
        for (topic, index), (former, now) in changed.items()
    ]
    return ", ".join(texts)
