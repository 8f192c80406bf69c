"""The requests of a consumer that are in flight or about to be sent, and the coordinator that they go to."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from regroup.members.consumer.effects import ConsumerError, NodeAddress, OutgoingRequest, RequestTarget
from regroup.members.consumer.error_actions import Recovery, action_for
from regroup.members.consumer.inputs import RequestFailed
from regroup.members.consumer.settings import ConsumerSettings
from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse

ResponseHandler: TypeAlias = Callable[[Message | RequestFailed], None]


class _InFlight(msgspec.Struct, frozen=True):
    request: OutgoingRequest
    deadline_ms: int
    handler: ResponseHandler

    @property
    def is_for_coordinator(self) -> bool:
        return self.request.target is RequestTarget.COORDINATOR


class InFlightRequests:
    """Sends requests for the other parts of the consumer, and hands each response to the handler of its request.

    A request to the coordinator without a response by its deadline takes the connection down, as in the Java client:
    all other requests to the coordinator fail too, and the coordinator is looked up again.
    """

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self.now_ms = 0
        self.coordinator: NodeAddress | None = None
        self.coordinator_found_at_ms = 0
        """The time at which the coordinator was last found, in milliseconds; 0 if it never was."""
        self.outbox: list[OutgoingRequest] = []
        """The requests that the next effects contain, to be sent."""
        self.disconnects_coordinator = False
        self.pending_error: ConsumerError | None = None
        """An error of FindCoordinator that the next poll() throws; None if there is none."""
        self._by_id: dict[int, _InFlight] = {}
        self._last_id = 0
        self._is_finding = False
        self._find_at_ms = 0
        self._find_attempts = 0

    def send_to_coordinator(self, message: Message, handler: ResponseHandler, timeout_ms: int | None = None) -> None:
        """Send a request to the coordinator. The coordinator must be known."""
        assert self.coordinator is not None
        self._send(RequestTarget.COORDINATOR, message, handler, timeout_ms)

    def send_to_any_broker(self, message: Message, handler: ResponseHandler) -> None:
        """Send a request that every broker can answer, to a broker that the transport chooses."""
        self._send(RequestTarget.ANY_BROKER, message, handler, None)

    def _send(self, target: RequestTarget, message: Message, handler: ResponseHandler, timeout_ms: int | None) -> None:
        self._last_id += 1
        address = self.coordinator if target is RequestTarget.COORDINATOR else None
        timeout_ms = timeout_ms or self._settings.request_timeout_ms
        request = OutgoingRequest(self._last_id, target, address, message, timeout_ms)
        self.outbox.append(request)
        self._by_id[self._last_id] = _InFlight(request, self.now_ms + timeout_ms, handler)

    def awaits(self, request_id: int) -> bool:
        """Whether the response to this request has not come, and the request not failed."""
        return request_id in self._by_id

    def complete(self, request_id: int, response: Message | RequestFailed) -> None:
        """Call the handler of a request with its response.

        A response of another API counts as a failure; an unknown request id is ignored.
        """
        waiting = self._by_id.pop(request_id, None)
        if waiting is None:
            return
        expected = APIS[waiting.request.message.api_key].response
        if isinstance(response, Message) and not isinstance(response, expected):
            response = RequestFailed(request_id, f"{type(response).__name__} came in place of {expected.__name__}")
        if isinstance(response, RequestFailed) and not response.is_unsupported and waiting.is_for_coordinator:
            self.mark_coordinator_unknown(response.reason)
        waiting.handler(response)

    def expire(self) -> None:
        """Fail the requests whose deadlines have passed."""
        expired = [request_id for request_id, waiting in self._by_id.items() if waiting.deadline_ms <= self.now_ms]
        for request_id in expired:
            self.complete(request_id, RequestFailed(request_id, "no response in time"))

    def mark_coordinator_unknown(self, reason: str) -> None:
        """Drop the coordinator and the connection to it, and fail all requests that are in flight there."""
        if self.coordinator is None:
            return
        self.coordinator = None
        self.disconnects_coordinator = True
        failed = [request_id for request_id, waiting in self._by_id.items() if waiting.is_for_coordinator]
        for request_id in failed:
            self.complete(request_id, RequestFailed(request_id, reason))
        self.outbox = [request for request in self.outbox if request.request_id not in failed]

    def find_coordinator(self) -> None:
        """Send FindCoordinator, unless the coordinator is known or being looked up, or a backoff has not ended."""
        if self.coordinator is None and not self._is_finding and self.now_ms >= self._find_at_ms:
            self._is_finding = True
            group_id = self._settings.group_id
            self.send_to_any_broker(FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id]), self._on_found)

    def _on_found(self, response: Message | RequestFailed) -> None:
        self._is_finding = False
        if isinstance(response, FindCoordinatorResponse) and len(response.coordinators) == 1:
            found = response.coordinators[0]
            if found.error_code == ErrorCode.NONE:
                self.coordinator = NodeAddress(found.node_id, found.host, found.port)
                self.coordinator_found_at_ms = self.now_ms
                self._find_attempts = 0
                return
            action = action_for(FindCoordinatorResponse, found.error_code)
            if action.recovery is Recovery.RAISE:
                text = f"no coordinator was found for group {self._settings.group_id}: {found.error_message or ''}"
                self.pending_error = ConsumerError(action.kind, text.strip(" :"), found.error_code, action.is_fatal)
        self._find_at_ms = self.now_ms + self._settings.backoff_ms(self._find_attempts)
        self._find_attempts += 1

    @property
    def find_coordinator_at_ms(self) -> int | None:
        """The time of the next FindCoordinator in milliseconds.

        None while the coordinator is known or being looked up.
        """
        return None if self.coordinator is not None or self._is_finding else self._find_at_ms

    @property
    def has_coordinator_request(self) -> bool:
        """Whether a request to the coordinator is in flight."""
        return any(waiting.is_for_coordinator for waiting in self._by_id.values())

    @property
    def deadline_ms(self) -> int | None:
        """The earliest time at which a request in flight expires, in milliseconds; None if none is in flight."""
        return min([waiting.deadline_ms for waiting in self._by_id.values()], default=None)
