"""The limit of an application that does not call poll(): Kafka's `max.poll.interval.ms`."""

from typing import Final

from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import HeartbeatRequest

POLL_TIMEOUT: Final = (
    "A member whose application has not been inside poll() for max.poll.interval.ms sends no more heartbeats."
)
POLL_SLACK_MS: Final = 50
"""How late a member may notice it."""


def is_heartbeat(message: Message) -> bool:
    """Whether a request is a heartbeat of either protocol by which a member stays in its group, and not one by which it
    leaves."""
    if isinstance(message, ConsumerGroupHeartbeatRequest):
        return message.member_epoch >= 0
    return isinstance(message, HeartbeatRequest)
