"""Bugs about the sync phase: who gets which share, and when."""

from collections.abc import Callable

from regroup.coordinator import responses
from regroup.coordinator.classic import rebalance, sync
from regroup.coordinator.classic.validation import refuse_member
from regroup.coordinator.commands import SyncGroup
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.events import MemberSynced
from regroup.coordinator.group import Group, MemberId, State
from regroup.coordinator.settings import Settings
from regroup.lab.planted_bugs.bug import Planted, bug, decides, instead_of
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import SyncGroupResponse


@bug
def sync_ignores_the_generation() -> Planted:
    """SyncGroup is served whatever generation it names."""
    return instead_of(sync, "refuse_generation", without_the_generation)


def without_the_generation(
    group: Group, member_id: MemberId, instance_id: str | None, generation_id: int
) -> ErrorCode | None:
    return refuse_member(group, member_id, instance_id)


@bug
def follower_gets_nothing() -> Planted:
    """A follower whose SyncGroup comes before the leader's is answered at once, with an empty share."""
    return decides(SyncGroup, hasty(lambda group, member: SyncGroupResponse()))


@bug
def follower_gets_its_former_share() -> Planted:
    """A follower whose SyncGroup comes before the leader's is answered at once, with what it had in the last
    generation."""
    return decides(SyncGroup, hasty(responses.share))


def hasty(share: Callable[[Group, MemberId], SyncGroupResponse]) -> Callable[..., Decision]:
    """Does not wait for the leader."""

    def sync_group(settings: Settings, group: Group, command: SyncGroup) -> Decision:
        is_early = group.state is State.COMPLETING and command.member_id != group.leader
        if not is_early or sync.refuse(group, command):
            return sync.sync_group(settings, group, command)
        now = Unfolding(group, command.at_ms)
        now.happens(MemberSynced(at_ms=now.at_ms, member=command.member_id, waits=False))
        return now.ends(share(group, command.member_id))

    return sync_group


@bug
def parked_sync_is_forgotten() -> Planted:
    """A rebalance that interrupts the sync phase does not tell those who wait for a share."""
    return instead_of(rebalance, "abort_sync_phase", lambda now, code: None)


@bug
def share_comes_before_the_log_has_it() -> Planted:
    """The shares are handed out as soon as Kafka's log has written them, though it may still lose them."""

    def assign(now: Unfolding, settings: Settings, command: SyncGroup) -> None:
        right(now, settings, command)
        if now.group.written_assignment is not None:
            sync.commit_assignment(now)

    right = sync.assign
    return instead_of(sync, "assign", assign)
