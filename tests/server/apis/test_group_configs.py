"""The settings of a group's own: IncrementalAlterConfigs and DescribeConfigs on resources of type GROUP."""

from typing import Any

import pytest

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import topics as t
from regroup.server.cluster.group_configs import effective_group_settings
from regroup.storage.memory import MemoryStore
from tests.coordinator.group_harness import behaviour
from tests.server.apis.test_consumer_groups import Harness, running

E = ErrorCode
GROUP, SET, DELETE, APPEND = 32, 0, 1, 2
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"


async def alter(group: Harness, *entries: tuple[str, int, str | None], name: str = "g", **fields: Any) -> Any:
    """IncrementalAlterConfigs with these entries: name, operation and value."""
    configs = [
        t.IncrementalAlterConfigsEntry(name=each, config_operation=operation, value=value)
        for each, operation, value in entries
    ]
    resource = t.IncrementalAlterConfigsResource(resource_type=GROUP, resource_name=name, configs=configs)
    return (await group.call(t.IncrementalAlterConfigsRequest(resources=[resource], **fields))).responses[0]


async def described(group: Harness, name: str = "g") -> dict[str, tuple[str, list[tuple[str, str, int]]]]:
    """The value of each setting of consumer groups, and its synonyms."""
    resource = t.DescribeConfigsResource(resource_type=GROUP, resource_name=name)
    [result] = (await group.call(t.DescribeConfigsRequest(resources=[resource], include_synonyms=True))).results
    return {
        row.name: (row.value, [(each.name, each.value, each.source) for each in row.synonyms])
        for row in result.configs
        if row.name.startswith("consumer.")
    }


def session_ms(group: Harness, member_id: str) -> int:
    """Time until the session of the member expires; the clock stands still."""
    coordinator = group.cluster.coordinator_of("g")
    [deadline] = [
        each for each in coordinator.deadlines("g") if (each.kind, each.member_id) == (DeadlineKind.SESSION, member_id)
    ]
    return deadline.at_ms - group.cluster.state.now_ms()


@behaviour("cg.cfg.describe")
async def test_a_description_says_where_each_value_comes_from() -> None:
    async with running() as group:
        assert (await alter(group, (SESSION, SET, "50000"))).error_code == E.NONE
        broker = "group.consumer"
        assert await described(group) == {
            SESSION: ("50000", [(SESSION, "50000", 8), (f"{broker}.session.timeout.ms", "45000", 5)]),
            HEARTBEAT: ("5000", [(f"{broker}.heartbeat.interval.ms", "5000", 5)]),
            INTERVAL: (
                "0",
                [(f"{broker}.assignment.interval.ms", "0", 4), (f"{broker}.assignment.interval.ms", "1000", 5)],
            ),
        }


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        pytest.param(
            [(SESSION, "60001")],
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
            marks=behaviour("cg.cfg.out-of-range"),
        ),
        ([(SESSION, "long")], "consumer.session.timeout.ms takes a whole number, not 'long'"),
        ([(HEARTBEAT, "4999")], "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."),
        ([(INTERVAL, "15001")], "consumer.assignment.interval.ms must be in the range 0 to 15000 inclusive."),
        ([("share.session.timeout.ms", "-1")], "share.session.timeout.ms must be at least 0, not -1"),
        pytest.param(
            [("consumer.nope", "1")], "Unknown group config name: consumer.nope", marks=behaviour("cg.cfg.unknown-name")
        ),
    ],
)
async def test_a_value_that_does_not_fit_is_refused(entries: list[tuple[str, str]], text: str) -> None:
    async with running() as group:
        before = await described(group)
        refused = await alter(group, *((name, SET, value) for name, value in entries))
        assert (refused.error_code, refused.error_message) == (E.INVALID_CONFIG, text)
        assert await described(group) == before


