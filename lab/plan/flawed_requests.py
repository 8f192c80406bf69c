"""The names of the requests that a client sends to be refused (`InvalidRequestIsSent`)."""

from typing import Final

CLASSIC_FLAWED_REQUESTS: Final = (
    "a JoinGroup with a session timeout of 1 ms",
    "a JoinGroup without protocols",
    "a JoinGroup of an unknown member",
    "a SyncGroup of an unknown member",
    "a Heartbeat of an unknown member",
    "a LeaveGroup of an unknown member",
    "an OffsetCommit of an unknown member",
)
CONSUMER_FLAWED_REQUESTS: Final = (
    "a ConsumerGroupHeartbeat of an unknown member",
    "a ConsumerGroupHeartbeat without a subscription",
    "a ConsumerGroupHeartbeat with an unknown assignor",
    "a ConsumerGroupHeartbeat with an invalid pattern",
    "an OffsetFetch of an unknown member",
)
"""Requests that are refused in groups of the consumer protocol (KIP-848)."""
UPGRADE_ATTEMPTS: Final = (
    "a ConsumerGroupHeartbeat with an invalid pattern",
    "a ConsumerGroupHeartbeat without a subscription",
)
"""Requests of a member of the consumer protocol that joins, and is refused by every group."""
FLAWED_REQUESTS: Final = (*CLASSIC_FLAWED_REQUESTS, *CONSUMER_FLAWED_REQUESTS)
ODD_REQUESTS: Final = (
    "a JoinGroup that lists an assignor twice",
    "an OffsetCommit with generation 0",
)
"""Requests of clients that are no members. They are refused in the states of a group in which they differ from others:
the first if the group has members, the second always."""
