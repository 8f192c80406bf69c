"""The stored form of the events of consumer groups and of migrations: what the files hold is written so, and read.

A change of the form is a decision: docs/architecture.md says what it needs.
"""

from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import NamedTuple, get_args

import msgspec
import pytest

from regroup.coordinator.consumer.events import AnyConsumerEvent, MemberSubscribed
from regroup.coordinator.consumer.migration.events import AnyMigrationEvent
from regroup.coordinator.events import Event
from regroup.coordinator.serialization import ENCODER, EVENT_DECODERS, EVENT_TYPE_NAMES, EVENT_TYPES
from tests.coordinator.consumer.consumer_harness import ConsumerHarness, image
from tests.coordinator.consumer.migration.migration_harness import ALL, MigrationHarness, founded_by_consumer


def consumer_group() -> list[Event]:
    """Events of one group, every type that only consumer groups have among them."""
    harness = ConsumerHarness().revoking()
    harness.beat("m1", 2, owned={"foo": [0, 1, 2]}, rack_id="r1", server_assignor="uniform")
    harness.join("m3", subscribed_regex="b.*", instance_id="i3")
    harness.resolve(**{"b.*": ("bar",)})
    harness.topics = image(foo=7, bar=3)
    harness.beat("m3", 4)
    harness.beat("m3", -2, instance_id="i3")
    harness.join("m4", instance_id="i3")
    for member_id in ("m1", "m2", "m4"):
        harness.beat(member_id, -1)
    harness.client("anna").send_join()
    return harness.events


def migrating_group() -> list[Event]:
    """Events of one group, every type that only migrations have among them."""
    harness = MigrationHarness(group_consumer_max_size=2)
    c, d = harness.classic("c", "d")
    harness.rejoin(c, ALL)
    harness.join("n1")
    d.leave()
    harness.rejoin(c)
    harness.complete_generation([c], (ALL,))
    harness.join("n1")
    c.heartbeat()
    harness.rejoin(c)
    c.sync()
    harness.fail_over()
    c.heartbeat()
    harness.beat("n1", -1)
    return harness.events


class StoredHistory(NamedTuple):
    """A history, the file with its stored events, and the types of events that the file has to hold."""

    events: Callable[[], list[Event]]
    file: str
    types: UnionType

    def lines(self) -> list[str]:
        return Path(__file__).with_name(self.file).read_text(encoding="utf-8").splitlines()


HISTORIES = [
    StoredHistory(consumer_group, "stored_events.txt", AnyConsumerEvent),
    StoredHistory(migrating_group, "stored_migrations.txt", AnyMigrationEvent),
]
each_history = pytest.mark.parametrize("history", HISTORIES, ids=lambda each: each.events.__name__)


def stored_line(event: Event) -> str:
    return f"{EVENT_TYPE_NAMES[type(event)]} {ENCODER.encode(event).decode()}"


@each_history
def test_the_events_of_a_history_have_the_stored_form(history: StoredHistory) -> None:
    assert [stored_line(event) for event in history.events()] == history.lines()


@each_history
def test_stored_events_are_read(history: StoredHistory) -> None:
    for line in history.lines():
        name, _, payload = line.partition(" ")
        assert stored_line(EVENT_DECODERS[name].decode(payload)) == line


@each_history
def test_every_type_of_event_is_stored_there(history: StoredHistory) -> None:
    names = {line.partition(" ")[0] for line in history.lines()}
    assert {EVENT_TYPE_NAMES[each] for each in get_args(history.types)} <= names <= EVENT_TYPES.keys()


@pytest.mark.parametrize("timeout_ms", [0, 1])
def test_a_session_timeout_is_stored_unless_it_is_zero(timeout_ms: int) -> None:
    harness, client = founded_by_consumer(group_min_session_timeout_ms=0)
    client.version = 3
    client.send_join(session_timeout_ms=timeout_ms)
    [subscribed] = [each for each in harness.events if isinstance(each, MemberSubscribed) and each.profile.classic]
    stored = msgspec.json.decode(ENCODER.encode(subscribed))["profile"]
    assert stored.get("session_timeout_ms") == (timeout_ms or None)


def test_unknown_fields_are_refused() -> None:
    for name in EVENT_TYPES:
        try:
            EVENT_DECODERS[name].decode(b'{"unknown-field":1}')
        except msgspec.ValidationError:
            continue
        raise AssertionError(f"{name} takes unknown fields")
