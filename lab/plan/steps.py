"""The steps of a run: what can happen, and what can be expected. Each is a value that reads as a sentence.

    parse_step("ben pauses for 20s")                      Pauses(member="ben", for_ms=20000)
    str(Pauses(member="ben", for_ms=20_000))              "ben pauses for 20s"

What can be expected is in `expectations`.
"""

from typing import Final, get_args

from regroup.lab.plan.expectations import Expectation
from regroup.lab.plan.sentences import HOST, NAME, NAMES, WORDS, Sentence, forms_of, nearest

EVERYBODY: Final = "everybody"
THE_BROKERS: Final = "the brokers"
BROKER: Final = "broker "
"""Begins the name of a broker's host; its number follows."""

# -- members


class Joins(Sentence, frozen=True):
    """A consumer starts, subscribes and asks for its place."""

    says = ("{member} joins",)
    member: str


class Leaves(Sentence, frozen=True):
    """It is closed politely. A static member keeps its place (KIP-345)."""

    says = ("{member} leaves",)
    member: str


class Crashes(Sentence, frozen=True):
    """It dies without a word: its connections break, and only silence tells the coordinator."""

    says = ("{member} crashes",)
    member: str


class Pauses(Sentence, frozen=True):
    """Nothing of it runs for so long, as in a garbage collection; then it goes on as if nothing had been."""

    says = ("{member} pauses for {for_ms}",)
    member: str
    for_ms: int


class Restarts(Sentence, frozen=True):
    """It crashes, and comes back so much later, a static member with its instance id."""

    says = ("{member} restarts after {after_ms}",)
    member: str
    after_ms: int


class RestartsAsStranger(Sentence, frozen=True):
    """The same, but a static member comes back without its instance id."""

    says = ("{member} restarts as a stranger after {after_ms}",)
    member: str
    after_ms: int


class AsksForRebalance(Sentence, frozen=True):
    """Its application asks for a rebalance, whatever the reason (KIP-568)."""

    says = ("{member} asks for a rebalance",)
    member: str


class TurnsZombie(Sentence, frozen=True):
    """It falls silent for twice its session timeout, then reads and commits on with its old generation."""

    says = ("{member} turns into a zombie",)
    member: str


# -- network


class CutOff(Sentence, frozen=True):
    """Two hosts (or one and everybody else) cannot reach each other, in neither direction, for so long."""

    says = ("{host} is cut off from {other} for {for_ms}",)
    host: str
    other: str
    for_ms: int


class NoLongerHears(Sentence, frozen=True):
    """What the other sends does not arrive at the host for so long; the other way is open."""

    says = ("{host} no longer hears {other} for {for_ms}",)
    host: str
    other: str
    for_ms: int


class SlowNetwork(Sentence, frozen=True):
    """Each way takes `latency_ms` and up to `jitter_ms` more, for so long."""

    says = (
        "the network takes {latency_ms}, up to {jitter_ms} more, for {for_ms}",
        "the network takes {latency_ms} for {for_ms}",
    )
    latency_ms: int
    for_ms: int
    jitter_ms: int = 0


class ConnectionsReset(Sentence, frozen=True):
    """All connections of a host break at once; what was on its way is lost."""

    says = ("{host}'s connections are reset", "the connections of {host} are reset")
    host: str


class RequestLost(Sentence, frozen=True):
    """The connection breaks before its next request of this kind arrives: it was never carried out."""

    says = ("{member}'s next {api} is lost",)
    member: str
    api: str


class AnswerLost(Sentence, frozen=True):
    """The connection breaks behind its next request of this kind: it was carried out, and the answer is lost."""

    says = ("the answer to {member}'s next {api} is lost",)
    member: str
    api: str


# -- brokers


class BrokerStops(Sentence, frozen=True):
    """A broker goes down in good order; another one loads its groups and keeps them."""

    says = ("broker {broker} stops for {for_ms}",)
    broker: int
    for_ms: int


class BrokersCrash(Sentence, frozen=True):
    """The process is killed. When it is back it reads its groups from the store."""

    says = ("the brokers crash for {for_ms}",)
    for_ms: int


