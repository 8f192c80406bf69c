"""Random courses: lists of requests to two groups, each drawn from one seed, which are played to two brokers.

A course names actors and not member ids, so that it can be played to two brokers, which assign different ids. Most of
its moves are what a proper client would send next in the state that was observed last; the brokers get the same
requests as long as they respond alike. The other moves are drawn without regard to the state: wrong generations,
borrowed member ids, broken subscriptions, deletions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Final

from regroup.conformance.differential.subscriptions import ASSIGNOR_LISTS, PROPER_LISTS
from regroup.conformance.differential.timing import COURSE_LENGTH, CourseTiming

ACTORS: Final = 4
GROUPS: Final = 2
PRODUCERS: Final = 2
RESTART_MOVE: Final = 24
"""The number of the move at which the brokers are restarted.

It is the same in all courses, so that courses played side by side share one restart.
"""
RESTARTING_COURSES: Final = 0.15
"""The share of the courses that have a restart."""
SIZES: Final = (1, 2, 2, 2, 3, 3, 4)
"""How many actors take part in a course of consumers: of a few, all have soon changed the protocol."""
REGEXES: Final = 7
"""How many regular expressions there are for subscriptions, none included."""
SHORT_SESSIONS: Final = 0.3
"""The share of the courses of the consumer protocol without a restart whose session timeouts may expire."""


class MoveKind(StrEnum):
    NEXT = "next request of a client"
    JOIN = "join"
    SYNC = "sync"
    HEARTBEAT = "heartbeat"
    LEAVE = "leave"
    COMMIT = "commit"
    FETCH = "fetch"
    DESCRIBE = "describe"
    LIST = "list"
    DELETE_OFFSETS = "delete offsets"
    DELETE_GROUPS = "delete groups"
    NEXT_OF_PRODUCER = "next request of a producer"
    INIT_PRODUCER = "init producer"
    ADD_OFFSETS = "add offsets to transaction"
    COMMIT_IN_TRANSACTION = "commit in transaction"
    END_TRANSACTION = "end transaction"
    NEXT_OF_CONSUMER = "next request of a client of the consumer protocol"
    CONSUMER_HEARTBEAT = "heartbeat of the consumer protocol"
    CONSUMER_SUBSCRIPTION = "new subscription by the consumer protocol"
    CONSUMER_LEAVE = "leave by the consumer protocol"
    CONSUMER_FETCH = "fetch with a member epoch"
    CONSUMER_DESCRIBE = "describe by the consumer protocol"
    CROSS_OVER = "change of the protocol"
    GROW_TOPIC = "growth of a topic"
    CREATE_TOPIC = "creation of a topic"
    DELETE_TOPIC = "deletion of a topic"
    RESTART = "restart of the brokers"
    WAIT = "wait"


WEIGHTS: Final = {
    MoveKind.NEXT: 52,
    MoveKind.JOIN: 4,
    MoveKind.SYNC: 2,
    MoveKind.HEARTBEAT: 3,
    MoveKind.LEAVE: 4,
    MoveKind.COMMIT: 3,
    MoveKind.FETCH: 5,
    MoveKind.DESCRIBE: 4,
    MoveKind.LIST: 3,
    MoveKind.DELETE_OFFSETS: 2,
    MoveKind.DELETE_GROUPS: 1,
    MoveKind.NEXT_OF_PRODUCER: 10,
    MoveKind.INIT_PRODUCER: 1,
    MoveKind.ADD_OFFSETS: 1,
    MoveKind.COMMIT_IN_TRANSACTION: 2,
    MoveKind.END_TRANSACTION: 1,
    MoveKind.WAIT: 2,
}

CONSUMER_WEIGHTS: Final = {
    MoveKind.NEXT_OF_CONSUMER: 62,
    MoveKind.CONSUMER_HEARTBEAT: 6,
    MoveKind.CONSUMER_SUBSCRIPTION: 8,
    MoveKind.CONSUMER_LEAVE: 5,
    MoveKind.CONSUMER_FETCH: 4,
    MoveKind.CONSUMER_DESCRIBE: 4,
    MoveKind.CROSS_OVER: 20,
    MoveKind.GROW_TOPIC: 4,
    MoveKind.CREATE_TOPIC: 1,
    MoveKind.DELETE_TOPIC: 1,
    MoveKind.JOIN: 1,
    MoveKind.SYNC: 1,
    MoveKind.HEARTBEAT: 1,
    MoveKind.LEAVE: 1,
    MoveKind.COMMIT: 6,
    MoveKind.FETCH: 2,
    MoveKind.DESCRIBE: 2,
    MoveKind.LIST: 2,
    MoveKind.DELETE_OFFSETS: 2,
    MoveKind.DELETE_GROUPS: 1,
    MoveKind.NEXT_OF_PRODUCER: 7,
    MoveKind.COMMIT_IN_TRANSACTION: 4,
    MoveKind.WAIT: 2,
}
"""The moves of courses whose members speak the consumer protocol, and change to the classic one and back."""
TOPIC_MOVES: Final = (MoveKind.GROW_TOPIC, MoveKind.CREATE_TOPIC, MoveKind.DELETE_TOPIC)
INTERVAL_SLOTS: Final = 2.6
"""The assignment interval of half of these courses in slots. It ends between an observation and the next move."""


@dataclass(frozen=True, slots=True)
class CourseActor:
    """A client of a course, which may be a member of both groups. It is static if it has an instance id.

    Its timeouts are so short that they expire within the course, or so long that they do not.
    """

    name: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True)
class CourseMove:
    """One request of a course to one of its groups.

    `version`, from 0 to 1, stands for a version that both brokers offer, `choice` for what the kind of request leaves
    open. `borrowed_from` is the number of the actor whose member id the request has; -1 means an empty member id, None
    the actor's own. The actors in `also_leaving` are named in the same LeaveGroup. With `by_instance_id` static members
    are named there without their member ids.
    """

    kind: MoveKind
    actor: int
    group: int
    version: float = 1.0
    choice: float = 0.0
    borrowed_from: int | None = None
    generation_offset: int = 0
    assignor_list: int = 0
    protocol_type: str = "consumer"
    also_leaving: tuple[int, ...] = ()
    by_instance_id: bool = False
    variant: int = 0
    """For requests of the consumer protocol: which subscription, mistake or way to leave it is."""
    regex: int = 0
    """The number of the regular expression in a subscription; 0 for none."""
    members: int = ACTORS
    """How many actors take part in the course."""

    def __str__(self) -> str:
        parts = [f"group {'AB'[self.group]}, actor {self.actor}: {self.kind}"]
        if self.borrowed_from is not None:
            parts.append(f"member id of actor {self.borrowed_from}" if self.borrowed_from >= 0 else "no member id")
        if self.generation_offset:
            parts.append(f"generation {self.generation_offset:+d}")
        if self.assignor_list:
            parts.append(f"assignor list {self.assignor_list}")
        if self.variant:
            parts.append(f"variant {self.variant}")
        if self.regex:
            parts.append(f"regular expression {self.regex}")
        if self.protocol_type != "consumer":
            parts.append(f"protocol type {self.protocol_type}")
        if self.also_leaving:
            parts.append(f"with actors {list(self.also_leaving)}")
        return ", ".join([*parts, "by instance id"] if self.by_instance_id else parts)


@dataclass(frozen=True, slots=True)
class RandomCourse:
    """The actors of a course and their moves, one move in each slot, as drawn from a seed."""

    seed: int
    actors: tuple[CourseActor, ...]
    moves: tuple[CourseMove, ...]
    slot_ms: int
    assignment_interval_ms: int | None = None
    """The assignment interval of the groups, if the members speak the consumer protocol; otherwise None."""
    consumer_session_timeout_ms: int | None = None
    """The session timeout of the groups, if it may expire; otherwise None: that of the broker."""

    @property
    def is_of_consumers(self) -> bool:
        """Whether the members speak the consumer protocol."""
        return self.assignment_interval_ms is not None

    @property
    def restarts(self) -> bool:
        """Whether the brokers are restarted in this course."""
        return any(move.kind is MoveKind.RESTART for move in self.moves)


def random_course(
    seed: int, timing: CourseTiming, *, with_restarts: bool = False, of_consumers: bool = False
) -> RandomCourse:
    """Draw the course of a seed, always the same for the same timing.

    With `of_consumers` its members speak the consumer protocol, change to the classic one and back.

    With `with_restarts` some courses restart the brokers at move `RESTART_MOVE`; without it that is an ordinary move.

    How long a restart takes is unknown, so no timeout expires in a course with one.
    """
    random = Random(seed)
    restarts = random.random() < RESTARTING_COURSES and with_restarts
    actors = _draw_actors(random, timing, can_expire=not restarts)
    weights = CONSUMER_WEIGHTS if of_consumers else WEIGHTS
    moves = [_draw_move(random, actors, weights) for _ in range(COURSE_LENGTH)]
    if restarts:
        moves[RESTART_MOVE] = CourseMove(MoveKind.RESTART, 0, 0)
    course = RandomCourse(seed, actors, tuple(moves), timing.slot_ms)
    return _of_consumers(random, course, timing) if of_consumers else course


def _of_consumers(random: Random, course: RandomCourse, timing: CourseTiming) -> RandomCourse:
    """Change a course to one of the consumer protocol: its members use this protocol, and half of them are static.

    How long a restart takes is unknown: in a course with one nothing depends on the time that has passed.
    """
    size = random.choice(SIZES)
    moves = tuple(_move_of_consumer(random, move, size) for move in course.moves)
    has_interval, has_session = random.random() < 0.5, random.random() < SHORT_SESSIONS
    session_ms = timing.consumer_session_timeout_ms if has_session else None
    interval_ms = round(INTERVAL_SLOTS * timing.slot_ms) if has_interval else 0
    if course.restarts:
        kinds = dict.fromkeys(TOPIC_MOVES, MoveKind.WAIT)
        moves = tuple(replace(each, kind=kinds.get(each.kind, each.kind), regex=0) for each in moves)
        session_ms, interval_ms = None, 0
    actors = tuple(
        replace(each, instance_id=f"i{number}" if random.random() < 0.5 else None)
        for number, each in enumerate(course.actors)
    )
    return replace(
        course,
        actors=actors,
        moves=moves,
        assignment_interval_ms=interval_ms,
        consumer_session_timeout_ms=session_ms,
    )


def _move_of_consumer(random: Random, move: CourseMove, size: int) -> CourseMove:
    """Draw the move of a course of the consumer protocol in place of this one; `size` is how many members take part.

    Most moves are about the first group, so that it migrates back and forth.
    """
    return replace(
        move,
        actor=move.actor % size,
        group=move.group if random.random() < 0.4 else 0,
        variant=random.randrange(12),
        regex=random.randrange(1, REGEXES) if random.random() < 0.25 else 0,
        members=size,
    )


def _draw_actors(random: Random, timing: CourseTiming, *, can_expire: bool) -> tuple[CourseActor, ...]:
    """Draw the actors. Each short session timeout goes to one actor; all may share a rebalance timeout."""
    short_sessions = dict(zip(random.sample(range(ACTORS), ACTORS), timing.session_timeouts_ms, strict=False))
    actors = []
    for number in range(ACTORS):
        instance_id = f"i{number}" if random.random() < 0.3 else None
        has_short_session, has_short_rebalance = random.random() < 0.6, random.random() < 0.5
        session_ms, rebalance_ms = short_sessions.get(number), random.choice(timing.rebalance_timeouts_ms)
        actors.append(
            CourseActor(
                f"actor {number}",
                instance_id,
                session_ms if session_ms and has_short_session and can_expire else timing.unreached_timeout_ms,
                rebalance_ms if has_short_rebalance and can_expire else timing.unreached_timeout_ms,
            )
        )
    return tuple(actors)


def _draw_move(random: Random, actors: tuple[CourseActor, ...], weights: Mapping[MoveKind, int]) -> CourseMove:
    (kind,) = random.choices(tuple(weights), [*weights.values()])
    actor = random.randrange(ACTORS)
    move = CourseMove(
        kind=kind,
        actor=actor,
        group=int(random.random() < 0.35),
        version=1.0 if random.random() < 0.35 else random.random(),
        choice=random.random(),
        borrowed_from=_draw_borrowed_id(random, kind),
        assignor_list=_draw_assignor_list(random, kind),
    )
    match kind:
        case MoveKind.JOIN if random.random() < 0.05:
            return replace(move, protocol_type="connect")
        case MoveKind.LEAVE:
            others = [number for number in range(ACTORS) if number != actor]
            also_leaving = tuple(number for number in others if random.random() < 0.2)
            return replace(move, also_leaving=also_leaving, by_instance_id=random.random() < 0.3)
        case MoveKind.SYNC | MoveKind.HEARTBEAT | MoveKind.COMMIT | MoveKind.COMMIT_IN_TRANSACTION:
            return replace(move, generation_offset=random.choice((-1, 1)) if random.random() < 0.3 else 0)
    return move


def _draw_borrowed_id(random: Random, kind: MoveKind) -> int | None:
    if kind in (MoveKind.NEXT, MoveKind.NEXT_OF_PRODUCER, MoveKind.NEXT_OF_CONSUMER):
        return None
    if kind is MoveKind.JOIN and random.random() < 0.3:
        return -1
    return random.randrange(ACTORS) if random.random() < 0.1 else None


def _draw_assignor_list(random: Random, kind: MoveKind) -> int:
    if kind is MoveKind.NEXT and random.random() < 0.1:
        return random.randrange(PROPER_LISTS)
    return random.randrange(len(ASSIGNOR_LISTS)) if kind is MoveKind.JOIN and random.random() < 0.5 else 0
