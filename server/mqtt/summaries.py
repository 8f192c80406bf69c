"""The retained MQTT summary of each group, which never shows events that the feed has not published.

The coordinator's groups are ahead: some of their events are not durable or not published yet. A group is a value, so a
changed one is held until the feed has published the position that the journal had when the group was taken.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import msgspec

from regroup.coordinator.group import Group
from regroup.coordinator.topics import TopicsImage
from regroup.mqtt.payloads import decode_payload
from regroup.server.mqtt.connection_losses import ConnectionLosses
from regroup.server.mqtt.group_summary import RemovedMember, summary_of
from regroup.storage.journal import Journal
from regroup.storage.records import Record

MAX_REMOVED_MEMBERS: Final = 5
"""How many of the members that were removed last one summary lists."""


class _Removal(msgspec.Struct):
    """The fields of the event `member-removed` that are read here."""

    member_id: str
    reason: str = ""


_encode: Final = msgspec.json.Encoder().encode


class Summaries:
    """The groups that have changed since their last summary, and the summaries that wait until the feed has published
    their events."""

    def __init__(
        self,
        journal: Journal,
        find_group: Callable[[str], Group],
        losses: ConnectionLosses,
        topics: Callable[[], TopicsImage],
    ) -> None:
        self._journal = journal
        self._find_group = find_group
        self._losses = losses
        self._topics = topics
        self._removed: dict[str, deque[RemovedMember]] = {}
        self._changed: dict[str, None] = {}
        self._held: dict[str, Group] = {}
        self._held_position = 0
        journal.on_failure(lambda error: self.rebuild_held())

    def mark_changed(self, group_ids: Iterable[str]) -> None:
        """Note that these groups have changed, so that new summaries of them are published."""
        self._changed.update(dict.fromkeys(group_ids))

    def rebuild_held(self) -> None:
        """Mark the groups whose summaries wait as changed, so that these are made again: the store failed and may have
        lost events, or MQTT was disconnected."""
        self._changed.update(dict.fromkeys(self._held))
        self._held = {}

    @property
    def is_pending(self) -> bool:
        """Whether any summary is still to be published, now or after the events that it contains."""
        return bool(self._changed or self._held)

    def take_due(self, position: int) -> dict[str, bytes]:
        """Return the encoded summaries, by group id, that may be published when the feed has published all events up to
        `position`, and remove them from those that wait. The bytes are empty for a deleted group."""
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

    def note_published(self, records: Iterable[Record]) -> None:
        """Note that the feed publishes these records: their groups need new summaries, which name removed members."""
        for record in records:
            if record.group is not None:
                self._changed[record.group] = None
                if record.type == "member-removed":
                    self._note_removal(record.group, record)

    def _note_removal(self, group_id: str, record: Record) -> None:
        """Add the member that this record of a removal names to the removed members in the group's summary. A record
        may be published twice, and is then added once; a damaged record is ignored."""
        with suppress(ValueError):
            removal = decode_payload(record.payload, _Removal)
            removed = RemovedMember(member_id=removal.member_id, at_ms=record.at_ms, reason=removal.reason)
            known = self._removed.setdefault(group_id, deque(maxlen=MAX_REMOVED_MEMBERS))
            if removed not in known:
                known.append(removed)

    def _payload(self, group: Group) -> bytes:
        group_id = group.group_id
        self._losses.retain_members(group_id, group.member_ids)
        if not group.exists:
            self._removed.pop(group_id, None)
            return b""
        losses, removed = self._losses.of_group(group_id), self._removed.get(group_id, ())
        return _encode(summary_of(group, losses, self._topics(), removed))
