"""OffsetDelete (KIP-496): forgetting single offsets."""

from regroup.conformance.harness.cases import Need, case
from regroup.conformance.harness.expect import codes_are, expect
from regroup.conformance.harness.member import Member, share_out
from regroup.conformance.harness.offsets import Producer, committed_outside, fetches, forgets, stands_at
from regroup.conformance.harness.scenes import alone, disturbed, left_behind
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import ABSENT, BAR, FOO
from regroup.protocol.errors import ErrorCode as E

FOO_0, BAR_0 = (FOO, 0), (BAR, 0)


@case("offset-delete.unknown-group", 1)
async def no_such_group(tell: Story) -> None:
    """A group that does not exist has nothing to forget."""
    expect(await forgets(tell, FOO_0), error=E.GROUP_ID_NOT_FOUND, topics=[])


@case("offset-delete.subscribed-topic", 1)
async def topic_that_is_read(tell: Story) -> None:
    """Offsets of a topic that the group reads are kept, others are forgotten."""
    await committed_outside(tell, {FOO_0: 1, BAR_0: 2})
    await alone(tell)
    answer = await forgets(tell, FOO_0, BAR_0)
    expect(answer, error=E.NONE)
    codes_are(answer, {FOO_0: E.NONE, BAR_0: E.GROUP_SUBSCRIBED_TO_TOPIC})
    await stands_at(tell, FOO_0, -1)
    await stands_at(tell, BAR_0, 2)


@case(
    "offset-delete.first-join-phase",
    3,
    needs={"group.initial.rebalance.delay.ms": Need(at_least=1000)},
    corrected="The catalogue does not have it (a random course found it): until its first generation a group of "
    "consumers counts as subscribed to every topic.",
)
async def nobody_knows_yet_who_reads(tell: Story) -> None:
    """While the first members gather, the offsets of every topic are kept; what the group reads is not known yet."""
    await committed_outside(tell, {FOO_0: 1})
    codes_are(await forgets(tell, (FOO, 1)), {(FOO, 1): E.NONE})
    await Member(tell, "anna").asks_to_join(version=3).is_parked()
    codes_are(await forgets(tell, FOO_0), {FOO_0: E.GROUP_SUBSCRIBED_TO_TOPIC})
    await stands_at(tell, FOO_0, 1)


@case("offset-delete.empty-group", 1)
async def nobody_reads(tell: Story) -> None:
    """In an empty group any offset can be forgotten; the group stays."""
    await left_behind(tell)
    await committed_outside(tell, {FOO_0: 1, BAR_0: 2})
    codes_are(await forgets(tell, BAR_0), {BAR_0: E.NONE})
    await stands_at(tell, BAR_0, -1)
    await stands_at(tell, FOO_0, 1)
    await tell.is_in("Empty")


@case("offset-delete.non-consumer-non-empty", 2)
async def group_of_another_type(tell: Story) -> None:
    """A group of another protocol type forgets nothing while it has members: nobody knows what they read."""
    await committed_outside(tell, {FOO_0: 1})
    await alone(tell, protocol_type="connect")
    expect(await forgets(tell, FOO_0), error=E.NON_EMPTY_GROUP, topics=[])
    await stands_at(tell, FOO_0, 1)


@case("offset-delete.empty-non-consumer", 3)
async def empty_group_of_another_type(tell: Story) -> None:
    """Once a group of another protocol type is empty, any offset can be forgotten."""
    anna = await alone(tell, protocol_type="connect")
    await anna.leaves()
    await committed_outside(tell, {FOO_0: 1})
    codes_are(await forgets(tell, FOO_0), {FOO_0: E.NONE})
    await stands_at(tell, FOO_0, -1)


@case("offset-delete.missing-offset", 2)
async def nothing_to_forget(tell: Story) -> None:
    """Forgetting what was never committed is fine."""
    await left_behind(tell)
    codes_are(await forgets(tell, FOO_0), {FOO_0: E.NONE})


@case("offset-delete.unknown-partition", 2)
async def topic_that_is_not_there(tell: Story) -> None:
    """A topic that does not exist has its own code, and the group's code stands above it."""
    await left_behind(tell)
    answer = await forgets(tell, (ABSENT, 0), FOO_0)
    expect(answer, error=E.NONE)
    codes_are(answer, {(ABSENT, 0): E.UNKNOWN_TOPIC_OR_PARTITION, FOO_0: E.NONE})
    tell.turns_to_group("absent")
    expect(await forgets(tell, (ABSENT, 0)), error=E.GROUP_ID_NOT_FOUND, topics=[])


@case("offset-delete.rebalancing", 2)
async def topic_that_was_read(tell: Story) -> None:
    """While a group rebalances, what its last generation read counts."""
    await committed_outside(tell, {FOO_0: 1, BAR_0: 2})
    await disturbed(tell)
    codes_are(await forgets(tell, FOO_0, BAR_0), {FOO_0: E.NONE, BAR_0: E.GROUP_SUBSCRIBED_TO_TOPIC})


@case("offset-delete.unparsable-subscription", 3)
async def nobody_knows_what_is_read(tell: Story) -> None:
    """When a subscription cannot be read, every topic counts as read."""
    await committed_outside(tell, {FOO_0: 1})
    anna = Member(tell, "anna", protocols={"range": b"\xff"})
    await anna.joins()
    await share_out(anna)
    codes_are(await forgets(tell, FOO_0), {FOO_0: E.GROUP_SUBSCRIBED_TO_TOPIC})
    await stands_at(tell, FOO_0, 1)


@case("offset-delete.pending-txn", 2)
async def offset_of_an_open_transaction(tell: Story) -> None:
    """An offset that only an open transaction holds can be forgotten; the commit adds nothing then."""
    await left_behind(tell)
    producer = Producer(tell, "producer")
    await producer.begins()
    await producer.writes_well({FOO_0: 100})
    codes_are(await forgets(tell, FOO_0), {FOO_0: E.NONE})
    await producer.ends(committed=True)
    await tell.passes(0.5)
    await fetches(tell, [FOO_0])
    await stands_at(tell, FOO_0, -1)
