"""The settings of a consumer: invalid ones are named; the backoff."""

from typing import Any

import pytest

from regroup.assignors.interface import AssignorError
from regroup.members.consumer.machine import ConsumerMachine
from regroup.members.consumer.settings import ConsumerSettings


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
