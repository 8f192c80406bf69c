"""The requests of members that heartbeat and commit offsets, for `load.c` and for clients in Python."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from harness.load_file import OFFSET, LoadConnection, LoadRequest
from harness.servers import Server, Unavailable

from regroup.protocol.client import ClientConnection
from regroup.protocol.errors import ErrorCode
from regroup.protocol.frames import encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from regroup.protocol.messages.topics import CreatableTopic, CreateTopicsRequest

TOPIC: Final = "orders"
PARTITIONS: Final = 100
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
"""What a key stands for in FindCoordinator."""
PATIENCE_S: Final = 60
"""Seconds after which a server that has no coordinator, or forms no group, is given up."""
SESSION_TIMEOUT_MS: Final = 1_800_000
"""Milliseconds; the longest session timeout that Kafka allows by default.

So no member is removed while the other broker is measured.
"""
VERSIONS: Final[dict[type[Message], int]] = {
    JoinGroupRequest: 3,  # no member id has to be requested first
    SyncGroupRequest: 3,
    HeartbeatRequest: 4,
    OffsetCommitRequest: 9,
    CreateTopicsRequest: 5,
    FindCoordinatorRequest: 3,
}


class Member(NamedTuple):
    """A member of a generation."""

    group_id: str
    generation_id: int
    member_id: str


def frame_of(message: Message) -> bytes:
    return encode_request(RequestHeader(message.api_key, VERSIONS[type(message)], 0, "load"), message)


async def prepare(server: Server) -> None:
    """Create the topic, and let Kafka create those for offsets and transactions, which it does when a coordinator is
    looked up. Raises Unavailable if there is no coordinator after a minute."""
    connection = await ClientConnection.open(server.host, server.port)
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    await connection.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), VERSIONS[CreateTopicsRequest])
    try:
        async with asyncio.timeout(PATIENCE_S):
            for key_type in (GROUP_KEY, TRANSACTION_KEY):
                await find_coordinator(connection, "load", key_type)
    except TimeoutError:
        raise Unavailable(f"a server has had no coordinator for {PATIENCE_S} s") from None
    await connection.close()


async def find_coordinator(connection: ClientConnection, key: str, key_type: int) -> None:
    """Look up the coordinator of a group or a transactional id until there is one."""
    while True:
        request = FindCoordinatorRequest(key=key, key_type=key_type)
        response = await connection.send(request, VERSIONS[FindCoordinatorRequest])
        assert isinstance(response, FindCoordinatorResponse)
        if response.error_code == ErrorCode.NONE:
            return
        await asyncio.sleep(0.2)


async def join(connection: ClientConnection, group_id: str, member_id: str) -> JoinGroupResponse:
    """Send JoinGroup and return the response.

    While the coordinator is being loaded, the request is repeated, and without the member id if that is not known any
    more: on a busy machine members may miss the end of a rebalance.
    """
    while True:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=20_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(6) + b"\xff" * 4)],
        )
        response = await connection.send(request, VERSIONS[JoinGroupRequest])
        assert isinstance(response, JoinGroupResponse)
        if response.error_code == ErrorCode.NONE:
            return response
        if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            member_id = ""
        await asyncio.sleep(0.2)


async def form_group(connections: Sequence[ClientConnection], group_id: str) -> list[Member]:
    """Let one member of each connection join, until all of them are Stable in one generation. Raises Unavailable."""
    formed: dict[int, Member] = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(
                *(
                    keep_in_group(each, group_id, number, formed, len(connections))
                    for number, each in enumerate(connections)
                )
            )
    except TimeoutError:
        raise Unavailable(f"group {group_id!r} was not Stable after {PATIENCE_S} s") from None
    return [formed[number] for number in range(len(connections))]


async def keep_in_group(
    connection: ClientConnection, group_id: str, number: int, formed: dict[int, Member], size: int
) -> None:
    """Join and sync as the member with this number, and again after each rebalance, until all members in `formed` have
    one generation. A member that waited for the others without heartbeats would keep them from their rebalance."""
    member_id = ""
    while True:
        joined = await join(connection, group_id, member_id)
        member_id = joined.member_id
        member = Member(group_id, joined.generation_id, member_id)
        shares = [SyncGroupRequestAssignment(member_id=each.member_id, assignment=bytes(10)) for each in joined.members]
        sync = SyncGroupRequest(
            group_id=group_id, generation_id=joined.generation_id, member_id=member_id, assignments=shares
        )
        synced = await connection.send(sync, VERSIONS[SyncGroupRequest])
        assert isinstance(synced, SyncGroupResponse)
        code = synced.error_code
        while code == ErrorCode.NONE:
            formed[number] = member
            if len(formed) == size and len({each.generation_id for each in formed.values()}) == 1:
                return
            await asyncio.sleep(0.02)
            heartbeat = await connection.send(request_of("h", member, 0), VERSIONS[HeartbeatRequest])
            assert isinstance(heartbeat, HeartbeatResponse)
            code = heartbeat.error_code
        formed.pop(number, None)


def request_of(kind: str, member: Member, partitions: int) -> Message:
    if kind == "h":
        return HeartbeatRequest(
            group_id=member.group_id, generation_id=member.generation_id, member_id=member.member_id
        )
    offsets = [
        OffsetCommitRequestPartition(partition_index=each, committed_offset=OFFSET) for each in range(partitions)
    ]
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)],
    )


async def member_connections(
    server: Server, groups: str, *, connections: int, group_size: int, kinds: str, partitions: int
) -> list[LoadConnection]:
    """Form groups of one member on each connection. Returns the requests that each sends in turn, as in `kinds`."""
    opened = [await ClientConnection.open(server.host, server.port) for _ in range(connections)]
    made: list[LoadConnection] = []
    for first in range(0, connections, group_size):
        group = opened[first : first + group_size]
        for connection, member in zip(group, await form_group(group, f"{groups}-{first}"), strict=True):
            requests = []
            for kind in kinds:
                frame = frame_of(request_of(kind, member, partitions))
                response = await connection.send_frame(frame)
                if any(response[8:10]) and kind == "h":
                    raise Unavailable(f"a heartbeat was refused: {response.hex()}")
                requests.append(LoadRequest(frame, response[4:]))
            made.append(LoadConnection(requests))
    for connection in opened:
        await connection.close()
    return made
