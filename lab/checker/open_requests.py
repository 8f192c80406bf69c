"""Requests without a response: held ones, ones that wait for Kafka's log, and ones whose response has to come next."""

from collections.abc import Callable, Iterator

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.decision import ResponseKey
from regroup.coordinator.group import AwaitedResponse, Group
from regroup.lab.checker.exchanges import ExchangeOutcome, ObservedExchange


class OpenRequests:
    """The requests of a run, of all coordinators, whose responses have not left yet, and what each of them waits
    for."""

    def __init__(self) -> None:
        self._held: dict[str, dict[ResponseKey, ObservedExchange]] = {}
        self._awaiting_log: dict[str, list[tuple[int, ObservedExchange]]] = {}
        """By group id, the requests that wait for Kafka's log, each with the number of its pending append."""
        self._due: list[ObservedExchange] = []

    def add(self, exchange: ObservedExchange) -> None:
        """Add a command that was handled and has no response: it is held, or waits for Kafka's log or the store."""
        key = response_key(exchange)
        if key is not None and is_held(exchange.after, key):
            exchange.held_under = key
            exchange.outcome = ExchangeOutcome.HELD
            held = self._held.setdefault(exchange.group_id, {})
            _supersede(held.get(key))
            held[key] = exchange
        elif (append_number := exchange.after.last_pending_append) is not None and may_await_log(exchange):
            self._awaiting_log.setdefault(exchange.group_id, []).append((append_number, exchange))
        else:
            self._due.append(exchange)

    def on_group_change(self, exchange: ObservedExchange) -> None:
        """Find held requests that the group does not hold any more after a command.

        Each of them must get its response as soon as the change of the group is durable.
        """
        if exchange.group_id in self._awaiting_log:
            self._release_after_log(exchange)
        held = self._held.get(exchange.group_id)
        if not held:
            return
        key = response_key(exchange)
        if key is not None:
            _supersede(held.get(key))
        # A heartbeat that a classic group refuses since it cannot change its protocol releases SyncGroups all the same.
        is_refused_upgrade = isinstance(exchange.command, ConsumerGroupHeartbeat)
        if is_refused_upgrade or may_have_released(exchange.before, exchange.after):
            for key, request in list(held.items()):
                if not is_held(exchange.after, key):
                    del held[key]
                    self._release(request, exchange)

    def _release_after_log(self, exchange: ObservedExchange) -> None:
        """Note that an append to Kafka's own log was completed or timed out: requests that waited for it must get
        responses."""
        pending_appends, requests = exchange.after.pending_appends, self._awaiting_log.pop(exchange.group_id)
        for append_number, request in requests:
            if append_number in pending_appends and not pending_appends[append_number].has_timed_out:
                self._awaiting_log.setdefault(exchange.group_id, []).append((append_number, request))
            else:
                request.after_log = exchange.after, exchange.required_position
                self._make_due(request)

    def _release(self, request: ObservedExchange, by: ObservedExchange) -> None:
        assert request.held_under is not None
        awaited, member_id = request.held_under
        is_removed = (
            by.after.consumer is None  # a group that was upgraded has its members there
            and member_id not in by.after.members
            and not member_was_replaced(request, by.after)
        )
        if request.is_open and awaited is AwaitedResponse.SYNC and is_removed:
            request.outcome = ExchangeOutcome.MEMBER_REMOVED
            return
        request.require(by.after, by.required_position)
        self._make_due(request)

    def _make_due(self, request: ObservedExchange) -> None:
        if request.is_open:
            request.outcome = ExchangeOutcome.OPEN
            self._due.append(request)

    def overdue(self, position: int) -> Iterator[ObservedExchange]:
        """Yield, once each, the requests that should have got a response, since the store is durable up to
        `position`."""
        due, self._due = self._due, []
        for exchange in due:
            if exchange.is_open:
                if exchange.due_position <= position:
                    yield exchange
                else:
                    self._due.append(exchange)

    def close(self, outcome: ExchangeOutcome, where: Callable[[ObservedExchange], bool]) -> None:
        """Give this outcome to all open requests for which `where` is true: their responses are no longer expected."""
        requests = [
            *self._due,
            *(each for held in self._held.values() for each in held.values()),
            *(each for waiting in self._awaiting_log.values() for _, each in waiting),
        ]
        for exchange in requests:
            if exchange.is_open and where(exchange):
                exchange.outcome = outcome


def response_key(exchange: ObservedExchange) -> ResponseKey | None:
    """The key under which a coordinator would hold the response; None for a command whose response is never held."""
    command = exchange.command
    if isinstance(command, c.JoinGroup):
        return AwaitedResponse.JOIN, command.member_id or command.new_member_id
    if isinstance(command, c.SyncGroup):
        return AwaitedResponse.SYNC, command.member_id
    return None


def may_await_log(exchange: ObservedExchange) -> bool:
    """Whether the response may wait for Kafka's log.

    The others wait for the store alone: those that only read, and that of a JoinGroup that ends a join phase of a
    classic group. One that makes a classic group of a group of the consumer protocol ends no such phase, though the
    generation is another.
    """
    command, before, after = exchange.command, exchange.before, exchange.after
    if isinstance(command, c.OffsetFetch):
        return command.require_stable
    ends_join_phase = isinstance(command, c.JoinGroup) and after.generation_id != before.generation_id
    is_classic = before.consumer is None and after.consumer is None
    return not isinstance(command, c.DescribeGroup) and not (ends_join_phase and is_classic)


def is_held(group: Group, key: ResponseKey) -> bool:
    """Whether the group holds the response to a JoinGroup or SyncGroup of the member that the key names."""
    awaited, member_id = key
    member = group.members.get(member_id)
    return member is not None and member.awaiting is awaited


def may_have_released(before: Group, after: Group) -> bool:
    """Whether the group may have released held responses between two of its states: not if members were only added.

    A static member that is replaced leaves the number of members as it was.
    """
    static, former = after.static_members, before.static_members
    return (
        before.state is not after.state
        or before.generation_id != after.generation_id
        or len(after.members) < len(before.members)
        or (static is not former and len(static) == len(former))
    )


def member_was_replaced(request: ObservedExchange, group: Group) -> bool:
    """Whether another process with the same group instance id has replaced the static member that sent the request."""
    assert request.held_under is not None
    member = request.after.members.get(request.held_under[1])
    return member is not None and member.instance_id in group.static_members


def _supersede(request: ObservedExchange | None) -> None:
    if request is not None and request.is_open:
        request.outcome = ExchangeOutcome.SUPERSEDED
