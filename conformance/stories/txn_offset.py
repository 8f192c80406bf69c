"""TxnOffsetCommit: offsets that count when a transaction does."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import every_partition, same, that
from regroup.conformance.harness.member import Member
from regroup.conformance.harness.offsets import Producer, committed_outside, fetches, stands_at
from regroup.conformance.harness.scenes import alone, awaiting_sync
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import FOO
from regroup.protocol.errors import ErrorCode as E

FOO_0, FOO_1 = (FOO, 0), (FOO, 1)


async def producing(tell: Story, name: str = "producer", *groups: str) -> Producer:
    """A producer that has announced offsets of the story's group."""
    producer = Producer(tell, name)
    await producer.begins(*groups)
    return producer


@case("txn-offset.commit-then-marker", 1)
async def transaction_commits(tell: Story) -> None:
    """Offsets of a transaction show when it commits, and not before."""
    producer = await producing(tell)
    await producer.writes_well({FOO_0: 100})
    await stands_at(tell, FOO_0, -1)
    await producer.ends(committed=True)
    await tell.until(lambda: stands_at(tell, FOO_0, 100))


@case("txn-offset.abort", 1)
async def transaction_aborts(tell: Story) -> None:
    """Offsets of a transaction that is aborted never show."""
    await committed_outside(tell, {FOO_0: 50})
    producer = await producing(tell)
    await producer.writes_well({FOO_0: 100})
    await producer.ends(committed=False)

    async def over() -> None:
        answer = await fetches(tell, [FOO_0], require_stable=True)
        same("the code", E.NONE, answer.groups[0].topics[0].partitions[0].error_code)

    await tell.until(over)
    await stands_at(tell, FOO_0, 50)


@case("txn-offset.newer-plain-commit-wins", 2)
async def plain_commit_after_the_transaction_wrote(tell: Story) -> None:
    """A plain commit after the transaction wrote, and before it committed, wins."""
    producer = await producing(tell)
    await producer.writes_well({FOO_0: 100, FOO_1: 1})
    await committed_outside(tell, {FOO_0: 200})
    await producer.ends(committed=True)
    await tell.until(lambda: stands_at(tell, FOO_1, 1))
    await stands_at(tell, FOO_0, 200)


@case("txn-offset.newer-txn-commit-wins", 2)
async def plain_commit_before_the_transaction_wrote(tell: Story) -> None:
    """A plain commit before the transaction wrote loses."""
    await committed_outside(tell, {FOO_0: 200})
    producer = await producing(tell)
    await producer.writes_well({FOO_0: 100})
    await producer.ends(committed=True)
    await tell.until(lambda: stands_at(tell, FOO_0, 100))


@case("txn-offset.marker-without-offsets", 3)
async def transaction_without_offsets(tell: Story) -> None:
    """A transaction that announced a group and wrote no offsets ends without a trace."""
    for committed in (True, False):
        producer = await producing(tell, f"producer-{committed}")
        await producer.ends(committed=committed)
    await stands_at(tell, FOO_0, -1)
    await tell.is_in("Dead")


@case("txn-offset.one-producer-several-groups", 2)
async def one_transaction_for_two_groups(tell: Story) -> None:
    """One transaction may hold offsets of several groups; they show together."""
    first, second = f"{tell.group}-1", f"{tell.group}-2"
    producer = await producing(tell, "producer", first, second)
    for group in (first, second):
        await producer.writes_well({FOO_0: 100}, group=group)
    await producer.ends(committed=True)
    for name in ("1", "2"):
        tell.turns_to_group(name)
        await tell.until(lambda: stands_at(tell, FOO_0, 100))


@case("txn-offset.several-producers-one-group", 2)
async def two_transactions_for_one_group(tell: Story) -> None:
    """Of two open transactions the one that commits shows, the other stays open."""
    one, other = await producing(tell, "one"), await producing(tell, "other")
    await one.writes_well({FOO_0: 100})
    await other.writes_well({FOO_1: 200})
    await one.ends(committed=True)
    await tell.until(lambda: stands_at(tell, FOO_0, 100))
    answer = await fetches(tell, [FOO_1], require_stable=True)
    same("foo-1", E.UNSTABLE_OFFSET_COMMIT, answer.groups[0].topics[0].partitions[0].error_code)
    await other.ends(committed=True)
    await tell.until(lambda: stands_at(tell, FOO_1, 200))


@case("txn-offset.unknown-group-no-generation", 1)
async def offsets_of_a_new_group(tell: Story) -> None:
    """Without a generation a transaction may write offsets of a group that does not exist yet."""
    producer = await producing(tell)
    every_partition(await producer.writes({FOO_0: 100}, version=3), E.NONE)
    await tell.becomes("Empty")


@case("txn-offset.unknown-group-with-generation", 2)
async def generation_of_a_group_that_is_not_there(tell: Story) -> None:
    """With a generation the group must exist."""
    producer = await producing(tell)
    answer = await producer.writes({FOO_0: 100}, generation=5, member_id="m")
    every_partition(answer, E.ILLEGAL_GENERATION)


@case("txn-offset.no-member-info-into-active-group", 1)
async def producer_that_is_no_member(tell: Story) -> None:
    """Without member id and generation a transaction writes even into a group with members."""
    await alone(tell)
    producer = await producing(tell)
    for version in range(4):
        every_partition(await producer.writes({FOO_0: 100}, version=version), E.NONE)


@case("txn-offset.unknown-member", 1)
async def producer_of_a_stranger(tell: Story) -> None:
    """Who names a member must name one of the group."""
    await alone(tell)
    producer = await producing(tell)
    answer = await producer.writes({FOO_0: 100}, generation=1, member_id="other")
    every_partition(answer, E.UNKNOWN_MEMBER_ID)


@case("txn-offset.illegal-generation", 1)
async def producer_of_another_generation(tell: Story) -> None:
    """Who names a member must name its present generation."""
    anna = await alone(tell)
    producer = await producing(tell)
    every_partition(await producer.writes({FOO_0: 100}, member=anna, generation=6), E.ILLEGAL_GENERATION)
    every_partition(await producer.writes({FOO_0: 100}, member=anna), E.NONE)


@case("txn-offset.accepted-while-completing", 2)
async def transaction_before_the_shares(tell: Story) -> None:
    """Unlike a plain commit, one in a transaction is taken before the shares are there."""
    anna, _ = await awaiting_sync(tell)
    producer = await producing(tell)
    every_partition(await producer.writes({FOO_0: 100}, member=anna), E.NONE)
    await tell.is_in("CompletingRebalance")


@case("txn-offset.fenced-static", 2)
async def producer_of_a_replaced_member(tell: Story) -> None:
    """A static member that was replaced is fenced in a transaction too."""
    anna = await alone(tell, instance="i1")
    producer = await producing(tell)
    heir = Member(tell, "anna's successor", instance="i1")
    await heir.asks_to_join()
    that(heir.id != anna.id, "the member id should be a new one")
    every_partition(await producer.writes({FOO_0: 100}, member=anna), E.FENCED_INSTANCE_ID)
    every_partition(await producer.writes({FOO_0: 100}, member=heir), E.NONE)
