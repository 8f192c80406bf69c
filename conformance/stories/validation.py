"""Stories about checks that come before the group: group ids, the coordinator, session timeouts, API versions."""

import asyncio
import struct

from regroup.conformance.harness.broker_under_test import DEFAULT_VERSIONS, FOO_0, FOO_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import (
    ExpectationFailed,
    expect,
    expect_equal,
    expect_every_partition,
    expect_true,
)
from regroup.conformance.harness.groups import completing_group_of_one, pending_join_member, stable_group_of_one
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.offsets import delete_offsets
from regroup.conformance.harness.routes import GROUP_KEY, SHARE_KEY
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.client import DEFAULT_CLIENT_ID, ConnectionLost
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.frames import decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from regroup.protocol.messages.describe import DeleteGroupsRequest, DeleteGroupsResponse
from regroup.protocol.messages.group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from regroup.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

API_VERSIONS, JOIN_GROUP = 18, 11
CLASSIC_GROUP_APIS = (
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "DescribeGroups"),
    *("ListGroups", "DeleteGroups", "OffsetDelete", "TxnOffsetCommit"),
)
UNKNOWN_VERSION = 99


@case("validation.join.empty-group-id", 1)
async def join_with_empty_group_id(story: StoryContext) -> None:
    """JoinGroup with an empty group id is refused; the response has the member id of the request."""
    story.group_id = ""
    response = await ConformanceMember(story, "anna").join_group(member_id="m-x")
    expect(response, error=E.INVALID_GROUP_ID, member_id="m-x", generation_id=-1, leader="", members=[])


@case("validation.sync.empty-group-id", 2)
async def sync_with_empty_group_id(story: StoryContext) -> None:
    """SyncGroup with an empty group id is refused, with an empty assignment."""
    story.group_id = ""
    response = await ConformanceMember(story, "anna").sync_group(member_id="m", generation_id=1)
    expect(response, error=E.INVALID_GROUP_ID, assignment=b"", protocol_type=None, protocol_name=None)


@case("validation.heartbeat.empty-group-id", 2)
async def heartbeat_with_empty_group_id(story: StoryContext) -> None:
    """Heartbeat with an empty group id is refused."""
    story.group_id = ""
    expect(await ConformanceMember(story, "anna").heartbeat(member_id="m", generation_id=1), error=E.INVALID_GROUP_ID)


@case("validation.leave.empty-group-id", 2)
async def leave_with_empty_group_id(story: StoryContext) -> None:
    """LeaveGroup with an empty group id is refused as a whole; the response lists no members."""
    request = LeaveGroupRequest(group_id="", members=[MemberIdentity(member_id="unknown")])
    expect(await story.send(request, LeaveGroupResponse), error=E.INVALID_GROUP_ID, members=[])


