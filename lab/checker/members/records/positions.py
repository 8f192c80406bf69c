"""Where members start to read, in which order they process, and whether committed offsets go back without a reason.

positions = ReadPositions()
positions.on_fetched("anna", {partition: 17})           # the committed offsets that anna has got
positions.on_start("anna", "payments", partition, 17)   # anna starts to read: the violation that this is, or None
positions.on_record("anna", partition, 17)              # anna has processed a record
positions.on_commit("payments", partition, "anna-1", 18, "1-4")
"""

from collections.abc import Iterable, Mapping
from typing import Final

from regroup.lab.checker.members.commits import offsets_of
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.offsets import OffsetCommitRequest

STARTS_AT_COMMITTED: Final = (
    "A member starts to read a partition at the committed offset that it has got, if there is any."
)
NEVER_READS_BACK: Final = "A member processes the records of a partition in the order of their offsets, each once."
COMMITS_DO_NOT_GO_BACK: Final = (
    "A member commits no offset below one that it has committed itself over the same or an older connection, unless it "
    "has started to read again since."
)
COMMITS_BEFORE_REVOCATION: Final = (
    "A member that gives up partitions right after a commit has processed nothing in them that the commit leaves out."
)
POSITION_SENTENCES: Final = (COMMITS_BEFORE_REVOCATION, STARTS_AT_COMMITTED, NEVER_READS_BACK, COMMITS_DO_NOT_GO_BACK)


