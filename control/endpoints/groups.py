"""Endpoints that look at a group, wait for it, and act on it."""

from collections.abc import Awaitable
from functools import partial
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta

from regroup.control.endpoints.endpoint import ControlEndpoint, ControlledEmulator, Done, ListInput, act, look
from regroup.control.endpoints.fields import GroupName, MemberName, PartitionOfTopic, RowLimit, WaitTimeoutS
from regroup.control.endpoints.group_answers import (
    CommittedOffsetAnswer,
    DeadlineAnswer,
    EventAnswer,
    GroupAnswer,
    GroupInList,
    GroupMemberAnswer,
    GroupStateName,
    StoryAnswer,
    group_answer,
    member_fields,
    offset_answers,
)
from regroup.control.errors import Status, UnknownGroup
from regroup.coordinator.group import GroupState
from regroup.storage.store import again_if_trimmed
from regroup.testing.groups.async_group import AsyncGroup
from regroup.testing.groups.story import event_of
from regroup.testing.groups.views import GroupView, view_of

MAX_NAMED_GROUPS = 20
"""How many groups an error lists after a name that no group has."""


# What travels


class GroupInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a group."""

    group: GroupName


class MemberInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a member of a group."""

    group: GroupName
    member: MemberName


class ForgetOffsetsInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group, and the committed offsets to delete."""

    group: GroupName
    partitions: Annotated[
        tuple[PartitionOfTopic, ...], Meta(max_length=10_000, description="Empty for all that the group has.")
    ] = ()


class WaitStableInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A group that is to become Stable, and how long to wait for it."""

    group: GroupName
    members: Annotated[int, Meta(ge=0, description="So many members.")] | None = None
    timeout_s: WaitTimeoutS = 10.0


class WaitInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a group is to become; all conditions that are given must hold at the same time."""

    group: GroupName
    state: Annotated[GroupStateName, Meta(description="This state; a group that does not exist is Dead.")] | None = None
    members: Annotated[int, Meta(ge=0, description="So many members.")] | None = None
    member: Annotated[str, Meta(description="A member of this name is there.")] = ""
    generation: Annotated[int, Meta(ge=0, description="At least this generation.")] | None = None
    max_lag: Annotated[int, Meta(ge=0, description="At most this lag, of all partitions together.")] | None = None
    after_event: Annotated[int, Meta(ge=0, description="More events than this `event_number`.")] | None = None
    timeout_s: WaitTimeoutS = 10.0


class EventsInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The group whose events are listed, and which of its events."""

    group: GroupName
    after: Annotated[int, Meta(ge=0, description="Only those behind this position.")] = 0
    limit: RowLimit = 1000


async def existing_group(controlled: ControlledEmulator, name: str) -> AsyncGroup:
    """The handle of a group that exists. Raises UnknownGroup if there is none with this name."""
    group = controlled.emulator.group(name)
    if (await group.now()).state is GroupState.DEAD:
        names = await controlled.emulator.groups()
        known = ", ".join(islice(map(repr, names), MAX_NAMED_GROUPS)) + (", …" if len(names) > MAX_NAMED_GROUPS else "")
        raise UnknownGroup(f"there is no group {name!r}; groups: {known or 'none'}")
    return group


async def answer_of(acting: Awaitable[GroupView]) -> GroupAnswer:
    return group_answer(await acting)


# Look


async def groups(controlled: ControlledEmulator, wanted: ListInput) -> tuple[GroupInList, ...]:
    """List the groups."""
    cluster = controlled.emulator.cluster
    return tuple(
        GroupInList(
            group=view.name,
            kind=view.kind,
            state=GroupStateName(view.state),
            generation=view.generation,
            members=len(view.members),
        )
        for view in (view_of(group, cluster.state) for group in islice(cluster.groups(), wanted.limit))
    )


async def group_now(controlled: ControlledEmulator, wanted: GroupInput) -> GroupAnswer:
    """Show a group: state, generation, members with their partitions, committed offsets and lag."""
    return await answer_of((await existing_group(controlled, wanted.group)).now())


async def committed(controlled: ControlledEmulator, wanted: GroupInput) -> tuple[CommittedOffsetAnswer, ...]:
    """List the committed offsets of a group."""
    return offset_answers(await (await existing_group(controlled, wanted.group)).now())


async def members(controlled: ControlledEmulator, wanted: ListInput) -> tuple[GroupMemberAnswer, ...]:
    """List the members of all groups."""
    cluster = controlled.emulator.cluster
    views = (view_of(group, cluster.state) for group in cluster.groups())
    found = (GroupMemberAnswer(group=view.name, **member_fields(member)) for view in views for member in view.members)
    return tuple(islice(found, wanted.limit))


async def events(controlled: ControlledEmulator, wanted: EventsInput) -> tuple[EventAnswer, ...]:
    """List the stored events of a group, the oldest first, with their causes."""
    return await again_if_trimmed(partial(_stored_events, controlled, wanted))


async def _stored_events(controlled: ControlledEmulator, wanted: EventsInput) -> tuple[EventAnswer, ...]:
    found: list[EventAnswer] = []
    history = controlled.emulator.history
    async for record in history.read(group=wanted.group, after=max(wanted.after, history.trimmed_through)):
        event = event_of(record)
        found.append(
            EventAnswer(
                position=event.position, at_ms=event.at_ms, type=event.type, fields=event.fields, cause=event.cause
            )
        )
        if len(found) == wanted.limit:
            break
    return tuple(found)


