"""What became of an exchange: from its recorded row, the fault rule that hit it, and what a simulation has observed."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from regroup.classroom.recorded_values import ExchangeFate
from regroup.server.recording.observations import MessageObserved


class Fate(NamedTuple):
    """What became of a request and its response, and the reason; if known, when the client sent and received them."""

    fate: ExchangeFate
    reason: str = ""
    sent_at_ms: int | None = None
    received_at_ms: int | None = None


RULE_FATES: Final = {
    "drop request": ExchangeFate.REQUEST_LOST,
    "drop answer": ExchangeFate.RESPONSE_LOST,
    "cut frame": ExchangeFate.RESPONSE_LOST,
    "repeat": ExchangeFate.REPEATED,
    "hold": ExchangeFate.LATE,
    "delay": ExchangeFate.LATE,
}
"""The effects of fault rules after which an exchange is not what it would have been, the strongest first."""


def fate_of(closed: str, fault: str, *, is_answered: bool, messages: Sequence[MessageObserved] = ()) -> Fate:
    """What became of a request that arrived at the broker.

    `closed` is the reason why the connection was closed without a response, `fault` the fault rule that hit the
    request; both may be empty. `messages` are the observed losses and delays of the request and its response.
    """
    if (found := _fate_by_rule(fault, is_answered=is_answered)) is not None:
        return found
    if closed:
        return Fate(ExchangeFate.CLOSED, closed, _sent_at_ms(messages))
    if messages:
        return _fate_by_network(messages)
    reason = f"fault rule: {fault}" if fault else ""
    return Fate(ExchangeFate.ANSWERED if is_answered else ExchangeFate.UNANSWERED, reason)


def _fate_by_rule(fault: str, *, is_answered: bool) -> Fate | None:
    effects = fault.split(", ")
    for effect, fate in RULE_FATES.items():
        if effect in effects and (is_answered or fate is not ExchangeFate.LATE):
            return Fate(fate, f"fault rule: {fault}")
    return None


def _fate_by_network(messages: Sequence[MessageObserved]) -> Fate:
    responses = [each for each in messages if each.is_response]
    is_lost = any(each.arrived_at_ms is None for each in responses)
    reasons = dict.fromkeys(each.reason for each in messages)
    return Fate(
        ExchangeFate.RESPONSE_LOST if is_lost else ExchangeFate.LATE,
        "; ".join(reasons),
        _sent_at_ms(messages),
        next((each.arrived_at_ms for each in responses), None),
    )


def _sent_at_ms(messages: Sequence[MessageObserved]) -> int | None:
    return next((each.at_ms for each in messages if not each.is_response), None)
