"""The broker under examination: where it is, which versions it speaks, which settings it has."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from regroup.conformance.harness.connection import Answer, Connection, ConnectionLost, answer_as
from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.exceptions import ProtocolError
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from regroup.protocol.messages.describe import DescribeGroupsRequest, DescribeGroupsResponse
from regroup.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

FOO = "conformance-foo"
BAR = "conformance-bar"
PARTITIONS = 3
"""Both topics are made at the start, with this many partitions each."""

ABSENT = "conformance-absent"
"""A topic that nobody makes."""

BROKER_RESOURCE = 4

HABITUAL_VERSIONS: Mapping[str, int] = {
    "ApiVersions": 3,
    "Metadata": 8,
    "JoinGroup": 9,
    "SyncGroup": 5,
    "Heartbeat": 4,
    "LeaveGroup": 5,
    "OffsetCommit": 9,
    "OffsetFetch": 9,
    "DescribeGroups": 5,
    "ListGroups": 5,
    "DeleteGroups": 2,
    "TxnOffsetCommit": 3,
    "FindCoordinator": 4,
    "EndTxn": 3,
    "InitProducerId": 3,
}
"""What a story speaks unless it says otherwise; less where the broker knows less. The catalogue is written so."""

START_WITHIN_SECONDS = 30.0
"""A coordinator that is just being set up answers after that."""
KNOWN_WITHIN_SECONDS = 45.0
RETRIABLE = {E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.CONCURRENT_TRANSACTIONS}

Address = tuple[str, int]
"""Host and port."""

Restart = Callable[[], Awaitable[None]]


class NotThere(Exception):
    """Nobody at this address speaks Kafka."""


class VersionNotSpoken(Exception):
    """The broker does not advertise this version of the API."""


@dataclass
class Target:
    """One address and what was learnt about it. Times are milliseconds, settings are text as in `server.properties`."""

    host: str
    port: int
    versions: Mapping[str, range] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    restart: Restart | None = None
    newest: Mapping[str, int] = field(default_factory=dict)
    brokers: tuple[Address, ...] = ()
    """Every broker of the cluster, by the address that it tells."""

    @classmethod
    async def learn(
        cls,
        address: str,
        told: Mapping[str, str] | None = None,
        restart: Restart | None = None,
        newest: Mapping[str, int] | None = None,
    ) -> Self:
        """Ask who is there: versions, settings, the two topics. NotThere.

        `told` settings win over those that the broker tells; `newest` versions, by API, over those it advertises.
        """
        host, _, port = address.rpartition(":")
        target = cls(host.strip("[]") or "127.0.0.1", int(port), restart=restart, newest=newest or {})
        await target.come_to_know(told or {})
        return target

    async def come_to_know(self, told: Mapping[str, str]) -> None:
        """Fill in what can be asked."""
        try:
            connection = await Connection.open(self.host, self.port)
        except OSError as error:
            raise NotThere(f"nobody listens at {self.host}:{self.port} ({error})") from error
        try:
            async with asyncio.timeout(KNOWN_WITHIN_SECONDS):
                await self._ask_everything(connection, told)
        except TimeoutError as error:
            raise NotThere(f"{self.host}:{self.port} takes what it is asked and does not answer") from error
        except (ConnectionLost, ProtocolError) as error:
            raise NotThere(f"{self.host}:{self.port} does not answer as Kafka does: {error}") from error
        finally:
            await connection.close()

    async def _ask_everything(self, connection: Connection, told: Mapping[str, str]) -> None:
        self.versions = {
            name: range(spoken.start, min(spoken.stop, self.newest.get(name, spoken.stop) + 1))
            for name, spoken in (await _versions(connection)).items()
        }
        self.settings = {**await self._settings(connection), **told}
        await self._make_topics(connection)
        await self._wait_for_coordinator(connection)

    def version_for(self, request: Message, wanted: int | None = None) -> int:
        """The version in which to ask. VersionNotSpoken when the broker does not have it."""
        name = APIS[request.api_key].name
        spoken = self.versions.get(name)
        if spoken is None:
            raise VersionNotSpoken(f"the broker does not offer {name}")
        if wanted is None:
            return min(HABITUAL_VERSIONS.get(name, APIS[request.api_key].versions.last), spoken[-1])
        if wanted not in spoken:
            raise VersionNotSpoken(f"the broker offers {name} v{spoken[0]} to v{spoken[-1]}, not v{wanted}")
        return wanted

    def number(self, setting: str) -> int | None:
        """A setting that is a whole number, or None where it is not known."""
        text = self.settings.get(setting)
        return int(text) if text is not None else None

    async def _settings(self, connection: Connection) -> dict[str, str]:
        cluster = await self._ask(connection, MetadataRequest(topics=[]), MetadataResponse)
        self.brokers = tuple((each.host, each.port) for each in cluster.brokers)
        if "DescribeConfigs" not in self.versions or not cluster.brokers:
            return {}
        broker = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name=str(cluster.brokers[0].node_id))
        answer = await self._ask(connection, DescribeConfigsRequest(resources=[broker]), DescribeConfigsResponse)
        return {each.name: each.value for one in answer.results for each in one.configs if each.value is not None}

    async def _make_topics(self, connection: Connection) -> None:
        """Where topics cannot be created, the mention of a name may do it."""
        if "CreateTopics" in self.versions:
            topics = [CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1) for name in (FOO, BAR)]
            create = CreateTopicsRequest(topics=topics)
            await connection.ask(create, self.version_for(create))
        mention = MetadataRequest(topics=[MetadataRequestTopic(name=FOO), MetadataRequestTopic(name=BAR)])
        await self._ask(connection, mention, MetadataResponse)

    async def _wait_for_coordinator(self, connection: Connection) -> None:
        """The first question about a coordinator makes Kafka create the topic that it needs."""
        with suppress(TimeoutError, VersionNotSpoken):
            async with asyncio.timeout(START_WITHIN_SECONDS):
                while not await self._is_coordinating(connection):  # noqa: ASYNC110  # nobody would set an event
                    await asyncio.sleep(0.1)

    async def _is_coordinating(self, connection: Connection) -> bool:
        """Every group id lives in some partition of the coordinator's topic: so many ids try nearly all of them."""
        question = FindCoordinatorRequest(key="anybody")
        found = answer_as(FindCoordinatorResponse, await connection.ask(question, self.version_for(question, 2)))
        if found.error_code in RETRIABLE:
            return False
        request = DescribeGroupsRequest(groups=[f"nobody-{number}" for number in range(500)])
        answer = await self._ask(connection, request, DescribeGroupsResponse)
        # Of a cluster, the other brokers have the rest of the groups.
        passing = RETRIABLE if len(self.brokers) < 2 else RETRIABLE - {E.NOT_COORDINATOR}
        return all(each.error_code not in passing for each in answer.groups)

    async def _ask(self, connection: Connection, request: Message, kind: type[Answer]) -> Answer:
        return answer_as(kind, await connection.ask(request, self.version_for(request)))


async def _versions(connection: Connection) -> dict[str, range]:
    answer = answer_as(ApiVersionsResponse, await connection.ask(ApiVersionsRequest(), 0))
    spoken: dict[str, range] = {}
    for row in answer.api_keys:
        api = APIS.get(row.api_key)
        if api is not None and (both := _both(row.min_version, row.max_version, api.versions.first, api.versions.last)):
            spoken[api.name] = both
    return spoken


def _both(first: int, last: int, our_first: int, our_last: int) -> range:
    return range(max(first, our_first), min(last, our_last) + 1)
