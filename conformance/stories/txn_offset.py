"""Stories about TxnOffsetCommit: offsets that are committed with a transaction (KIP-98, KIP-447)."""

from regroup.conformance.harness.broker_under_test import FOO_0, FOO_1
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import PartitionKey, expect_error, expect_every_partition, fetched_offsets
from regroup.conformance.harness.groups import completing_group, stable_group_of_one
from regroup.conformance.harness.member import expect_member_id
from regroup.conformance.harness.offsets import TransactionalProducer, admin_commit, expect_committed, fetch_offsets
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E


async def expect_stable_error(story: StoryContext, partition: PartitionKey, error: int) -> None:
    """Expect that OffsetFetch with `require_stable` returns this error code for the partition."""
    response = await fetch_offsets(story, [partition], require_stable=True)
    expect_error(f"error code of {partition[0]}-{partition[1]}", error, fetched_offsets(response)[partition].error)


@case("txn-offset.commit-then-marker", 1)
async def transaction_commits(story: StoryContext) -> None:
    """Transactional offsets become visible when the transaction commits, not before."""
    producer = await TransactionalProducer.begin(story)
    await producer.send_offsets({FOO_0: 100})
    await expect_committed(story, FOO_0, -1)
    await producer.end_transaction(committed=True)
    await story.wait_until(lambda: expect_committed(story, FOO_0, 100))


@case("txn-offset.abort", 1)
async def transaction_aborts(story: StoryContext) -> None:
    """Offsets of an aborted transaction never become visible."""
    await admin_commit(story, {FOO_0: 50})
    producer = await TransactionalProducer.begin(story)
    await producer.send_offsets({FOO_0: 100})
    await producer.end_transaction(committed=False)
    await story.wait_until(lambda: expect_stable_error(story, FOO_0, E.NONE))
    await expect_committed(story, FOO_0, 50)


@case("txn-offset.newer-plain-commit-wins", 2)
async def plain_commit_after_transactional_commit(story: StoryContext) -> None:
    """A plain commit after the transactional commit, and before its marker, wins."""
    producer = await TransactionalProducer.begin(story)
    await producer.send_offsets({FOO_0: 100, FOO_1: 1})
    await admin_commit(story, {FOO_0: 200})
    await producer.end_transaction(committed=True)
    await story.wait_until(lambda: expect_committed(story, FOO_1, 1))
    await expect_committed(story, FOO_0, 200)


@case("txn-offset.newer-txn-commit-wins", 2)
async def plain_commit_before_transactional_commit(story: StoryContext) -> None:
    """A plain commit before the transactional commit loses."""
    await admin_commit(story, {FOO_0: 200})
    producer = await TransactionalProducer.begin(story)
    await producer.send_offsets({FOO_0: 100})
    await producer.end_transaction(committed=True)
    await story.wait_until(lambda: expect_committed(story, FOO_0, 100))


@case("txn-offset.marker-without-offsets", 3)
async def transaction_without_offsets(story: StoryContext) -> None:
    """A transaction that added a group and committed no offsets ends without effect."""
    for committed in (True, False):
        producer = await TransactionalProducer.begin(story, f"producer-{committed}")
        await producer.end_transaction(committed=committed)
    await expect_committed(story, FOO_0, -1)
    await story.expect_state("Dead")


@case("txn-offset.one-producer-several-groups", 2)
async def one_transaction_for_two_groups(story: StoryContext) -> None:
    """One transaction may commit offsets of several groups; they become visible together."""
    first, second = f"{story.group_id}-1", f"{story.group_id}-2"
    producer = await TransactionalProducer.begin(story, "producer", first, second)
    for group_id in (first, second):
        await producer.send_offsets({FOO_0: 100}, group_id=group_id)
    await producer.end_transaction(committed=True)
    for name in ("1", "2"):
        story.use_group(name)
        await story.wait_until(lambda: expect_committed(story, FOO_0, 100))


