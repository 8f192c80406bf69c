"""The session of each member of one group: how long its timeout is, and when it started last.

Heartbeats and commits start it again and lead to no event or to one that does not say so. Events do it for members
whose JoinGroup or SyncGroup is answered. While such a request is held the timeout does not run.

    sessions = MemberSessions()
    sessions.on_event("generation-started", at_ms, payload)
    sessions.on_request(at_ms, member_id, "Heartbeat", is_certain=True)
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from regroup.pipeline.source.columns import SNAPSHOT_TYPE

Payload = Mapping[str, Any]

ENDINGS: Final = {"member-left": "left", "member-removed": "removed"}
ONE_MEMBER_TOUCHED: Final = frozenset(
    {
        *("offsets-committed", "offsets-written", "member-reconciled", "classic-member-joined"),
        *("classic-member-synced", "rejoin-requested"),
    }
)
"""Events of one member that follow from a request which starts its session timeout again."""
EVENT_TYPES: Final = (
    *ENDINGS,
    *sorted(ONE_MEMBER_TOUCHED),
    *("member-joined", "member-rejoined", "static-member-replaced", "generation-started", "member-synced"),
    *("assignment-committed", "rebalance-started", "group-emptied", "group-deleted", "coordinator-loaded"),
    *("member-subscribed", "static-consumer-replaced", "group-upgraded", "group-downgraded", SNAPSHOT_TYPE),
    *("group-created", "consumer-group-created", "consumer-group-ended"),
)
"""The types of events that matter here."""

CLASSIC_AGAIN: Final = ("group-created", "consumer-group-ended", "group-downgraded")
CONSUMER_FROM_NOW: Final = ("consumer-group-created", "group-upgraded")

COMMITS: Final = ("OffsetCommit", "offsets-committed", "offsets-written")
"""A commit starts the session timeout again in a classic group only, and SyncGroup in the other kind only."""


class MemberEnd(NamedTuple):
    """When and how a member ended: left, removed or replaced."""

    at_ms: int
    ended_by: str


class RunningSession:
    """The session of one member."""

    def __init__(self, timeout_ms: int, last_seen_ms: int | None) -> None:
        self.timeout_ms = timeout_ms
        self.last_seen_ms = last_seen_ms
        """When the timeout started last, in epoch milliseconds; None if that is not known."""
        self.is_held = False
        """Whether its JoinGroup or SyncGroup is held, so that the timeout does not run."""
        self.next_timeout_ms: int | None = None
        """The timeout from its next request on: a new process of a static member has that of its predecessor first."""

    def touch(self, at_ms: int | None) -> None:
        self.last_seen_ms = at_ms
        if self.next_timeout_ms is not None:
            self.timeout_ms, self.next_timeout_ms = self.next_timeout_ms, None


class MemberSessions:
    """The sessions of one group's members, while its events and requests are read in the order of their times."""

    def __init__(self) -> None:
        self.members: dict[str, RunningSession] = {}
        self.ended: dict[str, MemberEnd] = {}
        self._is_consumer = False
        """Whether the group is one of the consumer protocol."""
        self._syncing: set[str] = set()
        """Members whose SyncGroup is held."""

    def on_request(self, at_ms: int, member_id: str, kind: str, *, is_certain: bool) -> None:
        """A member's request came, and was accepted, or may have been if that is not certain.

        `kind` is the API, or the type of the event that follows from the request.
        """
        if (kind in COMMITS and self._is_consumer) or (kind == "SyncGroup" and not self._is_consumer):
            return
        if session := self.members.get(member_id):
            session.touch(at_ms if is_certain else None)

    def on_event(self, kind: str, at_ms: int, payload: Payload) -> None:
        """Take the next event. Raises one of UNREADABLE_ERRORS for a payload that no event of this type has."""
        member_id = payload.get("member_id", "")
        if kind in (*CLASSIC_AGAIN, *CONSUMER_FROM_NOW):
            self._is_consumer = kind in CONSUMER_FROM_NOW
        if kind in ENDINGS:
            self._end(member_id, at_ms, ENDINGS[kind])
        elif kind in ONE_MEMBER_TOUCHED:
            self.on_request(at_ms, member_id, kind, is_certain=True)
        elif kind in ("member-joined", "member-rejoined"):
            self._join(member_id, at_ms, payload)
        elif kind in ("static-member-replaced", "static-consumer-replaced"):
            self._replace(kind, at_ms, payload)
        elif kind == "member-subscribed":
            self._subscribe(member_id, at_ms, payload)
        elif kind == "member-synced":
            self._sync(member_id, awaits_assignment=payload["awaits_assignment"])
        elif kind in ("assignment-committed", "rebalance-started"):
            self._release(self._syncing, at_ms)
            self._syncing = set()
        elif kind in ("generation-started", "coordinator-loaded"):
            self._release(self.members, at_ms)
            self._syncing = set()
        elif kind in ("group-upgraded", "group-downgraded", SNAPSHOT_TYPE):
            seen_ms = None if kind == SNAPSHOT_TYPE else at_ms
            self._is_consumer = kind == "group-upgraded" or bool(payload.get("consumer"))
            self.members = {each: RunningSession(timeout_ms, seen_ms) for each, timeout_ms in listed_timeouts(payload)}
            self._syncing = set()
        elif kind in ("group-emptied", "group-deleted"):
            self.members.clear()

    def _end(self, member_id: str, at_ms: int, ended_by: str) -> None:
        self.members.pop(member_id, None)
        self._syncing.discard(member_id)
        self.ended[member_id] = MemberEnd(at_ms, ended_by)

    def _join(self, member_id: str, at_ms: int, payload: Payload) -> None:
        session = self.members.setdefault(member_id, RunningSession(0, at_ms))
        session.timeout_ms, session.next_timeout_ms = timeout_ms_in(payload["profile"]), None
        session.is_held = True
        self.ended.pop(member_id, None)

    def _replace(self, kind: str, at_ms: int, payload: Payload) -> None:
        old_id = payload["replaced_member_id"]
        old = self.members.get(old_id)
        if old_id != payload["member_id"]:
            self._end(old_id, at_ms, "replaced")
        former_ms = old.timeout_ms if old else 0
        timeout_ms = timeout_ms_in(payload["profile"]) if kind == "static-member-replaced" else former_ms
        session = self.members[payload["member_id"]] = RunningSession(former_ms or timeout_ms, at_ms)
        session.next_timeout_ms = timeout_ms
        session.is_held = payload.get("awaits_join", False)
        self.ended.pop(payload["member_id"], None)

    def _subscribe(self, member_id: str, at_ms: int, payload: Payload) -> None:
        timeout_ms = timeout_ms_in(payload["profile"], 0)
        session = self.members.setdefault(member_id, RunningSession(timeout_ms, at_ms))
        session.timeout_ms = timeout_ms
        self.ended.pop(member_id, None)
        if not payload.get("reason"):  # with a reason, settings of the group have changed
            session.touch(at_ms)

    def _sync(self, member_id: str, *, awaits_assignment: bool) -> None:
        """A SyncGroup in a classic group: only the end of its wait starts the session timeout again."""
        if session := self.members.get(member_id):
            session.is_held = awaits_assignment
            if awaits_assignment:
                self._syncing.add(member_id)

    def _release(self, member_ids: Mapping[str, object] | set[str], at_ms: int) -> None:
        for member_id in member_ids:
            if session := self.members.get(member_id):
                session.is_held = False
                session.touch(at_ms)


def listed_timeouts(payload: Payload) -> Iterator[tuple[str, int]]:
    """Yield the members that an upgrade, a downgrade or a snapshot lists, each with its session timeout."""
    for member_id, profile in payload.get("profiles", {}).items():
        yield member_id, timeout_ms_in(profile, 0)
    members = payload.get("members", {})
    listed = members.values() if isinstance(members, dict) else members
    for member in [*listed, *payload.get("consumer", {}).get("members", {}).values()]:
        yield member["member_id"], timeout_ms_in(member["profile"], 0)


def timeout_ms_in(profile: Payload, default_ms: int | None = None) -> int:
    """The session timeout in a member's profile. Raises ValueError for anything but a number."""
    timeout_ms = profile.get("session_timeout_ms", default_ms)
    if type(timeout_ms) is not int or timeout_ms.bit_length() > 31:
        raise ValueError(f"invalid session timeout: {timeout_ms!r}")
    return timeout_ms
