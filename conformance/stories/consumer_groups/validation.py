"""Stories about the checks of a ConsumerGroupHeartbeat that come before the group, and about full groups."""

from typing import Any

from regroup.conformance.harness.broker_under_test import SIX_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import ALL, NOTHING, ConsumerProtocolGroup, expect_answer
from regroup.conformance.harness.consumer_groups import FULL_GROUPS, ORDINARY, full_group, group_of_one, six
from regroup.conformance.harness.expect import expect, expect_true
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E

JOIN: dict[str, Any] = {"rebalance_timeout_ms": 5_000, "names": (SIX_TOPIC,), "owned": NOTHING}


def refused(
    behaviour: str, importance: int, summary: str, error: int, member_id: str = "m", epoch: int = 0, **fields: Any
) -> None:
    """Register a story in which one request is refused, and leaves no group behind."""

    async def story_of_refusal(story: StoryContext) -> None:
        group = await ConsumerProtocolGroup.begin(story)
        answer = await group.beat(member_id, epoch, **fields)
        expect_answer(answer, error=error, epoch=0, assignment=None)
        expect(answer.response, member_id=None, heartbeat_interval_ms=0)
        expect_true(bool(answer.response.error_message), "a refusal should have a message")
        expect(await group.describe(), error=E.GROUP_ID_NOT_FOUND)

    story_of_refusal.__doc__ = summary
    case(behaviour, importance, required_settings=ORDINARY)(story_of_refusal)


INVALID = E.INVALID_REQUEST
refused(
    "cg.val.member-id-empty-v1",
    1,
    "Since v1 the client makes its member id: an empty one is refused.",
    INVALID,
    "",
    **JOIN,
)
refused(
    "cg.val.member-id-empty-v0-positive-epoch",
    2,
    "In v0 an empty member id is refused with a positive epoch.",
    INVALID,
    "",
    1,
    version=0,
)
refused("cg.val.member-id-empty-v0-leave", 2, "In v0 no member without an id can leave.", INVALID, "", -1, version=0)
refused(
    "cg.val.group-id-empty",
    1,
    "An empty group id is an INVALID_REQUEST, not an INVALID_GROUP_ID.",
    INVALID,
    **JOIN,
    group_id="",
)
refused("cg.val.group-id-blank", 3, "A group id of blanks counts as empty.", INVALID, **JOIN, group_id=" ")
refused("cg.val.rack-id-empty", 2, "A rack id may be absent, but not empty.", INVALID, **JOIN, rack_id="")
refused(
    "cg.val.join-without-rebalance-timeout",
    1,
    "A member that joins must name its rebalance timeout.",
    INVALID,
    **{**JOIN, "rebalance_timeout_ms": -1},
)
refused(
    "cg.val.join-owned-null",
    1,
    "A member that joins must say that it owns nothing; a null list is refused.",
    INVALID,
    **{**JOIN, "owned": None},
)
refused(
    "cg.val.join-owned-nonempty", 1, "A member that joins may not own anything.", INVALID, **{**JOIN, "owned": six(0)}
)
refused(
    "cg.val.join-v0-without-names",
    3,
    "In v0, which has no regular expressions, a member that joins must name topics.",
    INVALID,
    **{**JOIN, "names": None},
    version=0,
)
refused(
    "cg.val.error-answer-shape",
    2,
    "A refusal carries a code and a message: no member id, epoch, interval or assignment.",
    E.GROUP_ID_NOT_FOUND,
    epoch=7,
)
refused(
    "cg.val.unknown-assignor-when-leaving",
    3,
    "An unknown assignor is refused before the group is looked for, even if the member leaves.",
    E.UNSUPPORTED_ASSIGNOR,
    epoch=-1,
    assignor="nope",
)
refused(
    "cg.join.unknown-group-positive-epoch",
    1,
    "Only a heartbeat with epoch 0 makes a group.",
    E.GROUP_ID_NOT_FOUND,
    "m1",
    100,
)
refused(
    "cg.regex.invalid-at-join",
    1,
    "A regular expression that cannot be compiled is refused, and no group is made.",
    E.INVALID_REGULAR_EXPRESSION,
    "m1",
    **{**JOIN, "names": None},
    regex="(abc",
)


@case("cg.val.member-id-empty-v0-static-leave", 3, required_settings=ORDINARY)
async def leave_for_a_while_without_member_id(story: StoryContext) -> None:
    """In v0 epoch -2 with an empty member id passes the checks: the instance id is looked up and not found."""
    group = await group_of_one(story)
    expect_answer(await group.beat("", -2, instance_id="i", version=0), error=E.UNKNOWN_MEMBER_ID)


