"""Session deadlines derived from recorded exchanges, against the coordinator's own and against real expiries."""

import asyncio
from typing import Any

import pytest

from regroup.classroom.reading import read_events, read_timelines
from regroup.classroom.recorded.session_clocks import SessionClocks
from regroup.classroom.recorded_values import Recorded
from regroup.classroom.timeline import GroupTimeline
from regroup.coordinator import events as e
from regroup.coordinator.classic.deadlines import member_deadline
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.serialization import encode_snapshot
from regroup.lab.plan.scenario_files import scenario
from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.simulation.run import play
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.storage.memory import MemoryStore
from regroup.storage.sqlite.threaded import open_store
from regroup.storage.store import append_history
from regroup.testing import Emulator
from tests.classroom.recorded.recordings import recorded, recorded_run, timeline
from tests.lab.classic_plans import draw_classic_plan
from tests.testing.conftest import stable_pair

RUNS = ("slow-member-delays-the-rebalance", "partition-of-one-member", "zombie-commits-after-removal")
MAX_LATE_MS = 4
"""The timers of the coordinator handle one deadline at a time."""
CLOCK_IS_SET_BACK = """\
scenario: The clock is set back while the brokers are down
topics: {orders: 2}
members: {anna: {session timeout: 10s}, ben: {session timeout: 10s}}
steps:
  - at 0s: [anna joins, ben joins]
  - at 40s: [the brokers crash for 1s, ben crashes]
  - at 40.2s: the clock jumps back by 30s
faults end at: 60s
"""
"""The first process got heartbeats of ben at the times at which the second one waits for them."""
EXPIRIES = ("session", "new-member-join")


@pytest.mark.quick("[slow-member-delays-the-rebalance]", "[partition-of-one-member]")
@pytest.mark.parametrize("what", RUNS)
def test_a_removal_by_session_timeout_is_at_its_derived_deadline(what: str) -> None:
    late_ms = check_expiries(timeline(what))
    assert late_ms
    assert max(late_ms) <= MAX_LATE_MS


def test_heartbeats_of_a_former_process_count_for_nothing_if_the_clock_was_set_back_since() -> None:
    plan = read_plan(CLOCK_IS_SET_BACK)
    history = asyncio.run(read_timelines(recorded(plan), ["lab"]))["lab"]
    assert check_expiries(history) == [0]


@pytest.mark.slow
def test_removals_in_many_drawn_runs_are_at_their_derived_deadlines() -> None:
    late_ms = [each for seed in range(100, 130) for each in check_expiries(timeline(seed))]
    assert len(late_ms) > 25
    assert max(late_ms) <= MAX_LATE_MS


def check_expiries(history: GroupTimeline) -> list[int]:
    """Compare each removal by a deadline of its member with the deadline just before; returns how much later each was,
    in milliseconds. It is far later if the clock of the host jumps."""
    clocks, late_ms = SessionClocks(history), []
    for moment in history.moments:
        event, cause = moment.event, moment.cause
        if not isinstance(event, e.MemberRemoved) or cause is None or cause.deadline not in EXPIRIES:
            continue
        before = clocks.at(moment.position - 1, moment.at_ms)
        (deadline,) = [each for each in before.deadlines if each.member_id == event.member_id]
        assert event.last_seen_ms is not None
        assert event.timeout_ms is not None
        assert (deadline.kind, deadline.uncertain_ms) == (cause.deadline, 0)
        assert deadline.at_ms == event.last_seen_ms + event.timeout_ms
        late_ms.append(moment.at_ms - deadline.at_ms)
    assert min(late_ms, default=0) >= 0
    return late_ms


