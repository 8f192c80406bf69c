"""A few of the scenarios once more, in Python: for whoever wants loops and arguments in a story.

outcome = play(rolling_restart(["anna", "ben", "carla"], are_static=True))
"""

from collections.abc import Sequence

from regroup.lab.story import Story, story


@story("The leader crashes between the answer to her JoinGroup and her SyncGroup")
def leader_crashes_between_join_and_sync(tell: Story) -> None:
    tell.topic("orders", partitions=4)
    for name in ("anna", "ben", "carla"):
        tell.member(name, session_timeout_ms="20s")
    tell.at("0s").member("anna").joins()
    tell.at("1s").member("ben").joins()
    tell.at("1s").member("carla").joins()
    tell.after("anna is elected leader").member("anna").crashes()
    tell.at("20s").group().is_in_generation(1)
    tell.at("25s").group().is_stable(with_=["ben", "carla"], within="10s")
    tell.at("40s").member("anna").was_expelled()
    tell.at("40s").member("ben").has_seen("REBALANCE_IN_PROGRESS")
    tell.ends(faults_at="45s")


@story("Everybody is restarted, one after the other")
def rolling_restart(tell: Story, names: Sequence[str], *, are_static: bool) -> None:
    tell.topic("orders", partitions=6)
    for name in names:
        tell.member(name, instance_id=f"{name}-1" if are_static else None)
        tell.at("0s").member(name).joins()
    for number, name in enumerate(names, start=1):
        tell.at(f"{number * 20}s").member(name).leaves()
        tell.at(f"{number * 20 + 10}s").member(name).joins()
    end_s = len(names) * 20 + 25
    tell.at(f"{end_s}s").group().is_stable(with_=names, within="10s")
    tell.at(f"{end_s + 15}s").run().expelled_nobody()
    if are_static:
        tell.at(f"{end_s + 15}s").run().rebalanced_at_most(1)
    else:
        tell.at(f"{end_s + 15}s").run().rebalanced_at_least(1 + 2 * len(names))
    tell.ends(faults_at=f"{end_s + 20}s")


@story("The coordinator's disk is full while a newcomer asks for her place")
def disk_full(tell: Story, *, for_: str = "20s") -> None:
    tell.topic("orders", partitions=6)
    tell.members("anna", "ben", join_at="0s")
    tell.member("carla")
    tell.at("20s").disk().is_full(for_=for_)
    tell.at("20s").member("carla").joins()
    tell.at("45s").group().is_stable(with_=["anna", "ben", "carla"], within="30s")
    tell.at("80s").run().expelled_nobody()
    tell.ends(faults_at="85s")


@story("Ben falls silent while the group is rebalancing, and the others go on without him")
def ben_falls_silent(tell: Story) -> None:
    tell.topic("orders", partitions=4)
    tell.members("anna", "ben", join_at="0s", session_timeout_ms="10s", max_poll_interval_ms="30s")
    tell.member("carla", session_timeout_ms="10s")
    tell.at("20s").member("carla").joins()
    tell.after("generation 1 begins", delay="17s").member("ben").pauses("46s")
    tell.at("35s").group().is_stable(with_=["anna", "carla"], within="25s")
    tell.at("64s").member("ben").was_expelled()
    tell.at("75s").group().is_stable(with_=["anna", "ben", "carla"], within="30s")
    tell.ends(faults_at="110s")
