"""A group of the consumer protocol becomes a classic one (`convertToClassicGroup`, `ClassicGroup.fromConsumerGroup`).

It does so when its last member of the consumer protocol is gone, and members of the classic protocol stay.
"""

from collections.abc import Collection

from regroup.coordinator.classic.protocol_vote import CONSUMER_PROTOCOL_TYPE, select_protocol, subscribed_topics
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.migration.embedded_protocol import encoded_assignment
from regroup.coordinator.consumer.migration.events import GroupDowngraded
from regroup.coordinator.consumer_group import ConsumerMember, Partitions
from regroup.coordinator.decision import DecisionBuilder
from regroup.coordinator.group import Member, MemberProfile
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.topics import TopicsImage


def may_downgrade(settings: CoordinatorSettings, members: Collection[ConsumerMember]) -> bool:
    """Whether a group with these members may become a classic one: the settings allow it, there are not too many
    members, and all of them use the classic protocol."""
    return (
        settings.group_consumer_migration_policy.allows_downgrade
        and 0 < len(members) <= settings.group_max_size
        and all(member.is_classic for member in members)
    )


def downgrade(decision: DecisionBuilder, topics: TopicsImage, generation_id: int | None = None) -> None:
    """Make the group a classic one, in state Stable. Its generation is `generation_id`, or else the group epoch.

    Each member is assigned its whole share of the target, as in Kafka also partitions that it has not got yet.
    """
    consumer = consumer_of(decision.group)
    described = [classic_member(member) for member in consumer.members.values()]
    protocol_name = select_protocol(described)
    members = tuple(
        assigned_member(member, protocol_name, consumer.targets.get(member.member_id, {}), topics)
        for member in described
    )
    decision.apply(
        GroupDowngraded,
        generation_id=consumer.group_epoch if generation_id is None else generation_id,
        protocol_name=protocol_name,
        leader_id=decision.choose_leader(decision.group.group_id, list(consumer.members)),
        subscribed_topics=subscribed_topics(CONSUMER_PROTOCOL_TYPE, protocol_name, members),
        members=members,
        reason="no member of the consumer protocol remains",
    )
    for member_id in decision.group.members:
        decision.touch_session(member_id)


def classic_member(member: ConsumerMember) -> Member:
    """The member as a classic group describes it, without an assignment."""
    profile, classic = member.profile, member.profile.classic
    assert classic is not None, "only members of the classic protocol go on in a classic group"
    return Member(
        member_id=member.member_id,
        profile=MemberProfile(
            instance_id=profile.instance_id,
            client_id=profile.client_id,
            client_host=profile.client_host,
            session_timeout_ms=classic.session_timeout_ms,
            rebalance_timeout_ms=profile.rebalance_timeout_ms,
            supported_protocols=classic.supported_protocols,
        ),
    )


def assigned_member(member: Member, protocol_name: str, target: Partitions, topics: TopicsImage) -> Member:
    """The member with its share of the target as its assignment, encoded in the version of the member's subscription
    for the assignor `protocol_name`."""
    return Member(
        member_id=member.member_id,
        profile=member.profile,
        assignment=encoded_assignment(target, topics, member.metadata(protocol_name)),
    )
