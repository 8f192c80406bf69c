"""Random courses of a group, each from one seed: who asks what, in which order.

A course knows nothing of any answer. Its moves name actors, not ids, so that the same course can be played to two
brokers that give different ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

SLOT_MS = 300
"""One move a slot. Timeouts end in its second half, so that both brokers see them on the same side of every move."""

PROTOCOLS: tuple[tuple[tuple[str, bytes], ...], ...] = (
    (("range", b"1"), ("roundrobin", b"1")),
    (("range", b"2"), ("roundrobin", b"1")),
    (("roundrobin", b"1"), ("range", b"1")),
    (("range", b"1"),),
    (("roundrobin", b"1"),),
)
"""Lists of assignors; the first is what nearly everyone brings nearly always."""


class Kind(StrEnum):
    JOIN = "joins"
    SYNC = "syncs"
    BEAT = "beats"
    LEAVE = "leaves"
    COMMIT = "commits"
    FETCH = "fetches"
    WAIT = "nothing happens"


WEIGHTS = {
    Kind.JOIN: 40,
    Kind.SYNC: 22,
    Kind.BEAT: 14,
    Kind.LEAVE: 7,
    Kind.COMMIT: 7,
    Kind.FETCH: 2,
    Kind.WAIT: 8,
}
NEWEST = {Kind.JOIN: 9, Kind.SYNC: 5, Kind.BEAT: 4, Kind.LEAVE: 5, Kind.COMMIT: 9, Kind.FETCH: 9, Kind.WAIT: 0}
OLDEST = {Kind.COMMIT: 7, Kind.FETCH: 2, Kind.LEAVE: 3}
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
    """What one actor does. `borrowed` is the actor whose member id it uses, -1 for none, None for its own."""

    kind: Kind
    actor: int
    version: int
    borrowed: int | None = None
    later_generations: int = 0
    protocols: int = 0
    protocol_type: str = "consumer"
    number: int = 0

    def __str__(self) -> str:
        extra = "" if self.borrowed is None else f" with the id of {self.borrowed}" if self.borrowed >= 0 else " anew"
        if self.later_generations:
            extra += f", generation {self.later_generations:+d}"
        if self.kind is Kind.JOIN and self.protocols:
            extra += f", assignors {self.protocols}"
        if self.protocol_type != "consumer":
            extra += f", as {self.protocol_type}"
        return f"{self.actor} {self.kind} v{self.version}{extra}"


@dataclass(frozen=True, slots=True)
class Course:
    """A seed, those who take part, and what they do, one move a slot."""

    seed: int
    actors: tuple[Actor, ...]
    moves: tuple[Move, ...]


def course(seed: int, length: int = 40, actors: int = 4) -> Course:
    """The course of a seed: always the same."""
    chance = Random(seed)
    cast = tuple(_actor(chance, number) for number in range(actors))
    return Course(seed, cast, tuple(_move(chance, cast, number) for number in range(length)))


def _actor(chance: Random, number: int) -> Actor:
    # Every actor has timeouts of its own: two that end at the same moment may end in either order.
    short_session = (6 + 2 * number) * SLOT_MS + 60 * SLOT_MS // 100
    short_rebalance = (7 + 2 * number) * SLOT_MS + 80 * SLOT_MS // 100
    return Actor(
        name=f"actor {number}",
        instance=f"i{number}" if chance.random() < 0.3 else None,
        session_timeout_ms=short_session if chance.random() < 0.3 else 60_000,
        rebalance_timeout_ms=short_rebalance if chance.random() < 0.5 else 60_000,
    )


def _move(chance: Random, actors: Sequence[Actor], number: int) -> Move:
    (kind,) = chance.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))
    who = chance.randrange(len(actors))
    oldest = OLDEST.get(kind, 0)
    if actors[who].instance is not None:
        oldest = max(oldest, FIRST_WITH_INSTANCE.get(kind, 0))
    return Move(
        kind=kind,
        actor=who,
        version=NEWEST[kind] if chance.random() < 0.7 else chance.randint(oldest, NEWEST[kind]),
        borrowed=_borrowed(chance, kind, len(actors)),
        later_generations=chance.choice((-1, 1))
        if kind in (Kind.SYNC, Kind.BEAT, Kind.COMMIT) and _rarely(chance)
        else 0,
        protocols=chance.randrange(len(PROTOCOLS)) if chance.random() < 0.15 else 0,
        protocol_type="connect" if chance.random() < 0.02 else "consumer",
        number=number,
    )


def _borrowed(chance: Random, kind: Kind, actors: int) -> int | None:
    if kind is Kind.JOIN and chance.random() < 0.06:
        return -1
    return chance.randrange(actors) if chance.random() < 0.03 else None


def _rarely(chance: Random) -> bool:
    return chance.random() < 0.08
