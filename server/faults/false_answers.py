"""Makes false answers for fault rules: responses that the protocol allows and that are not true, from the true response
and the state of the cluster.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from regroup.coordinator.responses import members_for_leader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from regroup.protocol.messages.group import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse
from regroup.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from regroup.server.cluster.state import BrokerNode
from regroup.server.faults.cluster_facts import ClusterFacts

GROUP_KEY: Final = 0
"""Kafka's number for the key type of groups in FindCoordinator."""

TopicT = TypeVar("TopicT", OffsetFetchResponseTopic, OffsetFetchResponseTopics)


def stale_generation(
    request: JoinGroupRequest, response: JoinGroupResponse, cluster: ClusterFacts
) -> JoinGroupResponse | None:
    """A copy of the JoinGroup response in which the generation id is one lower than the true one."""
    return replace(response, generation_id=response.generation_id - 1)


def second_leader(
    request: JoinGroupRequest, response: JoinGroupResponse, cluster: ClusterFacts
) -> JoinGroupResponse | None:
    """A JoinGroup response that names its receiver, a follower, as the leader and lists the members. None for the true
    leader."""
    group = cluster.group(request.group_id)
    if group is None or response.leader == response.member_id:
        return None
    return replace(response, leader=response.member_id, members=members_for_leader(group))


def other_assignment(
    request: SyncGroupRequest, response: SyncGroupResponse, cluster: ClusterFacts
) -> SyncGroupResponse | None:
    """A SyncGroup response with the assignment of another member: the next one in the order of joining. None if the
    member is alone, or if both assignments are equal."""
    group = cluster.group(request.group_id)
    members = list(group.members.values()) if group else []
    ids = [member.member_id for member in members]
    if request.member_id not in ids or len(members) == 1:
        return None
    other = members[(ids.index(request.member_id) + 1) % len(members)]
    return None if other.assignment == response.assignment else replace(response, assignment=other.assignment)


def other_coordinator(
    request: FindCoordinatorRequest, response: FindCoordinatorResponse, cluster: ClusterFacts
) -> FindCoordinatorResponse | None:
    """A FindCoordinator response that names a broker which does not coordinate the group: the next one by id, after the
    last the first. None with a single broker, and for transactional ids."""
    if request.key_type != GROUP_KEY or len(cluster.brokers()) < 2:
        return None
    if not response.coordinators:
        other = _next_broker(cluster, response.node_id)
        return replace(response, node_id=other.node_id, host=other.host, port=other.port)
    return replace(response, coordinators=[_moved(each, cluster) for each in response.coordinators])


def _moved(coordinator: Coordinator, cluster: ClusterFacts) -> Coordinator:
    if coordinator.error_code:
        return coordinator
    other = _next_broker(cluster, coordinator.node_id)
    return replace(coordinator, node_id=other.node_id, host=other.host, port=other.port)


def _next_broker(cluster: ClusterFacts, node_id: int) -> BrokerNode:
    ids = sorted(cluster.brokers())
    return cluster.brokers()[next((each for each in ids if each > node_id), ids[0])]


def older_offset(
    request: OffsetFetchRequest, response: OffsetFetchResponse, cluster: ClusterFacts
) -> OffsetFetchResponse | None:
    """An OffsetFetch response in which every committed offset above 0 is one lower; None if there is none."""
    changed = replace(
        response,
        topics=[_lowered(topic) for topic in response.topics],
        groups=[replace(group, topics=[_lowered(topic) for topic in group.topics]) for group in response.groups],
    )
    return None if changed == response else changed


def _lowered(topic: TopicT) -> TopicT:
    partitions = [
        replace(each, committed_offset=each.committed_offset - 1) if each.committed_offset > 0 else each
        for each in topic.partitions
    ]
    return replace(topic, partitions=partitions)


_MAKERS: Final[Mapping[str, Callable[[Any, Any, ClusterFacts], Message | None]]] = {
    "stale_generation": stale_generation,
    "second_leader": second_leader,
    "other_assignment": other_assignment,
    "other_coordinator": other_coordinator,
    "older_offset": older_offset,
}


def false_response(kind: str, request: Message, response: Message, cluster: ClusterFacts) -> Message | None:
    """The false response that the function for this `kind` of false answer makes from the true `response`. None if the
    true response has an error code, or if no false one can be made."""
    if getattr(response, "error_code", 0):
        return None
    return _MAKERS[kind](request, response, cluster)