class CoordinatorLog:
    """The member deadlines of the coordinator itself, after each command that led to events."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_position: dict[int, tuple[int, dict[str, int]]] = {}
        submit = GroupCoordinator._submit

        def follow(coordinator: GroupCoordinator, command: Any, on_response: Any, cause: Any) -> None:
            before = coordinator._positions.get(command.group_id)
            submit(coordinator, command, on_response, cause)
            after = coordinator._positions.get(command.group_id)
            if command.group_id == "lab" and after is not None and after != before:
                self.by_position[after] = (command.at_ms, dict(self._deadlines(coordinator)))

        monkeypatch.setattr(GroupCoordinator, "_submit", follow)

    @staticmethod
    def _deadlines(coordinator: GroupCoordinator) -> list[tuple[str, int]]:
        group, seen = coordinator.group("lab"), coordinator._last_seen_ms.get("lab", {})
        found = (member_deadline(each, seen.get(each.member_id, group.loaded_at_ms)) for each in group.members.values())
        return [(each.member_id, each.at_ms) for each in found if each is not None]


@pytest.mark.quick("[coordinator-crashes-mid-rebalance]", "[2]")
@pytest.mark.parametrize("what", ["coordinator-crashes-mid-rebalance", "rolling-restart-static", 2, 3, 9])
def test_the_deadlines_at_every_event_are_those_of_the_coordinator(
    what: str | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, store = CoordinatorLog(monkeypatch), MemoryStore()
    plan = scenario(what) if isinstance(what, str) else draw_classic_plan(what)
    play(plan, check_invariants=False, open_store=store.open, record=True)
    history = asyncio.run(read_timelines(store, ["lab"]))["lab"]
    clocks, compared = SessionClocks(history), 0
    for position, (at_ms, deadlines) in log.by_position.items():
        moment = history.moment_at(position)
        if moment is None or moment.point != (position, at_ms):
            continue  # a crash has lost the event, and its position went to another one
        # Whether a heartbeat of the same millisecond came before the event or after it is not recorded.
        after, before = clocks.at(position, at_ms), clocks.at(position, at_ms - 1)
        found = [{each.member_id: each.at_ms for each in one.deadlines} for one in (after, before)]
        assert [each.keys() for each in found] == [deadlines.keys()] * 2
        assert all(deadlines[each] in (found[0][each], found[1][each]) for each in deadlines)
        assert after.not_recorded == ()
        compared += len(deadlines)
    assert compared > 10


def test_without_recorded_exchanges_no_deadline_is_given() -> None:
    history = asyncio.run(read_events(recorded_run("first-join"), ["lab"]))["lab"]
    assert history.recorded == Recorded()
    found = SessionClocks(history).at(history.last.position)
    assert (found.deadlines, set(found.not_recorded)) == ((), set(history.moments[-1].members))


def test_what_was_recorded_before_a_trimmed_history_begins_is_left_out() -> None:
    whole = timeline("slow-member-delays-the-rebalance")
    sound = recorded_run("slow-member-delays-the-rebalance")

    async def trimmed() -> GroupTimeline:
        copy = MemoryStore()
        records = [record async for record in sound.read()]
        await append_history(copy, records)
        groups = await load_groups(copy, until=20)
        snapshot = encode_snapshot(
            groups["lab"], position=max(r.position for r in records[:20] if r.group), coordinator_epoch=1
        )
        await copy.save_snapshots(20, [snapshot])
        await copy.trim(before=21)
        async for block in sound.read_exchanges():
            await copy.append_exchanges(block, max_bytes=1 << 30)
        async for block in sound.read_observations():
            await copy.append_observations(block, max_bytes=1 << 30)
        return (await read_timelines(copy, ["lab"]))["lab"]

    rest = asyncio.run(trimmed())
    began_ms = rest.began.at_ms
    assert rest.is_trimmed
    assert 0 < len(rest.exchanges) < len(whole.exchanges)
    assert all(each.ended_at_ms >= began_ms for each in rest.exchanges if each.answered_at_ms is not None)
    assert rest.views
    assert all(each.ended is None or each.ended.at_ms >= began_ms for each in rest.views)
    clocks, all_clocks = SessionClocks(rest), SessionClocks(whole)
    first = clocks.at(rest.moments[0].position)
    assert first.not_recorded, "the event that started these session timeouts is trimmed"
    last = rest.last.position
    assert clocks.at(last) == all_clocks.at(last)
    for moment in rest.moments:
        known = {each.member_id: each for each in all_clocks.at(moment.position).deadlines}
        assert all(known[each.member_id] == each for each in clocks.at(moment.position).deadlines)


def test_a_member_with_a_held_request_has_no_deadline() -> None:
    history = timeline("slow-member-delays-the-rebalance")
    clocks = SessionClocks(history)
    held = next(each for each in history.held_requests if each.began.position > 25 and each.ended)
    assert held.member_id not in {each.member_id for each in clocks.at(held.began.position).deadlines}


def test_a_deadline_moves_with_each_heartbeat_between_two_events() -> None:
    history = timeline("first-join")
    clocks, last = SessionClocks(history), history.last.position
    run = next(each for each in history.exchanges if each.api == "Heartbeat" and each.count > 2)
    timeout_ms = next(each.session_timeout_ms for each in history.lanes if each.member_id == run.member_id)
    for seen_ms in run.seen_ms[1:]:
        after = {each.member_id: each for each in clocks.at(last, seen_ms).deadlines}
        assert after[run.member_id].at_ms == seen_ms + timeout_ms
        assert after[run.member_id].kind is DeadlineKind.SESSION


def test_inside_of_a_run_of_which_two_times_are_known_the_deadline_is_uncertain(tmp_path: Any) -> None:
    with Emulator(topics={"orders": 2}, clock="manual") as kafka:
        first, second = stable_pair(kafka)
        for _ in range(4):
            kafka.advance(2)
            first.heartbeat()
            second.heartbeat()
        kafka.save(tmp_path / "history.db", exchanges=True)

    async def read() -> SessionClocks:
        async with await open_store(tmp_path / "history.db", read_only=True) as store:
            return SessionClocks((await read_timelines(store, ["billing"]))["billing"])

    clocks = asyncio.run(read())
    history = clocks._timeline
    run = next(each for each in history.exchanges if each.api == "Heartbeat" and each.count == 4)
    began_ms, last = run.at_ms, history.last.position
    assert run.seen_ms == (began_ms, began_ms + 6_000)
    found = {
        after_ms: next(
            each for each in clocks.at(last, began_ms + after_ms).deadlines if each.member_id == run.member_id
        )
        for after_ms in (0, 3_000, 6_000)
    }
    assert {after_ms: (each.at_ms - began_ms, each.uncertain_ms) for after_ms, each in found.items()} == {
        0: (9_000, 0),
        3_000: (9_000, 3_000),
        6_000: (15_000, 0),
    }


def test_a_heartbeat_that_a_rule_answers_with_an_error_starts_no_timeout(tmp_path: Any) -> None:
    with Emulator(topics={"orders": 2}, clock="manual") as kafka:
        first, _ = stable_pair(kafka)
        kafka.advance(2)
        with kafka.fault(on="Heartbeat", drop="request") as rule:
            first.connection.post(HeartbeatRequest(group_id="billing", generation_id=2, member_id=first.member_id), 3)
            rule.wait_hits()
        kafka.save(tmp_path / "history.db", exchanges=True)

    async def read() -> SessionClocks:
        async with await open_store(tmp_path / "history.db", read_only=True) as store:
            return SessionClocks((await read_timelines(store, ["billing"]))["billing"])

    clocks = asyncio.run(read())
    last = clocks._timeline.last
    assert [(each.at_ms - last.at_ms, each.uncertain_ms) for each in clocks.at(last.position).deadlines] == [
        (9_000, 0),
        (9_000, 0),
    ]
    later = clocks.at(last.position, last.at_ms + 2_000).deadlines
    assert [(each.at_ms - last.at_ms, each.uncertain_ms) for each in later] == [(9_000, 0), (9_000, 0)]
