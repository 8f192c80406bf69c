"""What a client did after a fault, in a few words, from the exchanges, the lines of its program and the events."""

from collections.abc import Iterator, Sequence

import msgspec

from tests.clients.survey.observation import NO_ANSWER, ObservedRequest, Run
from tests.clients.survey.profile import COMMITTED_BEFORE, QUIET_MS, THROTTLE_MS
from tests.clients.survey.recovery import recovery_of

WAITED = 0.95
"""The share of a throttle time after which a client has waited: clocks differ a little."""


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
        read_again=records_read_again(run),
        committed_twice=committed_twice,
    )


def _raised(run: Run) -> Iterator[str]:
    for each in run.lines:
        if each.what == "raised" and each.at_ms >= 0:
            yield f"raised {each.details['error']} from {each.details['where']}"


def _after_the_hit(hit: ObservedRequest, later: Sequence[ObservedRequest]) -> Iterator[str]:
    """What became of the request that was hit."""
    if hit.answer == NO_ANSWER and "drop" in hit.fault:
        is_left = any(each.connection != hit.connection and each.api != "FindCoordinator" for each in later)
        yield "opened a new connection" if is_left else "stayed on the connection"
    if hit.api != "FindCoordinator" and any(each.api == "FindCoordinator" for each in later):
        yield "looked up the coordinator"
    if "throttle" in hit.fault:
        following = next((each for each in later if each.connection == hit.connection), None)
        waited = following is None or following.at_ms >= THROTTLE_MS * WAITED
        yield "waited as long as it was asked to" if waited else "did not wait"
        return
    is_rule = bool(hit.fault)
    refused = [each for each in later if each.api == "OffsetCommit" and each.answer not in ("NONE", NO_ANSWER)]
    if hit.api == "OffsetCommit" or not is_rule:
        commit = hit if hit.api == "OffsetCommit" else next(iter(refused), None)
        yield from _after_a_commit(commit, later) if commit else ()
    elif hit.api == "SyncGroup":
        if any(each.api == "SyncGroup" and each.generation == hit.generation for each in later):
            yield "repeated SyncGroup"
    elif again := next((each for each in later if each.api == hit.api), None):
        if hit.api == "JoinGroup" and again.member_id != hit.member_id:
            yield "joined as a new member"
        else:
            yield "sent further heartbeats" if hit.api == "Heartbeat" else f"repeated {hit.api}"


def _after_a_commit(commit: ObservedRequest, later: Sequence[ObservedRequest]) -> Iterator[str]:
    """What became of a commit that failed, or whose answer was lost or changed."""
    following = [each for each in later if each.at_ms >= commit.at_ms and each is not commit]
    if any(each.api == "OffsetCommit" and each.offsets == commit.offsets for each in following):
        yield "repeated the commit"
        return
    first = next((each for each in following if each.api in ("OffsetCommit", "JoinGroup")), None)
    if first is not None and first.api == "OffsetCommit":
        yield "went on with a later commit"


def _membership(run: Run, hit: ObservedRequest, later: Sequence[ObservedRequest]) -> Iterator[str]:
    """How the client came to be a member again, and what it lost."""
    if any(each.api == "LeaveGroup" for each in later):
        yield "left the group"
    removed = [each for each in run.events if each.type == "member-removed" and each.at_ms >= 0]
    if any(each.cause == "deadline: session" for each in removed):
        is_fenced = hit.answer == "FENCED_INSTANCE_ID"
        yield "the session of the second process ran out" if is_fenced else "its session ran out"
    if any(each.what == "lost" and each.at_ms >= 0 for each in run.lines):
        yield "lost its assignment"
    if revoked_by_the_fault(run):
        yield "gave its partitions back"
    joins = [each for each in later if each.api == "JoinGroup"]
    was_member = any(each.member_id for each in run.requests[: run.hit + 1])
    if hit.api == "JoinGroup" and any(not each.member_id for each in joins[1:]):
        yield "joined as a new member"
    elif joins and hit.api != "JoinGroup" and was_member:
        yield "rejoined as a new member" if any(not each.member_id for each in joins) else "rejoined"


def _reading(run: Run) -> Iterator[str]:
    if any(each.what == "skipped" for each in run.lines if each.at_ms >= 0):
        yield "skipped records"
    began = [each.details["offset"] for each in run.lines if each.what == "began" and each.at_ms >= 0]
    if began and min(began) < COMMITTED_BEFORE:
        yield "ignored the committed offsets"


def revoked_by_the_fault(run: Run) -> bool:
    """Whether the client has given partitions back, other than for the rebalance in which it was hit."""
    changes = [each for each in run.lines if each.what in ("assigned", "revoked") and each.details.get("partitions")]
    if run.requests[run.hit].fault and run.requests[run.hit].api in ("JoinGroup", "SyncGroup"):
        assigned = [index for index, each in enumerate(changes) if each.what == "assigned" and each.at_ms < 0]
        changes = changes[assigned[-1] + 2 :] if assigned else changes
    return any(each.what == "revoked" and each.at_ms >= 0 for each in changes)


def records_read_again(run: Run) -> int:
    """Records that the program has read a second time since the fault."""
    return sum(1 for each in run.lines if each.what == "read-again" and each.at_ms >= 0)


def _ending(run: Run, later: Sequence[ObservedRequest]) -> str:
    if any(each.what == "exited" for each in run.lines):
        return "ended"
    if all(each.what != "began" for each in run.lines) and any(each.api == "Heartbeat" for each in later):
        return "read nothing"
    if run.requests[run.hit].answered_at_ms is None and not later:
        return "did not recover"  # what it sent on the same connection was not read
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
