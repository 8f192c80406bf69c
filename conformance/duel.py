"""One random course played to two brokers, and what each of them made of it.

What Kafka leaves open is not compared: the order of a list, who leads when the leader is gone, who wins a tied vote.
When the brokers choose differently, the course is played again; the ids are new then, and with them the choice. What
differs in every try, and by a choice only, is told apart from a real difference.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from regroup.conformance.chance import PROTOCOLS, SLOT_MS, Course, Kind, Move, course
from regroup.conformance.expect import Differs, offsets_in
from regroup.conformance.member import Member, leave
from regroup.conformance.offsets import fetches
from regroup.conformance.story import Story, Waiting
from regroup.conformance.target import FOO, PARTITIONS, Target
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import JoinGroupResponse
from regroup.protocol.messages.offsets import OffsetFetchResponse

LOOKED_AT = 0.45
"""This far into a slot its answers are there, and no timeout has ended yet."""

RANDOM_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
"""The end of an id that nobody has been told yet."""

TRIES = 5
"""So often is a course played again when the brokers made different choices, or were late."""

Seen = dict[str, object]
"""An answer without what must differ: ids are names, lists have an order."""


@dataclass
class Slot:
    """What was to be seen at the end of one slot: the answers that came, and the group."""

    move: Move
    answers: dict[int, Seen] = field(default_factory=dict)
    group: Seen = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """The first slot in which two brokers parted: what was played, and what each of them said."""

    course: Course
    slot: int
    one: Slot
    other: Slot

    def lines(self) -> Iterator[str]:
        """The course so far, and the difference."""
        yield f"seed {self.course.seed}, move {self.slot}:"
        yield from (f"  {each}" for each in self.course.actors)
        yield from (f"  {number:3} {move}" for number, move in enumerate(self.course.moves[: self.slot + 1]))
        for name, slot in (("one", self.one), ("other", self.other)):
            yield f"  {name}: {slot.group}"
            yield from (f"  {name}: to move {number}: {seen}" for number, seen in sorted(slot.answers.items()))


@dataclass
class Outcome:
    """How a duel ended: no difference, one, or nothing but different choices that Kafka leaves open."""

    seed: int
    difference: Difference | None = None
    only_choices: bool = False


async def duel(one: Target, other: Target, played: Course, label: str, tries: int = TRIES) -> Outcome:
    """Play a course to both until they agree, or have parted in every try."""
    outcome = Outcome(played.seed)
    for attempt in range(tries):
        group = f"duel-{played.seed}-{label}-{attempt}"
        players = Player(one, f"{group}-one"), Player(other, f"{group}-other")
        mine, theirs = await asyncio.gather(*(each.play(played) for each in players))
        outcome.difference = _first_difference(played, mine, theirs)
        if outcome.difference is None:
            return Outcome(played.seed)
        outcome.only_choices = _chosen_otherwise(outcome.difference)
    return outcome


def _first_difference(played: Course, one: list[Slot], other: list[Slot]) -> Difference | None:
    for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        if mine != theirs:
            return Difference(played, number, mine, theirs)
    return None


def _chosen_otherwise(difference: Difference) -> bool:
    """Nothing differs but who leads, and who therefore sees the members."""
    return _without_choice(difference.one) == _without_choice(difference.other)


def _without_choice(slot: Slot) -> tuple[object, ...]:
    chosen = ("leader", "members", "skip_assignment", "protocol_name", "protocol")
    answers = {
        number: {name: value for name, value in seen.items() if name not in chosen}
        for number, seen in slot.answers.items()
    }
    return answers, {name: value for name, value in slot.group.items() if name not in chosen}


async def duels(one: Target, other: Target, seeds: Iterable[int], label: str, at_once: int = 30) -> list[Outcome]:
    """A duel for each seed, many side by side."""
    slots = asyncio.Semaphore(at_once)

    async def fought(seed: int) -> Outcome:
        async with slots:
            return await duel(one, other, course(seed), label)

    return await asyncio.gather(*map(fought, seeds))


class Player:
    """Plays a course to one broker."""

    def __init__(self, target: Target, group: str) -> None:
        self._story = Story(target, group)
        self._names: dict[str, str] = {"": "", "nobody": "nobody"}
        self._waiting: dict[int, Waiting[Message]] = {}
        self._members: dict[str, Member] = {}

    async def play(self, played: Course) -> list[Slot]:
        """What was to be seen, slot by slot."""
        members = [
            Member(
                self._story,
                each.name,
                instance=each.instance,
                session_timeout_ms=each.session_timeout_ms,
                rebalance_timeout_ms=each.rebalance_timeout_ms,
            )
            for each in played.actors
        ]
        self._members = {each.name: each for each in members}
        slots: list[Slot] = []
        loop = asyncio.get_running_loop()
        try:
            begun = loop.time()
            for number, move in enumerate(played.moves):
                await asyncio.sleep(begun + number * SLOT_MS / 1000 - loop.time())
                self._make(number, move, members)
                # What a slot brings is there well before its end, and what ends in between comes after this.
                await asyncio.sleep(begun + (number + LOOKED_AT) * SLOT_MS / 1000 - loop.time())
                slots.append(Slot(move, self._answered(), await self._group()))
            return slots
        finally:
            await self._story.close()

    def _make(self, number: int, move: Move, members: list[Member]) -> None:
        asked = self._asked(move, members[move.actor], members)
        if asked is not None:
            self._waiting[number] = asked

    def _asked(self, move: Move, actor: Member, members: list[Member]) -> "Waiting[Message] | None":
        member_id = None if move.borrowed is None else members[move.borrowed].id if move.borrowed >= 0 else ""
        generation = actor.generation + move.later_generations
        asked: object = None
        match move.kind:
            case Kind.JOIN:
                actor.protocol_type = move.protocol_type
                offered = dict(PROTOCOLS[move.protocols])
                asked = actor.asks_to_join(version=move.version, member_id=member_id, protocols=offered)
            case Kind.SYNC:
                shares = {each.id: f"{move.number} for {each.name}".encode() for each in members if each.id}
                asked = actor.syncs(shares, version=move.version, member_id=member_id, generation=generation)
            case Kind.BEAT:
                asked = actor.beats(version=move.version, member_id=member_id, generation=generation)
            case Kind.LEAVE:
                asked = leave(self._story, actor, version=move.version, speaker=actor.name)
            case Kind.COMMIT:
                offsets = {(FOO, move.number % PARTITIONS): move.number}
                asked = actor.commits(offsets, version=move.version, member_id=member_id, generation=generation)
            case Kind.FETCH:
                asked = fetches(self._story, None, version=move.version)
            case Kind.WAIT:
                return None
        assert isinstance(asked, Waiting)
        return asked

    def _answered(self) -> dict[int, Seen]:
        """The answers that have come since the last slot. Ids get their names in the order of the moves."""
        answered = {number: each for number, each in sorted(self._waiting.items()) if each.answered}
        for number in answered:
            del self._waiting[number]
        raw = {number: each.result_or_error() for number, each in answered.items()}
        for number, answer in raw.items():
            if isinstance(answer, JoinGroupResponse):
                self._names.setdefault(answer.member_id, f"{answered[number].speaker}, {len(self._names)}")
                # Two answers to one actor may come in either order; the one to the later move counts.
                self._members[answered[number].speaker].remembers(answer)
        return {number: self._seen(answer) for number, answer in raw.items()}

    def _seen(self, answer: Message | BaseException) -> Seen:
        if not isinstance(answer, Message):
            return {"failure": str(answer)}
        if isinstance(answer, OffsetFetchResponse):
            return {"offsets": dict(sorted(offsets_in(answer).items()))}
        return {
            name: self._named(value) if name != "error_code" else ErrorCode.named(answer_code(value))
            for name, value in msgspec.structs.asdict(answer).items()
            if name != "throttle_time_ms"
        }

    def _named(self, value: object) -> object:
        if isinstance(value, str):
            return self._names.get(value) or RANDOM_ID.sub("?", value)
        if isinstance(value, msgspec.Struct):
            return {name: self._named(each) for name, each in msgspec.structs.asdict(value).items()}
        if isinstance(value, list):
            return sorted((self._named(each) for each in value), key=repr)
        return value

    async def _group(self) -> Seen:
        try:
            group = await self._story.describe()
        except Differs as failure:
            return {"failure": str(failure)}
        members: Mapping[str, object] = {
            str(self._named(each.member_id)): (each.group_instance_id, each.member_metadata, each.member_assignment)
            for each in group.members
        }
        kept = {name: members[name] for name in sorted(members)}
        return {
            "state": group.group_state,
            "type": group.protocol_type,
            "protocol": group.protocol_data,
            "members": kept,
        }


def answer_code(value: object) -> int:
    """An error code as it stands in an answer."""
    assert isinstance(value, int)
    return value
