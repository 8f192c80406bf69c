"""Stories about timeouts that end in the same millisecond."""

from regroup.conformance.harness.broker_under_test import FOO_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, expect_equal
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.story import DEFAULT_ASSIGNORS, StoryContext, subscription_of
from regroup.protocol.errors import ErrorCode as E

FOUND_BY_PROBES = (
    "Not in the catalogue; found by probes: where a phase and a member's session begin together and last equally long, "
    "the session ends first."
)


@case("timeout.session.ends-with-sync-phase", 2, correction=FOUND_BY_PROBES)
async def session_ends_with_sync_phase(story: StoryContext) -> None:
    """A session that ends together with the sync phase ends first: members that have not synced either stay."""
    short_ms = story.short_session_timeout_ms
    ben = ConformanceMember(story, "ben", session_timeout_ms=short_ms)
    till = ConformanceMember(
        story, "till", instance_id="i-till", session_timeout_ms=3 * short_ms, rebalance_timeout_ms=short_ms // 2
    )
    await ben.join_group(version=0)
    joining = await till.join_group().expect_pending()
    await ben.join_group(version=0)
    expect(await joining, error=E.NONE, generation_id=2)
    await story.wait_for_state("PreparingRebalance", members=1, timeout_s=short_ms / 1000 + 10)
    expect(await till.heartbeat(), error=E.REBALANCE_IN_PROGRESS)


@case("timeout.session.ends-with-join-phase", 3, correction=FOUND_BY_PROBES)
async def static_session_ends_with_join_phase(story: StoryContext) -> None:
    """A static member whose session ends together with the join phase is removed, and not kept as an absent member."""
    short_ms = story.short_session_timeout_ms
    anna = ConformanceMember(story, "anna", session_timeout_ms=3 * short_ms, rebalance_timeout_ms=short_ms)
    till = ConformanceMember(
        story, "till", instance_id="i-till", session_timeout_ms=short_ms, rebalance_timeout_ms=short_ms
    )
    await anna.join()
    joining = await till.join_group().expect_pending()
    await anna.join_group()
    expect(await joining, error=E.NONE, generation_id=2)
    held = await till.sync_group().expect_pending()
    rejoin = anna.join_group(protocols={**DEFAULT_ASSIGNORS, "range": subscription_of(FOO_TOPIC)})
    expect(await held, error=E.REBALANCE_IN_PROGRESS)
    response = await rejoin.response_within(short_ms / 1000 + 10)
    expect(response, error=E.NONE, generation_id=3)
    expect_equal("members of the generation", [anna.id], [each.member_id for each in response.members])