class ReadPositions:
    """Where the members of a run read, and who has committed which offset last.

    Members are known by name, those that commit by group and member id.
    """

    def __init__(self) -> None:
        self._fetched: dict[tuple[str, TopicPartition], int] = {}
        self._next: dict[tuple[str, TopicPartition], int] = {}
        self._committed: dict[tuple[str, TopicPartition], tuple[str, dict[str, int]]] = {}
        """By group and partition, the member id that has committed last, and its last offset over each connection."""
        self._connections: dict[str, set[str]] = {}
        """By member id, the connections over which it has committed."""
        self._deleted_topics: set[str] = set()
        self._zombies: set[str] = set()
        self._sent: dict[str, dict[int, OffsetCommitRequest]] = {}
        """By name and identity, the commits of each process without a response, in the order in which they were
        sent."""
        self._sent_before_start: dict[tuple[str, TopicPartition], dict[int, tuple[str, int]]] = {}
        """By group and partition, the commits that were on their way when a member last started to read: by identity,
        member id and offset of each, in the order in which they were sent."""
        self._own_commits: dict[str, tuple[int, Mapping[TopicPartition, int]]] = {}
        """By name, when the response to the last commit of a member came, and the offsets that were committed."""
        self._resubscribed: set[str] = set()
        """Members that have given up nothing since their applications subscribed to other topics."""

    def on_fetched(self, name: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Keep the committed offsets that a member has fetched, where it has to start to read; None where there is
        none."""
        for partition, offset in offsets.items():
            self._next.pop((name, partition), None)
            if offset is None:
                self._fetched.pop((name, partition), None)
            else:
                self._fetched[name, partition] = offset

    def on_start(self, name: str, group_id: str, partition: TopicPartition, offset: int) -> MemberViolation | None:
        """Check that a member starts to read a partition at the committed offset that it has fetched.

        It may start once more elsewhere if that offset is out of range.
        """
        fetched = self._fetched.pop((name, partition), None)
        self._next[name, partition] = offset
        self._committed.pop((group_id, partition), None)
        self._sent_before_start[group_id, partition] = {
            identity: (request.member_id, sent)
            for identity, request in self._sent.get(name, {}).items()
            for each, sent in offsets_of(request)
            if each == partition
        }
        if fetched is None or fetched == offset:
            return None
        return MemberViolation(STARTS_AT_COMMITTED, f"{name} starts {partition} at {offset}, and got {fetched}")

    def on_record(self, name: str, partition: TopicPartition, offset: int) -> MemberViolation | None:
        """Check that a member which processes this record has not gone back behind an earlier one of the partition."""
        if name in self._zombies:
            return None
        due = self._next.get((name, partition), 0)
        self._next[name, partition] = max(due, offset + 1)
        if offset >= due:
            return None
        return MemberViolation(NEVER_READS_BACK, f"{name} processes {offset} of {partition}, after {due - 1}")

    def on_commit_request(self, name: str, request: OffsetCommitRequest) -> None:
        """Note that a member sends this commit. If it gets no response, it stays on its way until the process ends."""
        self._sent.setdefault(name, {})[id(request)] = request

    def on_commit_response(
        self, name: str, request: OffsetCommitRequest, accepted: Mapping[TopicPartition, int], at_ms: int
    ) -> None:
        """Note the response to a commit of a member, with the offsets that were accepted."""
        self._sent.get(name, {}).pop(id(request), None)
        for partition, _ in offsets_of(request):
            self._sent_before_start.get((request.group_id, partition), {}).pop(id(request), None)
        self._own_commits[name] = at_ms, accepted

    def add_member(self, name: str) -> None:
        """Begin to check a new process, which has sent nothing."""
        self._sent.pop(name, None)

    def on_revoked(self, name: str, partitions: Iterable[TopicPartition], at_ms: int) -> MemberViolation | None:
        """Check a member that gives up partitions, if it waited for the response to a commit before.

        The commit has all that earlier calls of poll() have returned, and until the response poll() returns nothing.
        A cooperative member that gives up the topics from which it has unsubscribed reads on meanwhile: Kafka's
        consumer stops before that commit only with an eager assignor (KAFKA-14196).
        """
        committed_ms, offsets = self._own_commits.pop(name, (-1, {}))
        is_resubscribed = name in self._resubscribed
        self._resubscribed.discard(name)
        if committed_ms != at_ms or name in self._zombies or is_resubscribed:
            return None
        for partition in partitions:
            processed = self._next.get((name, partition), 0)
            if partition in offsets and processed > offsets[partition]:
                detail = f"{name} gives up {partition}, has processed {processed - 1}, and commits {offsets[partition]}"
                return MemberViolation(COMMITS_BEFORE_REVOCATION, detail)
        return None

    def on_subscribe(self, name: str) -> None:
        """Note that the application of a member subscribes, so that the member may give up partitions."""
        self._resubscribed.add(name)

    def on_zombie(self, name: str) -> None:
        """Stop checking which records a member processes, since by the plan it is a zombie; its next process is checked
        again."""
        self._zombies.add(name)

    def on_owner_change(self, name: str, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Drop a member's positions in partitions that it no longer owns; in all partitions if its process is over."""
        if partitions is None:
            self._zombies.discard(name)
            self._resubscribed.discard(name)
            self._sent.pop(name, None)
        for table in (self._fetched, self._next):
            for key in [key for key in table if key[0] == name and (partitions is None or key[1] in partitions)]:
                del table[key]

    def on_commit(
        self, group_id: str, partition: TopicPartition, member_id: str, offset: int, connection: str
    ) -> MemberViolation | None:
        """Check that a member does not commit an offset below its own last one in this partition.

        Only commits that the coordinator accepted are checked. A commit of another member in between allows a lower
        offset. So does an older connection: what was sent over it may arrive behind what the member has sent over its
        next one. A commit that was on its way when a member started to read counts as one from before the start.
        """
        on_their_way = self._sent_before_start.get((group_id, partition), {})
        for identity, sent in on_their_way.items():
            if sent == (member_id, offset):
                del on_their_way[identity]
                return None
        known = self._connections.setdefault(member_id, set())
        is_new = all(_place_of(connection) > _place_of(each) for each in known)
        known.add(connection)
        former_id, offsets = self._committed.get((group_id, partition), ("", {}))
        if member_id != former_id:
            offsets = {}
        former = max(offsets.values(), default=0) if is_new else offsets.get(connection, 0)
        self._committed[group_id, partition] = member_id, offsets | {connection: offset}
        if offset >= former or partition.topic in self._deleted_topics:
            return None
        return MemberViolation(
            COMMITS_DO_NOT_GO_BACK, f"{member_id} commits {offset} of {partition}, and had committed {former}"
        )

    def on_foreign_commit(self, group_id: str, partition: TopicPartition) -> None:
        """Note that a client which is no member of the plan, or a zombie, has committed an offset of a partition: the
        member that had committed last may have got it since, and may commit a lower one."""
        self._committed.pop((group_id, partition), None)

    def on_topic_deleted(self, topic: str) -> None:
        """Note that a topic was deleted.

        In a topic that is created with its name, offsets begin at 0, and a commit of an old one may still be in flight.
        """
        self._deleted_topics.add(topic)

    def on_other_change(self, group_id: str) -> None:
        """Drop which member has committed last in each partition of a group, since offsets have changed without a
        commit.

        An administrator may have set them, a transaction may have ended, or they may have expired.
        """
        for key in [key for key in self._committed if key[0] == group_id]:
            del self._committed[key]


def _place_of(connection: str) -> tuple[int, int]:
    """The place of a connection among all that a broker has accepted: `0-47@5` is the 47th of its fifth epoch.

    What is sent over an early one may arrive last. A commit without a connection has the first place.
    """
    number, _, epoch = connection.partition("-")[2].partition("@")
    return int(epoch or 0), int(number or 0)
