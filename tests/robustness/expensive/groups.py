"""Requests of the members of groups, and about groups."""

from collections.abc import Iterator

from regroup.protocol.message import Message
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import group as g
from tests.robustness.expensive.requests import REQUEST_BYTES, Row
from tests.robustness.expensive.world import (
    EMPTY_GROUPS,
    LARGE_GROUP,
    LARGE_MEMBER_GROUP,
    LEAVING_GROUP,
    Client,
    join,
    join_request,
)


def joins() -> Iterator[Row]:
    async def rejoin(client: Client) -> Message:
        member_id = await join(client, "rejoin")
        protocols = [g.JoinGroupRequestProtocol(name=f"{i:x}", metadata=b"") for i in range(19_900)]
        request = join_request("rejoin", member_id=member_id)
        return g.JoinGroupRequest(
            **{name: getattr(request, name) for name in request.__struct_fields__} | {"protocols": protocols}
        )

    yield "JoinGroup, many protocols", 3, rejoin

    async def rejoin_large(client: Client) -> Message:
        return join_request("large-metadata", bytes(REQUEST_BYTES), await join(client, "large-metadata"))

    yield "JoinGroup, large metadata", 3, rejoin_large

    async def sync(client: Client) -> Message:
        joined = await client.call(join_request("sync"), 3)
        return g.SyncGroupRequest(
            group_id="sync",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[g.SyncGroupRequestAssignment(member_id=f"{i:x}", assignment=b"") for i in range(19_900)],
        )

    yield "SyncGroup, many assignments", 2, sync


def departures() -> Iterator[Row]:
    async def leave(client: Client) -> Message:
        members = client.cluster.coordinator_of(LEAVING_GROUP).group(LEAVING_GROUP).members
        return g.LeaveGroupRequest(
            group_id=LEAVING_GROUP, members=[g.MemberIdentity(member_id=each) for each in [*members]]
        )

    yield "LeaveGroup, all members", 3, leave
    yield (
        "LeaveGroup, unknown members",
        5,
        g.LeaveGroupRequest(
            group_id=LARGE_GROUP, members=[g.MemberIdentity(member_id=f"{i:x}") for i in range(19_900)]
        ),
    )
    yield "Heartbeat, long names", 3, g.HeartbeatRequest(group_id="g" * 32_000, generation_id=1, member_id="m" * 32_000)


def descriptions() -> Iterator[Row]:
    yield (
        "DescribeGroups, one large member many times",
        4,
        lambda n: d.DescribeGroupsRequest(groups=[LARGE_MEMBER_GROUP] * n),
    )
    yield "DescribeGroups, a large group many times", 4, lambda n: d.DescribeGroupsRequest(groups=[LARGE_GROUP] * n)
    yield "DescribeGroups, a large group some times", 4, d.DescribeGroupsRequest(groups=[LARGE_GROUP] * 300)
    yield "DescribeGroups, many groups", 4, lambda n: d.DescribeGroupsRequest(groups=[f"{i:x}" for i in range(n)])
    yield "DescribeGroups, the empty name", 5, lambda n: d.DescribeGroupsRequest(groups=[""] * n)
    yield "ListGroups, with many filters", 4, lambda n: d.ListGroupsRequest(states_filter=["Empty"] * n)
    yield "ListGroups", 4, d.ListGroupsRequest()
    yield (
        "DeleteGroups, many",
        2,
        lambda n: d.DeleteGroupsRequest(groups_names=[*EMPTY_GROUPS, *(f"{i:x}" for i in range(n))][:n]),
    )


def group_requests() -> Iterator[Row]:
    """Every request of members and about groups."""
    yield from joins()
    yield from departures()
    yield from descriptions()
