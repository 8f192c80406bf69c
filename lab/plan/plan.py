"""A run before it runs: who takes part, what happens to them, and for how long. Nothing else decides what a run does.

A plan is data. A seed draws one (`swarm`), a person writes one (`story`, or a file), the shrinker takes parts away from
one; the world plays it. The same plan gives the same history, event for event.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from regroup.lab.plan.sentences import time_text
from regroup.lab.plan.steps import Step
from regroup.members.runtime.workload import Workload


class When(msgspec.Struct, frozen=True, omit_defaults=True):
    """So long after the start, or after the first time from then on that something is true of somebody.

    `after` is a point as the world says it: `anna is elected leader`, `the group is stable`; empty for the start.
    """

    after: str = ""
    delay_ms: int = 0

    def __str__(self) -> str:
        if not self.after:
            return f"at {time_text(self.delay_ms)}"
        return f"{time_text(self.delay_ms)} after {self.after}" if self.delay_ms else f"after {self.after}"


class Happening(msgspec.Struct, frozen=True):
    """One line of the story."""

    when: When
    step: Step

    def __str__(self) -> str:
        return f"{self.when}: {self.step}"


class MemberPlan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A consumer as it is configured. It takes part when a happening lets it join. Times are in milliseconds."""

    topics: tuple[str, ...] = ("orders",)
    group: str = "lab"
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    auto_commit_interval_ms: int = 5_000
    habits: tuple[str, ...] = ()
    """As `members.habits` writes them: `pause:20s@after-assigned`."""


class NetworkPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """One way takes `latency_ms` and up to `jitter_ms` more, drawn anew for each piece of bytes.

    A share of the pieces, `stall_share` (0 to 1), is lost on the way and sent again: it takes up to `stall_ms` more.
    """

    latency_ms: float = 1.0
    jitter_ms: float = 1.0
    stall_share: float = 0.0
    stall_ms: float = 0.0


QUIET: Final = Workload()


class Plan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a world needs to know. `seed` feeds what is left to chance while it runs: latencies, member ids, keys.

    Faults stop at `heal_ms`: then the network, the disk and every broker are well again, and within `bound_ms` each
    group that still has living members must be Stable, with every partition owned.
    """

    title: str = ""
    seed: int = 0
    brokers: int = 1
    settings: Mapping[str, str | int] = {}
    """By their Kafka names, beside the defaults."""
    topics: Mapping[str, int] = msgspec.field(default_factory=lambda: {"orders": 6})
    """How many partitions each has at the start."""
    members: Mapping[str, MemberPlan] = {}
    network: NetworkPlan = NetworkPlan()
    disk_latency_ms: float = 0.0
    workload: Workload = QUIET
    happenings: tuple[Happening, ...] = ()
    heal_ms: int = 60_000
    bound_ms: int = 600_000
