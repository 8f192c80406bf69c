"""The job of `regroup exchanges`: prints recorded requests and responses, a line for each, or as JSON for programs."""

import asyncio
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

import msgspec

from regroup.cli.jobs import CannotRun
from regroup.cli.store.events_text import clock_time, date_of
from regroup.cli.store.opening import open_store_to_read, unknown_group
from regroup.cli.terminal.text import printable, printable_json, shorten_uuids
from regroup.notation.partitions import format_ranges
from regroup.protocol.apis import APIS
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.server.recording.exchange import RecordedExchange
from regroup.server.recording.reading import read_exchanges
from regroup.server.recording.selection import ExchangeFilter
from regroup.storage.store import EventStore

LINE_LENGTH: Final = 80
MAX_CLIENT_LENGTH: Final = 12
MAX_ANSWER_LENGTH: Final = 20
"""The width of the column of answers. A longer answer, which is rare, moves the rest of its line."""
SHOWN_DELAY_MS: Final = 1_000
"""Of a response that was sent so many milliseconds after its request, or later, a line says how long it took: the line
stands at the time of the request."""
MAX_VALUE_LENGTH: Final = 400
"""The most characters of one decoded message in the text; `--json` shows all."""


def run(args: Namespace) -> int:
    exchanges = asyncio.run(selected(args))
    layout, day = Layout.of(exchanges), ""
    max_length = LINE_LENGTH if sys.stdout.isatty() else sys.maxsize
    for exchange in exchanges:
        if args.json:
            print(exchange_json(exchange))
            continue
        if day != (day := date_of(exchange.at_ms)):
            print(f"{day}, times in UTC")
        print(layout.line(exchange, max_length))
        if args.verbose:
            for line in message_lines(exchange):
                print(line)
    return 0


async def selected(args: Namespace) -> list[RecordedExchange]:
    """The exchanges that the arguments select. Raises CannotRun if the store has no recorded exchanges."""
    async with await open_store_to_read(args.store) as store:
        last_ms = await last_recorded_ms(store)
        if last_ms is None:
            command = f"regroup serve --record --store {shlex.quote(str(args.store))}"
            raise CannotRun(f"{args.store} has no recorded exchanges: `{command}` records them.")
        wanted = ExchangeFilter(
            apis=tuple(known_api(name) for name in args.apis),
            client_id=args.client,
            group=args.group,
            member=args.member,
            from_ms=args.from_time.at_ms(last_ms) if args.from_time else None,
            to_ms=args.to_time.at_ms(last_ms) if args.to_time else None,
        )
        exchanges = await read_exchanges(store, wanted)
        if args.group and not exchanges:
            await check_group(store, args.group)
        return exchanges


async def check_group(store: EventStore, group: str) -> None:
    """Raise CannotRun for a group that occurs in no event and no recorded exchange."""
    known = {each for each in await store.heads() if each is not None}
    if group in known:
        return
    for exchange in await read_exchanges(store):
        if group in exchange.groups:
            return
        known |= exchange.groups
    raise CannotRun(unknown_group(group, known))


async def last_recorded_ms(store: EventStore) -> int | None:
    """The end of the last block of exchanges in epoch milliseconds; None if there is none."""
    last_ms = None
    async for block in store.read_exchanges():
        last_ms = max(last_ms or 0, block.last_ms)
    return last_ms


def known_api(name: str) -> str:
    """Kafka's name of an API, given in upper or lower case. Raises CannotRun for an unknown name."""
    for api in APIS.values():
        if api.name.lower() == name.lower():
            return api.name
    raise CannotRun(f"unknown API {name!r}; known are {', '.join(sorted(api.name for api in APIS.values()))}")


