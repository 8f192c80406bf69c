"""One broker as exchanges see it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any

from regroup.protocol.fields import NO_UUID
from regroup.protocol.messages import cluster as c
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import topics as t
from regroup.protocol.messages import transactions as x
from tests.server.wire_client import TIMEOUT_S, WireClient

UNKNOWN_ID = b"\x07" * 16
RETRIABLE = {14, 15, 16, 51}
"""A coordinator that is being loaded, or not there yet; a transaction that is being completed."""
RUNS = count(1)


class Probe:
    """One broker, with a topic `foo` and a topic `bar` of three partitions; `name` makes names for this run."""

    def __init__(self, address: str, stack: AsyncExitStack) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._stack = stack
        self._clients: dict[str, WireClient] = {}
        self.ids: dict[str, bytes] = {}
        self._run = next(RUNS)

    def name(self, base: str) -> str:
        return f"{base}-same-answers-{self._run}"

    async def call(self, request: Any, version: int | None = None, sender: str = "") -> Any:
        """The response; None if the broker closes the connection."""
        if sender not in self._clients:
            self._clients[sender] = client = await WireClient.connect(self._host, int(self._port))
            self._stack.push_async_callback(client.close)
        try:
            return await asyncio.wait_for(self._clients[sender].call(request, version), TIMEOUT_S)
        except (asyncio.IncompleteReadError, ConnectionError):
            del self._clients[sender]
            return None

    async def eventually(self, send: Callable[[], Awaitable[Any]], code: Callable[[Any], int]) -> Any:
        """The first response whose code asks for no other attempt."""
        async with asyncio.timeout(TIMEOUT_S):
            while code(response := await send()) in RETRIABLE:  # noqa: ASYNC110  # there is no event to wait for
                await asyncio.sleep(0.05)
        return response

    async def prepare(self) -> None:
        for name in ("foo", "bar"):
            topic = t.CreatableTopic(name=self.name(name), num_partitions=3, replication_factor=1)
            await self.call(t.CreateTopicsRequest(topics=[topic], timeout_ms=5000))
            wanted = c.MetadataRequest(topics=[c.MetadataRequestTopic(name=self.name(name))])
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    found = (await self.call(wanted)).topics[0]
                    if not found.error_code and all(each.leader_id >= 0 for each in found.partitions):
                        break
                    await asyncio.sleep(0.05)
            self.ids[name] = found.topic_id

    async def coordinator(self, key: str, key_type: int = 0) -> None:
        request = c.FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
        await self.eventually(lambda: self.call(request), lambda found: found.coordinators[0].error_code)
        if key_type == 0:
            describe = d.DescribeGroupsRequest(groups=[key])
            await self.eventually(lambda: self.call(describe, 5), lambda found: found.groups[0].error_code)

    async def group(self, base: str = "g") -> str:
        await self.coordinator(self.name(base))
        return self.name(base)

    async def begin(self, base: str) -> dict[str, Any]:
        """The identity of a transactional producer."""
        await self.coordinator(self.name(base), 1)
        request = x.InitProducerIdRequest(transactional_id=self.name(base), transaction_timeout_ms=60_000)
        begun = await self.eventually(lambda: self.call(request, 5), lambda found: found.error_code)
        return {
            "transactional_id": self.name(base),
            "producer_id": begun.producer_id,
            "producer_epoch": begun.producer_epoch,
        }

    async def add_group(self, who: dict[str, Any], group: str) -> None:
        request = x.AddOffsetsToTxnRequest(**who, group_id=group)
        added = await self.eventually(lambda: self.call(request, 3), lambda found: found.error_code)
        assert added.error_code == 0

    def topic(self, name: str, *, by_id: bool) -> dict[str, Any]:
        """The fields that name a topic: `foo` and `bar` exist, `absent` does not, `zero` has no name and no id."""
        if by_id:
            return {"topic_id": self.ids.get(name, NO_UUID if name == "zero" else UNKNOWN_ID)}
        return {"name": "" if name == "zero" else self.name(name)}

    def topic_of(self, entry: Any, *, by_id: bool) -> str:
        if by_id:
            known = {topic_id: name for name, topic_id in self.ids.items()} | {NO_UUID: "zero"}
            return known.get(entry.topic_id, "absent")
        return str(entry.name).partition("-")[0] or "zero"


Exchange = Callable[[Probe], Awaitable[Any]]
"""Sends requests to one broker and returns what is compared."""


def presence(text: str | None) -> str:
    return "null" if text is None else "text" if text else "empty"


@asynccontextmanager
async def probe_of(address: str) -> AsyncIterator[Probe]:
    async with AsyncExitStack() as stack:
        probe = Probe(address, stack)
        await probe.prepare()
        yield probe
