"""Random courses of the consumer protocol: what they draw, what their members learn, and that they find a fault."""

from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from regroup.cli.conformance.steerable_cluster import SteerableCluster, run_steerable_cluster
from regroup.conformance.differential.consumer_groups.consumer_member import CourseConsumer
from regroup.conformance.differential.consumer_groups.consumer_subscriptions import REGEXES as EXPRESSIONS
from regroup.conformance.differential.course_group import ClientPhase
from regroup.conformance.differential.differential_run import ComparedBrokers, run_course
from regroup.conformance.differential.normalise import CourseNames
from regroup.conformance.differential.random_course import (
    CONSUMER_WEIGHTS,
    REGEXES,
    RESTART_MOVE,
    TOPIC_MOVES,
    CourseMove,
    MoveKind,
    random_course,
)
from regroup.conformance.differential.timing import UnsuitableSettings, check_same_settings, timing_for
from regroup.conformance.harness.broker_under_test import SIX_TOPIC, ConformanceTarget
from regroup.conformance.harness.consumer_group import ConsumerProtocolGroup
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.consumer.subscription import Assignment, TopicPartition, encode_assignment
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)
from regroup.protocol.messages.group import HeartbeatResponse, JoinGroupResponse, SyncGroupResponse

TIMING = timing_for({})
COURSES = [random_course(seed, TIMING, with_restarts=True, of_consumers=True) for seed in range(200)]
SIX_ID = b"six-six-six-six-"


def a_consumer() -> CourseConsumer:
    target = ConformanceTarget("127.0.0.1", 1, topic_ids={SIX_TOPIC: SIX_ID})
    story = StoryContext(target, "g")
    client = ConformanceMember(story, "anna", session_timeout_ms=10_000)
    return CourseConsumer(0, client, group=ConsumerProtocolGroup(story), own_id="A-0")


def heartbeat_answer(epoch: int, *numbers: int, error: int = E.NONE) -> ConsumerGroupHeartbeatResponse:
    given = [ConsumerGroupTopicPartitions(topic_id=SIX_ID, partitions=[*numbers])]
    assignment = ConsumerGroupAssignment(topic_partitions=given) if numbers else None
    return ConsumerGroupHeartbeatResponse(error_code=error, member_epoch=epoch, assignment=assignment)


def test_all_kinds_of_moves_are_drawn_and_topics_change_only_without_a_restart() -> None:
    moves = [move for course in COURSES for move in course.moves]
    assert {move.kind for move in moves} == {*CONSUMER_WEIGHTS, MoveKind.RESTART}
    restarting = {move.kind for course in COURSES if course.restarts for move in course.moves}
    assert not restarting & {*TOPIC_MOVES}
    assert {move.regex for course in COURSES if course.restarts for move in course.moves} == {0}
    assert {move.regex for move in moves} == {*range(REGEXES)}
    assert {move.members for move in moves} >= {1, 2, 3, 4}
    assert Counter(move.group for move in moves)[1] > 0


def test_half_of_the_courses_without_a_restart_have_an_assignment_interval_that_ends_between_moves() -> None:
    intervals = Counter(course.assignment_interval_ms for course in COURSES)
    assert intervals[0] > 50
    assert intervals[round(2.6 * TIMING.slot_ms)] > 50
    restarting = [course for course in COURSES if course.restarts]
    assert {course.moves[RESTART_MOVE].kind for course in restarting} == {MoveKind.RESTART}
    assert {course.assignment_interval_ms for course in restarting} == {0}


def test_a_course_of_the_classic_protocol_has_no_assignment_interval() -> None:
    assert random_course(7, TIMING).assignment_interval_ms is None
    assert random_course(7, TIMING, of_consumers=True).assignment_interval_ms is not None


async def test_a_member_learns_epoch_and_partitions_and_keeps_those_before() -> None:
    anna = a_consumer()
    anna.apply(heartbeat_answer(2, 0, 1))
    anna.apply(heartbeat_answer(3))
    assert (anna.epoch, anna.owned, anna.previous) == (3, {SIX_TOPIC: [0, 1]}, (2, {SIX_TOPIC: [0, 1]}))


@pytest.mark.parametrize("error", [E.FENCED_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID, E.GROUP_ID_NOT_FOUND])
async def test_a_member_that_is_fenced_or_unknown_begins_anew_under_its_id(error: int) -> None:
    anna = a_consumer()
    anna.apply(heartbeat_answer(2, 0))
    anna.apply(heartbeat_answer(0, error=error))
    assert (anna.epoch, anna.owned, anna.client.id) == (0, {}, "A-0")


