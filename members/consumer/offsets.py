"""Where a consumer stands in its partitions: positions, what was committed, and the commits that are under way."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from regroup.members.consumer import requests
from regroup.members.consumer.effects import Change, CommitEnded, ConsumerError, ErrorKind, PositionsFound
from regroup.members.consumer.error_actions import Forgets, Reaction, Then, reaction_to
from regroup.members.consumer.in_flight import NoAnswer, Wire
from regroup.members.consumer.metadata import Topics
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Phase, Standing
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
)


@dataclass(eq=False, slots=True)
class OpenCommit:
    """A commit until it has ended. With `retry_until_ms` it is tried again after errors that may pass."""

    offsets: Mapping[TopicPartition, int]
    automatic: bool
    retry_until_ms: int | None
    give_up_ms: int
    try_at_ms: int
    attempts: int = 0
    sent: bool = False
    ended: bool = False


@dataclass(slots=True)
class Offsets:
    """`changes` is the list of the step that is being made."""

    settings: ConsumerSettings
    wire: Wire
    standing: Standing
    topics: Topics
    changes: list[Change]
    held: tuple[TopicPartition, ...] = ()
    """The partitions that this consumer owns."""
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    failure: ConsumerError | None = None
    _unknown: dict[TopicPartition, None] = field(default_factory=dict)
    _open: list[OpenCommit] = field(default_factory=list)
    _auto_commit_at_ms: int = 0
    _fetching: bool = False
    _fetch_at_ms: int = 0
    _fetch_attempts: int = 0

    def hold(self, partitions: tuple[TopicPartition, ...]) -> None:
        """These and no others from now on. Positions of what stays are kept, of what is new they are fetched."""
        kept = frozenset(self.held).intersection(partitions)
        self.held = partitions
        self.positions = {each: at for each, at in self.positions.items() if each in kept}
        self._unknown = {each: None for each in partitions if each not in kept or each in self._unknown}
        self._auto_commit_at_ms = self.wire.now_ms + self.settings.auto_commit_interval_ms

    def consumed(self, positions: Mapping[TopicPartition, int]) -> None:
        """Move on; partitions that are not held are not looked at."""
        held = frozenset(self.held)
        self.positions.update((each, at) for each, at in positions.items() if each in held)

    # -- commits

    def commit(
        self, offsets: Mapping[TopicPartition, int], *, automatic: bool = False, retry_for_ms: int | None = None
    ) -> OpenCommit:
        """Begin a commit; with `retry_for_ms` it is tried again for as long."""
        now_ms = self.wire.now_ms
        retry_until_ms = None if retry_for_ms is None else now_ms + retry_for_ms
        patience_ms = self.settings.request_timeout_ms if retry_for_ms is None else retry_for_ms
        commit = OpenCommit(dict(offsets), automatic, retry_until_ms, now_ms + patience_ms, now_ms)
        self._open.append(commit)
        self._try(commit)
        return commit

    def commit_held(self, retry_for_ms: int) -> OpenCommit | None:
        """Commit all positions before they are given up, if `enable_auto_commit` says so and there are any."""
        if not self.settings.enable_auto_commit or not self.positions:
            return None
        return self.commit(self.positions, automatic=True, retry_for_ms=retry_for_ms)

    def _try(self, commit: OpenCommit) -> None:
        refusal = self._refusal()
        if not commit.offsets or refusal is not None:
            self._end(commit, refusal if commit.offsets else None)
        elif self.wire.coordinator is None:
            self.wire.find_coordinator()
        else:
            self._send(commit)

    def _refusal(self) -> ConsumerError | None:
        """A member commits in the stable phase only; who subscribes to nothing may commit without a place."""
        if self.standing.phase is Phase.STABLE or not self.topics.subscribed:
            return None
        if self.standing.in_rebalance:
            return ConsumerError(ErrorKind.REBALANCE_IN_PROGRESS, "a rebalance is under way; poll, then commit again")
        return ConsumerError(ErrorKind.COMMIT_FAILED, "the member is not in the group; it was probably removed")

    def _send(self, commit: OpenCommit) -> None:
        commit.sent = True
        sent = self.standing.generation

        def answered(answer: Message | NoAnswer) -> None:
            commit.sent = False
            self._answered(commit, answer, unchanged=sent == self.standing.generation)

        self.wire.ask_coordinator(requests.offset_commit(self.settings, sent, commit.offsets), answered)

    def _answered(self, commit: OpenCommit, answer: Message | NoAnswer, unchanged: bool) -> None:
        if isinstance(answer, NoAnswer):
            self._pause(commit, ConsumerError(ErrorKind.RETRIABLE_COMMIT_FAILED, answer.reason))
            return
        assert isinstance(answer, OffsetCommitResponse)
        codes = (each.error_code for topic in answer.topics for each in topic.partitions)
        code = _first_that_counts(codes, after=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if code == ErrorCode.NONE:
            self._end(commit, None)
            return
        reaction = reaction_to(OffsetCommitResponse, code)
        if reaction.finds_coordinator:
            self.wire.forget_coordinator(ErrorCode.named(code))
        if reaction.then is Then.AFTER_BACKOFF:
            self._pause(commit, ConsumerError(reaction.kind, "the offsets were not committed", code))
        else:
            self._end(commit, self._refused(code, unchanged))

    def _refused(self, code: int, unchanged: bool) -> ConsumerError:
        """An answer to an older generation says nothing about this one."""
        reaction = reaction_to(OffsetCommitResponse, code)
        overtaken = not unchanged and self.standing.phase is Phase.PREPARING
        about_place = reaction.forgets is not Forgets.NOTHING or reaction.kind is ErrorKind.FENCED
        if about_place and overtaken:
            return ConsumerError(ErrorKind.REBALANCE_IN_PROGRESS, "a newer generation is being formed", code)
        if reaction.kind is ErrorKind.FENCED and not unchanged:
            return ConsumerError(ErrorKind.COMMIT_FAILED, "the commit was made in an older generation", code)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.standing.request_rejoin("offset commit failed since group is already rebalancing")
        self.standing.reset(reaction.forgets, f"encountered {ErrorCode.named(code)} from OFFSET_COMMIT response")
        return ConsumerError(reaction.kind, "the offsets were not committed", code, reaction.fatal)

    def _pause(self, commit: OpenCommit, error: ConsumerError) -> None:
        """Try again later, or end it if nobody waits for it or the time is up."""
        commit.try_at_ms = self.wire.now_ms + self.settings.backoff_ms(commit.attempts)
        commit.attempts += 1
        if commit.retry_until_ms is None or commit.try_at_ms >= commit.retry_until_ms:
            self._end(commit, error)
            if commit.automatic:
                self._auto_commit_at_ms = min(self._auto_commit_at_ms, commit.try_at_ms)

    def _end(self, commit: OpenCommit, error: ConsumerError | None) -> None:
        if not commit.ended:
            commit.ended = True
            self._open.remove(commit)
            self.changes.append(CommitEnded(commit.offsets, error, commit.automatic))

    # -- what is due

    def proceed(self) -> None:
        """Try commits again, in poll() and out of it."""
        for commit in list(self._open):
            if commit.sent or commit.ended:
                continue
            if self.wire.now_ms >= commit.give_up_ms:
                self._end(commit, ConsumerError(ErrorKind.RETRIABLE_COMMIT_FAILED, "no coordinator took it in time"))
            elif self.wire.now_ms >= commit.try_at_ms:
                self._try(commit)

    def proceed_in_poll(self) -> None:
        """Fetch what was committed for new partitions, and commit by the clock."""
        if self.standing.phase is not Phase.STABLE:
            return
        if self._wants_fetch and self.wire.now_ms >= self._fetch_at_ms:
            self._fetch()
        if self._commits_by_clock and self.wire.now_ms >= self._auto_commit_at_ms:
            self._auto_commit_at_ms = self.wire.now_ms + self.settings.auto_commit_interval_ms
            self.commit(self.positions, automatic=True)

    @property
    def _wants_fetch(self) -> bool:
        return bool(self._unknown) and not self._fetching and self.wire.coordinator is not None

    @property
    def _commits_by_clock(self) -> bool:
        return self.settings.enable_auto_commit and bool(self.positions) and self.wire.coordinator is not None

    def _fetch(self) -> None:
        self._fetching = True
        asked, sent = tuple(self._unknown), self.standing.generation

        def answered(answer: Message | NoAnswer) -> None:
            self._fetching = False
            # Partitions that went and came back meanwhile may have been committed by somebody else.
            if sent == self.standing.generation:
                self._fetched(asked, answer)

        self.wire.ask_coordinator(requests.offset_fetch(self.settings, asked), answered)

    def _fetched(self, asked: tuple[TopicPartition, ...], answer: Message | NoAnswer) -> None:
        if not isinstance(answer, OffsetFetchResponse) or not answer.groups:
            self._fetch_later()
            return
        group = answer.groups[0]
        told = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in group.topics
            for each in topic.partitions
        }
        if group.error_code:
            self._fetch_refused(reaction_to(OffsetFetchResponse, group.error_code), group.error_code)
            return
        codes = (each.error_code for each in told.values())
        if code := _first_that_counts(codes, after=ErrorCode.UNSTABLE_OFFSET_COMMIT):
            self._fetch_refused(reaction_to(OffsetFetchResponsePartitions, code), code)
            return
        found: dict[TopicPartition, int | None] = {
            each: (told[each].committed_offset if each in told and told[each].committed_offset >= 0 else None)
            for each in asked
            if each in self._unknown
        }
        self._fetch_attempts = 0
        self._unknown = {each: None for each in self._unknown if each not in found}
        for each, offset in found.items():
            if offset is not None:
                self.positions.setdefault(each, offset)
        self.changes.append(PositionsFound(found))

    def _fetch_refused(self, reaction: Reaction, code: int) -> None:
        if reaction.finds_coordinator:
            self.wire.forget_coordinator(ErrorCode.named(code))
        if reaction.then is Then.RAISE:
            text = "the committed offsets could not be fetched"
            self.failure = ConsumerError(reaction.kind, text, code, reaction.fatal)
        self._fetch_later()

    def _fetch_later(self) -> None:
        self._fetch_at_ms = self.wire.now_ms + self.settings.backoff_ms(self._fetch_attempts)
        self._fetch_attempts += 1

    def deadline_ms(self, polling: bool) -> int | None:
        """The next moment at which there is something to do."""
        moments: list[int] = []
        for commit in self._open:
            if not commit.sent:
                find_at_ms = self.wire.find_at_ms if self.wire.coordinator is None else commit.try_at_ms
                moments += [commit.give_up_ms, *([max(find_at_ms, commit.try_at_ms)] if find_at_ms is not None else [])]
        if polling and self.standing.phase is Phase.STABLE:
            moments += [self._fetch_at_ms] if self._wants_fetch else []
            moments += [self._auto_commit_at_ms] if self._commits_by_clock else []
        return min(moments, default=None)


def _first_that_counts(codes: Iterable[int], after: ErrorCode) -> int:
    """The first error of several partitions; one code counts only where there is no other."""
    errors = [code for code in codes if code != ErrorCode.NONE]
    return next((code for code in errors if code != after), errors[0] if errors else ErrorCode.NONE)
