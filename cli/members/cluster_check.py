"""Checks a cluster before simulated members join a group there: whether regroup serves it, and what the members would
do to it.

A cluster of regroup is known by its cluster id. Elsewhere members that join an existing group take partitions from its
consumers and commit offsets, so that needs consent.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from regroup.cli.terminal.text import counted
from regroup.members.consumer.effects import NodeAddress, OutgoingRequest, RequestTarget
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.transports.base import MemberTransport
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from regroup.protocol.messages.describe import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from regroup.server.cluster.loading import CLUSTER_ID_PREFIX

REQUEST_TIMEOUT_MS: Final = 10_000
RETRY_DELAY_S: Final = 0.5
RETRIABLE_ERRORS: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """What is known of a cluster before simulated members join a group in it."""

    cluster_id: str | None
    """The cluster id; None if the broker is too old to return it (Metadata before v2)."""
    group: DescribedGroup | None = None
    """The group that the members would join; None if it does not exist, or if regroup serves the cluster, so that it
    was not asked for."""
    missing_topics: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether regroup serves this cluster."""
        return (self.cluster_id or "").startswith(CLUSTER_ID_PREFIX)


class ClusterSurveyor:
    """Sends requests to a cluster, each one repeatedly until there is a response."""

    def __init__(self, transport: MemberTransport) -> None:
        self._transport = transport

    async def survey(self, group_id: str, topics: tuple[str, ...]) -> ClusterSurvey:
        """Ask for the cluster id; then for the topics if the cluster is regroup's, and for the group if it is not."""
        metadata = await self._ask(MetadataResponse, MetadataRequest(topics=[]))
        survey = ClusterSurvey(metadata.cluster_id)
        if not survey.is_ours:
            return ClusterSurvey(metadata.cluster_id, await self._describe(group_id))
        asked = [MetadataRequestTopic(name=topic) for topic in topics]
        metadata = await self._ask(MetadataResponse, MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        missing = [each.name for each in metadata.topics if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        return ClusterSurvey(metadata.cluster_id, missing_topics=tuple(name for name in missing if name))

    async def _describe(self, group_id: str) -> DescribedGroup | None:
        while True:
            request = FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id])
            found = (await self._ask(FindCoordinatorResponse, request)).coordinators[0]
            if found.error_code == ErrorCode.NONE:
                address = NodeAddress(found.node_id, found.host, found.port)
                asked = DescribeGroupsRequest(groups=[group_id])
                (group,) = (await self._ask(DescribeGroupsResponse, asked, address)).groups
                if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or group.group_state == "Dead":
                    return await self._find_other_type(group_id, address)
                if group.error_code not in RETRIABLE_ERRORS:
                    return group
            await asyncio.sleep(RETRY_DELAY_S)

    async def _find_other_type(self, group_id: str, address: NodeAddress) -> DescribedGroup | None:
        """The group, if it exists and is of another type than those that DescribeGroups shows; otherwise None.

        DescribeGroups does not show a group of the consumer protocol (KIP-848), but ListGroups does.
        """
        listed = await self._ask(ListGroupsResponse, ListGroupsRequest(), address)
        found = next((each for each in listed.groups if each.group_id == group_id), None)
        return DescribedGroup(group_id=group_id, group_state=found.group_state or "of another type") if found else None

    async def _ask(self, kind: type[R], request: Message, address: NodeAddress | None = None) -> R:
        """Send a request repeatedly until there is a response of this type, and return it."""
        target = RequestTarget.ANY_BROKER if address is None else RequestTarget.COORDINATOR
        while True:
            answered: asyncio.Future[ResponseReceived | RequestFailed] = asyncio.get_running_loop().create_future()
            self._transport.send(OutgoingRequest(0, target, address, request, REQUEST_TIMEOUT_MS), answered.set_result)
            result = await answered
            if isinstance(result, ResponseReceived) and isinstance(result.response, kind):
                return result.response
            await asyncio.sleep(RETRY_DELAY_S)


def objections(survey: ClusterSurvey, group_id: str, *, writes_to: tuple[str, ...]) -> str:
    """Why members may not join without the user's consent, as one sentence that says what they would do; empty if they
    may."""
    if survey.is_ours:
        return ""
    effects = list(_effects(survey.group, group_id, writes_to))
    if not effects:
        return ""
    return (
        f"this cluster ({survey.cluster_id or 'without a cluster id'}) is not regroup's. These members would "
        f"{' and '.join(effects)}. If that is wanted, add --yes"
    )


def _effects(group: DescribedGroup | None, group_id: str, writes_to: tuple[str, ...]) -> Iterator[str]:
    if group is not None:
        members = f", which is {group.group_state} with {counted(len(group.members), 'classic member')}"
        yield f"join the existing group {group_id}{members}: take partitions from its consumers, commit offsets"
    if writes_to:
        yield f"write records to {', '.join(writes_to)}"
