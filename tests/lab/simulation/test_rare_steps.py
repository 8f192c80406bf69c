"""Steps that hardly any scenario needs: what they do to the group, and that the checker finds nothing."""

from typing import Any

import pytest

from regroup.coordinator.consumer.events import MemberSubscribed
from regroup.coordinator.consumer.migration.events import ClassicMemberJoined
from regroup.coordinator.events import AppendFailed, AssignmentWritten, MemberLeft, MemberRemoved
from regroup.coordinator.serialization import decode_event
from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.rare_steps import ProtocolIsChanged, ResponseIsLate
from regroup.lab.plan.sound_members import is_impersonated
from regroup.lab.plan.steps import Joins
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.simulation.clients.lab_client import LabClient, first_code
from regroup.lab.simulation.clients.late_responses import LateResponses
from regroup.lab.simulation.clients.unknown_errors import UnknownErrors
from regroup.lab.simulation.clients.unknown_topics import UnknownTopics
from regroup.lab.simulation.run import play
from regroup.lab.simulation.virtual_clock import START_MS
from regroup.protocol.consumer.subscription import decode_assignment
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import MetadataResponse, MetadataResponseTopic
from regroup.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.lab.simulation.test_other_clients import RUN, outcome, reasons

CONSUMER = ", protocol: consumer"


def test_a_member_that_unsubscribes_leaves_the_group() -> None:
    played = outcome("at 15s: anna unsubscribes for 10s")
    assert reasons(played, MemberLeft) == ["the consumer unsubscribed from all topics"]


def test_a_taken_instance_id_replaces_its_member() -> None:
    steps = "at 15s: a client takes the instance id of anna\n  - at 30s: anna has seen FENCED_INSTANCE_ID"
    played = outcome(steps, anna=", instance id: anna-1")
    assert any(each.type == "static-member-replaced" for each in played.records)


def test_a_classic_member_in_a_mixed_group_is_taken_for_one_of_the_other_protocol() -> None:
    steps = "at 15s: a client sends a ConsumerGroupHeartbeat as anna\n  - at 30s: anna has seen UNKNOWN_MEMBER_ID"
    assert len(reasons(outcome(steps, ben=CONSUMER, end="90s"), MemberRemoved)) == 1


def test_a_member_whose_id_another_client_uses_is_not_judged_as_well_behaved() -> None:
    """The other client may give the member's partitions up, and it commits and reads on until it learns of it."""
    step = PlannedStep(StepTrigger(delay_ms=15_000), ProtocolIsChanged("anna"))
    plan = SimulationPlan(members={"anna": MemberPlan(), "ben": MemberPlan()}, steps=(step,))
    assert [is_impersonated(plan, each) for each in plan.members] == [True, False]


def test_a_member_with_an_old_subscription_comes_and_goes() -> None:
    step = "at 15s: a new member of group lab joins with a subscription of version 0, and leaves"
    played = outcome(step, ben=CONSUMER)
    assert len(reasons(played, MemberLeft)) == 1


def responses_of_clients(monkeypatch: pytest.MonkeyPatch, method: str) -> list[Any]:
    """The list to which all responses are added that this method of other clients returns."""
    responses: list[Any] = []
    ask = getattr(LabClient, method)

    async def kept(*arguments: Any, **options: Any) -> Any:
        responses.append(await ask(*arguments, **options))
        return responses[-1]

    monkeypatch.setattr(LabClient, method, kept)
    return responses


def test_a_member_that_names_no_rack_any_more_keeps_the_one_that_it_had() -> None:
    played = outcome(
        "at 15s: a new member of group lab joins with a rack and again without one, and leaves", ben=CONSUMER
    )
    events = [decode_event(each) for each in played.records if each.group == "lab"]
    racks = [each.profile.rack_id for each in events if isinstance(each, MemberSubscribed) and each.profile.rack_id]
    assert racks
    assert len(reasons(played, MemberLeft)) == 1
    assert len([each for each in events if isinstance(each, ClassicMemberJoined)]) > 2


