"""Why things happened, in the histories of real emulators. Times are seconds since the start of the emulator."""

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest

from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
)
from regroup.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from regroup.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from regroup.server.explanation.explain import CannotExplain, explain_event, explain_group, explain_member
from regroup.server.explanation.history import KnownHistory, read_known_history
from regroup.server.explanation.sentences import Explanation
from regroup.testing import Emulator
from tests.classroom.recorded.recordings import recorded_run
from tests.server.explanation.conftest import Reader, StartEmulator
from tests.testing.conftest import ManualMember, commit, stable_pair


def relative(kafka: Emulator, explanations: list[Explanation]) -> list[str]:
    """The sentences, with each time of day as seconds since the start, and with shortened member ids as `…`."""
    start = datetime.fromtimestamp(kafka.group("billing").events()[0].at_ms / 1000, UTC)

    def seconds(match: re.Match[str]) -> str:
        time = datetime.fromisoformat(f"{start.date()}T{match[0]}+00:00")
        return f"{((time - start) % timedelta(days=1)).total_seconds():+.1f}"

    return [
        re.sub(r"\d\d:\d\d:\d\d\.\d{3}", seconds, re.sub(r"-[0-9a-f]{8}…", "-…", str(each))) for each in explanations
    ]


def expire_second_despite_a_lost_heartbeat(kafka: Emulator) -> tuple[ManualMember, ManualMember]:
    """`second` is removed 9 s after its last heartbeat at 10 s; a fault rule drops the one at 12 s."""
    first, second = stable_pair(kafka)
    for _ in range(2):
        kafka.advance(5)
        first.heartbeat()
        second.heartbeat()
    with kafka.fault(on="Heartbeat", client_id="second", drop="request") as rule:
        kafka.advance(2)
        first.heartbeat()
        second.connection.post(HeartbeatRequest(group_id="billing", generation_id=2, member_id=second.member_id), 3)
        rule.wait_hits()
        kafka.advance(7)
    return first, second


def test_a_session_timeout_with_the_requests_that_a_fault_rule_kept(kafka: Emulator, reader: Reader) -> None:
    expire_second_despite_a_lost_heartbeat(kafka)
    assert relative(kafka, explain_member(reader.history(kafka), "second")) == [
        "Member second was removed at +19.0, because its session of 9 s ended, because its last heartbeat came at "
        "+10.0, and no request that counts followed; a fault rule hit 1 later Heartbeat request (drop request)."
    ]


def test_what_was_not_recorded_is_called_so(kafka: Emulator, reader: Reader) -> None:
    expire_second_despite_a_lost_heartbeat(kafka)
    assert relative(kafka, explain_member(reader.history(kafka, exchanges=False), "second")) == [
        "Member second was removed at +19.0, because its session of 9 s ended, because it was last seen at +10.0 "
        "(with which request is not recorded); whether requests of it followed is not recorded.",
        "Whether requests of it were refused after that is not recorded.",
    ]


def test_refused_requests_of_a_removed_member(kafka: Emulator, reader: Reader) -> None:
    _, second = stable_pair(kafka)
    kafka.group("billing").expire("second")
    kafka.advance(1)
    second.heartbeat()
    second.heartbeat()
    assert relative(kafka, explain_member(reader.history(kafka), "second")) == [
        "Member second was removed at +0.0, because a test did this (expire).",
        "2 Heartbeat requests were refused with UNKNOWN_MEMBER_ID at +1.0, because member second was removed at +0.0.",
    ]


def leave(sender: ManualMember, member: ManualMember, reason: str = "") -> None:
    request = LeaveGroupRequest(
        group_id="billing", members=[MemberIdentity(member_id=member.member_id, reason=reason or None)]
    )
    sender.connection.send(request, 5)


def test_a_member_that_leaves_and_one_that_another_client_removes(kafka: Emulator, reader: Reader) -> None:
    first, second = stable_pair(kafka)
    leave(second, second, "the consumer is closed")
    assert relative(kafka, explain_member(reader.history(kafka), "second")) == [
        "Member second left at +0.0, because it sent LeaveGroup, with the reason: the consumer is closed."
    ]
    leave(second, first)
    assert relative(kafka, explain_member(reader.history(kafka), "first")) == [
        "Member first was removed at +0.0, because second sent LeaveGroup for it, and the request gives no reason."
    ]