@case("validation.offset-delete.empty-group-id", 2)
async def offset_delete_with_empty_group_id(story: StoryContext) -> None:
    """OffsetDelete with an empty group id is refused as a whole; the response lists no topics."""
    topic = OffsetDeleteRequestTopic(name=FOO_TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    response = await story.send(OffsetDeleteRequest(group_id="", topics=[topic]), OffsetDeleteResponse)
    expect(response, error=E.INVALID_GROUP_ID, topics=[])


@case("validation.not-coordinator", 1)
async def request_to_wrong_broker(story: StoryContext) -> None:
    """A broker that is not the coordinator refuses all requests of the group; JoinGroup's response has no member id."""
    await story.use_wrong_broker()
    anna = ConformanceMember(story, "anna")
    anna.id, anna.generation_id = "m", 1
    expect(await anna.join_group(), error=E.NOT_COORDINATOR, member_id="")
    expect(await anna.sync_group(), error=E.NOT_COORDINATOR)
    expect(await anna.heartbeat(), error=E.NOT_COORDINATOR)
    expect(await anna.leave_group(), error=E.NOT_COORDINATOR)
    expect_every_partition(await anna.commit_offsets({FOO_0: 1}), E.NOT_COORDINATOR)
    expect(await delete_offsets(story, FOO_0), error=E.NOT_COORDINATOR)
    expect(await story.describe(), error=E.NOT_COORDINATOR)
    deleted = await story.send(DeleteGroupsRequest(groups_names=[story.group_id]), DeleteGroupsResponse)
    expect_equal("error codes of DeleteGroups", [E.NOT_COORDINATOR], [each.error_code for each in deleted.results])


@case("validation.join.session-timeout-too-large", 1)
async def session_timeout_out_of_bounds(story: StoryContext) -> None:
    """A session timeout outside the broker's bounds is refused, and no group is created."""
    for timeout_ms in (
        story.setting("group.max.session.timeout.ms") + 1,
        story.setting("group.min.session.timeout.ms") - 1,
    ):
        anna = ConformanceMember(story, "anna")
        anna.session_timeout_ms = timeout_ms
        expect(await anna.join_group(), error=E.INVALID_SESSION_TIMEOUT, member_id="", generation_id=-1)
    await story.expect_state("Dead")


@case("validation.join.session-timeout-bounds-inclusive", 2)
async def session_timeout_at_bounds(story: StoryContext) -> None:
    """A session timeout equal to one of the broker's bounds is accepted."""
    for timeout_ms in (story.setting("group.max.session.timeout.ms"), story.setting("group.min.session.timeout.ms")):
        anna = ConformanceMember(story, "anna", session_timeout_ms=timeout_ms)
        expect(await anna.join_group(), error=E.MEMBER_ID_REQUIRED)


@case("validation.join.rebalance-timeout-unchecked", 3)
async def negative_rebalance_timeout(story: StoryContext) -> None:
    """A negative rebalance timeout is accepted, and later rebalances end at once."""
    anna = ConformanceMember(story, "anna", rebalance_timeout_ms=-1)
    expect(await anna.join_group(version=3), error=E.NONE, generation_id=1)
    response = await ConformanceMember(story, "ben", rebalance_timeout_ms=-1).join_group(version=3)
    expect(response, error=E.NONE)
    expect_true(response.generation_id >= 2, f"expected a later generation than 1, got {response.generation_id}")
    expect(await anna.heartbeat(), error=E.UNKNOWN_MEMBER_ID)


@case("validation.find-coordinator.versions", 2)
async def find_coordinator_by_version(story: StoryContext) -> None:
    """FindCoordinator takes one key up to v3 and several since v4; a single broker returns itself."""
    ports = {port for _, port in story.target.brokers} or {story.target.port}
    for version in range(7):
        if version < 4:
            response = await find_coordinator(story, FindCoordinatorRequest(key="g1", key_type=GROUP_KEY), version)
            found = (response.error_code, response.port in ports)
            expect_equal(f"error code and known port in v{version}", (E.NONE, True), found)
        else:
            response = await find_coordinator(story, FindCoordinatorRequest(coordinator_keys=["g1", "g2"]), version)
            coordinators = [(each.key, each.error_code, each.port in ports) for each in response.coordinators]
            expect_equal(f"coordinators in v{version}", [("g1", E.NONE, True), ("g2", E.NONE, True)], coordinators)


@case("validation.find-coordinator.share-key", 3)
async def find_coordinator_of_share_group(story: StoryContext) -> None:
    """Before v6 FindCoordinator with the key type of share groups is an invalid request."""
    response = await find_coordinator(story, FindCoordinatorRequest(coordinator_keys=["g"], key_type=SHARE_KEY), 5)
    expect_equal("error codes", [E.INVALID_REQUEST], [each.error_code for each in response.coordinators])


async def find_coordinator(
    story: StoryContext, request: FindCoordinatorRequest, version: int
) -> FindCoordinatorResponse:
    return await story.send(request, FindCoordinatorResponse, version=version)


@case(
    "validation.v0-offset-apis-in-kraft",
    3,
    correction="The catalogue has v0 of OffsetCommit and OffsetFetch advertised and then refused with code 35. "
    "Since Kafka 4.0 they are not advertised (nor is v1 of OffsetCommit).",
)
async def zookeeper_versions(story: StoryContext) -> None:
    """Versions that stored offsets in ZooKeeper are no longer advertised."""
    for name in ("OffsetCommit", "OffsetFetch"):
        expect_true(0 not in story.target.versions.get(name, ()), f"{name} v0 is advertised")


@case("validation.join.error-body-by-version", 1)
async def body_of_refused_join(story: StoryContext) -> None:
    """The response to a refused JoinGroup is empty except for error code and member id, in each version's format."""
    for version in range(10):
        response = await ConformanceMember(story, "anna").join_group(version=version, member_id="nope")
        expect(response, error=E.UNKNOWN_MEMBER_ID, generation_id=-1, leader="", members=[], skip_assignment=False)
        expect(response, protocol_type=None, protocol_name=None if version >= 7 else "", member_id="nope")


@case("validation.sync.v5-needs-protocol-fields", 2)
async def sync_without_protocol(story: StoryContext) -> None:
    """Since v5 SyncGroup must have protocol type and name, even for a group that does not exist."""
    anna = await completing_group_of_one(story)
    without_type = await anna.sync_group(version=5, protocol_type=None)
    expect(without_type, error=E.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
    without_name = await anna.sync_group(version=5, protocol_name=None)
    expect(without_name, error=E.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
    await story.expect_state("CompletingRebalance")
    story.use_group("absent")
    expect(await anna.sync_group(version=5, protocol_type=None), error=E.INCONSISTENT_GROUP_PROTOCOL)


@case("validation.api-versions.unsupported-version", 1)
async def api_versions_in_unknown_version(story: StoryContext) -> None:
    """An unknown version of ApiVersions gets UNSUPPORTED_VERSION and the known versions, in v0 (KIP-511)."""
    connection = await story.open_connection()
    no_tags, software = b"\0", b"\x05test\x041.0"
    header = struct.pack(">hhih", API_VERSIONS, UNKNOWN_VERSION, 7, -1)
    frame = await connection.send_frame(_framed(header + no_tags + software + no_tags))
    correlation_id, response = decode_response(API_VERSIONS, 0, frame)
    assert isinstance(response, ApiVersionsResponse)
    expect_equal("correlation id", 7, correlation_id)
    expect(response, error=E.UNSUPPORTED_VERSION)
    known = API_VERSIONS in [api.api_key for api in response.api_keys]
    expect_true(known, "the response should have the known versions of ApiVersions")


@case("validation.unsupported-version-closes", 1)
async def join_in_unknown_version(story: StoryContext) -> None:
    """An unknown version of any other API closes the connection."""
    connection = await story.open_connection()
    try:
        async with asyncio.timeout(10):
            await connection.send_frame(_framed(struct.pack(">hhih", JOIN_GROUP, UNKNOWN_VERSION, 7, -1)))
    except ConnectionLost:
        return
    except TimeoutError as reason:
        raise ExpectationFailed("the connection should be closed, but stays open") from reason
    raise ExpectationFailed("the connection should be closed, but the request was answered")


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@case("validation.versions-of-the-group-apis", 1)
async def versions_of_group_apis(story: StoryContext) -> None:
    """All APIs of classic groups are advertised, up to the versions of the catalogue."""
    newest = {api: DEFAULT_VERSIONS[api] for api in CLASSIC_GROUP_APIS}
    offered = story.target.versions
    expect_equal("missing", [], [f"{api} v{last}" for api, last in newest.items() if last not in offered.get(api, ())])


@case("validation.one-request-at-a-time", 1)
async def requests_behind_pending_join(story: StoryContext) -> None:
    """A connection is answered in request order: a request behind a held JoinGroup waits for its response."""
    anna = await stable_group_of_one(story)
    ben = await pending_join_member(story, "ben")
    join = ben.join_group_request()
    version = story.target.version_for(join)
    queued = _queued(1, join, version) + _queued(2, ApiVersionsRequest(), 0)
    connection = await story.open_connection()
    first_response = asyncio.ensure_future(connection.send_frame(queued))
    try:
        await story.wait_for_state("PreparingRebalance", members=2)
        await story.sleep(0.3)
        expect_true(not first_response.done(), "a request behind a held JoinGroup was answered before it")
        await anna.join_group()
        correlation_id, _ = decode_response(JOIN_GROUP, version, await first_response)
        expect_equal("correlation id of the first response", 1, correlation_id)
    finally:
        first_response.cancel()


def _queued(correlation_id: int, request: Message, version: int) -> bytes:
    return encode_request(RequestHeader(request.api_key, version, correlation_id, DEFAULT_CLIENT_ID), request)
