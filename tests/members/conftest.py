"""Fixtures of the members' tests: one consumer in a harness, and the event loop of each test file."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from regroup.lab.simulation.virtual_clock import VirtualLoop
from tests.members.harness import MemberHarness

VIRTUAL_TIME_FILES = (
    "test_consumer_protocol_member",
    "test_consumer_protocol_offsets",
    "test_consumer_protocol_requests",
    "test_fetcher",
    "test_mqtt",
    "test_producer",
    "test_reading_members",
    "test_simulated_member",
)
"""Test files whose members need no sockets."""


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualLoop} if item.path.stem in VIRTUAL_TIME_FILES else {"real": asyncio.new_event_loop}


@pytest.fixture
def member() -> MemberHarness:
    """One cooperative-sticky consumer of the group `payments` that commits only when it is asked to."""
    return MemberHarness()
