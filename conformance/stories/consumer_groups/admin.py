"""Stories about what administrators see and do: describe, list and delete groups, and set their dynamic configs."""

from regroup.conformance.harness.broker_under_test import FOO_0, SIX_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import (
    ALL,
    GROUP_RESOURCE,
    LOW,
    ConsumerProtocolGroup,
    described_partitions,
    expect_answer,
)
from regroup.conformance.harness.consumer_groups import (
    ORDINARY,
    SHORT_SESSIONS,
    add_first,
    group_of_one,
    revoking,
    settled,
)
from regroup.conformance.harness.expect import expect, expect_equal, expect_true
from regroup.conformance.harness.groups import stable_group_of_one
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.offsets import TransactionalProducer, admin_commit
from regroup.conformance.harness.story import StoryContext
from regroup.conformance.stories.lists import list_groups
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from regroup.protocol.messages.topics import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse

DYNAMIC_GROUP_CONFIG, DEFAULT_CONFIG = 8, 5
"""The sources of a config: set for the group, and a default."""
CONSUMER_GROUP_OPERATIONS = 3400
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS as bits."""
NO_OPERATIONS = -(2**31)
SESSION_TIMEOUT, HEARTBEAT_INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


async def delete_group(story: StoryContext) -> int:
    """Send one DeleteGroups for the story's group, and return its error code."""
    request = DeleteGroupsRequest(groups_names=[story.group_id])
    return (await story.send(request, DeleteGroupsResponse)).results[0].error_code


@case("cg.desc.members", 1, required_settings=ORDINARY)
async def describe_members(story: StoryContext) -> None:
    """ConsumerGroupDescribe has state, epochs, assignor and, for each member, its metadata and assignments."""
    group = await settled(story)
    described = await group.describe()
    expect(described, error=E.NONE, group_state="Stable", assignor_name="uniform")
    expect(described, group_epoch=group.epoch, assignment_epoch=group.epoch)
    expect_equal("members", {"m1", "m2"}, {each.member_id for each in described.members})
    m1 = next(each for each in described.members if each.member_id == "m1")
    expect(m1, instance_id=None, rack_id=None, member_epoch=group.epoch, client_id="regroup", member_type=1)
    expect(m1, subscribed_topic_names=[SIX_TOPIC])
    expect_true(m1.client_host.startswith("/"), f"the host should begin with a slash: {m1.client_host}")
    for assignment in (m1.assignment, m1.target_assignment):
        expect_equal("assignment", LOW, described_partitions(assignment))


@case("cg.desc.member-type", 1, required_settings=ORDINARY)
async def describe_member_types(story: StoryContext) -> None:
    """Since v1 each member has a type: 0 speaks the classic protocol, 1 the consumer protocol."""
    group = await group_of_one(story)
    carla = ConformanceMember(story, "carla")
    await carla.join()
    types = {each.member_id: each.member_type for each in (await group.describe(version=1)).members}
    expect_equal("types", {"m1": 1, carla.id: 0}, types)
    expect_equal("types in v0", {-1}, {each.member_type for each in (await group.describe(version=0)).members})


@case("cg.desc.assignment-with-pending", 1, required_settings=ORDINARY)
async def describe_member_that_revokes(story: StoryContext) -> None:
    """What a member has to release still counts as assigned."""
    group = await revoking(story)
    await group.expect_member("m1", group.epoch - 1, ALL, target=LOW)


@case("cg.desc.regex-is-empty-text", 3, required_settings=ORDINARY)
async def describe_member_without_regex(story: StoryContext) -> None:
    """A member without a regular expression is described with an empty text."""
    group = await group_of_one(story)
    expect(await group.described_member("m1"), subscribed_topic_regex="")


@case("cg.desc.classic-group", 1, required_settings=ORDINARY)
async def describe_classic_group(story: StoryContext) -> None:
    """ConsumerGroupDescribe does not find a classic group."""
    group = await ConsumerProtocolGroup.begin(story)
    await stable_group_of_one(story)
    described = await group.describe()
    expect(described, error=E.GROUP_ID_NOT_FOUND, error_message=f"Group {story.group_id} is not a consumer group.")


@case("cg.desc.missing", 1, required_settings=ORDINARY)
async def describe_missing_group(story: StoryContext) -> None:
    """A group that does not exist is not found; its description is empty."""
    group = await ConsumerProtocolGroup.begin(story)
    expect(await group.describe(), error=E.GROUP_ID_NOT_FOUND, group_state="", group_epoch=0, members=[])


@case("cg.desc.empty-id", 2, required_settings=ORDINARY)
async def describe_empty_group_id(story: StoryContext) -> None:
    """ConsumerGroupDescribe refuses an empty group id."""
    response = await story.send(ConsumerGroupDescribeRequest(group_ids=[""]), ConsumerGroupDescribeResponse)
    expect(response.groups[0], error=E.INVALID_GROUP_ID)


