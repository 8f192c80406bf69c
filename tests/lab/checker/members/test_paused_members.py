"""A member pauses until it goes on or ends; a zombie goes on committing when its member has a new process."""

from regroup.lab.checker.members.observed_members import ObservedMembers
from regroup.lab.checker.members.paused_members import FormerZombies, PausedMembers
from regroup.lab.checker.members.retries import LOOKS_AGAIN
from regroup.members.faults import parse_fault
from regroup.members.runtime.notes import FaultBegan, FaultEnded
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest
from tests.lab.checker.checker_harness import CheckerHarness

COMMIT = OffsetCommitRequest(group_id="payments", member_id="anna-1", generation_id_or_member_epoch=3, topics=[])
HEARTBEAT = HeartbeatRequest(group_id="payments", member_id="anna-2", generation_id=4)


def test_a_member_pauses_until_it_goes_on_or_has_a_new_process() -> None:
    paused = PausedMembers()
    for end in (lambda: paused.on_note("anna", FaultEnded("paused")), lambda: paused.on_new_life("anna")):
        paused.on_note("anna", FaultBegan(parse_fault("pause:5s")))
        paused.on_note("ben", FaultBegan(parse_fault("slow-sync:5s")))
        assert "anna" in paused
        assert "ben" not in paused
        end()
        assert "anna" not in paused


def test_the_commits_of_a_former_process_are_those_for_the_generation_in_which_it_was_a_zombie() -> None:
    former = FormerZombies()
    assert not former.is_by_one("anna", COMMIT)
    former.on_note("anna", FaultBegan(parse_fault("zombie")))
    assert not former.is_by_one("anna", COMMIT), "it is the present process"
    former.on_new_life("anna")
    assert former.is_by_one("anna", COMMIT)
    later = OffsetCommitRequest(group_id="payments", member_id="anna-2", generation_id_or_member_epoch=4, topics=[])
    assert not any(former.is_by_one("anna", each) for each in (later, HEARTBEAT))
    assert not former.is_by_one("ben", COMMIT)


def violated(*, zombie: bool) -> set[str]:
    """What is found when a commit fails and Anna's new process then sends a heartbeat."""
    harness = CheckerHarness()
    members: ObservedMembers = harness.checker.members
    members.add_member("anna", "payments")
    if zombie:
        members.on_note("anna", FaultBegan(parse_fault("zombie")))
    members.on_request("anna", COMMIT)
    members.on_stop("anna", 0)
    members.on_request("anna", COMMIT)
    members.on_response("anna", COMMIT, None)
    members.on_request("anna", HEARTBEAT)
    return harness.violated_sentences()


async def test_a_new_process_keeps_its_coordinator_when_a_commit_of_the_zombie_before_it_fails() -> None:
    assert violated(zombie=True) == set()
    assert violated(zombie=False) == {LOOKS_AGAIN}
