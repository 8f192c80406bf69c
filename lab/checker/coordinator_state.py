"""`CheckerState`: what the checker has gathered in a run, and the type of an invariant of exchanges."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.acknowledgements import Acknowledgements
from regroup.lab.checker.classic.groups import ClassicGroups
from regroup.lab.checker.consumer.groups import ConsumerGroups
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.lab.checker.offsets.expiry import OffsetExpiry
from regroup.lab.checker.store.shadow_state import ShadowState
from regroup.lab.checker.timeouts import TimeoutChecker


@dataclass(slots=True)
class CheckerState:
    """What the checker has gathered in a run so far. Each invariant gets it together with the exchange to check."""

    settings: CoordinatorSettings
    now_ms: Callable[[], int]
    """Milliseconds since the run began, by a clock that never jumps."""
    shadow: ShadowState = field(default_factory=ShadowState)
    acknowledgements: Acknowledgements = field(default_factory=Acknowledgements)
    timeouts: TimeoutChecker = field(init=False)
    unsound_generations: set[tuple[str, int]] = field(default_factory=set)
    """Group id and generation id where the leader's assignor is faulty: owners are not checked there."""
    refused_upgrades: set[int] = field(default_factory=set)
    """Positions of the records by which classic groups have refused their held requests, and stayed classic."""
    consumer_groups: ConsumerGroups = field(default_factory=ConsumerGroups)
    classic_groups: ClassicGroups = field(init=False)
    expiry: OffsetExpiry = field(init=False)

    def __post_init__(self) -> None:
        self.classic_groups = ClassicGroups(self.settings)
        self.expiry = OffsetExpiry(self.settings)
        self.timeouts = TimeoutChecker(self.settings.group_consumer_session_timeout_ms)


ExchangeInvariant: TypeAlias = Callable[[CheckerState, ObservedExchange], str | None]
