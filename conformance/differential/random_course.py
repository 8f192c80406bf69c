"""Random courses: which member of a group sends which request, in which order, each course from one seed.

A course does not depend on responses. Its moves name actors and not member ids, so that the same course can be played
to two brokers, which assign different member ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import NamedTuple

from regroup.conformance.harness.story import subscription_of
from regroup.conformance.harness.target import BAR_TOPIC, FOO_TOPIC

SLOT_MS = 300
"""The time from move to move. Timeouts expire late in a slot, so that both brokers see them on the same side of every
move; a busy machine needs longer slots."""

UNREACHED_TIMEOUT_MS = 300_000
"""A timeout that is longer than any course."""

ASSIGNOR_LISTS: tuple[tuple[tuple[str, bytes], ...], ...] = (
    (("range", subscription_of(BAR_TOPIC)), ("roundrobin", subscription_of(BAR_TOPIC))),
    (("range", subscription_of(FOO_TOPIC, BAR_TOPIC)), ("roundrobin", subscription_of(BAR_TOPIC))),
    (("roundrobin", subscription_of(BAR_TOPIC)), ("range", subscription_of(BAR_TOPIC))),
    (("range", b"no subscription"), ("roundrobin", subscription_of(FOO_TOPIC))),
    (("range", subscription_of(BAR_TOPIC)),),
    (("roundrobin", subscription_of(BAR_TOPIC)),),
)
"""Assignors with their metadata; most moves use the first list."""


class MoveKind(StrEnum):
    JOIN = "join"
    SYNC = "sync"
    HEARTBEAT = "heartbeat"
    LEAVE = "leave"
    COMMIT = "commit"
    FETCH = "fetch"
    DELETE_OFFSET = "delete offset"
    DELETE_GROUP = "delete group"
    WAIT = "wait"


class MoveSpec(NamedTuple):
    """The API of a kind of move, its weight in the draw, and its versions."""

    api: str
    weight: int
    newest_version: int
    oldest_version: int = 0
    first_version_with_instance_id: int = 0


# Kafka 4 does not offer OffsetCommit before v2, and OffsetFetch cannot request all topics before v2.
MOVE_SPECS = {
    MoveKind.JOIN: MoveSpec("JoinGroup", 40, 9, first_version_with_instance_id=5),
    MoveKind.SYNC: MoveSpec("SyncGroup", 22, 5, first_version_with_instance_id=3),
    MoveKind.HEARTBEAT: MoveSpec("Heartbeat", 13, 4, first_version_with_instance_id=3),
    MoveKind.LEAVE: MoveSpec("LeaveGroup", 7, 5, first_version_with_instance_id=3),
    MoveKind.COMMIT: MoveSpec("OffsetCommit", 7, 9, oldest_version=2, first_version_with_instance_id=7),
    MoveKind.FETCH: MoveSpec("OffsetFetch", 2, 9, oldest_version=2),
    MoveKind.DELETE_OFFSET: MoveSpec("OffsetDelete", 2, 0),
    MoveKind.DELETE_GROUP: MoveSpec("DeleteGroups", 1, 2),
    MoveKind.WAIT: MoveSpec("", 6, 0),
}


@dataclass(frozen=True, slots=True)
class CourseActor:
    """A member of the group, static if it has an instance id. Its timeouts are short, or are not reached."""

    name: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True)
class CourseMove:
    """One request of one actor.

    `borrowed_from` is the actor whose member id it has, -1 for an empty one, None for the actor's own. The actors in
    `also_leaving` are named in the same LeaveGroup, `by_instance_id` without member ids if they are static.
    """

    kind: MoveKind
    actor: int
    version: int
    borrowed_from: int | None = None
    generation_offset: int = 0
    assignor_list: int = 0
    protocol_type: str = "consumer"
    also_leaving: tuple[int, ...] = ()
    by_instance_id: bool = False

    def __str__(self) -> str:
        parts = [f"actor {self.actor}: {self.kind} v{self.version}"]
        if self.borrowed_from is not None:
            parts.append(f"member id of actor {self.borrowed_from}" if self.borrowed_from >= 0 else "no member id")
        if self.generation_offset:
            parts.append(f"generation {self.generation_offset:+d}")
        if self.assignor_list:
            parts.append(f"assignor list {self.assignor_list}")
        if self.protocol_type != "consumer":
            parts.append(f"protocol type {self.protocol_type}")
        if self.also_leaving:
            parts.append(f"with actors {list(self.also_leaving)}")
        return ", ".join([*parts, "by instance id"] if self.by_instance_id else parts)


@dataclass(frozen=True, slots=True)
class RandomCourse:
    """The actors of a seed and their moves, one move in each slot."""

    seed: int
    actors: tuple[CourseActor, ...]
    moves: tuple[CourseMove, ...]
    slot_ms: int = SLOT_MS


def random_course(seed: int, slot_ms: int = SLOT_MS, *, length: int = 40, actors: int = 4) -> RandomCourse:
    """The course of a seed, always the same; its timeouts are multiples of the slot."""
    random = Random(seed)
    drawn_actors = tuple(_draw_actor(random, number, slot_ms) for number in range(actors))
    return RandomCourse(seed, drawn_actors, tuple(_draw_move(random, drawn_actors) for _ in range(length)), slot_ms)


def _draw_actor(random: Random, number: int, slot_ms: int) -> CourseActor:
    # Every actor has timeouts of its own: two that expire at the same time may do so in either order. Several that
    # follow each other (three at most, nearly always) still expire in the second half of a slot.
    short_session_ms = (6 + 2 * number) * slot_ms + (80 + 4 * number) * slot_ms // 100
    short_rebalance_ms = (7 + 2 * number) * slot_ms + (82 + 4 * number) * slot_ms // 100
    return CourseActor(
        name=f"actor {number}",
        instance_id=f"i{number}" if random.random() < 0.3 else None,
        session_timeout_ms=short_session_ms if random.random() < 0.3 else UNREACHED_TIMEOUT_MS,
        rebalance_timeout_ms=short_rebalance_ms if random.random() < 0.5 else UNREACHED_TIMEOUT_MS,
    )


def _draw_move(random: Random, actors: Sequence[CourseActor]) -> CourseMove:
    (kind,) = random.choices(tuple(MOVE_SPECS), [spec.weight for spec in MOVE_SPECS.values()])
    spec, actor = MOVE_SPECS[kind], random.randrange(len(actors))
    oldest, newest = spec.oldest_version, spec.newest_version
    if actors[actor].instance_id is not None:
        oldest = max(oldest, spec.first_version_with_instance_id)
    move = CourseMove(
        kind=kind,
        actor=actor,
        version=newest if random.random() < 0.7 else random.randint(oldest, newest),
        borrowed_from=_draw_borrowed_id(random, kind, len(actors)),
    )
    match kind:
        case MoveKind.JOIN:
            return replace(
                move,
                assignor_list=random.randrange(len(ASSIGNOR_LISTS)) if random.random() < 0.15 else 0,
                protocol_type="connect" if random.random() < 0.02 else "consumer",
            )
        case MoveKind.LEAVE if move.version >= spec.first_version_with_instance_id:
            others = [number for number in range(len(actors)) if number != actor]
            also_leaving = tuple(number for number in others if random.random() < 0.1)
            return replace(move, also_leaving=also_leaving, by_instance_id=random.random() < 0.2)
        case MoveKind.SYNC | MoveKind.HEARTBEAT | MoveKind.COMMIT if random.random() < 0.08:
            return replace(move, generation_offset=random.choice((-1, 1)))
    return move


def _draw_borrowed_id(random: Random, kind: MoveKind, actors: int) -> int | None:
    if kind is MoveKind.JOIN and random.random() < 0.06:
        return -1
    return random.randrange(actors) if random.random() < 0.03 else None
