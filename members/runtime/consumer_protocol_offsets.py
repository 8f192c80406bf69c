"""What a simulated member of the consumer protocol reads and commits: with its member epoch, as KIP-848 asks for it.

offsets.add(partitions)                   fetch their committed offsets, then their records
offsets.commit(partitions, then)          commit their positions; `then` is called when that is over
offsets.drop(partitions)                  read them no more
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeAlias

from msgspec.structs import replace

from regroup.members.consumer import requests
from regroup.members.consumer.effects import (
    CommitCompleted,
    CommittedOffsetsFetched,
    ConsumerChange,
    ConsumerError,
    ConsumerErrorKind,
)
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberGeneration
from regroup.members.runtime.application import SimulatedApplication
from regroup.members.runtime.fetcher import Fetcher
from regroup.members.runtime.notes import error_code_of
from regroup.members.runtime.timers import MemberTimers
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchResponse

RETRY_MS: Final = 200
"""The pause before a refused or lost request is repeated: the next heartbeat may bring the present epoch."""
COMMIT_ATTEMPTS: Final = 10
"""How often a commit before a revocation is tried."""

SendToCoordinator: TypeAlias = Callable[[Message, Callable[[Message], None], Callable[[], None]], None]
"""Called with a request, what follows its response, and what follows if there is none."""


class ConsumerProtocolOffsets:
    """Fetches and commits the offsets of one process, and keeps its positions. `generation` returns the member id and
    epoch for these requests, or None while the process may not send them."""

    def __init__(
        self,
        settings: ConsumerSettings,
        application: SimulatedApplication,
        fetcher: Fetcher,
        timers: MemberTimers,
        *,
        generation: Callable[[], MemberGeneration | None],
        send: SendToCoordinator,
        observe: Callable[[ConsumerChange], None],
    ) -> None:
        self._settings, self._application, self._fetcher, self._timers = settings, application, fetcher, timers
        self._generation, self._send, self._observe = generation, send, observe
        self.positions: dict[TopicPartition, int] = {}
        self._wanted: dict[TopicPartition, None] = {}
        """Partitions whose committed offsets are not known yet."""
        self._owned: dict[TopicPartition, None] = {}
        self._is_fetching = False
        application.on_positions = self._update_positions

    def _update_positions(self, positions: Mapping[TopicPartition, int]) -> None:
        self.positions.update((each, offset) for each, offset in positions.items() if each in self._owned)

    # -- reading

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch the committed offsets of these partitions, and begin to read their records there."""
        if self._application.reads_records:
            added = dict.fromkeys(partitions)
            self._owned.update(added)
            self._wanted.update(added)
            self._fetch_offsets()

    def drop(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Stop reading these partitions, and forget their positions and fetched records."""
        for each in partitions:
            for table in (self._owned, self._wanted, self.positions):
                table.pop(each, None)
        self._fetcher.remove_partitions(partitions)
        self._application.drop(partitions)

    def _fetch_offsets(self) -> None:
        generation = self._generation()
        if generation is None or not self._wanted or self._is_fetching:
            return
        self._is_fetching = True
        self._send(offset_fetch(self._settings, generation, self._wanted), self._on_offsets, self._on_fetch_failed)

    def _on_fetch_failed(self) -> None:
        self._is_fetching = False
        self._timers.call_after(RETRY_MS, self._fetch_offsets)

    def _on_offsets(self, response: Message) -> None:
        assert isinstance(response, OffsetFetchResponse)
        self._is_fetching = False
        found: dict[TopicPartition, int | None] = {}
        for topic in (topic for group in response.groups if not group.error_code for topic in group.topics):
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if partition in self._wanted and not each.error_code:
                    found[partition] = None if each.committed_offset < 0 else each.committed_offset
                    del self._wanted[partition]
        if found:
            self._observe(CommittedOffsetsFetched(found))
            self._fetcher.add_partitions(found)
        if self._wanted:
            self._timers.call_after(RETRY_MS, self._fetch_offsets)

    # -- commits

    def commit(
        self, partitions: Iterable[TopicPartition], then: Callable[[], None] = lambda: None, *, attempts: int = 1
    ) -> None:
        """Commit the positions of these partitions, and try at most `attempts` times. `then` is called when that has
        succeeded or failed, and at once if there is nothing to commit or `enable_auto_commit` is off."""
        offsets = {each: self.positions[each] for each in partitions if each in self.positions}
        if not offsets or not self._settings.enable_auto_commit:
            then()
            return
        self._try_commit(offsets, then, attempts)

    def _try_commit(self, offsets: Mapping[TopicPartition, int], then: Callable[[], None], attempts: int) -> None:
        generation = self._generation()
        if generation is None:
            then()
            return

        def again() -> None:
            self._timers.call_after(RETRY_MS, partial(self._try_commit, offsets, then, attempts - 1))

        def received(response: Message) -> None:
            code = error_code_of(response)
            if not code:
                self._application.record_committed(offsets)
                self._observe(CommitCompleted(offsets, None, is_auto_commit=True))
                then()
            elif attempts > 1 and code != ErrorCode.UNKNOWN_MEMBER_ID:
                again()
            else:
                text = "the commit was refused"
                error = ConsumerError(ConsumerErrorKind.COMMIT_FAILED, text, code)
                self._observe(CommitCompleted(offsets, error, is_auto_commit=True))
                then()

        message = requests.offset_commit(self._settings, generation, offsets)
        self._send(message, received, again if attempts > 1 else then)


def offset_fetch(
    settings: ConsumerSettings, generation: MemberGeneration, partitions: Iterable[TopicPartition]
) -> OffsetFetchRequest:
    """An OffsetFetch that names the member and its epoch, and waits for open transactions, as Kafka's consumer does."""
    request = requests.offset_fetch(settings, partitions)
    groups = [
        replace(each, member_id=generation.member_id, member_epoch=generation.generation_id) for each in request.groups
    ]
    return replace(request, groups=groups)
