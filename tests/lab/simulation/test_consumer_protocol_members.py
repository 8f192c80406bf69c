"""Members of the consumer protocol in the lab: beside members of the classic one, with the faults they can have."""

import pytest

from regroup.lab.plan.yaml_format import InvalidScenario, read_plan
from regroup.lab.simulation.run import RunOutcome, play
from regroup.lab.simulation.timeline import MemberReport, Timeline
from regroup.lab.simulation.virtual_clock import START_MS
from regroup.members.consumer.effects import PartitionsAssigned, PartitionsLost, PartitionsRevoked

SCENARIO = """\
scenario: Members of the consumer protocol
seed: 4
topics: {{orders: 6}}
members:
  anna: {{protocol: consumer{faults}}}
  ben: {{protocol: consumer}}
  carla: {{group: classic}}
steps:
  - at 0s: [anna joins, carla joins]
  - at 1s: ben joins
  - {steps}
faults end at: 120s
"""
CHANGES = (PartitionsAssigned, PartitionsRevoked, PartitionsLost)


def played(steps: str, faults: str = "") -> tuple[RunOutcome, dict[str, list[tuple[int, set[int]]]]]:
    """The outcome, and by member its partitions after each change, with the time in seconds."""
    timeline = Timeline()
    outcome = play(read_plan(SCENARIO.format(steps=steps, faults=faults)), timeline=timeline)
    owned: dict[str, list[tuple[int, set[int]]]] = {}
    for at_ms, item in timeline.entries:
        if isinstance(item, MemberReport) and isinstance(item.what, CHANGES):
            owned.setdefault(item.name, []).append((at_ms // 1000, {each.partition for each in item.owned}))
    return outcome, owned


def test_a_group_of_each_protocol_runs_in_one_cluster() -> None:
    outcome, owned = played("at 30s: ben leaves")
    assert not outcome.failed
    assert [{*range(6)}, {*range(3)}, {*range(6)}] == [shares for _, shares in owned["anna"]]
    assert [(6, {3, 4, 5}), (30, set())] == owned["ben"]
    assert owned["carla"][-1][1] == {*range(6)}


def test_a_crashed_member_is_removed_when_its_session_ends() -> None:
    outcome, owned = played("at 30s: ben crashes")
    assert not outcome.failed
    assert any(each.type == "member-removed" for each in outcome.records)
    at_s, shares = owned["anna"][-1]
    assert shares == {*range(6)}
    assert 70 <= at_s < 85, "45 s after ben's last heartbeat, and with anna's next one"


def test_a_paused_member_is_fenced_and_joins_again() -> None:
    outcome, owned = played("at 30s: ben pauses for 60s")
    assert not outcome.failed
    assert (90, set()) in owned["ben"]
    assert owned["ben"][-1][1] | owned["anna"][-1][1] == {*range(6)}
    assert not owned["ben"][-1][1] & owned["anna"][-1][1]


def test_a_member_outside_poll_is_waited_for_by_those_alone_who_get_its_partitions() -> None:
    """Its heartbeats go on, so it stays a member; what it is assigned meanwhile replaces its first assignment."""
    outcome, owned = played("at 100s: carla leaves", ', faults: ["slow-join:60s"]')
    assert owned["anna"] == [(60, {0, 1, 2})]
    assert owned["ben"] == [(61, {3, 4, 5})]
    assert owned["carla"][0][0] < 10
    removed_ms = [each.at_ms - START_MS for each in outcome.records if each.type == "member-removed"]
    assert all(each > 120_000 for each in removed_ms), "the lab stops members with lasting faults at the end"


def test_expectations_see_the_state_and_the_members_of_either_protocol() -> None:
    sound = "at 90s: [the group is Stable with anna, group classic is Stable with carla, anna leaves]"
    outcome, _ = played(f"at 30s: ben leaves\n  - {sound}\n  - at 100s: the group is Empty")
    assert not outcome.failed
    failed, _ = played("at 30s: ben leaves\n  - at 90s: the group is Stable with anna and ben")
    assert [each.found for each in failed.expectations] == ["the members of the group are anna"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("protocol: new", "unknown protocol: 'new'; write classic or consumer"),
        ("protocol: consumer, instance id: a", "cannot be static in a simulation"),
        ("protocol: consumer, faults: [zombie@9s]", "its faults can be crash, pause, leave, slow-join; not zombie@9s"),
    ],
)
def test_what_such_a_member_cannot_do_is_refused(option: str, message: str) -> None:
    with pytest.raises(InvalidScenario, match=message):
        read_plan(f"scenario: x\nmembers: {{anna: {{{option}}}}}\nsteps: [at 0s: anna joins]\n")
