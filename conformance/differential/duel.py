"""One random course played to two brokers, and whether they made the same of it.

The order of a list is not compared. Who leads when the leader is gone is for Kafka's hash map of random ids to say:
an emulator that can be told (a `Guide`) hears what the first broker chose, and the comparison goes on. Elsewhere the
course is played again when the choices differ; the ids are new then, and with them the choice.

A course is played again, too, when the brokers differ: only what differs in every try is a difference. What differed
once may have been a race, of a request against a timeout, and is counted. A try in which a player was late proves
nothing unless the brokers agree.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from regroup.conformance.differential.player import Guide, Player, Slot
from regroup.conformance.differential.random_course import SLOT_MS, Course, course
from regroup.conformance.harness.target import Target

TRIES = 4
"""So often at most is a course played in time."""

LATE_TRIES = 8
"""So often at most is it played too late."""

AT_ONCE = 30
"""Courses side by side: more, and a slow machine answers late."""


@dataclass(frozen=True)
class Difference:
    """The first slot in which two brokers parted: what was played, and what each of them said."""

    course: Course
    slot: int
    one: Slot
    other: Slot
    late: bool = False
    """A player was so late that this may be its fault."""

    @property
    def is_choice(self) -> bool:
        """Nothing differs but who leads, and who therefore sees the members."""
        return _without_choice(self.one) == _without_choice(self.other)

    def lines(self) -> Iterator[str]:
        """The course so far, and the difference."""
        yield f"seed {self.course.seed}, move {self.slot}:"
        yield from (f"  {each}" for each in self.course.actors)
        yield from (f"  {number:3} {move}" for number, move in enumerate(self.course.moves[: self.slot + 1]))
        for name, slot in (("one", self.one), ("other", self.other)):
            yield f"  {name}: {slot.group}"
            yield from (f"  {name}: to move {number}: {seen}" for number, seen in sorted(slot.answers.items()))


@dataclass
class DuelOutcome:
    """How a duel ended. `parted` holds what differed, a difference for each try but one that found none."""

    seed: int
    agreed: bool = False
    parted: list[Difference] = field(default_factory=list)

    @property
    def difference(self) -> Difference | None:
        """What differed in every try, if it was more than a choice that Kafka leaves open."""
        real = [each for each in self._in_time if not each.is_choice]
        return real[-1] if real and not self.agreed and not self.too_late else None

    @property
    def only_choices(self) -> bool:
        """The brokers never chose alike, and differed in nothing else."""
        return not self.agreed and not self.too_late and self.difference is None

    @property
    def too_late(self) -> bool:
        """The brokers never agreed, and a player was late in too many tries: this machine is too busy to say more."""
        return self.is_over and not self.agreed and len(self._in_time) < TRIES

    @property
    def is_over(self) -> bool:
        """Another try would tell nothing new."""
        return self.agreed or len(self._in_time) == TRIES or len(self.parted) - len(self._in_time) == LATE_TRIES

    @property
    def _in_time(self) -> list[Difference]:
        return [each for each in self.parted if not each.late]


def _without_choice(slot: Slot) -> tuple[object, ...]:
    chosen = ("leader", "members", "skip_assignment")
    answers = {
        number: {name: value for name, value in seen.items() if name not in chosen}
        for number, seen in slot.answers.items()
    }
    return answers, slot.group


async def duel(one: Target, other: Target, played: Course, label: str, *, guide: Guide | None = None) -> DuelOutcome:
    """Play a course to both until they agree, or have parted often enough. `guide` steers the other broker."""
    outcome = DuelOutcome(played.seed)
    while not outcome.is_over:
        group = f"duel-{played.seed}-{label}-{len(outcome.parted)}"
        difference = await _played_once(one, other, played, group, guide)
        if difference is None:
            outcome.agreed = True
        else:
            outcome.parted.append(difference)
    return outcome


async def _played_once(
    one: Target, other: Target, played: Course, group: str, guide: Guide | None
) -> Difference | None:
    first, second = Player(one, f"{group}-one"), Player(other, f"{group}-other")
    if guide is None:
        mine, theirs = await asyncio.gather(first.play(played), second.play(played))
    else:
        mine = await first.play(played)
        second = Player(other, f"{group}-other", guide, next_leaders(mine))
        theirs = await second.play(played, before=mine)
    late = first.is_late or second.is_late
    for number, (this, that) in enumerate(zip(mine, theirs, strict=False)):  # the second may have stopped
        if this != that:
            return Difference(played, number, this, that, late)
    return None


def next_leaders(slots: Sequence[Slot]) -> list[str]:
    """For each slot the name of the member that leads the next generation to be told; empty where none follows."""
    news: list[str] = []
    told = 0
    for slot in slots:
        begun = [
            (generation, str(seen["leader"]))
            for seen in slot.answers.values()
            if seen.get("error_code") == "NONE"
            and isinstance(generation := seen.get("generation_id"), int)
            and generation > told
        ]
        told = max([told, *(generation for generation, _ in begun)])
        news.append(min(begun)[1] if begun else "")
    coming = ""
    for number in reversed(range(len(news))):
        news[number] = coming = news[number] or coming
    return news


async def duels(
    one: Target,
    other: Target,
    seeds: Iterable[int],
    label: str,
    *,
    guide: Guide | None = None,
    at_once: int = AT_ONCE,
    slot_ms: int = SLOT_MS,
) -> list[DuelOutcome]:
    """A duel for each seed, many side by side, out of step so that not all move in the same moment."""
    slots = asyncio.Semaphore(at_once)

    async def fought(number: int, seed: int) -> DuelOutcome:
        async with slots:
            await asyncio.sleep(number % at_once / at_once * slot_ms / 1000)
            return await duel(one, other, course(seed, slot_ms), label, guide=guide)

    return await asyncio.gather(*(fought(number, seed) for number, seed in enumerate(seeds)))
