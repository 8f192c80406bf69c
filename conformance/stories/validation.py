"""What is checked at the door: names, bounds, versions."""

import asyncio
import struct

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.connection import CLIENT_ID, ConnectionLost
from regroup.conformance.harness.expect import Differs, every_partition, expect, same, that
from regroup.conformance.harness.member import Member
from regroup.conformance.harness.offsets import forgets
from regroup.conformance.harness.scenes import alone, awaiting_sync_alone
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import FOO
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
FAR_TOO_NEW = 99
GROUP, SHARE = 0, 2


@case("validation.join.empty-group-id", 1)
async def join_without_a_group(tell: Story) -> None:
    """A group must have a name; the member id is echoed."""
    tell.group = ""
    answer = await Member(tell, "anna").asks_to_join(member_id="m-x")
    expect(answer, error=E.INVALID_GROUP_ID, member_id="m-x", generation_id=-1, leader="", members=[])


@case("validation.sync.empty-group-id", 2)
async def sync_without_a_group(tell: Story) -> None:
    """SyncGroup of a group without a name is refused, with an empty share."""
    tell.group = ""
    answer = await Member(tell, "anna").syncs(member_id="m", generation=1)
    expect(answer, error=E.INVALID_GROUP_ID, assignment=b"", protocol_type=None, protocol_name=None)


@case("validation.heartbeat.empty-group-id", 2)
async def beat_without_a_group(tell: Story) -> None:
    """Heartbeat of a group without a name is refused."""
    tell.group = ""
    expect(await Member(tell, "anna").beats(member_id="m", generation=1), error=E.INVALID_GROUP_ID)


@case("validation.leave.empty-group-id", 2)
async def leave_without_a_group(tell: Story) -> None:
    """LeaveGroup of a group without a name is refused as a whole; no member is named in the answer."""
    request = LeaveGroupRequest(group_id="", members=[MemberIdentity(member_id="unknown")])
    expect(await tell.ask(request, LeaveGroupResponse), error=E.INVALID_GROUP_ID, members=[])


