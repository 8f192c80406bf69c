"""Responses with an error code that no client knows, as from a broker of a later release.

unknown = UnknownErrors()
unknown.expect("anna", "Heartbeat")
transport = ChangedResponseTransport(transport, partial(unknown.replaced, "anna"))
"""

from collections import Counter
from typing import Final

from msgspec.structs import replace

from regroup.protocol.apis import APIS
from regroup.protocol.message import Message
from regroup.protocol.messages.offsets import OffsetCommitResponse, OffsetCommitResponseTopic

UNKNOWN_ERROR_CODE: Final = 9_999


class UnknownErrors:
    """Which members get an unknown error code with their next response of which type."""

    def __init__(self) -> None:
        self._expected: Counter[tuple[str, int]] = Counter()
        """By the name of a member and an API key, how many responses are to have one."""

    def expect(self, name: str, api: str) -> None:
        """Let the next response of this type to this member have an unknown error code."""
        (key,) = (key for key, each in APIS.items() if each.name == api)
        self._expected[name, key] += 1

    def replaced(self, name: str, response: Message) -> Message:
        """The response that a member gets in place of this one. One that has an error code neither of its own nor for
        each partition stays as it is."""
        awaited = (name, type(response).api_key)
        has_error_code = isinstance(response, OffsetCommitResponse) or hasattr(response, "error_code")
        if not self._expected[awaited] or not has_error_code:
            return response
        self._expected[awaited] -= 1
        if isinstance(response, OffsetCommitResponse):
            return replace(response, topics=[_refused(each) for each in response.topics])
        return replace(response, error_code=UNKNOWN_ERROR_CODE)


def _refused(topic: OffsetCommitResponseTopic) -> OffsetCommitResponseTopic:
    return replace(topic, partitions=[replace(each, error_code=UNKNOWN_ERROR_CODE) for each in topic.partitions])
