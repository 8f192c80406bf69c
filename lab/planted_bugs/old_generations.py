"""Bugs in how a classic group answers requests with the generation before the present one."""

from collections.abc import Callable
from types import ModuleType

from regroup.coordinator.classic import heartbeat_leave, offset_rules, sync
from regroup.coordinator.group import Group, MemberId
from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, planted_bug
from regroup.protocol.errors import ErrorCode


@planted_bug
def old_commit_is_accepted() -> BugContext:
    """A commit of a member is accepted with the generation before."""
    return _accept_generation_before(offset_rules)


@planted_bug
def old_sync_is_accepted() -> BugContext:
    """A SyncGroup of a member with the generation before is taken for one of the present generation."""
    return _accept_generation_before(sync)


@planted_bug
def old_heartbeat_is_accepted() -> BugContext:
    """A heartbeat of a member is accepted with the generation before."""
    return _accept_generation_before(heartbeat_leave)


def _accept_generation_before(module: ModuleType) -> BugContext:
    """Let the checks of this module accept the generation before the group's as if it were the present one."""
    right: Callable[..., ErrorCode | None] = module.refuse_generation

    def refuse_generation(
        group: Group, member_id: MemberId, instance_id: str | None, generation_id: int
    ) -> ErrorCode | None:
        is_before = generation_id == group.generation_id - 1
        return right(group, member_id, instance_id, generation_id + 1 if is_before else generation_id)

    return patch_attribute(module, "refuse_generation", refuse_generation)
