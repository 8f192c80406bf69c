"""The facts of a request that fault rules and filters ask for: API, sender, groups, members, topics, independent of the
API's fields.
"""

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Protocol

from regroup.protocol.apis import APIS
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message, Structure
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.server.responses.partitions import TopicNames, asks_for_all_topics, named_partitions


class DecodedRequest(Protocol):
    """The decoded header and body of a request, from which RequestFacts reads its facts; the request may be handled now
    or have been recorded."""

    @property
    def header(self) -> RequestHeader: ...

    @property
    def request(self) -> Message: ...


class RequestFacts:
    """The facts of one request; most are computed when they are first used. `topic_name` returns the name of a topic
    id."""

    def __init__(self, exchange: DecodedRequest, broker: int, topic_name: TopicNames) -> None:
        self._request = exchange.request
        self._topic_name = topic_name
        self.api = APIS[exchange.header.api_key].name
        self.version = exchange.header.api_version
        self.client_id = exchange.header.client_id or ""
        self.broker = broker

    @cached_property
    def groups(self) -> set[str]:
        request = self._request
        if isinstance(request, FindCoordinatorRequest):
            return {request.key, *request.coordinator_keys} - {""} if request.key_type == 0 else set()
        named = {getattr(request, "group_id", "")} | set(
            getattr(request, "groups_names", getattr(request, "group_ids", ()))
        )
        for each in getattr(request, "groups", ()):
            named.add(each if isinstance(each, str) else each.group_id)
        return named - {""}

    @cached_property
    def members(self) -> set[str]:
        return set(self._texts("member_id"))

    @cached_property
    def instances(self) -> set[str]:
        return {*self._texts("group_instance_id"), *self._texts("instance_id")}

    def _texts(self, field: str) -> Iterator[str]:
        listed = [each for each in getattr(self._request, "members", ()) if isinstance(each, Structure)]
        for structure in (self._request, *listed):
            text = getattr(structure, field, None)
            if text:
                yield text

    @property
    def generation(self) -> int | None:
        request = self._request
        names = ("generation_id", "generation_id_or_member_epoch", "member_epoch")
        generation = next((getattr(request, name) for name in names if hasattr(request, name)), None)
        return generation if isinstance(generation, int) else None

    @cached_property
    def partitions(self) -> list[tuple[str, frozenset[int] | None]]:
        """The topics that the request names, each with its partition indexes, or with None if the API names no
        partitions."""
        return list(named_partitions(self._request, self._topic_name))

    @cached_property
    def _is_about_all_topics(self) -> bool:
        return asks_for_all_topics(self._request, self.version)

    def concerns(self, topic: str, partitions: Collection[int]) -> bool:
        """Whether the request is about this topic (empty: any topic) and about one of these partitions (empty: any
        partition).

        A request that names no partitions is about all of them, and one for all topics is about each.
        """
        return self._is_about_all_topics or any(
            topic in ("", name) and (not partitions or indexes is None or not indexes.isdisjoint(partitions))
            for name, indexes in self.partitions
        )
