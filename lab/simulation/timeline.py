"""What happened in a run, in order: the steps of its plan, the changes of its members, and the stored events.

    timeline = Timeline()
    play(plan, timeline=timeline)
    timeline.entries, timeline.names

It costs time and memory, so a hunt goes without one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from regroup.lab.plan.plan import PlannedStep
from regroup.members.consumer.effects import ConsumerChange, ConsumerError
from regroup.members.runtime.notes import MemberNote
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.message import Message
from regroup.server.net.exchange import Exchange
from regroup.server.net.request_observer import RequestObserver
from regroup.server.refusals.finding import Refusal, refusals_of
from regroup.storage.records import NewRecord


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """An expectation of the plan, and whether it held when that was decided."""

    planned: PlannedStep
    found: str | None
    """What was found instead; None if the expectation held."""


class MemberReport(NamedTuple):
    """A change of a member, a refused request or a fault, as the member's own process reports it."""

    name: str
    what: ConsumerChange | ConsumerError | MemberNote
    owned: tuple[TopicPartition, ...] = ()
    """The partitions that the member owns after the change."""


TimelineItem: TypeAlias = PlannedStep | ExpectationResult | MemberReport | NewRecord | Refusal | str


class TimelineEntry(NamedTuple):
    """One thing that happened, and when, in milliseconds since the run began. An event happens when it is durable."""

    at_ms: int
    item: TimelineItem


@dataclass(slots=True)
class Timeline:
    """The entries of one run, in the order of time."""

    entries: list[TimelineEntry] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """The member's name in the plan by each member id that it had."""

    def add(self, at_ms: int, item: TimelineItem) -> None:
        self.entries.append(TimelineEntry(at_ms, item))

    def observer(self, now_ms: Callable[[], int]) -> RequestObserver:
        """An observer for the brokers that adds refused requests to the timeline."""

        def observe(exchange: Exchange, response: Message | None) -> None:
            for refusal in refusals_of(exchange, response, now_ms):
                self.add(refusal.at_ms, refusal)

        return observe
