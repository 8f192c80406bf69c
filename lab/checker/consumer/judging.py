"""How an invariant of groups of the consumer protocol is written, and how it compares an error with the rules."""

from collections.abc import Callable, Container
from typing import TypeAlias

from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.consumer import rules
from regroup.lab.checker.consumer.groups import ConsumerGroups
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.errors import ErrorCode

ConsumerInvariant: TypeAlias = Callable[[ConsumerGroups, ObservedExchange, CoordinatorSettings], str | None]
"""Returns what was found if the invariant is violated; its sentence is the first paragraph of its docstring."""


def unlike(expected: ErrorCode, exchange: ObservedExchange, unjudged: Container[int] = rules.UNJUDGED) -> str | None:
    """Compare the error code of a response with the one that Kafka's rules require; None if it is the same.

    Otherwise returns which error the rules require. Codes in `unjudged` do not follow from the state of the group, and
    are accepted, as is every response while Kafka's own log has yet to complete an append.
    """
    if exchange.error_code == expected or exchange.error_code in unjudged or waits_for_log(exchange):
        return None
    return f"the rules have {expected.name}"


def waits_for_log(exchange: ObservedExchange) -> bool:
    """Whether the group of an exchange has appends that Kafka's own log has yet to complete, and may still refuse."""
    return any(each.pending_appends for each in (exchange.before, exchange.after, exchange.decided_group))
