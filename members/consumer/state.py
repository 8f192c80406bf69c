"""Where a member stands: its phase, its generation, and whether it wants to join again."""

from dataclasses import dataclass
from enum import Enum

from regroup.members.consumer.error_actions import Forgets

NO_GENERATION_ID = -1


class Phase(Enum):
    """The Java client's `MemberState`."""

    UNJOINED = "unjoined"
    PREPARING = "preparing"
    """JoinGroup is on its way; no heartbeats."""
    COMPLETING = "completing"
    """JoinGroup was answered; heartbeats until SyncGroup is answered too."""
    STABLE = "stable"


@dataclass(frozen=True, slots=True)
class Generation:
    """What the coordinator said when the member last joined."""

    number: int = NO_GENERATION_ID
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_none(self) -> bool:
        """Nothing is left of it; the member id may be."""
        return self.number == NO_GENERATION_ID and self.protocol_name is None


class Standing:
    """Changed by whoever hears from the coordinator, read by all parts of the consumer."""

    def __init__(self) -> None:
        self.phase = Phase.UNJOINED
        self.generation = Generation()
        self.rejoin_needed = True
        self.rejoin_reason = ""
        self.prepare_needed = True
        """Before JoinGroup, offsets are to be committed and partitions given up."""

    def request_rejoin(self, reason: str) -> None:
        """Join again at the next opportunity; the reason goes to the coordinator (KIP-800)."""
        self.rejoin_needed = True
        self.rejoin_reason = reason

    def reset(self, forgets: Forgets, reason: str) -> None:
        """Forget the generation, and the member id with it or not; then join again."""
        if forgets is Forgets.NOTHING:
            return
        member_id = "" if forgets is Forgets.MEMBER_ID else self.generation.member_id
        self.phase = Phase.UNJOINED
        self.generation = Generation(member_id=member_id)
        self.prepare_needed = True
        self.request_rejoin(reason)

    @property
    def beats(self) -> bool:
        """Whether heartbeats are due in this phase."""
        return self.phase in (Phase.COMPLETING, Phase.STABLE)

    @property
    def in_rebalance(self) -> bool:
        return self.phase in (Phase.PREPARING, Phase.COMPLETING)
