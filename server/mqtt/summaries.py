"""The retained MQTT summary of each group, which never shows events that the feed has not published.

The coordinator's groups are ahead: some of their events are not durable or not published yet. A group is a value, so a
changed one is held until the feed has published the position that the journal had when the group was taken.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from regroup.coordinator.group import Group, Member
from regroup.server.mqtt.connection_losses import ConnectionLosses
from regroup.storage.journal import Journal

MAX_LISTED_MEMBERS: Final = 1_000
"""How many members one summary lists; `member_count` counts all."""


class MemberSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A member in the summary of its group."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None = None
    session_timeout_ms: int
    awaiting: str | None = None
    """`join` or `sync` while the response to that request of the member is held; None otherwise."""
    connection_lost_at_ms: int | None = None
    """When the last will of the member's connection was published, in epoch milliseconds; None if it is not lost. The
    coordinator removes the member when its session times out."""


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a group after its event `event_number`."""

    group: str
    event_number: int
    state: str
    state_since_ms: int
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    member_count: int
    members: list[MemberSummary]


_encode: Final = msgspec.json.Encoder().encode


class Summaries:
    """The groups that have changed since their last summary, and the summaries that wait until the feed has published
    their events."""

    def __init__(self, journal: Journal, find_group: Callable[[str], Group], losses: ConnectionLosses) -> None:
        self._journal = journal
        self._find_group = find_group
        self._losses = losses
        self._changed: dict[str, None] = {}
        self._held: dict[str, Group] = {}
        self._held_position = 0
        journal.on_failure(lambda error: self.rebuild_held())

    def mark_changed(self, group_ids: Iterable[str]) -> None:
        """Note that these groups need a new summary."""
        self._changed.update(dict.fromkeys(group_ids))

    def rebuild_held(self) -> None:
        """Mark the groups whose summaries wait as changed, so that these are made again: the store failed and may have
        lost events, or MQTT was disconnected."""
        self._changed.update(dict.fromkeys(self._held))
        self._held = {}

    @property
    def is_pending(self) -> bool:
        """Whether a summary has to be published, now or later."""
        return bool(self._changed or self._held)

    def take_due(self, position: int) -> dict[str, bytes]:
        """The summaries that may be published when the feed has reached `position`, encoded, by group id; empty bytes
        for a deleted group."""
        due: dict[str, Group] = {}
        if self._held and position >= self._held_position:
            due, self._held = self._held, {}
        if self._changed and not self._held:
            self._held = {group_id: self._find_group(group_id) for group_id in self._changed}
            self._held_position = self._journal.last_position
            self._changed.clear()
            if position >= self._held_position:
                due, self._held = due | self._held, {}
        return {group_id: self._payload(group) for group_id, group in due.items()}

    def _payload(self, group: Group) -> bytes:
        self._losses.retain_members(group.group_id, group.member_ids)
        if not group.exists:
            return b""
        return _encode(
            GroupSummary(
                group=group.group_id,
                event_number=group.event_number,
                state=group.state_name,
                state_since_ms=group.state_since_ms,
                generation_id=group.generation_id,
                protocol_name=group.protocol_name,
                leader_id=group.leader_id,
                member_count=len(group.member_ids),
                members=[
                    self._member_summary(group.group_id, member)
                    for member in list(group.members.values())[:MAX_LISTED_MEMBERS]
                ],
            )
        )

    def _member_summary(self, group_id: str, member: Member) -> MemberSummary:
        loss = self._losses.of_group(group_id).get(member.member_id)
        return MemberSummary(
            member_id=member.member_id,
            client_id=member.profile.client_id,
            client_host=member.profile.client_host,
            group_instance_id=member.instance_id,
            session_timeout_ms=member.profile.session_timeout_ms,
            awaiting=member.awaiting.value if member.awaiting else None,
            connection_lost_at_ms=loss.at_ms if loss else None,
        )
