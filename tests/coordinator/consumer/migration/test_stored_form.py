"""The stored form of the events of migrations: what `stored_events.txt` holds is written as it was, and read."""

from pathlib import Path
from typing import get_args

from regroup.coordinator.consumer.migration.events import AnyMigrationEvent
from regroup.coordinator.events import Event
from regroup.coordinator.serialization import ENCODER, EVENT_DECODERS, EVENT_TYPE_NAMES
from tests.coordinator.consumer.migration.migration_harness import ALL, MigrationHarness

STORED = Path(__file__).with_name("stored_events.txt")


def history() -> list[Event]:
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


def stored_line(event: Event) -> str:
    return f"{EVENT_TYPE_NAMES[type(event)]} {ENCODER.encode(event).decode()}"


def test_the_events_of_a_history_have_the_stored_form() -> None:
    assert [stored_line(event) for event in history()] == STORED.read_text(encoding="utf-8").splitlines()


def test_stored_events_are_read() -> None:
    for line in STORED.read_text(encoding="utf-8").splitlines():
        name, _, payload = line.partition(" ")
        assert stored_line(EVENT_DECODERS[name].decode(payload)) == line


def test_every_type_of_event_of_migrations_is_stored_there() -> None:
    names = {line.partition(" ")[0] for line in STORED.read_text(encoding="utf-8").splitlines()}
    assert {EVENT_TYPE_NAMES[each] for each in get_args(AnyMigrationEvent)} <= names
