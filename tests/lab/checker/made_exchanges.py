"""Exchanges for tests of single invariants: a command, the group before and after it, and its response."""

from typing import Any
from unittest.mock import Mock

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.coordinator_state import CheckerState
from regroup.lab.checker.exchanges import ObservedExchange


def made_exchange(
    command: c.Command, before: Group, after: Group | None = None, response: Any = None
) -> ObservedExchange:
    """An exchange whose response was decided by the group after the command; without one the group stays as it is."""
    exchange = ObservedExchange(1, Mock(), 1, command, before, None, None)
    exchange.after = exchange.decided_group = before if after is None else after
    if response is not None:
        exchange.record_response(response, durable_position=1)
    return exchange


def checker_state(**settings: int) -> CheckerState:
    return CheckerState(CoordinatorSettings(**settings), now_ms=lambda: 0)
