"""Filters recorded exchanges. Conditions that need no decoding are checked first."""

from collections.abc import Iterable, Iterator

import msgspec

from regroup.protocol.apis import check_api_name
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.exchange import RecordedExchange


class ExchangeFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects recorded exchanges: all conditions that are given must hold."""

    apis: tuple[str, ...] = ()
    client_id: str = ""
    group: str = ""
    member: str = ""
    """A member id, an instance id or a client id; empty for any."""
    from_ms: int | None = None
    """Exchanges that ended at this time or later, in epoch milliseconds; None for no limit."""
    to_ms: int | None = None
    """Exchanges that began at this time or earlier, in epoch milliseconds; None for no limit."""

    def __post_init__(self) -> None:
        """Check the name of the API. Raises ValueError if it is unknown."""
        for name in self.apis:
            check_api_name(name)

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
    """The exchanges that pass the filter, in the same order."""
    return (exchange for row in rows if wanted.takes(exchange := RecordedExchange(row)))
