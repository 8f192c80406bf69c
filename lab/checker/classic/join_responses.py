"""What the JoinGroup responses of classic groups say: who leads, which members the leader gets, and who assigns.

Each invariant gets the checker's state and an exchange, and returns what was found; None if the invariant holds.
"""

from typing import Any

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, GroupState, LogRecordKind
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.errors import ErrorCode


def a_join_response_describes_its_generation(state: object, exchange: ObservedExchange) -> str | None:
    """A JoinGroup response names the generation's protocol and leader, and only the leader gets the members.

    The members come with their subscriptions for that protocol.
    """
    response: Any = exchange.response
    group = exchange.decided_group
    if exchange.error_code != 0 or not group.exists or _waits_for_the_log(exchange):
        return None
    if (response.protocol_type, response.protocol_name) != (group.protocol_type, group.protocol_name):
        return f"it has {response.protocol_name}, the group has {group.protocol_name}"
    if (restarts_in_stable(exchange)) is None and response.leader != group.leader_id:
        return f"it names {response.leader} as the leader, and {group.leader_id} leads"
    due = _members_of(group) if response.leader == response.member_id else {}
    found = {each.member_id: (each.group_instance_id, each.metadata) for each in response.members}
    if found != due:
        return f"it has the members {', '.join(found) or 'none'}; due were {', '.join(due) or 'none'}"
    return None


def a_refused_join_names_no_generation(state: object, exchange: ObservedExchange) -> str | None:
    """A JoinGroup response with an error names no generation, leader or members, and no other member than its own.

    With MEMBER_ID_REQUIRED it names the new member id, in a group of the consumer protocol a shorter one. If Kafka's
    log has refused the new id of a static member that has restarted in Stable, the response names the generation, the
    leader before, and no member; it names nothing if the log has only been too slow.
    """
    response: Any = exchange.response
    command = exchange.command
    assert isinstance(command, c.JoinGroup)
    code = exchange.error_code
    if code == 0:
        return None
    generation_id, leader_id, member_ids = -1, "", ["", command.member_id, command.new_member_id]
    if code == ErrorCode.MEMBER_ID_REQUIRED:
        is_of_consumers = exchange.before.consumer is not None and bool(exchange.before.consumer.members)
        short_id = command.new_short_member_id if is_of_consumers else ""
        member_ids = [short_id or command.new_member_id]
    elif is_refused_by_log(exchange):
        generation_id, leader_id = exchange.before.generation_id, exchange.before.leader_id or ""
        member_ids = [""]
    names_generation = (response.generation_id, response.leader) != (generation_id, leader_id)
    if not names_generation and response.member_id in member_ids and not response.members:
        return None
    return (
        f"it names generation {response.generation_id}, the leader {response.leader!r}, the member "
        f"{response.member_id!r} and {len(response.members)} others; due were generation {generation_id} and "
        f"the leader {leader_id!r}"
    )


def is_refused_by_log(exchange: ObservedExchange) -> bool:
    """Whether a JoinGroup has the error with which Kafka's log refused the replacement of a static member.

    A replacement that has timed out is still pending when the response is decided; one that was refused is not.
    """
    command = exchange.command
    assert isinstance(command, c.JoinGroup)
    decided_group = exchange.decided_group if exchange.after_log is None else exchange.after_log[0]
    return any(
        each.kind is LogRecordKind.STATIC_MEMBER_REPLACEMENT
        and each.member_id == command.new_member_id
        and number not in decided_group.pending_appends
        for number, each in exchange.after.pending_appends.items()
    )


def a_restarted_leader_does_not_assign(state: object, exchange: ObservedExchange) -> str | None:
    """A static leader that has restarted in Stable leads without assigning (KIP-814).

    A client that does not know `skip_assignment` is named its former member id as the leader. No other response has
    `skip_assignment`.
    """
    response: Any = exchange.response
    command = exchange.command
    assert isinstance(command, c.JoinGroup)
    if exchange.error_code != 0 or _waits_for_the_log(exchange):
        return None
    former_id = restarts_in_stable(exchange)
    led = former_id is not None and former_id == exchange.before.leader_id
    if response.skip_assignment != (led and command.supports_skip_assignment):
        return f"skip_assignment is {response.skip_assignment} for {response.member_id}, {_who(led, former_id)}"
    if former_id is None:
        return None
    leader_id = response.member_id if led and command.supports_skip_assignment else exchange.before.leader_id
    if response.leader != leader_id:
        return f"{response.leader} is named as the leader, due was {leader_id}; {_who(led, former_id)}"
    return None


def restarts_in_stable(exchange: ObservedExchange) -> str | None:
    """The former member id of the static member that a JoinGroup has replaced without a rebalance; None for another
    JoinGroup."""
    command = exchange.command
    assert isinstance(command, c.JoinGroup)
    before, response = exchange.before, exchange.response
    is_new_generation = getattr(response, "generation_id", before.generation_id) != before.generation_id
    if command.member_id or exchange.held_under is not None or is_new_generation:
        return None
    if before.state is not GroupState.STABLE:
        return None
    return exchange.before.static_members.get(command.profile.instance_id or "")


def _who(led: bool, former_id: str | None) -> str:
    if former_id is None:
        return "which is no static member that has restarted"
    return f"{former_id} before, which {'led' if led else 'did not lead'}"


def _members_of(group: Group) -> dict[str, tuple[str | None, bytes]]:
    return {
        each: (
            member.profile.instance_id,
            next((p.metadata for p in member.profile.supported_protocols if p.name == group.protocol_name), b""),
        )
        for each, member in group.members.items()
    }


def _waits_for_the_log(exchange: ObservedExchange) -> bool:
    groups = exchange.before, exchange.after, exchange.decided_group
    return any(each.pending_appends or each.consumer is not None for each in groups)
