"""The coordinator for whoever likes to await an answer: one method for each request, all of them over `submit`."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias, cast

from regroup.coordinator import commands as c
from regroup.coordinator.runtime.pending_responses import Answering
from regroup.protocol.message import Structure
from regroup.protocol.messages.describe import DeletableGroupResult, DescribedGroup
from regroup.protocol.messages.group import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import OffsetCommitResponse, OffsetDeleteResponse, OffsetFetchResponseGroup
from regroup.protocol.messages.transactions import EndTxnResponse, TxnOffsetCommitResponse

Because: TypeAlias = Callable[[], bytes]
"""Tells what led to a command, as the JSON text of a `Cause`; asked only if something happens."""


class Awaitable(ABC):
    """A caller that is cancelled no longer listens; in the group nothing changes."""

    @abstractmethod
    def submit(self, command: c.Command, answering: Answering | None = None, cause: Because | None = None) -> None:
        """Deal with a command now, and answer now or later."""

    async def join_group(self, command: c.JoinGroup, cause: Because | None = None) -> JoinGroupResponse:
        return cast(JoinGroupResponse, await self._ask(command, cause))

    async def sync_group(self, command: c.SyncGroup, cause: Because | None = None) -> SyncGroupResponse:
        return cast(SyncGroupResponse, await self._ask(command, cause))

    async def heartbeat(self, command: c.Heartbeat, cause: Because | None = None) -> HeartbeatResponse:
        return cast(HeartbeatResponse, await self._ask(command, cause))

    async def leave_group(self, command: c.LeaveGroup, cause: Because | None = None) -> LeaveGroupResponse:
        return cast(LeaveGroupResponse, await self._ask(command, cause))

    async def commit_offsets(self, command: c.CommitOffsets, cause: Because | None = None) -> OffsetCommitResponse:
        return cast(OffsetCommitResponse, await self._ask(command, cause))

    async def commit_transactional_offsets(
        self, command: c.CommitTransactionalOffsets, cause: Because | None = None
    ) -> TxnOffsetCommitResponse:
        return cast(TxnOffsetCommitResponse, await self._ask(command, cause))

    async def end_transaction(self, command: c.EndTransaction, cause: Because | None = None) -> EndTxnResponse:
        return cast(EndTxnResponse, await self._ask(command, cause))

    async def fetch_offsets(self, command: c.FetchOffsets, cause: Because | None = None) -> OffsetFetchResponseGroup:
        return cast(OffsetFetchResponseGroup, await self._ask(command, cause))

    async def delete_offsets(self, command: c.DeleteOffsets, cause: Because | None = None) -> OffsetDeleteResponse:
        return cast(OffsetDeleteResponse, await self._ask(command, cause))

    async def describe_group(self, command: c.DescribeGroup, cause: Because | None = None) -> DescribedGroup:
        return cast(DescribedGroup, await self._ask(command, cause))

    async def delete_group(self, command: c.DeleteGroup, cause: Because | None = None) -> DeletableGroupResult:
        return cast(DeletableGroupResult, await self._ask(command, cause))

    async def _ask(self, command: c.Command, cause: Because | None) -> Structure:
        answer: asyncio.Future[Structure] = asyncio.get_running_loop().create_future()

        def answering(message: Structure) -> None:
            # A caller that was cancelled no longer listens, and the group does not mind.
            if not answer.done():
                answer.set_result(message)

        self.submit(command, answering, cause)
        return await answer
