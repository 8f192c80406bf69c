"""When the session of each member ends, as far as its requests were recorded.

A heartbeat starts the session timeout again and leads to no event. With recorded exchanges the last time at which a
member was seen is known, and with it the deadline that the coordinator had at any moment.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from regroup.classroom.kinds import AnyMember, joined_at_ms, session_deadline
from regroup.classroom.recorded_values import ExchangeFate, TimelineExchange
from regroup.classroom.timeline import ArmedDeadline, GroupTimeline, MemberSession
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.group import MemberId

SEEN_WITH: Final = {
    "Heartbeat": frozenset({"NONE", "REBALANCE_IN_PROGRESS"}),
    "ConsumerGroupHeartbeat": frozenset({"NONE"}),
    "OffsetCommit": frozenset({"NONE", "OFFSET_METADATA_TOO_LARGE"}),
}
"""The requests that start a session timeout again without an event, each with the answers to those that did."""
WHAT_FOLLOWS: Final = {
    DeadlineKind.SESSION: "the member is removed, and the others rebalance",
    DeadlineKind.NEW_MEMBER_JOIN: "the member is removed, because no join phase was completed in five minutes",
}


class SessionsAtMoment(NamedTuple):
    """The deadlines of all members at one moment, the earliest first.

    A member whose JoinGroup or SyncGroup is held has none, unless it is new.
    """

    deadlines: tuple[ArmedDeadline, ...]
    not_recorded: tuple[MemberId, ...]
    """Members whose session timeout runs, while it was not recorded when it started last."""


class SeenTimes(NamedTuple):
    """When requests of a member came that started its session timeout again, in epoch milliseconds and in order."""

    certain: list[int]
    possible: list[tuple[int, int]]
    """Times between which one may have come: inside of a run of which not every time is known, or one whose answer is
    not known."""


class SessionClocks:
    """Computes the session deadlines of one group's members at any moment of its timeline, from recorded requests."""

    def __init__(self, timeline: GroupTimeline) -> None:
        self._timeline = timeline
        self._processes = [first_epoch for first_epoch, _ in timeline.recorded.processes]
        self._seen: dict[tuple[MemberId, int], SeenTimes] = defaultdict(lambda: SeenTimes([], []))
        """By member id and first coordinator epoch of the process that the requests came to: the clock of a later
        process may be behind that of the one before."""
        for exchange in timeline.exchanges:
            if exchange.member_id and exchange.api in SEEN_WITH and exchange.arrived_at_ms is not None:
                _add(
                    self._seen[exchange.member_id, self._process_of(epoch_of_connection(exchange.connection))], exchange
                )
        for times in self._seen.values():
            times.certain.sort()
            times.possible.sort()

    def at(self, position: int, at_ms: int | None = None) -> SessionsAtMoment:
        """The session deadlines after the event at a position, at a time before the next event.

        By default this time `at_ms` is that of the event itself.
        """
        moment = self._timeline.moment_at(position)
        if moment is None:
            return SessionsAtMoment((), ())
        now_ms = moment.at_ms if at_ms is None else at_ms
        found: list[ArmedDeadline] = []
        unknown: list[MemberId] = []
        for member_id in moment.members:
            session = self._timeline.sessions[member_id]
            member = self._timeline.member_at(member_id, position)
            if member is None or session_deadline(member, 0) is None:
                continue
            process = self._process_of(moment.coordinator_epoch)
            last_seen_ms, uncertain_ms = self._last_seen(member, session, position, now_ms, process)
            is_known = self._timeline.recorded.is_complete(moment.coordinator_epoch, last_seen_ms) and not (
                self._timeline.is_trimmed and last_seen_ms < self._timeline.began.at_ms
            )
            deadline = session_deadline(member, last_seen_ms)
            if not is_known:
                unknown.append(member_id)
            elif deadline is not None:
                found.append(
                    ArmedDeadline(
                        kind=deadline.kind,
                        at_ms=deadline.at_ms,
                        member_id=member_id,
                        follows=WHAT_FOLLOWS[deadline.kind],
                        uncertain_ms=uncertain_ms,
                    )
                )
        return SessionsAtMoment(tuple(sorted(found, key=lambda each: each.at_ms)), tuple(unknown))

    def _process_of(self, coordinator_epoch: int) -> int:
        """The first coordinator epoch of the process that has this one; 0 if no process is known that began before."""
        return max((each for each in self._processes if each <= coordinator_epoch), default=0)

    def _last_seen(
        self, member: AnyMember, session: MemberSession, position: int, now_ms: int, process: int
    ) -> tuple[int, int]:
        """When a member's session timeout last started, and by how many milliseconds it may have started later.

        `process` is the process that had the group then: as it begins it loads the group, by which all sessions start.
        The second value is not 0 if requests came whose exact times were not recorded.
        """
        started = bisect_right(session.started, position, key=lambda each: each.position)
        by_event_ms = session.started[started - 1].at_ms if started else joined_at_ms(member)
        times = self._seen.get((member.member_id, process), SeenTimes([], []))
        seen = bisect_right(times.certain, now_ms)
        last_seen_ms = max(by_event_ms, times.certain[seen - 1] if seen else 0)
        possible = (min(until_ms, now_ms) for since_ms, until_ms in times.possible if since_ms <= now_ms)
        return last_seen_ms, max(0, max(possible, default=0) - last_seen_ms)


def epoch_of_connection(connection: str) -> int:
    """The first coordinator epoch of the process that had a connection, from its name, such as `0-3@7`."""
    return int(connection.rpartition("@")[2])


def _add(times: SeenTimes, exchange: TimelineExchange) -> None:
    known = exchange.seen_ms or (exchange.at_ms,)
    is_by_rule = exchange.fate is ExchangeFate.LATE and exchange.reason.startswith("fault rule")
    if not exchange.error:
        if exchange.fate is not ExchangeFate.REQUEST_LOST:
            times.possible.append((exchange.at_ms, exchange.ended_at_ms))
    elif exchange.error in SEEN_WITH[exchange.api]:
        if is_by_rule and exchange.answered_at_ms is not None:
            times.possible.append((exchange.at_ms, exchange.answered_at_ms))
            known = (exchange.answered_at_ms,)
        times.certain.extend(known)
        if len(known) < exchange.count:
            times.possible.extend(_between(known))


def _between(known: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield, for a run of heartbeats, the intervals between known times, in which further ones may have come."""
    yield from ((before + 1, after - 1) for before, after in pairwise(known) if after - before > 1)
