"""The documents of a timeline that grows: the same as those of a history that is read, each written once."""

import asyncio
from collections.abc import Collection, Sequence

import msgspec
import pytest

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.live import documents as live_documents
from regroup.classroom.live.documents import LiveDocuments
from regroup.classroom.live.following import FollowedTimelines
from regroup.classroom.page.document import encoded_document
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.observations import ViewObserved
from regroup.storage.memory import MemoryStore
from regroup.storage.records import Record
from regroup.storage.store import append_history
from tests.classroom.histories import groups_of, scenario_history


class NothingRecorded:
    def rows(self) -> Sequence[ExchangeRow]:
        return ()

    def views_of(self, group: str, member_ids: Collection[str]) -> Sequence[ViewObserved] | None:
        return None


@pytest.fixture
def records() -> tuple[Record, ...]:
    return scenario_history("slow-member-delays-the-rebalance")


@pytest.mark.parametrize("most_inline", [0, 1_000])
async def test_a_document_is_that_of_the_history(
    records: tuple[Record, ...], monkeypatch: pytest.MonkeyPatch, most_inline: int
) -> None:
    monkeypatch.setattr(live_documents, "MAX_INLINE_ITEMS", most_inline)
    store, (group,) = MemoryStore(), groups_of(records)
    documents = LiveDocuments(FollowedTimelines(lambda: store), NothingRecorded())
    assert await documents.document(group, 0) is None
    for half in (records[:20], records[20:]):
        await append_history(store, half)
        timeline = timeline_of(group, records[: store.last_position])
        for after in (0, 10, timeline.last.position):
            assert await documents.document(group, after) == encoded_document(timeline, after=after)


class OneView(NothingRecorded):
    def views_of(self, group: str, member_ids: Collection[str]) -> Sequence[ViewObserved] | None:
        (member_id, *_) = member_ids
        return [ViewObserved(0, 0, "anna", group, member_id, (("orders", 0),))]


async def test_a_long_history_has_no_recordings(records: tuple[Record, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    store, (group,) = MemoryStore(), groups_of(records)
    await append_history(store, records)

    async def is_recorded() -> bool:
        document = await LiveDocuments(FollowedTimelines(lambda: store), OneView()).document(group, 0)
        return bool(msgspec.json.decode(document or b"")["recorded"]["views"])

    assert await is_recorded()
    monkeypatch.setattr(live_documents, "MAX_STEPS", 10)
    assert not await is_recorded()


async def test_pages_that_ask_for_the_same_get_one_document(
    records: tuple[Record, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, (group,) = MemoryStore(), groups_of(records)
    await append_history(store, records)
    documents = LiveDocuments(FollowedTimelines(lambda: store), NothingRecorded())
    first, second = await asyncio.gather(documents.document(group, 5), documents.document(group, 5))
    assert first is second
    monkeypatch.setattr(live_documents, "MAX_CACHED", 1)
    await documents.document(group, 6)
    assert await documents.document(group, 5) is not first
    monkeypatch.setattr(live_documents, "MAX_CACHED_BYTES", 10)
    assert await documents.document(group, 7) is not await documents.document(group, 7)