@case("cg.desc.twice", 3, required_settings=ORDINARY)
async def describe_group_twice(story: StoryContext) -> None:
    """A group that is asked for twice is described twice."""
    await group_of_one(story)
    request = ConsumerGroupDescribeRequest(group_ids=[story.group_id] * 2)
    response = await story.send(request, ConsumerGroupDescribeResponse)
    expect_equal("groups", [story.group_id] * 2, [each.group_id for each in response.groups])


@case("cg.desc.by-DescribeGroups-v6", 1, required_settings=ORDINARY)
async def describe_by_classic_request(story: StoryContext) -> None:
    """DescribeGroups does not find a consumer group, and since v6 says why."""
    await group_of_one(story)
    described = await story.describe(version=6)
    expect(described, error=E.GROUP_ID_NOT_FOUND, group_state="Dead")
    expect(described, error_message=f"Group {story.group_id} is not a classic group.")


@case("cg.desc.by-DescribeGroups-v5", 2, required_settings=ORDINARY)
async def describe_by_older_classic_request(story: StoryContext) -> None:
    """Up to v5 DescribeGroups shows a consumer group as Dead, without an error."""
    await group_of_one(story)
    expect(await story.describe(version=5), error=E.NONE, group_state="Dead", members=[])


@case("cg.desc.operations", 3, required_settings=ORDINARY)
async def describe_authorized_operations(story: StoryContext) -> None:
    """Without an authorizer all five operations on a group are allowed; they are sent only if asked for."""
    group = await group_of_one(story)
    expect(await group.describe(), authorized_operations=NO_OPERATIONS)
    request = ConsumerGroupDescribeRequest(group_ids=[story.group_id], include_authorized_operations=True)
    response = await story.send(request, ConsumerGroupDescribeResponse)
    expect(response.groups[0], authorized_operations=CONSUMER_GROUP_OPERATIONS)


async def create_groups_of_both_kinds(story: StoryContext) -> None:
    """Create `stable` and `empty`, which are consumer groups, and `simple`, a classic group of offsets only."""
    await story.use_group_of_same_coordinator("stable")
    await group_of_one(story)
    await story.use_group_of_same_coordinator("empty")
    await (await group_of_one(story)).leave("m1")
    await story.use_group_of_same_coordinator("simple")
    await admin_commit(story, {FOO_0: 1})


STABLE, EMPTY, SIMPLE = ("consumer", "Stable", "consumer"), ("consumer", "Empty", "consumer"), ("", "Empty", "classic")


@case("cg.list.types", 1, required_settings=ORDINARY)
async def list_types(story: StoryContext) -> None:
    """ListGroups has protocol type, state and type of groups of both kinds."""
    await create_groups_of_both_kinds(story)
    expect_equal("groups", {"stable": STABLE, "empty": EMPTY, "simple": SIMPLE}, await list_groups(story, version=5))


@case("cg.list.type-filter", 1, required_settings=ORDINARY)
async def list_by_type(story: StoryContext) -> None:
    """The type filter finds the groups of one kind, whatever its case."""
    await create_groups_of_both_kinds(story)
    expect_equal("consumer groups", ["empty", "stable"], [*await list_groups(story, types=("Consumer",))])
    expect_equal("classic groups", ["simple"], [*await list_groups(story, types=("classic",))])


@case("cg.list.state-filter-over-both-types", 2, required_settings=ORDINARY)
async def list_by_state(story: StoryContext) -> None:
    """The state filter finds groups of both kinds."""
    await create_groups_of_both_kinds(story)
    expect_equal("empty groups", ["empty", "simple"], [*await list_groups(story, states=("Empty",))])


@case("cg.list.both-filters", 2, required_settings=ORDINARY)
async def list_by_state_and_type(story: StoryContext) -> None:
    """A group must match both filters."""
    await create_groups_of_both_kinds(story)
    expect_equal("groups", ["empty"], [*await list_groups(story, states=("Empty",), types=("consumer",))])


@case("cg.list.old-versions", 2, required_settings=ORDINARY)
async def list_in_older_versions(story: StoryContext) -> None:
    """Older versions list consumer groups as well, without type and, before v4, without state."""
    await create_groups_of_both_kinds(story)
    for version in range(5):
        state = "Stable" if version == 4 else ""
        expect_equal(f"v{version}", ("consumer", state, ""), (await list_groups(story, version=version)).get("stable"))


@case("cg.del.non-empty", 2, required_settings=ORDINARY)
async def delete_group_with_member(story: StoryContext) -> None:
    """A group with a member cannot be deleted, also if its only member is away."""
    group = await group_of_one(story, instance_id="i1")
    expect_equal("DeleteGroups", E.NON_EMPTY_GROUP, await delete_group(story))
    expect_answer(await group.beat("m1", -2, instance_id="i1"))
    expect_equal("DeleteGroups", E.NON_EMPTY_GROUP, await delete_group(story))


