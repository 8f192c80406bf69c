"""The error of a request, by Kafka's code."""

from regroup.protocol.errors import ErrorCode

_MAX_TEXT_LENGTH = 1_000
"""A text may quote what the client sent, and a message cannot carry one of more than 32,767 bytes."""


class RequestError(Exception):
    """A request, or a part of it, is refused: Kafka's error code, and the error message of the response."""

    def __init__(self, code: ErrorCode, text: str | None = None) -> None:
        self.code = code
        self.text = (code.meaning if text is None else text)[:_MAX_TEXT_LENGTH]
        super().__init__(self.text)
