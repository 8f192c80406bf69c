"""Metadata responses by which a topic does not exist, as from brokers that have yet to learn of it.

unknown = UnknownTopics()
unknown.begin("anna", "orders")
transport = ChangedResponseTransport(transport, partial(unknown.replaced, "anna"))
unknown.end("anna", "orders")
"""

from collections import Counter

from msgspec.structs import replace

from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import MetadataResponse, MetadataResponseTopic


class UnknownTopics:
    """The members that get an error of a topic in Metadata responses, with the topic."""

    def __init__(self) -> None:
        self._unknown: Counter[tuple[str, str]] = Counter()
        """By the names of a member and of a topic, how many steps of the plan say so at present."""

    def begin(self, name: str, topic: str) -> None:
        """Let the Metadata responses to a member say from now on that this topic does not exist."""
        self._unknown[name, topic] += 1

    def end(self, name: str, topic: str) -> None:
        """Let them say what brokers know, unless another step says otherwise."""
        self._unknown[name, topic] -= 1

    def replaced(self, name: str, response: Message) -> Message:
        """The response that a member gets in place of this one."""
        if not isinstance(response, MetadataResponse):
            return response
        topics = [_missing(each) if self._unknown[name, each.name or ""] else each for each in response.topics]
        return replace(response, topics=topics)


def _missing(topic: MetadataResponseTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=topic.name)
