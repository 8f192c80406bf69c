"""The invariants of a coordinator that a run checks, one function each: of responses, sessions, deadlines and loads.
They hold at every moment, with any faults of clients, disk and network.

One invariant, one function, one sentence. A function returns None if the invariant holds, and otherwise what was found.
Invariants of the stored records alone are in `coordinator.invariants`, where `regroup verify` uses them too.
"""

from collections.abc import Collection
from typing import Any, Final

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, LogRecordKind
from regroup.lab.checker.acknowledgements import OffsetKey
from regroup.lab.checker.classic.join_responses import (
    a_join_response_describes_its_generation,
    a_refused_join_names_no_generation,
    a_restarted_leader_does_not_assign,
)
from regroup.lab.checker.classic.phases import (
    a_join_phase_ends_with_the_last_missing_member,
    a_member_that_has_synced_stays,
)
from regroup.lab.checker.classic.session_deadlines import wrong_session_deadline
from regroup.lab.checker.classic.sessions import early_deadline
from regroup.lab.checker.consumer.rules import INVALID_BY_ITSELF
from regroup.lab.checker.consumer.timeouts import early_expiry, early_revocation_timeout, unstarted_session
from regroup.lab.checker.coordinator_state import CheckerState, ExchangeInvariant
from regroup.lab.checker.exchanges import ExchangeOutcome, ObservedExchange
from regroup.lab.checker.offsets.offset_invariants import (
    deleted_offsets_are_gone,
    offset_fetch_returns_what_is_committed,
    offsets_change_with_a_reason,
    offsets_expire_after_their_retention,
    offsets_of_open_transactions_are_unstable,
    only_subscribed_topics_keep_their_offsets,
)
from regroup.lab.checker.responses.administration import (
    a_deleted_group_is_gone,
    a_group_with_members_is_not_deleted,
    members_that_have_left_are_gone,
)
from regroup.lab.checker.responses.descriptions import a_description_shows_the_stored_group
from regroup.lab.checker.responses.requested_parts import a_response_names_what_was_requested
from regroup.lab.checker.responses.response_table import (
    AFTER_HOLD,
    UNAVAILABLE_ERRORS,
    find_row,
    may_be_held,
    table_violation,
)
from regroup.protocol.consumer.subscription import assigned_partitions
from regroup.protocol.errors import ErrorCode

REMOVED_WHILE_IT_SYNCED: Final = (AwaitedResponse.SYNC, ErrorCode.UNKNOWN_MEMBER_ID)
"""The error that no held SyncGroup gets: that of a member which is removed stays without a response."""
AWAITS_LOG_COMMIT: Final = (c.OffsetCommit, c.TxnOffsetCommit, c.LeaveGroup, c.OffsetDelete)
"""Commands whose success waits until Kafka's log has committed what they wrote."""


def was_unavailable(exchange: ObservedExchange) -> bool:
    """Whether a command got the response of a coordinator that was not serving.

    The coordinator refused every command when this one came, or stopped before the command had its response.
    """
    refusals = (exchange.refusal, exchange.coordinator.refusal)
    if refusals == (None, None):
        return False
    if isinstance(exchange.command, ConsumerGroupHeartbeat) and exchange.error_code in INVALID_BY_ITSELF:
        return True
    is_loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in refusals
    # While it loads, a coordinator accepts every heartbeat.
    accepts = is_loading and isinstance(exchange.command, c.Heartbeat)
    return exchange.error_code in UNAVAILABLE_ERRORS or (accepts and exchange.error_code == 0)


# -- responses


