"""Runs many stories side by side against one broker, each in a group of its own."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from regroup.conformance.harness.broker_under_test import ConformanceTarget, VersionNotOffered
from regroup.conformance.harness.cases import DEFAULT_CASE_TIMEOUT_S, ConformanceCase, unmet_requirements
from regroup.conformance.harness.expect import ExpectationFailed, NotObservable
from regroup.conformance.harness.remedy import Remedy
from regroup.conformance.harness.shared_restart import SharedRestart
from regroup.conformance.harness.story import StoryContext
from regroup.conformance.run.transcript import transcript_lines
from regroup.protocol.client import ConnectionLost
from regroup.protocol.exceptions import Malformed, Unencodable

DEFAULT_STORIES_AT_ONCE = 80
"""How many stories run side by side.

With more, they wait for the processor of a real broker instead of for its timers.
"""

RETRIED_STORIES_AT_ONCE = 10
"""How many failed stories run side by side when they are run once more.

They are fewer, since on a busy broker short sessions may expire too soon.
"""


class StoryOutcome(StrEnum):
    PASSED = "pass"
    FAILED = "fail"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True, slots=True)
class StoryVerdict:
    """The outcome of one story, and why; the transcript is that of a failed one.

    A story that passes has a reason only if it failed at first and passed on the second run.
    """

    behaviour: str
    outcome: StoryOutcome
    reason: str = ""
    transcript: tuple[str, ...] = ()
    duration_s: float = 0.0
    remedy: Remedy | None = None
    """The settings or options that would show a behaviour that was not observable; None if none are known."""


@dataclass
class StoryRunOptions:
    """Options of one run. Its label keeps its group ids apart from those of other runs."""

    label: str
    at_once: int = DEFAULT_STORIES_AT_ONCE
    max_case_timeout_s: float = 120.0


async def run_stories(
    target: ConformanceTarget, cases: Iterable[ConformanceCase], options: StoryRunOptions
) -> list[StoryVerdict]:
    """Run all stories and return their verdicts in the order of the cases.

    Stories that fail are run again, unless they take long. Those that need a restart come last and share one.
    """
    cases = list(cases)
    ordinary = [case for case in cases if not case.needs_restart]
    restarting = [case for case in cases if case.needs_restart]
    verdicts = await _run_all(target, ordinary, options)
    verdicts |= await _run_failed_again(target, ordinary, options, verdicts)
    restart = SharedRestart(len(restarting), target.restart_and_refresh) if target.restart is not None else None
    # All of them have to reach the restart, so all of them run at once.
    verdicts |= await _run_all(target, restarting, replace(options, at_once=max(1, len(restarting))), restart)
    return [verdicts[case.id] for case in cases]


async def _run_failed_again(
    target: ConformanceTarget,
    cases: Iterable[ConformanceCase],
    options: StoryRunOptions,
    verdicts: Mapping[str, StoryVerdict],
) -> dict[str, StoryVerdict]:
    """Run the stories that failed once more, and return the new verdicts on those that pass."""
    failed = [case for case in cases if verdicts[case.id].outcome is StoryOutcome.FAILED]
    short = [case for case in failed if case.timeout_s <= DEFAULT_CASE_TIMEOUT_S]
    options = replace(options, label=f"{options.label}-again", at_once=RETRIED_STORIES_AT_ONCE)
    return {
        name: replace(verdict, reason=f"passed on the second run; the first one failed: {verdicts[name].reason}")
        for name, verdict in (await _run_all(target, short, options)).items()
        if verdict.outcome is StoryOutcome.PASSED
    }


async def _run_all(
    target: ConformanceTarget,
    cases: Iterable[ConformanceCase],
    options: StoryRunOptions,
    restart: SharedRestart | None = None,
) -> dict[str, StoryVerdict]:
    slots = asyncio.Semaphore(options.at_once)

    async def run(case: ConformanceCase) -> StoryVerdict:
        async with slots:
            return await run_story(target, case, options, restart)

    return {verdict.behaviour: verdict for verdict in await asyncio.gather(*map(run, cases))}


async def run_story(
    target: ConformanceTarget,
    case: ConformanceCase,
    options: StoryRunOptions,
    restart: SharedRestart | None = None,
) -> StoryVerdict:
    """Run one story and return its verdict."""
    if obstacles := [*_obstacles(target, case, options)]:
        if restart:
            await restart.withdraw(case.id)
        reason, remedy = "; ".join(text for text, _ in obstacles), Remedy.all_of(each for _, each in obstacles)
        return StoryVerdict(case.id, StoryOutcome.NOT_OBSERVABLE, reason, remedy=remedy)
    story = StoryContext(target, f"{case.id}-{options.label}", restart.wait if restart else None)
    try:
        verdict = await _verdict(case, story)
    finally:
        if restart:
            await restart.withdraw(story)
        await story.close()
    transcript = tuple(transcript_lines(story.exchanges)) if verdict.outcome is StoryOutcome.FAILED else ()
    return replace(verdict, transcript=transcript, duration_s=story.elapsed_s())


def _obstacles(
    target: ConformanceTarget, case: ConformanceCase, options: StoryRunOptions
) -> Iterator[tuple[str, Remedy]]:
    """The reasons why a story is not run at all, each with the Remedy against it."""
    yield from unmet_requirements(target.settings, case.required_settings)
    if case.timeout_s > options.max_case_timeout_s:
        needed = Remedy(options=(f"--longest {case.timeout_s:g}",))
        yield f"takes up to {case.timeout_s:g} s, longer than this run allows (--longest)", needed


async def _verdict(case: ConformanceCase, story: StoryContext) -> StoryVerdict:
    timeout_s = case.timeout_s + story.waiting_allowance_s
    try:
        async with asyncio.timeout(timeout_s):
            await case.story(story)
    except NotObservable as reason:
        return StoryVerdict(case.id, StoryOutcome.NOT_OBSERVABLE, str(reason), remedy=reason.remedy)
    except VersionNotOffered as reason:
        return StoryVerdict(case.id, StoryOutcome.NOT_OBSERVABLE, str(reason))
    except Unencodable as error:
        text = f"the broker's newest version cannot carry the request: {error}"
        return StoryVerdict(case.id, StoryOutcome.NOT_OBSERVABLE, text)
    except TimeoutError:
        return StoryVerdict(case.id, StoryOutcome.FAILED, f"the story took longer than {timeout_s:g} s")
    except (ExpectationFailed, ConnectionLost, Malformed, OSError) as failure:
        return StoryVerdict(case.id, StoryOutcome.FAILED, str(failure))
    except LookupError as error:
        return StoryVerdict(case.id, StoryOutcome.FAILED, f"the response lacks an expected element ({error!r})")
    return StoryVerdict(case.id, StoryOutcome.PASSED)
