"""Finding the partition that a request names."""

from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
from regroup.server.cluster.state import Cluster
from regroup.server.cluster.topics import Topic
from regroup.server.log.partition_log import PartitionLog


class PartitionFinder:
    """Partitions as one node sees them: those that it leads."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    def topic(self, name: str, topic_id: bytes = NO_UUID) -> Topic | ErrorCode:
        topic = self._cluster.topic(name, topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID if topic_id != NO_UUID else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return topic

    def log(self, topic: Topic | ErrorCode, index: int, known_epoch: int = -1) -> PartitionLog | ErrorCode:
        """The log that this node leads. `known_epoch`: the leader's epoch as far as the client knows, or -1."""
        if isinstance(topic, ErrorCode):
            return topic
        if not 0 <= index < topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._cluster.leader_of(index) != self._node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        log = self._cluster.partition(topic, index)
        if known_epoch >= 0 and known_epoch != log.leader_epoch:
            is_older = known_epoch < log.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if is_older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return log
