"""What can go wrong in a run that a seed draws: one row for each kind of fault.

FAULTS["a member pauses"](draw)           Pauses(member="ben", for_ms=7300)
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from regroup.lab.plan.steps import (
    BROKER,
    EVERYBODY,
    THE_BROKERS,
    AnswerLost,
    AsksForRebalance,
    BrokersCrash,
    BrokerStops,
    ClockJumps,
    ConnectionsReset,
    Crashes,
    CutOff,
    DiskFails,
    DiskFull,
    Leaves,
    LogRefuses,
    NoLongerHears,
    Pauses,
    PowerFails,
    RequestLost,
    Restarts,
    RestartsAsStranger,
    SlowDisk,
    SlowLog,
    SlowNetwork,
    Step,
    TopicAppears,
    TopicGrows,
    TopicVanishes,
    TurnsZombie,
)

T = TypeVar("T")
GROUP_REQUESTS: Final = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch")
LOG_ERRORS: Final = (
    "UNKNOWN_TOPIC_OR_PARTITION",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "REQUEST_TIMED_OUT",
    "NOT_LEADER_OR_FOLLOWER",
    "MESSAGE_TOO_LARGE",
)


@dataclass(frozen=True, slots=True)
class Draw:
    """Chance, and who and what there is to choose from."""

    chance: Random
    members: Sequence[str]
    brokers: int
    topics: Mapping[str, int]

    def one(self, choices: Sequence[T]) -> T:
        return self.chance.choice(choices)

    def member(self) -> str:
        return self.one(self.members)

    def topic(self) -> str:
        return self.one(list(self.topics))

    def broker_host(self) -> str:
        return f"{BROKER}{self.chance.randrange(self.brokers)}"

    def host(self) -> str:
        """A member, more often than a broker."""
        return self.member() if self.chance.random() < 0.7 else self.broker_host()

    def ms(self, least: int, most: int) -> int:
        """A time; short and long ones are equally likely. Two digits are enough for people and for bugs."""
        time_ms = round(math.exp(self.chance.uniform(math.log(least), math.log(most))))
        return round(time_ms, min(0, 2 - len(str(time_ms))))


def _cut_off(draw: Draw) -> Step:
    host = draw.host()
    other = draw.one([EVERYBODY, THE_BROKERS if host in draw.members else draw.member(), draw.broker_host()])
    return CutOff(host, other if other != host else EVERYBODY, draw.ms(500, 90_000))


def _deaf(draw: Draw) -> Step:
    hosts = [draw.member(), draw.broker_host()]
    draw.chance.shuffle(hosts)
    return NoLongerHears(hosts[0], hosts[1], draw.ms(500, 90_000))


FAULTS: Final[dict[str, Callable[[Draw], Step]]] = {
    "a member leaves": lambda draw: Leaves(draw.member()),
    "a member crashes": lambda draw: Crashes(draw.member()),
    "a member pauses": lambda draw: Pauses(draw.member(), draw.ms(500, 120_000)),
    "a member restarts": lambda draw: Restarts(draw.member(), draw.ms(100, 90_000)),
    "a member restarts as a stranger": lambda draw: RestartsAsStranger(draw.member(), draw.ms(100, 90_000)),
    "a member turns into a zombie": lambda draw: TurnsZombie(draw.member()),
    "hosts are cut off": _cut_off,
    "a host no longer hears another": _deaf,
    "the network is slow": lambda draw: SlowNetwork(draw.ms(5, 2_000), draw.ms(1_000, 60_000), draw.ms(1, 2_000)),
    "connections are reset": lambda draw: ConnectionsReset(draw.host()),
    "a request is lost": lambda draw: RequestLost(draw.member(), draw.one(GROUP_REQUESTS)),
    "an answer is lost": lambda draw: AnswerLost(draw.member(), draw.one(GROUP_REQUESTS)),
    "a broker stops": lambda draw: BrokerStops(draw.chance.randrange(draw.brokers), draw.ms(500, 90_000)),
    "the brokers crash": lambda draw: BrokersCrash(draw.ms(100, 60_000)),
    "the power fails": lambda draw: PowerFails(draw.ms(100, 60_000)),
    "the clock jumps": lambda draw: ClockJumps(draw.one([1, -1]) * draw.ms(100, 120_000)),
    "the disk is full": lambda draw: DiskFull(draw.ms(100, 60_000)),
    "the disk fails": lambda draw: DiskFails(),
    "the disk is slow": lambda draw: SlowDisk(draw.ms(1, 2_000), draw.ms(1_000, 60_000)),
    "Kafka's log is slow": lambda draw: SlowLog(draw.ms(10, 10_000), draw.ms(1_000, 60_000)),
    "Kafka's log refuses": lambda draw: LogRefuses(draw.one(LOG_ERRORS), draw.ms(500, 60_000)),
    "a topic appears": lambda draw: TopicAppears(draw.topic(), draw.chance.randint(1, 8)),
    "a topic grows": lambda draw: TopicGrows(draw.topic(), draw.chance.randint(2, 16)),
    "a topic vanishes": lambda draw: TopicVanishes(draw.topic()),
    "a member asks for a rebalance": lambda draw: AsksForRebalance(draw.member()),
}
"""By what one would say of a run in which it may happen."""
