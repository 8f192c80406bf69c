"""The records that the members of a simulation read a second time, by partition."""

from collections import defaultdict

from regroup.classroom.recorded_values import RepeatedRead
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.recording.observations import ReadAgainObserved


class RepeatedReadsBuilder:
    """Collects the records that members of one group processed although the group had processed them before."""

    def __init__(self) -> None:
        self._reads: dict[TopicPartition, list[RepeatedRead]] = defaultdict(list)

    def on_read(self, read: ReadAgainObserved) -> None:
        """Take in an observation: a member has processed records that the group had processed before."""
        partition = TopicPartition(read.topic, read.partition)
        self._reads[partition].append(RepeatedRead(read.at_ms, read.client, read.first, read.count))

    def of_partitions(self) -> dict[TopicPartition, tuple[RepeatedRead, ...]]:
        """The repeated reads of each partition, in the order of their times."""
        return {partition: tuple(reads) for partition, reads in self._reads.items()}
