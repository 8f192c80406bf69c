"""Bugs in the offsets of groups of the consumer protocol, in their migrations and in their loads."""

from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from regroup.coordinator.consumer import leaving, offset_rules
from regroup.coordinator.consumer.evolve_group import consumer_of, with_consumer
from regroup.coordinator.consumer.migration import downgrade, upgrade
from regroup.coordinator.consumer.migration.events import GroupUpgraded
from regroup.coordinator.decision import DecisionBuilder
from regroup.coordinator.events import CoordinatorLoaded
from regroup.coordinator.evolve import CONSUMER_EVOLVERS, EVOLVERS
from regroup.coordinator.group import Group
from regroup.coordinator.layered_mapping import without
from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, planted_bug


@planted_bug
def any_epoch_commits() -> BugContext:
    """Offsets are committed for any member id and any epoch."""
    return patch_attribute(offset_rules.ConsumerOffsetRules, "refuse_commit", lambda *arguments: None)


@planted_bug
def older_epoch_commits_nothing() -> BugContext:
    """A commit with an older epoch is refused, also of partitions that the member has had since."""
    return patch_attribute(offset_rules, "may_commit", lambda member, epoch, offsets: epoch == member.epoch)


@planted_bug
def older_epoch_commits_everything() -> BugContext:
    """A commit with an older epoch is accepted, also of partitions that the member has not had since."""
    return patch_attribute(offset_rules, "may_commit", lambda member, epoch, offsets: epoch <= member.epoch)


@planted_bug
def empty_group_takes_every_commit() -> BugContext:
    """An Empty group takes the commits of members that were removed, as if they came from outside the group."""
    right = offset_rules.ConsumerOffsetRules.refuse_commit

    def refuse_commit(rules: Any, group: Group, command: Any, accepted: Any) -> Any:
        return right(rules, group, command, accepted) if consumer_of(group).members else None

    return patch_attribute(offset_rules.ConsumerOffsetRules, "refuse_commit", refuse_commit)


@planted_bug
def upgrade_forgets_a_member() -> BugContext:
    """A classic group that changes to the consumer protocol loses the member that has joined last."""
    right = upgrade.upgrade

    def wrong(decision: DecisionBuilder, topics: Any) -> None:
        members = decision.group.members
        if len(members) > 1:
            decision.group = replace(decision.group, members=without(members, list(members)[-1]))
        right(decision, topics)

    return patch_attribute(upgrade, "upgrade", wrong)


@planted_bug
def upgrade_forgets_offsets() -> BugContext:
    """A classic group that changes to the consumer protocol loses the offsets of one of its topics."""
    right = EVOLVERS[GroupUpgraded]

    def wrong(group: Group, event: GroupUpgraded) -> Group:
        after: Group = right(group, event)
        return replace(after, committed_offsets=dict(list(after.committed_offsets.items())[1:]))

    return patch.dict(EVOLVERS, {GroupUpgraded: wrong})


@planted_bug
def downgrade_forgets_a_member() -> BugContext:
    """A group that changes back to the classic protocol loses the member that has joined last."""
    right = downgrade.downgrade

    def wrong(decision: DecisionBuilder, topics: Any, generation_id: int | None = None) -> None:
        consumer = consumer_of(decision.group)
        if len(consumer.members) > 1:
            members = without(consumer.members, list(consumer.members)[-1])
            decision.group = with_consumer(decision.group, replace(consumer, members=members))
        right(decision, topics, generation_id)

    return patch_attribute(leaving, "downgrade", wrong)


@planted_bug
def load_begins_members_at_epoch_0() -> BugContext:
    """A coordinator that loads a group of the consumer protocol knows its members, and not their epochs."""
    right = CONSUMER_EVOLVERS[CoordinatorLoaded]

    def wrong(group: Group, event: CoordinatorLoaded) -> Group:
        after: Group = right(group, event)
        consumer = consumer_of(after)
        members = {each: replace(member, epoch=0, previous_epoch=0) for each, member in consumer.members.items()}
        return with_consumer(after, replace(consumer, members=members))

    return patch.dict(CONSUMER_EVOLVERS, {CoordinatorLoaded: wrong})
