"""Draws what the members of a plan do not have in common: timeouts, assignors and their order, topics, client versions.

    members = vary_members(random_stream("each member"), members)

It has a random stream of its own: in half of the plans all members are as they were drawn together.
"""

from collections.abc import Mapping
from random import Random
from typing import Final

from msgspec.structs import replace

from regroup.lab.plan.plan import MemberPlan
from regroup.lab.plan.validation import CLASSIC
from regroup.lab.search.swarm_setup import SESSION_TIMEOUTS_MS
from regroup.members.faults import MemberFaultKind

VARIED_SHARE: Final = 1 / 3
"""The share of plans whose members differ in their timeouts, the order of their assignors, and their topics."""
OLD_CLIENTS_SHARE: Final = 1 / 4
"""The share of plans whose members have clients of different releases."""
OLD_BROKERS_SHARE: Final = 1 / 10
EXPIRY_SHARE: Final = 1 / 8
"""The share of plans in which committed offsets expire after a minute or two."""
DOUBLING_SHARE: Final = 1 / 16
"""The share of plans of classic groups whose leaders assign one partition to two members."""
MAX_POLL_INTERVALS_MS: Final = (10_000, 30_000, 60_000, 300_000, 600_000)
CLIENT_RELEASES: Final = ("", "", "2.0", "2.2", "2.3", "2.8", "3.1", "3.9")
"""Around the versions of JoinGroup that matter: member ids (2.2), instance ids (2.3), and `skip_assignment` (3.2)."""
STATIC_CLIENT_RELEASES: Final = ("", "", "2.3", "2.8", "3.1", "3.9")
BROKER_RELEASES: Final = ("2.3", "2.8", "3.3", "3.9")


def vary_members(rng: Random, members: Mapping[str, MemberPlan]) -> dict[str, MemberPlan]:
    """Give some members timeouts, assignors, topics and client releases of their own; in other plans return them
    unchanged."""
    has_old_clients = rng.random() < OLD_CLIENTS_SHARE
    is_varied = rng.random() < VARIED_SHARE
    varied = {name: _varied(rng, each) if is_varied else each for name, each in members.items()}
    return {name: _with_client(rng, each) if has_old_clients else each for name, each in varied.items()}


def _varied(rng: Random, planned: MemberPlan) -> MemberPlan:
    session_timeout_ms, heartbeat_interval_ms = rng.choice(SESSION_TIMEOUTS_MS)
    count = rng.randint(1, len(planned.topics)) if rng.random() < 0.4 else len(planned.topics)
    return replace(
        planned,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=heartbeat_interval_ms,
        max_poll_interval_ms=rng.choice(MAX_POLL_INTERVALS_MS),
        assignors=tuple(rng.sample(planned.assignors, len(planned.assignors))),
        topics=tuple(sorted(rng.sample(planned.topics, count), key=planned.topics.index)),
    )


def _with_client(rng: Random, planned: MemberPlan) -> MemberPlan:
    """The member with a drawn release of its client. Members of the consumer protocol (KIP-848) keep the newest
    release.

    Static members get one that has instance ids, from 2.3 on.
    """
    release = rng.choice(CLIENT_RELEASES if planned.instance_id is None else STATIC_CLIENT_RELEASES)
    return replace(planned, client=release) if planned.protocol == CLASSIC else planned


def draw_doubling_leaders(rng: Random, members: Mapping[str, MemberPlan]) -> dict[str, MemberPlan]:
    """Let the leaders of one group assign a partition to two members, whichever member leads; in most plans return the
    members unchanged, and always if some have the consumer protocol.

    In the plans with other faults of assignors a group rarely has a second member when such a member leads.
    """
    group = rng.choice(list(members.values())).group
    if rng.random() >= DOUBLING_SHARE or any(each.protocol != CLASSIC for each in members.values()):
        return dict(members)
    doubles = MemberFaultKind.ASSIGNOR_DOUBLES.value
    return {
        name: replace(each, faults=(*each.faults, doubles))
        if each.group == group and doubles not in each.faults
        else each
        for name, each in members.items()
    }


def draw_release(rng: Random, members: Mapping[str, MemberPlan]) -> str:
    """Draw the release of the brokers: mostly the newest, which members of the consumer protocol need."""
    release = rng.choice(BROKER_RELEASES) if rng.random() < OLD_BROKERS_SHARE else ""
    return release if all(each.protocol == CLASSIC for each in members.values()) else ""


def draw_expiry(rng: Random) -> dict[str, str | int]:
    """Draw settings by which committed offsets expire during a run; mostly none."""
    if rng.random() >= EXPIRY_SHARE:
        return {}
    return {"offsets.retention.minutes": rng.choice((1, 2)), "offsets.retention.check.interval.ms": 5_000}
