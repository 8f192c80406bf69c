"""The facts about the cluster that fault rules need: names of topic ids, groups as their coordinators have them, and
brokers.
"""

from collections.abc import Callable, Mapping

from regroup.coordinator.group import Group
from regroup.server.broker_cluster import BrokerCluster
from regroup.server.cluster.state import BrokerNode


class ClusterFacts:
    """What fault rules need to know about the cluster at the moment of a request. `find_cluster` returns the running
    cluster, or None while no broker runs, as after a kill."""

    def __init__(self, find_cluster: Callable[[], BrokerCluster | None]) -> None:
        self._find_cluster = find_cluster

    def topic_name(self, topic_id: bytes) -> str:
        """The name of the topic with this id; empty if there is no such topic."""
        cluster = self._find_cluster()
        topic = cluster.state.find_topic("", topic_id) if cluster else None
        return topic.name if topic else ""

    def group(self, group_id: str) -> Group | None:
        """The present state of the group in its coordinator; None while no broker runs."""
        cluster = self._find_cluster()
        return cluster.coordinator_of(group_id).group(group_id) if cluster else None

    def brokers(self) -> Mapping[int, BrokerNode]:
        """The brokers that listen, by their ids."""
        cluster = self._find_cluster()
        return cluster.state.nodes if cluster else {}