@case("cg.del.twice", 2, required_settings=ORDINARY)
async def delete_group_twice(story: StoryContext) -> None:
    """A group that was deleted cannot be deleted again."""
    group = await group_of_one(story)
    await group.leave("m1")
    expect_equal("first DeleteGroups", E.NONE, await delete_group(story))
    expect_equal("second DeleteGroups", E.GROUP_ID_NOT_FOUND, await delete_group(story))


@case("cg.del.open-transaction", 3, required_settings=ORDINARY)
async def delete_group_with_open_transaction(story: StoryContext) -> None:
    """A group with offsets of an open transaction can be deleted, and is not there after the transaction either."""
    group = await group_of_one(story)
    await group.leave("m1")
    producer = await TransactionalProducer.begin(story)
    await producer.send_offsets({FOO_0: 9})
    expect_equal("DeleteGroups", E.NONE, await delete_group(story))
    await producer.end_transaction(committed=True)
    expect(await group.describe(), error=E.GROUP_ID_NOT_FOUND)


@case("cg.del.group-settings-stay", 3, required_settings=ORDINARY)
async def settings_of_deleted_group(story: StoryContext) -> None:
    """The configs of a group belong to its name: a new group of that name has them."""
    group = await ConsumerProtocolGroup.begin(story, heartbeat_interval_ms=7_000)
    await add_first(group)
    await group.leave("m1")
    expect_equal("DeleteGroups", E.NONE, await delete_group(story))
    expect((await group.join("m1")).response, heartbeat_interval_ms=7_000)


@case("cg.cfg.out-of-range", 1, required_settings={})
async def config_out_of_range(story: StoryContext) -> None:
    """A config of a group outside of the broker's bounds is refused."""
    group = await ConsumerProtocolGroup.begin(story)
    for name, value in ((SESSION_TIMEOUT, "60001"), (HEARTBEAT_INTERVAL, "15001")):
        response = await group.alter_configs({name: value})
        expect(response.responses[0], error=E.INVALID_CONFIG)


@case("cg.cfg.heartbeat-not-below-session", 2, required_settings=SHORT_SESSIONS)
async def heartbeat_interval_not_below_session_timeout(story: StoryContext) -> None:
    """The heartbeat interval of a group has to be less than its session timeout."""
    group = await ConsumerProtocolGroup.begin(story)
    response = await group.alter_configs({HEARTBEAT_INTERVAL: "6000", SESSION_TIMEOUT: "6000"})
    expect(response.responses[0], error=E.INVALID_CONFIG)


@case("cg.cfg.unknown-name", 2, required_settings={})
async def unknown_config(story: StoryContext) -> None:
    """A config that groups do not have is refused."""
    group = await ConsumerProtocolGroup.begin(story)
    expect((await group.alter_configs({"consumer.nope": "1"})).responses[0], error=E.INVALID_CONFIG)


@case("cg.cfg.empty-name", 2, required_settings={})
async def config_of_nameless_group(story: StoryContext) -> None:
    """A group without a name has no configs."""
    group = await ConsumerProtocolGroup.begin(story)
    response = await group.alter_configs({HEARTBEAT_INTERVAL: "7000"}, group_id="")
    expect(response.responses[0], error=E.INVALID_REQUEST)


@case("cg.cfg.delete", 2, required_settings=ORDINARY)
async def config_is_deleted(story: StoryContext) -> None:
    """A config that is set counts from the next heartbeat, and so does its deletion."""
    group = await group_of_one(story)
    broker_ms = int(story.target.settings.get("group.consumer.heartbeat.interval.ms", "5000"))
    await group.configure(heartbeat_interval_ms=7_000)
    expect((await group.beat("m1", group.epoch)).response, heartbeat_interval_ms=7_000)
    expect((await group.alter_configs({HEARTBEAT_INTERVAL: None})).responses[0], error=E.NONE)

    async def check() -> None:
        expect((await group.beat("m1", group.epoch)).response, heartbeat_interval_ms=broker_ms)

    await story.wait_until(check)


@case("cg.cfg.describe", 2, required_settings=ORDINARY)
async def describe_configs(story: StoryContext) -> None:
    """DescribeConfigs has what is set for a group, and the defaults of the rest, each with its source."""
    await ConsumerProtocolGroup.begin(story, session_timeout_ms=50_000)
    asked = DescribeConfigsResource(resource_type=GROUP_RESOURCE, resource_name=story.group_id)
    response = await story.send(DescribeConfigsRequest(resources=[asked]), DescribeConfigsResponse)
    configs = {each.name: (each.value, each.config_source) for each in response.results[0].configs}
    expect_equal(SESSION_TIMEOUT, ("50000", DYNAMIC_GROUP_CONFIG), configs.get(SESSION_TIMEOUT))
    expect_equal(HEARTBEAT_INTERVAL, ("5000", DEFAULT_CONFIG), configs.get(HEARTBEAT_INTERVAL))
