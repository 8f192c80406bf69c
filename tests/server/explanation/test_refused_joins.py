"""Why clients did not become members: what is said of joins that were refused."""

import pytest

from regroup.coordinator.consumer.migration.events import UpgradeRefused
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.server.explanation.explain import CannotExplain, explain_event, explain_group, explain_member
from regroup.server.explanation.refused_joins import explain_refused_joins
from regroup.testing import Emulator
from tests.server.explanation.conftest import Reader, StartEmulator
from tests.server.explanation.test_explanations import relative
from tests.testing.conftest import ManualMember, stable_pair

POLICY = {"group.consumer.migration.policy": "disabled"}
REFUSED_UPGRADE = (
    "Client third did not join: 1 ConsumerGroupHeartbeat request was refused with GROUP_ID_NOT_FOUND at +1.0, because "
    "the response says: Cannot upgrade classic group billing to consumer group because online upgrade is disabled."
)


def heartbeat(kafka: Emulator, client_id: str, member_id: str, assignor: str | None = None) -> int:
    """Send the ConsumerGroupHeartbeat with which a member joins; its error code."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="billing",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        server_assignor=assignor,
        topic_partitions=[],
    )
    return kafka.connect(client_id, group="billing").send(request, 1).error_code


@pytest.fixture
def refusing(emulator: StartEmulator) -> Emulator:
    """A classic group of two members, which `third` could not join with the consumer protocol at +1 s."""
    kafka = emulator(settings=POLICY)
    stable_pair(kafka)
    kafka.advance(1)
    assert heartbeat(kafka, "third", "member-id-3") == ErrorCode.GROUP_ID_NOT_FOUND
    return kafka


@pytest.mark.parametrize("name", ["third", "member-id-3"])
def test_a_member_whose_upgrade_was_refused_is_explained_by_its_response(
    name: str, refusing: Emulator, reader: Reader
) -> None:
    assert relative(refusing, explain_member(reader.history(refusing), name)) == [REFUSED_UPGRADE]


def test_the_explanation_of_a_group_ends_with_joins_that_were_refused_since(refusing: Emulator, reader: Reader) -> None:
    *_, before, last = relative(refusing, explain_group(reader.history(refusing)))
    assert last == REFUSED_UPGRADE
    assert "did not join" not in before
    refusing.advance(1)
    refusing.group("billing").expire("second")
    assert not [each for each in explain_group(reader.history(refusing)) if "did not join" in each.sentence]


def test_without_recorded_requests_the_command_that_records_them_is_named(refusing: Emulator, reader: Reader) -> None:
    with pytest.raises(CannotExplain, match=r"no member .* is called 'third' .*: a refused join is no event.*--record"):
        explain_member(reader.history(refusing, exchanges=False), "third")
    with pytest.raises(CannotExplain, match=r"no member .* is called 'fourth' in this history$"):
        explain_member(reader.history(refusing), "fourth")


def test_a_group_that_exists_only_in_refused_requests_is_explained(kafka: Emulator, reader: Reader) -> None:
    assert heartbeat(kafka, "first", "member-id-1", "sticky") == ErrorCode.UNSUPPORTED_ASSIGNOR
    [explanation] = map(str, explain_group(reader.history(kafka)))
    assert "was refused with UNSUPPORTED_ASSIGNOR" in explanation
    assert "because the response says: ServerAssignor sticky is not supported" in explanation


def test_a_member_of_the_same_name_keeps_its_own_explanation_before_the_refused_join(
    refusing: Emulator, reader: Reader
) -> None:
    heartbeat(refusing, "second", "member-id-4")
    joined, refused = relative(refusing, explain_member(reader.history(refusing), "second"))
    assert joined.startswith("Member second joined")
    assert refused.startswith("Client second did not join")


def test_a_refused_join_group_is_explained_by_the_meaning_of_its_error(kafka: Emulator, reader: Reader) -> None:
    stable_pair(kafka)
    third = ManualMember(kafka, "third")
    assert third.post_join(session_timeout_ms=10**9).result(10).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert relative(kafka, explain_member(reader.history(kafka), "third")) == [
        "Client third did not join: 1 JoinGroup request was refused with INVALID_SESSION_TIMEOUT at +0.0, because the "
        "error code means: The session timeout lies outside the limits of the broker."
    ]


def test_a_refusal_by_a_fault_rule_is_called_so(kafka: Emulator, reader: Reader) -> None:
    stable_pair(kafka)
    with kafka.fault(on="JoinGroup", client_id="third", answer=ErrorCode.GROUP_MAX_SIZE_REACHED):
        ManualMember(kafka, "third").post_join().result(10)
    [explanation] = map(str, explain_member(reader.history(kafka), "third"))
    assert "refused with GROUP_MAX_SIZE_REACHED" in explanation
    assert "because a fault rule did this" in explanation


def test_a_passing_refusal_does_not_count_once_its_client_has_joined(kafka: Emulator, reader: Reader) -> None:
    stable_pair(kafka)
    third = ManualMember(kafka, "third")
    with kafka.fault(on="JoinGroup", client_id="third", answer=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        third.post_join().result(10)
    kafka.advance(1)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(explain_member(reader.history(kafka), "third")[-1])
    joining = third.post_join()
    kafka.group("billing").wait_until(lambda seen: len(seen.members) == 3)
    kafka.advance(60)
    joining.result(10)
    assert "did not join" not in " ".join(map(str, explain_member(reader.history(kafka), "third")))


def test_a_static_member_that_got_its_place_later_is_not_said_to_have_failed(kafka: Emulator, reader: Reader) -> None:
    stable_pair(kafka)
    kafka.advance(1)
    with kafka.fault(on="ConsumerGroupHeartbeat", answer=ErrorCode.UNRELEASED_INSTANCE_ID):
        heartbeat(kafka, "third", "member-id-3")
    [refused] = map(str, explain_refused_joins(reader.history(kafka), lambda each: True))
    assert "Client third did not join: 1 ConsumerGroupHeartbeat request was refused with UNRELEASED_INST" in refused
    kafka.advance(1)
    assert heartbeat(kafka, "third", "member-id-3") == ErrorCode.NONE
    assert not list(explain_refused_joins(reader.history(kafka), lambda each: True))


def test_an_upgrade_that_refused_held_requests_says_why_it_was_refused(emulator: StartEmulator, reader: Reader) -> None:
    kafka = emulator(settings={"group.consumer.max.size": 2})
    first, _ = stable_pair(kafka)
    waiting = first.post_join()
    kafka.group("billing").wait_until(lambda seen: seen.state == "PreparingRebalance")
    assert heartbeat(kafka, "third", "member-id-3") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert waiting.result(10).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    history = reader.history(kafka)
    position = next(each.position for each in history.happenings if isinstance(each.event, UpgradeRefused))
    assert "the joining member was refused with GROUP_MAX_SIZE_REACHED: The " in str(
        explain_event(history, position)[0]
    )
    without = reader.history(kafka, exchanges=False)
    assert str(explain_event(without, position)[0]).endswith("the joining member was refused is not recorded.")
