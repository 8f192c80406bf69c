"""The members, join phases and log records of the lab's own fold of classic groups."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from regroup.coordinator.group import AwaitedResponse, GroupMetadata, LogRecordKind, Member, MemberProfile
from regroup.coordinator.layered_mapping import changed, keys_in_order


@dataclass(slots=True)
class StoredClassicMember:
    """One member of a classic group."""

    profile: MemberProfile
    joined_at_ms: int = 0
    is_new: bool = False
    awaiting: AwaitedResponse | None = None
    assignment: bytes = b""
    replaced_at_ms: int = 0
    replaced_session_timeout_ms: int | None = None

    @property
    def names(self) -> list[str]:
        """The names of the protocols that the member supports, in the order of its preference."""
        return [each.name for each in self.profile.supported_protocols]

    def is_same(self, other: Member) -> bool:
        return (
            self.profile,
            self.joined_at_ms,
            self.is_new,
            self.awaiting,
            self.assignment,
            self.replaced_at_ms,
            self.replaced_session_timeout_ms,
        ) == (
            other.profile,
            other.joined_at_ms,
            other.is_new,
            other.awaiting,
            other.assignment,
            other.replaced_at_ms,
            other.replaced_session_timeout_ms,
        )


@dataclass(slots=True)
class LoggedGroup:
    """What Kafka's log holds of a group: a coordinator that loads it knows this and the offsets, and nothing else."""

    generation_id: int = 0
    protocol_type: str = ""
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, StoredClassicMember] = field(default_factory=dict)
    since_ms: int = 0
    """Since when the group had its state when this was written, in epoch milliseconds."""


@dataclass(slots=True)
class WrittenRecord:
    """A record that Kafka's log has written and not committed yet."""

    kind: LogRecordKind
    logged: LoggedGroup | None = None
    generation_id: int = 0
    member_id: str = ""
    """The new member id of a static member that was replaced."""
    former_id: str = ""
    former: StoredClassicMember | None = None


@dataclass(slots=True)
class StoredJoinPhase:
    """The running join phase."""

    deadline_ms: int
    is_initial: bool
    delay_ms: int
    remaining_ms: int


def stored_member(member: Member) -> StoredClassicMember:
    return StoredClassicMember(
        member.profile,
        member.joined_at_ms,
        member.is_new,
        member.awaiting,
        member.assignment,
        member.replaced_at_ms,
        member.replaced_session_timeout_ms,
    )


def with_protocols(profile: MemberProfile, protocols: tuple[object, ...]) -> MemberProfile:
    if protocols == profile.supported_protocols:
        return profile
    return MemberProfile(
        instance_id=profile.instance_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        session_timeout_ms=profile.session_timeout_ms,
        rebalance_timeout_ms=profile.rebalance_timeout_ms,
        supported_protocols=protocols,  # type: ignore[arg-type]
    )


def log_differences(logged: LoggedGroup, found: GroupMetadata) -> Iterable[str]:
    own = (logged.generation_id, logged.protocol_type, logged.protocol_name, logged.leader_id)
    if own != (found.generation_id, found.protocol_type, found.protocol_name, found.leader_id):
        yield "what the log holds of the generation"
    if logged.since_ms != found.state_since_ms:
        yield "since when the group has its state by the log"
    members = {each.member_id: each for each in found.members}
    if logged.members.keys() != members.keys():
        yield "the members in the log"
        return
    yield from (
        f"member {each} in the log" for each, known in logged.members.items() if not known.is_same(members[each])
    )


@dataclass(slots=True)
class MemberComparison:
    """Compares the members of the lab's fold with those of the product's: after an event of a group of thousands only
    those that have changed on either side since the last time."""

    touched: set[str] = field(default_factory=set)
    """Members that have changed in the lab's fold since the last comparison."""
    _compared: Mapping[str, Member] = field(default_factory=dict)
    """The product's members when they were last compared; empty if all have to be compared again."""
    _compared_log: tuple[LoggedGroup, GroupMetadata] | None = None
    """What the log holds, in both folds, if it was found to be the same."""

    def begin_again(self) -> None:
        """Compare all members the next time."""
        self._compared = {}

    def member_differences(self, members: dict[str, StoredClassicMember], found: Mapping[str, Member]) -> Iterator[str]:
        """Describe the members that the product has otherwise."""
        if list(members) != keys_in_order(found):
            yield "the members"
            return
        to_compare = {*self.touched, *changed(self._compared, found)}
        self.touched, self._compared = set(), found
        differing = {each for each in to_compare if each in found and not members[each].is_same(found[each])}
        if differing:
            yield from (f"member {each}" for each in found if each in differing)

    def log_differences(self, logged: LoggedGroup, found: GroupMetadata) -> Iterator[str]:
        """Describe what the log holds otherwise. Both folds make a new value for each record, and never change one."""
        known = self._compared_log
        if known is not None and known[0] is logged and known[1] is found:
            return
        differences = list(log_differences(logged, found))
        self._compared_log = None if differences else (logged, found)
        yield from differences
