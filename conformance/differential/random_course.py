"""Random courses of a group, each from one seed: who asks what, in which order.

A course knows nothing of any answer. Its moves name actors, not ids, so that the same course can be played to two
brokers that give different ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from regroup.conformance.harness.story import subscribed_to
from regroup.conformance.harness.target import BAR, FOO

SLOT_MS = 300
"""One move a slot. Timeouts end late in one, so that both brokers see them on the same side of every move. A busy
machine needs longer slots."""

ENDLESS_MS = 300_000
"""Longer than any course."""

PROTOCOLS: tuple[tuple[tuple[str, bytes], ...], ...] = (
    (("range", subscribed_to(BAR)), ("roundrobin", subscribed_to(BAR))),
    (("range", subscribed_to(FOO, BAR)), ("roundrobin", subscribed_to(BAR))),
    (("roundrobin", subscribed_to(BAR)), ("range", subscribed_to(BAR))),
    (("range", b"no subscription"), ("roundrobin", subscribed_to(FOO))),
    (("range", subscribed_to(BAR)),),
    (("roundrobin", subscribed_to(BAR)),),
)
"""Lists of assignors; the first is what nearly everyone brings nearly always."""


class Kind(StrEnum):
    JOIN = "joins"
    SYNC = "syncs"
    BEAT = "beats"
    LEAVE = "leaves"
    COMMIT = "commits"
    FETCH = "fetches"
    FORGET = "deletes an offset"
    DELETE = "deletes the group"
    WAIT = "nothing happens"


API_OF = {
    Kind.JOIN: "JoinGroup",
    Kind.SYNC: "SyncGroup",
    Kind.BEAT: "Heartbeat",
    Kind.LEAVE: "LeaveGroup",
    Kind.COMMIT: "OffsetCommit",
    Kind.FETCH: "OffsetFetch",
    Kind.FORGET: "OffsetDelete",
    Kind.DELETE: "DeleteGroups",
}
WEIGHTS = {
    Kind.JOIN: 40,
    Kind.SYNC: 22,
    Kind.BEAT: 13,
    Kind.LEAVE: 7,
    Kind.COMMIT: 7,
    Kind.FETCH: 2,
    Kind.FORGET: 2,
    Kind.DELETE: 1,
    Kind.WAIT: 6,
}
NEWEST = {
    Kind.JOIN: 9,
    Kind.SYNC: 5,
    Kind.BEAT: 4,
    Kind.LEAVE: 5,
    Kind.COMMIT: 9,
    Kind.FETCH: 9,
    Kind.FORGET: 0,
    Kind.DELETE: 2,
    Kind.WAIT: 0,
}
OLDEST = {Kind.COMMIT: 2, Kind.FETCH: 2}
"""Older ones are not offered by Kafka 4, or do not know how to ask for everything."""
FIRST_WITH_INSTANCE = {Kind.JOIN: 5, Kind.SYNC: 3, Kind.BEAT: 3, Kind.LEAVE: 3, Kind.COMMIT: 7}


@dataclass(frozen=True, slots=True)
class Actor:
    """One who takes part: static if it has an instance. Its timeouts are short or practically endless."""

    name: str
    instance: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Move:
    """What one actor does. `borrowed` is the actor whose member id it uses, -1 for none, None for its own.

    `companions` leave with it; `by_instance` says that static members among them are named by their instance alone.
    """

    kind: Kind
    actor: int
    version: int
    borrowed: int | None = None
    later_generations: int = 0
    protocols: int = 0
    protocol_type: str = "consumer"
    companions: tuple[int, ...] = ()
    by_instance: bool = False

    def __str__(self) -> str:
        extra = "" if self.borrowed is None else f" with the id of {self.borrowed}" if self.borrowed >= 0 else " anew"
        if self.later_generations:
            extra += f", generation {self.later_generations:+d}"
        if self.protocols:
            extra += f", assignors {self.protocols}"
        if self.protocol_type != "consumer":
            extra += f", as {self.protocol_type}"
        if self.companions:
            extra += f" with {', '.join(map(str, self.companions))}"
        return f"{self.actor} {self.kind} v{self.version}{extra}{', by instance' if self.by_instance else ''}"


@dataclass(frozen=True, slots=True)
class Course:
    """A seed, those who take part, and what they do, one move a slot."""

    seed: int
    actors: tuple[Actor, ...]
    moves: tuple[Move, ...]
    slot_ms: int = SLOT_MS


def course(seed: int, slot_ms: int = SLOT_MS, *, length: int = 40, actors: int = 4) -> Course:
    """The course of a seed: always the same; with the slots its timeouts grow longer."""
    chance = Random(seed)
    cast = tuple(_actor(chance, number, slot_ms) for number in range(actors))
    return Course(seed, cast, tuple(_move(chance, cast) for _ in range(length)), slot_ms)


def _actor(chance: Random, number: int, slot_ms: int) -> Actor:
    # Every actor has timeouts of its own: two that end at the same moment may end in either order. Several that follow
    # upon each other (three at most, nearly always) still end in the second half of a slot.
    short_session = (6 + 2 * number) * slot_ms + (80 + 4 * number) * slot_ms // 100
    short_rebalance = (7 + 2 * number) * slot_ms + (82 + 4 * number) * slot_ms // 100
    return Actor(
        name=f"actor {number}",
        instance=f"i{number}" if chance.random() < 0.3 else None,
        session_timeout_ms=short_session if chance.random() < 0.3 else ENDLESS_MS,
        rebalance_timeout_ms=short_rebalance if chance.random() < 0.5 else ENDLESS_MS,
    )


def _move(chance: Random, actors: Sequence[Actor]) -> Move:
    (kind,) = chance.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))
    who = chance.randrange(len(actors))
    oldest = OLDEST.get(kind, 0)
    if actors[who].instance is not None:
        oldest = max(oldest, FIRST_WITH_INSTANCE.get(kind, 0))
    move = Move(
        kind=kind,
        actor=who,
        version=NEWEST[kind] if chance.random() < 0.7 else chance.randint(oldest, NEWEST[kind]),
        borrowed=_borrowed(chance, kind, len(actors)),
    )
    match kind:
        case Kind.JOIN:
            return _joining(chance, move)
        case Kind.LEAVE if move.version >= FIRST_WITH_INSTANCE[kind]:
            return _leaving(chance, move, len(actors))
        case Kind.SYNC | Kind.BEAT | Kind.COMMIT if chance.random() < 0.08:
            return replace(move, later_generations=chance.choice((-1, 1)))
    return move


def _joining(chance: Random, move: Move) -> Move:
    return replace(
        move,
        protocols=chance.randrange(len(PROTOCOLS)) if chance.random() < 0.15 else 0,
        protocol_type="connect" if chance.random() < 0.02 else "consumer",
    )


def _leaving(chance: Random, move: Move, actors: int) -> Move:
    companions = tuple(each for each in range(actors) if each != move.actor and chance.random() < 0.1)
    return replace(move, companions=companions, by_instance=chance.random() < 0.2)


def _borrowed(chance: Random, kind: Kind, actors: int) -> int | None:
    if kind is Kind.JOIN and chance.random() < 0.06:
        return -1
    return chance.randrange(actors) if chance.random() < 0.03 else None
