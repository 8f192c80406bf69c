"""Scenes with bugs of consumers."""

from typing import Any

from regroup.assignors.interface import Cluster, Member
from regroup.assignors.sticky.assignor import CooperativeStickyAssignor
from regroup.lab.planted_bugs import members
from regroup.members.consumer.effects import Outgoing
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.runtime.application import Application
from regroup.members.runtime.fetcher import Fetched, Reader
from regroup.members.runtime.workload import Ledger, Workload
from regroup.protocol.errors import ErrorCode as E
from tests.lab.bug_scenes import scene
from tests.members.conftest import Stage, orders

FIRST, SECOND = orders(0, 1)


class Silence:
    """A transport that nobody answers."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []

    def send(self, outgoing: Outgoing, answered: Any) -> None:
        self.sent.append(outgoing)


def application(stands: Any = lambda positions: None) -> Application:
    return Application(Workload(), Ledger(), stands=stands, wakes=lambda: None)


@scene(members.member_reads_on, right=[SECOND], wrong=[FIRST, SECOND])
def a_partition_is_given_up() -> Any:
    reader = Reader(Silence(), ConsumerSettings(group_id="payments"), application())
    reader._positions = {FIRST: 10, SECOND: 20}
    reader.stop([FIRST])
    return list(reader._positions)


@scene(members.member_begins_one_too_far, right={FIRST: 10}, wrong={FIRST: 11})
def a_partition_is_new() -> Any:
    reader = Reader(Silence(), ConsumerSettings(group_id="payments"), application())
    reader._retry = object()  # nobody is waiting: there is no loop
    reader.read_from({FIRST: 10})
    return reader._positions


@scene(members.member_commits_what_it_fetched, right=[], wrong=[{FIRST: 6}])
def records_come() -> Any:
    stood = []
    application(stood.append).fetched([Fetched(FIRST, 5, 0)])
    return stood


@scene(members.cooperative_member_gives_nothing_up, right=(SECOND,), wrong=(FIRST, SECOND))
def a_partition_is_taken_away() -> Any:
    stage = Stage().stable(FIRST, SECOND)
    stage.consumer._standing.request_rejoin("somebody came")
    stage.pass_time(1)
    stage.joined(2, others=("ben",))
    stage.synced(SECOND)
    return stage.consumer.assigned


@scene(members.cooperative_leader_deals_at_once, right=1, wrong=2)
def a_cooperative_leader_deals_to_one_who_has_all_and_one_who_has_nothing() -> Any:
    ready = Member(("orders",), None, (FIRST, SECOND), 1, None, None)
    newcomer = Member(("orders",), None, (), -1, None, None)
    shares = CooperativeStickyAssignor().assign(Cluster({"orders": 2}), {"anna": ready, "ben": newcomer})
    return sum(len(share) for share in shares.values())


@scene(members.expelled_member_keeps_its_partitions, right=(), wrong=(FIRST,))
def a_member_hears_that_it_is_unknown() -> Any:
    stage = Stage().stable(FIRST)
    stage.pass_time(3_000)
    stage.heartbeat_answered(E.UNKNOWN_MEMBER_ID)
    stage.pass_time(1)
    return stage.consumer.assigned
