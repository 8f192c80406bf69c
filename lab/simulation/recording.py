"""Records a run into its store: the exchanges, as a server records them, and the observations of the simulation.

It stands outside the simulated process: crashes and failures of the simulated disk lose nothing of it, and a recorded
run has the same events as any other.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from regroup.lab.plan.plan import NetworkPlan
from regroup.lab.simulation.disk import SimulatedDisk, StoreOpener
from regroup.lab.simulation.network.message_log import MessageLog
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.recording.observations import (
    MessageObserved,
    Observation,
    ObservationsBegan,
    ReadAgainObserved,
    ViewObserved,
    encode_observations,
)
from regroup.server.recording.recorder import Recorder
from regroup.server.recording.writer import RecordingWriter
from regroup.storage.records import NewExchangeBlock
from regroup.storage.store import EventStore

MAX_BYTES: Final = 256 * 1024 * 1024
"""The most bytes of exchanges, and of observations, that are kept, each compressed. The oldest blocks are deleted."""


class RunRecording:
    """Writes what the exchanges, the network and the members of one run show into its store. `now_ms` is the brokers'
    clock."""

    def __init__(self, disk: SimulatedDisk, open_store: StoreOpener, now_ms: Callable[[], int]) -> None:
        self.recorder = Recorder(now_ms)
        self.position = 0
        """Position of the last event on the disk."""
        self._disk, self._open_store, self._now_ms = disk, open_store, now_ms
        self._writer = RecordingWriter(self.recorder, lambda: self, now_ms, max_bytes=MAX_BYTES)
        self._blocks: list[NewExchangeBlock] = []
        """Blocks of exchanges that have not been written because no process had the store open."""
        self._observed: list[Observation] = []
        self._views: dict[str, tuple[str, tuple[TopicPartition, ...]]] = {}
        """By the member's name, its last member id and the partitions that it believed it owned."""

    def start(self, network: NetworkPlan) -> None:
        """Begin to record: write to the store twice a second of virtual time."""
        began = ObservationsBegan(self._now_ms(), self.position, network.latency_ms, network.jitter_ms, has_reads=True)
        self._observed.insert(0, began)
        self._writer.start()

    def message_log(self, loop_s: Callable[[], float], network: NetworkPlan) -> MessageLog:
        """Make the log of lost and delayed messages on the network; `loop_s` is the time of the run in seconds."""
        longest_ms = network.latency_ms + network.jitter_ms
        return MessageLog(loop_s, self._now_ms, lambda: self.position, longest_ms=longest_ms, take=self._take_message)

    def _take_message(self, message: MessageObserved) -> None:
        self._observed.append(message)

    def on_view(self, name: str, group: str, member_id: str, partitions: tuple[TopicPartition, ...]) -> None:
        """Record the partitions that a member counts as its own from now on.

        An empty `member_id` stands for the member id that it had before.
        """
        before_id, before = self._views.get(name, ("", ()))
        member_id = member_id or before_id
        if before == partitions and (not partitions or member_id == before_id):
            self._views[name] = (member_id, partitions)
            return
        self._views[name] = (member_id, partitions)
        listed = tuple((each.topic, each.partition) for each in partitions)
        self._observed.append(ViewObserved(self._now_ms(), self.position, name, group, member_id, listed))

    def on_read_again(self, name: str, group: str, partition: TopicPartition, offset: int) -> None:
        """Record that a member has processed a record which its group had processed before."""
        at_ms, last = self._now_ms(), self._observed[-1] if self._observed else None
        read = ReadAgainObserved(
            at_ms, self.position, name, group, partition.topic, partition.partition, offset, count=1
        )
        if isinstance(last, ReadAgainObserved) and read == replace(last, first=last.first + last.count, count=1):
            self._observed[-1] = replace(last, count=last.count + 1)
        else:
            self._observed.append(read)

    async def append_exchanges(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        """Write a block of exchanges or, while no process has the store open, keep it until then.

        The writer calls this.
        """
        self._blocks.append(block)
        store = self._disk.store
        if store is not None:
            await self._write(store)

    async def stop(self) -> None:
        """Stop the periodic writing; `close` writes what is left."""
        await self._writer.stop()

    async def close(self) -> None:
        """Write what is left, after the process that had the store open has closed it."""
        await self._writer.close()
        store = await self._open_store()
        try:
            await self._write(store)
        finally:
            await store.close()

    async def _write(self, store: EventStore) -> None:
        blocks, self._blocks = self._blocks, []
        for block in blocks:
            await store.append_exchanges(block, max_bytes=MAX_BYTES)
        observed, self._observed = self._observed, []
        for block in encode_observations(observed):
            await store.append_observations(block, max_bytes=MAX_BYTES)
