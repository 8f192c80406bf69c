"""The options of a campaign's scenarios: their names, defaults, limits, and how a cell of the grid gives them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.plan.validation import CLASSIC, CONSUMER


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions:
    """Options of every scenario, by their names in a campaign's file."""

    members: int = 6
    """Number of members; all join within the first five seconds."""
    partitions: int = 12
    """Number of partitions of the only topic."""
    protocol: str = CLASSIC
    """The protocol of all members: eager (range), cooperative (cooperative-sticky) and static (cooperative-sticky, with
    instance ids) are of the classic one, and classic leaves them to `assignor` and `static`; consumer is KIP-848's, and
    static-consumer the same with instance ids."""
    assignor: str = "cooperative-sticky"
    """The assignor of all members: range, roundrobin, sticky or cooperative-sticky; consumer has the broker's."""
    static: bool = False
    """Whether members have a `group.instance.id`, and keep it when they restart."""
    session_timeout_ms: int = 45_000
    """Kafka's `session.timeout.ms`, or the broker's `group.consumer.session.timeout.ms`."""
    heartbeat_interval_ms: int = 0
    """Kafka's `heartbeat.interval.ms`, or the broker's `group.consumer.heartbeat.interval.ms`, at most a third of the
    session timeout; 0 for Kafka's default, which is 3,000, or 5,000 of the consumer protocol."""
    restart_ms: int = 10_000
    """Time between the end of a member's process and the start of its next one."""
    between_ms: int = 60_000
    """Time from one restart or crash to the next."""
    graceful: bool = False
    """Whether a member in `rolling-restart` and `failover-restart` closes its consumer before its process ends, or is
    killed."""
    overlap_ms: int = 10_000
    """Time from the start of a replacement to the closing of the member that it replaces, in `surge`."""
    crashes: int = 3
    """Number of members that crash, each once."""
    joins: int = 2
    """Number of members that join later, in `scale-out` and `slow-member`."""
    leaves: int = 2
    """Number of members that are closed and do not return, in `scale-in`."""
    paused: int = 3
    """Number of members that are paused at the same moment in `paused-node`."""
    growth: int = 12
    """Number of partitions that the topic gets in `topic-growth`."""
    latency_ms: float = 1.0
    """Time that each chunk of bytes takes on the network."""
    jitter_ms: float = 1.0
    """A random part of up to this time is added to the latency of each chunk."""
    out_of_step: bool = False
    """Whether each member pauses once before anything happens, for one to two heartbeat intervals. After a rebalance
    classic members send their heartbeats at the same moments; in a group that has run for hours they do not."""
    pauses: int = 0
    """Number of pauses of members (garbage collection) in `slow-network`."""
    pause_ms: int = 8_000
    """Mean length of a pause in `slow-network`, and its length in `slow-member` and `paused-node`."""
    records_per_s: float = 0.0
    """Records written to the topic and processed by the members; they make a run ten to twenty times as long."""
    process_ms: float = 0.0
    """Time that a member takes to process a record. It calls `poll()` again when it has processed all that it got."""
    max_poll_records: int = 500
    """Kafka's `max.poll.records`: the most records of one `poll()`."""


MIN_SESSION_TIMEOUT_MS: Final = 1_000
"""The least session timeout of a campaign. Kafka's own minimum is 6 s; campaigns may compare shorter ones."""
HOUR_MS: Final = 3_600_000

OPTION_LIMITS: Final[dict[str, tuple[float, float]]] = {
    "members": (1, 1_000),
    "partitions": (1, 10_000),
    "session_timeout_ms": (MIN_SESSION_TIMEOUT_MS, CoordinatorSettings().group_max_session_timeout_ms),
    "heartbeat_interval_ms": (0, HOUR_MS),
    "restart_ms": (1, HOUR_MS),
    "between_ms": (1, HOUR_MS),
    "crashes": (0, 1_000),
    "overlap_ms": (1, HOUR_MS),
    "joins": (1, 1_000),
    "leaves": (1, 1_000),
    "paused": (1, 1_000),
    "growth": (1, 10_000),
    "latency_ms": (0, 10_000),
    "jitter_ms": (0, 10_000),
    "pauses": (0, 1_000),
    "pause_ms": (1, HOUR_MS),
    "records_per_s": (0, 1_000),
    "process_ms": (0, 60_000),
    "max_poll_records": (1, 100_000),
}
"""Minimum and maximum of each number. Beyond them a run fails or misleads: if the coordinator rejects the session
timeout, no member ever joins and no partition ever loses its owner."""

DEFAULT_HEARTBEAT_MS: Final = {CLASSIC: 3_000, CONSUMER: 5_000}
PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    CLASSIC: {},
    "eager": {"assignor": "range", "static": False},
    "cooperative": {"assignor": "cooperative-sticky", "static": False},
    "static": {"assignor": "cooperative-sticky", "static": True},
    CONSUMER: {"assignor": ""},
    "static-consumer": {"assignor": "", "static": True},
}
"""The protocols of campaigns, each with the options that it decides."""


def is_classic(options: ScenarioOptions) -> bool:
    return options.protocol not in (CONSUMER, "static-consumer")


def heartbeat_interval_ms(options: ScenarioOptions) -> int:
    default_ms = DEFAULT_HEARTBEAT_MS[CLASSIC if is_classic(options) else CONSUMER]
    return min(options.heartbeat_interval_ms or default_ms, options.session_timeout_ms // 3)


TYPE_NAMES: Final = {int: "a whole number", float: "a number", bool: "true or false", str: "a name"}


def parse_options(cell: Mapping[str, Any]) -> ScenarioOptions:
    """The options of a cell; options that the cell does not name get their defaults. Raises ValueError."""
    types = {field.name: type(field.default) for field in fields(ScenarioOptions)}
    for name, value in cell.items():
        if name not in types:
            raise ValueError(f"unknown option {name!r}; options: {', '.join(types)}")
        accepted = (int, float) if types[name] is float else (types[name],)
        if type(value) not in accepted:  # not isinstance: True is no number here
            raise ValueError(f"{name} takes {TYPE_NAMES[types[name]]}, not {value!r}")
        minimum, maximum = OPTION_LIMITS.get(name, (value, value))
        if not minimum <= value <= maximum:
            raise ValueError(f"{name} must be from {minimum:,} to {maximum:,}, not {value:,}")
    protocol = cell.get("protocol", CLASSIC)
    if protocol not in PROTOCOLS:
        raise ValueError(f"unknown protocol {protocol!r}; protocols: {', '.join(PROTOCOLS)}")
    decided = PROTOCOLS[protocol]
    if twice := [name for name in decided if name in cell]:
        raise ValueError(f"the protocol {protocol} decides the option {twice[0]}: remove one of them")
    return ScenarioOptions(**{**cell, **decided})
