"""Explains joins that were refused: requests with which clients wanted to join the group, and did not become members.

A refusal is no event, so only recorded exchanges can show it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from regroup.coordinator.group import MemberId
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import JoinGroupRequest
from regroup.server.explanation.causes import refused_text
from regroup.server.explanation.history import KnownHistory
from regroup.server.explanation.sentences import Explanation, listed, reason, time_text
from regroup.server.recording.exchange import NO_ANSWER, NOT_KEPT, RecordedExchange

HOW_TO_SEE_REFUSALS: Final = (
    "a refused join is no event, and no request was recorded; after `regroup serve --record` both `regroup why` and "
    "`regroup exchanges` show refusals"
)
"""What to do in order to learn of refused joins, for histories without recorded exchanges."""
_NO_REFUSALS: Final = frozenset({"NONE", NO_ANSWER, NOT_KEPT, "MEMBER_ID_REQUIRED"})
_JOINS_AGAIN: Final = frozenset(
    {"UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "REBALANCE_IN_PROGRESS", "NOT_COORDINATOR"}
)
"""Errors that are not retriable and after which a client joins again by itself."""


def explain_refused_joins(
    history: KnownHistory, wanted: Callable[[RecordedExchange], bool], members: Collection[MemberId] = ()
) -> Iterator[Explanation]:
    """Explain the refused joins among the exchanges for which `wanted` holds: one sentence for each client, error code
    and message.

    A refusal counts only if no later join with the same member id or instance id succeeded, and one after which a
    client joins again by itself only if no later join of that client did. Refusals of `members`, whose stays have
    explanations of their own, do not count.
    """
    found: dict[tuple[str, str, str, str], list[RecordedExchange]] = {}
    for each in _refused(history, members):
        if wanted(each):
            found.setdefault((each.client_id, each.api, each.answer, each.error_message), []).append(each)
    for (client_id, api, answer, message), requests in found.items():
        times = listed(dict.fromkeys((time_text(requests[0].at_ms), time_text(requests[-1].last_at_ms))))
        text = refused_text(sum(each.count for each in requests), api, answer)
        client = f"client {client_id}" if client_id else "a client without a name"
        yield Explanation(
            sentence=f"{client} did not join: {text} at {times}",
            because=(_why(requests, answer, message),),
        )


def _refused(history: KnownHistory, members: Collection[MemberId]) -> Iterator[RecordedExchange]:
    joins = [each for each in history.exchanges if is_join(each)]
    clients_joined_ms: dict[str, int] = {}
    members_joined_ms: dict[str, int] = {}
    for each in joins:
        if each.answer == "NONE":
            clients_joined_ms[each.client_id] = each.at_ms
            members_joined_ms |= dict.fromkeys(each.members, each.at_ms)
    for each in joins:
        joined_ms = [members_joined_ms[name] for name in each.members & members_joined_ms.keys()]
        if each.answer in _JOINS_AGAIN or _is_retriable(each.answer):
            joined_ms.append(clients_joined_ms.get(each.client_id, each.at_ms))
        is_over = max(joined_ms, default=each.at_ms) > each.at_ms
        if each.answer not in _NO_REFUSALS and not is_over and not each.members & {*members}:
            yield each


def is_join(exchange: RecordedExchange) -> bool:
    """Whether a client sent the request in order to become a member: JoinGroup, or ConsumerGroupHeartbeat with the
    member epoch 0."""
    match exchange.request:
        case JoinGroupRequest() | ConsumerGroupHeartbeatRequest(member_epoch=0):
            return True
    return False


def _is_retriable(answer: str) -> bool:
    return answer in ErrorCode.__members__ and ErrorCode[answer].retriable


def _why(requests: Iterable[RecordedExchange], answer: str, message: str) -> Explanation:
    """Why a join was refused: by a fault rule, by the message in the response, or by what the error code means."""
    faults = sorted({each.fault for each in requests if each.fault})
    if faults:
        return reason(f"a fault rule did this ({', '.join(faults)})")
    if message:
        return reason(f"the response says: {message.rstrip('.')}")
    meaning = ErrorCode[answer].meaning if answer in ErrorCode.__members__ else "the error code is unknown"
    return reason(f"the error code means: {meaning.rstrip('.')}")
