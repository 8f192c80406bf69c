"""The settings of a consumer, by the names of Kafka's consumer configuration."""

import re
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["ConsumerSettings"]

_INSTANCE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_POSITIVE: Final = (
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "max_poll_interval_ms",
    "auto_commit_interval_ms",
    "request_timeout_ms",
    "default_api_timeout_ms",
    "metadata_max_age_ms",
    "retry_backoff_ms",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The settings of a consumer, with the defaults of Kafka's own consumer.

    Raises ValueError for settings with which no consumer can work.
    """

    group_id: str
    client_id: str = "regroup"
    group_instance_id: str | None = None
    """Kafka's `group.instance.id`. It makes the member static (KIP-345): it keeps its assignment across a restart."""
    client_rack: str | None = None
    partition_assignment_strategy: tuple[str, ...] = ("range", "cooperative-sticky")
    group_remote_assignor: str | None = None
    """Kafka's `group.remote.assignor`: the assignor of the coordinator that the member votes for (KIP-848)."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    auto_offset_reset: Literal["earliest", "latest"] = "latest"
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    """Kafka's `isolation.level`: whether records of open and aborted transactions are read."""
    exclude_internal_topics: bool = True
    allow_auto_create_topics: bool = True
    metadata_max_age_ms: int = 300_000
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    waits_for_listener: bool = False
    """Whether the rebalance pauses after each callback (revoked, assigned, lost) until `ListenerReturned`.

    Not a setting of Kafka's, where the callback is a method and the rebalance goes on when it returns.
    """

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) must be below "
                f"session_timeout_ms ({self.session_timeout_ms})"
            )
        if not self.partition_assignment_strategy:
            raise ValueError("partition_assignment_strategy needs at least one assignor")
        if self.group_instance_id is not None and not _INSTANCE_ID.fullmatch(self.group_instance_id):
            raise ValueError(
                f"group_instance_id {self.group_instance_id!r}: 1 to 249 letters, digits, '.', '_' or '-' are allowed"
            )

    @property
    def rebalance_timeout_ms(self) -> int:
        """Kafka's rebalance timeout: how long the coordinator waits for this member to rejoin.

        It is `max_poll_interval_ms`.
        """
        return self.max_poll_interval_ms

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    def backoff_ms(self, attempts: int) -> int:
        """The pause in milliseconds before the next attempt, after this number of failed attempts in a row.

        It doubles with each attempt up to `retry_backoff_max_ms` (KIP-580, without jitter).
        """
        doubled = self.retry_backoff_ms << min(attempts, 20)
        return min(doubled, max(self.retry_backoff_ms, self.retry_backoff_max_ms))
