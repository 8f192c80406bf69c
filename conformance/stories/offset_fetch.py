"""OffsetFetch: how far the group has come."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import code_is, fetch_code, offsets_in, same
from regroup.conformance.harness.offsets import Producer, commits_from_outside, committed_outside, fetches, offset
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import ABSENT, BAR, FOO
from regroup.protocol.errors import ErrorCode as E

FOO_0, FOO_1, BAR_1 = (FOO, 0), (FOO, 1), (BAR, 1)
UNSTABLE = offset(-1, error=E.UNSTABLE_OFFSET_COMMIT)


@case("offset-fetch.committed", 1)
async def what_was_committed(tell: Story) -> None:
    """What was committed comes back, with leader epoch and metadata, in every version."""
    await commits_from_outside(tell, {FOO_0: 100}, leader_epoch=1)
    for version in range(1, 10):
        found = offsets_in(await fetches(tell, [FOO_0], version=version))
        same(f"the offset in v{version}", {FOO_0: offset(100, leader_epoch=1 if version >= 5 else -1)}, found)


@case("offset-fetch.no-offset", 1)
async def nothing_committed_there(tell: Story) -> None:
    """Where nothing was committed the offset is -1, also for topics that do not exist."""
    await committed_outside(tell, {FOO_0: 100})
    found = offsets_in(await fetches(tell, [FOO_1, (FOO, 77), (ABSENT, 0)]))
    same("the offsets", dict.fromkeys([FOO_1, (FOO, 77), (ABSENT, 0)], offset(-1)), found)


@case("offset-fetch.unknown-group", 1)
async def group_that_is_not_there(tell: Story) -> None:
    """A group that does not exist has committed nothing, and that is no error."""
    for version in range(1, 10):
        answer = await fetches(tell, [FOO_0], version=version)
        code_is("the group's code", E.NONE, fetch_code(answer))
        same("the offset", {FOO_0: offset(-1)}, offsets_in(answer))
    await tell.is_in("Dead")


@case("offset-fetch.all-topics", 1)
async def everything_that_was_committed(tell: Story) -> None:
    """Since v2 a null list asks for everything, and an empty one for nothing."""
    for version in range(2, 10):
        answer = await fetches(tell, None, version=version)
        same("an unknown group", (E.NONE, {}), (fetch_code(answer), offsets_in(answer)))
    await committed_outside(tell, {FOO_0: 1, BAR_1: 2})
    for version in range(2, 10):
        wanted = {FOO_0: offset(1), BAR_1: offset(2)}
        same("everything", wanted, offsets_in(await fetches(tell, None, version=version)))
        same("nothing", {}, offsets_in(await fetches(tell, [], version=version)))


@case("offset-fetch.batched-groups", 1)
async def several_groups_at_once(tell: Story) -> None:
    """Since v8 one request asks for several groups, each with its own code."""
    names = []
    for number in (1, 2):
        await tell.turns_to_neighbour(str(number))
        names.append(tell.group)
        await committed_outside(tell, {FOO_0: number})
    await tell.turns_to_neighbour("absent")
    names.append(tell.group)
    for version in (8, 9):
        answer = await fetches(tell, [FOO_0], groups=names, version=version)
        found = {
            group.group_id: (group.error_code, group.topics[0].partitions[0].committed_offset)
            for group in answer.groups
        }
        same("the groups", dict(zip(names, [(0, 1), (0, 2), (0, -1)], strict=True)), found)


async def open_transaction(tell: Story) -> Producer:
    """foo-0 stands at 100; an open transaction holds 111 for it, and 5 for bar-1."""
    await committed_outside(tell, {FOO_0: 100})
    producer = Producer(tell, "producer")
    await producer.begins()
    await producer.writes_well({FOO_0: 111, BAR_1: 5})
    return producer


@case("offset-fetch.require-stable.pending-txn", 1)
async def stable_offsets_during_a_transaction(tell: Story) -> None:
    """Who asks for stable offsets is told to ask again where a transaction is open."""
    await open_transaction(tell)
    for version in range(7, 10):
        found = offsets_in(await fetches(tell, [FOO_0, BAR_1, FOO_1], require_stable=True, version=version))
        same("the offsets", {FOO_0: UNSTABLE, BAR_1: UNSTABLE, FOO_1: offset(-1)}, found)


@case("offset-fetch.not-stable.pending-txn", 1)
async def any_offsets_during_a_transaction(tell: Story) -> None:
    """Who does not ask for stable offsets sees what was committed before the transaction."""
    await open_transaction(tell)
    found = offsets_in(await fetches(tell, [FOO_0, BAR_1]))
    same("the offsets", {FOO_0: offset(100), BAR_1: offset(-1)}, found)


@case("offset-fetch.require-stable.all-topics", 3)
async def all_stable_offsets_during_a_transaction(tell: Story) -> None:
    """Asked for everything, partitions that only a transaction holds are not named."""
    await open_transaction(tell)
    same("the offsets", {FOO_0: UNSTABLE}, offsets_in(await fetches(tell, None, require_stable=True)))


@case("offset-fetch.require-stable.pending-plain-commit", 2)
async def stable_offsets_right_behind_a_commit(tell: Story) -> None:
    """Stable offsets asked for right behind a plain commit are those before or after it, never an error."""
    await committed_outside(tell, {FOO_0: 1})
    for number in range(2, 12):
        commit = commits_from_outside(tell, {FOO_0: number})
        found = offsets_in(await fetches(tell, [FOO_0], require_stable=True))
        same("the code", E.NONE, found[FOO_0][3])
        same("before or after", True, found[FOO_0][0] in (number - 1, number))
        await commit


@case("offset-fetch.not-coordinator", 1)
async def asked_of_the_wrong_broker(tell: Story) -> None:
    """A broker that does not coordinate the group says so, up to v7 for the answer and since v8 for the group."""
    await committed_outside(tell, {FOO_0: 1})
    await tell.turns_to_another_broker()
    for version in range(2, 10):
        answer = await fetches(tell, [FOO_0], version=version)
        code_is(f"the code in v{version}", E.NOT_COORDINATOR, fetch_code(answer))
        same(f"the offsets in v{version}", {}, offsets_in(answer))
