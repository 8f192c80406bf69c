"""A group as its history grows: how far it has come, as a stream."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from regroup.control.endpoints.endpoint import ControlEndpoint, ControlledEmulator, stream
from regroup.control.endpoints.fields import GroupName
from regroup.storage.errors import StoreError
from regroup.testing.errors import EmulatorDown

MIN_INTERVAL_S: Final = 0.1
"""The time between two messages of a stream."""
MAX_INTERVAL_S: Final = 5.0
"""After which a stream looks again, though nothing has been reported: a store may have been opened again."""


class FollowInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a group, which need not exist yet."""

    group: GroupName


class GroupProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group has come."""

    group: str
    position: Annotated[
        int, Meta(description="Of the last durable event of the group, or of a topic; 0 before the group's first.")
    ]
    member_changes: Annotated[int, Meta(description="Grows with each change of a simulated member.")]
    running: Annotated[bool, Meta(description="False from a kill to the restart, and while the store fails.")]


async def follow_group(controlled: ControlledEmulator, wanted: FollowInput) -> AsyncIterator[GroupProgress]:
    """Say how far a group has come, and again whenever it has come further, at most ten times a second. The group need
    not exist yet."""
    sent = GroupProgress(group=wanted.group, position=-1, member_changes=0, running=False)
    while True:
        change = controlled.emulator.changes.next_change()
        while not change.done():
            progress = await _progress(controlled, sent)
            if progress != sent:
                sent = progress
                yield sent
            await asyncio.wait({change}, timeout=MAX_INTERVAL_S)
        await asyncio.sleep(MIN_INTERVAL_S)


async def _progress(controlled: ControlledEmulator, sent: GroupProgress) -> GroupProgress:
    position, running = max(0, sent.position), False
    with suppress(EmulatorDown, StoreError):
        journal = controlled.emulator.cluster.journal
        await journal.wait_until_durable(journal.last_position)
        position, running = (await controlled.timelines.read(sent.group)).position, True
    return GroupProgress(
        group=sent.group, position=position, member_changes=controlled.members.change_count, running=running
    )


ENDPOINTS: tuple[ControlEndpoint, ...] = (stream("/group/follow", follow_group, group="billing"),)
