"""The clocks of a member: its next heartbeat, its session, and the time since the last poll."""

from collections.abc import Callable

from regroup.members.consumer import requests
from regroup.members.consumer.effects import ConsumerError
from regroup.members.consumer.error_actions import Forgets, Then, reaction_to
from regroup.members.consumer.in_flight import NoAnswer, Wire
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Phase, Standing
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import HeartbeatResponse


class Heartbeats:
    """What Java's heartbeat thread does: it goes on between polls, and hears first that the group rebalances."""

    def __init__(
        self, settings: ConsumerSettings, wire: Wire, standing: Standing, leave: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._wire = wire
        self._standing = standing
        self._leave = leave
        self.failure: ConsumerError | None = None
        self._in_flight = False
        self._beat_at_ms = 0
        self._session_ends_ms = 0
        self._poll_by_ms = 0

    def restart(self) -> None:
        """A generation begins: all three clocks start anew."""
        now_ms = self._wire.now_ms
        self._beat_at_ms = now_ms + self._settings.heartbeat_interval_ms
        self._session_ends_ms = now_ms + self._settings.session_timeout_ms
        self.polled()

    def polled(self) -> None:
        """The application is inside poll()."""
        self._poll_by_ms = self._wire.now_ms + self._settings.max_poll_interval_ms

    def proceed(self, polling: bool) -> None:
        """Do what is due."""
        if not self._standing.beats:
            return
        if polling:
            self.polled()
        now_ms = self._wire.now_ms
        if now_ms >= self._session_ends_ms:
            self._session_ends_ms = now_ms + self._settings.session_timeout_ms
            self._wire.forget_coordinator("the session timed out without an answer to a heartbeat")
        if now_ms >= self._poll_by_ms:
            self._leave("consumer poll timeout has expired.")
        elif self._wire.coordinator is None:
            self._wire.find_coordinator()
        elif now_ms >= self._beat_at_ms and not self._in_flight:
            self._send()

    def _send(self) -> None:
        self._in_flight = True
        self._beat_at_ms = self._wire.now_ms + self._settings.heartbeat_interval_ms
        sent = self._standing.generation
        request = requests.heartbeat(self._settings, sent)

        def answered(answer: Message | NoAnswer) -> None:
            self._in_flight = False
            self._answered(answer, unchanged=sent == self._standing.generation)

        self._wire.ask_coordinator(request, answered)

    def _answered(self, answer: Message | NoAnswer, unchanged: bool) -> None:
        code = answer.error_code if isinstance(answer, HeartbeatResponse) else ErrorCode.NETWORK_EXCEPTION
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._session_ends_ms = self._wire.now_ms + self._settings.session_timeout_ms
        if code == ErrorCode.NONE:
            return
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self._standing.phase is Phase.STABLE:
                self._standing.request_rejoin("group is already rebalancing")
            return
        self._react(code, unchanged)

    def _react(self, code: int, unchanged: bool) -> None:
        reaction = reaction_to(HeartbeatResponse, code)
        self._beat_at_ms = self._wire.now_ms + self._settings.retry_backoff_ms
        if reaction.finds_coordinator:
            self._wire.forget_coordinator(ErrorCode.named(code))
        if reaction.forgets is Forgets.NOTHING or not unchanged:
            return
        self._standing.reset(reaction.forgets, f"encountered {ErrorCode.named(code)} from HEARTBEAT response")
        if reaction.then is Then.RAISE:
            text = f"a heartbeat was refused; group.instance.id is {self._settings.group_instance_id}"
            self.failure = ConsumerError(reaction.kind, text, code, reaction.fatal)

    def deadline_ms(self, polling: bool) -> int | None:
        """The next moment at which `proceed` has something to do."""
        if not self._standing.beats:
            return None
        clocks = [self._session_ends_ms]
        if not polling:
            clocks.append(self._poll_by_ms)
        if self._wire.coordinator is None:
            clocks += [] if self._wire.find_at_ms is None else [self._wire.find_at_ms]
        elif not self._in_flight:
            clocks.append(self._beat_at_ms)
        return min(clocks)