def test_a_client_that_is_back_before_its_former_session_has_ended(kafka: Emulator, reader: Reader) -> None:
    former = ManualMember(kafka, "worker")
    former.join()
    former.sync({former.member_id: [0, 1]}).result(10)
    kafka.advance(5)
    ManualMember(kafka, "worker").post_join()
    kafka.group("billing").wait_until(lambda seen: len(seen.members) == 2)
    kafka.advance(4)
    assert [each.type for each in kafka.group("billing").events() if each.type == "member-removed"]
    joined, earlier = relative(kafka, explain_member(reader.history(kafka), "worker"))
    assert joined == "Member worker-… joined at +5.0, because JoinGroup of worker came from 127.0.0.1."
    assert earlier == "It had 1 other member id before: worker-…, from +0.0, which was removed at +9.0."


def test_in_a_simulation_a_request_comes_from_its_client_and_that_is_said_once() -> None:
    history = asyncio.run(read_known_history(recorded_run("first-join"), "lab"))
    name = history.happenings[-1].cause.client_id
    text = " ".join(str(each) for each in explain_member(history, name))
    assert f" of {name} came" in text
    assert "came from" not in text


def test_a_member_that_has_joined_again_under_its_member_id(kafka: Emulator, reader: Reader) -> None:
    first, _ = stable_pair(kafka)
    kafka.advance(2)
    first.connection.post(rejoin_of(first, ("orders",), "its topics have changed"), 8)
    kafka.group("billing").wait_until(lambda seen: seen.state == "PreparingRebalance")
    joined, *again = relative(kafka, explain_member(reader.history(kafka), "first"))
    assert joined.startswith("Member first joined at +0.0")
    assert again == [
        "It sent JoinGroup again 2 times since then, the last one at +2.0, with the reason: its topics have changed."
    ]


def test_a_rebalance_after_the_leader_left(kafka: Emulator, reader: Reader) -> None:
    first, second = stable_pair(kafka)
    leave(first, first)
    second.join()
    second.sync({second.member_id: [0, 1]}).result(10)
    assert relative(kafka, explain_group(reader.history(kafka))) == [
        "A rebalance started at +0.0, because member first left at +0.0, because it sent LeaveGroup, and the request "
        "gives no reason.",
        "Generation 3 began at +0.0 with the assignor range, because every member had joined, client second as the "
        "last.",
        "Member second leads generation 3 and computes the assignment, because it was elected at +0.0, because the "
        "leader member first left.",
        "The group was Stable at +0.0, because the leader's assignment was committed, because SyncGroup of second came "
        "from 127.0.0.1.",
    ]


def test_a_rebalance_that_is_still_running(kafka: Emulator, reader: Reader) -> None:
    stable_pair(kafka)
    ManualMember(kafka, "third").post_join()
    kafka.group("billing").wait_until(lambda seen: len(seen.members) == 3)
    assert relative(kafka, explain_group(reader.history(kafka))) == [
        "A rebalance started at +0.0, because member third joined at +0.0, because JoinGroup of third came from "
        "127.0.0.1.",
        "At the end of the history the join phase is still running; joined so far: member third; it ends at +60.0 at "
        "the latest.",
    ]


def test_members_that_do_not_join_again_in_time(kafka: Emulator, reader: Reader) -> None:
    first, second = stable_pair(kafka)
    kafka.group("billing").rebalance()
    first.post_join()
    for _ in range(7):
        kafka.advance(7.5)
        second.heartbeat()
    kafka.advance(7.5)
    start, removal, generation, *_ = relative(kafka, explain_group(reader.history(kafka)))
    assert start == "A rebalance started at +0.0, because a test did this (rebalance)."
    assert removal == (
        "Member second was removed at +60.0, because it did not rejoin within the rebalance timeout of 60000 ms, "
        "because the rebalance had begun at +0.0 (forced by a test); 7 later Heartbeat requests were refused with "
        "REBALANCE_IN_PROGRESS."
    )
    assert generation.startswith(
        "Generation 3 began at +60.0 with the assignor range, because the join phase, which had begun at +0.0, reached "
        "its deadline"
    )


