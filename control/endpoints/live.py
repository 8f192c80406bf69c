"""Endpoints that follow a group while its history grows: a stream of its progress, and its timeline for the page."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import islice
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from regroup.classroom.live.following import FollowedPosition
from regroup.control.endpoints.endpoint import ControlEndpoint, ControlledEmulator, ListInput, look, stream
from regroup.control.endpoints.fields import GroupName
from regroup.control.errors import Status, UnknownGroup
from regroup.control.simulated import MAX_MEMBERS
from regroup.storage.errors import StoreError
from regroup.testing.errors import EmulatorDown

MIN_INTERVAL_S: Final = 0.1
"""The shortest time, in seconds, between two messages of a stream."""
MAX_INTERVAL_S: Final = 5.0
"""After this many seconds without a change a stream checks again, because a store may have been opened again."""


class FollowInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a group, which need not exist yet."""

    group: GroupName


class GroupProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group's history has grown: the position of its last event, and a number that grows when a simulated
    member changes."""

    group: str
    position: Annotated[
        int, Meta(description="Of the last durable event of the group, or of a topic; 0 before the group's first.")
    ]
    member_changes: Annotated[int, Meta(description="Grows with each change of a simulated member.")]
    running: Annotated[bool, Meta(description="False from a kill to the restart, and while the store fails.")]


class TimelineInList(msgspec.Struct, frozen=True, kw_only=True):
    """A group whose history the page can show."""

    label: str = "live"
    group: str
    run: int = 0


class TimelinesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The histories that the page can show."""

    runs: tuple[TimelineInList, ...]
    read_only: Annotated[bool, Meta(description="This port shows and does not act.")]
    max_members: Annotated[int, Meta(description="Simulated members at once.")] = MAX_MEMBERS


class TimelineInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The group whose history is asked for, and the position after which it is to begin."""

    group: GroupName
    after: Annotated[int, Meta(ge=0, description="Only what has changed after this position.")] = 0
    run: Annotated[int, Meta(ge=0, le=0, description="There is one: the history that is being written.")] = 0


async def timelines(controlled: ControlledEmulator, wanted: ListInput) -> TimelinesAnswer:
    """List the histories that the page can show: those of the groups that exist."""
    groups = islice(controlled.emulator.cluster.groups(), wanted.limit)
    return TimelinesAnswer(
        runs=tuple(TimelineInList(group=name) for name in sorted(each.group_id for each in groups)),
        read_only=controlled.is_read_only,
    )


async def timeline(controlled: ControlledEmulator, wanted: TimelineInput) -> msgspec.Raw:
    """The history of a group as the page reads it: columns that stand for moments and spans. Their form may change with
    any release."""
    document = await controlled.documents.document(wanted.group, wanted.after)
    if document is None:
        raise UnknownGroup(f"there is no history of a group {wanted.group!r}")
    return msgspec.Raw(document)


async def follow_group(controlled: ControlledEmulator, wanted: FollowInput) -> AsyncIterator[GroupProgress]:
    """Say how far a group has come, and again whenever it has come further, at most ten times a second. The group need
    not exist yet."""
    followed, sent = FollowedPosition(wanted.group), None
    while True:
        change = controlled.emulator.changes.next_change()
        while not change.done():
            progress = await _progress(controlled, wanted.group, followed)
            if progress != sent:
                sent = progress
                yield progress
            await asyncio.wait({change}, timeout=MAX_INTERVAL_S)
        await asyncio.sleep(MIN_INTERVAL_S)


async def _progress(controlled: ControlledEmulator, group: str, followed: FollowedPosition) -> GroupProgress:
    running = False
    with suppress(EmulatorDown, StoreError):
        journal = controlled.emulator.cluster.journal
        await journal.wait_until_durable(journal.last_position)
        await followed.advance(controlled.emulator.history)
        running = True
    return GroupProgress(
        group=group, position=followed.position, member_changes=controlled.members.change_count, running=running
    )


ENDPOINTS: tuple[ControlEndpoint, ...] = (
    stream("/group/follow", follow_group, group="billing"),
    look("/timelines", timelines),
    look("/timeline", timeline, Status.NOT_FOUND, group="billing", after=0),
)