@case("txn-offset.several-producers-one-group", 2)
async def two_transactions_for_one_group(story: StoryContext) -> None:
    """Of two open transactions the one that commits becomes visible; the other stays pending."""
    one, other = await TransactionalProducer.begin(story, "one"), await TransactionalProducer.begin(story, "other")
    await one.send_offsets({FOO_0: 100})
    await other.send_offsets({FOO_1: 200})
    await one.end_transaction(committed=True)
    await story.wait_until(lambda: expect_committed(story, FOO_0, 100))
    await expect_stable_error(story, FOO_1, E.UNSTABLE_OFFSET_COMMIT)
    await other.end_transaction(committed=True)
    await story.wait_until(lambda: expect_committed(story, FOO_1, 200))


@case("txn-offset.unknown-group-no-generation", 1)
async def transactional_commit_to_unknown_group(story: StoryContext) -> None:
    """A transactional commit without a generation id is accepted for a group that does not exist yet."""
    producer = await TransactionalProducer.begin(story)
    expect_every_partition(await producer.txn_offset_commit({FOO_0: 100}, version=3), E.NONE)
    await story.wait_for_state("Empty")


@case("txn-offset.unknown-group-with-generation", 2)
async def transactional_commit_with_generation_to_unknown_group(story: StoryContext) -> None:
    """A transactional commit with a generation id needs an existing group."""
    producer = await TransactionalProducer.begin(story)
    response = await producer.txn_offset_commit({FOO_0: 100}, generation_id=5, member_id="m")
    expect_every_partition(response, E.ILLEGAL_GENERATION)


@case("txn-offset.no-member-info-into-active-group", 1)
async def transactional_commit_without_member(story: StoryContext) -> None:
    """Without member id and generation id a transactional commit is accepted even by a group with members."""
    await stable_group_of_one(story)
    producer = await TransactionalProducer.begin(story)
    for version in range(4):
        expect_every_partition(await producer.txn_offset_commit({FOO_0: 100}, version=version), E.NONE)


@case("txn-offset.unknown-member", 1)
async def transactional_commit_of_unknown_member(story: StoryContext) -> None:
    """A transactional commit with an unknown member id is refused."""
    await stable_group_of_one(story)
    producer = await TransactionalProducer.begin(story)
    response = await producer.txn_offset_commit({FOO_0: 100}, generation_id=1, member_id="other")
    expect_every_partition(response, E.UNKNOWN_MEMBER_ID)


@case("txn-offset.illegal-generation", 1)
async def transactional_commit_with_illegal_generation(story: StoryContext) -> None:
    """A transactional commit with a member id needs the current generation id."""
    anna = await stable_group_of_one(story)
    producer = await TransactionalProducer.begin(story)
    response = await producer.txn_offset_commit({FOO_0: 100}, member=anna, generation_id=6)
    expect_every_partition(response, E.ILLEGAL_GENERATION)
    expect_every_partition(await producer.txn_offset_commit({FOO_0: 100}, member=anna), E.NONE)


@case("txn-offset.accepted-while-completing", 2)
async def transactional_commit_before_sync(story: StoryContext) -> None:
    """Unlike a plain commit, a transactional one is accepted before SyncGroup."""
    anna, _ = await completing_group(story)
    producer = await TransactionalProducer.begin(story)
    expect_every_partition(await producer.txn_offset_commit({FOO_0: 100}, member=anna), E.NONE)
    await story.expect_state("CompletingRebalance")


@case("txn-offset.fenced-static", 2)
async def transactional_commit_of_replaced_member(story: StoryContext) -> None:
    """A transactional commit of a replaced static member is fenced."""
    anna = await stable_group_of_one(story, instance_id="i1")
    producer = await TransactionalProducer.begin(story)
    replacement = anna.replacement()
    expect_member_id(await replacement.join_group(), "i1-", replaced=anna.id)
    expect_every_partition(await producer.txn_offset_commit({FOO_0: 100}, member=anna), E.FENCED_INSTANCE_ID)
    expect_every_partition(await producer.txn_offset_commit({FOO_0: 100}, member=replacement), E.NONE)
