"""Which exchanges are wanted, and whether a recorded one is among them: cheap conditions first, decoding last."""

from collections.abc import Iterable, Iterator

import msgspec

from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.exchange import RecordedExchange


class ExchangeFilter(msgspec.Struct, frozen=True, kw_only=True):
    """All conditions that are given must hold."""

    apis: tuple[str, ...] = ()
    client_id: str = ""
    group: str = ""
    member: str = ""
    """A member id, an instance id or a client id."""
    from_ms: int | None = None
    """Exchanges that went on at this time or began later."""
    to_ms: int | None = None
    """Exchanges that began at this time or earlier."""

    def takes(self, exchange: RecordedExchange) -> bool:
        return (
            (self.to_ms is None or exchange.at_ms <= self.to_ms)
            and (self.from_ms is None or max(exchange.last_at_ms, exchange.row.ended_at_ms or 0) >= self.from_ms)
            and self.client_id in ("", exchange.client_id)
            and (not self.apis or exchange.api in self.apis)
            and (not self.group or self.group in exchange.groups)
            and (not self.member or self.member == exchange.client_id or self.member in exchange.members)
        )


def select_exchanges(rows: Iterable[ExchangeRow], wanted: ExchangeFilter) -> Iterator[RecordedExchange]:
    """The exchanges of which all conditions hold, in the same order."""
    return (exchange for row in rows if wanted.takes(exchange := RecordedExchange(row)))
