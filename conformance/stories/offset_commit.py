"""OffsetCommit: who may say how far the group has come."""

from regroup.conformance.harness.cases import Need, case
from regroup.conformance.harness.expect import codes_are, every_partition, offsets_in, same
from regroup.conformance.harness.member import Member
from regroup.conformance.harness.offsets import (
    Producer,
    commits_from_outside,
    committed_outside,
    fetches,
    offset,
    stands_at,
)
from regroup.conformance.harness.scenes import alone, awaiting_sync, disturbed, stable
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import ABSENT, FOO, PARTITIONS
from regroup.protocol.errors import ErrorCode as E

FOO_0, FOO_1 = (FOO, 0), (FOO, 1)

FORGETFUL = {
    "offsets.retention.minutes": Need(at_most=1),
    "offsets.retention.check.interval.ms": Need(at_most=5000),
}
# A newcomer that must ask twice leaves an empty group behind between its two requests, and an eager clean-up takes it:
# the members of these stories are static.
EAGER = {"offsets.retention.check.interval.ms": Need(at_most=5000)}
MINUTE = 60.0


@case("offset-commit.member.stable", 1)
async def member_commits(tell: Story) -> None:
    """A member of a stable group commits, in any version that the broker speaks."""
    anna = await alone(tell)
    for version in range(2, 10):
        every_partition(await anna.commits({FOO_0: 100 + version}, version=version), E.NONE)
        await stands_at(tell, FOO_0, 100 + version)


@case("offset-commit.member.preparing", 1)
async def member_commits_before_it_joins_again(tell: Story) -> None:
    """While the next generation is prepared, members of the present one commit still."""
    _, ben, _, _ = await disturbed(tell)
    every_partition(await ben.commits({FOO_0: 100}), E.NONE)
    await stands_at(tell, FOO_0, 100)
    await tell.is_in("PreparingRebalance")


@case("offset-commit.member.completing", 1)
async def member_commits_before_the_shares(tell: Story) -> None:
    """Before the shares are there nobody has anything to commit."""
    _, ben = await awaiting_sync(tell)
    every_partition(await ben.commits({FOO_0: 100, FOO_1: 1}), E.REBALANCE_IN_PROGRESS)
    await stands_at(tell, FOO_0, -1)


@case("offset-commit.member.completing.bad-generation-first", 2)
async def old_generation_before_the_shares(tell: Story) -> None:
    """The generation is looked at before the state."""
    _, ben = await awaiting_sync(tell)
    every_partition(await ben.commits({FOO_0: 100}, generation=1), E.ILLEGAL_GENERATION)


@case("offset-commit.unknown-member", 1)
async def stranger_commits(tell: Story) -> None:
    """A stranger commits nothing."""
    anna = await alone(tell)
    every_partition(await anna.commits({FOO_0: 100, FOO_1: 1}, member_id="other"), E.UNKNOWN_MEMBER_ID)


@case("offset-commit.illegal-generation", 1)
async def another_generation_commits(tell: Story) -> None:
    """A commit of another generation, older or newer, is refused."""
    anna = await alone(tell)
    for generation in (0, 7):
        every_partition(await anna.commits({FOO_0: 100}, generation=generation), E.ILLEGAL_GENERATION)


@case("offset-commit.known-member-generation-minus-one", 2)
async def member_without_a_generation(tell: Story) -> None:
    """Who gives its member id commits as a member, and needs its generation."""
    anna = await alone(tell)
    every_partition(await anna.commits({FOO_0: 100}, generation=-1), E.ILLEGAL_GENERATION)


@case("offset-commit.admin-into-non-empty-group", 1)
async def outsider_commits_into_a_group(tell: Story) -> None:
    """From outside one commits into empty groups only."""
    await alone(tell)
    every_partition(await commits_from_outside(tell, {FOO_0: 100}), E.UNKNOWN_MEMBER_ID)
    await stands_at(tell, FOO_0, -1)