def test_a_join_that_waits_for_a_commit_is_refused_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    responses = responses_of_clients(monkeypatch, "send_once")
    steps = "at 15s: Kafka's log takes 2s to refuse writes with NOT_LEADER_OR_FOLLOWER for 10s"
    steps += "\n  - at 16s: a new member of group lab commits, joins again at once, and leaves"
    outcome(steps, ben=CONSUMER)
    assert [first_code(each) for each in responses] == [0, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]


def test_a_heartbeat_with_an_epoch_from_long_ago_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    responses = responses_of_clients(monkeypatch, "request")
    steps = "at 10s: ben restarts after 1s\n  - at 25s: a client sends a heartbeat of anna with epoch 1"
    outcome(steps, anna=CONSUMER, ben=CONSUMER)
    assert [each.error_code for each in responses] == [ErrorCode.FENCED_MEMBER_EPOCH]


def test_requests_with_the_generation_before_are_refused_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    responses = responses_of_clients(monkeypatch, "send_once")
    apis = ("Heartbeat", "SyncGroup", "OffsetCommit")
    sent = "".join(f"\n  - at 25s: a client sends {api} of anna with the generation before" for api in apis)
    played = outcome("at 10s: anna requests a rebalance" + sent)
    assert [first_code(each) for each in responses] == [ErrorCode.ILLEGAL_GENERATION] * 3
    assert not played.failed


