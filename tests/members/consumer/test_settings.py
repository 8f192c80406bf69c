"""The settings of a consumer: invalid ones are named; the backoff."""

from dataclasses import fields
from typing import Any

import pytest

from regroup.assignors.interface import AssignorError
from regroup.members.consumer.machine import ConsumerMachine
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.runtime.workload import Workload

KAFKAS_DEFAULTS = {
    "group.instance.id": None,
    "client.rack": "",
    "partition.assignment.strategy": ("range", "cooperative-sticky"),
    "group.remote.assignor": None,
    "session.timeout.ms": 45_000,
    "heartbeat.interval.ms": 3_000,
    "max.poll.interval.ms": 5 * 60_000,
    "max.poll.records": 500,
    "enable.auto.commit": True,
    "auto.commit.interval.ms": 5_000,
    "auto.offset.reset": "latest",
    "isolation.level": "read_uncommitted",
    "exclude.internal.topics": True,
    "allow.auto.create.topics": True,
    "metadata.max.age.ms": 5 * 60_000,
    "request.timeout.ms": 30_000,
    "default.api.timeout.ms": 60_000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1_000,
}
"""The defaults of the Java consumer 4.4, with assignors by their own names in place of those of their classes."""

OF_REGROUP = {"group_id", "client_id", "waits_for_listener"}
"""Settings that are required, or have no default in Kafka, or do not exist there."""


def test_without_a_setting_a_consumer_acts_with_kafkas_defaults() -> None:
    settings = {each.name: each.default for each in fields(ConsumerSettings) if each.name not in OF_REGROUP}
    settings |= {"max_poll_records": Workload().max_poll_records, "client_rack": settings["client_rack"] or ""}
    assert {name.replace("_", "."): value for name, value in settings.items()} == KAFKAS_DEFAULTS


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"session_timeout_ms": 0}, "session_timeout_ms must be positive"),
        ({"heartbeat_interval_ms": 45_000}, "heartbeat_interval_ms .* must be below session_timeout_ms"),
        ({"partition_assignment_strategy": ()}, "at least one assignor"),
        ({"group_instance_id": ""}, "1 to 249 letters"),
        ({"group_instance_id": "a b"}, "1 to 249 letters"),
    ],
)
def test_invalid_settings_are_named(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ConsumerSettings(group_id="payments", **wrong)


def test_an_unknown_assignor_is_named() -> None:
    with pytest.raises(AssignorError, match="unknown assignor 'cleverest'"):
        ConsumerMachine(ConsumerSettings(group_id="payments", partition_assignment_strategy=("cleverest",)))


def test_the_backoff_doubles_up_to_its_limit() -> None:
    settings = ConsumerSettings(group_id="payments")
    assert [settings.backoff_ms(attempts) for attempts in (0, 1, 2, 3, 4, 99)] == [100, 200, 400, 800, 1_000, 1_000]
