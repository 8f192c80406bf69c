"""The consumer's side of the wire: who coordinates, what is in flight, and what is to be sent with this step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from regroup.members.consumer.effects import Address, ConsumerError, Lane, Outgoing
from regroup.members.consumer.error_actions import Then, reaction_to
from regroup.members.consumer.settings import ConsumerSettings
from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """What a request's owner gets in place of a response."""

    reason: str
    unsupported: bool = False


Handler: TypeAlias = Callable[[Message | NoAnswer], None]


@dataclass(frozen=True, slots=True)
class _InFlight:
    outgoing: Outgoing
    deadline_ms: int
    handler: Handler


class Wire:
    """Sends for the other parts, and gives each the answer to its own question.

    A request without an answer by its deadline takes the connection down, as in the Java client: everything in flight
    to the coordinator is lost and the coordinator is looked up again.
    """

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self.now_ms = 0
        self.coordinator: Address | None = None
        self.outbox: list[Outgoing] = []
        self.hang_up = False
        self.failure: ConsumerError | None = None
        """A look-up that failed for good; poll() throws it."""
        self._in_flight: dict[int, _InFlight] = {}
        self._sent = 0
        self._finding = False
        self._find_from_ms = 0
        self._attempts = 0

    def ask_coordinator(self, message: Message, handler: Handler, timeout_ms: int | None = None) -> None:
        """To the coordinator, which must be known."""
        assert self.coordinator is not None
        self._ask(Lane.COORDINATOR, self.coordinator, message, handler, timeout_ms)

    def ask_anyone(self, message: Message, handler: Handler) -> None:
        """To any broker."""
        self._ask(Lane.ANY_BROKER, None, message, handler, None)

    def _ask(
        self, lane: Lane, address: Address | None, message: Message, handler: Handler, timeout_ms: int | None
    ) -> None:
        self._sent += 1
        timeout_ms = timeout_ms or self._settings.request_timeout_ms
        outgoing = Outgoing(self._sent, lane, address, message, timeout_ms)
        self.outbox.append(outgoing)
        self._in_flight[self._sent] = _InFlight(outgoing, self.now_ms + timeout_ms, handler)

    def take(self, number: int, answer: Message | NoAnswer) -> None:
        """Hand an answer over. One that nobody waits for, or of another API, is as good as none."""
        waiting = self._in_flight.pop(number, None)
        if waiting is None:
            return
        expected = APIS[waiting.outgoing.message.api_key].response
        if isinstance(answer, Message) and not isinstance(answer, expected):
            answer = NoAnswer(f"{type(answer).__name__} came in place of {expected.__name__}")
        on_coordinator_lane = waiting.outgoing.lane is Lane.COORDINATOR
        if isinstance(answer, NoAnswer) and not answer.unsupported and on_coordinator_lane:
            self.forget_coordinator(answer.reason)
        waiting.handler(answer)

    def expire(self) -> None:
        """Give up what has been in flight for too long."""
        late = [number for number, waiting in self._in_flight.items() if waiting.deadline_ms <= self.now_ms]
        for number in late:
            self.take(number, NoAnswer("no answer in time"))

    def forget_coordinator(self, reason: str) -> None:
        """It is somebody else, or out of reach. What is in flight to it will not be listened to."""
        if self.coordinator is None:
            return
        self.coordinator = None
        self.hang_up = True
        lost = [number for number, each in self._in_flight.items() if each.outgoing.lane is Lane.COORDINATOR]
        for number in lost:
            self.take(number, NoAnswer(reason))
        gone = frozenset(lost)
        self.outbox = [outgoing for outgoing in self.outbox if outgoing.number not in gone]

    def find_coordinator(self) -> None:
        """Look it up, unless it is known, being looked up, or the last try was too short a while ago."""
        if self.coordinator is None and not self._finding and self.now_ms >= self._find_from_ms:
            self._finding = True
            group_id = self._settings.group_id
            self.ask_anyone(FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id]), self._found)

    def _found(self, answer: Message | NoAnswer) -> None:
        self._finding = False
        if isinstance(answer, FindCoordinatorResponse) and len(answer.coordinators) == 1:
            found = answer.coordinators[0]
            if found.error_code == ErrorCode.NONE:
                self.coordinator = Address(found.node_id, found.host, found.port)
                self._attempts = 0
                return
            reaction = reaction_to(FindCoordinatorResponse, found.error_code)
            if reaction.then is Then.RAISE:
                text = f"no coordinator was found for group {self._settings.group_id}: {found.error_message or ''}"
                self.failure = ConsumerError(reaction.kind, text.strip(" :"), found.error_code, reaction.fatal)
        self._find_from_ms = self.now_ms + self._settings.backoff_ms(self._attempts)
        self._attempts += 1

    @property
    def find_at_ms(self) -> int | None:
        """When the coordinator may be looked up again; None if that is not the question."""
        return None if self.coordinator is not None or self._finding else self._find_from_ms

    @property
    def waits_for_coordinator(self) -> bool:
        """Whether a request to the coordinator is in flight."""
        return any(waiting.outgoing.lane is Lane.COORDINATOR for waiting in self._in_flight.values())

    @property
    def deadline_ms(self) -> int | None:
        """When the first request in flight will have waited for too long."""
        return min((waiting.deadline_ms for waiting in self._in_flight.values()), default=None)
