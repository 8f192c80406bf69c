"""The plan of a simulation: its members and brokers, and what happens when. Nothing else decides what a run does.

A plan is data. A seed draws one (`lab.search.swarm`), a person writes one as YAML, shrinking takes parts away from one,
and `lab.simulation.run.play` plays it. The same plan gives the same history, event for event.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from regroup.lab.plan.steps import SimulationStep
from regroup.lab.plan.triggers import StepTrigger
from regroup.members.runtime.workload import Workload

__all__ = ["PlannedStep", "MemberPlan", "NetworkPlan", "SimulationPlan"]


class PlannedStep(msgspec.Struct, frozen=True):
    """A step of a plan, and when it happens."""

    trigger: StepTrigger
    step: SimulationStep

    def __str__(self) -> str:
        return f"{self.trigger}: {self.step}"


class MemberPlan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The configuration of a consumer. It takes part once a step lets it join."""

    topics: tuple[str, ...] = ("orders",)
    group: str = "lab"
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    auto_commit_interval_ms: int = 5_000
    faults: tuple[str, ...] = ()
    """Faults in the notation of `members.faults`: `pause:20s@after-assigned`."""


class NetworkPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Latency of the network. Each chunk of bytes takes `latency_ms`, and by chance up to `jitter_ms` more.

    A share of the chunks, `stall_share` (0 to 1), is lost and retransmitted: it takes up to `stall_ms` more.
    """

    latency_ms: float = 1.0
    jitter_ms: float = 1.0
    stall_share: float = 0.0
    stall_ms: float = 0.0


NO_WORKLOAD: Final = Workload()


class SimulationPlan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that a simulation depends on."""

    title: str = ""
    seed: int = 0
    """Seeds what is left to chance during the run: latencies, member ids, record keys."""
    brokers: int = 1
    settings: Mapping[str, str | int] = {}
    """Settings by their Kafka names; all others have their defaults."""
    topics: Mapping[str, int] = msgspec.field(default_factory=lambda: {"orders": 6})
    """Topics with their partition counts at the start."""
    members: Mapping[str, MemberPlan] = {}
    network: NetworkPlan = NetworkPlan()
    disk_latency_ms: float = 0.0
    workload: Workload = NO_WORKLOAD
    steps: tuple[PlannedStep, ...] = ()
    faults_end_ms: int = 60_000
    """Time after the start when network, disk and brokers work again; later only expectations count."""
    recovery_timeout_ms: int = 600_000
    """Time after `faults_end_ms` in which every group with running members must become Stable, with an owner for
    every partition."""
