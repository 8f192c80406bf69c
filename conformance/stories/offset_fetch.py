"""Stories about OffsetFetch, also of stable offsets (KIP-447) and of several groups (KIP-709)."""

from regroup.conformance.harness.broker_under_test import ABSENT_TOPIC, BAR_1, FOO_0, FOO_1, FOO_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import (
    FetchedOffset,
    expect_equal,
    expect_error,
    expect_one_of,
    fetched_offsets,
    group_error,
)
from regroup.conformance.harness.offsets import (
    TransactionalProducer,
    admin_commit,
    expect_fetched,
    fetch_offsets,
    send_admin_commit,
)
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E

UNSTABLE = FetchedOffset(-1, error=E.UNSTABLE_OFFSET_COMMIT)


@case("offset-fetch.committed", 1)
async def fetch_committed_offset(story: StoryContext) -> None:
    """A committed offset is returned with leader epoch and metadata in every version."""
    await send_admin_commit(story, {FOO_0: 100}, leader_epoch=1)
    for version in range(1, 10):
        expected = FetchedOffset(100, leader_epoch=1 if version >= 5 else -1)
        await expect_fetched(story, {FOO_0: expected}, version=version)


@case("offset-fetch.no-offset", 1)
async def fetch_missing_offset(story: StoryContext) -> None:
    """A partition without a committed offset has offset -1, also in a topic that does not exist."""
    await admin_commit(story, {FOO_0: 100})
    await expect_fetched(story, dict.fromkeys([FOO_1, (FOO_TOPIC, 77), (ABSENT_TOPIC, 0)], FetchedOffset(-1)))


@case("offset-fetch.unknown-group", 1)
async def fetch_from_unknown_group(story: StoryContext) -> None:
    """A group that does not exist has no committed offsets, and that is no error."""
    for version in range(1, 10):
        response = await fetch_offsets(story, [FOO_0], version=version)
        expect_error("error code of the group", E.NONE, group_error(response))
        expect_equal("offsets", {FOO_0: FetchedOffset(-1)}, fetched_offsets(response))
    await story.expect_state("Dead")


@case("offset-fetch.all-topics", 1)
async def fetch_all_topics(story: StoryContext) -> None:
    """Since v2 a null list requests all topics, and an empty list none."""
    for version in range(2, 10):
        response = await fetch_offsets(story, None, version=version)
        expect_equal("unknown group", (E.NONE, {}), (group_error(response), fetched_offsets(response)))
    await admin_commit(story, {FOO_0: 1, BAR_1: 2})
    for version in range(2, 10):
        committed = {FOO_0: FetchedOffset(1), BAR_1: FetchedOffset(2)}
        await expect_fetched(story, committed, version=version, all_topics=True)
        await expect_fetched(story, {}, version=version)


@case("offset-fetch.batched-groups", 1)
async def fetch_several_groups(story: StoryContext) -> None:
    """Since v8 one request fetches several groups, each with its own error code."""
    group_ids = []
    for number in (1, 2):
        await story.use_group_of_same_coordinator(str(number))
        group_ids.append(story.group_id)
        await admin_commit(story, {FOO_0: number})
    await story.use_group_of_same_coordinator("absent")
    group_ids.append(story.group_id)
    for version in (8, 9):
        response = await fetch_offsets(story, [FOO_0], group_ids=group_ids, version=version)
        fetched = {
            group.group_id: (group.error_code, group.topics[0].partitions[0].committed_offset)
            for group in response.groups
        }
        expect_equal("groups", dict(zip(group_ids, [(0, 1), (0, 2), (0, -1)], strict=True)), fetched)


async def open_transaction(story: StoryContext) -> None:
    """Commit offset 100 for foo-0; then, in a transaction that stays open, 111 for foo-0 and 5 for bar-1."""
    await admin_commit(story, {FOO_0: 100})
    producer = await TransactionalProducer.begin(story)
    await producer.send_offsets({FOO_0: 111, BAR_1: 5})


@case("offset-fetch.require-stable.pending-txn", 1)
async def fetch_stable_offsets_of_open_transaction(story: StoryContext) -> None:
    """With `require_stable` a partition with a pending transactional offset gets UNSTABLE_OFFSET_COMMIT (KIP-447)."""
    await open_transaction(story)
    for version in range(7, 10):
        expected = {FOO_0: UNSTABLE, BAR_1: UNSTABLE, FOO_1: FetchedOffset(-1)}
        await expect_fetched(story, expected, version=version, require_stable=True)


@case("offset-fetch.not-stable.pending-txn", 1)
async def fetch_unstable_offsets_of_open_transaction(story: StoryContext) -> None:
    """Without `require_stable` the offset that was committed before the transaction is returned."""
    await open_transaction(story)
    await expect_fetched(story, {FOO_0: FetchedOffset(100), BAR_1: FetchedOffset(-1)})


@case("offset-fetch.require-stable.all-topics", 3)
async def fetch_all_stable_offsets_of_open_transaction(story: StoryContext) -> None:
    """A request for all topics leaves out partitions that have only a pending transactional offset."""
    await open_transaction(story)
    await expect_fetched(story, {FOO_0: UNSTABLE}, require_stable=True, all_topics=True)


@case("offset-fetch.require-stable.pending-plain-commit", 2)
async def fetch_stable_offset_behind_commit(story: StoryContext) -> None:
    """With `require_stable` a fetch right behind a plain commit gets the offset before or after it, never an error."""
    await admin_commit(story, {FOO_0: 1})
    for number in range(2, 12):
        commit = send_admin_commit(story, {FOO_0: number})
        fetched = fetched_offsets(await fetch_offsets(story, [FOO_0], require_stable=True))[FOO_0]
        expect_error("error code of foo-0", E.NONE, fetched.error)
        expect_one_of("offset of foo-0", (number - 1, number), fetched.offset)
        await commit


@case("offset-fetch.not-coordinator", 1)
async def fetch_from_wrong_broker(story: StoryContext) -> None:
    """A broker that is not the coordinator refuses: up to v7 for the response, since v8 for each group."""
    await admin_commit(story, {FOO_0: 1})
    await story.use_wrong_broker()
    for version in range(2, 10):
        response = await fetch_offsets(story, [FOO_0], version=version)
        expect_error(f"error code in v{version}", E.NOT_COORDINATOR, group_error(response))
        expect_equal(f"offsets in v{version}", {}, fetched_offsets(response))
