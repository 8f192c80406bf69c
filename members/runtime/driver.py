"""Runs a member's consumer on a transport: sends its requests, reports its changes, polls, and processes records."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from regroup.members.consumer import requests
from regroup.members.consumer.effects import (
    CommitCompleted,
    CommittedOffsetsFetched,
    ConsumerChange,
    ConsumerClosed,
    ConsumerEffects,
    ConsumerError,
    OutgoingRequest,
    PartitionsLost,
    PartitionsRevoked,
    RequestTarget,
)
from regroup.members.consumer.inputs import (
    ConsumerInput,
    Poll,
    PollReturned,
    RecordsConsumed,
    RequestFailed,
    ResponseReceived,
    Subscribe,
    TimePassed,
)
from regroup.members.consumer.machine import ConsumerMachine, resolve_assignors
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberState
from regroup.members.faults import MemberFaultKind, milestones_in
from regroup.members.runtime.application import FetchedRecord, PollStay, SimulatedApplication
from regroup.members.runtime.fault_injection import FaultInjector
from regroup.members.runtime.fetcher import Fetcher
from regroup.members.runtime.notes import MemberNote, refusal_in
from regroup.members.runtime.timers import MemberTimers
from regroup.members.transports.base import MemberTransport
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.offsets import OffsetCommitResponse

POLL_RETRY_MS: Final = 1_000
"""Milliseconds before the next poll() after an error of poll(), which an application would log."""
ZOMBIE_COMMIT_INTERVAL_MS: Final = 1_000


class ConsumerDriver:
    """Runs one consumer at a time with its fetcher; `restart` replaces both.

    `observe` gets every change, and every error that comes out of poll(); `on_note` every refused request. `on_end` is
    called with `left` or `failed` when the consumer has closed or got a fatal error.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        transport: MemberTransport,
        timers: MemberTimers,
        injector: FaultInjector,
        application: SimulatedApplication,
        *,
        observe: Callable[[ConsumerChange | ConsumerError], None],
        on_note: Callable[[MemberNote], None] = lambda note: None,
        on_end: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._timers = timers
        self._injector = injector
        self._application = application
        application.on_positions = self._update_positions
        application.on_fetched = lambda: timers.run_when_resumed(self._process_records)
        self._observe = observe
        self._note = on_note
        self._on_end = on_end
        self.last_error = ""
        self.error_codes_seen: dict[int, None] = {}
        self._zombie_positions: dict[TopicPartition, int] | None = None
        """The offsets that a zombie commits, by partition; None for a member that is not a zombie."""
        self.last_poll_stay: PollStay | None = None
        """When the application was last outside poll(); None if it has never left it."""
        self._is_busy, self._busy_count = False, 0
        self._is_processing = False
        """Whether the application processes a batch that poll() has returned."""
        self._after_batch: list[Callable[[], None]] = []
        """What the application does when it has processed the records that poll() has returned."""
        self.consumer, self._fetcher = self._new_consumer(settings)

    def _new_consumer(self, settings: ConsumerSettings) -> tuple[ConsumerMachine, Fetcher]:
        assignors = self._injector.wrap_assignors(resolve_assignors(settings, ()))
        return ConsumerMachine(settings, assignors), Fetcher(self._transport, settings, self._application)

    # -- what the member calls

    def start(self, subscription: Subscribe) -> None:
        """Subscribe, and call poll() for the first time."""
        self.feed(subscription)
        self.feed(Poll())

    def restart(self, settings: ConsumerSettings, subscription: Subscribe) -> None:
        """Replace the consumer by a new one, as a new process does: nothing but the settings is kept."""
        self._zombie_positions, self.last_poll_stay = None, None
        self._is_busy, self._is_processing = False, False
        self._busy_count += 1
        self._after_batch.clear()
        self._application.clear()
        self._transport.disconnect_coordinator()
        self._fetcher.close()
        self.consumer, self._fetcher = self._new_consumer(settings)
        self.start(subscription)

    def stop(self) -> None:
        """Stop fetching records; responses to fetches in flight are ignored."""
        self._fetcher.close()

    @property
    def outside_poll_ms(self) -> int:
        """For how long the application has not been inside poll(), in milliseconds; 0 while it is inside."""
        stay = self.last_poll_stay
        return self._timers.now_ms() - stay.left_ms if stay is not None and stay.back_ms is None else 0

    def stay_outside_poll(self, duration_ms: int) -> None:
        """Keep the application outside poll() for a time, as if it did something else.

        The consumer's heartbeats go on, as those of Java's heartbeat thread, until `max_poll_interval_ms` is over.
        """
        if self.is_zombie:
            return
        self._is_busy = True
        self._busy_count += 1
        count = self._busy_count

        def come_back() -> None:
            if count == self._busy_count:
                self._is_busy = False
                self._poll()

        if self.consumer.is_polling:
            self._receive(PollReturned())
        self._timers.call_after(duration_ms, come_back)

    def run_between_batches(self, action: Callable[[], None]) -> None:
        """Let the application do something else than process records: now, or when it has processed its batch.

        An application calls its consumer from the thread in which it processes records.
        """
        if self._is_processing:
            self._after_batch.append(action)
        else:
            action()

    @property
    def is_zombie(self) -> bool:
        """Whether the member acts for a generation that may be over, and takes no part in the group any more."""
        return self._zombie_positions is not None

    def become_zombie(self) -> None:
        """Make the member a zombie: from now on it ignores every input."""
        self._zombie_positions = dict(self.consumer.positions)

    def resume_as_zombie(self) -> None:
        """Let a zombie go on reading, processing and committing, with its former positions and generation."""
        self._process_records()
        self._fetcher.send_fetches()
        if self._zombie_positions is not None:
            self._commit_as_zombie(self.consumer, self._zombie_positions)

    def feed(self, consumer_input: ConsumerInput) -> None:
        """Hand an input to the consumer, and carry out what follows from it.

        With the fault slow-join the application is outside poll() when the member is asked to rejoin; otherwise it
        waits inside.
        """
        if self.is_zombie:
            return
        slow_ms = self._injector.delay_ms(MemberFaultKind.SLOW_JOIN)
        consumer = self.consumer
        if slow_ms is None or not consumer.is_polling or consumer.state is not MemberState.STABLE:
            self._receive(consumer_input)
            return
        self._receive(PollReturned())
        self._receive(consumer_input)
        if consumer.rejoin_needed_or_pending:
            self._timers.call_after(slow_ms, self._poll)
        else:
            self._poll()

    # -- the consumer and its effects

    def _poll(self) -> None:
        if not (self.consumer.is_polling or self.is_zombie or self._is_busy or self._is_processing):
            self._receive(Poll())
            self._process_records()

    def _receive(self, consumer_input: ConsumerInput) -> None:
        if isinstance(consumer_input, Poll):
            self._note_poll(is_inside=True)
        elif isinstance(consumer_input, PollReturned):
            self._note_poll(is_inside=False)
        self._apply(self.consumer.receive(consumer_input, self._timers.now_ms()))

    def _note_poll(self, *, is_inside: bool) -> None:
        stay, now_ms = self.last_poll_stay, self._timers.now_ms()
        if not is_inside:
            self.last_poll_stay = PollStay(now_ms)
        elif stay is not None:
            self.last_poll_stay = stay._replace(back_ms=now_ms)

    def _apply(self, effects: ConsumerEffects) -> None:
        # The deadline comes first: what follows may lead to further effects, whose deadlines are newer.
        consumer = self.consumer
        self._timers.set_deadline(effects.deadline_ms, lambda: self.feed(TimePassed()))
        if effects.disconnects_coordinator:
            self._transport.disconnect_coordinator()
        for change in effects.changes:
            self._apply_change(change)
        for request in effects.requests:
            # The report of a change may have broken the connection, by which the consumer gives its requests up.
            if consumer.awaits(request.request_id):
                self._timers.run_when_resumed(partial(self._injector.send, request, self._transmit))
        if effects.poll_error is not None:
            self._on_poll_error(effects.poll_error)

    def _apply_change(self, change: ConsumerChange) -> None:
        self._observe(change)
        match change:
            case CommittedOffsetsFetched(offsets) if self._application.reads_records:
                self._fetcher.add_partitions(offsets)
            case PartitionsRevoked(partitions) | PartitionsLost(partitions):
                self._fetcher.remove_partitions(partitions)
                self._application.drop(partitions)
            case CommitCompleted(offsets, None, _):
                self._application.record_committed(offsets)
            case CommitCompleted(_, ConsumerError() as error, _):
                self.last_error = str(error)
                if error.code is not None:
                    self.error_codes_seen[error.code] = None
            case ConsumerClosed():
                self._on_end("left")
        for milestone in milestones_in(change):
            self._injector.reach_milestone(milestone)

    def _on_poll_error(self, error: ConsumerError) -> None:
        self.last_error = str(error)
        self._note_poll(is_inside=False)  # poll() has thrown the error
        self._observe(error)
        if error.is_fatal:
            self._on_end("failed")
        else:
            self._timers.call_after(POLL_RETRY_MS, self._poll)

    def _transmit(self, request: OutgoingRequest) -> None:
        consumer = self.consumer

        def handle(response: ResponseReceived | RequestFailed) -> None:
            if consumer is self.consumer:
                self._timers.run_when_resumed(lambda: self._on_response(response))

        self._transport.send(request, handle)

    def _on_response(self, response: ResponseReceived | RequestFailed) -> None:
        if isinstance(response, ResponseReceived) and (refused := refusal_in(response.response)):
            self._note(refused[0])
        if isinstance(response, RequestFailed):
            self.last_error = response.reason
        elif code := getattr(response.response, "error_code", 0):
            self.error_codes_seen[code] = None
            if code != ErrorCode.MEMBER_ID_REQUIRED:
                self.last_error = ErrorCode.name_of(code)
        self.feed(response)

    def _commit_as_zombie(self, consumer: ConsumerMachine, positions: Mapping[TopicPartition, int]) -> None:
        """Commit these positions with the consumer's generation now, and again every second, also after the member was
        restarted."""
        self._timers.call_after(ZOMBIE_COMMIT_INTERVAL_MS, partial(self._commit_as_zombie, consumer, positions))
        if consumer.coordinator is not None and positions:
            message = requests.offset_commit(consumer.settings, consumer.generation, positions)
            target, timeout_ms = RequestTarget.COORDINATOR, consumer.settings.request_timeout_ms
            request = OutgoingRequest(0, target, consumer.coordinator, message, timeout_ms)
            self._transport.send(request, self._on_zombie_response)

    def _on_zombie_response(self, response: ResponseReceived | RequestFailed) -> None:
        if isinstance(response, ResponseReceived) and isinstance(response.response, OffsetCommitResponse):
            refused = refusal_in(response.response)
            self.last_error = f"commit: {refused[0].error}" if refused else ""
            if refused:
                self.error_codes_seen[refused[1]] = None
                self._note(refused[0])

    # -- the application

    def _update_positions(self, positions: dict[TopicPartition, int]) -> None:
        if self._zombie_positions is not None:
            self._zombie_positions.update(positions)
        else:
            self._receive(RecordsConsumed(positions))

    def _process_records(self) -> None:
        """Let poll() reset positions and return a batch of records; complete the batch after its processing time."""
        application = self._application
        if self._is_processing or not application.reads_records:
            return
        if not (self.consumer.returns_records or self.is_zombie):
            return
        fetcher = self._fetcher
        fetcher.reset_positions()
        batch = application.take_poll_batch()
        fetcher.send_fetches()
        if not batch:
            return
        if not self.is_zombie:
            self._receive(PollReturned())
        self._is_processing = True
        self._timers.call_after(application.processing_ms(batch), lambda: self._complete_batch(batch, fetcher))

    def _complete_batch(self, batch: Sequence[FetchedRecord], fetcher: Fetcher) -> None:
        if fetcher is not self._fetcher or self.consumer.is_closing:
            return  # the process was restarted or is closing: the next owner of the partitions processes the batch
        self._application.complete_batch(batch, self._timers.now_ms())
        self._is_processing = False
        actions, self._after_batch = self._after_batch, []
        for action in actions:
            self.run_between_batches(action)
        self._poll()
        if self.is_zombie:
            self._process_records()
