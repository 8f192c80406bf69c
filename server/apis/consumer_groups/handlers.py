"""Handlers of ConsumerGroupHeartbeat and ConsumerGroupDescribe, the requests of the consumer protocol (KIP-848)."""

from collections.abc import Iterable

from msgspec.structs import replace

from regroup.coordinator.consumer.commands import ConsumerGroupDescribe, ConsumerGroupHeartbeat
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)
from regroup.protocol.messages.describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from regroup.protocol.topic_ids import topic_id_text
from regroup.server.apis.consumer_groups.patterns import PatternSearch
from regroup.server.apis.groups import GROUP_OPERATIONS, submit_all
from regroup.server.cluster.group_router import BrokerGroups
from regroup.server.cluster.state import ClusterState
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.turns import Turns

_CLIENT_CHOOSES_MEMBER_ID = 1
"""ConsumerGroupHeartbeat version since which a member chooses its own member id (KIP-1082)."""


class ConsumerGroupApis:
    """Turns ConsumerGroupHeartbeat and ConsumerGroupDescribe into commands, which carry the present topics. Starts the
    search for topics that match subscribed patterns."""

    def __init__(self, state: ClusterState, groups: BrokerGroups, patterns: PatternSearch) -> None:
        self._state = state
        self._groups = groups
        self._patterns = patterns

    def handlers(self) -> dict[int, RequestHandler]:
        return {
            ConsumerGroupHeartbeatRequest.api_key: self.heartbeat,
            ConsumerGroupDescribeRequest.api_key: self.describe,
        }

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, exchange: Exchange) -> None:
        """Submit a ConsumerGroupHeartbeat to the group coordinator. Before v1 a new member has no member id, and gets a
        new one here. If a search for topics that match subscribed patterns is due, it begins after the response, unless
        the member leaves."""
        regex, group_id = request.subscribed_topic_regex, request.group_id
        requires_member_id = exchange.version >= _CLIENT_CHOOSES_MEMBER_ID
        needs_id = not requires_member_id and not request.member_id
        names = request.subscribed_topic_names
        command = ConsumerGroupHeartbeat(
            group_id=group_id,
            at_ms=self._state.now_ms(),
            member_id=request.member_id,
            new_member_id=topic_id_text(self._state.new_uuid().bytes) if needs_id else "",
            requires_member_id=requires_member_id,
            member_epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            client_id=exchange.header.client_id or "",
            client_host=exchange.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            subscribed_topics=None if names is None else tuple(names),
            subscribed_regex=regex,
            regex_error=self._patterns.error_of(group_id, regex) if regex else None,
            server_assignor=request.server_assignor,
            owned=None if request.topic_partitions is None else owned_partitions(request.topic_partitions),
            topics=self._state.topics_image,
        )

        searched_before_ms = None if regex is None else self._patterns.searched_ms(group_id)

        def on_response(response: ConsumerGroupHeartbeatResponse) -> None:
            exchange.respond(response)
            if not response.error_code and request.member_epoch >= 0:
                self._patterns.search_if_due(group_id, searched_before_ms)

        self._groups.submit(command, on_response, exchange.cause)

    def describe(self, request: ConsumerGroupDescribeRequest, exchange: Exchange) -> Turns:
        """Describe groups of the consumer protocol. A group that is named twice is described twice; no group has the
        empty id."""
        group_ids = request.group_ids

        def complete(group_id: str, groups: dict[str, DescribedConsumerGroup]) -> DescribedConsumerGroup:
            if not group_id:
                return DescribedConsumerGroup(group_id="", error_code=ErrorCode.INVALID_GROUP_ID)
            described = groups[group_id]
            if request.include_authorized_operations and not described.error_code:
                described = replace(described, authorized_operations=GROUP_OPERATIONS)
            return described

        def on_responses(groups: dict[str, DescribedConsumerGroup]) -> None:
            completed = {group_id: complete(group_id, groups) for group_id in dict.fromkeys(group_ids)}
            exchange.respond(ConsumerGroupDescribeResponse(groups=[completed[group_id] for group_id in group_ids]))

        def command(group_id: str) -> ConsumerGroupDescribe:
            return ConsumerGroupDescribe(group_id=group_id, at_ms=self._state.now_ms(), topics=self._state.topics_image)

        named = [each for each in group_ids if each]
        return submit_all(self._groups, named, command, on_responses, exchange.cause)


def owned_partitions(topics: Iterable[ConsumerGroupTopicPartitions]) -> dict[str, tuple[int, ...]]:
    """The partitions that a member reports as owned in its heartbeat, by topic id. A request may name a topic twice."""
    owned: dict[str, dict[int, None]] = {}
    for topic in topics:
        owned.setdefault(topic_id_text(topic.topic_id), {}).update(dict.fromkeys(topic.partitions))
    return {topic_id: tuple(indexes) for topic_id, indexes in owned.items()}
