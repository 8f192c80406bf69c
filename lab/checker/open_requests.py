"""Requests that have no answer yet: who is parked, who waits for a log, and who should have been answered by now."""

from collections.abc import Callable, Iterator

from regroup.coordinator import commands as c
from regroup.coordinator.decision import Place
from regroup.coordinator.group import Group, Waiting
from regroup.lab.checker.exchanges import Exchange, Outcome


class StillOpen:
    """Of all coordinators of a run."""

    def __init__(self) -> None:
        self._parked: dict[str, dict[Place, Exchange]] = {}
        self._behind: dict[str, list[tuple[int, Exchange]]] = {}
        self._due: list[Exchange] = []

    def takes(self, exchange: Exchange) -> None:
        """A command was dealt with and has no answer: it is parked, or waits for Kafka's log or for the disk."""
        place = place_of(exchange)
        if place is not None and is_parked(exchange.after, place):
            exchange.place = place
            exchange.outcome = Outcome.WAITING
            parked = self._parked.setdefault(exchange.group_id, {})
            self._supersede(parked.get(place))
            parked[place] = exchange
        elif (append := exchange.after.last_append) is not None:
            self._behind.setdefault(exchange.group_id, []).append((append, exchange))
        else:
            self._due.append(exchange)

    def releases(self, exchange: Exchange) -> None:
        """A command has changed its group: whoever is not parked any more must be answered once that is durable."""
        if exchange.group_id in self._behind:
            self._release_those_behind(exchange)
        parked = self._parked.get(exchange.group_id)
        if not parked:
            return
        place = place_of(exchange)
        if place is not None:
            self._supersede(parked.get(place))
        if has_moved_on(exchange.before, exchange.after):
            for place, waiting in list(parked.items()):
                if not is_parked(exchange.after, place):
                    del parked[place]
                    self._release(waiting, exchange)

    def _release_those_behind(self, exchange: Exchange) -> None:
        """Kafka's log has settled a record, or took too long: whoever waited for it is answered."""
        appends, waiting = exchange.after.appends, self._behind.pop(exchange.group_id)
        for append, each in waiting:
            if append in appends and not appends[append].is_late:
                self._behind.setdefault(exchange.group_id, []).append((append, each))
            else:
                each.caught_up = exchange.after, exchange.position
                self._falls_due(each)

    def _release(self, waiting: Exchange, by: Exchange) -> None:
        if waiting.place is None or not waiting.is_open:
            waiting.rests_on(by.after, by.position)
            return
        answer, name = waiting.place
        if answer is Waiting.SYNC and name not in by.after.members and not was_replaced(waiting, by.after):
            waiting.outcome = Outcome.REMOVED
        else:
            self._decide(waiting, by)

    def _decide(self, waiting: Exchange, by: Exchange) -> None:
        """Its answer is made now, and leaves once it is durable; if somebody is still there to hear it."""
        waiting.rests_on(by.after, by.position)
        self._falls_due(waiting)

    def _falls_due(self, waiting: Exchange) -> None:
        if waiting.is_open:
            waiting.outcome = Outcome.OPEN
            self._due.append(waiting)

    def _supersede(self, waiting: Exchange | None) -> None:
        if waiting is not None and waiting.is_open:
            waiting.outcome = Outcome.SUPERSEDED

    def overdue(self, position: int) -> Iterator[Exchange]:
        """Those whose answers rested on this position or an earlier one, and have not come. Each is named once."""
        due, self._due = self._due, []
        for exchange in due:
            if exchange.is_open:
                if exchange.due_position <= position:
                    yield exchange
                else:
                    self._due.append(exchange)

    def ends(self, outcome: Outcome, where: Callable[[Exchange], bool]) -> None:
        """For these there will be no answer, and none is missed."""
        everybody = [
            *self._due,
            *(each for parked in self._parked.values() for each in parked.values()),
            *(each for behind in self._behind.values() for _, each in behind),
        ]
        for exchange in everybody:
            if exchange.is_open and where(exchange):
                exchange.outcome = outcome


def place_of(exchange: Exchange) -> Place | None:
    """Where a request would be parked, if it was."""
    command = exchange.command
    if isinstance(command, c.JoinGroup):
        return Waiting.JOIN, command.member_id or command.new_member_id
    if isinstance(command, c.SyncGroup):
        return Waiting.SYNC, command.member_id
    return None


def is_parked(group: Group, place: Place) -> bool:
    member = group.members.get(place[1])
    return member is not None and member.waiting is place[0]


def has_moved_on(before: Group, after: Group) -> bool:
    """Whether somebody's wait may be over: nobody is let go while others merely arrive."""
    return (
        before.state is not after.state
        or before.generation != after.generation
        or len(after.members) < len(before.members)
    )


def was_replaced(waiting: Exchange, group: Group) -> bool:
    """A static member's place was taken by another process; the old one is told so."""
    assert waiting.place is not None
    member = waiting.after.members.get(waiting.place[1])
    return member is not None and member.instance_id in group.static_members
