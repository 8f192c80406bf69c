"""Which requests make a broker look again for the topics that match patterns."""

from typing import Any

import pytest

from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.describe import ListGroupsRequest
from tests.server.apis.test_consumer_groups import Harness, running
from tests.server.apis.test_migration import join
from tests.server.wire_client import wait_until

pytest.importorskip("re2")

PATTERN = "fo.*"
SEARCH_INTERVAL_S = 10.001


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def searched(group: Harness) -> Any:
    """The topics that match the pattern, as the last search found them."""
    consumer = group.cluster.coordinator_of("g").group("g").consumer
    found = consumer.resolved_regexes.get(PATTERN) if consumer else None
    return found.topics if found else ()


async def a_topic_appears_when_a_search_may_begin(group: Harness, time: Time) -> int:
    """m1 subscribes by a pattern that finds foo; ten seconds later there is food, too. Returns the epoch of m1."""
    joined = await group.join("m1", subscribed_topic_names=None, subscribed_topic_regex=PATTERN)
    await wait_until(lambda: searched(group) == ("foo",))
    time.now_s += SEARCH_INTERVAL_S
    await group.cluster.ensure_topic("food", 1)
    return int(joined.member_epoch)


async def test_the_joingroup_of_a_classic_member_leads_to_a_search() -> None:
    time = Time()
    async with running(monotonic_s=time) as group:
        await a_topic_appears_when_a_search_may_begin(group, time)
        assert (await join(group)).error_code == ErrorCode.NONE
        await wait_until(lambda: searched(group) == ("foo", "food"))


async def test_a_member_that_leaves_leads_to_no_search_and_the_next_heartbeat_does() -> None:
    time = Time()
    async with running(monotonic_s=time) as group:
        await group.join("m2")
        epoch = await a_topic_appears_when_a_search_may_begin(group, time)
        assert (await group.beat("m2", -1)).error_code == ErrorCode.NONE
        for _ in range(3):
            await group.call(ListGroupsRequest())
        assert searched(group) == ("foo",)
        assert (await group.beat("m1", epoch)).error_code == ErrorCode.NONE
        await wait_until(lambda: searched(group) == ("foo", "food"))
