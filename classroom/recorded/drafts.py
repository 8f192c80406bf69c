"""The recorded exchanges that name a group, while the blocks of a store are read one after the other.

Of an exchange remain its times and names. The frame of a request is kept until its response has come, because the
version of the request decodes both.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from regroup.classroom.recorded.messages import lost_request_row
from regroup.protocol.apis import APIS
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.exchange import NO_ANSWER, RecordedExchange
from regroup.server.recording.observations import MessageObserved

HEARTBEAT: Final = APIS[HeartbeatRequest.api_key].name
_GROUP_FIELDS: Final = frozenset({"group_id", "groups", "groups_names"})
GROUP_API_KEYS: Final = frozenset(
    key.to_bytes(2, "big")
    for key, api in APIS.items()
    if api.request is FindCoordinatorRequest or _GROUP_FIELDS & {*api.request.__struct_fields__}
)
"""The first bytes of a frame that may name a group. All others are never decoded."""


class ExchangeDraft(msgspec.Struct, kw_only=True, gc=False, eq=False):
    """What is known of an exchange while the rows of a recording are read; a later row of the exchange changes it."""

    groups: frozenset[str]
    number: int
    """Its number in the recording; 0 for a request that never arrived."""
    connection: str
    client_id: str
    member_id: str
    api: str
    version: int
    correlation_id: int
    generation: int | None
    at_ms: int
    last_at_ms: int
    ended_at_ms: int | None = None
    error: str = ""
    error_message: str = ""
    closed: str = ""
    fault: str = ""
    count: int = 1
    seen_ms: list[int] = []
    request: bytes = b""
    """The frame until the response has come."""


class ExchangeDrafts:
    """Collects the exchanges of some groups from the rows of a recording and from observed network messages.

    First all rows are passed to `on_row`, then all messages to `on_message`, each in the order of the store.
    """

    def __init__(self, groups: Collection[str]) -> None:
        self._groups = frozenset(groups)
        self._drafts: dict[tuple[str, int], ExchangeDraft] = {}
        self._lost: list[ExchangeDraft] = []
        self._messages: dict[tuple[str, int], list[MessageObserved]] = defaultdict(list)
        self.recorded_since_ms: dict[int, int] = {}
        """From when on each process has recorded, by the epoch with which it began; 0 if it did from its begin."""

    def on_row(self, row: ExchangeRow, block: int) -> None:
        """Take in a row from the block with this number.

        A row that has no request completes an earlier row of the same exchange, for example with the response.
        """
        epoch = row.connection.rpartition("@")[2]
        if row.request and epoch.isdecimal() and int(epoch) not in self.recorded_since_ms:
            # A process records from its begin or not at all. Of the first one, older blocks may have been deleted.
            is_whole = bool(self.recorded_since_ms) or (block == 1 and row.number == 1)
            self.recorded_since_ms[int(epoch)] = 0 if is_whole else row.at_ms
        key = (row.connection, row.number)
        if not row.count:
            self._drafts.pop(key, None)
        elif draft := self._drafts.get(key):
            _change(draft, row)
        elif row.request[:2] in GROUP_API_KEYS and (begun := self._begun(row)) is not None:
            self._drafts[key] = begun
            _change(begun, row)

    def on_message(self, message: MessageObserved) -> None:
        """Take in an observation of a simulation: its network has lost or delayed a request or a response."""
        self._messages[message.connection, message.correlation_id].append(message)
        if message.request[:2] in GROUP_API_KEYS:
            begun = self._begun(lost_request_row(message))
            if begun is not None:
                self._lost.append(begun)

    def _begun(self, row: ExchangeRow) -> ExchangeDraft | None:
        exchange = RecordedExchange(row)
        groups = self._groups & exchange.groups
        return _draft_of(exchange, groups) if groups else None

    def messages_of(self, draft: ExchangeDraft) -> list[MessageObserved]:
        """The observed losses and delays of the request and the response of an exchange."""
        found = self._messages.get((draft.connection, draft.correlation_id), ())
        return [each for each in found if bool(each.request) is (draft.number == 0)]

    def of_group(self, group: str, from_ms: int = 0) -> list[ExchangeDraft]:
        """The exchanges that name a group and ended at this time or later, in the order of their requests. A heartbeat
        that was lost or late, or whose response was, stands for itself and not in its run."""
        drafts = [
            each
            for each in self._drafts.values()
            if group in each.groups and (each.ended_at_ms is None or max(each.ended_at_ms, each.last_at_ms) >= from_ms)
        ]
        alone = list(self._alone(drafts))
        taken: dict[tuple[str, int], int] = defaultdict(int)
        for run, _ in alone:
            taken[run.connection, run.number] += 1
        whole = [
            replace(each, count=each.count - taken[each.connection, each.number])
            if (each.connection, each.number) in taken
            else each
            for each in drafts
        ]
        lost = [each for each in self._lost if group in each.groups and each.at_ms >= from_ms]
        return sorted([*whole, *lost, *(each for _, each in alone)], key=lambda each: (each.at_ms, each.number))

    def _alone(self, drafts: Collection[ExchangeDraft]) -> Iterator[tuple[ExchangeDraft, ExchangeDraft]]:
        """Yield the heartbeats that the network lost or delayed inside a run of heartbeats, each with its run.

        A run is one row for several equal heartbeats of a connection.
        """
        known = {(each.connection, each.correlation_id) for each in drafts}
        runs: Mapping[str, list[ExchangeDraft]] = defaultdict(list)
        for each in drafts:
            if each.count > 1:
                runs[each.connection].append(each)
        for key, messages in self._messages.items():
            first = messages[0]
            is_of_run = first.api_key == HeartbeatRequest.api_key and not first.request
            if key in known or not is_of_run:
                continue
            before = [each for each in runs.get(first.connection, ()) if each.correlation_id < first.correlation_id]
            if before:
                run = max(before, key=lambda each: each.correlation_id)
                at_ms = first.at_ms if first.is_response or first.arrived_at_ms is None else first.arrived_at_ms
                yield run, _one_of(run, first.correlation_id, at_ms)


def _one_of(run: ExchangeDraft, correlation_id: int, at_ms: int) -> ExchangeDraft:
    """A single heartbeat taken out of a run; its response was sent at once, as those to all heartbeats of a run."""
    return replace(
        run, correlation_id=correlation_id, at_ms=at_ms, last_at_ms=at_ms, ended_at_ms=at_ms, count=1, seen_ms=[at_ms]
    )


def _change(draft: ExchangeDraft, row: ExchangeRow) -> None:
    """Update a draft by a row: its times, and if the row has the response, the error and the member id in it."""
    if draft.api == HEARTBEAT:
        for at_ms in (row.at_ms, row.last_at_ms):
            if not draft.seen_ms or at_ms > draft.seen_ms[-1]:
                draft.seen_ms.append(at_ms)
    draft.last_at_ms, draft.ended_at_ms, draft.count = row.last_at_ms, row.ended_at_ms, row.count
    draft.closed, draft.fault = row.closed, row.fault
    if row.ended_at_ms is not None and draft.request:
        answered = RecordedExchange(replace(row, request=draft.request))
        draft.request = b""
        draft.error = "" if answered.answer == NO_ANSWER else answered.answer
        draft.error_message = answered.error_message
        draft.member_id = draft.member_id or _member_id(answered)


def _draft_of(exchange: RecordedExchange, groups: frozenset[str]) -> ExchangeDraft:
    return ExchangeDraft(
        groups=groups,
        number=exchange.row.number,
        connection=exchange.connection,
        client_id=exchange.client_id,
        member_id=_member_id(exchange),
        api=exchange.api,
        version=exchange.version,
        correlation_id=exchange.correlation_id,
        generation=exchange.generation,
        at_ms=exchange.at_ms,
        last_at_ms=exchange.last_at_ms,
        request=exchange.row.request,
    )


def _member_id(exchange: RecordedExchange) -> str:
    """The member id in the request, else in the response, else the only one in the list of a LeaveGroup; else empty."""
    named = getattr(exchange.request, "member_id", "") or getattr(exchange.response, "member_id", "")
    listed = [each.member_id for each in getattr(exchange.request, "members", ())]
    return str(named or (listed[0] if len(listed) == 1 else ""))
