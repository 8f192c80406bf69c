"""The broker under test: finds out its API versions, settings and coordinators, creates its topics, and restarts it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

from regroup.conformance.harness.message_types import AnyResponse, response_as
from regroup.protocol.apis import APIS
from regroup.protocol.client import ClientConnection, ConnectionLost
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.exceptions import Malformed, ProtocolError
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

FOO_TOPIC = "conformance-foo"
BAR_TOPIC = "conformance-bar"
FOO_0, FOO_1, BAR_0, BAR_1 = (FOO_TOPIC, 0), (FOO_TOPIC, 1), (BAR_TOPIC, 0), (BAR_TOPIC, 1)
SIX_TOPIC = "conformance-six"
"""The topic of groups of the consumer protocol: two members share six partitions evenly."""
PARTITIONS_PER_TOPIC = 3
"""The number of partitions of the other topics."""
TOPICS = {FOO_TOPIC: PARTITIONS_PER_TOPIC, BAR_TOPIC: PARTITIONS_PER_TOPIC, SIX_TOPIC: 6}
"""The topics that are created at the start, and their numbers of partitions."""

ABSENT_TOPIC = "conformance-absent"
"""A topic that is never created."""

UNKNOWN_TOPIC_ID = UUID("c0f0c0f0-0000-4000-8000-00000000c0f0").bytes
"""An id that no topic has."""

BROKER_RESOURCE = 4

KAFKA_DEFAULTS: Mapping[str, str] = {
    "group.max.size": "2147483647",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "group.initial.rebalance.delay.ms": "3000",
    "group.consumer.max.size": "2147483647",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.migration.policy": "bidirectional",
    "offset.metadata.max.bytes": "4096",
    "offsets.retention.minutes": "10080",
    "offsets.retention.check.interval.ms": "600000",
    "offsets.commit.timeout.ms": "5000",
}
"""Kafka's defaults, for settings that the broker does not report."""

DEFAULT_VERSIONS: Mapping[str, int] = {
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
    "OffsetDelete": 0,
    "TxnOffsetCommit": 3,
    "FindCoordinator": 4,
    "EndTxn": 3,
    "InitProducerId": 3,
}
"""The version of each API in the catalogue.

A story uses it, or the newest that the broker offers if that is older, unless the story names a version.
"""

METADATA_VERSION_WITH_TOPIC_IDS = 12

COORDINATOR_TIMEOUT_S = 30.0
"""Seconds that a coordinator has to start. Stories begin afterwards in any case."""
DISCOVERY_TIMEOUT_S = 45.0
RESTART_TIMEOUT_S = 90.0
"""Seconds that a broker has to accept connections again, after the command that restarts it has returned."""
RETRIABLE_ERRORS = {
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_COORDINATOR,
    E.CONCURRENT_TRANSACTIONS,
}

BrokerAddress = tuple[str, int]
"""Host and port."""

RestartBroker = Callable[[], Awaitable[None]]


class TargetUnavailable(Exception):
    """Raised if no broker with Kafka's protocol answers at the address."""


class VersionNotOffered(Exception):
    """Raised if the broker does not advertise the version of an API that a request needs."""


