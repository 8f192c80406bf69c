"""What a rule asks of a request: its API, sender, groups, members and topics, wherever that API has them."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Protocol

from regroup.protocol.apis import APIS
from regroup.protocol.fields import NO_UUID
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message, Structure
from regroup.protocol.messages.cluster import FindCoordinatorRequest


class DecodedRequest(Protocol):
    """The part of an exchange that facts are read from; a recorded exchange has it too."""

    @property
    def header(self) -> RequestHeader: ...

    @property
    def request(self) -> Message: ...


class RequestFacts:
    """The facts of one request, each read when a rule asks for it. `topic_name` finds the name of a topic's id."""

    def __init__(self, exchange: DecodedRequest, broker: int, topic_name: Callable[[bytes], str]) -> None:
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
        named = {getattr(request, "group_id", "")} | set(getattr(request, "groups_names", ()))
        for each in getattr(request, "groups", ()):
            named.add(each if isinstance(each, str) else each.group_id)
        return named - {""}

    @cached_property
    def members(self) -> set[str]:
        return set(self._texts("member_id"))

    @cached_property
    def instances(self) -> set[str]:
        return set(self._texts("group_instance_id"))

    def _texts(self, field: str) -> Iterator[str]:
        for structure in (self._request, *self._listed("members")):
            text = getattr(structure, field, None)
            if text:
                yield text

    @property
    def generation(self) -> int | None:
        request = self._request
        generation = getattr(request, "generation_id", getattr(request, "generation_id_or_member_epoch", None))
        return generation if isinstance(generation, int) else None

    @cached_property
    def topics(self) -> set[str]:
        listed = [*self._listed("topics"), *self._listed("topic_data"), *self._listed("v3_and_below_topics")]
        for group in (*self._listed("groups"), *self._listed("transactions")):
            listed += getattr(group, "topics", None) or []
        return {self._name_of(topic) for topic in listed} - {""}

    def _name_of(self, topic: Structure) -> str:
        name = getattr(topic, "name", None) or getattr(topic, "topic", None) or ""
        topic_id = getattr(topic, "topic_id", NO_UUID)
        return name or (self._topic_name(topic_id) if topic_id != NO_UUID else "")

    def _listed(self, field: str) -> list[Structure]:
        return [each for each in getattr(self._request, field, None) or () if isinstance(each, Structure)]