class Layout(NamedTuple):
    """The widths of the columns, computed from the exchanges that are to be shown."""

    client: int
    api: int
    answer: int

    @classmethod
    def of(cls, exchanges: Sequence[RecordedExchange]) -> Self:
        return cls(
            min(MAX_CLIENT_LENGTH, max((len(printable(each.client_id)) for each in exchanges), default=0)),
            max((len(api_text(each)) for each in exchanges), default=0),
            min(MAX_ANSWER_LENGTH, max((len(each.answer) for each in exchanges), default=0)),
        )

    def line(self, exchange: RecordedExchange, max_length: int) -> str:
        """An exchange as a line: `12:00:00.200 first  Heartbeat v4 x15  NONE  until 12:00:42.200, g`."""
        client = clipped(printable(exchange.client_id) or "-", self.client)
        start = f"{clock_time(exchange.at_ms)} {client:<{self.client}}  {api_text(exchange):<{self.api}}"
        details = printable(", ".join(line_details(exchange)))
        return clipped(f"{start}  {exchange.answer:<{self.answer}}  {details}".rstrip(), max_length)


def api_text(exchange: RecordedExchange) -> str:
    """The API and version of an exchange, and the length of a run: `Heartbeat v4 x15`."""
    version = f" v{exchange.version}" if exchange.version >= 0 else ""
    return f"{exchange.api}{version}" + (f" x{exchange.count}" if exchange.count > 1 else "")


def line_details(exchange: RecordedExchange) -> Iterator[str]:
    """The details at the end of a line. Rare ones come first, because a line that is too long is cut at its end."""
    if exchange.fault:
        yield f"fault: {exchange.fault}"
    if (answered := exchange.answered_at_ms) is not None and answered - exchange.last_at_ms >= SHOWN_DELAY_MS:
        yield f"held {(answered - exchange.last_at_ms) / 1000:.1f} s"
    if exchange.events:
        positions = format_ranges([event.position for event in exchange.events])
        yield f"event{'s' if len(exchange.events) > 1 else ''} {positions}"
    if exchange.closed:
        yield exchange.closed
    if exchange.count > 1:
        yield f"until {clock_time(exchange.last_at_ms)}"
    if exchange.groups:
        yield " ".join(sorted(exchange.groups))
    if isinstance(exchange.request, ConsumerGroupHeartbeatRequest):
        yield f"epoch {exchange.request.member_epoch}"
    elif exchange.generation is not None:
        yield f"generation {exchange.generation}"
    yield from (shorten_uuids(member) for member in sorted(exchange.members))
    if exchange.error_message:
        yield exchange.error_message.rstrip(".")


def clipped(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def message_lines(exchange: RecordedExchange) -> Iterator[str]:
    """The decoded request and response, each as a few lines of 80 characters."""
    for name, message, size in (
        ("request", exchange.request, exchange.row.request_bytes),
        ("response", exchange.response, exchange.row.response_bytes),
    ):
        if message is None and not size:
            continue
        text = "not kept, or not decodable" if message is None else printable(msgspec.json.encode(message).decode())
        text = clipped(f"{name} of {size} bytes: {text}", MAX_VALUE_LENGTH)
        for begin in range(0, len(text), LINE_LENGTH - 4):
            yield f"    {text[begin : begin + LINE_LENGTH - 4]}"


def exchange_json(exchange: RecordedExchange) -> str:
    """An exchange as one line of JSON with every field; bytes in messages are written in base64."""
    row: dict[str, Any] = {
        "at_ms": exchange.at_ms,
        "last_at_ms": exchange.last_at_ms,
        "answered_at_ms": exchange.answered_at_ms,
        "count": exchange.count,
        "connection": exchange.connection,
        "correlation_id": exchange.correlation_id,
        "client_id": exchange.client_id,
        "client_host": exchange.client_host,
        "api": exchange.api,
        "version": exchange.version,
        "groups": sorted(exchange.groups),
        "members": sorted(exchange.members),
        "generation": exchange.generation,
        "answer": exchange.answer,
        "fault": exchange.fault,
        "closed": exchange.closed,
        "events": [event._asdict() for event in exchange.events],
        "request_bytes": exchange.row.request_bytes,
        "request": exchange.request,
        "response_bytes": exchange.row.response_bytes,
        "response": exchange.response,
    }
    return printable_json(msgspec.json.encode(row).decode())
