"""Whether members of the consumer protocol (KIP-848) are stored as they have described themselves."""

from typing import Any

from regroup.coordinator.commands import JoinGroup
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.consumer.groups import ConsumerGroups, KnownGroup
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, decode_subscription


def a_member_is_stored_as_it_describes_itself(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A member is stored as its heartbeats describe it: what a heartbeat leaves out stays what it was before.

    The session timeout is that of the broker.
    """
    command, response = exchange.command, exchange.response
    assert isinstance(command, ConsumerGroupHeartbeat)
    if command.member_epoch < 0:
        return None
    member_id = getattr(response, "member_id", None) or command.member_id
    return _unlike_stored(groups.group(exchange.group_id), member_id, _described(command, settings))


def a_classic_member_is_stored_as_it_describes_itself(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A classic member in a group of the consumer protocol is stored as its last JoinGroup describes it.

    A rack that its subscription does not name stays what it was before; it has no pattern.
    """
    command, group = exchange.command, groups.group(exchange.group_id)
    if not isinstance(command, JoinGroup) or not group.stored.is_consumer:
        return None
    said: Any = exchange.response
    profile = command.profile
    try:
        subscription = decode_subscription(profile.supported_protocols[0].metadata)
    except MalformedConsumerProtocol:
        return None
    return _unlike_stored(
        group,
        said.member_id,
        {
            "instance_id": profile.instance_id,
            "rack_id": subscription.rack_id or None,
            "client_id": profile.client_id,
            "client_host": profile.client_host,
            "rebalance_timeout_ms": None if profile.rebalance_timeout_ms == -1 else profile.rebalance_timeout_ms,
            "session_timeout_ms": profile.session_timeout_ms,
            "subscribed_topics": tuple(sorted(set(subscription.topics))),
            "subscribed_regex": "",
        },
    )


def _unlike_stored(group: KnownGroup, member_id: str, described: dict[str, Any]) -> str | None:
    """Which field of a member is stored otherwise than described, where None stands for what is left out; None if
    there is no such field, or no such member."""
    stored = group.stored.members.get(member_id)
    if stored is None:
        return None
    for name, said in described.items():
        if said is None and group.before is None:
            continue  # a process that replaces a static member has what that one has said
        due = getattr(group.before.profile, name) if said is None and group.before else said
        if (found := getattr(stored.profile, name)) != due:
            return f"{member_id} has {name} {found!r}, and has said {due!r}"
    return None


def _described(command: ConsumerGroupHeartbeat, settings: CoordinatorSettings) -> dict[str, Any]:
    """What a heartbeat says of its member, by the fields of a stored member; None for what it leaves out."""
    topics, timeout_ms = command.subscribed_topics, command.rebalance_timeout_ms
    return {
        "instance_id": command.instance_id,
        "rack_id": command.rack_id,
        "client_id": command.client_id,
        "client_host": command.client_host,
        "rebalance_timeout_ms": None if timeout_ms == -1 else timeout_ms,
        "session_timeout_ms": settings.group_consumer_session_timeout_ms,
        "subscribed_topics": None if topics is None else tuple(sorted(set(topics))),
        "subscribed_regex": command.subscribed_regex,
        "server_assignor": command.server_assignor,
    }