class PowerFails(Sentence, frozen=True):
    """The brokers crash, and what was not synced to disk is gone; no connection says goodbye."""

    says = ("the power fails for {for_ms}",)
    for_ms: int


class ClockJumps(Sentence, frozen=True):
    """The brokers' wall clock is put forward, or back."""

    says = ("the clock jumps {by_ms}",)
    by_ms: int


# -- disk and log


class DiskFull(Sentence, frozen=True):
    """Every write to the store fails for so long."""

    says = ("the disk is full for {for_ms}",)
    for_ms: int


class DiskFails(Sentence, frozen=True):
    """The next write to the store fails."""

    says = ("the disk fails once",)


class SlowDisk(Sentence, frozen=True):
    """A write to the store takes so long."""

    says = ("the disk takes {latency_ms} for {for_ms}",)
    latency_ms: int
    for_ms: int


class SlowLog(Sentence, frozen=True):
    """Kafka's own log, in which a coordinator writes generations and offsets, takes so long to commit."""

    says = ("Kafka's log takes {latency_ms} for {for_ms}",)
    latency_ms: int
    for_ms: int


class LogRefuses(Sentence, frozen=True):
    """Kafka's own log refuses every write with this error."""

    says = ("Kafka's log refuses writes with {code} for {for_ms}",)
    code: str
    for_ms: int


# -- topics


class TopicAppears(Sentence, frozen=True):
    """A new topic. Members subscribed to its name hear of it when they next ask for metadata."""

    says = ("topic {topic} appears with {partitions} partition(s)",)
    topic: str
    partitions: int


class TopicGrows(Sentence, frozen=True):
    """A topic has so many partitions from now on."""

    says = ("topic {topic} grows to {partitions} partition(s)",)
    topic: str
    partitions: int


class TopicVanishes(Sentence, frozen=True):
    """A topic is deleted."""

    says = ("topic {topic} vanishes",)
    topic: str


OfMembers = Joins | Leaves | AsksForRebalance | Crashes | Pauses | Restarts | RestartsAsStranger | TurnsZombie
OfTheNetwork = CutOff | NoLongerHears | SlowNetwork | ConnectionsReset | RequestLost | AnswerLost
OfBrokers = BrokerStops | BrokersCrash | PowerFails | ClockJumps
OfTheDisk = DiskFull | DiskFails | SlowDisk | SlowLog | LogRefuses
OfTopics = TopicAppears | TopicGrows | TopicVanishes
Step = OfMembers | OfTheNetwork | OfBrokers | OfTheDisk | OfTopics | Expectation

KINDS: Final[tuple[type[Step], ...]] = get_args(Step)
"""Every kind of step, in the order of this file."""


def parse_step(text: str) -> Step:
    """The step that a sentence says. ValueError names a sentence like it that there is."""
    sentence = " ".join(text.split())
    for kind in KINDS:
        for form in forms_of(kind):
            values = form.read(sentence)
            if values is not None:
                return kind(**values)
    known = [form for kind in KINDS for form in forms_of(kind)]
    raise ValueError(f"there is no such sentence: {text!r}; did you mean for example {nearest(sentence, known)!r}?")


def members_named(step: Step) -> tuple[str, ...]:
    """The members that a step speaks of, each once, in the order of its sentence."""
    named: dict[str, None] = {}
    for gap in _gaps(step):
        word, value = WORDS[gap], getattr(step, gap)
        if word is NAMES:
            named |= dict.fromkeys(value)
        elif word is NAME or (word is HOST and is_member(value)):
            named[value] = None
    return tuple(named)


def brokers_named(step: Step) -> tuple[int, ...]:
    """The numbers of the brokers that a step speaks of, in the order of its sentence."""
    hosts = [getattr(step, gap) for gap in _gaps(step) if WORDS[gap] is HOST or gap == "broker"]
    return tuple(int(str(host).removeprefix(BROKER)) for host in hosts if str(host).removeprefix(BROKER).isdigit())


def is_member(host: str) -> bool:
    """Whether a host in a sentence is a member, and no broker or crowd."""
    return host not in (EVERYBODY, THE_BROKERS) and not host.startswith(BROKER)


def _gaps(step: Step) -> tuple[str, ...]:
    return forms_of(type(step))[0].gaps
