"""Many stories told at once to one broker, each in a group of its own."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from regroup.conformance.harness.cases import CASE_SECONDS, Case, unmet
from regroup.conformance.harness.connection import ConnectionLost
from regroup.conformance.harness.expect import Differs, NotObservable
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import Target, VersionNotSpoken
from regroup.conformance.harness.transcript import written
from regroup.protocol.exceptions import Malformed, Unencodable

AT_ONCE = 80
"""So many stories are told side by side; more would wait for a real broker's processor and not for its rules."""


class Outcome(StrEnum):
    PASSED = "pass"
    FAILED = "fail"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one story; `exchange` is the transcript of one that failed.

    `reason` is empty when it passed at once; if it passed only when it was told again, it says what was wrong at first.
    """

    behaviour: str
    outcome: Outcome
    reason: str = ""
    exchange: tuple[str, ...] = ()
    seconds: float = 0.0


AGAIN_AT_ONCE = 10
"""Stories that failed are told once more, a few at a time: where a broker is busy, short sessions end too soon."""


@dataclass
class Plan:
    """How to run: `label` makes the group ids of this run its own, stories longer than `longest_seconds` are left."""

    label: str
    at_once: int = AT_ONCE
    longest_seconds: float = 120.0
    heard: Callable[[Verdict], None] = field(default=lambda verdict: None)


async def run(target: Target, cases: Iterable[Case], plan: Plan) -> list[Verdict]:
    """A verdict for each case, in their order. Those that need a restart come last and share one.

    One that failed and passes when it is told again (long ones are not) has passed, and `reason` says how it failed.
    """
    cases = list(cases)
    slots = asyncio.Semaphore(plan.at_once)
    calm = [each for each in cases if not each.restarts]
    verdicts = await _all_told(target, calm, plan, slots, None)
    verdicts |= await _told_again(target, calm, verdicts, plan)
    restarting = [each for each in cases if each.restarts]
    shared = SharedRestart(len(restarting), target) if target.restart is not None else None
    verdicts |= await _all_told(target, restarting, plan, asyncio.Semaphore(max(1, len(restarting))), shared)
    return [verdicts[each.id] for each in cases]


async def _told_again(
    target: Target, cases: list[Case], first: Mapping[str, Verdict], plan: Plan
) -> dict[str, Verdict]:
    """Those that failed at first and pass now."""
    failed = [each for each in cases if first[each.id].outcome is Outcome.FAILED and each.seconds <= CASE_SECONDS]
    again = replace(plan, label=f"{plan.label}-again")
    verdicts = await _all_told(target, failed, again, asyncio.Semaphore(AGAIN_AT_ONCE), None)
    passed = [each for each in verdicts.values() if each.outcome is Outcome.PASSED]
    return {
        each.behaviour: replace(each, reason=f"when told again; at first {first[each.behaviour].reason}")
        for each in passed
    }


async def _all_told(
    target: Target, cases: list[Case], plan: Plan, slots: asyncio.Semaphore, restart: "SharedRestart | None"
) -> dict[str, Verdict]:
    async def told(case: Case) -> Verdict:
        async with slots:
            verdict = await verdict_on(target, case, plan, restart)
        plan.heard(verdict)
        return verdict

    return {each.behaviour: each for each in await asyncio.gather(*map(told, cases))}


async def verdict_on(target: Target, case: Case, plan: Plan, restart: "SharedRestart | None" = None) -> Verdict:
    """Tell one story to its end."""
    obstacles = [*unmet(target.settings, case.needs)]
    if case.seconds > plan.longest_seconds:
        obstacles.append(f"takes up to {case.seconds:g} s, which is longer than this run allows (--longest)")
    if obstacles:
        if restart:
            await restart.goes_without_one()
        return Verdict(case.id, Outcome.NOT_OBSERVABLE, "; ".join(obstacles))
    story = Story(target, f"{case.id}-{plan.label}", restart.wait if restart else None)
    try:
        outcome, reason = await _outcome(case, story)
    finally:
        if restart:
            await restart.goes_without_one(story)
        await story.close()
    exchange = tuple(written(story.exchanges)) if outcome is Outcome.FAILED else ()
    return Verdict(case.id, outcome, reason, exchange, story.now())


async def _outcome(case: Case, story: Story) -> tuple[Outcome, str]:
    try:
        async with asyncio.timeout(case.seconds):
            await case.tell(story)
    except (NotObservable, VersionNotSpoken) as reason:
        return Outcome.NOT_OBSERVABLE, str(reason)
    except Unencodable as reason:
        return Outcome.NOT_OBSERVABLE, f"the broker's newest version cannot carry the request: {reason}"
    except TimeoutError:
        return Outcome.FAILED, f"the story was not over after {case.seconds:g} s"
    except (Differs, ConnectionLost, Malformed, OSError) as difference:
        return Outcome.FAILED, str(difference)
    except LookupError as error:
        return Outcome.FAILED, f"an answer lacks what it should hold ({error!r})"
    return Outcome.PASSED, ""


class SharedRestart:
    """One restart for all stories that need one: it happens when each of them waits for it or is over."""

    def __init__(self, stories: int, target: Target) -> None:
        self._expected = stories
        self._target = target
        self._arrived: list[Story] = []
        self._done = asyncio.Event()

    async def wait(self, story: Story) -> None:
        """Until the broker is back."""
        self._arrived.append(story)
        await self._restart_if_all_are_here()
        await self._done.wait()

    async def goes_without_one(self, story: Story | None = None) -> None:
        """A story ended; if it never came to its restart, nobody waits for it any longer."""
        if story is None or story not in self._arrived:
            self._expected -= 1
            await self._restart_if_all_are_here()

    async def _restart_if_all_are_here(self) -> None:
        if len(self._arrived) == self._expected > 0 and not self._done.is_set():
            assert self._target.restart is not None
            await self._target.restart()
            await self._target.come_to_know(self._target.settings)
            self._done.set()