async def group_deadlines(controlled: ControlledEmulator, wanted: GroupInput) -> tuple[DeadlineAnswer, ...]:
    """List the deadlines that run for a group, the earliest first: of its phase, and of its members' sessions, unless a
    JoinGroup or SyncGroup of theirs is held."""
    name = (await existing_group(controlled, wanted.group)).name
    running = controlled.emulator.cluster.coordinator_of(name).deadlines(name)
    return tuple(
        DeadlineAnswer(kind=each.kind, at_ms=each.at_ms, member_id=each.member_id, since_ms=each.last_seen_ms)
        for each in sorted(running, key=lambda each: (each.at_ms, each.kind, each.member_id))
    )


async def group_story(controlled: ControlledEmulator, wanted: GroupInput) -> StoryAnswer:
    """Show the last events and requests of a group as a table for people."""
    return StoryAnswer(await controlled.emulator.group(wanted.group).story())


# Wait


async def wait_stable(controlled: ControlledEmulator, wanted: WaitStableInput) -> GroupAnswer:
    """Wait until a group is Stable, with so many members, and all have fetched their assignments. The group need not
    exist yet."""
    group = controlled.emulator.group(wanted.group)
    return await answer_of(group.wait_until_stable(members=wanted.members, timeout_s=wanted.timeout_s))


async def wait_until(controlled: ControlledEmulator, wanted: WaitInput) -> GroupAnswer:
    """Wait until all given conditions hold of a group, which need not exist yet."""
    group = controlled.emulator.group(wanted.group)
    given = [
        f"{name} {value.value if isinstance(value, GroupStateName) else value}"
        for name in ("state", "members", "member", "generation", "max_lag", "after_event")
        if (value := getattr(wanted, name)) not in (None, "")
    ]
    waiting = group.wait_until(
        lambda view: holds(wanted, view), timeout_s=wanted.timeout_s, what=", ".join(given) or "existence"
    )
    return await answer_of(waiting)


def holds(wanted: WaitInput, view: GroupView) -> bool:
    """Whether the group meets all conditions of the input; without any condition, whether it exists."""
    conditions = [
        wanted.state in (None, view.state.value),
        wanted.members in (None, len(view.members)),
        not wanted.member or any(wanted.member in (m.member_id, m.instance_id, m.client_id) for m in view.members),
        wanted.generation is None or view.generation >= wanted.generation,
        wanted.max_lag is None or view.total_lag <= wanted.max_lag,
        wanted.after_event is None or view.event_number > wanted.after_event,
        wanted.state is not None or view.state is not GroupState.DEAD,
    ]
    return all(conditions)


# Act


async def expire(controlled: ControlledEmulator, wanted: MemberInput) -> GroupAnswer:
    """End the session of a member now. A client that lives joins again once its next heartbeat is refused."""
    return await answer_of((await existing_group(controlled, wanted.group)).expire(wanted.member))


async def remove(controlled: ControlledEmulator, wanted: MemberInput) -> GroupAnswer:
    """Remove a member as an administrator does (KIP-345)."""
    return await answer_of((await existing_group(controlled, wanted.group)).remove(wanted.member))


async def rebalance(controlled: ControlledEmulator, wanted: GroupInput) -> GroupAnswer:
    """Start a rebalance although nothing has changed, as a consumer can (KIP-568)."""
    return await answer_of((await existing_group(controlled, wanted.group)).rebalance())


async def complete_join_phase(controlled: ControlledEmulator, wanted: GroupInput) -> GroupAnswer:
    """End the join phase now, as its deadline would: members that have not joined are removed."""
    return await answer_of((await existing_group(controlled, wanted.group)).complete_join_phase())


async def bump_generation(controlled: ControlledEmulator, wanted: GroupInput) -> GroupAnswer:
    """Count one generation more without a rebalance. Apache Kafka never does this; the event is marked so."""
    return await answer_of((await existing_group(controlled, wanted.group)).bump_generation())


async def forget_offsets(controlled: ControlledEmulator, wanted: ForgetOffsetsInput) -> GroupAnswer:
    """Delete committed offsets, also of topics to which members subscribe. Apache Kafka refuses that; the event is
    marked so."""
    group = await existing_group(controlled, wanted.group)
    return await answer_of(group.forget_offsets(*((each.topic, each.partition) for each in wanted.partitions)))


async def delete(controlled: ControlledEmulator, wanted: GroupInput) -> Done:
    """Remove all members, as an administrator, and delete the group with its offsets."""
    await (await existing_group(controlled, wanted.group)).delete()
    return Done()


_GONE, _NO = Status.NOT_FOUND, Status.REFUSED
ENDPOINTS: tuple[ControlEndpoint, ...] = (
    look("/groups", groups),
    look("/group", group_now, _GONE, group="billing"),
    look("/group/committed", committed, _GONE, group="billing"),
    look("/group/events", events, group="billing", limit=10),
    look("/group/deadlines", group_deadlines, _GONE, group="billing"),
    look("/group/story", group_story, group="billing"),
    look("/members", members),
    look("/group/wait-stable", wait_stable, _NO, waits=True, group="billing", members=2),
    look("/group/wait", wait_until, _NO, waits=True, group="billing", state="Stable"),
    act("/group/expire", expire, _GONE, _NO, group="billing", member="first"),
    act("/group/remove", remove, _GONE, _NO, group="billing", member="first"),
    act("/group/rebalance", rebalance, _GONE, _NO, group="billing"),
    act("/group/complete-join-phase", complete_join_phase, _GONE, _NO, group="billing"),
    act("/group/bump-generation", bump_generation, _GONE, _NO, group="billing"),
    act(
        "/group/forget-offsets",
        forget_offsets,
        _GONE,
        _NO,
        group="billing",
        partitions=[{"topic": "orders", "partition": 0}],
    ),
    act("/group/delete", delete, _GONE, _NO, group="billing"),
)
