"""The requests of one process of a simulated member of the consumer protocol, and where its coordinator is.

requests.refresh_metadata(names, then)       learn the ids of topics
requests.find_coordinator()                  `on_coordinator` follows
requests.send(message, then, on_failure)     to the coordinator
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import count

from regroup.members.consumer.effects import NodeAddress, OutgoingRequest, RequestTarget
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.runtime.notes import RequestRefused, refusal_in
from regroup.members.runtime.timers import MemberTimers
from regroup.members.transports.base import MemberTransport
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

RETRY_MS = 100
"""The pause before a request is repeated, as Kafka's `retry.backoff.ms`."""
NOT_COORDINATOR = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""With these errors a broker says that the coordinator is to be searched for again."""


class ConsumerProtocolRequests:
    """Sends the requests of one process. Once `is_over` is True, responses are ignored: no callback is called any
    more."""

    def __init__(
        self,
        settings: ConsumerSettings,
        transport: MemberTransport,
        timers: MemberTimers,
        *,
        on_coordinator: Callable[[], None],
        on_refusal: Callable[[RequestRefused, int], None],
    ) -> None:
        self._settings, self._transport, self._timers = settings, transport, timers
        self._on_coordinator, self._on_refusal = on_coordinator, on_refusal
        self._coordinator: NodeAddress | None = None
        self._is_searching = False
        self.is_search_due = False
        """Whether the coordinator is looked for after a pause, since it could not answer: no heartbeat until then."""
        self._request_ids = count()
        self.is_over = False

    def refresh_metadata(self, topics: Iterable[str] | None, then: Callable[[Mapping[bytes, str]], None]) -> None:
        """Request the metadata of these topics, of all topics with None, again and again until they arrive; `then` is
        called with their names by topic id."""
        wanted = None if topics is None else [MetadataRequestTopic(name=each) for each in topics]

        def learned(response: Message) -> None:
            assert isinstance(response, MetadataResponse)
            then({each.topic_id: each.name for each in response.topics if each.name is not None})

        request = MetadataRequest(topics=wanted)
        self._send(request, RequestTarget.ANY_BROKER, learned, lambda: self.refresh_metadata(topics, then))

    @property
    def has_coordinator(self) -> bool:
        """Whether the coordinator of the group is known: it was found, and no request to it has failed since."""
        return self._coordinator is not None

    def find_coordinator(self) -> None:
        """Send FindCoordinator again and again until the coordinator of the group is found, then call `on_coordinator`.
        No effect while it is being searched for."""
        if not self._is_searching:
            self._is_searching = True
            self._search()

    def find_coordinator_later(self) -> None:
        """Find the coordinator again after a pause, also if it stays the same. No effect while such a search is due."""
        if self.is_search_due:
            return
        self.is_search_due = True

        def find() -> None:
            self.is_search_due = False
            self.find_coordinator()

        self._after_pause(find)

    def _search(self) -> None:
        group_id = self._settings.group_id
        request = FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id])
        self._send(request, RequestTarget.ANY_BROKER, self._on_found, self._search)

    def _on_found(self, response: Message) -> None:
        assert isinstance(response, FindCoordinatorResponse)
        [found] = response.coordinators
        if found.error_code:
            self._after_pause(self._search)
        else:
            self._is_searching = False
            self._coordinator = NodeAddress(found.node_id, found.host, found.port)
            self._on_coordinator()

    def _lose_coordinator(self) -> None:
        """Search for the coordinator again, after a pause: a request to it has failed, or it is none any more."""
        self._coordinator = None
        self._after_pause(lambda: None if self.has_coordinator else self.find_coordinator())

    def _after_pause(self, act: Callable[[], None]) -> None:
        self._timers.call_after(RETRY_MS, lambda: None if self.is_over else act())

    def send(self, message: Message, then: Callable[[Message], None], on_failure: Callable[[], None]) -> None:
        """Send a request to the coordinator. `then` is called with the response, `on_failure` after a pause if there is
        none, or if no coordinator is known."""
        if self._coordinator is None:
            self.find_coordinator()
            self._after_pause(on_failure)
        else:
            self._send(message, RequestTarget.COORDINATOR, then, on_failure)

    def _send(
        self, message: Message, target: RequestTarget, then: Callable[[Message], None], on_failure: Callable[[], None]
    ) -> None:
        address = self._coordinator if target is RequestTarget.COORDINATOR else None
        request = OutgoingRequest(next(self._request_ids), target, address, message, self._settings.request_timeout_ms)

        def received(found: ResponseReceived | RequestFailed) -> None:
            if self.is_over:
                return
            is_current = address is not None and address is self._coordinator
            if isinstance(found, RequestFailed):
                if is_current:
                    self._lose_coordinator()
                self._after_pause(on_failure)
                return
            if (refused := refusal_in(found.response)) is not None:
                self._on_refusal(*refused)
                if is_current and refused[1] in NOT_COORDINATOR:
                    self._lose_coordinator()
            then(found.response)

        self._transport.send(request, lambda found: self._timers.run_when_resumed(lambda: received(found)))