def test_members_that_do_not_sync_in_time(kafka: Emulator, reader: Reader) -> None:
    first = ManualMember(kafka, "first")
    first.join(session_timeout_ms=120_000)
    kafka.advance(60)
    assert relative(kafka, explain_member(reader.history(kafka), "first")) == [
        "Member first was removed at +60.0, because it did not send SyncGroup in time, because generation 1 had begun "
        "at +0.0."
    ]


def test_a_static_member_whose_former_process_is_fenced(kafka: Emulator, reader: Reader) -> None:
    former, present = [ManualMember(kafka, client, instance_id="billing-1") for client in ("former", "present")]
    former.join()
    former.sync({former.member_id: [0, 1]}).result(10)
    kafka.advance(1)
    present.join()
    kafka.advance(1)
    former.heartbeat()
    (replaced, *refused) = relative(kafka, explain_member(reader.history(kafka), "billing-1"))
    assert replaced == (
        "Instance billing-1 got a new process, member billing-1-…, at +1.0, because client present sent JoinGroup with "
        "this instance id and without a member id; the id of member billing-1-… is fenced since then; 1 later request "
        "was refused with FENCED_INSTANCE_ID, the first at +2.0."
    )
    assert refused == []


def rejoin_of(member: ManualMember, topics: tuple[str, ...], reason: str = "") -> JoinGroupRequest:
    metadata = encode_subscription(Subscription(1, topics))
    return JoinGroupRequest(
        group_id="billing",
        session_timeout_ms=9_000,
        rebalance_timeout_ms=60_000,
        member_id=member.member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        reason=reason or None,
    )


def test_a_rebalance_for_a_changed_subscription(kafka: Emulator, reader: Reader) -> None:
    _, second = stable_pair(kafka)
    second.connection.post(rejoin_of(second, ("orders", "clicks")), 3)
    kafka.group("billing").wait_until(lambda seen: seen.state == "PreparingRebalance")
    assert relative(kafka, explain_group(reader.history(kafka)))[0] == (
        "A rebalance started at +0.0, because member second sent JoinGroup again at +0.0, because its subscription "
        "changed from orders to clicks and orders."
    )


def test_a_rebalance_for_new_partitions(kafka: Emulator, reader: Reader) -> None:
    first, _ = stable_pair(kafka)
    kafka.advance(1)
    kafka.add_partitions("orders", 4)
    kafka.advance(1)
    first.connection.post(rejoin_of(first, ("orders",), "cached metadata has changed"), 8)
    kafka.group("billing").wait_until(lambda seen: seen.state == "PreparingRebalance")
    assert relative(kafka, explain_group(reader.history(kafka)))[0] == (
        "A rebalance started at +2.0, because member first sent JoinGroup again at +2.0, because of the reason it "
        "gave: cached metadata has changed, and because topic orders had got 4 partitions at +1.0."
    )


def test_the_initial_rebalance_delay(emulator: StartEmulator, reader: Reader) -> None:
    kafka = emulator(settings={"group.initial.rebalance.delay.ms": 3_000})
    ManualMember(kafka, "first").post_join()
    kafka.group("billing").wait_until(lambda seen: seen.members)
    kafka.advance(3)
    assert relative(kafka, explain_group(reader.history(kafka)))[1:3] == [
        "Generation 1 began at +3.0 with the assignor range, because the initial rebalance delay of 3 s, which had "
        "begun at +0.0, ended.",
        "Member first leads generation 1 and computes the assignment, because it was elected at +0.0, because it was "
        "the first member of the group.",
    ]


def test_a_member_id_that_is_required_and_never_used(kafka: Emulator, reader: Reader) -> None:
    newcomer = ManualMember(kafka, "newcomer")
    answer = newcomer.connection.send(rejoin_of(newcomer, ("orders",)), 5)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    required = kafka.group("billing").events()[-1].position
    kafka.advance(9)
    history = reader.history(kafka)
    assert relative(kafka, explain_event(history, required)) == [
        "A JoinGroup of newcomer was refused with MEMBER_ID_REQUIRED at +0.0, because it came without a member id, "
        "and got the id of member newcomer to join with (KIP-394); it was dropped at +9.0, because it did not rejoin "
        "within 9000 ms."
    ]
    assert relative(kafka, explain_member(history, "newcomer")) == [
        "The id of member newcomer, which no member had used, was dropped at +9.0, because it did not rejoin within "
        "9000 ms."
    ]


