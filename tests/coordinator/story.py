"""Stories about one group, told on a virtual clock: `decide` and `next_deadline` alone, no event loop.

    story = Story()
    anna, ben = story.stable("anna", "ben")
    story.passes(10_000, beating=[anna])
    assert story.state is State.PREPARING

A consumer's member id is its name: that is the id which the story draws for it. Where the catalogue says nothing
else, consumers have its defaults: protocols range and roundrobin, session timeout 10 s, rebalance timeout 60 s.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.events import Event
from regroup.coordinator.group import Member, State
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer import Consumer, commit_command, syncs
from tests.coordinator.stage import GROUP, Request, Stage

behaviour = pytest.mark.behaviour
"""Names the behaviours of the catalogue that a test holds to: `@behaviour("sync.preparing")`."""

AS_SEEN_BY_CLIENTS = [
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
    (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
    (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
]
"""What Kafka's own log may answer, and what those are told who waited for it."""

BEAT_EVERY_MS = 3_000
DAY_MS = 86_400_000


class Story(Stage):
    """One group, those who have to do with it, and the time."""

    def member(self, consumer: Consumer) -> Member:
        return self.group.members[consumer.id]

    def passes(self, ms: int, beating: Iterable[Consumer] = ()) -> None:
        """Time goes by; whoever is `beating` sends Heartbeats meanwhile."""
        end_ms, beating = self.now_ms + ms, list(beating)
        while beating and self.now_ms + BEAT_EVERY_MS < end_ms:
            self.passes_in_silence(self.now_ms + BEAT_EVERY_MS)
            for consumer in beating:
                consumer.beats()
        self.passes_in_silence(end_ms)

    def is_cleaned_up(self) -> list[Event]:
        """The regular look for old offsets and forgotten groups."""
        return list(self.tell(c.ForgetOldOffsets(group_id=GROUP, at_ms=self.now_ms)).events)

    def topic_is_deleted(self, topic: str) -> list[Event]:
        """Somebody has deleted a topic, perhaps one whose offsets were committed here."""
        return list(self.tell(c.ForgetTopic(group_id=GROUP, at_ms=self.now_ms, topic=topic)).events)

    def the_log_commits(self, append: int | None = None) -> Request:
        """Kafka's log commits the oldest record that it holds back, or another one."""
        oldest = next(iter(self.group.appends)) if append is None else append
        return self.tell(c.CommitAppend(group_id=GROUP, at_ms=self.now_ms, append=oldest))

    def the_log_loses(self, code: ErrorCode) -> Request:
        """Kafka's log loses the oldest record that it holds back."""
        oldest = next(iter(self.group.appends))
        return self.tell(c.RefuseAppend(group_id=GROUP, at_ms=self.now_ms, append=oldest, code=code))

    # Who asks from outside

    def describe(self) -> Any:
        return self.tell(c.DescribeGroup(group_id=GROUP, at_ms=self.now_ms)).answer

    def delete(self, group_id: str = GROUP) -> Request:
        return self.tell(c.DeleteGroup(group_id=group_id, at_ms=self.now_ms))

    def delete_offsets(self, group_id: str = GROUP, **partitions: tuple[int, ...]) -> Request:
        return self.tell(c.DeleteOffsets(group_id=group_id, at_ms=self.now_ms, partitions=partitions))

    def fetch(self, **partitions: tuple[int, ...]) -> Request:
        return self.tell(c.FetchOffsets(group_id=GROUP, at_ms=self.now_ms, partitions=partitions))

    def fetch_stable(self, **partitions: tuple[int, ...]) -> Request:
        """As `read_committed` consumers do: rather none than one that an open transaction may replace."""
        return self.tell(c.FetchOffsets(group_id=GROUP, at_ms=self.now_ms, partitions=partitions, require_stable=True))

    def fetch_everything(self, *, require_stable: bool = False) -> Request:
        return self.tell(
            c.FetchOffsets(group_id=GROUP, at_ms=self.now_ms, partitions=None, require_stable=require_stable)
        )

    def commit_in_transaction(self, producer_id: int, *offsets: tuple[str, int, int], **about: Any) -> Request:
        """TxnOffsetCommit: (topic, partition, offset)."""
        return self.tell(
            c.CommitTransactionalOffsets(
                group_id=GROUP,
                at_ms=self.now_ms,
                producer_id=producer_id,
                offsets=tuple(c.OffsetToCommit(topic, number, offset) for topic, number, offset in offsets),
                **about,
            )
        )

    def end_transaction(self, producer_id: int, *, committed: bool) -> Request:
        return self.tell(
            c.EndTransaction(group_id=GROUP, at_ms=self.now_ms, producer_id=producer_id, committed=committed)
        )

    def commit(self, *offsets: tuple[str, int, int], **about: Any) -> Request:
        """A commit of somebody outside the group: (topic, partition, offset)."""
        return self.tell(commit_command(self.now_ms, offsets, about))

    def leave(self, *leaving: c.Leaving) -> Request:
        """An operator removes members."""
        return self.tell(c.LeaveGroup(group_id=GROUP, at_ms=self.now_ms, members=leaving))

    # How stories begin

    def consumer(self, name: str, *, static: bool = False, **about: Any) -> Consumer:
        return Consumer(self, name, instance_id=f"till-of-{name}" if static else None, **about)

    def completing(self, *names: str, **about: Any) -> list[Consumer]:
        """One after another joined, the first leads; nobody has sent SyncGroup in the last generation yet.

        The generation is as large as the group.
        """
        consumers = [self.consumer(name, **about) for name in names]
        for number, newcomer in enumerate(consumers):
            if number:
                syncs(consumers[:number])
            newcomer.joins()
            for other in consumers[:number]:
                other.asks_to_join()
            if number == 0:
                self.passes(self.settings.group_initial_rebalance_delay_ms)
        assert (self.state, self.generation) == (State.COMPLETING, len(names))
        return consumers

    def stable(self, *names: str, **about: Any) -> list[Consumer]:
        """The same, and everybody has a share."""
        consumers = self.completing(*names, **about)
        syncs(consumers)
        assert self.state is State.STABLE
        return consumers

    def preparing(self, *names: str, newcomer: str = "carla", **about: Any) -> list[Consumer]:
        """Everybody had a share; then a newcomer joined and is parked. It comes last in the list."""
        consumers = self.stable(*names, **about)
        last = self.consumer(newcomer)
        last.joins()
        assert self.state is State.PREPARING
        return [*consumers, last]

    def empty(self) -> Consumer:
        """Anna was alone in generation 1, and left."""
        [anna] = self.stable("anna")
        anna.leaves()
        assert (self.state, self.generation) == (State.EMPTY, 2)
        return anna
