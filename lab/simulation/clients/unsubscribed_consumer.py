"""A consumer that has not subscribed and commits offsets, as an application does that assigns partitions by itself.

consumer = UnsubscribedConsumer("payments", transport, on_completed)
consumer.commit({TopicPartition("orders", 0): 17})
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from regroup.members.consumer.effects import CommitCompleted
from regroup.members.consumer.inputs import Commit, ConsumerInput, TimePassed
from regroup.members.consumer.machine import ConsumerMachine
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.transports.base import MemberTransport
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.offsets import OffsetCommitRequest

UNSUBSCRIBED_HOST: Final = "the consumer without a subscription"


class UnsubscribedConsumer:
    """One consumer for one commit. `on_completed` gets the requests that have carried the commit, and how it ended."""

    def __init__(
        self,
        group_id: str,
        transport: MemberTransport,
        on_completed: Callable[[list[OffsetCommitRequest], CommitCompleted], None],
    ) -> None:
        self._machine = ConsumerMachine(ConsumerSettings(group_id=group_id, client_id=UNSUBSCRIBED_HOST))
        self._transport, self._on_completed = transport, on_completed
        self._sent: list[OffsetCommitRequest] = []
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets as commitSync() does, which repeats the commit for a while if need be."""
        self._feed(Commit(offsets, is_sync=True))

    def _feed(self, consumer_input: ConsumerInput) -> None:
        if self._is_over:
            return
        loop = asyncio.get_running_loop()
        effects = self._machine.receive(consumer_input, round(loop.time() * 1000))
        if effects.disconnects_coordinator:
            self._transport.disconnect_coordinator()
        for request in effects.requests:
            if isinstance(request.message, OffsetCommitRequest):
                self._sent.append(request.message)
            self._transport.send(request, self._feed)
        for change in effects.changes:
            if isinstance(change, CommitCompleted):
                self._is_over = True
                self._on_completed(self._sent, change)
        if self._timer is not None:
            self._timer.cancel()
        if effects.deadline_ms is not None and not self._is_over:
            self._timer = loop.call_at(effects.deadline_ms / 1000, self._feed, TimePassed())
