"""The timeouts of a member: its next heartbeat, its session, and the time since the last poll."""

from collections.abc import Callable

from regroup.members.consumer import requests
from regroup.members.consumer.effects import ConsumerError
from regroup.members.consumer.error_actions import MembershipReset, Recovery, action_for
from regroup.members.consumer.in_flight import InFlightRequests
from regroup.members.consumer.inputs import RequestFailed
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Membership, MemberState
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import HeartbeatResponse


class Heartbeats:
    """Keeps a member's timeouts and sends its heartbeats, as Java's heartbeat thread does, also between polls.

    `leave` sends LeaveGroup, with a reason, when the application has not polled for `max_poll_interval_ms`.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        in_flight: InFlightRequests,
        membership: Membership,
        leave: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._in_flight = in_flight
        self._membership = membership
        self._leave = leave
        self.pending_error: ConsumerError | None = None
        """An error that the next poll() throws; None if there is none."""
        self._is_sent = False
        self._heartbeat_at_ms: int
        self._answered_at_ms: int
        self._poll_expires_ms: int
        # A member sends no heartbeats before its first generation, which starts the three timeouts.

    def reset_timeouts(self) -> None:
        """Start all three timeouts again, at the beginning of a generation."""
        now_ms = self._in_flight.now_ms
        self._heartbeat_at_ms = now_ms + self._settings.heartbeat_interval_ms
        self._answered_at_ms = now_ms
        self.record_poll()

    def record_poll(self) -> None:
        """Start the poll timeout again, because the application is inside poll()."""
        self._poll_expires_ms = self._in_flight.now_ms + self._settings.max_poll_interval_ms

    @property
    def _session_expires_ms(self) -> int:
        """The session begins with each answer to a heartbeat, and with each coordinator that is found, which has to
        have the time to answer one."""
        begun_ms = max(self._answered_at_ms, self._in_flight.coordinator_found_at_ms)
        return begun_ms + self._settings.session_timeout_ms

    def check_timers(self, is_polling: bool) -> None:
        """Do what is due by the timeouts: send a heartbeat, leave the group after a poll timeout, or look up the
        coordinator. `is_polling` says that the application is inside poll(), which starts the poll timeout again."""
        if not self._membership.sends_heartbeats:
            return
        if is_polling:
            self.record_poll()
        now_ms, in_flight = self._in_flight.now_ms, self._in_flight
        if in_flight.coordinator is not None and now_ms >= self._session_expires_ms:
            in_flight.mark_coordinator_unknown("the session timed out without an answer to a heartbeat")
        if in_flight.coordinator is None:
            in_flight.find_coordinator()  # before the poll timeout, since LeaveGroup too needs a coordinator
        elif now_ms >= self._poll_expires_ms:
            self._leave("consumer poll timeout has expired.")
        elif now_ms >= self._heartbeat_at_ms and not self._is_sent:
            self._send()

    def _send(self) -> None:
        self._is_sent = True
        self._heartbeat_at_ms = self._in_flight.now_ms + self._settings.heartbeat_interval_ms
        generation = self._membership.generation

        def handle(response: Message | RequestFailed) -> None:
            self._is_sent = False
            self._on_response(response, is_same_generation=generation == self._membership.generation)

        self._in_flight.send_to_coordinator(requests.heartbeat(self._settings, generation), handle)

    def _on_response(self, response: Message | RequestFailed, is_same_generation: bool) -> None:
        code = response.error_code if isinstance(response, HeartbeatResponse) else ErrorCode.NETWORK_EXCEPTION
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._answered_at_ms = self._in_flight.now_ms
            if code == ErrorCode.REBALANCE_IN_PROGRESS and self._membership.state is MemberState.STABLE:
                self._membership.request_rejoin("group is already rebalancing")
            return
        action = action_for(HeartbeatResponse, code)
        self._heartbeat_at_ms = self._in_flight.now_ms + self._settings.retry_backoff_ms
        if action.rediscovers_coordinator:
            self._in_flight.mark_coordinator_unknown(ErrorCode.name_of(code))
        if action.reset is MembershipReset.NONE or not is_same_generation:
            return
        self._membership.reset(action.reset, f"encountered {ErrorCode.name_of(code)} from HEARTBEAT response")
        if action.recovery is Recovery.RAISE:
            text = f"a heartbeat was refused; group.instance.id is {self._settings.group_instance_id}"
            self.pending_error = ConsumerError(action.kind, text, code, action.is_fatal)

    def deadline_ms(self, is_polling: bool) -> int | None:
        """The next time at which `check_timers` has something to do, in milliseconds; None if there is none."""
        if not self._membership.sends_heartbeats:
            return None
        if self._in_flight.coordinator is None:
            return self._in_flight.find_coordinator_at_ms
        deadlines = [self._session_expires_ms]
        if not is_polling:
            deadlines.append(self._poll_expires_ms)
        if not self._is_sent:
            deadlines.append(self._heartbeat_at_ms)
        return min(deadlines)