@case("offset-commit.unknown-group-with-generation.v9", 1)
async def generation_of_no_group(tell: Story) -> None:
    """Who names a generation of a group that does not exist is told so; versions before 9 know a lesser word."""
    for version in (9, 8, 2):
        stranger = Member(tell, "stranger")
        answer = await stranger.commits({FOO_0: 100}, generation=3, member_id="m", version=version)
        every_partition(answer, E.GROUP_ID_NOT_FOUND if version >= 9 else E.ILLEGAL_GENERATION)


@case("offset-commit.fenced-static", 1)
async def wrong_id_behind_an_instance_commits(tell: Story) -> None:
    """A commit with an instance id and another member id than its own is fenced."""
    anna, _ = await stable(tell, static=True)
    for version in range(7, 10):
        answer = await anna.commits({FOO_0: 100}, member_id="wrong", version=version)
        every_partition(answer, E.FENCED_INSTANCE_ID)


@case("offset-commit.unknown-instance", 2)
async def unknown_instance_commits(tell: Story) -> None:
    """A commit with a known member id and an unknown instance id is refused."""
    anna, _ = await stable(tell, static=True)
    anna.instance = "nope"
    every_partition(await anna.commits({FOO_0: 100}), E.UNKNOWN_MEMBER_ID)


@case("offset-commit.instance-id-without-member-id", 3)
async def instance_without_member_id_commits(tell: Story) -> None:
    """A commit with an instance id and no member id is fenced."""
    anna, _ = await stable(tell, static=True)
    every_partition(await anna.commits({FOO_0: 100}, member_id="", generation=-1), E.FENCED_INSTANCE_ID)


@case("offset-commit.metadata-too-large", 1)
async def metadata_that_is_too_long(tell: Story) -> None:
    """Metadata up to the limit are stored; one character more, and that partition alone is refused."""
    longest = tell.target.number("offset.metadata.max.bytes") or 4096
    anna = await alone(tell)
    words = {FOO_0: "x" * (longest + 1), FOO_1: "x" * longest}
    answer = await anna.commits({FOO_0: 1, FOO_1: 2}, metadata=words)
    codes_are(answer, {FOO_0: E.OFFSET_METADATA_TOO_LARGE, FOO_1: E.NONE})
    found = offsets_in(await fetches(tell, [FOO_0, FOO_1]))
    same("the offsets", {FOO_0: offset(-1), FOO_1: offset(2, metadata=words[FOO_1])}, found)


@case("offset-commit.leader-epoch", 2)
async def leader_epoch_is_kept(tell: Story) -> None:
    """The leader epoch is kept since v6 and told since v5 of OffsetFetch; -1 means none."""
    anna = await alone(tell)
    for version in range(6, 10):
        every_partition(await anna.commits({FOO_0: 1}, leader_epoch=5, version=version), E.NONE)
        same("the offset", {FOO_0: offset(1, leader_epoch=5)}, offsets_in(await fetches(tell, [FOO_0])))
    every_partition(await anna.commits({FOO_0: 1}, version=5), E.NONE)
    same("the offset", {FOO_0: offset(1)}, offsets_in(await fetches(tell, [FOO_0])))


@case("offset-commit.unknown-topic", 1)
async def topics_that_are_not_there(tell: Story) -> None:
    """Partitions that do not exist are refused, the others are stored."""
    anna = await alone(tell)
    answer = await anna.commits({(ABSENT, 0): 1, (FOO, PARTITIONS): 1, FOO_0: 1})
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    codes_are(answer, {(ABSENT, 0): unknown, (FOO, PARTITIONS): unknown, FOO_0: E.NONE})


@case("offset-commit.nothing-left-skips-coordinator", 2)
async def nothing_to_commit(tell: Story) -> None:
    """When no partition exists, nobody asks who commits."""
    anna = await alone(tell)
    answer = await anna.commits({(ABSENT, 0): 1}, member_id="bogus", generation=99)
    codes_are(answer, {(ABSENT, 0): E.UNKNOWN_TOPIC_OR_PARTITION})
    codes_are(await anna.commits({}, member_id="bogus", generation=99), {})


