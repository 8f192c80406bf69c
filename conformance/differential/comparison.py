"""What many duels came to, for people and for programs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from regroup.conformance.differential.duel import DuelOutcome
from regroup.conformance.differential.random_course import API_OF, course

TELLING = ("group.initial.rebalance.delay.ms", "group.max.size")
"""Settings without which nobody could tell what was compared."""

EXPLANATION = """Random courses of 40 moves by four members, static and dynamic, versions mixed; after each move every
answer that came is compared, and the group as DescribeGroups shows it. Where Kafka leaves a choice open, its choice is
told to the emulator, and the comparison goes on. Whatever differs is played again: what differs in every try is a
difference, the rest are taken for races of a request against a timeout, of which a busy machine has many (a difference
that shows only now and then would hide among them). To play them:
`regroup conformance --bootstrap HOST:PORT --against emulator --seeds 1-500`.
"""


class Comparison(msgspec.Struct, frozen=True):
    """Random courses, played to two brokers under one set of settings."""

    one: str
    other: str
    date: str
    settings: dict[str, str]
    courses: int
    agreed_at_once: int
    agreed_again: int
    """They parted, and agreed when the course was played again: a race of a request against a timeout, most likely."""
    parted_by_choice: int
    """They differed in every try, but only in a choice that Kafka leaves open."""
    too_late: int
    """They differed, and a player was late in every try: the machine was too busy to tell."""
    differ: list[list[str]]
    """Of each course in which they differed in every try: what was played, and where they parted."""
    requests: dict[str, dict[int, int]]
    """How many requests a broker was asked, by API and version."""


def comparison(
    one: str, other: str, date: str, settings: Mapping[str, str], outcomes: Sequence[DuelOutcome]
) -> Comparison:
    """Count the outcomes."""
    return Comparison(
        one=one,
        other=other,
        date=date,
        settings={name: settings[name] for name in TELLING if name in settings},
        courses=len(outcomes),
        agreed_at_once=sum(each.agreed and not each.parted for each in outcomes),
        agreed_again=sum(each.agreed and bool(each.parted) for each in outcomes),
        parted_by_choice=sum(each.only_choices for each in outcomes),
        too_late=sum(each.too_late for each in outcomes),
        differ=[[*each.difference.lines()] for each in outcomes if each.difference],
        requests=_requests(each.seed for each in outcomes),
    )


def _requests(seeds: Iterable[int]) -> dict[str, dict[int, int]]:
    moves = Counter(
        (API_OF[move.kind], move.version) for seed in seeds for move in course(seed).moves if move.kind in API_OF
    )
    counted: dict[str, dict[int, int]] = {name: {} for name in API_OF.values()}
    for (name, version), count in sorted(moves.items()):
        counted[name][version] = count
    return counted


def as_text(told: Comparison) -> Iterator[str]:
    """Every difference, then the sums."""
    for lines in told.differ:
        yield from lines
        yield ""
    asked = sum(sum(versions.values()) for versions in told.requests.values())
    yield f"{told.courses} courses of {told.one} and {told.other} compared, {asked} requests to each:"
    yield f"{told.agreed_at_once:>6} agree"
    yield f"{told.agreed_again:>6} agree when they are played again"
    yield f"{told.parted_by_choice:>6} part by a choice that Kafka leaves open, every time"
    yield f"{told.too_late:>6} say nothing: this machine was too busy to play them in time"
    yield f"{len(told.differ):>6} differ"


def as_json(told: Comparison) -> str:
    """For programs; `msgspec.json.decode(text, type=Comparison)` reads it back."""
    return msgspec.json.format(msgspec.json.encode(told)).decode()


def section(found: Sequence[Comparison]) -> Iterator[str]:
    """What the page of conformance says about them."""
    yield "## By chance"
    yield ""
    yield EXPLANATION
    yield "| compared | settings | on | courses | agree at once | when played again | by choice | too late | differ |"
    yield "|---|---|---|--:|--:|--:|--:|--:|--:|"
    for each in found:
        settings = ", ".join(f"`{name}={value}`" for name, value in each.settings.items())
        agreed = (each.agreed_at_once, each.agreed_again)
        counts = (each.courses, *agreed, each.parted_by_choice, each.too_late, len(each.differ))
        yield f"| {each.one} and {each.other} | {settings} | {each.date[:10]} | {' | '.join(map(str, counts))} |"
    yield ""
    yield from _asked(found)
    yield ""
    yield from _differences(found)


def _asked(found: Sequence[Comparison]) -> Iterator[str]:
    yield "| requests to each broker | versions | |"
    yield "|---|---|--:|"
    for name in API_OF.values():
        versions = sorted({version for each in found for version in each.requests.get(name, {})})
        count = sum(sum(each.requests.get(name, {}).values()) for each in found)
        if versions:
            yield f"| {name} | {versions[0]} to {versions[-1]} | {count} |"


def _differences(found: Sequence[Comparison]) -> Iterator[str]:
    remaining = [lines for each in found for lines in each.differ]
    if not remaining:
        yield "No difference remains."
        yield ""
    for lines in remaining:
        yield "```"
        yield from lines
        yield "```"
        yield ""
