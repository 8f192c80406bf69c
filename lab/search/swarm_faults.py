"""The kinds of faults in drawn plans: a table with a function for each, which draws one fault.

FAULT_KINDS["a member pauses"](draw)           Pauses(member="ben", duration_ms=7300)
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from regroup.lab.plan import steps
from regroup.lab.plan.steps import ALL_BROKERS, ALL_HOSTS, BROKER_PREFIX, SimulationStep

T = TypeVar("T")
LOSABLE_APIS: Final = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch")
LOG_ERROR_NAMES: Final = (
    "UNKNOWN_TOPIC_OR_PARTITION",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "REQUEST_TIMED_OUT",
    "NOT_LEADER_OR_FOLLOWER",
    "MESSAGE_TOO_LARGE",
)


@dataclass(frozen=True, slots=True)
class FaultDraw:
    """What the functions that draw a fault need: a random stream, and the members, brokers and topics of the plan."""

    rng: Random
    members: Sequence[str]
    brokers: int
    topics: Mapping[str, int]
    losable_apis: Sequence[str] = LOSABLE_APIS
    """The requests of which one may be lost."""
    groups: Sequence[str] = ("lab",)

    def choice(self, choices: Sequence[T]) -> T:
        return self.rng.choice(choices)

    def member(self) -> str:
        return self.choice(self.members)

    def topic(self) -> str:
        return self.choice(list(self.topics))

    def group(self) -> str:
        return self.choice(self.groups)

    def broker_host(self) -> str:
        return f"{BROKER_PREFIX}{self.rng.randrange(self.brokers)}"

    def host(self) -> str:
        """Draw the name of a host: a member's more often than a broker's."""
        return self.member() if self.rng.random() < 0.7 else self.broker_host()

    def duration_ms(self, least: int, most: int) -> int:
        """Draw a duration from `least` to `most`, with two significant digits.

        Every order of magnitude is equally likely.
        """
        milliseconds = round(math.exp(self.rng.uniform(math.log(least), math.log(most))))
        return round(milliseconds, min(0, 2 - len(str(milliseconds))))


def _draw_cut_off(draw: FaultDraw) -> SimulationStep:
    host = draw.host()
    other = draw.choice([ALL_HOSTS, ALL_BROKERS if host in draw.members else draw.member(), draw.broker_host()])
    return steps.CutOff(host, other if other != host else ALL_HOSTS, draw.duration_ms(500, 90_000))


def _draw_receives_nothing(draw: FaultDraw) -> SimulationStep:
    hosts = [draw.member(), draw.broker_host()]
    draw.rng.shuffle(hosts)
    return steps.ReceivesNothing(hosts[0], hosts[1], draw.duration_ms(500, 90_000))


def _draw_slow_network(draw: FaultDraw) -> SimulationStep:
    return steps.SlowNetwork(draw.duration_ms(5, 2_000), draw.duration_ms(1_000, 60_000), draw.duration_ms(1, 2_000))


# fmt: off
FAULT_KINDS: Final[dict[str, Callable[[FaultDraw], SimulationStep]]] = {
    "a member leaves": lambda draw: steps.Leaves(draw.member()),
    "a member crashes": lambda draw: steps.Crashes(draw.member()),
    "a member pauses": lambda draw: steps.Pauses(draw.member(), draw.duration_ms(500, 120_000)),
    "a member restarts": lambda draw: steps.Restarts(draw.member(), draw.duration_ms(100, 90_000)),
    "a member restarts without its instance id":
        lambda draw: steps.RestartsWithoutInstanceId(draw.member(), draw.duration_ms(100, 90_000)),
    "a member becomes a zombie": lambda draw: steps.BecomesZombie(draw.member()),
    "hosts are cut off": _draw_cut_off,
    "a host receives nothing from another": _draw_receives_nothing,
    "the network is slow": _draw_slow_network,
    "connections are reset": lambda draw: steps.ConnectionsReset(draw.host()),
    "a request is lost": lambda draw: steps.RequestLost(draw.member(), draw.choice(draw.losable_apis)),
    "a response is lost": lambda draw: steps.ResponseLost(draw.member(), draw.choice(draw.losable_apis)),
    "a broker stops":
        lambda draw: steps.BrokerStops(draw.rng.randrange(draw.brokers), draw.duration_ms(500, 90_000)),
    "the brokers crash": lambda draw: steps.BrokersCrash(draw.duration_ms(100, 60_000)),
    "the power fails": lambda draw: steps.PowerFails(draw.duration_ms(100, 60_000)),
    "the clock jumps": lambda draw: steps.ClockJumps(draw.choice([1, -1]) * draw.duration_ms(100, 120_000)),
    "the disk is full": lambda draw: steps.DiskFull(draw.duration_ms(100, 60_000)),
    "the disk fails": lambda draw: steps.DiskFails(),
    "the disk is slow": lambda draw: steps.SlowDisk(draw.duration_ms(1, 2_000), draw.duration_ms(1_000, 60_000)),
    "Kafka's log is slow":
        lambda draw: steps.SlowKafkaLog(draw.duration_ms(10, 10_000), draw.duration_ms(1_000, 60_000)),
    "Kafka's log refuses":
        lambda draw: steps.KafkaLogFails(draw.choice(LOG_ERROR_NAMES), draw.duration_ms(500, 60_000)),
    "a topic is created": lambda draw: steps.TopicIsCreated(draw.topic(), draw.rng.randint(1, 8)),
    "a topic grows": lambda draw: steps.TopicGrows(draw.topic(), draw.rng.randint(2, 16)),
    "a topic is deleted": lambda draw: steps.TopicIsDeleted(draw.topic()),
    "a member requests a rebalance": lambda draw: steps.RequestsRebalance(draw.member()),
    "a member does not poll": lambda draw: steps.StaysOutsidePoll(draw.member(), draw.duration_ms(1_000, 400_000)),
    "an administrator removes a member": lambda draw: steps.MemberIsExpelled(draw.member()),
    "an administrator deletes offsets": lambda draw: steps.OffsetsAreDeleted(draw.topic(), draw.group()),
    "an administrator sets offsets":
        lambda draw: steps.OffsetsAreAltered(draw.topic(), draw.group(), draw.rng.randint(0, 40)),
    "an administrator deletes a group": lambda draw: steps.GroupIsDeleted(draw.group()),
    "a new member does not return": lambda draw: steps.NewMemberDoesNotReturn(draw.group()),
    "a new member falls silent": lambda draw: steps.NewMemberFallsSilent(draw.group()),
    "a transaction is committed": lambda draw: steps.CommitsInTransaction(draw.member()),
    "a transaction is aborted": lambda draw: steps.AbortsTransaction(draw.member()),
    "a transaction is abandoned": lambda draw: steps.AbandonsTransaction(draw.member()),
    "a producer is fenced": lambda draw: steps.IsFencedInTransaction(draw.member()),
}
# fmt: on
"""A function for each kind of fault, which draws one step.

The order of the kinds is part of what a seed means: a change of it changes the plans of all seeds.
"""