@case("offset-commit.negative-offset", 3)
async def negative_offset(tell: Story) -> None:
    """Offsets are not looked at; a negative one is stored like any other."""
    anna = await alone(tell)
    every_partition(await anna.commits({FOO_0: -1}), E.NONE)
    every_partition(await anna.commits({FOO_1: -7}), E.NONE)
    await stands_at(tell, FOO_1, -7)


@case("offset-commit.retention-v2-v4", 2)
async def commits_with_a_retention_time(tell: Story) -> None:
    """Up to v4 a commit may say how long it wants to be kept, and it is stored."""
    from_outside = Member(tell, "somebody")
    for version in range(2, 5):
        answer = await from_outside.commits({FOO_0: version}, retention_time_ms=600_000, version=version)
        every_partition(answer, E.NONE)
        await stands_at(tell, FOO_0, version)


@case("offset-commit.last-write-wins", 1)
async def going_back(tell: Story) -> None:
    """Going back is allowed: the last commit counts."""
    await committed_outside(tell, {FOO_0: 100})
    await committed_outside(tell, {FOO_0: 40})
    await stands_at(tell, FOO_0, 40)


@case("offset-commit.expiry.empty-group", 1, needs=FORGETFUL, seconds=150)
async def empty_group_is_forgotten(tell: Story) -> None:
    """The retention time of a group that had members begins when the last one goes, not with the commit."""
    anna = await alone(tell, instance="i-anna")
    every_partition(await anna.commits({FOO_0: 1}), E.NONE)
    await beats_for(tell, anna, MINUTE / 2)
    await anna.leaves()
    await tell.passes(MINUTE * 0.7)
    await stands_at(tell, FOO_0, 1)
    await tell.until(lambda: stands_at(tell, FOO_0, -1), within=MINUTE)
    await tell.becomes("Dead")


@case("offset-commit.expiry.simple-group", 1, needs=FORGETFUL, seconds=150)
async def simple_group_is_forgotten(tell: Story) -> None:
    """In a group without members each offset has its own time."""
    await committed_outside(tell, {FOO_0: 1})
    await tell.passes(MINUTE / 2)
    await committed_outside(tell, {FOO_1: 2})
    await tell.until(lambda: stands_at(tell, FOO_0, -1), within=MINUTE)
    await stands_at(tell, FOO_1, 2)
    await tell.is_in("Empty")
    await tell.becomes("Dead", within=MINUTE)


@case("offset-commit.expiry.not-while-rebalancing", 2, needs=FORGETFUL, seconds=150)
async def rebalancing_group_forgets_nothing(tell: Story) -> None:
    """While a group rebalances nothing is forgotten."""
    anna = await alone(tell, instance="i-anna", rebalance_timeout_ms=300_000, session_timeout_ms=300_000)
    every_partition(await anna.commits({FOO_0: 1}), E.NONE)
    await Member(tell, "ben").knocks()
    await tell.passes(MINUTE * 1.2)
    await stands_at(tell, FOO_0, 1)
    await tell.is_in("PreparingRebalance")


@case("offset-commit.expiry.pending-txn-blocks", 2, needs=FORGETFUL, seconds=150)
async def open_transaction_keeps_the_offset(tell: Story) -> None:
    """An offset that an open transaction is about to replace is not forgotten."""
    await committed_outside(tell, {FOO_0: 1, FOO_1: 1})
    producer = Producer(tell, "producer", timeout_ms=300_000)
    await producer.begins()
    await producer.writes_well({FOO_0: 2})
    await tell.until(lambda: stands_at(tell, FOO_1, -1), within=1.5 * MINUTE)
    await tell.passes(5)
    await stands_at(tell, FOO_0, 1)
    await tell.is_in("Empty")


@case("offset-commit.expiry.empty-group-without-offsets", 1, needs=EAGER)
async def empty_group_without_offsets(tell: Story) -> None:
    """An empty group without offsets is gone at the next clean-up: retention protects offsets, not groups."""
    anna = await alone(tell, instance="i-anna")
    await anna.leaves()
    await tell.becomes("Dead", within=30)


async def beats_for(tell: Story, member: Member, seconds: float) -> None:
    """The member stays alive for so long."""
    until = tell.now() + seconds
    while tell.now() < until:
        await member.beats()
        await tell.passes(1)
