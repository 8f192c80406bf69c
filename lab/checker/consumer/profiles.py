"""Whether members of the consumer protocol (KIP-848) are stored as they have described themselves."""

from typing import Any

from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.consumer.groups import ConsumerGroups
from regroup.lab.checker.exchanges import ObservedExchange


def a_member_is_stored_as_it_describes_itself(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A member is stored as its heartbeats describe it: what a heartbeat leaves out stays what it was before.

    The session timeout is that of the broker.
    """
    command, response = exchange.command, exchange.response
    assert isinstance(command, ConsumerGroupHeartbeat)
    group = groups.group(exchange.group_id)
    stored = group.stored.members.get(getattr(response, "member_id", None) or command.member_id)
    if command.member_epoch < 0 or stored is None:
        return None
    for name, said in _described(command, settings).items():
        if said is None and group.before is None:
            continue  # a process that replaces a static member has what that one has said
        due = getattr(group.before.profile, name) if said is None and group.before else said
        if (found := getattr(stored.profile, name)) != due:
            return f"{command.member_id} has {name} {found!r}, and has said {due!r}"
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
