"""Finds the topics and partition logs that a request names."""

from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
from regroup.server.cluster.image import Topic
from regroup.server.cluster.state import ClusterState
from regroup.server.errors import RequestError
from regroup.server.log.partition_log import PartitionLog

READ_COMMITTED = 1
"""Kafka's number for the isolation level of consumers that skip open and aborted transactions."""


class PartitionFinder:
    """Finds the topics that requests name, and the logs of partitions. It raises RequestError with Kafka's error code
    for unknown ones, and for partitions that another broker leads."""

    def __init__(self, state: ClusterState, node_id: int) -> None:
        self._state = state
        self._node_id = node_id

    def find_topic(self, name: str, topic_id: bytes = NO_UUID) -> Topic:
        """The topic with this id or, if the id is all zeros, with this name."""
        topic = self._state.find_topic(name, topic_id)
        if topic is None:
            is_by_id = topic_id != NO_UUID
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID if is_by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def find_log(self, topic: Topic, index: int, known_epoch: int = -1) -> PartitionLog:
        """The log of a partition. `known_epoch` is the leader epoch that the client has in its metadata, or -1 for no
        check."""
        if not 0 <= index < topic.partitions:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._state.leader_of(index) != self._node_id:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self._state.partition_log(topic, index)
        if known_epoch >= 0 and known_epoch != log.leader_epoch:
            is_older = known_epoch < log.leader_epoch
            raise RequestError(ErrorCode.FENCED_LEADER_EPOCH if is_older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        return log