@behaviour("cg.cfg.heartbeat-not-below-session")
async def test_the_heartbeat_interval_is_shorter_than_the_session_timeout() -> None:
    texts = {"group.consumer.min.session.timeout.ms": "5000"}
    async with running(settings=CoordinatorSettings.from_texts(texts)) as group:
        refused = await alter(group, (HEARTBEAT, SET, "6000"), (SESSION, SET, "6000"))
        assert refused.error_code == E.INVALID_CONFIG
        assert refused.error_message.startswith("consumer.session.timeout.ms (6000) must be greater than")
        assert (await alter(group, (SESSION, SET, "5000"))).error_code == E.INVALID_CONFIG, "the broker's counts too"


async def test_requests_that_are_wrong_in_themselves_are_refused() -> None:
    async with running() as group:
        assert (await alter(group, (SESSION, SET, "50000"), name="")).error_code == E.INVALID_REQUEST
        assert (await alter(group, (SESSION, SET, None))).error_code == E.INVALID_REQUEST
        assert (await alter(group, (SESSION, APPEND, "1"))).error_code == E.INVALID_CONFIG
        assert (await alter(group, (SESSION, SET, "50000"), validate_only=True)).error_code == E.NONE
        assert (await alter(group, ("consumer.nope", DELETE, None))).error_code == E.NONE
        assert not group.cluster.state.image.group_configs


@behaviour("cg.cfg.delete")
async def test_a_setting_counts_from_the_next_heartbeat_on_until_it_is_deleted() -> None:
    async with running() as group:
        await group.join("m")
        await alter(group, (SESSION, SET, "50000"), (HEARTBEAT, SET, "7000"))
        assert session_ms(group, "m") == 45_000
        assert (await group.beat("m", 2)).heartbeat_interval_ms == 7_000
        assert session_ms(group, "m") == 50_000
        assert (await group.join("m", group="other")).heartbeat_interval_ms == 5_000
        await alter(group, (SESSION, DELETE, None), (HEARTBEAT, DELETE, None))
        assert (await group.beat("m", 2)).heartbeat_interval_ms == 5_000
        assert session_ms(group, "m") == 45_000


async def test_the_assignment_interval_of_a_group_delays_its_targets() -> None:
    async with running() as group:
        await alter(group, (INTERVAL, SET, "1000"))
        for name in ("g", "other"):
            await group.join("m1", group=name)
        assert (await group.join("m2")).member_epoch == 2, "the target of the first member, which is a moment old"
        assert (await group.join("m2", group="other")).member_epoch == 3


@behaviour("cg.del.group-settings-stay")
async def test_the_settings_outlive_the_group_and_the_process() -> None:
    store = MemoryStore()
    async with running(store) as group:
        await alter(group, (HEARTBEAT, SET, "6000"))
        await group.join("m")
        await group.beat("m", -1)
        assert (await group.call(d.DeleteGroupsRequest(groups_names=["g"]))).results[0].error_code == E.NONE
        assert (await group.join("m")).heartbeat_interval_ms == 6_000
    async with running(store) as group:
        assert (await group.join("m", group="g")).heartbeat_interval_ms == 6_000


@behaviour("cg.cfg.clamped-at-start")
async def test_a_value_beyond_the_bounds_of_a_new_start_counts_as_the_bound() -> None:
    store = MemoryStore()
    async with running(store) as group:
        await alter(group, (SESSION, SET, "50000"))
    lower = CoordinatorSettings.from_texts({"group.consumer.max.session.timeout.ms": "48000"})
    async with running(store, settings=lower) as group:
        await group.join("m")
        assert session_ms(group, "m") == 48_000
        assert (await described(group))[SESSION][0] == "50000", "what is stored stays"


def test_values_that_do_not_fit_together_any_more_do_not_count() -> None:
    texts = {
        "group.consumer.min.session.timeout.ms": "8000",
        "group.consumer.session.timeout.ms": "8000",
        "group.consumer.max.session.timeout.ms": "8000",
    }
    settings = CoordinatorSettings.from_texts(texts)
    assert effective_group_settings(settings, {HEARTBEAT: "9000"}) == settings
