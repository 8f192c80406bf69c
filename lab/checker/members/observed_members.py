"""Observes the members of a run from outside: what they join, own, read, process, commit and send.

members = ObservedMembers(state, outputs, violations)
members.add_member("anna", group_id="payments")
members.ledger("payments", "anna")            # the ledger for the process of this member, which reports here
members.on_change("anna", change, at_ms)      # records the violations that this change causes
members.check_records_at_end()
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from regroup.coordinator.commands import OffsetCommit
from regroup.lab.checker.coordinator_state import CheckerState
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.lab.checker.members.commits import Commits, accepted_offsets
from regroup.lab.checker.members.member_invariants import MemberChecker, MemberViolation
from regroup.lab.checker.members.membership.assignments import Assignments
from regroup.lab.checker.members.membership.closed_members import ClosedMembers
from regroup.lab.checker.members.membership.completed_joins import CompletedJoins
from regroup.lab.checker.members.membership.coordinator_searches import CoordinatorSearches
from regroup.lab.checker.members.membership.departures import Departures
from regroup.lab.checker.members.membership.fenced_commits import FencedCommits
from regroup.lab.checker.members.membership.fenced_members import FencedMembers
from regroup.lab.checker.members.membership.lost_generations import LostGenerations
from regroup.lab.checker.members.metadata_refresh import MetadataRefresh
from regroup.lab.checker.members.outdated_leaders import OutdatedLeaders
from regroup.lab.checker.members.own_words import OwnWords
from regroup.lab.checker.members.paused_members import FormerZombies, PausedMembers
from regroup.lab.checker.members.planned_members import PlannedMembers
from regroup.lab.checker.members.poll_timeouts import POLL_SLACK_MS, POLL_TIMEOUT, PollTimeouts, is_heartbeat
from regroup.lab.checker.members.reconnections import Reconnections
from regroup.lab.checker.members.records.acknowledged_records import AcknowledgedRecords
from regroup.lab.checker.members.records.fetched_offsets import FetchedOffsets
from regroup.lab.checker.members.records.ledgers import GroupLedger, MemberLedger
from regroup.lab.checker.members.records.outputs import OutputLedger
from regroup.lab.checker.members.records.positions import ReadPositions
from regroup.lab.checker.members.records.produced_records import ProducedRecords
from regroup.lab.checker.members.records.sent_records import SentRecords
from regroup.lab.checker.members.records.unread_partitions import UnreadPartitions
from regroup.lab.checker.members.retries import Retries
from regroup.lab.checker.members.subscription_calls import SubscriptionCalls
from regroup.lab.checker.members.subscriptions import Subscriptions, check_unsubscribed_commit
from regroup.lab.checker.members.topic_names import AssignedTopicNames
from regroup.lab.checker.violations import ViolationLog
from regroup.members.consumer.effects import (
    CommitCompleted,
    CommittedOffsetsFetched,
    ConsumerChange,
    ConsumerClosed,
    ConsumerError,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import MemberFault, MemberFaultKind
from regroup.members.runtime.application import PollStay
from regroup.members.runtime.driver import POLL_RETRY_MS
from regroup.members.runtime.notes import FaultBegan, MemberNote
from regroup.members.runtime.workload import RecordLedger, Workload
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.message import Message
from regroup.protocol.messages.group import SyncGroupRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest


class ObservedMembers:
    """The members of one run as their checker observes them. What violates an invariant goes to `violations`."""

    def __init__(self, state: CheckerState, outputs: OutputLedger, violations: ViolationLog) -> None:
        self._state, self._outputs, self._violations = state, outputs, violations
        self._owners = MemberChecker(state.acknowledgements.removed_members, state.classic_groups.absent_members)
        self._fenced = FencedMembers()
        self._paused, self._former_zombies = PausedMembers(), FormerZombies()
        self._departures, self._closed = Departures(self._paused), ClosedMembers(state.now_ms)
        self._poll_timeouts = PollTimeouts(state.now_ms, self._paused)
        self._searches, self._unread = CoordinatorSearches(state.now_ms), UnreadPartitions(state.now_ms)
        self._retries = Retries(state.now_ms, self._paused)
        self.subscriptions = Subscriptions(self._paused)
        self._calls = SubscriptionCalls()
        self._metadata = MetadataRefresh(state.now_ms, self._paused)
        self._names = AssignedTopicNames(state.now_ms, self._paused)
        self._leaders = OutdatedLeaders()
        self._words = OwnWords(self.subscriptions.has_pattern)
        self._commits = Commits(state.now_ms, self._paused)
        self._fenced_commits = FencedCommits(state.now_ms, self._paused)
        self._generations, self._assignments = LostGenerations(self._paused), Assignments()
        self._joins = CompletedJoins(self._paused)
        self._planned = PlannedMembers(state.now_ms)
        self._positions = ReadPositions()
        self._sent, self._fetched = SentRecords(), FetchedOffsets()
        self.acknowledged = AcknowledgedRecords()
        self._of_one_process = (
            *(self._paused, self._commits, self._fenced_commits, self._departures, self._retries, self._words),
            *(self._generations, self._assignments, self._fetched, self._calls, self._metadata, self._names),
            *(self._joins, self._poll_timeouts, self._closed, self._searches, self._unread),
        )
        """The parts that forget a member when its process ends."""
        self._joined_ms: dict[str, int] = {}
        """By name of a member, when its last generation began."""
        self._observed_ids: set[str] = set()
        """The member ids of the members of the plan, without those of zombies."""
        self._member_ids: dict[str, set[str]] = {}
        """By name, all member ids that a member has had."""

    def add_member(
        self,
        name: str,
        group_id: str,
        *,
        is_well_behaved: bool = True,
        has_sound_assignor: bool = True,
        faults: Collection[MemberFault] = (),
        reads_committed: bool = False,
        auto_commits: bool = True,
        has_pattern: bool = False,
        is_classic: bool = True,
        asks_for_metadata_alone: bool = False,
        settings: ConsumerSettings | None = None,
        poll_stay: Callable[[], PollStay | None] = lambda: None,
    ) -> None:
        """Begin to check a member, or its new process if it took part before.

        A member that is not well-behaved is followed and not checked. Where a member without a sound assignor leads,
        the owners of partitions are not checked. `faults` are those of its plan; `reads_committed` and `auto_commits`
        are settings of its consumer, and `has_pattern` says whether it is a classic member with a pattern. All Metadata
        requests of a member that `asks_for_metadata_alone` are those of its subscription. `settings` are those of its
        plan, with which it has to join; `poll_stay()` says when its application was last outside poll().
        """
        self.subscriptions.add_member(name, has_pattern=has_pattern, has_sound_assignor=has_sound_assignor)
        self._fenced.on_exit(name)  # a former process may have ended by itself
        for part in self._of_one_process:
            part.on_new_life(name)
        self._planned.add_member(name, faults, reads_committed=reads_committed, settings=settings)
        if settings is not None:
            self._poll_timeouts.add_member(name, settings.max_poll_interval_ms, poll_stay)
            if is_classic:
                self._searches.add_member(name, settings.session_timeout_ms)
                self._unread.add_member(name, poll_stay)
        self._commits.add_member(name, auto_commits=auto_commits)
        self._closed.add_member(name, auto_commits=auto_commits)
        self._sent.add_member(name, reads_committed=reads_committed)
        if asks_for_metadata_alone:
            (self._metadata if is_classic else self._names).add_member(name)
        self._positions.add_member(name)
        self._owners.add_member(name, group_id, is_well_behaved=is_well_behaved, has_sound_assignor=has_sound_assignor)

    def is_assigned_unsoundly(self, group_id: str, generation_id: int) -> bool:
        """Whether the leader of this generation had an unsound assignor, or one that knew too little: the owners of its
        partitions are not checked."""
        return self._owners.is_assigned_unsoundly(group_id, generation_id)

    # Records

    def group_ledger(self, group_id: str) -> GroupLedger:
        """The ledger of a group: which of its records were processed, and which offsets committed."""
        return self._owners.ledger(group_id)

    def ledger(self, group_id: str, name: str, *, epoch_ms: int = 0) -> RecordLedger:
        """The ledger of a group for the SimulatedMember of this name: what the member processes is checked here.

        `epoch_ms` is the time of the beginning of the run, as records are stamped with it.
        """
        return MemberLedger(
            self.group_ledger(group_id),
            partial(self._on_record, name, group_id),
            lambda *started: self._on_start(name, group_id, *started),
            partial(self._on_skip, name, group_id),
            epoch_ms=epoch_ms,
        )

    def _on_skip(self, name: str, group_id: str, partition: TopicPartition, first: int, stop: int) -> None:
        reads_committed = self._sent.reads_committed(name)
        self._report_each(
            self._outputs.on_skip(group_id, partition, first, stop, reads_committed=reads_committed),
            self._sent.on_skip(name, partition, first, stop),
        )

    def _on_start(self, name: str, group_id: str, partition: TopicPartition, offset: int) -> None:
        if violation := self._positions.on_start(name, group_id, partition, offset):
            self._violations.report(*violation)

    def _on_record(self, name: str, group_id: str, partition: TopicPartition, offset: int) -> None:
        self._closed.on_record(name, partition, offset)
        reads_committed = self._sent.reads_committed(name)
        self._report_each(
            self._outputs.on_record(group_id, partition, offset, reads_committed=reads_committed),
            self._positions.on_record(name, partition, offset),
            self._sent.on_record(name, partition, offset),
            self._calls.on_record(name, self._state.now_ms()),
        )
        self._violations.report_all(self._owners.on_record(name, partition))
        if violation := self._fenced.on_record(name, partition, self._state.now_ms()):
            self._violations.report(*violation)

    def producer_observer(self, workload: Workload) -> ProducedRecords:
        """Make the observer of the run's producers, whose records are checked here."""
        return ProducedRecords(workload, self._state.now_ms, self._violations.report_all)

    def reconnections_of(self, name: str) -> Reconnections:
        """Make the observer of the connections of a member, which are checked here."""
        return Reconnections(name, self._state.now_ms, self._violations.report_all)

    # What members do

    def on_request(self, name: str, message: Message) -> None:
        """Check what a member sends by what it has got before, and by its plan.

        What its former process sends as a zombie is not checked.
        """
        if self._former_zombies.is_by_one(name, message):
            return
        if isinstance(message, SyncGroupRequest) and self._leaders.assigns_twice(name, message):
            self._owners.on_unsound_assignment(message.group_id, message.generation_id)
        self._fenced_commits.on_request(name, message)
        self.acknowledged.on_request(message)
        if isinstance(message, OffsetCommitRequest):
            self._positions.on_commit_request(name, message)
        self._report_each(
            self._departures.on_request(name, message),
            self._poll_timeouts.on_request(name, message),
            self._searches.on_request(name, message),
            self._unread.on_request(name, message),
            self._generations.on_request(name, message),
            self._joins.on_request(name, message),
            self._assignments.on_request(name, message),
            self._retries.on_request(name, message),
            self._metadata.on_request(name, message),
            self._names.on_request(name, message),
            self._words.on_request(name, message),
            self.subscriptions.on_request(name, message),
            self._fenced.on_request(name, message),
            self._commits.on_request(name, message),
            self._closed.on_request(name, message),
            self._planned.on_request(name, message),
        )

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Take note of the response to a member's request; None if the request has failed."""
        if self._former_zombies.is_by_one(name, message):
            return
        self._departures.on_response(name, message, response)
        self._poll_timeouts.on_response(name, message, response)
        self._searches.on_response(name, message, response)
        self._unread.on_response(name, message)
        self._generations.on_response(name, message, response)
        self._joins.on_response(name, message, response)
        self._assignments.on_response(name, message, response)
        self._retries.on_response(name, message, response)
        self._metadata.on_response(name, message, response)
        self._names.on_response(name, message, response)
        self._words.on_response(name, message, response)
        self.subscriptions.on_response(name, response)
        self._leaders.on_response(name, response)
        self._fenced.on_response(name, message, response)
        self._commits.on_response(name, message, response)
        self._fenced_commits.on_response(name, message, response)
        self._planned.on_response(name, message, response)
        self._sent.on_response(name, message, response)
        self._report_each(self.acknowledged.on_fetched(name, message, response))
        self._fetched.on_response(name, response)
        if isinstance(message, OffsetCommitRequest) and response is not None:
            accepted = accepted_offsets(message, response)
            self._positions.on_commit_response(name, message, accepted, self._state.now_ms())

    def on_request_outside_poll(
        self, name: str, message: Message, outside_poll_ms: int, max_poll_interval_ms: int
    ) -> None:
        """Check a heartbeat of a member whose application is outside poll(): why it is, and whether it is for too long.

        `outside_poll_ms` is for how long it has been, `max_poll_interval_ms` the member's limit. Other requests are not
        checked.
        """
        self._report_each(self._planned.on_request_outside_poll(name, message, outside_poll_ms))
        if outside_poll_ms > max_poll_interval_ms and is_heartbeat(message):
            since_ms = min(outside_poll_ms, self._state.now_ms() - self._joined_ms.get(name, 0))
            if since_ms > max_poll_interval_ms + POLL_SLACK_MS:
                detail = (
                    f"{name} was inside poll() {outside_poll_ms} ms ago, and its limit is {max_poll_interval_ms} ms"
                )
                self._violations.report(POLL_TIMEOUT, detail)

    def on_change(self, name: str, change: ConsumerChange | ConsumerError, at_ms: int) -> None:
        """Take note of what a member's consumer reports, and check which partitions it owns and where it reads.

        Examples are that it has joined, or that partitions were assigned or revoked. An error that the consumer reports
        violates no invariant, unless it has no cause.
        """
        self._report_each(
            self._generations.on_change(name, change),
            self._assignments.on_change(name, change),
            self._closed.on_change(name, change),
        )
        self._poll_timeouts.on_change(name, change)
        match change:
            case CommittedOffsetsFetched(offsets):
                self._report_each(self._fetched.on_fetched(name, offsets))
                self._positions.on_fetched(name, offsets)
                self._words.on_fetched(name, offsets)
                self._commits.on_fetched(name, offsets)
                self._unread.on_fetched(name, offsets)
            case CommitCompleted():
                self._commits.on_completed(name, change)
                self._report_each(self._fenced_commits.on_completed(name, change))
            case PartitionsAssigned(partitions):
                self._report_each(self.subscriptions.on_assigned(name, partitions))
                self._unread.on_assigned(name, partitions)
            case PartitionsRevoked(partitions):
                self._report_each(
                    self._positions.on_revoked(name, partitions, at_ms),
                    self._words.on_revoked(name, partitions),
                    self._commits.on_revoked(name, partitions),
                )
                self._positions.on_owner_change(name, partitions)
                self._unread.on_given_up(name, partitions)
            case PartitionsLost(partitions):
                self._words.on_lost(name, partitions)
                self._commits.on_lost(name, partitions)
                self._positions.on_owner_change(name, partitions)
                self._unread.on_given_up(name, partitions)
            case JoinedGroup():
                self._joined_ms[name] = at_ms
                self._observed_ids.add(change.member_id)
                self._member_ids.setdefault(name, set()).add(change.member_id)
                self._fenced.on_new_life(name)
            case ConsumerError():
                self._report_each(self._words.on_error(name, change), self.subscriptions.on_error(name, change))
                self._metadata.on_interruption(name, POLL_RETRY_MS)
                self._unread.on_interruption(name)
                self._joins.on_interruption(name)
                if change.is_fatal:  # its process ends by this
                    self._owners.on_member_stop(name, at_ms)
            case ConsumerClosed():
                self._report_each(self._departures.on_close(name))
        if not isinstance(change, ConsumerError):
            self._violations.report_all(self._owners.on_member_change(name, change, at_ms))

    def _report_each(self, *violations: MemberViolation | None) -> None:
        self._violations.report_all(each for each in violations if each)

    def on_subscription_call_due(self, name: str) -> None:
        """Note that the application of a member is to unsubscribe or to subscribe, now or when it has processed its
        batch."""
        self._calls.on_due(name)

    def on_subscribe(self, name: str, topics: Collection[str] = ()) -> None:
        """Note that the application of a member subscribes to these topics, or without any to those of its plan."""
        self._calls.on_called(name)
        self._metadata.on_interruption(name)
        self.subscriptions.on_subscribe(name, topics)
        self._positions.on_subscribe(name)
        self._retries.on_subscribe(name)

    def on_unsubscribe(self, name: str) -> None:
        """Note that the application of a member unsubscribes from all topics: it gives up its partitions next."""
        self._calls.on_called(name)
        self._metadata.on_interruption(name)
        self.subscriptions.on_unsubscribe(name)
        self._commits.on_unsubscribe(name)
        self._fenced_commits.on_unsubscribe(name)
        self._departures.on_unsubscribe(name)
        self._joins.on_interruption(name)
        self._fenced.on_unsubscribe(name)

    def on_unsubscribed_commit(self, sent: Collection[OffsetCommitRequest], change: CommitCompleted) -> None:
        """Check how the commit of a consumer that has not subscribed has ended, and the requests that have carried
        it."""
        self._report_each(check_unsubscribed_commit(sent, change))

    def on_note(self, name: str, note: MemberNote) -> None:
        """Take note that a member's heartbeat was refused, or that it becomes a zombie by the plan: its records and
        its commits are then not checked."""
        self._paused.on_note(name, note)
        self._fenced.on_note(name, note)
        self._former_zombies.on_note(name, note)
        self._words.on_note(name, note)
        self._retries.on_note(name, note)
        self._departures.on_note(name, note)
        self._joins.on_note(name, note)
        self._poll_timeouts.on_note(name, note)
        self._searches.on_note(name, note)
        self._unread.on_interruption(name)
        self._commits.on_note(name, note)
        self._closed.on_note(name, note)
        self._planned.on_note(name, note)
        self._calls.on_note(name, note)
        if isinstance(note, FaultBegan):
            self._metadata.on_interruption(name, note.fault.duration_ms or 0)
        if isinstance(note, FaultBegan) and note.fault.kind is MemberFaultKind.ZOMBIE:
            self._positions.on_zombie(name)
            self._observed_ids.difference_update(self._member_ids.get(name, ()))
            self._words.on_zombie(name)
            self._generations.on_new_life(name)
            self._assignments.on_zombie(name)

    def on_stop(self, name: str, at_ms: int) -> None:
        """Note that a member's process has ended or restarted: it owns nothing, has no position, and is not fenced any
        more."""
        self._fenced.on_exit(name)
        for part in (*self._of_one_process, self._former_zombies, self._planned, self.subscriptions, self._sent):
            part.on_new_life(name)
        self._positions.on_owner_change(name)
        self._owners.on_member_stop(name, at_ms)

    # What happens to their offsets and topics

    def on_commit(self, exchange: ObservedExchange, command: OffsetCommit) -> None:
        """Check the offsets of a commit that the coordinator has accepted.

        A member's offset must not be beyond the records that were processed, nor below the one that the same member has
        committed. A commit without a generation, as from a command-line tool, may set any offset.
        """
        member_id = command.member_id
        connection = exchange.cause.connection if exchange.cause else ""
        for each in command.offsets:
            partition = TopicPartition(each.topic, each.partition)
            if member_id not in self._observed_ids:
                self._positions.on_foreign_commit(exchange.group_id, partition)
            elif violation := self._positions.on_commit(
                exchange.group_id, partition, member_id, each.offset, connection
            ):
                self._violations.report(*violation)
            if command.generation_id < 0:
                self.group_ledger(exchange.group_id).ignore_below(partition, each.offset)
            else:
                self._violations.report_all(self._owners.on_commit(exchange.group_id, partition, each.offset))

    def on_other_offset_change(self, group_id: str) -> None:
        """Note that offsets of a group have changed without a commit: its members may now commit lower ones."""
        self._positions.on_other_change(group_id)

    def on_topic_deletion(self, topic: str) -> None:
        """Note that a topic is being deleted: members may see that before it is stored, and then read a new one of its
        name."""
        self._positions.on_topic_deleted(topic)
        self.acknowledged.on_topic_deleted(topic)
        self.subscriptions.on_topic_deleted(topic)

    def on_topic_deleted(self, topic: str, at_ms: int) -> None:
        """Note that the deletion of a topic is stored: its partitions need no owner, and in a new topic of its name
        offsets begin at 0."""
        self._owners.on_topic_deleted(topic, at_ms)
        self.acknowledged.on_topic_deleted(topic)

    def on_topic_created(self, topic: str) -> None:
        """Note that the creation of a topic is stored: its partitions need owners."""
        self._owners.on_topic_created(topic)

    # Until now

    @property
    def ledgers(self) -> Mapping[str, GroupLedger]:
        """The ledger of each group by its group id, in the order in which they were made."""
        return self._owners.ledgers

    @property
    def unowned_partitions(self) -> Mapping[int, int]:
        """By the time of each change of owners, in ms since the run began, how many partitions have lost theirs."""
        return self._owners.unowned_partitions

    def unowned_s(self, at_ms: int) -> float:
        """For how many seconds until `at_ms` partitions were without an owner, summed over all that have had one."""
        return self._owners.unowned_s(at_ms)

    def check_records_at_end(self) -> int:
        """Check, at the end of a run, the records below the committed offsets of every group.

        Returns how many of them no member has processed.
        """
        skipped = 0
        for group_id, ledger in self.ledgers.items():
            committed_offsets = self._state.shadow.group(group_id).committed_offsets
            self._violations.report_all(self._owners.skipped_records(group_id, committed_offsets))
            self._violations.report_all(self._outputs.without_output(group_id, committed_offsets))
            skipped += ledger.number_skipped(committed_offsets)
        return skipped
