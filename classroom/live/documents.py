"""The documents of timelines that grow, for pages that show them: each is written once for all that ask.

documents = LiveDocuments(FollowedTimelines(lambda: store), recordings)
await documents.document("billing", after=120)     JSON, or None without history
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from regroup.classroom.live.following import FollowedTimeline, FollowedTimelines
from regroup.classroom.live.recordings import LiveRecordings
from regroup.classroom.page.document import encoded_document
from regroup.classroom.recorded.messages import ExchangeMessages
from regroup.classroom.timeline import GroupTimeline
from regroup.coordinator.group import MemberId
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.observations import ViewObserved

MAX_INLINE_ITEMS: Final = 500
"""Moments and exchanges of a timeline whose document is written in the loop; that of a longer one is written in a
thread."""
MAX_CACHED: Final = 32
MAX_CACHED_BYTES: Final = 1024 * 1024
"""Documents that are kept for the next who asks, and how large each may be."""


MAX_STEPS: Final = 50_000
"""Exchanges and moments of one document, multiplied by the members: their session deadlines take so long to compute. Of
more exchanges the latest are shown, and none beside a long history."""
MIN_INTERVAL_S: Final = 0.5
"""For so long a document has the recorded exchanges that it had before, unless there is a new event."""


class RecordingSource(Protocol):
    """Where live pages get recordings from: exchanges and members' views, which no event holds."""

    def rows(self) -> Sequence[ExchangeRow]:
        """The rows of the exchanges that the recorder has in memory, ordered by request."""
        ...

    def views_of(self, group: str, member_ids: Collection[MemberId]) -> Sequence[ViewObserved] | None:
        """What these members believed they owned, in order of time; None if that is not known of each of them."""
        ...


class RecordedTimeline:
    """A group's followed timeline with its recordings. `version` is raised each time that these are refreshed."""

    def __init__(self, group_id: str, source: RecordingSource) -> None:
        self._source = source
        self._recordings = LiveRecordings(group_id)
        self._has_views = False
        self._position, self._at_s = -1, 0.0
        self.version = 0
        self.timeline: GroupTimeline
        self.messages: Mapping[int, ExchangeMessages]
        """Of the latest exchanges, by their numbers."""

    def refresh(self, followed: FollowedTimeline, now_s: float) -> None:
        """Take in new events and recordings; do nothing if no event is new and the last refresh is very recent."""
        if followed.position == self._position and now_s - self._at_s < MIN_INTERVAL_S:
            return
        timeline = followed.timeline()
        views = self._source.views_of(timeline.group_id, [lane.member_id for lane in timeline.lanes])
        if views is None and self._has_views:
            self._recordings = LiveRecordings(timeline.group_id)
        self._has_views = bool(views)
        most = MAX_STEPS // max(1, len(timeline.lanes)) - len(timeline.moments)
        self._recordings.take(self._source.rows(), views or (), most=max(0, most))
        self.timeline = self._recordings.added_to(timeline) if most > 0 else timeline
        self.messages = self._recordings.messages(self.timeline)
        self._position, self._at_s = followed.position, now_s
        self.version += 1


class LiveDocuments:
    """Makes the JSON documents of live timelines for pages, and keeps the last ones for further requests."""

    def __init__(self, timelines: FollowedTimelines, source: RecordingSource) -> None:
        self._timelines, self._source = timelines, source
        self._recorded: WeakKeyDictionary[FollowedTimeline, RecordedTimeline] = WeakKeyDictionary()
        self._cached: dict[tuple[str, int, int, int], bytes] = {}
        self._one_thread = asyncio.Semaphore(1)

    async def document(self, group_id: str, after: int) -> bytes | None:
        """The JSON document with what has changed in a group after a position; None for a group without history.

        Raises StoreError.
        """
        followed = await self._timelines.read(group_id)
        if not followed.exists:
            return None
        recorded = self._recorded.get(followed)
        if recorded is None:
            recorded = self._recorded[followed] = RecordedTimeline(group_id, self._source)
        recorded.refresh(followed, asyncio.get_running_loop().time())
        key = (group_id, followed.position, recorded.version, after)
        if key not in self._cached:
            document = await self._written(recorded, after)
            if len(document) > MAX_CACHED_BYTES:
                return document
            self._cached[key] = document
            while len(self._cached) > MAX_CACHED:
                del self._cached[next(iter(self._cached))]
        return self._cached[key]

    async def _written(self, recorded: RecordedTimeline, after: int) -> bytes:
        timeline, messages = recorded.timeline, recorded.messages
        if len(timeline.moments) + len(timeline.exchanges) <= MAX_INLINE_ITEMS:
            return encoded_document(timeline, after=after, messages=messages)
        async with self._one_thread:
            return await asyncio.to_thread(encoded_document, timeline, after=after, messages=messages)
