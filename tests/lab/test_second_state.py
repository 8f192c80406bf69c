"""The second state: folded from the rows' own bytes, and the same as the live groups."""

from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.group import Protocol
from regroup.coordinator.serialization import written
from regroup.lab.checker import coordinator_invariants as of
from regroup.lab.checker.shadow_state import SecondState, as_record
from regroup.storage.records import NewRecord
from tests.coordinator.anything import Player, moves_by_chance
from tests.lab.court import Court, turns

COMPARED = (of.the_stored_rows_add_up_to_the_live_group.__doc__ or "").strip()


def rows_of(history: list[e.Event], group: str = "g") -> list[NewRecord]:
    return [written(group, number, 1, event, None) for number, event in enumerate(history, 1)]


@pytest.mark.parametrize("seed", range(8))
def test_the_rows_of_any_history_add_up_to_the_group_that_made_them(seed: int) -> None:
    player, second, chance = Player(), SecondState(), Random(seed)
    for move in moves_by_chance(seed, 60):
        player.play(move)
    rows = rows_of(player.history)
    while rows:
        batch, rows = rows[: (count := chance.randint(1, 9))], rows[count:]
        second.stored(batch, second.position + len(batch))

    assert second.group("g") == player.group
    assert second.position == len(player.history)
    assert list(second.differs_from(as_record(row, n) for n, row in enumerate(rows_of(player.history), 1))) == []


def test_rows_of_the_cluster_count_as_positions_and_belong_to_no_group() -> None:
    second = SecondState()
    cluster = NewRecord(None, 1, 1, 0, "topic-created", 1, b"{}", None)
    created = written("g", 1, 1, e.GroupCreated(at_ms=1, by_join=True), None)
    assert second.stored([cluster, created], 2) == []
    assert (second.position, list(second.groups)) == (2, ["g"])


def test_a_row_that_cannot_be_folded_is_a_fault_at_its_position() -> None:
    second = SecondState()
    left = written("g", 1, 1, e.MemberLeft(at_ms=1, member="zoe"), None)
    [fault] = second.stored([left], 1)
    assert fault.position == 1
    assert "cannot be folded" in fault.sentence


def test_a_fold_from_the_start_names_the_group_that_comes_out_otherwise() -> None:
    second = SecondState()
    given = e.MemberIdGiven(at_ms=1, member="anna", client_id="c", session_timeout_ms=1)
    rows = rows_of([e.GroupCreated(at_ms=1, by_join=True), given])
    second.stored(rows, 2)
    tampered = replace(rows[1], payload=rows[1].payload.replace(b"anna", b"ben"))
    assert list(second.differs_from([as_record(rows[0], 1), as_record(tampered, 2)])) == ["g"]


async def test_the_second_state_is_the_live_one_after_every_step_of_a_usual_life() -> None:
    court = Court()
    await court.stable("anna", "ben")
    for step in (lambda: court.commit_as("anna", 4), lambda: court.leave("ben"), lambda: court.join(member_id="anna")):
        step()
        await turns()
        assert court.judge.known.second.group("payments") == court.group
    assert court.broken() == set()


async def test_an_event_that_is_written_otherwise_than_it_was_folded_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets_protocols(group: str, number: int, reign: int, event: e.Event, cause: bytes | None) -> NewRecord:
        if isinstance(event, e.MemberJoined):
            event = replace(event, protocols=(Protocol("range", b"lost"),))
        return written(group, number, reign, event, cause)

    monkeypatch.setattr("regroup.coordinator.runtime.group_coordinator.written", forgets_protocols)
    court = Court()
    await court.joined("anna")
    assert COMPARED in court.broken()


def test_the_second_state_reads_the_payload_and_not_the_event() -> None:
    second = SecondState()
    created = written("g", 1, 1, e.GroupCreated(at_ms=1, by_join=True), None)
    second.stored([replace(created, payload=msgspec.json.encode({"at_ms": 1, "by_join": False}))], 1)
    assert second.group("g").stored is None
