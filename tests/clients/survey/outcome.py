"""What a client did after a fault, in a few words, from the exchanges, the lines of its program and the events."""

from collections.abc import Iterator, Sequence

import msgspec

from tests.clients.survey.observation import NO_ANSWER, ObservedRequest, Run
from tests.clients.survey.profile import QUIET_MS
from tests.clients.survey.recovery import recovery_of


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one run came to."""

    steps: tuple[str, ...]
    """What the client did, in a fixed order, so that equal behaviour has equal steps."""
    recovered_ms: int | None
    """From the fault to the recovery; None without one."""
    exchanges: int
    """Requests about the group from the fault to the recovery, or to the end of the run."""
    read_again: int = 0
    """Records that the program has read a second time."""
    committed_twice: int = 0
    """Commits that the group has applied again with the offsets that it had."""


def outcome_of(run: Run) -> Outcome:
    """What the client of this run did."""
    hit, later = run.requests[run.hit], run.requests[run.hit + 1 :]
    recovery = recovery_of(run.requests, run.hit)
    until_ms = run.ended_at_ms if recovery is None else recovery.at_ms
    committed_twice = sum(1 for _ in repeated_commits(run))
    steps = [
        *_raised(run),
        *_after_the_hit(hit, later),
        *_membership(run, hit, later),
        *(["committed twice"] if committed_twice else []),
        *_reading(run),
        *([] if recovery else [_ending(run, later)]),
    ]
    return Outcome(
        steps=tuple(dict.fromkeys(steps)) or ("went on",),
        recovered_ms=recovery and recovery.at_ms,
        exchanges=sum(each.count for each in run.requests[run.hit :] if each.at_ms <= until_ms),
        read_again=sum(1 for each in run.lines if each.what == "read-again" and each.at_ms >= 0),
        committed_twice=committed_twice,
    )


def _raised(run: Run) -> Iterator[str]:
    for each in run.lines:
        if each.what == "raised" and each.at_ms >= 0:
            yield f"raised {each.details['error']} from {each.details['where']}"


def _after_the_hit(hit: ObservedRequest, later: Sequence[ObservedRequest]) -> Iterator[str]:
    """What became of the request that was hit."""
    if later and hit.answer == NO_ANSWER and "drop" in hit.fault:
        same_api = next((each for each in later if each.api == hit.api), None)
        if same_api is not None and same_api.connection != hit.connection:
            yield "opened a new connection"
    if hit.api != "FindCoordinator" and any(each.api == "FindCoordinator" for each in later):
        yield "looked up the coordinator"
    joined_ms = next((each.at_ms for each in later if each.api == "JoinGroup"), None)
    before_join = [each for each in later if joined_ms is None or each.at_ms < joined_ms or hit.api == "JoinGroup"]
    again = next((each for each in before_join if each.api == hit.api), None)
    if again is None:
        return
    if hit.api == "OffsetCommit":
        yield "repeated the commit" if again.offsets == hit.offsets else "went on with a later commit"
    elif hit.api == "JoinGroup":
        yield "repeated JoinGroup" if again.member_id == hit.member_id else "joined as a new member"
    elif hit.api == "Heartbeat":
        yield "sent further heartbeats"
    elif hit.api == "SyncGroup" and again.generation != hit.generation:
        return
    else:
        yield f"repeated {hit.api}"


def _membership(run: Run, hit: ObservedRequest, later: Sequence[ObservedRequest]) -> Iterator[str]:
    """How the client came to be a member again, and what it lost."""
    if any(each.api == "LeaveGroup" for each in later):
        yield "left the group"
    removed = [each for each in run.events if each.type == "member-removed" and each.at_ms >= 0]
    if any(each.cause == "deadline: session" for each in removed):
        yield "its session ran out"
    whats = [each.what for each in run.lines if each.at_ms >= 0]
    if "lost" in whats:
        yield "lost its assignment"
    if "revoked" in whats:
        yield "gave its partitions back"
    joins = [each for each in later if each.api == "JoinGroup"]
    if joins and hit.api != "JoinGroup":
        is_new = hit.member_id and any(not each.member_id for each in joins)
        yield "rejoined as a new member" if is_new else "rejoined"
    elif any(not each.member_id for each in joins[1:]):
        yield "joined as a new member"


def _reading(run: Run) -> Iterator[str]:
    whats = [each.what for each in run.lines if each.at_ms >= 0]
    if "read-again" in whats:
        yield "read records again"
    if "skipped" in whats:
        yield "skipped records"


def _ending(run: Run, later: Sequence[ObservedRequest]) -> str:
    if any(each.what == "exited" for each in run.lines):
        return "ended"
    last_ms = max((each.latest_ms for each in later), default=0)
    return "gave up" if run.ended_at_ms - last_ms >= QUIET_MS else "did not recover"


def repeated_commits(run: Run) -> Iterator[dict[str, int]]:
    """The commits since the fault that were applied with the offsets that the group had."""
    committed: dict[str, int] = {}
    for each in run.events:
        if each.type == "offsets-committed":
            if each.at_ms >= 0 and all(committed.get(name) == offset for name, offset in each.offsets.items()):
                yield each.offsets
            committed |= each.offsets
