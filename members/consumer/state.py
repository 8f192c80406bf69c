"""A consumer's membership of its group: state, generation, and whether it needs to rejoin."""

from dataclasses import dataclass
from enum import Enum

from regroup.members.consumer.error_actions import MembershipReset

NO_GENERATION_ID = -1


class MemberState(Enum):
    """The states of a membership, named as in the Java client's `MemberState`."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing"
    """JoinGroup is in flight. No heartbeats are sent."""
    COMPLETING_REBALANCE = "completing"
    """JoinGroup has succeeded. Heartbeats are sent while SyncGroup is in flight."""
    STABLE = "stable"


@dataclass(frozen=True, slots=True)
class MemberGeneration:
    """The generation id, member id and assignor from the last JoinGroup.

    After a reset only the member id may be left.
    """

    generation_id: int = NO_GENERATION_ID
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_none(self) -> bool:
        """Whether the member has no generation. It may still have a member id."""
        return self.generation_id == NO_GENERATION_ID and self.protocol_name is None


class Membership:
    """A consumer's membership of its group, which all parts of the consumer share."""

    def __init__(self) -> None:
        self.state = MemberState.UNJOINED
        self.generation = MemberGeneration()
        self.rejoin_needed = True
        self.rejoin_reason = ""
        self.needs_join_prepare = True
        """Whether offsets have to be committed and partitions given up before the next JoinGroup."""

    def request_rejoin(self, reason: str) -> None:
        """Let the member rejoin at the next opportunity. The reason is sent to the coordinator (KIP-800)."""
        self.rejoin_needed = True
        self.rejoin_reason = reason

    def reset(self, reset: MembershipReset, reason: str) -> None:
        """Drop what `reset` names, nothing, the generation, or also the member id, and if anything was dropped let the
        member rejoin."""
        if reset is MembershipReset.NONE:
            return
        member_id = "" if reset is MembershipReset.MEMBER_ID else self.generation.member_id
        self.state = MemberState.UNJOINED
        self.generation = MemberGeneration(member_id=member_id)
        self.needs_join_prepare = True
        self.request_rejoin(reason)

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the member sends heartbeats in its present state."""
        return self.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

    @property
    def is_rebalancing(self) -> bool:
        """Whether the member takes part in a rebalance: it has sent JoinGroup, and its SyncGroup is not answered."""
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)
