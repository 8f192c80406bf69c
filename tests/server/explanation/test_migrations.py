"""What is said of a group that changes its protocol, and of its classic members."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from regroup.coordinator.events import Event
from regroup.coordinator.serialization import EVENT_TYPE_NAMES, EVENT_TYPES, Cause
from regroup.server.explanation.explain import EXPLAIN, explain_event, explain_group
from regroup.server.explanation.history import Happening, KnownHistory, read_known_history
from regroup.storage.memory import MemoryStore
from tests.coordinator.consumer.migration.migration_harness import ALL, LOWER
from tests.coordinator.consumer.test_stored_form import consumer_group, migrating_group
from tests.server.apis.test_consumer_groups import Harness, running
from tests.server.apis.test_migration import heartbeat, join, sync, upgrade

AT = "at 22:13:20.000"
C = "ember test-00000000…"
"""The classic member of `upgrade`, without the first letter, which may be a capital."""


class Explained:
    """The explanations of a group's events, once its emulator has ended."""

    def __init__(self) -> None:
        self._texts: list[tuple[str, str]] = []

    def add(self, history: KnownHistory) -> None:
        for each in history.happenings:
            [explanation, *_] = explain_event(history, each.position)
            self._texts.append((EVENT_TYPE_NAMES[type(each.event)], str(explanation)))

    def of(self, name: str) -> list[str]:
        """The explanations of the events of one type."""
        return [text for found, text in self._texts if found == name]


@asynccontextmanager
async def explained(found: Explained) -> AsyncIterator[Harness]:
    store = MemoryStore()
    async with running(store) as group:
        yield group
    async with await store.open() as opened:
        found.add(await read_known_history(opened, "g"))


async def test_each_request_of_a_classic_member_is_explained_with_what_followed() -> None:
    found = Explained()
    async with explained(found) as group:
        c = await upgrade(group)
        await heartbeat(group, c)
        c = await join(group, c.member_id, ALL)
        await sync(group, c)
        await heartbeat(group, c)
        c = await join(group, c.member_id, LOWER)
    told = f"A Heartbeat of m{C} was answered with REBALANCE_IN_PROGRESS {AT}, because"
    rejoined = f"; it sent JoinGroup {AT}."
    assert found.of("rejoin-requested") == [
        f"{told} the target of epoch 2 is newer than its epoch 1{rejoined}",
        f"{told} it has to give up foo 3-5{rejoined}",
    ]
    answered = f"The JoinGroup of m{C} was answered with generation"
    came = "because JoinGroup of test came"
    assert found.of("classic-member-joined") == [
        f"{answered} 1 {AT}, {came}; its SyncGroup followed {AT}.",
        f"{answered} 2 {AT}, {came}; it is removed unless it sends SyncGroup until 22:14:20.000.",
    ]
    assert found.of("classic-member-synced") == [
        f"M{C} fetched its assignment {AT}: foo 0-2, because SyncGroup of test came."
    ]


async def test_a_downgrade_ends_what_a_classic_member_had_to_do() -> None:
    found = Explained()
    async with explained(found) as group:
        await heartbeat(group, await upgrade(group))
        await group.beat("n1", -1)
    [told] = found.of("rejoin-requested")
    assert told.endswith(f"; before its JoinGroup the group changed to the classic protocol {AT}.")
    left = f"because member n1 left {AT}, because it sent ConsumerGroupHeartbeat with the member epoch -1"
    assert found.of("group-downgraded") == [
        f"The group changed to the classic protocol {AT}, in generation 2, {left}; no member of the consumer protocol "
        f"remained; m{C} went on, with the assignor range."
    ]


def test_every_type_of_event_has_an_explanation() -> None:
    assert EXPLAIN.keys() == {*EVENT_TYPES.values()}


@pytest.mark.parametrize("events", [consumer_group(), migrating_group()], ids=["consumer group", "migrating group"])
def test_every_event_is_explained_in_a_sentence_that_is_more_than_its_name(events: Sequence[Event]) -> None:
    happenings = [
        Happening(number, number, 1, event.at_ms, event, Cause(api="?", correlation_id=number))
        for number, event in enumerate(events, 1)
    ]
    history = KnownHistory("g", happenings)
    for each in happenings:
        [explanation, *_] = explain_event(history, each.position)
        name = EVENT_TYPE_NAMES[type(each.event)].replace("-", " ")
        assert " at 22:13:20.000" in explanation.sentence
        assert not explanation.sentence.startswith(name), name


async def test_a_downgrade_is_explained_by_the_last_heartbeat_of_the_consumer_protocol() -> None:
    store = MemoryStore()
    async with running(store) as group:
        await upgrade(group)
        await group.beat("n1", -1)
    async with await store.open() as opened:
        history = await read_known_history(opened, "g")
        position = {record.type: record.position async for record in opened.read()}
    rebalance, *_ = explain_group(history)
    [upgraded] = explain_event(history, position["group-upgraded"])
    at = "at 22:13:20.000"
    left = f"because member n1 left {at}, because it sent ConsumerGroupHeartbeat with the member epoch -1"
    assert str(rebalance).startswith(f"A rebalance started {at}, {left}")
    assert str(upgraded) == (
        f"The group changed to the consumer protocol {at}, because ConsumerGroupHeartbeat of test came; its generation "
        f"1 became the group epoch; m{C} went on with the classic protocol."
    )