@case("validation.offset-delete.empty-group-id", 2)
async def forget_without_a_group(tell: Story) -> None:
    """OffsetDelete of a group without a name is refused as a whole; no topic is named in the answer."""
    topic = OffsetDeleteRequestTopic(name=FOO, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    answer = await tell.ask(OffsetDeleteRequest(group_id="", topics=[topic]), OffsetDeleteResponse)
    expect(answer, error=E.INVALID_GROUP_ID, topics=[])


@case("validation.not-coordinator", 1)
async def asked_of_the_wrong_broker(tell: Story) -> None:
    """A broker that does not coordinate the group refuses whatever is about it; JoinGroup's answer echoes no id."""
    await tell.turns_to_another_broker()
    anna = Member(tell, "anna")
    anna.id, anna.generation = "m", 1
    expect(await anna.asks_to_join(), error=E.NOT_COORDINATOR, member_id="")
    expect(await anna.syncs(), error=E.NOT_COORDINATOR)
    expect(await anna.beats(), error=E.NOT_COORDINATOR)
    expect(await anna.leaves(), error=E.NOT_COORDINATOR)
    every_partition(await anna.commits({(FOO, 0): 1}), E.NOT_COORDINATOR)
    expect(await forgets(tell, (FOO, 0)), error=E.NOT_COORDINATOR)
    expect(await tell.describe(), error=E.NOT_COORDINATOR)
    deletion = await tell.ask(DeleteGroupsRequest(groups_names=[tell.group]), DeleteGroupsResponse)
    same("codes of the deletion", [E.NOT_COORDINATOR], [each.error_code for each in deletion.results])


@case("validation.join.session-timeout-too-large", 1)
async def session_timeout_out_of_bounds(tell: Story) -> None:
    """A session timeout outside the limits of the broker is refused, and no group comes of it."""
    for timeout_ms in (tell.setting("group.max.session.timeout.ms") + 1, _shortest(tell) - 1):
        anna = Member(tell, "anna", session_timeout_ms=timeout_ms)
        expect(await anna.asks_to_join(), error=E.INVALID_SESSION_TIMEOUT, member_id="", generation_id=-1)
    await tell.is_in("Dead")


@case("validation.join.session-timeout-bounds-inclusive", 2)
async def session_timeout_on_the_bounds(tell: Story) -> None:
    """The limits themselves are allowed."""
    for timeout_ms in (tell.setting("group.max.session.timeout.ms"), _shortest(tell)):
        anna = Member(tell, "anna", session_timeout_ms=timeout_ms)
        expect(await anna.asks_to_join(), error=E.MEMBER_ID_REQUIRED)


def _shortest(tell: Story) -> int:
    return tell.setting("group.min.session.timeout.ms")


@case("validation.join.rebalance-timeout-unchecked", 3)
async def negative_rebalance_timeout(tell: Story) -> None:
    """A negative rebalance timeout is taken, and later rebalances are over at once."""
    anna = Member(tell, "anna", rebalance_timeout_ms=-1)
    expect(await anna.asks_to_join(version=3), error=E.NONE, generation_id=1)
    ben = Member(tell, "ben", rebalance_timeout_ms=-1)
    answer = await ben.asks_to_join(version=3)
    that(answer.error_code == E.NONE and answer.generation_id >= 2, "the newcomer should be in the next generation")
    expect(await anna.beats(), error=E.UNKNOWN_MEMBER_ID)


@case("validation.find-coordinator.versions", 2)
async def coordinator_is_found(tell: Story) -> None:
    """Up to v3 one coordinator is asked for, since v4 several; a broker that is alone names itself."""
    ports = {port for _, port in tell.target.brokers} or {tell.target.port}
    for version in range(7):
        if version < 4:
            answer = await _found(tell, FindCoordinatorRequest(key="g1", key_type=GROUP), version)
            same(f"v{version}: code and broker", (E.NONE, True), (answer.error_code, answer.port in ports))
        else:
            answer = await _found(tell, FindCoordinatorRequest(coordinator_keys=["g1", "g2"]), version)
            came = [(each.key, each.error_code, each.port in ports) for each in answer.coordinators]
            same(f"v{version}", [("g1", E.NONE, True), ("g2", E.NONE, True)], came)


@case("validation.find-coordinator.share-key", 3)
async def coordinator_of_shares(tell: Story) -> None:
    """The key type of share groups came with v6; before, it is an invalid request."""
    answer = await _found(tell, FindCoordinatorRequest(coordinator_keys=["g"], key_type=SHARE), 5)
    same("codes", [E.INVALID_REQUEST], [each.error_code for each in answer.coordinators])


async def _found(tell: Story, request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
    return await tell.ask(request, FindCoordinatorResponse, version=version)


@case(
    "validation.v0-offset-apis-in-kraft",
    3,
    corrected="The catalogue has v0 of OffsetCommit and OffsetFetch advertised and then refused with 35. "
    "Since Kafka 4.0 they are not advertised (nor is v1 of OffsetCommit).",
)
async def zookeepers_versions(tell: Story) -> None:
    """Versions that wrote to ZooKeeper are no longer offered."""
    for name in ("OffsetCommit", "OffsetFetch"):
        that(0 not in tell.target.versions.get(name, ()), f"{name} v0 is advertised")


@case("validation.join.error-body-by-version", 1)
async def body_of_a_refusal(tell: Story) -> None:
    """The answer to a refused JoinGroup is empty but for the code and the member id, in the form of each version."""
    for version in range(10):
        answer = await Member(tell, "anna").asks_to_join(version=version, member_id="nope")
        expect(answer, error=E.UNKNOWN_MEMBER_ID, generation_id=-1, leader="", members=[], skip_assignment=False)
        expect(answer, protocol_type=None, protocol_name=None if version >= 7 else "", member_id="nope")


@case("validation.sync.v5-needs-protocol-fields", 2)
async def sync_without_protocol(tell: Story) -> None:
    """Since v5 SyncGroup must name protocol type and assignor, even for a group that nobody knows."""
    anna = await awaiting_sync_alone(tell)
    for answer in (await anna.syncs(version=5, protocol_type=None), await anna.syncs(version=5, protocol_name=None)):
        expect(answer, error=E.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
    await tell.is_in("CompletingRebalance")
    tell.turns_to_group("absent")
    expect(await anna.syncs(version=5, protocol_type=None), error=E.INCONSISTENT_GROUP_PROTOCOL)


@case("validation.api-versions.unsupported-version", 1)
async def api_versions_of_the_future(tell: Story) -> None:
    """A version of ApiVersions that the broker does not know is answered in v0, with code 35 and what it does know."""
    connection = await tell.raw_connection()
    no_tags, software = b"\0", b"\x05test\x041.0"
    header = struct.pack(">hhih", API_VERSIONS, FAR_TOO_NEW, 7, -1)
    frame = await connection.exchange(_framed(header + no_tags + software + no_tags))
    correlation_id, answer = decode_response(API_VERSIONS, 0, frame)
    assert isinstance(answer, ApiVersionsResponse)
    same("the correlation id", 7, correlation_id)
    expect(answer, error=E.UNSUPPORTED_VERSION)
    own = [each for each in answer.api_keys if each.api_key == API_VERSIONS]
    that(bool(own), "the answer should tell which versions of ApiVersions there are")


@case("validation.unsupported-version-closes", 1)
async def join_of_the_future(tell: Story) -> None:
    """Any other API in an unknown version closes the connection."""
    connection = await tell.raw_connection()
    try:
        async with asyncio.timeout(10):
            await connection.exchange(_framed(struct.pack(">hhih", JOIN_GROUP, FAR_TOO_NEW, 7, -1)))
    except ConnectionLost:
        return
    except TimeoutError as reason:
        raise Differs("the connection should be closed, and nothing happens") from reason
    raise Differs("the connection should be closed, and an answer came")


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@case("validation.versions-of-the-group-apis", 1)
async def versions_on_offer(tell: Story) -> None:
    """Every API of the classic groups is offered, up to the version that the catalogue speaks."""
    wanted = {"JoinGroup": 9, "SyncGroup": 5, "Heartbeat": 4, "LeaveGroup": 5, "OffsetCommit": 9, "OffsetFetch": 9}
    wanted |= {"DescribeGroups": 5, "ListGroups": 5, "DeleteGroups": 2, "OffsetDelete": 0, "TxnOffsetCommit": 3}
    missing = [f"{name} v{last}" for name, last in wanted.items() if last not in tell.target.versions.get(name, ())]
    same("missing", [], missing)


@case("validation.one-request-at-a-time", 1)
async def requests_queue_behind_a_parked_one(tell: Story) -> None:
    """A connection answers in the order of the requests: what comes behind a parked JoinGroup waits with it."""
    anna = await alone(tell)
    ben = Member(tell, "ben")
    await ben.gets_an_id()
    join = ben.join_request()
    version = tell.target.version_for(join)
    queued = _queued(1, join, version) + _queued(2, ApiVersionsRequest(), 0)
    connection = await tell.raw_connection()
    first = asyncio.ensure_future(connection.exchange(queued))
    try:
        await tell.becomes("PreparingRebalance", members=2)
        await tell.passes(0.3)
        that(not first.done(), "a request behind a parked JoinGroup was answered before it")
        await anna.asks_to_join()
        correlation_id, _ = decode_response(JOIN_GROUP, version, await first)
        same("the correlation id of the first answer", 1, correlation_id)
    finally:
        first.cancel()


def _queued(correlation_id: int, request: Message, version: int) -> bytes:
    return encode_request(RequestHeader(request.api_key, version, correlation_id, CLIENT_ID), request)
