"""What is said of groups of the consumer protocol: why an epoch rose, who had to give up what, and how it ended."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from regroup.coordinator import commands as c
from regroup.coordinator.commands import DeadlineKind
from regroup.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from regroup.server.explanation.explain import explain_event, explain_group, explain_member
from regroup.server.explanation.history import KnownHistory, read_known_history
from regroup.storage.memory import MemoryStore
from tests.server.apis.test_consumer_groups import Harness, running

AT = "at 22:13:20.000"


class Ended:
    """The history of a group, once its emulator has ended."""

    history: KnownHistory

    @property
    def last(self) -> list[str]:
        """The explanation of the last reconciliation."""
        return [str(each) for each in explain_group(self.history)]

    def member(self, name: str) -> list[str]:
        return [str(each) for each in explain_member(self.history, name)]

    def last_event(self, name: str) -> str:
        """The explanation of the last event of this class."""
        position = next(
            each.position for each in reversed(self.history.happenings) if type(each.event).__name__ == name
        )
        return str(explain_event(self.history, position)[0])


@asynccontextmanager
async def group_that_ends(ended: Ended) -> AsyncIterator[Harness]:
    store = MemoryStore()
    async with running(store) as group:
        yield group
    async with await store.open() as opened:
        ended.history = await read_known_history(opened, "g")


async def revoking(group: Harness) -> None:
    """m2 has joined, and m1 is asked to give up foo 3-5."""
    await group.join("m1")
    await group.join("m2")
    await group.beat("m1", 2)


async def test_a_reconciliation_is_explained_from_its_cause_to_its_end() -> None:
    ended = Ended()
    async with group_that_ends(ended) as group:
        await revoking(group)
        await group.beat("m1", 2, topic_partitions=group.owned("foo", 0, 1, 2))
        await group.beat("m2", 3)
    bump, target, asked, end = ended.last
    joined = f"because member m2 joined {AT}, because ConsumerGroupHeartbeat of test came"
    assert bump == f"The group epoch rose to 3 {AT}, {joined}."
    assert target.startswith(
        f"The coordinator computed the target of epoch 3 with uniform {AT}, because the group epoch"
    )
    assert asked == (
        f"Member m1 was asked to give up foo 3-5 {AT}, and stays at epoch 2, because the target of epoch 3 has them "
        "for member m2; it is removed unless it does so until 22:14:20.000."
    )
    assert end == (
        f"Every member had reached the target {AT}, 0 ms after the group epoch rose, because member m2 was the last to "
        "reach it."
    )
    assert ended.last_event("MemberReconciled").startswith(f"Member m2 reached epoch 3 with foo 3-5 {AT}")


async def test_what_a_reconciliation_waits_for_is_named() -> None:
    ended = Ended()
    async with group_that_ends(ended) as group:
        await revoking(group)
    assert ended.last[-1] == (
        "At the end of the history the reconciliation is still running, because member m1 has yet to give up foo 3-5, "
        "and because member m2 waits for partitions that others have."
    )
    assert ended.member("m1")[0].startswith("Member m1 was asked to give up foo 3-5")


async def test_a_member_that_gives_nothing_up_is_removed_for_what_it_was_asked() -> None:
    ended = Ended()
    async with group_that_ends(ended) as group:
        await revoking(group)
        now_ms = group.cluster.state.now_ms()
        group.cluster.coordinator_of("g").submit(
            c.DeadlinePassed(
                group_id="g", at_ms=now_ms, kind=DeadlineKind.REVOCATION, member_id="m1",
                topics=group.cluster.state.topics_image,
            )
        )  # fmt: skip
    removed = (
        f"member m1 was removed {AT}, because it did not give up its partitions within the rebalance timeout, because "
        f"it was asked to give up partitions {AT}"
    )
    assert ended.member("m1")[0] == f"{removed[0].upper()}{removed[1:]}."
    assert ended.last[0] == f"The group epoch rose to 4 {AT}, because {removed}."


async def test_a_topic_that_grows_and_a_subscription_that_changes_are_causes() -> None:
    ended = Ended()
    async with group_that_ends(ended) as group:
        await group.join("m1")
        await group.call(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="foo", count=7)], timeout_ms=1))
        await group.beat("m1", 2)
        await group.beat("m1", 3, subscribed_topic_names=["foo", "bar"])
    rose = [
        str(explain_event(ended.history, each.position)[0])
        for each in ended.history.happenings
        if type(each.event).__name__ == "GroupEpochBumped"
    ]
    assert f"because topic foo had got 7 partitions {AT}" in rose[1]
    assert f"because member test changed its subscription from foo to bar and foo {AT}" in rose[2]


async def test_a_static_member_goes_away_and_returns() -> None:
    ended = Ended()
    async with group_that_ends(ended) as group:
        await group.join("m1", instance_id="i1")
        await group.beat("m1", -2, instance_id="i1")
        await group.join("m2", instance_id="i1")
    assert ended.last_event("StaticMemberAway").startswith(
        f"Member m1 went away {AT}, because it sent ConsumerGroupHeartbeat with the member epoch -2; as a static member"
    )
    returned = ended.last_event("StaticConsumerReplaced")
    assert returned.startswith(f"Instance i1 got a new process, member m2, {AT}, because ConsumerGroupHeartbeat of")
    assert returned.endswith("the id of member m1 is fenced since then.")


async def test_the_last_member_leaves_an_empty_group_and_an_empty_target() -> None:
    ended = Ended()
    async with group_that_ends(ended) as group:
        await group.join("m1")
        await group.beat("m1", -1)
    assert ended.last[1:] == [
        f"The target of epoch 3 was empty {AT}, because no member remained.",
        f"The group was Empty {AT}.",
    ]
