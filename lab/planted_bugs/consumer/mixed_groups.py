"""Bugs in the requests of members of the classic protocol, in groups of the consumer protocol."""

from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.migration import classic_members, upgrade
from regroup.coordinator.consumer.migration.embedded_protocol import encoded_assignment
from regroup.coordinator.consumer_group import ConsumerMember
from regroup.coordinator.decide import CONSUMER_HANDLERS
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, planted_bug
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import JoinGroupResponse


@planted_bug
def classic_member_joins_at_its_former_epoch() -> BugContext:
    """The JoinGroup response of a classic member has the epoch that it had before its last step."""
    right = classic_members.joined_response

    def joined_response(member: ConsumerMember) -> JoinGroupResponse:
        return right(replace(member, epoch=member.previous_epoch) if member.previous_epoch > 0 else member)

    return patch_attribute(classic_members, "joined_response", joined_response)


@planted_bug
def classic_member_syncs_its_whole_target() -> BugContext:
    """The SyncGroup response of a classic member has its share of the target, though others have yet to release it."""
    right = classic_members.sync_with_consumer_group

    def wrong(decision: DecisionBuilder, command: c.SyncGroup) -> Decision:
        result = right(decision, command)
        response: Any = result.response
        if response is None or response.error_code:
            return result
        share = consumer_of(result.group).targets.get(command.member_id, {})
        assignment = encoded_assignment(share, command.topics, response.assignment)
        return replace(result, response=replace(response, assignment=assignment))

    return patch.dict(CONSUMER_HANDLERS, {c.SyncGroup: wrong})


@planted_bug
def classic_member_is_let_in_without_an_id() -> BugContext:
    """A classic member that joins without an id is let in at once, in place of being asked to join with one."""
    right = classic_members.refuse_join

    def refuse_join(*arguments: Any) -> ErrorCode | None:
        refused = right(*arguments)
        return None if refused is ErrorCode.MEMBER_ID_REQUIRED else refused

    return patch_attribute(classic_members, "refuse_join", refuse_join)


@planted_bug
def classic_member_gets_more_time_to_rejoin() -> BugContext:
    """Each REBALANCE_IN_PROGRESS gives a classic member its whole rebalance timeout to join again."""
    right = classic_members.request_rejoin

    def wrong(decision: DecisionBuilder, member: ConsumerMember) -> None:
        right(decision, replace(member, join_deadline_ms=None))

    return patch_attribute(classic_members, "request_rejoin", wrong)


@planted_bug
def upgrade_starts_no_sessions() -> BugContext:
    """When a classic group becomes one of the consumer protocol, the sessions of its members do not begin again."""
    right = upgrade.upgrade

    def wrong(decision: DecisionBuilder, *arguments: Any) -> Any:
        with patch_attribute(DecisionBuilder, "touch_session", lambda builder, member_id: None):
            return right(decision, *arguments)

    return patch_attribute(upgrade, "upgrade", wrong)
