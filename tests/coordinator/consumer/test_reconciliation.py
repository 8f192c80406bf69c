"""Single steps and sequences that Kafka's own CurrentAssignmentBuilder 4.4.0 has computed, and the table of moves.

`reconcile_single.jsonl.gz` has one step a line, drawn by chance, some of which no real group reaches.
`reconcile_sequences.jsonl.gz` has the heartbeats of groups of up to four members, between targets that are given.
"""

import gzip
import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from regroup.coordinator.consumer.reconciliation import MOVES, FencedMember, Reconciliation
from regroup.coordinator.consumer_group import ConsumerMember, ConsumerProfile, PartitionEpochs, ReconciliationState
from tests.coordinator.consumer.consumer_harness import ConsumerHarness
from tests.coordinator.group_harness import behaviour

VECTORS = Path(__file__).parent
ARCHITECTURE = Path(__file__).parents[3] / "docs" / "architecture.md"


@cache
def vectors(name: str) -> list[dict[str, Any]]:
    lines = gzip.decompress((VECTORS / f"{name}.jsonl.gz").read_bytes()).splitlines()
    return [msgspec.json.decode(line) for line in lines]


def state_of(name: str) -> ReconciliationState:
    return ReconciliationState[name]


def epochs_of(partitions: dict[str, dict[str, int]]) -> PartitionEpochs:
    return {topic: {int(index): epoch for index, epoch in each.items()} for topic, each in partitions.items() if each}


def member_of(vector: dict[str, Any], member_id: str = "m") -> ConsumerMember:
    return ConsumerMember(
        member_id=member_id,
        profile=ConsumerProfile(),
        epoch=vector["epoch"],
        previous_epoch=vector["previous"],
        state=state_of(vector["state"]),
        assigned=epochs_of(vector["assigned"]),
        pending_revocation=epochs_of(vector["pending"]),
    )


@behaviour("cg.rec.member-state-unknown")
@pytest.mark.parametrize("vector", vectors("reconcile_single"), ids=lambda vector: vector["id"])
def test_a_single_step_is_kafkas(vector: dict[str, Any]) -> None:
    before, others = member_of(vector["member"]), epochs_of(vector["others"])
    names = [*vector["member"]["subscribed"], *vector["resolved"].get(vector["member"]["regex"], ())]
    step = Reconciliation(
        before,
        target_epoch=vector["target_epoch"],
        target=vector["target"],
        subscribed=[name for name in names if name in vector["topics"]],
        has_subscription_changed=vector["subscription_changed"],
        is_held_by_another=lambda topic_id, index: index in others.get(topic_id, {}),
        owned=vector["owned"],
    )
    if "error" in vector:
        with pytest.raises(FencedMember):
            step.step()
        return
    after = step.step()
    assert after == member_of(vector["expected"])
    assert (after == before) is vector["unchanged"]
    assert (after.assigned != before.assigned) is vector["answer_has_assignment"]


@pytest.mark.parametrize("vector", vectors("reconcile_sequences"), ids=lambda vector: vector["id"])
def test_a_sequence_of_steps_is_kafkas(vector: dict[str, Any]) -> None:
    members: dict[str, ConsumerMember] = {}
    epoch, targets = 0, dict[str, Any]()
    for number, action in enumerate(vector["steps"]):
        if action["do"] == "target":
            epoch, targets = action["epoch"], action["targets"]
            continue
        member_id = action["member"]
        if action["do"] == "remove":
            del members[member_id]
            continue
        if action["do"] == "join":
            members[member_id] = ConsumerMember(member_id=member_id, profile=ConsumerProfile())
        before = members[member_id]
        held = {each for other in members.values() if other is not before for each in other.held()}
        after = Reconciliation(
            before,
            target_epoch=epoch,
            target=targets[member_id],
            subscribed=vector["partitions"],
            has_subscription_changed=False,
            is_held_by_another=lambda topic_id, index, held=held: (topic_id, index) in held,
            owned=action["owned"],
        ).step()
        assert after == member_of(action["expected"], member_id), f"step {number}"
        changed = action["do"] == "join" or after.assigned != before.assigned
        assert changed is action["answer_has_assignment"], f"step {number}"
        members[member_id] = after


def test_the_documentation_draws_the_moves_that_kafka_makes() -> None:
    """But not those from UNKNOWN, a state that a coordinator never writes."""
    made = {
        (vector["member"]["state"], vector["expected"]["state"])
        for vector in vectors("reconcile_single")
        if "error" not in vector and not vector["unchanged"]
    }
    states = "|".join(state.name for state in ReconciliationState)
    drawn = re.findall(rf"^ +({states}) --> ({states}):", ARCHITECTURE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(drawn) == sorted(each for each in made if each[0] != "UNKNOWN")


def test_every_state_has_a_row_of_moves() -> None:
    assert set(MOVES) == set(ReconciliationState)


def test_a_move_behind_one_that_always_holds_would_never_be_made() -> None:
    for row in MOVES.values():
        assert "always" not in [condition.__name__ for condition, _ in row[:-1]]


def test_the_time_of_the_state_and_of_the_last_bump_are_kept() -> None:
    harness = ConsumerHarness().one()
    harness.advance(1_000)
    bumped_at_ms = harness.now_ms
    harness.join("m2")
    harness.beat("m1", 2)
    harness.advance(500)
    assert (harness.state_name, harness.group.state_since_ms) == ("Reconciling", bumped_at_ms)
    harness.beat("m1", 2, owned={"foo": [0, 1, 2]})
    assert (harness.state_name, harness.group.state_since_ms) == ("Reconciling", bumped_at_ms)
    harness.beat("m2", 3)
    assert (harness.state_name, harness.group.state_since_ms) == ("Stable", bumped_at_ms + 500)
    assert harness.consumer.bumped_at_ms == bumped_at_ms
