"""Histories of groups of the consumer protocol, made of requests to the coordinator's own functions."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from regroup.coordinator.commands import Command
from regroup.coordinator.events import Event
from regroup.coordinator.serialization import Cause, encode_cause, encode_event
from regroup.server.cluster.events import TopicCreated, encode_cluster_event
from regroup.storage.records import Record
from tests.coordinator.consumer.consumer_harness import ConsumerHarness, topic_id
from tests.coordinator.consumer.test_properties import RandomGroup, random_choices
from tests.coordinator.group_driver import GROUP_ID, SentRequest

TOPICS = {"foo": 6, "bar": 3, "new": 2}
__all__ = ["GROUP_ID", "RecordedGroup", "random_history", "records_of_events", "topic_names"]


def topic_names() -> dict[str, str]:
    """The names of the topics by their ids."""
    return {topic_id(name): name for name in TOPICS}


class RecordedGroup(ConsumerHarness):
    """A group whose events are kept."""

    def __init__(self, **settings: int) -> None:
        super().__init__(**settings)
        self.kept: list[Event] = []

    def handle(self, command: Command, on_response: Callable[[Any], None] = lambda response: None) -> SentRequest:
        request = super().handle(command, on_response)
        self.kept += request.events
        return request

    def records(self) -> tuple[Record, ...]:
        """The topics, and then the group's events."""
        return records_of_events(self.kept)


def records_of_events(events: list[Event]) -> tuple[Record, ...]:
    cause = Cause(api="ConsumerGroupHeartbeat", connection="0-1@1", correlation_id=1, client_id="c")
    topics = [
        encode_cluster_event(
            TopicCreated(name=name, topic_id=topic_id(name), partitions=partitions),
            event_number=number,
            coordinator_epoch=1,
            at_ms=0,
            cause=cause,
        )
        for number, (name, partitions) in enumerate(TOPICS.items(), start=1)
    ]
    encoded = [
        encode_event(GROUP_ID, number, 1, event, encode_cause(cause)) for number, event in enumerate(events, start=1)
    ]
    return tuple(
        Record(**{name: getattr(new, name) for name in new.__struct_fields__}, position=position)
        for position, new in enumerate([*topics, *encoded], start=1)
    )


@lru_cache(maxsize=64)
def random_history(seed: int, length: int = 80) -> tuple[Record, ...]:
    """Members that heartbeat, lose responses, revoke at some time, leave and return; topics that change."""
    group, events = RandomGroup(), list[Event]()
    group.on_request = lambda _, request: events.extend(request.events)
    for choice in random_choices(seed, length):
        group.run(choice)
    return records_of_events(events)
