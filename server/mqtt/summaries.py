"""A retained summary of each group, that tells no more than the feed has told already.

The coordinator's groups are ahead of the feed: some of what made them is not on disk, or not published yet. A group is
a value, so one is held until the feed has passed the position that the journal had when it was looked at.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from regroup.coordinator.group import Group, Member
from regroup.server.mqtt.deaths import Death, Deaths
from regroup.storage.journal import Journal

MOST_MEMBERS: Final = 1_000
"""Listed in one summary; `member_count` counts them all."""


class MemberSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    member: str
    client_id: str
    host: str
    instance_id: str | None = None
    session_timeout_ms: int
    waiting: str | None = None
    """For the answer to its JoinGroup (join) or SyncGroup (sync)."""
    died_at_ms: int | None = None
    """Its connection's last will came then; the coordinator needs up to the session timeout to notice by itself."""


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A group after its event `number`."""

    group: str
    number: int
    state: str
    state_since_ms: int
    generation: int
    protocol_name: str | None
    leader: str | None
    member_count: int
    members: list[MemberSummary]


_encode: Final = msgspec.json.Encoder().encode


class Summaries:
    """Which groups have changed since their summary was last published, and what may be said of them now."""

    def __init__(self, journal: Journal, group: Callable[[str], Group], deaths: Deaths) -> None:
        self._journal = journal
        self._group = group
        self._deaths = deaths
        self._changed: dict[str, None] = {}
        self._held: dict[str, Group] = {}
        self._held_at = 0
        journal.on_failure(lambda error: self.look_again())

    def changed(self, names: Iterable[str]) -> None:
        """These need a new summary."""
        self._changed.update(dict.fromkeys(names))

    def look_again(self) -> None:
        """What is held may never have happened: the store has failed, or the connection to those who read it."""
        self._changed.update(dict.fromkeys(self._held))
        self._held = {}

    @property
    def are_pending(self) -> bool:
        """Something is to be said, now or later."""
        return bool(self._changed or self._held)

    def due(self, position: int) -> dict[str, bytes]:
        """Payloads by group, now that the feed has told everything up to `position`. Empty for one that is gone."""
        shown: dict[str, Group] = {}
        if self._held and position >= self._held_at:
            shown, self._held = self._held, {}
        if self._changed and not self._held:
            self._held = {name: self._group(name) for name in self._changed}
            self._held_at = self._journal.last_position
            self._changed.clear()
            if position >= self._held_at:
                shown, self._held = shown | self._held, {}
        return {name: self._payload(group) for name, group in shown.items()}

    def _payload(self, group: Group) -> bytes:
        self._deaths.keep_only(group.name, group.members)
        return _encode(summary(group, self._deaths.of(group.name))) if group.exists else b""


def summary(group: Group, dead: Mapping[str, Death]) -> GroupSummary:
    """What a dashboard shows of a group; `dead` are members whose last will has come."""
    members = list(group.members.values())[:MOST_MEMBERS]
    return GroupSummary(
        group=group.name,
        number=group.number,
        state=group.state.value,
        state_since_ms=group.state_since_ms,
        generation=group.generation,
        protocol_name=group.protocol_name,
        leader=group.leader,
        member_count=len(group.members),
        members=[_of(member, dead.get(member.member_id)) for member in members],
    )


def _of(member: Member, death: Death | None) -> MemberSummary:
    return MemberSummary(
        member=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance_id=member.instance_id,
        session_timeout_ms=member.session_timeout_ms,
        waiting=member.waiting.value if member.waiting else None,
        died_at_ms=death.at_ms if death else None,
    )