async def test_a_member_that_leaves_for_a_while_comes_back_as_another_process_perhaps_with_the_other_protocol() -> None:
    anna = a_consumer()
    anna.apply(heartbeat_answer(2, 0))
    anna.apply(heartbeat_answer(-2))
    assert (anna.epoch, anna.owned, anna.client.id, anna.is_classic) == (0, {}, "A-0.1", False)
    anna.apply(heartbeat_answer(4, 0))
    anna.crosses_to = True
    anna.apply(heartbeat_answer(-1))
    assert (anna.is_classic, anna.client.id, anna.has_joined) == (True, "", False)


async def test_a_member_that_crosses_over_joins_and_syncs_and_asks_for_an_id_when_it_is_unknown() -> None:
    anna = a_consumer()
    anna.apply(heartbeat_answer(2, 0))
    anna.cross_over()
    assert (anna.is_classic, anna.phase, anna.owned) == (True, ClientPhase.JOINS, {})
    anna.apply(JoinGroupResponse(error_code=E.NONE, generation_id=3, leader="", member_id="A-0", protocol_name="range"))
    data = encode_assignment(Assignment(1, (TopicPartition(SIX_TOPIC, 4),)))
    anna.apply(SyncGroupResponse(error_code=E.NONE, assignment=data))
    assert (anna.phase, anna.owned, anna.epoch) == (ClientPhase.WORKS, {SIX_TOPIC: [4]}, 3)
    anna.apply(HeartbeatResponse(error_code=E.REBALANCE_IN_PROGRESS))
    assert anna.phase is ClientPhase.JOINS
    anna.apply(HeartbeatResponse(error_code=E.UNKNOWN_MEMBER_ID))
    assert (anna.is_classic, anna.client.id, anna.epoch) == (True, "", 0)


def test_the_wording_of_a_refused_heartbeat_is_not_compared() -> None:
    names = CourseNames({}, {})
    other = heartbeat_answer(0, error=E.UNKNOWN_MEMBER_ID)
    one = msgspec.structs.replace(other, error_message="no such member")
    assert names.normalise_response(one) == names.normalise_response(other)


def test_brokers_with_other_policies_of_migration_are_not_compared() -> None:
    policy = "group.consumer.migration.policy"
    check_same_settings({policy: "BIDIRECTIONAL"}, {})
    with pytest.raises(UnsuitableSettings, match=f"{policy} is disabled on one broker and bidirectional on the other"):
        check_same_settings({policy: "disabled"}, {})


async def test_a_steered_broker_has_given_ids() -> None:
    topic_id = b"topic-topic-----"
    async with run_steerable_cluster({"group.initial.rebalance.delay.ms": "0"}) as broker:
        broker.create_topic("steered", 2, topic_id)
        target = await ConformanceTarget.discover(broker.address)
        story = StoryContext(target, "g")
        broker.give_member_id("g", "given")
        first, second = ConformanceMember(story, "first"), ConformanceMember(story, "second")
        assert (await first.join_group()).member_id == "given"
        assert (await second.join_group()).member_id.startswith("regroup-")
        request = MetadataRequest(topics=[MetadataRequestTopic(name="steered")])
        assert (await story.send(request, MetadataResponse, version=12)).topics[0].topic_id == topic_id
        await story.close()


def test_every_number_of_a_regular_expression_has_one() -> None:
    assert len(EXPRESSIONS) == REGEXES


@pytest.mark.slow
@pytest.mark.parametrize(("more", "agree"), [({}, True), ({"group.consumer.max.size": "1"}, False)])
async def test_equal_brokers_agree_and_a_smaller_group_is_found(more: dict[str, str], agree: bool) -> None:
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
    joins = tuple(CourseMove(MoveKind.NEXT_OF_CONSUMER, actor, group=0, choice=0.5, variant=1) for actor in range(3))
    course = replace(random_course(4, TIMING, of_consumers=True), moves=joins, slot_ms=400)
    async with (
        run_steerable_cluster(settings) as one,
        run_steerable_cluster({**settings, **more}, await topic_ids_of(one)) as other,
    ):
        first, second = [await ConformanceTarget.discover(each.address) for each in (one, other)]
        brokers = ComparedBrokers(first, second, "test", first.versions, TIMING, other)
        assert brokers.have_consumer_groups
        assert (await run_course(brokers, course)).agreed is agree


async def topic_ids_of(emulator: SteerableCluster) -> list[bytes]:
    return (await ConformanceTarget.discover(emulator.address)).topic_ids_in_order()
