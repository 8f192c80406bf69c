"""What each turn of a simulation costs, and for which exchanges: this says what quiet heartbeats take of a run.

A turn is one callback of the virtual loop. Exchanges are seen from outside, as the bytes that the ends of simulated
connections write and get, and are decoded when the run is over.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import FrameType
from typing import Any, Final, NamedTuple

from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.simulation.network.endpoint import Endpoint
from regroup.lab.simulation.run import play
from regroup.lab.simulation.virtual_clock import VirtualHandle, VirtualLoop
from regroup.protocol.apis import APIS
from regroup.protocol.codec.codec import codec
from regroup.protocol.frames import decode_request
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from regroup.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from regroup.protocol.messages.records import FetchRequest, FetchResponse

QUIET_HEARTBEAT: Final = "quiet heartbeat"
"""An exchange of Heartbeat or ConsumerGroupHeartbeat that was accepted, and has changed nothing."""
IDLE_FETCH: Final = "idle fetch"
"""An exchange of Fetch whose response has no records."""
OTHER: Final = "other"
REPEATED_REQUESTS: Final = (HeartbeatRequest, ConsumerGroupHeartbeatRequest, FetchRequest)


class SeenExchange:
    """A request on a simulated connection, and its response as soon as there is one, both as frames without length."""

    def __init__(self, client: str, request: bytes) -> None:
        self.client, self.request = client, request
        self.response: bytes | None = None

    @cached_property
    def kind(self) -> str:
        """What the exchange was good for: one of the three kinds above."""
        header, request = decode_request(self.request)
        if self.response is None or not isinstance(request, REPEATED_REQUESTS):
            return OTHER
        api = APIS[header.api_key]
        body = 5 if api.response_header_is_flexible(header.api_version) else 4
        response, _ = codec(api.response, header.api_version).decode(self.response, body)
        return kind_of(request, response)


def kind_of(request: Message, response: Message) -> str:
    match request, response:
        case _, HeartbeatResponse(error_code=0):
            return QUIET_HEARTBEAT
        case ConsumerGroupHeartbeatRequest() as asked, ConsumerGroupHeartbeatResponse(error_code=0) as answered:
            is_same = answered.member_epoch == asked.member_epoch > 0 and answered.assignment is None
            has_news = asked.topic_partitions is not None or asked.subscribed_topic_names is not None
            return QUIET_HEARTBEAT if is_same and not has_news else OTHER
        case _, FetchResponse(error_code=0) as answered:
            partitions = [each for topic in answered.responses for each in topic.partitions]
            return OTHER if any(each.records or each.error_code for each in partitions) else IDLE_FETCH
    return OTHER


class Turn(NamedTuple):
    """One callback of the virtual loop."""

    cost: int
    """Nanoseconds of CPU, or calls of Python functions."""
    exchanges: tuple[SeenExchange, ...]
    """The exchanges of which a message was sent or has arrived."""
    is_timer: bool
    """Whether it was due at a later time than that at which it was set."""

    @property
    def kind(self) -> str:
        """The kind of the exchanges, or OTHER if they differ; empty if there were none."""
        kinds = {each.kind for each in self.exchanges}
        return "" if not kinds else kinds.pop() if len(kinds) == 1 else OTHER


class TurnRecorder:
    """Records the turns of one run, by a counter of its cost."""

    def __init__(self, cost: Callable[[], int]) -> None:
        self.turns: list[Turn] = []
        self._cost = cost
        self._touched: list[SeenExchange] = []
        self._open: dict[tuple[Endpoint, bytes], SeenExchange] = {}
        """The exchanges that are not over for their client, by its end of the connection and the correlation id."""

    def run(self, is_timer: bool, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback as a turn."""
        self._touched = touched = []
        begin = self._cost()
        try:
            callback(*args)
        finally:
            self.turns.append(Turn(self._cost() - begin, tuple(touched), is_timer))

    def note(self, endpoint: Endpoint, data: bytes, *, is_sent: bool) -> None:
        """Note the messages in bytes that were written at an end of a connection, or have arrived there."""
        is_request = endpoint.is_client is is_sent
        client = endpoint if endpoint.is_client else endpoint.peer
        for frame in _frames(data):
            key = (client, frame[4:8] if is_request else frame[:4])
            if is_request and is_sent:
                self._open[key] = SeenExchange(client.host, frame)
            exchange = self._open.get(key) if is_request or is_sent else self._open.pop(key, None)
            if exchange is not None:
                self._touched.append(exchange)
                if is_sent and not is_request:
                    exchange.response = frame


def _frames(data: bytes) -> Iterator[bytes]:
    """Yield the frames in bytes that hold whole frames, as the programs in the lab write them."""
    position = 0
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        yield bytes(data[position + 4 : end])
        position = end


@contextmanager
def _recorded(recorder: TurnRecorder) -> Iterator[None]:
    """Let the recorder see every callback of virtual loops, and every message of simulated connections."""
    call_soon, call_at, write, receive = VirtualLoop.call_soon, VirtualLoop.call_at, Endpoint.write, Endpoint.receive

    def call_soon_seen(loop: VirtualLoop, callback: Any, *args: Any, context: Any = None) -> VirtualHandle:
        return call_soon(loop, recorder.run, False, callback, *args, context=context)

    def call_at_seen(loop: VirtualLoop, when: float, callback: Any, *args: Any, context: Any = None) -> VirtualHandle:
        return call_at(loop, when, recorder.run, when > loop.time(), callback, *args, context=context)

    def write_seen(endpoint: Endpoint, data: Any) -> None:
        recorder.note(endpoint, data, is_sent=True)
        write(endpoint, data)

    def receive_seen(endpoint: Endpoint, data: bytes, chunk: Any = None) -> None:
        recorder.note(endpoint, data, is_sent=False)
        receive(endpoint, data, chunk)

    VirtualLoop.call_soon, VirtualLoop.call_at = call_soon_seen, call_at_seen
    Endpoint.write, Endpoint.receive = write_seen, receive_seen
    try:
        yield
    finally:
        VirtualLoop.call_soon, VirtualLoop.call_at = call_soon, call_at
        Endpoint.write, Endpoint.receive = write, receive


def recorded_turns(plan: SimulationPlan, *, counts_calls: bool) -> tuple[list[Turn], int]:
    """Play a plan with the checker; returns its turns and what the whole run costs: calls of Python functions, or else
    nanoseconds of CPU. Calls of this module are not counted, but its CPU is."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename != __file__

    recorder = TurnRecorder((lambda: calls) if counts_calls else time.thread_time_ns)
    gc.collect()
    begin_ns = time.thread_time_ns()
    with _recorded(recorder):
        if counts_calls:
            sys.setprofile(count)
        try:
            play(plan)
        finally:
            sys.setprofile(None)
    return recorder.turns, calls if counts_calls else time.thread_time_ns() - begin_ns
