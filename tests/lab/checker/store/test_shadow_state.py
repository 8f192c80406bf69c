"""The shadow state: evolved from the records' own bytes, and equal to the live groups."""

from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.invariants import invariant_sentence
from regroup.coordinator.serialization import encode_event
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.lab.checker.store.shadow_state import ShadowState
from regroup.lab.checker.store.store_invariants import the_shadow_group_equals_the_live_group
from regroup.storage.records import NewRecord
from tests.coordinator.random_commands import RandomCommandRunner, random_choices
from tests.lab.checker.checker_harness import CheckerHarness, run_ready


def records_of(history: list[e.Event], group: str = "g") -> list[NewRecord]:
    return [encode_event(group, number, 1, event, None) for number, event in enumerate(history, 1)]


@pytest.mark.parametrize("seed", range(8))
def test_the_records_of_any_history_add_up_to_its_group(seed: int) -> None:
    runner, shadow, rng = RandomCommandRunner(), ShadowState(), Random(seed)
    for choice in random_choices(seed, 60):
        runner.run(choice)
    records = records_of(runner.events)
    while records:
        batch, records = records[: (count := rng.randint(1, 9))], records[count:]
        shadow.apply(batch, shadow.position + len(batch))

    assert shadow.group("g") == runner.group
    assert shadow.position == len(runner.events)
    assert list(shadow.differing_groups(each.stored_at(n) for n, each in enumerate(records_of(runner.events), 1))) == []


def test_cluster_records_have_positions_and_no_group() -> None:
    shadow = ShadowState()
    cluster = NewRecord(None, 1, 1, 0, "topic-created", 1, b"{}", None)
    created = encode_event("g", 1, 1, e.GroupCreated(at_ms=1, by_join=True), None)
    assert shadow.apply([cluster, created], 2) == []
    assert (shadow.position, list(shadow.groups)) == (2, ["g"])


def test_a_record_that_cannot_be_applied_is_a_violation_at_its_position() -> None:
    shadow = ShadowState()
    left = encode_event("g", 1, 1, e.MemberLeft(at_ms=1, member_id="zoe"), None)
    [violation] = shadow.apply([left], 1)
    assert violation.position == 1
    assert "cannot be folded" in violation.sentence


def test_a_full_replay_names_the_group_that_differs() -> None:
    shadow = ShadowState()
    added = e.PendingMemberAdded(at_ms=1, member_id="anna", client_id="c", session_timeout_ms=1)
    records = records_of([e.GroupCreated(at_ms=1, by_join=True), added])
    shadow.apply(records, 2)
    tampered = replace(records[1], payload=records[1].payload.replace(b"anna", b"ben"))
    assert list(shadow.differing_groups([records[0].stored_at(1), tampered.stored_at(2)])) == ["g"]


async def test_the_shadow_state_equals_the_live_one_after_every_step() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna", "ben")
    for step in (
        lambda: harness.commit_as("anna", 4),
        lambda: harness.leave("ben"),
        lambda: harness.join(member_id="anna"),
    ):
        step()
        await run_ready()
        assert harness.checker.state.shadow.group("payments") == harness.group
    assert harness.violated_sentences() == set()


async def test_an_event_that_is_written_differently_than_applied_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_protocols(
        group: str, number: int, coordinator_epoch: int, event: e.Event, cause: bytes | None
    ) -> NewRecord:
        if isinstance(event, e.MemberJoined):
            lost = (SupportedProtocol("range", b"lost"),)
            event = replace(event, profile=replace(event.profile, supported_protocols=lost))
        return encode_event(group, number, coordinator_epoch, event, cause)

    monkeypatch.setattr("regroup.coordinator.runtime.group_coordinator.encode_event", lose_protocols)
    harness = CheckerHarness()
    await harness.complete_join_phase("anna")
    assert invariant_sentence(the_shadow_group_equals_the_live_group) in harness.violated_sentences()


def test_the_shadow_state_reads_the_payload_and_not_the_event() -> None:
    shadow = ShadowState()
    created = encode_event("g", 1, 1, e.GroupCreated(at_ms=1, by_join=True), None)
    shadow.apply([replace(created, payload=msgspec.json.encode({"at_ms": 1, "by_join": False}))], 1)
    assert shadow.group("g").group_metadata is None
