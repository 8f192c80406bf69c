"""Draws which plans of the swarm have groups of the consumer protocol (KIP-848), or groups with members of both.

    protocols = draw_protocols(random_stream("group protocol"), members)

It has a random stream of its own: the plan of a seed that stays classic is what it was before there was a choice.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from regroup.lab.plan.plan import MemberPlan, PlannedStep
from regroup.lab.plan.steps import TopicIsCreated
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CONSUMER

CONSUMER_SHARE: Final = 1 / 6
"""The share of plans that have members of the consumer protocol."""
MIXED_SHARE: Final = 0.4
"""The share of these plans in which each member draws its protocol."""
PATTERN_SHARE: Final = 1 / 2
"""The share of plans with the consumer protocol in which members subscribe to patterns (RE2)."""
CONSUMER_FAULTS: Final = ((), (), (), ("slow-join:5s",), ("slow-revoke:2s",), ("slow-revoke:20s",))
CONSUMER_APIS: Final = ("ConsumerGroupHeartbeat", "ConsumerGroupHeartbeat", "OffsetCommit", "OffsetFetch")
"""The requests that a member of the consumer protocol sends, for faults by which one is lost."""
SHORT_SESSION_MS: Final = 10_000
SESSION_SETTINGS: Final = ("group.consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms")
MIGRATION_POLICY: Final = "group.consumer.migration.policy"
POLICY_SHARE: Final = 1 / 12
"""The share of plans whose setting of this name is drawn. Only classic groups have one."""
SLOW_REVOKER_SHARE: Final = 1 / 4
"""The share of plans with the consumer protocol in which a member does not give up its partitions in time."""
SLOW_REVOKER_TIMEOUT_MS: Final = 30_000
SLOW_REVOKER_FAULTS: Final = ("slow-revoke:45s",)
"""Longer than the rebalance timeout of such a member, which is its `max.poll.interval.ms`."""


def draw_protocols(
    rng: Random, members: Mapping[str, MemberPlan], share: float = CONSUMER_SHARE
) -> dict[str, MemberPlan]:
    """The members with the protocols that are drawn for them; by default all are classic in five plans of six.

    A member of the consumer protocol has no assignor and its own instance id: a process whose instance id another one
    has would ask for ever to be let in.
    """
    if rng.random() >= share:
        return dict(members)
    classic_share = 0.5 if rng.random() < MIXED_SHARE else 0.0
    return {
        name: _with_own_instance_id(name, each)
        if rng.random() < classic_share
        else replace(_with_own_instance_id(name, each), protocol=CONSUMER, faults=rng.choice(CONSUMER_FAULTS))
        for name, each in members.items()
    }


def draw_patterns(rng: Random, members: Mapping[str, MemberPlan]) -> dict[str, MemberPlan]:
    """The members, some of them with a pattern in place of topics: in half of the plans, half of those with the
    consumer protocol.

    A pattern matches the topics of its member, or one of them and all whose names begin alike.
    """
    if rng.random() >= PATTERN_SHARE:
        return dict(members)
    return {
        name: replace(each, pattern=draw_pattern(rng, each.topics))
        if each.protocol == CONSUMER and rng.random() < 0.5
        else each
        for name, each in members.items()
    }


def draw_pattern(rng: Random, topics: Sequence[str]) -> str:
    """Draw a pattern that matches these topics, or one of them and all whose names begin alike."""
    return rng.choice(("|".join(topics), f"{rng.choice(topics)}.*"))


def draw_new_topics(rng: Random, members: Mapping[str, MemberPlan], duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps in which topics are created that a pattern of these members may match: one or two, if there is
    any pattern."""
    topics = [topic for each in members.values() if each.pattern for topic in each.topics]
    for number in range(rng.randint(1, 2)) if topics else ():
        created = TopicIsCreated(f"{rng.choice(topics)}-{number + 2}", rng.randint(1, 4))
        yield PlannedStep(StepTrigger(delay_ms=rng.randrange(duration_ms) // 100 * 100), created)


def draw_slow_revoker(rng: Random, members: Mapping[str, MemberPlan]) -> dict[str, MemberPlan]:
    """The members, in few plans one of the consumer protocol with a rebalance timeout within which it does not give up
    its partitions."""
    names = [name for name, each in members.items() if each.protocol == CONSUMER]
    slow = rng.choice(names) if names and rng.random() < SLOW_REVOKER_SHARE else None
    return {
        name: replace(each, max_poll_interval_ms=SLOW_REVOKER_TIMEOUT_MS, faults=SLOW_REVOKER_FAULTS)
        if name == slow
        else each
        for name, each in members.items()
    }


def draw_migration_policy(rng: Random, members: Mapping[str, MemberPlan], release: str) -> dict[str, str | int]:
    """Draw the broker setting that says whether groups change their protocol, in few plans of classic groups; their
    brokers know the consumer protocol. Most refuse a change."""
    if rng.random() >= POLICY_SHARE or release or has_consumer_protocol(members):
        return {}
    return {MIGRATION_POLICY: rng.choice(("disabled", "disabled", "downgrade", "bidirectional"))}


def has_consumer_protocol(members: Mapping[str, MemberPlan]) -> bool:
    return any(each.protocol == CONSUMER for each in members.values())


def is_mixed(members: Mapping[str, MemberPlan]) -> bool:
    """Whether there are members of both protocols."""
    return has_consumer_protocol(members) and any(each.protocol != CONSUMER for each in members.values())


def draw_consumer_settings(rng: Random) -> dict[str, str | int]:
    """Draw the broker settings of groups of the consumer protocol: the session timeout is Kafka's default, or a short
    one."""
    if rng.random() < 0.5:
        return {}
    return dict.fromkeys(SESSION_SETTINGS, SHORT_SESSION_MS)


def _with_own_instance_id(name: str, planned: MemberPlan) -> MemberPlan:
    return planned if planned.instance_id is None else replace(planned, instance_id=f"{name}-1")
