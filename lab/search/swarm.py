"""A seed becomes a plan. Every option is drawn: also which kinds of faults this run knows at all, as a swarm does it.

    plan = draw_plan(7)
    print(describe(plan))

Runs that can do everything rarely get deep into anything; a run that knows only three kinds of faults does. Each part
of a plan has a stream of chance of its own, seeded by text, so that the same seed gives the same plan everywhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

from regroup.lab.plan.plan import Happening, MemberPlan, Plan, When
from regroup.lab.plan.steps import Crashes, Joins, Leaves
from regroup.lab.plan.yaml_options import write_options
from regroup.lab.search.swarm_cast import NAMES, draw_members, draw_network, draw_settings, draw_topics, draw_workload
from regroup.lab.search.swarm_faults import FAULTS, Draw
from regroup.lab.simulation.members import is_sound

TEN_MINUTES_MS: Final = 600_000
METADATA_MAX_AGE_MS: Final = 300_000
"""After so long a member has heard of every change of its topics."""
OF_VANISHING_TOPICS: Final = ("a topic vanishes", "a topic appears")
POINTS: Final = (
    "{member} has joined",
    "{member} is elected leader",
    "{member} is assigned partitions",
    "{member} gives up partitions",
    "{member} sends JoinGroup",
    "{member} sends SyncGroup",
    "{member} sends LeaveGroup",
    "{member} sends OffsetCommit",
    "{member} is answered JoinGroup",
    "{member} is answered SyncGroup",
    "{member} is expelled",
    "{member} is gone",
    "the group is preparing",
    "the group is completing",
    "the group is stable",
    "the group is empty",
    "generation {number} begins",
)
"""What happenings of a drawn plan wait for; all but `faults are over`."""


def draw_plan(
    seed: int,
    *,
    most_members: int = len(NAMES),
    faults: Sequence[str] = tuple(FAULTS),
    for_ms: int = TEN_MINUTES_MS,
) -> Plan:
    """The plan of a seed: `for_ms` with faults of some of these kinds (rows of `FAULTS`), and then healing."""
    if unknown := [fault for fault in faults if fault not in FAULTS]:
        raise ValueError(f"there is no fault {unknown[0]!r}; known are {', '.join(FAULTS)}")

    def chance(room: str) -> Random:
        return Random(f"{seed}/plan/{room}")

    brokers = chance("brokers").choices((1, 2, 3), (6, 3, 1))[0]
    topics = draw_topics(chance("topics"))
    members = draw_members(chance("members"), list(topics), most_members)
    draw = Draw(chance("happenings"), list(members), brokers, topics)
    return Plan(
        title=f"Seed {seed}",
        seed=seed,
        brokers=brokers,
        settings=draw_settings(chance("settings"), len(members)),
        topics=topics,
        members=members,
        network=draw_network(chance("network")),
        disk_latency_ms=chance("disk").choice((0, 0, 1, 5, 20)),
        workload=draw_workload(chance("workload")),
        happenings=_in_order(
            [*_arrivals(draw, for_ms), *_troubles(draw, kinds_drawn(seed, _bearable(faults, members)), for_ms)]
        ),
        heal_ms=for_ms,
        bound_ms=_bound_ms(members),
    )


def kinds_drawn(seed: int, faults: Sequence[str] = tuple(FAULTS)) -> list[str]:
    """The kinds of faults that the run of a seed knows, in the order of the table."""
    chance = Random(f"{seed}/plan/kinds")
    share = chance.choice((0.05, 0.1, 0.2, 0.4))
    return [fault for fault in faults if chance.random() < share] or [chance.choice(list(faults))]


def _bearable(faults: Sequence[str], members: Mapping[str, MemberPlan]) -> list[str]:
    """Kafka's sticky assignors keep to partitions that are gone when a topic has come back smaller; a group that uses
    one may then fail for ever, or give a partition to two members. That is theirs, and no find of ours."""
    is_sticky = any("sticky" in assignor for member in members.values() for assignor in member.assignors)
    return [fault for fault in faults if not is_sticky or fault not in OF_VANISHING_TOPICS] or list(faults)


def _arrivals(draw: Draw, for_ms: int) -> Iterator[Happening]:
    """All at once, or one after the other."""
    spread_ms = min(draw.one([0, 2_000, 20_000, 120_000]), for_ms - 1)
    for member in draw.members:
        yield Happening(When(delay_ms=draw.chance.randint(0, spread_ms) // 100 * 100), Joins(member))


def _troubles(draw: Draw, kinds: Sequence[str], for_ms: int) -> Iterator[Happening]:
    """Evenly over the time, or in a few storms; some of them at a point of the protocol."""
    storms = [draw.chance.randint(0, for_ms) for _ in range(draw.one([1, 3]))] if draw.chance.random() < 0.4 else []
    at_points = draw.one([0.0, 0.3, 0.7])
    for _ in range(draw.one([3, 6, 12, 25])):
        step = FAULTS[draw.one(kinds)](draw)
        if draw.chance.random() < at_points:
            when = When(_point(draw), draw.one([0, 0, draw.ms(1, 5_000)]))
        else:
            begin_ms = draw.one(storms) + draw.ms(10, 10_000) if storms else draw.chance.randint(0, for_ms)
            when = When(delay_ms=min(begin_ms, for_ms - 1) // 10 * 10)
        yield Happening(when, step)
        if isinstance(step, Crashes | Leaves) and draw.chance.random() < 0.7:
            again_ms = min(when.delay_ms + draw.ms(10, 60_000), for_ms - 1)
            yield Happening(When(when.after, again_ms), Joins(step.member))


def _point(draw: Draw) -> str:
    return draw.one(POINTS).format(member=draw.member(), number=draw.chance.randint(1, 12))


def _in_order(happenings: Sequence[Happening]) -> tuple[Happening, ...]:
    """Those that wait for a point first, since a reader sees by the time when the others come."""
    return tuple(sorted(happenings, key=lambda each: (not each.when.after, each.when.delay_ms)))


def _bound_ms(members: Mapping[str, MemberPlan]) -> int:
    """A group has heard of new partitions by then, and waited for its slowest member in two rebalances."""
    slowest_ms = max(member.max_poll_interval_ms + member.session_timeout_ms for member in members.values())
    return METADATA_MAX_AGE_MS + 2 * slowest_ms + 60_000


# -- for people


def describe(plan: Plan) -> str:
    """Every option of a plan, then who takes part, then what happens, a line each."""
    options = write_options(plan, all_of_them=True)
    del options["members"], options["happenings"]
    lines = [f"{key}: {_told(value) or 'none'}" for key, value in options.items()]
    lines += ["members, where they differ from Kafka's defaults:"]
    lines += [f"  {_member_line(name, planned)}" for name, planned in plan.members.items()]
    lines += ["happenings:", *(f"  {happening}" for happening in plan.happenings)]
    return "\n".join(lines)


def _member_line(name: str, planned: MemberPlan) -> str:
    options = _told(write_options(planned)) or "not at all"
    return f"{name}: {options}" + ("" if is_sound(planned) else " (not well-behaved)")


def _told(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_told(each)}" for key, each in value.items())
    return " then ".join(value) if isinstance(value, list) else str(value)
