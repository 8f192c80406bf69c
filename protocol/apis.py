"""The table of APIs: key, name, request, response, and the versions that can be read and written.

What a broker advertises is its own choice within `versions`.
"""

from typing import Final, NamedTuple

from regroup.protocol.fields import Versions
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from regroup.protocol.messages.describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)


class Api(NamedTuple):
    """One row of the table."""

    request: type[Message]
    response: type[Message]

    @property
    def key(self) -> int:
        return self.request.api_key

    @property
    def name(self) -> str:
        """Kafka's name for the pair, as in `JoinGroup`."""
        return self.request.__name__.removesuffix("Request")

    @property
    def versions(self) -> Versions:
        return self.request.versions

    @property
    def flexible(self) -> Versions:
        """The versions with compact lengths and tagged fields, also in the request's header."""
        return self.request.flexible

    def response_header_is_flexible(self, version: int) -> bool:
        """ApiVersions always answers with the oldest header: the client does not know yet what the broker can read."""
        return version in self.request.flexible and self.request is not ApiVersionsRequest


APIS: Final[dict[int, Api]] = {
    request.api_key: Api(request, response)
    for request, response in (
        (MetadataRequest, MetadataResponse),
        (OffsetCommitRequest, OffsetCommitResponse),
        (OffsetFetchRequest, OffsetFetchResponse),
        (FindCoordinatorRequest, FindCoordinatorResponse),
        (JoinGroupRequest, JoinGroupResponse),
        (HeartbeatRequest, HeartbeatResponse),
        (LeaveGroupRequest, LeaveGroupResponse),
        (SyncGroupRequest, SyncGroupResponse),
        (DescribeGroupsRequest, DescribeGroupsResponse),
        (ListGroupsRequest, ListGroupsResponse),
        (SaslHandshakeRequest, SaslHandshakeResponse),
        (ApiVersionsRequest, ApiVersionsResponse),
        (SaslAuthenticateRequest, SaslAuthenticateResponse),
        (DeleteGroupsRequest, DeleteGroupsResponse),
        (OffsetDeleteRequest, OffsetDeleteResponse),
        (DescribeClusterRequest, DescribeClusterResponse),
        (ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
        (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
    )
}
