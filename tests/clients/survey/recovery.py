"""Whether and when a client has recovered, from the exchanges that followed a fault."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.clients.survey.observation import ObservedRequest

_APIS_OF_RECOVERY = ("FindCoordinator", "JoinGroup", "SyncGroup", "LeaveGroup")


class Recovery(NamedTuple):
    """When the client had recovered, and how many requests it took, the one that was hit and the last one included."""

    at_ms: int
    exchanges: int
    is_confirmed: bool
    """A heartbeat has succeeded since the last trouble."""


def is_trouble(request: ObservedRequest) -> bool:
    """Hit by the fault, refused, or part of joining again."""
    is_refused = request.answered_at_ms is not None and request.answer != "NONE"
    return bool(request.fault) or is_refused or request.api in _APIS_OF_RECOVERY


def recovery_of(requests: Sequence[ObservedRequest], hit: int) -> Recovery | None:
    """The recovery from a fault that hit the request with this index at 0; None while there is none.

    A client has recovered with the first commit that succeeds after the last trouble. If heartbeats were hit, a
    heartbeat has to succeed too.
    """
    api = requests[hit].api
    after = [each for index, each in enumerate(requests) if index >= hit or (each.count > 1 and each.latest_ms > 0)]
    trouble_ms = max((each.end_ms for each in after if is_trouble(each)), default=0)
    commit_ms = _first_success(after, "OffsetCommit", trouble_ms)
    heartbeat_ms = _first_success(after, "Heartbeat", trouble_ms)
    if commit_ms is None or (api == "Heartbeat" and heartbeat_ms is None):
        return None
    at_ms = max(commit_ms, heartbeat_ms or 0) if api == "Heartbeat" else commit_ms
    exchanges = sum(each.count for each in requests[hit:] if each.at_ms <= at_ms)
    return Recovery(at_ms, exchanges, heartbeat_ms is not None)


def _first_success(requests: Sequence[ObservedRequest], api: str, since_ms: int) -> int | None:
    """When the first request to this API that came at or after this time, was answered without an error."""
    for each in requests:
        if each.api == api and each.is_success and each.latest_ms >= since_ms and each.answered_at_ms is not None:
            if each.at_ms >= since_ms:
                return each.answered_at_ms
            if each.count > 1:
                return each.latest_ms
    return None
