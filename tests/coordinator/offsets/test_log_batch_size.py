"""What is too large for a batch of Kafka's log. All limits were asked of Apache Kafka 4.4.0, to the byte."""

import pytest

from regroup.coordinator.classic.protocol_vote import subscribed_topics
from regroup.coordinator.commands import RequestedOffset
from regroup.coordinator.events import OffsetsCommitted
from regroup.coordinator.group import Group, GroupState, Member, MemberProfile
from regroup.coordinator.offsets import log_batch_size
from regroup.coordinator.offsets.log_batch_size import group_fits, offsets_fit
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_harness import GroupHarness

MEMBER_ID = "regroup-2b65dc09-91c7-4113-b4de-c0516e1ca061"


@pytest.mark.parametrize(
    ("group", "most", "metadata"),
    [("g251", 251, 4_096), ("g980", 980, 1_000), ("g6204", 6_204, 100), ("groupgroupgroup3692", 3_692, 200)],
)
def test_as_many_offsets_fit_as_in_kafka(group: str, most: int, metadata: int) -> None:
    offsets = [RequestedOffset("q0", number, 7, metadata="m" * metadata) for number in range(most + 1)]
    assert offsets_fit(group, offsets[:most])
    assert not offsets_fit(group, offsets)


@pytest.mark.parametrize(("assignment_bytes", "fits"), [(1_048_328, True), (1_048_329, False)])
def test_an_assignment_may_be_as_large_as_in_kafka(assignment_bytes: int, fits: bool) -> None:
    profile = MemberProfile(
        client_id="regroup",
        client_host="/127.0.0.1",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        supported_protocols=(SupportedProtocol("range", bytes(10)), SupportedProtocol("sticky", bytes(2_000_000))),
    )
    member = Member(member_id=MEMBER_ID, profile=profile, assignment=bytes(assignment_bytes))
    group = Group(group_id=f"s{assignment_bytes}", protocol_type="consumer", protocol_name="range", leader_id=MEMBER_ID)
    assert group_fits(group, [member]) is fits


def test_characters_count_as_many_bytes_as_utf_8_gives_them() -> None:
    ascii_only = [RequestedOffset("q0", number, 7, metadata="m" * 1_000) for number in range(981)]
    others = [RequestedOffset("q0", number, 7, metadata="ä" * 500) for number in range(981)]
    assert [offsets_fit("g980", each[:980]) for each in (ascii_only, others)] == [True, True]
    assert [offsets_fit("g980", each) for each in (ascii_only, others)] == [False, False]


def test_a_hundred_short_offsets_fit_without_a_look_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_batch_size, "_record_bytes", None)
    assert offsets_fit("g", [RequestedOffset("q0", number, 7) for number in range(1_000)])


def test_a_commit_that_is_too_large_commits_nothing_and_makes_no_group() -> None:
    harness = GroupHarness()
    offsets = tuple(RequestedOffset("foo", number, 1, metadata="x" * 4_096) for number in range(300))
    refused = harness.commit(offsets=offsets)
    assert set(refused.codes.values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert refused.events == ()
    assert not harness.group.exists
    accepted = harness.commit(offsets=offsets[:200])
    assert OffsetsCommitted in {type(event) for event in accepted.events}


def test_an_assignment_that_is_too_large_is_refused_and_the_group_rebalances() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    waiting = ben.sync()
    refused = anna.sync({anna.member_id: bytes(1_100_000)})
    assert refused.code == waiting.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.state is GroupState.PREPARING_REBALANCE
    assert anna.heartbeat().code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_whose_new_subscription_is_too_large_leaves_its_former_process_in_place() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    former = ben.restart()
    ben.metadata = bytes(1_100_000)
    refused = ben.send_join()
    assert refused.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (refused.response.generation_id, refused.response.member_id) == (2, "")
    assert refused.events == ()
    assert former.heartbeat().code == ErrorCode.NONE


def test_subscriptions_that_no_batch_can_hold_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a join phase is one step, and decoding takes 45 ms a megabyte: equal ones are decoded once."""
    decoded = []

    def counted(encoded: bytes) -> tuple[str, ...]:
        decoded.append(encoded)
        return ("foo",)

    monkeypatch.setattr("regroup.coordinator.classic.protocol_vote.decode_subscribed_topics", counted)
    members = [member_with(bytes([number]) * 600_000, number) for number in (1, 1, 1, 2)]
    assert subscribed_topics("consumer", "range", members[:3]) == ("foo",)
    assert len(decoded) == 1
    assert subscribed_topics("consumer", "range", members) is None
    assert len(decoded) == 1


def member_with(metadata: bytes, number: int) -> Member:
    protocols = (SupportedProtocol("range", metadata),)
    profile = MemberProfile(session_timeout_ms=1, rebalance_timeout_ms=1, supported_protocols=protocols)
    return Member(member_id=f"member-{number}", profile=profile)