def test_requests_of_the_consumer_protocol_with_the_epoch_before_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is of a partition that the member does not own, and the heartbeat does not say what it owns."""
    responses = responses_of_clients(monkeypatch, "send_once")
    sent = "".join(
        f"\n  - at 25s: a client sends {api} of anna with the generation before"
        for api in ("OffsetCommit", "Heartbeat")
    )
    outcome("at 10s: ben restarts after 1s" + sent, anna=CONSUMER, ben=CONSUMER)
    codes = {first_code(each) for each in responses}
    assert codes == {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH}


def test_nothing_is_sent_with_the_generation_before_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    responses = responses_of_clients(monkeypatch, "send_once")
    outcome("at 3s: a client sends Heartbeat of anna with the generation before")
    assert responses == []


def test_a_broker_that_is_not_the_coordinator_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    responses = responses_of_clients(monkeypatch, "send_to_other_broker")
    step = "at 15s: a client takes another broker for the coordinator of group lab"
    outcome(step)
    assert responses == [None, None], "there is one broker"
    responses.clear()
    outcome(step + "\nbrokers: 2")
    codes = [responses[0].groups[0].error_code, responses[1].results[0].error_code]
    assert codes == [ErrorCode.NOT_COORDINATOR] * 2


def test_a_member_gets_an_unknown_error_code_once() -> None:
    unknown = UnknownErrors()
    unknown.expect("anna", "Heartbeat")
    assert unknown.replaced("ben", HeartbeatResponse()) == HeartbeatResponse()
    assert unknown.replaced("anna", HeartbeatResponse()) == HeartbeatResponse(error_code=9_999)
    assert unknown.replaced("anna", HeartbeatResponse()) == HeartbeatResponse()


def test_each_partition_of_a_commit_may_have_an_unknown_error_code() -> None:
    unknown = UnknownErrors()
    unknown.expect("anna", "OffsetCommit")
    rows = [OffsetCommitResponsePartition(partition_index=each) for each in (0, 1)]
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=rows)])
    replaced = unknown.replaced("anna", response)
    assert isinstance(replaced, OffsetCommitResponse)
    assert [each.error_code for each in replaced.topics[0].partitions] == [9_999, 9_999]
    assert unknown.replaced("anna", response) == response


def test_a_member_stays_in_its_group_after_an_unknown_error_code() -> None:
    played = outcome("at 15s: the response to anna's next Heartbeat has an unknown error code")
    assert reasons(played, MemberRemoved) == []


@pytest.mark.parametrize(("at_s", "is_accepted"), [(0, True), (15, False)])
def test_a_consumer_without_a_subscription_commits_if_its_group_has_no_members(at_s: int, is_accepted: bool) -> None:
    played = outcome(f"at {at_s}s: a consumer without a subscription commits 3 in orders for group lab")
    assert ("offsets-committed" in {each.type for each in played.records}) is is_accepted


def test_the_response_to_one_request_may_be_late() -> None:
    late = LateResponses()
    late.expect("anna", "Heartbeat", 20_000)
    heartbeat = HeartbeatRequest(group_id="lab", generation_id=1, member_id="anna-1")
    assert [late.taken_delay_ms(name, heartbeat) for name in ("ben", "anna", "anna")] == [0, 20_000, 0]


def test_a_leader_whose_metadata_are_late_assigns_when_it_knows_the_topics() -> None:
    steps = ResponseIsLate("anna", "Metadata", 20_000), Joins("anna")
    members = {"anna": MemberPlan()}
    played = play(SimulationPlan(members=members, steps=tuple(PlannedStep(StepTrigger(), each) for each in steps)))
    written = next(each.at_ms for each in played.records if each.type == "assignment-written")
    assert written - played.records[0].at_ms >= 20_000


def test_a_log_may_take_its_time_to_refuse_a_record() -> None:
    step = "at 0s: Kafka's log takes 2s to refuse writes with NOT_ENOUGH_REPLICAS for 10s"
    assert reasons(outcome(step), AppendFailed) != []


def test_a_commit_without_a_generation_is_refused_while_there_are_members() -> None:
    played = outcome("at 15s: anna commits in a transaction without its generation")
    assert not any(each.type == "transactional-offsets-written" for each in played.records)


def test_a_classic_member_may_have_a_pattern() -> None:
    played = outcome("at 15s: topic orders-2 is created with 2 partitions", anna=", pattern: 'orders.*'", end="400s")
    assert played.recovered


@pytest.mark.parametrize("instance_id", ["", ", instance id: anna-1"])
def test_a_commit_by_an_instance_id_alone_is_refused_while_there_are_members(
    instance_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    responses = responses_of_clients(monkeypatch, "request")
    played = outcome("at 15s: anna commits in a transaction by an instance id alone", anna=instance_id)
    assert not any(each.type == "transactional-offsets-written" for each in played.records)
    code = ErrorCode.FENCED_INSTANCE_ID if instance_id else ErrorCode.UNKNOWN_MEMBER_ID
    assert first_code(responses[-1]) == code


@pytest.mark.parametrize(("brokers", "loads_ms"), [(1, []), (2, [15_000, 35_000])])
def test_the_groups_of_a_stopped_broker_are_loaded_by_the_next_one_and_again_by_itself(
    brokers: int, loads_ms: list[int]
) -> None:
    """The group `lab` is one of broker 1, if there are two."""
    step = f"at 15s: broker {brokers - 1} stops for 20s"
    text = RUN.format(step=step, end="60s", anna="", ben="", workload=f"brokers: {brokers}")
    played = play(read_plan(text))
    assert not played.failed
    loads = [each for each in played.records if each.type == "coordinator-loaded"]
    assert [each.at_ms - START_MS for each in loads] == loads_ms


def test_a_topic_is_missing_for_one_member_until_its_brokers_have_learnt_of_it() -> None:
    unknown = UnknownTopics()
    orders = MetadataResponseTopic(name="orders", partitions=[])
    response = MetadataResponse(brokers=[], topics=[orders, MetadataResponseTopic(name="clicks", partitions=[])])
    unknown.begin("anna", "orders")
    missing = unknown.replaced("anna", response)
    assert isinstance(missing, MetadataResponse)
    assert [each.error_code for each in missing.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert unknown.replaced("ben", response) == response
    unknown.end("anna", "orders")
    assert unknown.replaced("anna", response) == response


def test_a_leader_assigns_a_topic_when_its_brokers_have_learnt_of_it() -> None:
    played = outcome("at 0s: brokers tell anna for 20s that topic orders does not exist")
    written = [(each.at_ms, decode_event(each)) for each in played.records if each.type == "assignment-written"]
    assigning_ms = [
        at_ms - played.records[0].at_ms
        for at_ms, event in written
        if isinstance(event, AssignmentWritten)
        and any(decode_assignment(each).partitions for each in event.assignments.values())
    ]
    assert len(written) > len(assigning_ms) > 0
    assert min(assigning_ms) >= 19_000
