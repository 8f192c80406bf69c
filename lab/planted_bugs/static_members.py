"""Bugs about members that keep their place across a restart (KIP-345)."""

from regroup.coordinator.classic import heartbeat_leave, join, rebalance, validation
from regroup.coordinator.decision import Unfolding
from regroup.coordinator.events import MemberExpelled
from regroup.coordinator.group import Group, MemberId, Waiting
from regroup.coordinator.offsets import commits
from regroup.lab.planted_bugs.bug import Planted, bug, instead_of, together
from regroup.protocol.errors import ErrorCode


@bug
def replaced_process_is_not_fenced() -> Planted:
    """Heartbeats and commits with an instance id are taken from whoever names the present generation."""

    def refuse_generation(
        group: Group, member_id: MemberId, instance_id: str | None, generation_id: int
    ) -> ErrorCode | None:
        present = group.static_members.get(instance_id) if instance_id is not None else None
        return validation.refuse_generation(group, present or member_id, instance_id, generation_id)

    return together(
        instead_of(heartbeat_leave, "refuse_generation", refuse_generation),
        instead_of(commits, "refuse_generation", refuse_generation),
    )


@bug
def replaced_process_waits_for_ever() -> Planted:
    """When a static member comes back, nobody answers the request that its former process has parked."""
    return instead_of(join, "fenced", lambda old: None)


@bug
def static_member_does_not_outlive_a_rebalance() -> Planted:
    """A static member that is not back when the join phase ends is taken out, as if it were a dynamic one."""

    def expel_silent_dynamic_members(now: Unfolding) -> None:
        for member in list(now.group.members.values()):
            if member.waiting is not Waiting.JOIN:
                reason = "it did not join again in time"
                gone = MemberExpelled(at_ms=now.at_ms, reason=reason, member=member.member_id)
                rebalance.remove(now, member.member_id, gone)

    return instead_of(rebalance, "expel_silent_dynamic_members", expel_silent_dynamic_members)
