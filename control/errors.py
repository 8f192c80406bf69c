"""The answers to refused requests: a status, and one sentence."""

import re
from enum import IntEnum
from typing import Final

import msgspec

from regroup.server.faults.gate import UnknownRule
from regroup.storage.errors import StoreError
from regroup.testing.errors import ActRefused, EmulatorDown, UnknownMember, UnknownTopic


class Status(IntEnum):
    """The HTTP statuses with which requests are refused, and what each means for the endpoints."""

    UNAUTHORIZED = 401
    FORBIDDEN = 403
    NOT_FOUND = 404
    METHOD_NOT_ALLOWED = 405
    TIMED_OUT = 408
    REFUSED = 409
    TOO_LARGE = 413
    NOT_JSON = 415
    INVALID = 422
    TOO_MANY_WAITS = 429
    BROKEN = 500
    UNAVAILABLE = 503

    @property
    def meaning(self) -> str:
        """What the status means when an endpoint answers with it, as text for the documentation."""
        return MEANINGS[self]


MEANINGS: Final = {
    Status.UNAUTHORIZED: "The token is missing or wrong.",
    Status.FORBIDDEN: "The Host or the Origin of the request is not one of this address, or the page is read-only.",
    Status.NOT_FOUND: "There is no such group, member, client, topic, partition, rule or path.",
    Status.METHOD_NOT_ALLOWED: "The path exists, for another method.",
    Status.TIMED_OUT: "The body has not come in time.",
    Status.REFUSED: "The state does not allow the act, or what was waited for has not come in time.",
    Status.TOO_LARGE: "The body is too large.",
    Status.NOT_JSON: "The body is not announced as application/json.",
    Status.INVALID: "The query or the body is not what the endpoint takes.",
    Status.TOO_MANY_WAITS: "Too many requests wait already.",
    Status.BROKEN: "An error of regroup; its log has more.",
    Status.UNAVAILABLE: "The brokers have been killed, the store has failed, or the process is stopping.",
}


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """The JSON of the answer to a refused request."""

    error: str
    """What is wrong, in one sentence."""
    story: str = ""
    """The last events and requests of the group, as a table, after a wait that reached its timeout; empty otherwise."""


class UnknownGroup(LookupError):
    """Raised when a request names a group that does not exist."""


class ControlRefused(Exception):
    """Raised by an endpoint to refuse a request with an HTTP status and a sentence that says why."""

    def __init__(self, status: Status, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


STATUSES: Final[tuple[tuple[type[Exception], Status], ...]] = (
    (msgspec.ValidationError, Status.INVALID),
    (msgspec.DecodeError, Status.INVALID),
    (UnknownGroup, Status.NOT_FOUND),
    (UnknownRule, Status.NOT_FOUND),
    (UnknownMember, Status.NOT_FOUND),
    (UnknownTopic, Status.NOT_FOUND),
    (ActRefused, Status.REFUSED),
    (AssertionError, Status.REFUSED),
    (EmulatorDown, Status.UNAVAILABLE),
    (StoreError, Status.UNAVAILABLE),
    (TimeoutError, Status.REFUSED),
    (ValueError, Status.INVALID),
    (OSError, Status.REFUSED),
)
"""The status for each type of error, of the test kit and of regroup. For an error of several types the first one
counts."""


_PLACE: Final = re.compile(r"^(.*) - at `\$\.?([^`]*)`$")
"""The end of an error message of msgspec: the path of the field, such as `$.member`."""


def _with_field_first(sentence: str) -> str:
    """An error message of msgspec in another order: with the name of the field first, as in `invalid member: expected
    str, got int`."""
    found = _PLACE.match(sentence)
    if found is None:
        return sentence
    what = found[1][:1].lower() + found[1][1:].replace("`", "")
    return f"invalid {found[2] or 'input'}: {what}"


def problem_of(error: Exception) -> tuple[Status, Problem] | None:
    """The answer to a request that failed with this error; None if the error is a defect of regroup."""
    if isinstance(error, ControlRefused):
        return error.status, Problem(str(error))
    status = next((status for kind, status in STATUSES if isinstance(error, kind)), None)
    if status is None:
        return None
    if isinstance(error, EmulatorDown):
        return status, Problem("the brokers were killed: POST /emulator/restart starts them again")
    text = str(error)
    sentence, _, story = text.partition("\n") if isinstance(error, (TimeoutError, AssertionError)) else (text, "", "")
    if isinstance(error, msgspec.ValidationError):
        sentence = _with_field_first(sentence)
    return status, Problem(sentence or type(error).__name__, story)
