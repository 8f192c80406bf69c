"""The stored form of the events of consumer groups: what `stored_events.txt` holds is written as it was, and read.

A change of the form is a decision: docs/architecture.md says what it needs.
"""

from pathlib import Path
from typing import get_args

import msgspec

from regroup.coordinator.consumer.events import AnyConsumerEvent
from regroup.coordinator.events import Event
from regroup.coordinator.serialization import ENCODER, EVENT_DECODERS, EVENT_TYPE_NAMES, EVENT_TYPES
from tests.coordinator.consumer.consumer_harness import ConsumerHarness, image

STORED = Path(__file__).with_name("stored_events.txt")


def history() -> list[Event]:
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


def stored_line(event: Event) -> str:
    return f"{EVENT_TYPE_NAMES[type(event)]} {ENCODER.encode(event).decode()}"


def test_the_events_of_a_history_have_the_stored_form() -> None:
    assert [stored_line(event) for event in history()] == STORED.read_text(encoding="utf-8").splitlines()


def test_stored_events_are_read() -> None:
    for line in STORED.read_text(encoding="utf-8").splitlines():
        name, _, payload = line.partition(" ")
        assert stored_line(EVENT_DECODERS[name].decode(payload)) == line


def test_every_type_of_event_of_consumer_groups_is_stored_there() -> None:
    names = {line.partition(" ")[0] for line in STORED.read_text(encoding="utf-8").splitlines()}
    assert {EVENT_TYPE_NAMES[each] for each in get_args(AnyConsumerEvent)} <= names <= EVENT_TYPES.keys()


def test_unknown_fields_are_refused() -> None:
    for name in EVENT_TYPES:
        try:
            EVENT_DECODERS[name].decode(b'{"unknown-field":1}')
        except msgspec.ValidationError:
            continue
        raise AssertionError(f"{name} takes unknown fields")
