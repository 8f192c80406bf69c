"""A broker of a few lines whose responses a test chooses, right or wrong."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from regroup.protocol.apis import APIS
from regroup.protocol.frames import FrameReader, decode_request, encode_response
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    ApiVersion,
    ApiVersionsResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)
from regroup.protocol.messages.describe import DescribedGroup, DescribeGroupsResponse

FakeResponse = Callable[[Message], Message | None]
"""The response to a request; None closes the connection."""

DISCOVERY_RESPONSES: dict[str, FakeResponse] = {
    "Metadata": lambda request: MetadataResponse(brokers=[], topics=[]),
    "FindCoordinator": lambda request: FindCoordinatorResponse(),
    "DescribeGroups": lambda request: DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=name, group_state="Dead") for name in request.groups]  # type: ignore[attr-defined]
    ),
}


@asynccontextmanager
async def fake_broker(responses: Mapping[str, FakeResponse]) -> AsyncIterator[str]:
    """The address of a broker that offers these APIs, and those that `ConformanceTarget.discover` needs."""
    known = {**DISCOVERY_RESPONSES, **responses}
    offered = [
        ApiVersion(api_key=key, min_version=api.versions.first, max_version=api.versions.last)
        for key, api in APIS.items()
        if api.name in known
    ]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        while chunk := await reader.read(65536):
            for frame in frames.feed(chunk):
                header, request = decode_request(frame)
                name = APIS[header.api_key].name
                response = ApiVersionsResponse(api_keys=offered) if name == "ApiVersions" else known[name](request)
                if response is None:
                    writer.close()
                    return
                writer.write(encode_response(header.api_key, header.api_version, header.correlation_id, response))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
