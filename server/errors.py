"""The error of a request, by Kafka's code."""

from regroup.protocol.errors import ErrorCode


class RequestError(Exception):
    """A request, or a part of it, is refused: Kafka's error code, and the error message of the response."""

    def __init__(self, code: ErrorCode, text: str | None = None) -> None:
        self.code = code
        self.text = code.meaning if text is None else text
        super().__init__(self.text)
