"""The exception that refuses a request with one of Kafka's error codes."""

from regroup.protocol.errors import ErrorCode

_MAX_TEXT_LENGTH = 1_000
"""The most characters of an error text. A text may quote what the client sent, and a message cannot carry one of more
than 32,767 bytes."""


class RequestError(Exception):
    """Raised to refuse a request, or a part of it. It has Kafka's error code and the error message of the response."""

    def __init__(self, code: ErrorCode, text: str | None = None) -> None:
        self.code = code
        self.text = (code.meaning if text is None else text)[:_MAX_TEXT_LENGTH]
        super().__init__(self.text)
