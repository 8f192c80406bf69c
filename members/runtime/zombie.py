"""A member that never learned that its generation is over, or does not care: it commits on as if it belonged."""

from collections.abc import Callable, Mapping
from typing import Final

from regroup.members.consumer import requests
from regroup.members.consumer.effects import Lane, Outgoing
from regroup.members.consumer.inputs import Answered, Unanswered
from regroup.members.consumer.machine import Consumer
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.runtime.timers import Alarms
from regroup.members.transports.base import Transport
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.offsets import OffsetCommitResponse

COMMITS_EVERY_MS: Final = 1_000


class Zombie:
    """Holds the positions of its last life. `told` hears the error code of each commit, 0 if it went well."""

    def __init__(
        self, consumer: Consumer, settings: ConsumerSettings, transport: Transport, told: Callable[[int], None]
    ) -> None:
        self._consumer = consumer
        self._settings = settings
        self._transport = transport
        self._told = told
        self._positions = dict(consumer.positions)

    def consumed(self, positions: Mapping[TopicPartition, int]) -> None:
        """It reads on."""
        self._positions.update(positions)

    def commit_on(self, alarms: Alarms) -> None:
        """Commit now and every second."""
        alarms.after(COMMITS_EVERY_MS, lambda: self.commit_on(alarms))
        consumer = self._consumer
        if consumer.coordinator is None or not self._positions:
            return
        message = requests.offset_commit(self._settings, consumer.generation, self._positions)
        outgoing = Outgoing(0, Lane.COORDINATOR, consumer.coordinator, message, self._settings.request_timeout_ms)
        self._transport.send(outgoing, self._heard)

    def _heard(self, answer: Answered | Unanswered) -> None:
        if isinstance(answer, Answered) and isinstance(answer.response, OffsetCommitResponse):
            codes = [each.error_code for topic in answer.response.topics for each in topic.partitions]
            refused = next((code for code in codes if code), 0)
            self._told(refused)
