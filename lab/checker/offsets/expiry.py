"""Offsets that have to expire: how often a coordinator looks for them, and what each look has to delete.

expiry = OffsetExpiry(settings)
expiry.on_command(exchange, now_ms)         # what is wrong after a command that was handled
expiry.on_loaded("payments", now_ms)        # the load of a group is durable
expiry.overdue(group, now_ms)               # at the end of a run

How long an offset has been kept is measured by the coordinator's clock, which may jump; how often the coordinator
looks, by the run's clock, which never does.
"""

from collections.abc import Iterator
from typing import Final

from regroup.coordinator import commands as c
from regroup.coordinator.group import CommittedOffset, Group, GroupState
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.exchanges import ObservedExchange

OFFSETS_EXPIRE: Final = (
    "An offset is gone when its retention and one check interval are over, unless a member subscribes to its topic, "
    "its group rebalances, or a transaction or Kafka's log has a newer one for its partition."
)
CHECKS_KEEP_THEIR_INTERVAL: Final = "A coordinator looks for expired offsets once in each check interval, not earlier."
ROUNDING_MS: Final = 1
"""By how much a time in whole milliseconds may be too short."""
SLACK_MS: Final = 1_000
"""How late a coordinator may look for offsets, in milliseconds."""


class OffsetExpiry:
    """When the coordinator of each group of a run has last looked for offsets whose retention is over."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        self._retention_ms = settings.offsets_retention_minutes * 60_000
        self._interval_ms = settings.offsets_retention_check_interval_ms
        self._checked_ms: dict[str, int] = {}
        """By group id, when the coordinator last looked, loaded the group or created it, by the run's clock."""
        self._looked_ms: dict[str, int] = {}
        """By group id, when its present coordinator last looked."""

    def early_look(self, exchange: ObservedExchange, now_ms: int) -> Iterator[str]:
        """Describe a look for expired offsets that comes before the check interval since the last one is over."""
        group_id = exchange.group_id
        if isinstance(exchange.command, c.ExpireOffsets):
            since_ms = now_ms - self._looked_ms.get(group_id, now_ms - self._interval_ms)
            if since_ms < self._interval_ms - ROUNDING_MS:
                yield f"it has looked {since_ms} ms ago in group {group_id}"
            self._looked_ms[group_id] = now_ms
        if isinstance(exchange.command, c.LoadGroup) or not exchange.after.exists:
            self._looked_ms.pop(group_id, None)  # another coordinator may have the group now

    def on_command(self, exchange: ObservedExchange, now_ms: int) -> Iterator[tuple[str, str]]:
        """Yield, with its sentence, each offset that a look for expired ones has left, and a look that should have come
        before now."""
        group_id, command = exchange.group_id, exchange.command
        if isinstance(command, c.LoadGroup) or not exchange.after.exists:
            self._checked_ms.pop(group_id, None)
            return
        if not exchange.before.exists:
            self._checked_ms[group_id] = now_ms
            return
        yield from ((CHECKS_KEEP_THEIR_INTERVAL, each) for each in self.overdue(exchange.before, now_ms))
        if isinstance(command, c.ExpireOffsets):
            self._checked_ms[group_id] = now_ms
            yield from ((OFFSETS_EXPIRE, each) for each in self._left(exchange.before, exchange.after, command.at_ms))

    def on_loaded(self, group_id: str, now_ms: int) -> None:
        """Note that the load of a group is durable: its coordinator looks for expired offsets from now on."""
        self._checked_ms[group_id] = now_ms

    def overdue(self, group: Group, now_ms: int) -> Iterator[str]:
        """Describe the look for expired offsets of this group that should have come by now, if it has any offsets.

        It is described once.
        """
        unchecked_ms = now_ms - self._checked_ms.get(group.group_id, now_ms)
        if group.committed_offsets and unchecked_ms > self._interval_ms + SLACK_MS:
            del self._checked_ms[group.group_id]
            yield f"nothing has looked for expired offsets of group {group.group_id} for {unchecked_ms} ms"

    def _left(self, before: Group, after: Group, at_ms: int) -> Iterator[str]:
        for topic, partitions in after.committed_offsets.items():
            if is_topic_held(before, topic):
                continue
            for index, offset in partitions.items():
                kept_ms = at_ms - retention_began_ms(before, offset)
                is_over = (
                    kept_ms >= self._retention_ms if offset.expires_at_ms is None else at_ms >= offset.expires_at_ms
                )
                if is_over and not _has_newer(before, topic, index):
                    yield f"{topic}-{index} was left, {kept_ms} ms after its retention began"


def is_topic_held(group: Group, topic: str) -> bool:
    """Whether no offset of this topic may expire at present: a member subscribes to it, or might, or the group
    rebalances."""
    consumer = group.consumer
    if consumer is not None:
        named = any(topic in each.profile.subscribed_topics for each in consumer.members.values())
        return named or any(topic in each.topics for each in consumer.resolved_regexes.values())
    if group.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
        return True
    if group.state is not GroupState.STABLE:
        return False
    topics = group.subscribed_topics
    return group.protocol_type != "consumer" or topics is None or topic in topics


def retention_began_ms(group: Group, offset: CommittedOffset) -> int:
    """When the retention of an offset began, in epoch milliseconds.

    In a classic group that had members and is Empty it is when the group became Empty, otherwise the commit (KIP-211).
    """
    is_emptied = group.consumer is None and group.protocol_type and group.state is GroupState.EMPTY
    return group.state_since_ms if is_emptied else offset.committed_at_ms


def _has_newer(group: Group, topic: str, index: int) -> bool:
    appends = group.pending_appends.values()
    return group.has_pending_transactional_offset(topic, index) or any(
        index in each.offsets.get(topic, ()) for each in appends
    )