def a_request_has_at_most_one_response(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A request has at most one response."""
    return None if exchange.response_count == 1 else f"{exchange.response_count} responses"


def a_response_waits_until_its_events_are_durable(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A response leaves only when the last position that its group had when it was decided is durable."""
    if exchange.required_position > exchange.durable_position:
        return f"it requires position {exchange.required_position}, position {exchange.durable_position} is durable"
    return None


def a_response_agrees_with_the_store(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """The store holds what a response says when the response leaves.

    The response to a classic heartbeat says nothing of committed offsets, and need not wait for them.
    """
    stored = state.shadow.group(exchange.group_id)
    decided = exchange.decided_group
    if stored.event_number < decided.event_number and not (
        isinstance(exchange.command, c.Heartbeat) and _is_equal_beside_offsets(stored, decided)
    ):
        return f"it was decided after event {decided.event_number}, event {stored.event_number} is stored"
    if exchange.error_code != 0:
        return None
    deleted = state.acknowledgements.deleted_offsets.get(exchange.exchange_number, ())
    return missing_in_store(exchange, exchange.response, stored, deleted)


def _is_equal_beside_offsets(stored: Group, decided: Group) -> bool:
    return stored == replace(decided, committed_offsets=stored.committed_offsets, event_number=stored.event_number)


def a_response_waits_for_the_kafka_log(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A response leaves only when Kafka's own log, where it is delayed, has committed what the response rests on."""
    command, pending_appends = exchange.command, exchange.decided_group.pending_appends
    append_number = exchange.after.last_pending_append
    if not pending_appends or exchange.error_code != 0:
        return None
    if isinstance(command, c.SyncGroup):
        is_pending = any(
            each.kind is LogRecordKind.ASSIGNMENT and each.generation_id == command.generation_id
            for each in pending_appends.values()
        )
        return "the assignment is written and not committed" if is_pending else None
    if isinstance(command, AWAITS_LOG_COMMIT) and append_number is not None:
        append = pending_appends.get(append_number)
        if append is not None and not append.has_timed_out:
            return f"event {append_number} is written and not committed"
    return None


def missing_in_store(
    exchange: ObservedExchange, response: Any, stored: Group, deleted: Collection[OffsetKey] = ()
) -> str | None:
    """Compare a successful response with the stored group: returns what it says and the stored group does not have.

    Returns None if the stored group has everything, such as the committed offsets or the assignment. Offsets of the
    partitions in `deleted` were deleted while Kafka's log delayed the response, and need not be there.
    """
    command, is_latest = exchange.command, stored.event_number == exchange.decided_group.event_number
    match command:
        # A JoinGroup of a group of the consumer protocol gets the member's epoch, also if it makes the group classic.
        case c.JoinGroup() | c.SyncGroup() if stored.consumer is not None or exchange.before.consumer is not None:
            return None
        case c.JoinGroup() if is_latest:
            # While Kafka's log delays the response, the member may leave and the generation may end.
            known = (stored,) if exchange.after_log is None else (stored, exchange.after)
            if not any(
                response.member_id in each.members and response.generation_id == each.generation_id for each in known
            ):
                return f"{response.member_id} in generation {response.generation_id}"
        case c.SyncGroup() if not exchange.decided_group.pending_appends:
            if not stores_assignment(stored, command, response.assignment):
                return f"the assignment of {command.member_id} in generation {command.generation_id}"
        case c.OffsetCommit() if is_latest and exchange.decided_group.exists:
            requested = {(each.topic, each.partition): each.offset for each in command.offsets}
            for topic in response.topics:
                for row in topic.partitions:
                    committed = stored.committed_offset(topic.name, row.partition_index)
                    offset = requested[topic.name, row.partition_index]
                    is_expected = row.error_code == 0 and (topic.name, row.partition_index) not in deleted
                    if is_expected and (committed is None or committed.offset != offset):
                        return f"offset {offset} of {topic.name}-{row.partition_index}"
    return None


def stores_assignment(stored: Group, command: c.SyncGroup, assignment: bytes) -> bool:
    """Whether the stored group has the assignment that a SyncGroup response carries.

    True, too, if the stored group is in a later generation: the assignment of the former one is not kept there.
    """
    if stored.generation_id != command.generation_id:
        return stored.generation_id > command.generation_id
    member = stored.members.get(command.member_id)
    if stored.state is GroupState.STABLE and member is not None:
        return member.assignment == assignment
    metadata = stored.group_metadata
    if metadata is None or metadata.generation_id != command.generation_id:
        return False
    return any(each.member_id == command.member_id and each.assignment == assignment for each in metadata.members)


def a_response_is_in_the_response_table(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A response is one that the state of the group allows."""
    before, held_under = exchange.before, exchange.held_under
    is_removed = held_under is not None and (held_under[0], exchange.error_code) == REMOVED_WHILE_IT_SYNCED
    groups = (before, exchange.after, exchange.decided_group)
    if not is_removed and any(each.pending_appends for each in groups):
        return None  # while Kafka's log has not committed, other responses are allowed
    if held_under is None:
        return table_violation(state.settings, before, exchange.command, exchange.response)
    if exchange.error_code in AFTER_HOLD[held_under[0]]:
        return None
    row = find_row(state.settings, before, exchange.command)
    return f"{row} was held, and then got {ErrorCode.name_of(exchange.error_code)}."


def a_removed_member_does_not_commit(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """No commit is accepted from a member that was removed or fenced in the present coordinator epoch."""
    command = exchange.command
    assert isinstance(command, c.OffsetCommit | c.TxnOffsetCommit)
    if exchange.error_code != 0 or command.generation_id < 0:
        return None
    if command.member_id and command.member_id not in exchange.before.members:
        return f"{command.member_id} is not one of the members {list(exchange.before.members)}"
    removed_in = state.acknowledgements.removed_members.get(command.member_id)
    was_removed_before = state.acknowledgements.removed_by.get(command.member_id, 0) < exchange.exchange_number
    if removed_in == exchange.coordinator_epoch and was_removed_before and command.offsets:
        return f"{command.member_id} was removed in coordinator epoch {removed_in}"
    return None


def a_generation_has_one_leader(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """All JoinGroup responses of a coordinator epoch and generation name the same leader."""
    response: Any = exchange.response
    if exchange.error_code != 0:
        return None
    generation = state.acknowledgements.reported_generation(exchange, response.generation_id)
    before, generation.leader_id = generation.leader_id, response.leader
    removed = state.acknowledgements.removed_members
    if before is None or before == response.leader or before in removed or response.leader in removed:
        return None  # a restarted static leader has another member id; followers may get the former one
    return f"generation {response.generation_id}: {before} is the leader, and so is {response.leader}"


def a_partition_has_one_owner(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """No partition has two owners in a coordinator epoch and generation, if the leader's assignor is sound."""
    response: Any = exchange.response
    command = exchange.command
    assert isinstance(command, c.SyncGroup)
    if exchange.error_code != 0:
        return None
    if response.protocol_type != "consumer" or (command.group_id, command.generation_id) in state.unsound_generations:
        return None
    owners = state.acknowledgements.reported_generation(exchange, command.generation_id).owners
    for partition in assigned_partitions(response.assignment):
        owner = owners.setdefault(partition, command.member_id)
        if owner != command.member_id:
            if owner not in state.acknowledgements.removed_members:
                return f"{partition} is assigned to {command.member_id} and to {owner}"
            owners[partition] = command.member_id
    return None


RESPONSE_INVARIANTS: Final[tuple[ExchangeInvariant, ...]] = (
    a_response_waits_until_its_events_are_durable,
    a_response_agrees_with_the_store,
    a_response_waits_for_the_kafka_log,
    a_response_is_in_the_response_table,
    a_response_names_what_was_requested,
)
"""The invariants that are checked when a response leaves, unless the coordinator is unavailable."""

RESPONSE_INVARIANTS_BY_COMMAND: Final[dict[type[c.Command], tuple[ExchangeInvariant, ...]]] = {
    c.JoinGroup: (
        *RESPONSE_INVARIANTS,
        a_generation_has_one_leader,
        a_join_response_describes_its_generation,
        a_refused_join_names_no_generation,
        a_restarted_leader_does_not_assign,
    ),
    c.SyncGroup: (*RESPONSE_INVARIANTS, a_partition_has_one_owner),
    c.OffsetCommit: (*RESPONSE_INVARIANTS, a_removed_member_does_not_commit),
    c.TxnOffsetCommit: (*RESPONSE_INVARIANTS, a_removed_member_does_not_commit),
    c.DescribeGroup: (*RESPONSE_INVARIANTS, a_description_shows_the_stored_group),
    c.OffsetDelete: (*RESPONSE_INVARIANTS, deleted_offsets_are_gone, only_subscribed_topics_keep_their_offsets),
    c.LeaveGroup: (*RESPONSE_INVARIANTS, members_that_have_left_are_gone),
    c.DeleteGroup: (*RESPONSE_INVARIANTS, a_deleted_group_is_gone),
    c.OffsetFetch: (
        *RESPONSE_INVARIANTS,
        offset_fetch_returns_what_is_committed,
        offsets_of_open_transactions_are_unstable,
    ),
}
"""`RESPONSE_INVARIANTS` and, for each type of command, the invariants of its responses."""

CONSUMER_GROUP_RESPONSE_INVARIANTS: Final[tuple[ExchangeInvariant, ...]] = (
    a_response_waits_until_its_events_are_durable,
    a_response_agrees_with_the_store,
    a_response_waits_for_the_kafka_log,
    a_response_names_what_was_requested,
)
"""The invariants of responses for a group of the consumer protocol. The response table has no rows for it: errors are
judged by `consumer_rules`."""

OFFSET_CHANGE_INVARIANTS: Final[tuple[ExchangeInvariant, ...]] = (
    offsets_change_with_a_reason,
    offsets_expire_after_their_retention,
)
"""The invariants that are checked when a command has changed a group of either protocol."""


def response_invariants(state: CheckerState, exchange: ObservedExchange) -> tuple[ExchangeInvariant, ...]:
    """The invariants that the response of an exchange has to satisfy.

    Held requests are answered with REBALANCE_IN_PROGRESS when a member of the consumer protocol joins, or tries to.
    """
    kind = type(exchange.command)
    is_of_consumers = (
        exchange.before.consumer is not None
        or exchange.after.consumer is not None
        or exchange.decided_group.consumer is not None
    )
    is_refused_by_upgrade = (
        exchange.required_position in state.refused_upgrades
        and exchange.held_under is not None
        and exchange.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    )
    if kind is ConsumerGroupHeartbeat or is_refused_by_upgrade or is_of_consumers:
        if kind is c.OffsetFetch:
            return (
                *CONSUMER_GROUP_RESPONSE_INVARIANTS,
                offset_fetch_returns_what_is_committed,
                offsets_of_open_transactions_are_unstable,
            )
        if kind is c.OffsetDelete:
            return (
                *CONSUMER_GROUP_RESPONSE_INVARIANTS,
                deleted_offsets_are_gone,
                only_subscribed_topics_keep_their_offsets,
            )
        if kind is c.DeleteGroup:
            return (
                *CONSUMER_GROUP_RESPONSE_INVARIANTS,
                a_deleted_group_is_gone,
                a_group_with_members_is_not_deleted,
            )
        if kind is c.JoinGroup:
            return (*CONSUMER_GROUP_RESPONSE_INVARIANTS, a_refused_join_names_no_generation)
        return CONSUMER_GROUP_RESPONSE_INVARIANTS
    return RESPONSE_INVARIANTS_BY_COMMAND.get(kind, RESPONSE_INVARIANTS)


# -- requests without a response


def only_dependent_responses_are_held(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A response is held only where it depends on other members."""
    if exchange.held_under is None or exchange.after.pending_appends or exchange.before.pending_appends:
        return None
    if may_be_held(state.settings, exchange.before, exchange.command):
        return None
    return f"{find_row(state.settings, exchange.before, exchange.command)} in {exchange.before.state} is held"


def an_open_request_gets_its_response(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A request stays without a response only if it was superseded or its connection or coordinator was lost.

    As in Kafka there is one more case: the held SyncGroup of a member that is removed.
    """
    if not exchange.is_open or exchange.outcome is ExchangeOutcome.HELD:
        return None
    return (
        f"its response was decided at position {exchange.required_position}, "
        f"position {state.shadow.position} is durable"
    )


# -- deadlines


def an_active_session_does_not_expire(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A session expires only if the member was not seen within its session timeout and none of its requests is held.

    It counts from the last accepted heartbeat or commit of the member, the last generation, the answer to a held
    SyncGroup, the last load, the restart of a static member in Stable, or a refused upgrade that has refused a held
    request before, and from nothing else.
    """
    command = exchange.command
    assert isinstance(command, c.DeadlinePassed)
    if command.kind is not c.DeadlineKind.SESSION:
        return None
    if exchange.before.consumer is not None:
        last_seen_ms = state.timeouts.last_seen_ms.get(command.member_id)
        return early_expiry(exchange, last_seen_ms, state.timeouts.session_timeout_ms)
    return early_deadline(exchange, state.timeouts.sessions)


def a_session_has_the_deadline_of_its_last_start(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """The deadline of each session in a classic group counts from what last started the session again.

    It is looked at after each request but an accepted heartbeat; in groups of more than 7 members not after each.
    """
    return wrong_session_deadline(exchange, state.timeouts.sessions)


def a_commit_starts_no_session_of_a_consumer_group(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """In a group of the consumer protocol a commit does not start the session timeout of its member again."""
    return state.timeouts.heartbeats.on_command(exchange)


def an_upgrade_starts_all_sessions_again(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """When a classic group becomes one of the consumer protocol, the sessions of all its members begin again."""
    return unstarted_session(exchange)


def a_deadline_does_not_pass_early(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A pending member id, a new member and a sync phase have their whole timeout.

    These are the session timeout, five minutes, and the longest rebalance timeout.
    """
    command = exchange.command
    assert isinstance(command, c.DeadlinePassed)
    if command.kind is c.DeadlineKind.SESSION or exchange.before.consumer is not None:
        return None
    return early_deadline(exchange, state.timeouts.sessions)


def a_member_has_its_rebalance_timeout_to_revoke(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A member of the consumer protocol has its rebalance timeout to give up partitions, from each step on."""
    command = exchange.command
    assert isinstance(command, c.DeadlinePassed)
    if command.kind is not c.DeadlineKind.REVOCATION:
        return None
    member = state.consumer_groups.group(exchange.group_id).stored.members.get(command.member_id)
    return early_revocation_timeout(exchange, member.revokes_since_ms if member else 0)


def a_join_phase_keeps_static_members(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """The end of a join phase removes no static member (KIP-345)."""
    command = exchange.command
    assert isinstance(command, c.DeadlinePassed)
    if command.kind is not c.DeadlineKind.JOIN_PHASE:
        return None
    removed = [each for each in exchange.before.static_members.values() if each not in exchange.after.members]
    return f"{', '.join(removed)} did not join again in time" if removed else None


def no_deadline_is_missed(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """Every session, join phase, sync phase and pending join member ends when its timeout expires.

    A new member has five minutes for its first join phase, a member of the consumer protocol its rebalance timeout to
    give up partitions.
    """
    return next(state.timeouts.overdue(exchange.before, state.now_ms()), None)


DEADLINE_INVARIANTS: Final[tuple[ExchangeInvariant, ...]] = (
    an_active_session_does_not_expire,
    a_deadline_does_not_pass_early,
    a_member_has_its_rebalance_timeout_to_revoke,
    a_join_phase_keeps_static_members,
    a_member_that_has_synced_stays,
    no_deadline_is_missed,
)
"""The invariants that are checked when a deadline has passed."""

COMMAND_INVARIANTS: Final[tuple[ExchangeInvariant, ...]] = (
    a_session_has_the_deadline_of_its_last_start,
    a_commit_starts_no_session_of_a_consumer_group,
    an_upgrade_starts_all_sessions_again,
    a_join_phase_ends_with_the_last_missing_member,
)
"""The invariants that are checked after each command."""
