"""The runner tells right from wrong, and both from what it could not see."""

import pytest
from fake_broker import Answer, fake_broker

from regroup.conformance.harness.cases import Case, Need
from regroup.conformance.harness.expect import Differs
from regroup.conformance.harness.member import Member
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import NotThere, Target
from regroup.conformance.run.runner import Outcome, Plan, Verdict, run
from regroup.conformance.stories import CASES
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.message import Message
from regroup.protocol.messages.group import HeartbeatResponse, JoinGroupResponse

UNKNOWN_GROUP = CASES["heartbeat.unknown-group"]


async def verdict(
    answers: dict[str, Answer], case: Case = UNKNOWN_GROUP, told: dict[str, str] | None = None
) -> Verdict:
    async with fake_broker(answers) as address:
        target = await Target.learn(address, told)
        (one,) = await run(target, [case], Plan("test"))
        return one


def beaten(code: int) -> dict[str, Answer]:
    return {"Heartbeat": lambda request: HeartbeatResponse(error_code=code)}


async def test_a_broker_that_does_as_kafka_does_passes() -> None:
    assert (await verdict(beaten(E.UNKNOWN_MEMBER_ID))).outcome is Outcome.PASSED


async def test_a_broker_that_answers_otherwise_fails_and_the_exchange_is_shown() -> None:
    came = await verdict(beaten(E.NONE))
    assert came.outcome is Outcome.FAILED
    assert came.reason == "HeartbeatResponse.error_code: expected 25 UNKNOWN_MEMBER_ID, came 0"
    (line,) = came.exchange
    assert "anna: Heartbeat v4 group_id='heartbeat.unknown-group-test'" in line
    assert line.endswith("-> error_code=NONE")


async def test_a_broker_that_hangs_up_fails() -> None:
    came = await verdict({"Heartbeat": lambda request: None})
    assert came.outcome is Outcome.FAILED
    assert "closed without an answer" in came.reason


async def test_a_broker_that_does_not_offer_the_api_shows_nothing() -> None:
    came = await verdict({})
    assert (came.outcome, came.reason) == (Outcome.NOT_OBSERVABLE, "the broker does not offer Heartbeat")


async def test_a_story_whose_settings_the_broker_lacks_is_not_told() -> None:
    case = CASES["limits.stable-full.new-member"]
    came = await verdict({}, case, told={"group.max.size": "1000"})
    assert (came.outcome, came.reason) == (
        Outcome.NOT_OBSERVABLE,
        "group.max.size is 1000, and must be at least 2 and at most 11",
    )


async def test_nobody_at_the_address_is_said_in_plain_words() -> None:
    async with fake_broker({}) as address:
        pass
    with pytest.raises(NotThere, match="nobody listens at"):
        await Target.learn(address)


def story_about(tell_it: "object", **more: object) -> Case:
    values = {"id": "test.story", "importance": 1, "summary": "", "needs": {}, "seconds": 60.0, "restarts": False}
    return Case(**{**values, "corrected": "", "tell": tell_it, **more})  # type: ignore[arg-type]


async def test_a_parked_request_is_told_from_one_that_is_answered() -> None:
    def joined(request: Message) -> Message:
        return JoinGroupResponse(member_id="m", generation_id=1)

    async def parked(tell: Story) -> None:
        await Member(tell, "anna").asks_to_join(version=3).is_parked()

    came = await verdict({"JoinGroup": joined}, story_about(parked))
    assert came.outcome is Outcome.FAILED
    assert came.reason == "anna's JoinGroup v3 should wait, and was answered at once"


async def test_a_story_that_does_not_end_fails_after_its_time() -> None:
    async def endless(tell: Story) -> None:
        await tell.passes(60)

    came = await verdict({}, story_about(endless, seconds=0.05))
    assert (came.outcome, came.reason) == (Outcome.FAILED, "the story was not over after 0.05 s")


async def test_a_story_waits_for_what_comes_true_later() -> None:
    seen = []

    async def third_time() -> None:
        seen.append(1)
        if len(seen) < 3:
            raise Differs("not yet")

    async def patient(tell: Story) -> None:
        await tell.until(third_time)

    assert (await verdict({}, story_about(patient))).outcome is Outcome.PASSED


async def test_all_stories_that_need_a_restart_share_one() -> None:
    restarts = []

    async def restart() -> None:
        restarts.append(1)

    async def restarting(tell: Story) -> None:
        await tell.coordinator_restarts()
        await tell.is_in("Dead")

    async def never_gets_there(tell: Story) -> None:
        raise Differs("went wrong before")

    cases = [
        story_about(restarting, id="test.one", restarts=True),
        story_about(never_gets_there, id="test.two", restarts=True),
        story_about(restarting, id="test.three", restarts=True),
        story_about(restarting, id="test.four", restarts=True, needs={"group.max.size": Need(at_most=1)}),
    ]
    async with fake_broker({}) as address:
        target = await Target.learn(address, restart=restart)
        verdicts = await run(target, cases, Plan("test"))
    assert [each.outcome for each in verdicts] == [
        Outcome.PASSED,
        Outcome.FAILED,
        Outcome.PASSED,
        Outcome.NOT_OBSERVABLE,
    ]
    assert restarts == [1]


async def test_a_story_that_failed_is_told_again_and_says_what_was_wrong_at_first() -> None:
    tellings = []

    async def late_at_first(tell: Story) -> None:
        tellings.append(tell.group)
        if len(tellings) == 1:
            raise Differs("the session was over too soon")

    came = await verdict({}, story_about(late_at_first))
    assert (came.outcome, came.reason) == (Outcome.PASSED, "when told again; at first the session was over too soon")
    assert tellings == ["test.story-test", "test.story-test-again"]


async def test_a_story_that_fails_again_shows_its_first_exchange() -> None:
    tellings = []

    async def never(tell: Story) -> None:
        tellings.append(tell.group)
        raise Differs(f"wrong for the {len(tellings)}. time")

    assert (await verdict({}, story_about(never))).reason == "wrong for the 1. time"
    assert len(tellings) == 2


async def test_without_a_way_to_restart_such_a_story_is_not_observable() -> None:
    came = await verdict({}, story_about(lambda tell: tell.coordinator_restarts(), restarts=True))
    assert came.outcome is Outcome.NOT_OBSERVABLE
    assert "--restart" in came.reason
