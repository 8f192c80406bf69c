"""How much of a simulation is quiet: the share of exchanges in which nothing can happen, and what a run without them
would save at most."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from harness.lab_turns import IDLE_FETCH, QUIET_HEARTBEAT, SeenExchange, Turn, recorded_turns

from regroup.lab.plan.plan import SimulationPlan

TIMER = "timer"


class QuietShares(NamedTuple):
    """What of a run is quiet; the costs are of one unit."""

    exchanges: Counter[str]
    """The number of exchanges of each kind."""
    cost: int
    """The cost of the whole run."""
    costs: Counter[str]
    """The cost of the turns of quiet heartbeats and idle fetches, and of timers without any message."""
    between_exchanges: int
    """The cost of quiet heartbeats, without the last one of each member before a turn with another exchange."""
    between_timers: int
    """The same, without the last one before a timer either."""

    def __add__(self, other: tuple[object, ...]) -> "QuietShares":
        assert isinstance(other, QuietShares)
        return QuietShares(*(mine + its for mine, its in zip(tuple(self), tuple(other), strict=True)))

    def gain(self, saved: int) -> float:
        """How many times as quick the run would be without `saved`."""
        return self.cost / (self.cost - saved)


def quiet_shares(plan: SimulationPlan, *, counts_calls: bool) -> QuietShares:
    """Play a plan with the checker, and find out how much of it is quiet."""
    turns, cost = recorded_turns(plan, counts_calls=counts_calls)
    exchanges = Counter(each.kind for each in dict.fromkeys(each for turn in turns for each in turn.exchanges))
    costs = Counter[str]()
    for turn in turns:
        if kind := turn.kind or (TIMER if turn.is_timer else ""):
            costs[kind] += turn.cost
    return QuietShares(
        exchanges, cost, costs, repeated_cost(turns, at_timers=False), repeated_cost(turns, at_timers=True)
    )


def repeated_cost(turns: Iterable[Turn], *, at_timers: bool) -> int:
    """The cost of the quiet heartbeats that another one of the same member follows before anything else happens.

    A heartbeat only starts timeouts again, so of several in a row the last one alone leaves a trace. Anything else is a
    turn with another exchange or, if `at_timers`, with a timer.
    """
    repeated = 0
    last: dict[str, tuple[SeenExchange, int]] = {}
    """By member, its last quiet heartbeat since anything else has happened, and what that has cost so far."""
    for turn in turns:
        if turn.kind == QUIET_HEARTBEAT:
            for exchange in turn.exchanges:
                before, cost = last.get(exchange.client, (exchange, 0))
                if before is not exchange:
                    repeated, cost = repeated + cost, 0
                last[exchange.client] = exchange, cost + turn.cost // len(turn.exchanges)
        elif turn.exchanges or (at_timers and turn.is_timer):
            last.clear()
    return repeated


def table_row(name: str, shares: QuietShares) -> str:
    """A row of the table of quiet shares."""
    count, cost, saved = shares.exchanges.total(), shares.cost, 0
    row = f"{name:28}{count:>10,}"
    for kind in (QUIET_HEARTBEAT, IDLE_FETCH):
        row += f"{shares.exchanges[kind] / count:>8.0%}{shares.costs[kind] / cost:>6.0%}"
    row += f"{shares.costs[TIMER] / cost:>8.0%}"
    for kind in (QUIET_HEARTBEAT, IDLE_FETCH, TIMER):
        saved += shares.costs[kind]
        row += f"{shares.gain(saved):>8.2f}"
    return f"{row}{shares.gain(shares.between_exchanges):>10.2f}{shares.gain(shares.between_timers):>8.2f}"


TABLE_HEAD = (
    f"{'':28}{'':>10}{'heartbeats':>14}{'fetches':>14}{'timers':>8}{'at most without':>24}{'but the last':>18}\n"
    f"{'':28}{'exchanges':>10}{'':>8}{'cost':>6}{'':>8}{'cost':>6}{'cost':>8}{'h.':>8}{'+ f.':>8}{'+ t.':>8}"
    f"{'':>10}{'timers':>8}"
)