def test_a_coordinator_that_is_started_again_and_one_that_moves(emulator: StartEmulator, reader: Reader) -> None:
    kafka = emulator(brokers=2)
    stable_pair(kafka)

    def last_load() -> str:
        position = [each for each in kafka.group("billing").events() if each.type == "coordinator-loaded"][-1].position
        return relative(kafka, explain_event(reader.history(kafka), position))[0]

    kafka.move_coordinator("billing")
    assert last_load().startswith(
        "A coordinator loaded the group at +0.0, because its broker became the coordinator, or the store was opened"
    )
    kafka.kill()
    kafka.restart()
    ManualMember(kafka, "first").heartbeat()
    assert last_load() == "A coordinator loaded the group at +0.0, because regroup was started again."


def test_offsets_that_were_deleted_and_that_expired(emulator: StartEmulator, reader: Reader) -> None:
    kafka = emulator(settings={"offsets.retention.minutes": 10})
    first, second = stable_pair(kafka)
    commit(first, {0: 7, 1: 9})
    leave(first, first)
    leave(second, second)
    partition = OffsetDeleteRequestPartition(partition_index=1)
    topic = OffsetDeleteRequestTopic(name="orders", partitions=[partition])
    kafka.connect("operator").send(OffsetDeleteRequest(group_id="billing", topics=[topic]), 0)
    deleted = kafka.group("billing").events()[-1].position
    kafka.advance(1200)
    (expired,) = [each for each in kafka.group("billing").events() if each.type == "offsets-deleted"][1:]
    history = reader.history(kafka)
    assert relative(kafka, explain_event(history, deleted)) == [
        "The offsets of orders-1 were deleted at +0.0, because OffsetDelete of operator came from 127.0.0.1."
    ]
    (sentence,) = relative(kafka, explain_event(history, expired.position))
    assert "because their retention time had passed, because the group had been without members since +0.0" in sentence


def test_offsets_of_a_transaction_that_took_too_long(kafka: Emulator, reader: Reader) -> None:
    stable_pair(kafka)
    producer = kafka.connect("producer")
    began = producer.send(InitProducerIdRequest(transactional_id="billing-tx", transaction_timeout_ms=5_000), 4)
    mine = {
        "transactional_id": "billing-tx",
        "producer_id": began.producer_id,
        "producer_epoch": began.producer_epoch,
        "group_id": "billing",
    }
    producer.send(AddOffsetsToTxnRequest(**mine), 3)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topic = TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])
    assert producer.send(TxnOffsetCommitRequest(**mine, topics=[topic]), 3).topics[0].partitions[0].error_code == 0
    kafka.advance(6)
    (ended,) = [each for each in kafka.group("billing").events() if each.type == "transaction-ended"]
    assert relative(kafka, explain_event(reader.history(kafka), ended.position)) == [
        "The pending offsets of producer 0 were dropped at +5.0, because transaction billing-tx was aborted at +5.0, "
        "because it exceeded its timeout of 5000 ms; its producer is fenced."
    ]


def test_a_member_that_joined_before_the_history_was_trimmed(kafka: Emulator, reader: Reader) -> None:
    expire_second_despite_a_lost_heartbeat(kafka)
    whole = reader.history(kafka)
    trimmed = KnownHistory("billing", whole.happenings[-2:])
    assert relative(kafka, explain_member(trimmed, "second"))[0] == (
        "Member second was removed at +19.0, because its session of 9 s ended, because it was last seen at +10.0 (with "
        "which request is not recorded); whether requests of it followed is not recorded."
    )


def test_what_is_not_in_the_history_cannot_be_explained(kafka: Emulator, reader: Reader) -> None:
    stable_pair(kafka)
    history = reader.history(kafka)
    with pytest.raises(CannotExplain, match="no member of group 'billing' is called 'nobody'"):
        explain_member(history, "nobody")
    with pytest.raises(CannotExplain, match="position 99999 has no event"):
        explain_event(history, 99_999)
    with pytest.raises(CannotExplain, match="has no rebalance"):
        explain_group(KnownHistory("billing", ()))
