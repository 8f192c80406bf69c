"""Commands of groups of the consumer protocol (KIP-848)."""

from collections.abc import Mapping

from regroup.coordinator.commands import Command
from regroup.coordinator.consumer_group import TopicId
from regroup.coordinator.topics import TopicsImage

__all__ = ["ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "ResolveRegexes"]


class ConsumerGroupHeartbeat(Command, frozen=True, kw_only=True):
    """A member joins with epoch 0, leaves with -1 (-2: a static member that will return), or reports that it is alive.

    A field that is None, or a timeout of -1, means that this part is unchanged since the member's last heartbeat.
    """

    member_id: str
    new_member_id: str = ""
    """The id to give the member if it has none."""
    requires_member_id: bool = True
    """The client must choose its member id (ConsumerGroupHeartbeat v1, KIP-1082)."""
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_regex: str | None = None
    regex_error: str | None = None
    """Why the pattern is none; RE2 compiles it outside the coordinator."""
    server_assignor: str | None = None
    owned: Mapping[TopicId, tuple[int, ...]] | None = None
    """The partitions that the member reports to own."""
    topics: TopicsImage
    """The topics of the cluster at this time."""


class ConsumerGroupDescribe(Command, frozen=True, kw_only=True):
    """An administrator asks for the group's epochs, members and targets."""

    topics: TopicsImage


class ResolveRegexes(Command, frozen=True, kw_only=True):
    """The broker reports which topics match the patterns of the group, after a search that `regexes_to_resolve`
    required."""

    resolved: Mapping[str, tuple[str, ...]]
    """The topics that each pattern matches, sorted."""
    topics: TopicsImage
