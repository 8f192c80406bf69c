"""Each request as a coroutine returns the response to its command."""

from inspect import iscoroutinefunction

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.runtime.async_requests import AsyncRequests
from regroup.coordinator.runtime.pending_responses import ResponseCallback
from regroup.coordinator.serialization import Cause
from regroup.protocol.message import Structure

REQUESTS = [
    name for name, each in vars(AsyncRequests).items() if iscoroutinefunction(each) and not name.startswith("_")
]


class Answering(AsyncRequests):
    """Answers each command at once, and keeps it."""

    def __init__(self, response: Structure) -> None:
        self.response = response
        self.received: list[tuple[c.Command, Cause | None]] = []

    def submit(
        self, command: c.Command, on_response: ResponseCallback | None = None, cause: Cause | None = None
    ) -> None:
        self.received.append((command, cause))
        assert on_response is not None
        on_response(self.response)


def test_there_is_a_coroutine_for_each_api_of_a_group() -> None:
    assert len(REQUESTS) == 11


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_coroutine_submits_its_command_and_returns_the_response(name: str) -> None:
    response, command, cause = Structure(), c.DescribeGroup(group_id="payments", at_ms=0), Cause(api="DescribeGroups")
    coordinator = Answering(response)
    assert await getattr(coordinator, name)(command, cause) is response
    [(received, received_cause)] = coordinator.received
    assert received is command
    assert received_cause is cause