@dataclass
class ConformanceTarget:
    """The broker under test.

    `settings` are text by their names, as in `server.properties`; `brokers` are the addresses of its cluster.
    """

    host: str
    port: int
    versions: Mapping[str, range] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    restart: RestartBroker | None = None
    newest_versions: Mapping[str, int] = field(default_factory=dict)
    brokers: tuple[BrokerAddress, ...] = ()
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    """The ids of the topics; empty for a broker that is older than topic ids."""

    @classmethod
    async def discover(
        cls,
        address: str,
        settings: Mapping[str, str] | None = None,
        restart: RestartBroker | None = None,
        newest_versions: Mapping[str, int] | None = None,
    ) -> Self:
        """Ask the broker at HOST:PORT for its versions and settings, and create the topics. Raises TargetUnavailable.

        `settings` take precedence over those that the broker reports; `newest_versions`, by API, limit the versions
        that it advertises.
        """
        host, _, port = address.rpartition(":")
        target = cls(host.strip("[]") or "127.0.0.1", int(port), restart=restart, newest_versions=newest_versions or {})
        await target.refresh(settings or {})
        return target

    async def refresh(self, known_settings: Mapping[str, str]) -> None:
        """Ask the broker again for its versions and settings, after a restart for example. Raises TargetUnavailable."""
        address = f"{self.host}:{self.port}"
        try:
            connection = await ClientConnection.open(self.host, self.port)
        except OSError as error:
            raise TargetUnavailable(f"no broker listens at {address} ({error})") from error
        try:
            async with asyncio.timeout(DISCOVERY_TIMEOUT_S):
                self.versions = await self._offered_versions(connection)
                self.settings = {**await self._reported_settings(connection), **known_settings}
                await self._create_topics(connection)
                await self._wait_for_coordinator(connection)
        except TimeoutError as error:
            raise TargetUnavailable(f"{address} accepts requests and does not answer") from error
        except (ConnectionLost, ProtocolError) as error:
            raise TargetUnavailable(f"{address} does not answer as Kafka does: {error}") from error
        finally:
            await connection.close()

    async def restart_and_refresh(self) -> None:
        """Restart the broker, and wait until its coordinator answers. Raises TargetUnavailable."""
        assert self.restart is not None, "a command that restarts the broker is needed"
        await self.restart()
        deadline_s = asyncio.get_running_loop().time() + RESTART_TIMEOUT_S
        while True:
            try:
                return await self.refresh(self.settings)
            except TargetUnavailable:
                if asyncio.get_running_loop().time() > deadline_s:
                    raise
            await asyncio.sleep(0.2)

    def version_for(self, request: Message, version: int | None = None) -> int:
        """The version in which to send a request.

        It is `version`, or by default that of the catalogue. Raises VersionNotOffered.
        """
        name = APIS[request.api_key].name
        offered = self.versions.get(name)
        if offered is None:
            raise VersionNotOffered(f"the broker does not offer {name}")
        if version is None:
            return min(DEFAULT_VERSIONS.get(name, APIS[request.api_key].versions.last), offered[-1])
        if version not in offered:
            raise VersionNotOffered(f"the broker offers {name} v{offered[0]} to v{offered[-1]}, not v{version}")
        return version

    def int_setting(self, name: str) -> int | None:
        """The value of a setting that is an integer; None if it is not known."""
        text = self.settings.get(name)
        return int(text) if text is not None else None

    def setting_or_default(self, name: str) -> int:
        """The value of a setting that is an integer, or Kafka's default if the broker did not report it."""
        return int(self.settings.get(name, KAFKA_DEFAULTS[name]))

    def topic_ids_in_order(self) -> list[bytes]:
        """The ids of the topics in the order of their creation; empty for a broker that is older than topic ids."""
        return [self.topic_ids[name] for name in TOPICS if name in self.topic_ids]

    async def _offered_versions(self, connection: ClientConnection) -> dict[str, range]:
        """The versions that the broker advertises and the codec supports, by API."""
        response = response_as(ApiVersionsResponse, await connection.send(ApiVersionsRequest(), 0))
        offered: dict[str, range] = {}
        for advertised in response.api_keys:
            if (api := APIS.get(advertised.api_key)) is not None:
                newest = min(advertised.max_version, api.versions.last)
                newest = min(newest, self.newest_versions.get(api.name, newest))
                if versions := range(max(advertised.min_version, api.versions.first), newest + 1):
                    offered[api.name] = versions
        return offered

    async def _reported_settings(self, connection: ClientConnection) -> dict[str, str]:
        cluster = await self._send(connection, MetadataRequest(topics=[]), MetadataResponse)
        self.brokers = tuple((broker.host, broker.port) for broker in cluster.brokers)
        if "DescribeConfigs" not in self.versions or not cluster.brokers:
            return {}
        broker = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name=str(cluster.brokers[0].node_id))
        response = await self._send(connection, DescribeConfigsRequest(resources=[broker]), DescribeConfigsResponse)
        configs = [config for result in response.results for config in result.configs]
        return {config.name: config.value for config in configs if config.value is not None}

    async def _create_topics(self, connection: ClientConnection) -> None:
        """Create the topics that stories use. Some brokers have no CreateTopics, but create the topics that Metadata
        names."""
        if "CreateTopics" in self.versions:
            topics = [
                CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in TOPICS.items()
            ]
            create = CreateTopicsRequest(topics=topics)
            await connection.send(create, self.version_for(create))
        metadata = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS])
        await self._send(connection, metadata, MetadataResponse)
        if METADATA_VERSION_WITH_TOPIC_IDS in self.versions.get("Metadata", ()):
            with suppress(Malformed):  # librdkafka's mock offers this version and encodes it wrongly
                response = await connection.send(metadata, METADATA_VERSION_WITH_TOPIC_IDS)
                described = response_as(MetadataResponse, response).topics
                self.topic_ids = {topic.name: topic.topic_id for topic in described if topic.name is not None}

    async def _wait_for_coordinator(self, connection: ClientConnection) -> None:
        """Wait until groups have a coordinator: Kafka creates __consumer_offsets with the first FindCoordinator."""
        with suppress(TimeoutError, VersionNotOffered):
            async with asyncio.timeout(COORDINATOR_TIMEOUT_S):
                while not await self._is_coordinating(connection):  # noqa: ASYNC110  # there is no event to wait for
                    await asyncio.sleep(0.1)

    async def _is_coordinating(self, connection: ClientConnection) -> bool:
        """Whether the partitions of __consumer_offsets are loaded: 500 group ids fall into nearly all of them."""
        find = FindCoordinatorRequest(key="probe")
        found = response_as(FindCoordinatorResponse, await connection.send(find, self.version_for(find, 2)))
        if found.error_code in RETRIABLE_ERRORS:
            return False
        request = DescribeGroupsRequest(groups=[f"probe-{number}" for number in range(500)])
        response = await self._send(connection, request, DescribeGroupsResponse)
        # In a cluster the other brokers coordinate the rest of the groups.
        temporary = RETRIABLE_ERRORS if len(self.brokers) < 2 else RETRIABLE_ERRORS - {E.NOT_COORDINATOR}
        return all(group.error_code not in temporary for group in response.groups)

    async def _send(
        self, connection: ClientConnection, request: Message, response_type: type[AnyResponse]
    ) -> AnyResponse:
        return response_as(response_type, await connection.send(request, self.version_for(request)))
