"""Plays a random course to one broker, and keeps what was to be seen."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from regroup.conformance.differential.normalise import OF_MOVE, Names, Seen, given_id
from regroup.conformance.differential.random_course import PROTOCOLS, Actor, Course, Kind, Move
from regroup.conformance.harness.expect import Differs
from regroup.conformance.harness.member import Member, leave
from regroup.conformance.harness.offsets import fetches, forgets
from regroup.conformance.harness.pending import Waiting
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import FOO, PARTITIONS, Target
from regroup.protocol.message import Message
from regroup.protocol.messages.describe import DeleteGroupsRequest, DeleteGroupsResponse, DescribedGroup
from regroup.protocol.messages.group import JoinGroupResponse, MemberIdentity

LOOKED_AT = 0.45
"""This far into a slot its answers are there, and no timeout has ended yet."""

LATE = 0.2
"""Who is later with a move or an answer than this part of a slot may be on the wrong side of a timeout."""


class Guide(Protocol):
    """A broker that can be told what to choose where Kafka leaves the choice to chance."""

    def favours(self, group_id: str, member_id: str) -> None:
        """If the group needs another leader, it shall be this member."""


@dataclass
class Slot:
    """What was to be seen at the end of one slot: the answers that came, by their moves, and the group."""

    move: Move
    answers: dict[int, Seen] = field(default_factory=dict)
    group: Seen = field(default_factory=dict)


class Player:
    """One course, one broker, one group. `leaders` are the names of those who shall lead next, slot by slot."""

    def __init__(self, target: Target, group: str, guide: Guide | None = None, leaders: Sequence[str] = ()) -> None:
        self._story = Story(target, group)
        self._guide = guide
        self._leaders = leaders
        self._names = Names(group)
        self._waiting: dict[int, Waiting[Any]] = {}
        self._members: list[Member] = []
        self.is_late = False
        """Some request was sent late, or what came of it was seen late."""

    async def play(self, played: Course, before: Sequence[Slot] = ()) -> list[Slot]:
        """What was to be seen, slot by slot. It ends where it no longer is what another player saw `before`."""
        self._members = [self._member(each) for each in played.actors]
        slots: list[Slot] = []
        slot = played.slot_ms / 1000
        starts = asyncio.get_running_loop().time()
        try:
            for number, move in enumerate(played.moves):
                await self._sleep_until(starts, slot)
                if (asked := self._asked(number, move)) is not None:
                    self._waiting[number] = asked
                await self._sleep_until(starts + LOOKED_AT * slot, slot)
                slots.append(await self._look(number, move))
                self._note_lateness(starts + LOOKED_AT * slot, slot)
                if before and slots[number] != before[number]:
                    break
                self._hint(number + 1)
                starts += slot
        finally:
            await self._story.close()
        return slots

    def _member(self, actor: Actor) -> Member:
        return Member(
            self._story,
            actor.name,
            instance=actor.instance,
            session_timeout_ms=actor.session_timeout_ms,
            rebalance_timeout_ms=actor.rebalance_timeout_ms,
        )

    async def _sleep_until(self, moment: float, slot: float) -> None:
        await asyncio.sleep(moment - asyncio.get_running_loop().time())
        self._note_lateness(moment, slot)

    def _note_lateness(self, moment: float, slot: float) -> None:
        self.is_late |= asyncio.get_running_loop().time() - moment > LATE * slot

    def _hint(self, slot: int) -> None:
        """Whoever shall lead next is known by name before it is needed: it has joined in an earlier slot."""
        if self._guide and slot < len(self._leaders) and (leader := self._names.id_of(self._leaders[slot])):
            self._guide.favours(self._story.group, leader)

    # Moving

    def _asked(self, number: int, move: Move) -> Waiting[Any] | None:
        actor, borrowed = self._members[move.actor], self._borrowed_id(move)
        match move.kind:
            case Kind.JOIN:
                actor.protocol_type, offered = move.protocol_type, dict(PROTOCOLS[move.protocols])
                return actor.asks_to_join(version=move.version, member_id=borrowed, protocols=offered)
            case Kind.SYNC:
                shares = {each.id: f"{number} for {each.name}".encode() for each in self._members if each.id}
                generation = actor.generation + move.later_generations
                return actor.syncs(shares, version=move.version, member_id=borrowed, generation=generation)
            case Kind.BEAT:
                generation = actor.generation + move.later_generations
                return actor.beats(version=move.version, member_id=borrowed, generation=generation)
            case Kind.LEAVE:
                return leave(self._story, *self._leaving(move), version=move.version, speaker=actor.name)
            case Kind.COMMIT:
                generation = actor.generation + move.later_generations
                offsets = {(FOO, number % PARTITIONS): number}
                return actor.commits(offsets, version=move.version, member_id=borrowed, generation=generation)
            case Kind.FETCH:
                return fetches(self._story, None, version=move.version)
            case Kind.FORGET:
                return forgets(self._story, (FOO, number % PARTITIONS))
            case Kind.DELETE:
                request = DeleteGroupsRequest(groups_names=[self._story.group])
                return self._story.ask(request, DeleteGroupsResponse, version=move.version)
        return None

    def _borrowed_id(self, move: Move) -> str | None:
        if move.borrowed is None:
            return None
        return self._members[move.borrowed].id if move.borrowed >= 0 else ""

    def _leaving(self, move: Move) -> list[MemberIdentity]:
        leaving = []
        for number in (move.actor, *move.companions):
            member = self._members[number]
            member_id = self._borrowed_id(move) if number == move.actor else None
            if move.by_instance and member.instance is not None:
                member_id = ""
            member_id = member.id if member_id is None else member_id
            leaving.append(MemberIdentity(member_id=member_id, group_instance_id=member.instance))
        return leaving

    # Looking

    async def _look(self, number: int, move: Move) -> Slot:
        """To look at the group takes as long as any request that was sent before, so it comes first."""
        group = await self._described()
        answers = {}
        for asked in [asked for asked, each in sorted(self._waiting.items()) if each.answered]:
            waited = self._waiting.pop(asked)
            answers[asked] = waited.result_or_error()
            self._take_in(asked, waited.speaker, answers[asked])
        return Slot(
            move,
            {asked: self._names.answer(answer) for asked, answer in answers.items()},
            self._seen(group, f"{self._members[move.actor].name}{OF_MOVE}{number}"),
        )

    def _take_in(self, asked: int, speaker: str, answer: Message | BaseException) -> None:
        self._names.give(given_id(answer), f"{speaker}{OF_MOVE}{asked}")
        # Two answers to one actor may come in either order; the one to the later move counts.
        if isinstance(answer, JoinGroupResponse):
            self._members[_actor_number(speaker)].remembers(answer)

    async def _described(self) -> DescribedGroup | Differs:
        try:
            return await self._story.describe()
        except Differs as failure:
            return failure

    def _seen(self, group: DescribedGroup | Differs, newcomer: str) -> Seen:
        """Who is shown and has no name yet has come with this slot's move."""
        if isinstance(group, Differs):
            return {"failure": str(group)}
        for each in group.members:
            self._names.give(each.member_id, newcomer)
        return self._names.group(group)


def _actor_number(speaker: str) -> int:
    return int(speaker.removeprefix("actor "))
