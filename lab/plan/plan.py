"""The plan of a simulation: its members and brokers, their settings, and what happens when.

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
    """The topics that it subscribes to."""
    pattern: str = ""
    """A regular expression in place of topics. For a member of the consumer protocol the brokers resolve it (RE2), a
    classic member does so itself."""
    group: str = "lab"
    """The id of its group."""
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    """The assignors that it supports in the classic protocol, in the order of preference."""
    group_remote_assignor: str = ""
    """Kafka's `group.remote.assignor`: `uniform` or `range`, for a member of the consumer protocol; without it the
    coordinator decides."""
    instance_id: str | None = None
    """Kafka's `group.instance.id`: with it the member is static."""
    protocol: str = "classic"
    """Kafka's `group.protocol`: `classic`, or `consumer` (KIP-848)."""
    session_timeout_ms: int = 45_000
    """Kafka's `session.timeout.ms`."""
    heartbeat_interval_ms: int = 3_000
    """Kafka's `heartbeat.interval.ms`."""
    max_poll_interval_ms: int = 300_000
    """Kafka's `max.poll.interval.ms`, which is also the rebalance timeout."""
    request_timeout_ms: int = 30_000
    """Kafka's `request.timeout.ms`."""
    auto_commit_interval_ms: int = 5_000
    """Kafka's `auto.commit.interval.ms`."""
    isolation_level: str = "read_uncommitted"
    """Kafka's `isolation.level`: `read_uncommitted`, or `read_committed`."""
    transforms_to: str = ""
    """The topic to which it writes a record for each one that it has processed, in transactions with its offsets
    (KIP-447). Without one it commits offsets alone."""
    client: str = ""
    """The release of Kafka's clients whose versions of requests it sends, for example `2.2`; the newest without one."""
    faults: tuple[str, ...] = ()
    """Faults in the notation of `members.faults`: `pause:20s@after-assigned`."""


class NetworkPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Latency of the network. Each chunk of bytes takes `latency_ms`, and by chance up to `jitter_ms` more.

    A share of the chunks, `stall_share` (0 to 1), is lost and retransmitted: it takes up to `stall_ms` more.
    """

    latency_ms: float = 1.0
    """The time that each chunk of bytes takes from host to host."""
    jitter_ms: float = 1.0
    """A random part of up to this time is added to the latency of each chunk."""
    stall_share: float = 0.0
    """The share of chunks (0 to 1) that is lost and sent again."""
    stall_ms: float = 0.0
    """A chunk that is lost and sent again takes up to this much longer."""


NO_WORKLOAD: Final = Workload()


class SimulationPlan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that a simulation depends on."""

    title: str = ""
    """What the scenario is about."""
    seed: int = 0
    """Seeds what is left to chance during the run: latencies, member ids, record keys."""
    brokers: int = 1
    """How many brokers share the groups, in one process."""
    release: str = ""
    """The release of Kafka whose versions of requests the brokers serve, for example `3.9`; the newest without one."""
    settings: Mapping[str, str | int] = {}
    """Settings by their Kafka names; all others have their defaults."""
    topics: Mapping[str, int] = msgspec.field(default_factory=lambda: {"orders": 6})
    """Topics with their partition counts at the start."""
    members: Mapping[str, MemberPlan] = {}
    """The members by name, each with its options; a list of names if all have the defaults."""
    network: NetworkPlan = NetworkPlan()
    """See the options of the network."""
    disk_latency_ms: float = 0.0
    """The time that each write to the store takes."""
    workload: Workload = NO_WORKLOAD
    """See the options of the workload; without one no records are written."""
    steps: tuple[PlannedStep, ...] = ()
    """What happens, and what is expected."""
    faults_end_ms: int = 60_000
    """Time after the start when network, disk and brokers work again; later only expectations count."""
    recovery_timeout_ms: int = 600_000
    """Time after the end of the faults in which every group with running members must become Stable, with an owner for
    every partition."""
