"""Makes notices of refused requests: of each kind the first at once, and then one with a count every ten seconds.

A kind is a group, an API and an error code. Members that are refused in a loop, or a program that invents group ids,
thus make few notices: at most MAX_KINDS kinds are distinguished in an interval, and all others are counted together.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from regroup.coordinator.runtime.logger import get_logger
from regroup.protocol.message import Message
from regroup.protocol.messages.group import HeartbeatResponse
from regroup.server.net.exchange import Exchange
from regroup.server.refusals.finding import Refusal, refusals_of

NOTICE_INTERVAL_S: Final = 10.0
"""Seconds between two notices of one kind."""
MAX_KINDS: Final = 20
"""How many kinds are distinguished in one interval; refusals of further kinds are counted together."""
MAX_SENDERS: Final = 3
"""How many members a notice with a count names."""

log = get_logger("refusals")


@dataclass(frozen=True, slots=True)
class RefusalNotice:
    """A notice of `count` refused requests, of which `last` is the latest. If `is_one_kind` is True, all have the same
    group, API and error code. `told_at_ms` is when the notice was made, which may be ten seconds after `last`."""

    last: Refusal
    told_at_ms: int
    count: int = 1
    senders: tuple[str, ...] = ()
    """Some of the members that were refused; empty for a single refusal."""
    is_one_kind: bool = True


@dataclass(slots=True)
class _Tally:
    """Counts the refusals of one kind (group, API, error code) that no notice contains yet."""

    last: Refusal
    count: int = 0
    senders: dict[str, None] = field(default_factory=dict)

    def add(self, refusal: Refusal) -> None:
        self.last = refusal
        self.count += 1
        if len(self.senders) < MAX_SENDERS:
            self.senders[refusal.sender] = None

    def notice(self, told_at_ms: int, *, is_one_kind: bool) -> RefusalNotice:
        return RefusalNotice(self.last, told_at_ms, self.count, tuple(self.senders), is_one_kind)


class RefusalNotices:
    """An observer of exchanges that makes notices of refused requests. Each function in `listeners` is called with each
    notice, and each notice is logged at level debug.

    At level info the log has at most one line in ten seconds, with the number of refusals.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.listeners: list[Callable[[RefusalNotice], object]] = []
        self._kinds: dict[tuple[str, str, str], _Tally] = {}
        self._others: _Tally | None = None
        self._interval_count = 0
        self._interval_errors: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, exchange: Exchange, response: Message | None) -> None:
        if type(response) is HeartbeatResponse and not response.error_code:
            return  # most exchanges are accepted heartbeats
        for refusal in refusals_of(exchange, response, self._now_ms):
            self.add(refusal)

    def add(self, refusal: Refusal) -> None:
        """Count a refusal, and make a notice at once if it is the first of its kind."""
        self._interval_count += 1
        what = f"{refusal.api} {refusal.error}"
        if what in self._interval_errors or len(self._interval_errors) < MAX_KINDS:
            self._interval_errors[what] = self._interval_errors.get(what, 0) + 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(NOTICE_INTERVAL_S, self._end_interval)
        kind = (refusal.group_id, refusal.api, refusal.error)
        tally = self._kinds.get(kind)
        if tally is not None:
            tally.add(refusal)
        elif len(self._kinds) < MAX_KINDS:
            self._kinds[kind] = _Tally(refusal)
            self._tell(RefusalNotice(refusal, refusal.at_ms))
        else:
            if self._others is None:
                self._others = _Tally(refusal)
            self._others.add(refusal)

    def close(self) -> None:
        """Make notices of the refusals that have been counted since the last notices, and make no more after them."""
        if self._timer is not None:
            self._timer.cancel()
            self._tell_counts()
            self._kinds.clear()

    def _end_interval(self) -> None:
        """Make notices of the refusals that were counted during this interval. If requests of any kind were refused
        repeatedly, begin another interval."""
        repeated = {kind: tally for kind, tally in self._kinds.items() if tally.count}
        self._tell_counts()
        self._kinds = {kind: _Tally(tally.last) for kind, tally in repeated.items()}
        self._timer = None
        if repeated:
            self._timer = asyncio.get_running_loop().call_later(NOTICE_INTERVAL_S, self._end_interval)

    def _tell_counts(self) -> None:
        now_ms = self._now_ms()
        for tally in self._kinds.values():
            if tally.count:
                self._tell(tally.notice(now_ms, is_one_kind=True))
        if self._others is not None:
            self._tell(self._others.notice(now_ms, is_one_kind=False))
            self._others = None
        if self._interval_count:
            most = sorted(self._interval_errors.items(), key=lambda each: -each[1])
            errors = ", ".join(f"{count} × {what}" for what, count in most)
            log.info("requests-refused", count=self._interval_count, errors=errors)
            self._interval_count, self._interval_errors = 0, {}

    def _tell(self, notice: RefusalNotice) -> None:
        last = notice.last
        what = {
            "group": last.group_id,
            "api": last.api,
            "error": last.error,
            "member": last.member_id,
            "instance": last.group_instance_id,
            "client": last.client_id,
            "generation": last.generation_id,
            "connection": last.connection,
        }
        shown = {key: value for key, value in what.items() if value not in (None, "")}
        if notice.told_at_ms > last.at_ms:
            shown["last_refused_ms_ago"] = notice.told_at_ms - last.at_ms
        if notice.count > 1 or not notice.is_one_kind:
            shown |= {"count": notice.count, "of": ", ".join(notice.senders)}
        event = "request-refused" if notice.is_one_kind else "other-requests-refused"
        log.debug(event, **shown)
        for listener in list(self.listeners):
            listener(notice)
