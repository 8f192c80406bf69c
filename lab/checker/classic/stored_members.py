"""The members, join phases and log records of the lab's own fold of classic groups."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from regroup.coordinator.group import AwaitedResponse, GroupMetadata, LogRecordKind, Member, MemberProfile


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
    members = {each.member_id: each for each in found.members}
    if logged.members.keys() != members.keys():
        yield "the members in the log"
        return
    yield from (
        f"member {each} in the log" for each, known in logged.members.items() if not known.is_same(members[each])
    )
