"""A consumer's membership of its group: state, generation, and whether it needs to rejoin."""

from dataclasses import dataclass
from enum import Enum

from regroup.members.consumer.error_actions import MembershipReset

NO_GENERATION_ID = -1


class MemberState(Enum):
    """The states of the Java client's `MemberState`."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing"
    """JoinGroup is in flight; no heartbeats are sent."""
    COMPLETING_REBALANCE = "completing"
    """JoinGroup succeeded; heartbeats are sent while SyncGroup is in flight."""
    STABLE = "stable"


@dataclass(frozen=True, slots=True)
class MemberGeneration:
    """What the response to the last JoinGroup said. After a reset the member id may be all that is left."""

    generation_id: int = NO_GENERATION_ID
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_none(self) -> bool:
        """Whether the member has no generation, with or without a member id."""
        return self.generation_id == NO_GENERATION_ID and self.protocol_name is None


class Membership:
    """The membership that all parts of a consumer share."""

    def __init__(self) -> None:
        self.state = MemberState.UNJOINED
        self.generation = MemberGeneration()
        self.rejoin_needed = True
        self.rejoin_reason = ""
        self.needs_join_prepare = True
        """Offsets are to be committed and partitions given up before the next JoinGroup."""

    def request_rejoin(self, reason: str) -> None:
        """Rejoin at the next opportunity; the reason goes to the coordinator (KIP-800)."""
        self.rejoin_needed = True
        self.rejoin_reason = reason

    def reset(self, reset: MembershipReset, reason: str) -> None:
        """Forget the generation, with or without the member id, and rejoin."""
        if reset is MembershipReset.NONE:
            return
        member_id = "" if reset is MembershipReset.MEMBER_ID else self.generation.member_id
        self.state = MemberState.UNJOINED
        self.generation = MemberGeneration(member_id=member_id)
        self.needs_join_prepare = True
        self.request_rejoin(reason)

    @property
    def sends_heartbeats(self) -> bool:
        """Whether heartbeats are due in this state."""
        return self.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

    @property
    def is_rebalancing(self) -> bool:
        """Whether JoinGroup or SyncGroup is in flight."""
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)
