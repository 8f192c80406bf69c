"""Groups and their offsets, read and changed with the admin clients of three libraries."""

from contextlib import ExitStack, closing

import pytest

from tests.clients.admins import ADMINS, CHANGING_ADMINS, GroupDescription, KafkaPythonAdmin
from tests.clients.consumer_process import ConsumerProcess
from tests.clients.emulator import EmulatorProcess, eventually
from tests.clients.libraries import PRODUCERS, ConsumedRecord, ConsumerOptions
from tests.clients.processes import Consume, Serve, quick_with

GROUP = "payments"
BOTH = [("orders", 0), ("orders", 1)]


def start_emulator_and_consumer(serve: Serve, consume: Consume) -> tuple[EmulatorProcess, ConsumerProcess]:
    """Start a group with one member, which has read and committed three records of each partition."""
    emulator = serve("--topic", "orders:2")
    rows = [(topic, partition, f"#{n}") for topic, partition in BOTH for n in range(3)]
    PRODUCERS["confluent-kafka"](emulator.address, rows)
    consumer = consume("confluent-kafka", ConsumerOptions(emulator.address, GROUP, ["orders"]))
    eventually(lambda: emulator.committed(GROUP) == dict.fromkeys(BOTH, 3), "the commits")
    return emulator, consumer


def test_every_library_sees_the_same_group(serve: Serve, consume: Consume, processes: ExitStack) -> None:
    emulator, consumer = start_emulator_and_consumer(serve, consume)
    admins = [processes.enter_context(closing(each(emulator.address))) for each in ADMINS.values()]
    for admin in admins:
        assert admin.groups() == {GROUP}
        assert admin.describe(GROUP) == GroupDescription("Stable", "range", [("rdkafka", BOTH)])
        assert admin.committed(GROUP) == dict.fromkeys(BOTH, 3)
        assert admin.describe("missing").state == "Dead"
    consumer.leave()
    for admin in admins:
        assert admin.describe(GROUP) == GroupDescription("Empty", "", [])
        assert admin.committed(GROUP) == dict.fromkeys(BOTH, 3)


@pytest.mark.slow
@pytest.mark.parametrize("library", quick_with("confluent-kafka", CHANGING_ADMINS))
def test_offsets_are_altered_only_in_an_empty_group(
    library: str, serve: Serve, consume: Consume, processes: ExitStack
) -> None:
    emulator, consumer = start_emulator_and_consumer(serve, consume)
    admin = processes.enter_context(closing(CHANGING_ADMINS[library](emulator.address)))
    assert admin.in_state("Stable") == {GROUP}
    assert admin.alter(GROUP, {("orders", 0): 1}) == "UNKNOWN_MEMBER_ID"
    consumer.leave()
    assert admin.in_state("Stable") == set()
    assert admin.in_state("Empty") == {GROUP}
    assert admin.alter(GROUP, {("orders", 0): 1}) == ""
    assert admin.committed(GROUP) == {("orders", 0): 1, ("orders", 1): 3}

    again = consume(library, ConsumerOptions(emulator.address, GROUP, ["orders"]))
    eventually(lambda: len(again.records) == 2, "the two records after the altered offset")
    assert again.records == [ConsumedRecord("orders", 0, 1, "#1"), ConsumedRecord("orders", 0, 2, "#2")]


@pytest.mark.slow
@pytest.mark.parametrize("library", quick_with("kafka-python", CHANGING_ADMINS))
def test_only_an_empty_group_is_deleted(library: str, serve: Serve, consume: Consume, processes: ExitStack) -> None:
    emulator, consumer = start_emulator_and_consumer(serve, consume)
    admin = processes.enter_context(closing(CHANGING_ADMINS[library](emulator.address)))
    assert admin.delete(GROUP) == "NON_EMPTY_GROUP"
    consumer.leave()
    assert admin.delete(GROUP) == ""
    assert admin.groups() == set()
    assert admin.committed(GROUP) == {}
    assert admin.delete(GROUP) == "GROUP_ID_NOT_FOUND"
    (deleted,) = emulator.events(GROUP, kind="group-deleted")
    assert deleted["cause"]["api"] == "DeleteGroups"


@pytest.mark.slow
def test_offsets_are_deleted_only_of_topics_without_a_subscriber(
    serve: Serve, consume: Consume, processes: ExitStack
) -> None:
    emulator, consumer = start_emulator_and_consumer(serve, consume)
    admin = processes.enter_context(closing(KafkaPythonAdmin(emulator.address)))
    assert admin.delete_offset(GROUP, "orders", 0) == "GROUP_SUBSCRIBED_TO_TOPIC"
    consumer.leave()
    assert admin.delete_offset(GROUP, "orders", 0) == ""
    assert admin.committed(GROUP) == {("orders", 1): 3}
