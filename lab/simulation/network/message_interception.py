"""Reports requests and responses on the simulated network as milestones, and loses single ones when a step says so."""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.steps import RequestLost, ResponseLost
from regroup.lab.simulation.network.endpoint import Endpoint
from regroup.protocol.apis import APIS

_LENGTH: Final = Struct(">i")
_REQUEST: Final = Struct(">hhi")
"""API key, API version and correlation id of a request, which follow the length of its frame."""
_CORRELATION_ID: Final = Struct(">i")
_SENDS: Final = "sends"
_RECEIVES: Final = "receives the"
_API_KEYS: Final = {api.name: key for key, api in APIS.items()}
_API_NAMES: Final = {key: name for name, key in _API_KEYS.items()}


class MessageInterceptor:
    """A `ConnectionInterceptor` for Kafka's protocol. `reach_milestone` gets milestones with host names."""

    def __init__(self, reach_milestone: Callable[[str], None]) -> None:
        self._reach_milestone = reach_milestone
        self._pending: dict[Endpoint, dict[int, int]] = {}
        """API keys of the requests that have no response yet, by the client's endpoint and correlation id."""
        self._to_lose: list[tuple[str, int, bool]] = []
        """Messages to lose: the client's host, the API key, and whether the response is lost instead of the request."""
        self._rest: dict[tuple[Endpoint, bool], int] = {}
        """How many bytes of the last frame are still to come, by endpoint and whether it sends or receives them: a long
        response is written in pieces."""

    def lose_next(self, host: str, api: str, *, response: bool) -> None:
        """Break the connection of a host when its next request of this API arrives at the broker, so that it is lost.

        With `response` the connection breaks when the response to that request arrives at the host.
        """
        self._to_lose.append((host, _API_KEYS[api], response))

    def on_sent(self, endpoint: Endpoint, data: bytes) -> None:
        """Report each request in bytes that a client has written at this endpoint as a milestone."""
        if not endpoint.is_client:
            return
        pending = self._pending.setdefault(endpoint, {})
        for offset in self._frames(endpoint, data, is_sent=True):
            api_key, _, correlation_id = _REQUEST.unpack_from(data, offset)
            pending[correlation_id] = api_key
            self._reach_milestone(f"{endpoint.host} {_SENDS} {_API_NAMES[api_key]}")

    def on_received(self, endpoint: Endpoint, data: bytes) -> bool:
        """Report each response in bytes that arrive at a client as a milestone.

        Returns True if a request or response in them is to be lost: the connection is then reset, and the bytes do not
        arrive.
        """
        client = endpoint if endpoint.is_client else endpoint.peer
        pending = self._pending.get(client, {})
        for offset in self._frames(endpoint, data, is_sent=False):
            if endpoint.is_client:
                api_key = pending.pop(_CORRELATION_ID.unpack_from(data, offset)[0], None)
            else:
                api_key = _REQUEST.unpack_from(data, offset)[0]
            if self._to_lose and (packet := (client.host, api_key, endpoint.is_client)) in self._to_lose:
                self._to_lose.remove(packet)
                endpoint.reset(f"the plan loses this {'response' if endpoint.is_client else 'request'}")
                return True
            if endpoint.is_client and api_key is not None:
                self._reach_milestone(f"{client.host} {_RECEIVES} {_API_NAMES[api_key]} response")
        return False

    def _frames(self, endpoint: Endpoint, data: bytes, *, is_sent: bool) -> Sequence[int]:
        """The offset of the content of each frame that begins in these bytes; mostly they hold one."""
        offset, offsets = self._rest.pop((endpoint, is_sent), 0), []
        while offset + _LENGTH.size <= len(data):
            offsets.append(offset + _LENGTH.size)
            offset += _LENGTH.size + _LENGTH.unpack_from(data, offset)[0]
        if offset > len(data):
            self._rest[endpoint, is_sent] = offset - len(data)
        return offsets


def needs_interceptor(plan: SimulationPlan) -> bool:
    """Whether a plan refers to single requests or responses; without an interceptor a run is faster."""
    return any(
        isinstance(planned.step, RequestLost | ResponseLost)
        or any(f" {word} " in planned.trigger.milestone for word in (_SENDS, _RECEIVES))
        for planned in plan.steps
    )
