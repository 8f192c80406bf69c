"""Bugs of consumers: they read, commit or keep what is not theirs."""

from collections.abc import Mapping, Sequence

from regroup.assignors.interface import Assignments, Assignor, Cluster, Member, RebalanceProtocol
from regroup.assignors.sticky.assignor import CooperativeStickyAssignor
from regroup.lab.planted_bugs.bug import Planted, bug, instead_of
from regroup.members.consumer.rebalance import Rebalance
from regroup.members.runtime.application import Application
from regroup.members.runtime.fetcher import Fetched, Reader
from regroup.protocol.consumer.subscription import Assignment, TopicPartition


@bug
def member_reads_on() -> Planted:
    """A member goes on reading partitions after it has given them up or lost them."""
    return instead_of(Reader, "stop", lambda reader, partitions: None)


@bug
def member_commits_what_it_fetched() -> Planted:
    """A member commits up to where it has fetched, not up to where it has processed."""

    def fetched(application: Application, records: Sequence[Fetched]) -> None:
        right(application, records)
        application._stands({each.partition: each.offset + 1 for each in records})

    right = Application.fetched
    return instead_of(Application, "fetched", fetched)


@bug
def member_begins_one_too_far() -> Planted:
    """A member takes the committed offset for that of the last record, and reads on behind it."""

    def read_from(reader: Reader, offsets: Mapping[TopicPartition, int | None]) -> None:
        right(reader, {each: None if offset is None else offset + 1 for each, offset in offsets.items()})

    right = Reader.read_from
    return instead_of(Reader, "read_from", read_from)


@bug
def cooperative_member_gives_nothing_up() -> Planted:
    """A cooperative member adds what it gets to what it has, also where something was taken from it."""

    def take_over(rebalance: Rebalance, assignor: Assignor, assignment: Assignment) -> None:
        if rebalance.protocol is RebalanceProtocol.COOPERATIVE:
            both = tuple(dict.fromkeys((*rebalance._offsets.held, *assignment.partitions)))
            assignment = Assignment(assignment.version, both, assignment.user_data)
        right(rebalance, assignor, assignment)

    right = Rebalance._take_over
    return instead_of(Rebalance, "_take_over", take_over)


@bug
def cooperative_leader_deals_at_once() -> Planted:
    """A cooperative leader gives a partition to its next owner while the present one still has it."""

    def assign(assignor: CooperativeStickyAssignor, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        return assignor._deal(cluster, members)[0] if members else {}

    return instead_of(CooperativeStickyAssignor, "assign", assign)


@bug
def expelled_member_keeps_its_partitions() -> Planted:
    """A member that hears it is no longer in the group reads on until it has been given new partitions."""
    return instead_of(Rebalance, "lose_all", lambda rebalance: None)
