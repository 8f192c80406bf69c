"""The runner separates passed stories from failed ones, and both from those that the broker cannot show."""

from typing import Any

import pytest

from regroup.conformance.harness.broker_under_test import ConformanceTarget, TargetUnavailable
from regroup.conformance.harness.cases import ConformanceCase, SettingBounds
from regroup.conformance.harness.expect import ExpectationFailed
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.story import StoryContext
from regroup.conformance.run.runner import StoryOutcome, StoryRunOptions, StoryVerdict, run_stories
from regroup.conformance.stories import CASES
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.message import Message
from regroup.protocol.messages.group import HeartbeatResponse, JoinGroupResponse
from tests.conformance.fake_broker import FakeResponse, fake_broker

NO_WAITS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "0"}
UNKNOWN_GROUP = CASES["heartbeat.unknown-group"]


async def verdict_on(
    responses: dict[str, FakeResponse], case: ConformanceCase = UNKNOWN_GROUP, settings: dict[str, str] | None = None
) -> StoryVerdict:
    """The verdict on a fake broker with these responses."""
    async with fake_broker(responses) as address:
        target = await ConformanceTarget.discover(address, settings)
        (verdict,) = await run_stories(target, [case], StoryRunOptions("test"))
        return verdict


def heartbeat_response(error: int) -> dict[str, FakeResponse]:
    return {"Heartbeat": lambda request: HeartbeatResponse(error_code=error)}


async def test_a_broker_that_behaves_like_kafka_passes() -> None:
    assert (await verdict_on(heartbeat_response(E.UNKNOWN_MEMBER_ID))).outcome is StoryOutcome.PASSED


async def test_a_broker_with_another_response_fails_and_the_transcript_is_kept() -> None:
    verdict = await verdict_on(heartbeat_response(E.NONE))
    assert verdict.outcome is StoryOutcome.FAILED
    assert verdict.reason == "HeartbeatResponse.error_code: expected 25 UNKNOWN_MEMBER_ID, got 0"
    (line,) = verdict.transcript
    assert "anna: Heartbeat v4 group_id='heartbeat.unknown-group-test'" in line
    assert line.endswith("-> error_code=NONE")


async def test_a_broker_that_closes_the_connection_fails() -> None:
    verdict = await verdict_on({"Heartbeat": lambda request: None})
    assert verdict.outcome is StoryOutcome.FAILED
    assert "closed without a response" in verdict.reason


@pytest.mark.parametrize(
    ("story", "api"),
    [("heartbeat.unknown-group", "Heartbeat"), ("cg.join.first-member", "ConsumerGroupHeartbeat")],
)
async def test_a_story_is_not_observable_where_the_broker_does_not_offer_the_api(story: str, api: str) -> None:
    verdict = await verdict_on({}, CASES[story])
    assert (verdict.outcome, verdict.reason) == (StoryOutcome.NOT_OBSERVABLE, f"the broker does not offer {api}")


async def test_a_story_is_not_observable_with_other_settings_than_it_requires() -> None:
    case = CASES["limits.stable-full.new-member"]
    verdict = await verdict_on({}, case, settings={"group.max.size": "1000"})
    assert (verdict.outcome, verdict.reason) == (
        StoryOutcome.NOT_OBSERVABLE,
        "group.max.size is 1000, but must be at least 2 and at most 11",
    )


async def test_an_address_without_a_broker_is_reported() -> None:
    async with fake_broker({}) as address:
        pass
    with pytest.raises(TargetUnavailable, match=f"no broker listens at {address}"):
        await ConformanceTarget.discover(address)


def case_of(story: Any, **more: Any) -> ConformanceCase:
    """A case for this story, with defaults for everything else."""
    defaults: dict[str, Any] = {
        "id": "test.story",
        "importance": 1,
        "summary": "",
        "required_settings": {},
        "timeout_s": 60.0,
        "needs_restart": False,
        "correction": "",
    }
    return ConformanceCase(**{**defaults, "story": story, **more})


async def test_a_request_that_is_answered_is_not_pending() -> None:
    def join_group(request: Message) -> Message:
        return JoinGroupResponse(member_id="m", generation_id=1)

    async def expects_pending(story: StoryContext) -> None:
        await ConformanceMember(story, "anna").join_group(version=3).expect_pending()

    verdict = await verdict_on({"JoinGroup": join_group}, case_of(expects_pending))
    assert verdict.outcome is StoryOutcome.FAILED
    assert verdict.reason == "anna's JoinGroup v3 should be pending, but was answered at once"


async def test_a_story_that_does_not_end_fails_after_its_timeout() -> None:
    async def endless(story: StoryContext) -> None:
        await story.sleep(60)

    verdict = await verdict_on({}, case_of(endless, timeout_s=0.05), NO_WAITS)
    assert (verdict.outcome, verdict.reason) == (StoryOutcome.FAILED, "the story took longer than 0.05 s")


async def test_a_check_is_repeated_until_it_passes() -> None:
    checks = []

    async def passes_third_time() -> None:
        checks.append(1)
        if len(checks) < 3:
            raise ExpectationFailed("not yet")

    async def waiting(story: StoryContext) -> None:
        await story.wait_until(passes_third_time)

    assert (await verdict_on({}, case_of(waiting))).outcome is StoryOutcome.PASSED


async def test_all_stories_that_need_a_restart_share_one() -> None:
    restarts = []

    async def restart() -> None:
        restarts.append(1)

    async def restarting(story: StoryContext) -> None:
        await story.restart_coordinator()
        await story.expect_state("Dead")

    async def failing(story: StoryContext) -> None:
        raise ExpectationFailed("failed before the restart")

    small = {"group.max.size": SettingBounds(at_most=1)}
    cases = [
        case_of(restarting, id="test.one", needs_restart=True),
        case_of(failing, id="test.two", needs_restart=True),
        case_of(restarting, id="test.three", needs_restart=True),
        case_of(restarting, id="test.four", needs_restart=True, required_settings=small),
    ]
    async with fake_broker({}) as address:
        target = await ConformanceTarget.discover(address, restart=restart)
        verdicts = await run_stories(target, cases, StoryRunOptions("test"))
    assert [verdict.outcome for verdict in verdicts] == [
        StoryOutcome.PASSED,
        StoryOutcome.FAILED,
        StoryOutcome.PASSED,
        StoryOutcome.NOT_OBSERVABLE,
    ]
    assert restarts == [1]


async def test_a_story_that_failed_is_run_again_and_the_first_failure_is_its_reason() -> None:
    group_ids = []

    async def fails_once(story: StoryContext) -> None:
        group_ids.append(story.group_id)
        if len(group_ids) == 1:
            raise ExpectationFailed("the session expired too soon")

    verdict = await verdict_on({}, case_of(fails_once))
    assert (verdict.outcome, verdict.reason) == (
        StoryOutcome.PASSED,
        "passed on the second run; the first one failed: the session expired too soon",
    )
    assert group_ids == ["test.story-test", "test.story-test-again"]


async def test_a_story_that_fails_twice_has_the_verdict_of_its_first_run() -> None:
    group_ids = []

    async def fails(story: StoryContext) -> None:
        group_ids.append(story.group_id)
        raise ExpectationFailed(f"failure {len(group_ids)}")

    assert (await verdict_on({}, case_of(fails))).reason == "failure 1"
    assert len(group_ids) == 2


async def test_without_a_restart_command_a_restart_is_not_observable() -> None:
    verdict = await verdict_on({}, case_of(lambda story: story.restart_coordinator(), needs_restart=True))
    assert verdict.outcome is StoryOutcome.NOT_OBSERVABLE
    assert "--restart" in verdict.reason