@case("cg.val.join-names-empty", 2, required_settings=ORDINARY)
async def join_without_topics(story: StoryContext) -> None:
    """A member may subscribe to nothing: no epoch is spent, so it has the first epoch of the group, 1."""
    group = await ConsumerProtocolGroup.begin(story)
    answer = await group.beat("m", 0, rebalance_timeout_ms=5_000, names=(), owned=NOTHING)
    expect_answer(answer, epoch=1, assignment=NOTHING)
    await group.expect_group("Stable", 1)


@case("cg.val.join-regex-empty-text", 3, required_settings=ORDINARY)
async def join_with_empty_regex(story: StoryContext) -> None:
    """An empty text as regular expression is a subscription to nothing."""
    group = await ConsumerProtocolGroup.begin(story)
    answer = await group.beat("m", 0, rebalance_timeout_ms=5_000, regex="", owned=NOTHING)
    expect_answer(answer, epoch=1, assignment=NOTHING)


@case("cg.val.unknown-assignor", 1, required_settings=ORDINARY)
async def join_with_unknown_assignor(story: StoryContext) -> None:
    """An unknown assignor is refused, and the message names those that there are."""
    group = await ConsumerProtocolGroup.begin(story)
    answer = await group.join("m", assignor="nope")
    expect_answer(answer, error=E.UNSUPPORTED_ASSIGNOR)
    message = answer.response.error_message or ""
    expect_true("uniform" in message and "range" in message, f"the message should name the assignors: {message}")


@case("cg.val.rebalance-timeout-unbounded", 3, required_settings=ORDINARY)
async def join_with_any_rebalance_timeout(story: StoryContext) -> None:
    """A rebalance timeout has no bounds: 0 and negative numbers other than -1 are accepted."""
    for timeout_ms in (0, -5):
        story.use_group(f"timeout{timeout_ms}")
        group = await ConsumerProtocolGroup.begin(story)
        expect_answer(await group.join("m", rebalance_timeout_ms=timeout_ms), assignment=ALL)


@case("cg.val.duplicate-topic-names", 3, required_settings=ORDINARY)
async def join_with_topic_named_twice(story: StoryContext) -> None:
    """A topic that a subscription names twice counts once."""
    group = await ConsumerProtocolGroup.begin(story)
    expect_answer(await group.join("m", SIX_TOPIC, SIX_TOPIC), assignment=ALL)


@case("cg.val.wrong-broker", 2, required_settings=ORDINARY)
async def heartbeat_to_wrong_broker(story: StoryContext) -> None:
    """A broker that is not the coordinator refuses valid requests so; invalid ones stay invalid."""
    group = await ConsumerProtocolGroup.begin(story)
    await story.use_wrong_broker()
    expect_answer(await group.join("m"), error=E.NOT_COORDINATOR)
    expect_answer(await group.join(""), error=E.INVALID_REQUEST)


@case("cg.lim.full", 1, required_settings=FULL_GROUPS)
async def full_group_refuses_member(story: StoryContext) -> None:
    """A full group refuses a new member; a member of its own may join again."""
    group, size = await full_group(story)
    expect_answer(await group.join("late"), error=E.GROUP_MAX_SIZE_REACHED)
    expect_answer(await group.join(f"m{size}"))


@case("cg.lim.full-checked-before-membership", 3, required_settings=FULL_GROUPS)
async def full_group_refuses_strangers_heartbeat(story: StoryContext) -> None:
    """A full group refuses a stranger's ordinary heartbeat for its size, not for the unknown member id."""
    group, _ = await full_group(story)
    expect_answer(await group.beat("zz", 3), error=E.GROUP_MAX_SIZE_REACHED)


@case("cg.lim.classic-join-in-full-group", 2, required_settings=FULL_GROUPS)
async def full_group_refuses_classic_member(story: StoryContext) -> None:
    """A full group refuses members of the classic protocol, too."""
    await full_group(story)
    expect(await ConformanceMember(story, "carla").join_group(member_id="x"), error=E.GROUP_MAX_SIZE_REACHED)


@case("cg.lim.v0-without-id-in-full-group", 3, required_settings=FULL_GROUPS)
async def full_group_refuses_member_without_id(story: StoryContext) -> None:
    """In v0 a full group gives no member id to a new member."""
    group, _ = await full_group(story)
    expect_answer(await group.join("", version=0), error=E.GROUP_MAX_SIZE_REACHED)


@case("cg.static.replacement-in-a-full-group", 2, required_settings=FULL_GROUPS)
async def static_member_returns_to_full_group(story: StoryContext) -> None:
    """A static member that left for a while may return to a full group under another member id."""
    group, _ = await full_group(story)
    expect_answer(await group.beat("m1", -2, instance_id="i1"))
    expect_answer(await group.join("m1b", instance_id="i1"))
