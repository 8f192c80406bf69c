"""Whether descriptions of groups show what the store holds: DescribeGroups and ConsumerGroupDescribe.

They are compared with the groups that the lab folds itself from the stored events, without the coordinator's functions.
"""

from collections.abc import Collection, Iterator
from typing import Any

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupDescribe
from regroup.coordinator.consumer_group import ReconciliationState
from regroup.coordinator.group import GroupState
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.topics import TopicsImage
from regroup.lab.checker.classic.stored_group import StoredClassicGroup
from regroup.lab.checker.consumer.groups import ConsumerGroups
from regroup.lab.checker.consumer.stored_group import Partition, StoredGroup, StoredMember
from regroup.lab.checker.coordinator_state import CheckerState
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.topic_ids import topic_id_text

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""The types of members in ConsumerGroupDescribe."""


def a_description_shows_the_stored_group(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A description of a classic group shows its stored state, protocol and members.

    Subscriptions and the protocol are part of it in Stable only, assignments always.
    """
    assert isinstance(exchange.command, c.DescribeGroup)
    stored = state.classic_groups.group(exchange.group_id)
    if exchange.error_code or exchange.before.pending_appends or stored.event_number != exchange.before.event_number:
        return None
    return _first_difference(_classic_rows(stored, exchange.response))


def a_description_shows_the_stored_epochs(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A description of a group of the consumer protocol shows its stored state, epochs, members and target.

    The assignment of a member includes what it has yet to give up. Topics that do not exist any more are left out.
    """
    command, stored = exchange.command, groups.group(exchange.group_id).stored
    if not isinstance(command, ConsumerGroupDescribe) or not stored.is_consumer:
        return None
    return _first_difference(_consumer_rows(stored, exchange.response, command.topics))


def _first_difference(rows: Iterator[tuple[str, Any, Any]]) -> str | None:
    """Describe the first row whose values, what the response shows and what is stored, are not equal."""
    return next(
        (f"{name}: it shows {shown!r}, and stored is {stored!r}" for name, shown, stored in rows if shown != stored),
        None,
    )


def _classic_rows(stored: StoredClassicGroup, shown: Any) -> Iterator[tuple[str, Any, Any]]:
    protocol_name = stored.protocol_name if stored.state is GroupState.STABLE else None
    yield "state", shown.group_state, stored.state.value
    yield "protocol type", shown.protocol_type, stored.protocol_type
    yield "protocol", shown.protocol_data, protocol_name or ""
    yield "members", [each.member_id for each in shown.members], list(stored.members)
    for each in shown.members:
        member = stored.members[each.member_id]
        offered = {protocol.name: protocol.metadata for protocol in member.profile.supported_protocols}
        yield f"instance id of {each.member_id}", each.group_instance_id, member.profile.instance_id
        yield f"client id of {each.member_id}", each.client_id, member.profile.client_id
        yield f"client host of {each.member_id}", each.client_host, member.profile.client_host
        yield f"subscription of {each.member_id}", each.member_metadata, offered.get(protocol_name or "", b"")
        yield f"assignment of {each.member_id}", each.member_assignment, member.assignment


def _consumer_rows(stored: StoredGroup, shown: Any, topics: TopicsImage) -> Iterator[tuple[str, Any, Any]]:
    yield "state", shown.group_state, _state_of(stored)
    yield "group epoch", shown.group_epoch, stored.group_epoch
    yield "assignment epoch", shown.assignment_epoch, stored.target_epoch
    yield "members", sorted(each.member_id for each in shown.members), sorted(stored.members)
    for each in shown.members:
        member, existing = stored.members[each.member_id], topics.by_id.keys()
        target = stored.targets.get(each.member_id, frozenset())
        yield f"fields of {each.member_id}", _shown_fields(each), _stored_fields(member)
        yield f"assignment of {each.member_id}", _partitions(each.assignment), _existing(member.held, existing)
        yield f"target of {each.member_id}", _partitions(each.target_assignment), _existing(target, existing)


def _shown_fields(shown: Any) -> tuple[Any, ...]:
    return (
        shown.member_epoch,
        shown.instance_id,
        shown.rack_id,
        shown.client_id,
        shown.client_host,
        sorted(shown.subscribed_topic_names),
        shown.subscribed_topic_regex,
        shown.member_type,
    )


def _stored_fields(member: StoredMember) -> tuple[Any, ...]:
    profile = member.profile
    return (
        member.epoch,
        profile.instance_id,
        profile.rack_id,
        profile.client_id,
        profile.client_host,
        sorted(profile.subscribed_topics),
        profile.subscribed_regex,
        CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _state_of(stored: StoredGroup) -> str:
    """Kafka's name of the state that epochs and members make: a target for the group epoch is followed by all
    members."""
    if not stored.members:
        return "Empty"
    if stored.group_epoch > stored.target_epoch:
        return "Assigning"
    is_reconciled = all(
        each.epoch == stored.target_epoch and each.state is ReconciliationState.STABLE
        for each in stored.members.values()
    )
    return "Stable" if is_reconciled else "Reconciling"


def _partitions(assignment: Any) -> list[Partition]:
    topics = assignment.topic_partitions
    return sorted((topic_id_text(each.topic_id), index) for each in topics for index in each.partitions)


def _existing(partitions: Collection[Partition], topic_ids: Any) -> list[Partition]:
    return sorted(each for each in partitions if each[0] in topic_ids)
