"""A consumer's offsets: its positions in its partitions, its pending commits, and the fetch of committed offsets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from regroup.members.consumer import requests
from regroup.members.consumer.effects import (
    CommitCompleted,
    CommittedOffsetsFetched,
    ConsumerChange,
    ConsumerError,
    ConsumerErrorKind,
)
from regroup.members.consumer.error_actions import ErrorAction, MembershipReset, Recovery, action_for
from regroup.members.consumer.in_flight import InFlightRequests
from regroup.members.consumer.inputs import RequestFailed
from regroup.members.consumer.metadata import ConsumerMetadata
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberGeneration, Membership, MemberState
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
)


@dataclass(eq=False, slots=True)
class PendingCommit:
    """A commit that is not complete.

    If `retry_until_ms` is not None, the commit is retried until that time after an error that may be temporary.
    """

    offsets: Mapping[TopicPartition, int]
    is_auto_commit: bool
    retry_until_ms: int | None
    give_up_at_ms: int
    retry_at_ms: int
    attempts: int = 0
    is_in_flight: bool = False
    is_complete: bool = False

    @property
    def is_asynchronous(self) -> bool:
        """Whether no call waits for the commit: if it is fenced, poll() throws the error, as in the Java client."""
        return self.is_auto_commit or self.retry_until_ms is None


@dataclass(slots=True)
class ConsumerOffsets:
    """The offsets of one consumer. Completed commits and fetched offsets are appended to `changes`."""

    settings: ConsumerSettings
    in_flight: InFlightRequests
    membership: Membership
    metadata: ConsumerMetadata
    changes: list[ConsumerChange]
    owned_partitions: tuple[TopicPartition, ...] = ()
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    """The offset of the next record of each owned partition, where it is known."""
    pending_error: ConsumerError | None = None
    """An error that the next poll() throws; None if there is none."""
    _unknown_positions: dict[TopicPartition, None] = field(default_factory=dict)
    _commits: list[PendingCommit] = field(default_factory=list)
    _auto_commit_at_ms: int = 0
    _is_fetching: bool = False
    _fetch_at_ms: int = 0
    _fetch_attempts: int = 0

    def set_owned_partitions(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Set the partitions that the consumer owns. The committed offsets of new ones are fetched."""
        kept = frozenset(self.owned_partitions).intersection(partitions)
        self.owned_partitions = partitions
        self.positions = {each: offset for each, offset in self.positions.items() if each in kept}
        self._unknown_positions = {
            each: None for each in partitions if each not in kept or each in self._unknown_positions
        }
        self._auto_commit_at_ms = self.in_flight.now_ms + self.settings.auto_commit_interval_ms

    def update_positions(self, positions: Mapping[TopicPartition, int]) -> None:
        """Advance the positions of owned partitions. Positions of other partitions are ignored."""
        owned = frozenset(self.owned_partitions)
        self.positions.update((each, offset) for each, offset in positions.items() if each in owned)

    # -- commits

    def commit(
        self, offsets: Mapping[TopicPartition, int], *, is_auto_commit: bool = False, retry_for_ms: int | None = None
    ) -> PendingCommit:
        """Start a commit of these offsets. If `retry_for_ms` is given, the commit is retried for that time after an
        error that may be temporary."""
        now_ms = self.in_flight.now_ms
        retry_until_ms = None if retry_for_ms is None else now_ms + retry_for_ms
        give_up_at_ms = now_ms + self.settings.request_timeout_ms if retry_until_ms is None else retry_until_ms
        commit = PendingCommit(dict(offsets), is_auto_commit, retry_until_ms, give_up_at_ms, now_ms)
        self._commits.append(commit)
        self._try(commit)
        return commit

    def auto_commit_positions(self, retry_for_ms: int) -> PendingCommit | None:
        """Start an auto commit of all positions, before partitions are given up.

        Returns None if there are no positions, or `enable_auto_commit` is off.
        """
        if not self.settings.enable_auto_commit or not self.positions:
            return None
        return self.commit(self.positions, is_auto_commit=True, retry_for_ms=retry_for_ms)

    def _try(self, commit: PendingCommit) -> None:
        error = self._membership_error() if commit.offsets else None
        if not commit.offsets or error is not None:
            self._complete(commit, error)
        elif self.in_flight.coordinator is None:
            self.in_flight.find_coordinator()
        else:
            self._send(commit)

    def _membership_error(self) -> ConsumerError | None:
        """The error of a commit that cannot be sent; None if it can be.

        A member commits in the state STABLE only; a consumer without a subscription commits without a group membership.
        """
        if self.membership.state is MemberState.STABLE or not self.metadata.is_subscribed:
            return None
        if self.membership.is_rebalancing:
            text = "a rebalance is under way; poll, then commit again"
            return ConsumerError(ConsumerErrorKind.REBALANCE_IN_PROGRESS, text)
        text = "the member is not in the group; it was probably removed"
        return ConsumerError(ConsumerErrorKind.COMMIT_FAILED, text)

    def _send(self, commit: PendingCommit) -> None:
        commit.is_in_flight = True
        generation = self.membership.generation if self.metadata.is_subscribed else MemberGeneration()

        def handle(response: Message | RequestFailed) -> None:
            commit.is_in_flight = False
            self._on_commit_response(commit, response, is_same_generation=generation == self.membership.generation)

        self.in_flight.send_to_coordinator(requests.offset_commit(self.settings, generation, commit.offsets), handle)

    def _on_commit_response(
        self, commit: PendingCommit, response: Message | RequestFailed, is_same_generation: bool
    ) -> None:
        if isinstance(response, RequestFailed):
            self._retry_later(commit, ConsumerError(ConsumerErrorKind.RETRIABLE_COMMIT_FAILED, response.reason))
            return
        assert isinstance(response, OffsetCommitResponse)
        codes = (each.error_code for topic in response.topics for each in topic.partitions)
        code = _first_error(codes, least=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if code == ErrorCode.NONE:
            self._complete(commit, None)
            return
        action = action_for(OffsetCommitResponse, code)
        if action.rediscovers_coordinator:
            self.in_flight.mark_coordinator_unknown(ErrorCode.name_of(code))
        if action.recovery is Recovery.RETRY_AFTER_BACKOFF:
            self._retry_later(commit, ConsumerError(action.kind, "the offsets were not committed", code))
        else:
            error = self._commit_error(action, code, is_same_generation)
            self._complete(commit, error)
            if error.kind is ConsumerErrorKind.FENCED and commit.is_asynchronous:
                self.pending_error = error

    def _commit_error(self, action: ErrorAction, code: int, is_same_generation: bool) -> ConsumerError:
        """The error of a commit that was refused, after its consequences for the membership.

        As in the Java client, the refusal of a commit of an older generation resets the present one too, except while
        JoinGroup is in flight, or if the member was fenced.
        """
        is_joining = not is_same_generation and self.membership.state is MemberState.PREPARING_REBALANCE
        is_fenced = action.kind is ConsumerErrorKind.FENCED
        if is_joining and (is_fenced or action.reset is not MembershipReset.NONE):
            return ConsumerError(ConsumerErrorKind.REBALANCE_IN_PROGRESS, "a newer generation is being formed", code)
        if is_fenced and not is_same_generation:
            return ConsumerError(ConsumerErrorKind.COMMIT_FAILED, "the commit was made in an older generation", code)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.membership.request_rejoin("offset commit failed since group is already rebalancing")
        self.membership.reset(action.reset, f"encountered {ErrorCode.name_of(code)} from OFFSET_COMMIT response")
        return ConsumerError(action.kind, "the offsets were not committed", code, action.is_fatal)

    def _retry_later(self, commit: PendingCommit, error: ConsumerError) -> None:
        """Retry a commit after a backoff. A commit that is not retried, or whose time is over, fails."""
        commit.retry_at_ms = self.in_flight.now_ms + self.settings.backoff_ms(commit.attempts)
        commit.attempts += 1
        if commit.retry_until_ms is None or commit.retry_at_ms >= commit.retry_until_ms:
            self._complete(commit, error)
            if commit.is_auto_commit:
                self._auto_commit_at_ms = min(self._auto_commit_at_ms, commit.retry_at_ms)

    def _complete(self, commit: PendingCommit, error: ConsumerError | None) -> None:
        if not commit.is_complete:
            commit.is_complete = True
            self._commits.remove(commit)
            self.changes.append(CommitCompleted(commit.offsets, error, commit.is_auto_commit))

    def retry_commits(self) -> None:
        """Send the commits whose backoff has ended, inside poll() or outside; fail those whose time is over."""
        for commit in list(self._commits):
            if commit.is_in_flight or commit.is_complete:
                continue
            if self.in_flight.now_ms >= commit.give_up_at_ms:
                text = "no coordinator took it in time"
                self._complete(commit, ConsumerError(ConsumerErrorKind.RETRIABLE_COMMIT_FAILED, text))
            elif self.in_flight.now_ms >= commit.retry_at_ms:
                self._try(commit)

    def end_retries(self) -> None:
        """Fail the automatic commits that wait for a retry, and let those in flight fail without one.

        The application has unsubscribed: it has given up the partitions for which they were made.
        """
        for commit in list(self._commits):
            if commit.is_auto_commit and commit.retry_until_ms is not None:
                commit.retry_until_ms = None
                if not commit.is_in_flight:
                    text = "the consumer unsubscribed before the commit was retried"
                    self._complete(commit, ConsumerError(ConsumerErrorKind.RETRIABLE_COMMIT_FAILED, text))

    # -- inside poll()

    def fetch_and_auto_commit(self) -> None:
        """Fetch committed offsets for new partitions, and make the auto commit that is due."""
        if self.membership.state is not MemberState.STABLE:
            return
        if self._wants_fetch and self.in_flight.now_ms >= self._fetch_at_ms:
            self._fetch()
        if self._auto_commits and self.in_flight.now_ms >= self._auto_commit_at_ms:
            self._auto_commit_at_ms = self.in_flight.now_ms + self.settings.auto_commit_interval_ms
            self.commit(self.positions, is_auto_commit=True)

    @property
    def _wants_fetch(self) -> bool:
        return bool(self._unknown_positions) and not self._is_fetching and self.in_flight.coordinator is not None

    @property
    def _auto_commits(self) -> bool:
        return self.settings.enable_auto_commit and bool(self.positions) and self.in_flight.coordinator is not None

    def _fetch(self) -> None:
        self._is_fetching = True
        partitions, generation = tuple(self._unknown_positions), self.membership.generation

        def handle(response: Message | RequestFailed) -> None:
            self._is_fetching = False
            # A partition that was lost and assigned again meanwhile may have a newer committed offset.
            if generation == self.membership.generation:
                self._on_fetch_response(partitions, response)

        self.in_flight.send_to_coordinator(requests.offset_fetch(self.settings, partitions), handle)

    def _on_fetch_response(self, partitions: tuple[TopicPartition, ...], response: Message | RequestFailed) -> None:
        if not isinstance(response, OffsetFetchResponse) or not response.groups:
            self._fetch_later()
            return
        group = response.groups[0]
        rows = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in group.topics
            for each in topic.partitions
        }
        if group.error_code:
            self._fetch_failed(action_for(OffsetFetchResponse, group.error_code), group.error_code)
            return
        codes = (each.error_code for each in rows.values())
        if code := _first_error(codes, least=ErrorCode.UNSTABLE_OFFSET_COMMIT):
            self._fetch_failed(action_for(OffsetFetchResponsePartitions, code), code)
            return
        offsets: dict[TopicPartition, int | None] = {
            each: (rows[each].committed_offset if each in rows and rows[each].committed_offset >= 0 else None)
            for each in partitions
            if each in self._unknown_positions
        }
        self._fetch_attempts = 0
        self._unknown_positions = {each: None for each in self._unknown_positions if each not in offsets}
        for each, offset in offsets.items():
            if offset is not None:
                self.positions.setdefault(each, offset)
        self.changes.append(CommittedOffsetsFetched(offsets))

    def _fetch_failed(self, action: ErrorAction, code: int) -> None:
        if action.rediscovers_coordinator:
            self.in_flight.mark_coordinator_unknown(ErrorCode.name_of(code))
        if action.recovery is Recovery.RAISE:
            text = "the committed offsets could not be fetched"
            self.pending_error = ConsumerError(action.kind, text, code, action.is_fatal)
        self._fetch_later()

    def _fetch_later(self) -> None:
        self._fetch_at_ms = self.in_flight.now_ms + self.settings.backoff_ms(self._fetch_attempts)
        self._fetch_attempts += 1

    def deadline_ms(self, is_polling: bool) -> int | None:
        """The next time at which a commit or a fetch of offsets is due, in milliseconds; None if there is none."""
        deadlines: list[int] = []
        find_at_ms = self.in_flight.find_coordinator_at_ms
        for commit in self._commits:
            if not commit.is_in_flight:
                deadlines.append(commit.give_up_at_ms)
                if self.in_flight.coordinator is not None:
                    deadlines.append(commit.retry_at_ms)
                elif find_at_ms is not None:
                    deadlines.append(max(find_at_ms, commit.retry_at_ms))
        if is_polling and self.membership.state is MemberState.STABLE:
            deadlines += [self._fetch_at_ms] if self._wants_fetch else []
            deadlines += [self._auto_commit_at_ms] if self._auto_commits else []
        return min(deadlines, default=None)


def _first_error(codes: Iterable[int], least: ErrorCode) -> int:
    """The first error code in `codes` other than `least`; `least` only if there is no other error, 0 if there is
    none."""
    errors = [code for code in codes if code != ErrorCode.NONE]
    return next((code for code in errors if code != least), errors[0] if errors else ErrorCode.NONE)
