"""The documents of timelines that grow, for pages that show them: each is written once for all that ask.

documents = LiveDocuments(FollowedTimelines(lambda: store))
await documents.document("billing", after=120)     JSON, or None without history
"""

import asyncio
from typing import Final

from regroup.classroom.live.following import FollowedTimelines
from regroup.classroom.page.document import encoded_document
from regroup.classroom.timeline import GroupTimeline

MAX_INLINE_MOMENTS: Final = 1_000
"""Moments of a timeline whose document is written in the loop; that of a longer one is written in a thread."""
MAX_CACHED: Final = 32
MAX_CACHED_BYTES: Final = 1024 * 1024
"""Documents that are kept for the next who asks, and how large each may be."""


class LiveDocuments:
    """Writes the documents of followed timelines."""

    def __init__(self, timelines: FollowedTimelines) -> None:
        self._timelines = timelines
        self._cached: dict[tuple[str, int, int], bytes] = {}
        self._one_thread = asyncio.Semaphore(1)

    async def document(self, group_id: str, after: int) -> bytes | None:
        """What has changed after a position, as JSON; None for a group without history. Raises StoreError."""
        followed = await self._timelines.read(group_id)
        if not followed.exists:
            return None
        timeline, key = followed.timeline(), (group_id, followed.position, after)
        if key not in self._cached:
            document = await self._written(timeline, after)
            if len(document) > MAX_CACHED_BYTES:
                return document
            self._cached[key] = document
            while len(self._cached) > MAX_CACHED:
                del self._cached[next(iter(self._cached))]
        return self._cached[key]

    async def _written(self, timeline: GroupTimeline, after: int) -> bytes:
        if len(timeline.moments) <= MAX_INLINE_MOMENTS:
            return encoded_document(timeline, after=after)
        async with self._one_thread:
            return await asyncio.to_thread(encoded_document, timeline, after=after)
