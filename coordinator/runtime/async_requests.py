"""The coordinator's requests as coroutines: one method for each API, all of them over `submit`."""

import asyncio
from abc import ABC, abstractmethod
from typing import cast

from regroup.coordinator import commands as c
from regroup.coordinator.runtime.pending_responses import ResponseCallback
from regroup.coordinator.serialization import Cause
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

__all__ = ["AsyncRequests"]


class AsyncRequests(ABC):
    """The requests to a coordinator as coroutines. If a caller is cancelled, its response is dropped and the group does
    not change."""

    @abstractmethod
    def submit(
        self, command: c.Command, on_response: ResponseCallback | None = None, cause: Cause | None = None
    ) -> None:
        """Handle a command now. `on_response` is called once with its response, now or later; `cause` says what led to
        the command."""

    async def join_group(self, command: c.JoinGroup, cause: Cause | None = None) -> JoinGroupResponse:
        return cast(JoinGroupResponse, await self._request(command, cause))

    async def sync_group(self, command: c.SyncGroup, cause: Cause | None = None) -> SyncGroupResponse:
        return cast(SyncGroupResponse, await self._request(command, cause))

    async def heartbeat(self, command: c.Heartbeat, cause: Cause | None = None) -> HeartbeatResponse:
        return cast(HeartbeatResponse, await self._request(command, cause))

    async def leave_group(self, command: c.LeaveGroup, cause: Cause | None = None) -> LeaveGroupResponse:
        return cast(LeaveGroupResponse, await self._request(command, cause))

    async def offset_commit(self, command: c.OffsetCommit, cause: Cause | None = None) -> OffsetCommitResponse:
        return cast(OffsetCommitResponse, await self._request(command, cause))

    async def txn_offset_commit(
        self, command: c.TxnOffsetCommit, cause: Cause | None = None
    ) -> TxnOffsetCommitResponse:
        return cast(TxnOffsetCommitResponse, await self._request(command, cause))

    async def end_transaction(self, command: c.EndTransaction, cause: Cause | None = None) -> EndTxnResponse:
        return cast(EndTxnResponse, await self._request(command, cause))

    async def offset_fetch(self, command: c.OffsetFetch, cause: Cause | None = None) -> OffsetFetchResponseGroup:
        return cast(OffsetFetchResponseGroup, await self._request(command, cause))

    async def offset_delete(self, command: c.OffsetDelete, cause: Cause | None = None) -> OffsetDeleteResponse:
        return cast(OffsetDeleteResponse, await self._request(command, cause))

    async def describe_group(self, command: c.DescribeGroup, cause: Cause | None = None) -> DescribedGroup:
        return cast(DescribedGroup, await self._request(command, cause))

    async def delete_group(self, command: c.DeleteGroup, cause: Cause | None = None) -> DeletableGroupResult:
        return cast(DeletableGroupResult, await self._request(command, cause))

    async def _request(self, command: c.Command, cause: Cause | None) -> Structure:
        future: asyncio.Future[Structure] = asyncio.get_running_loop().create_future()

        def on_response(response: Structure) -> None:
            if not future.done():  # the caller may have been cancelled
                future.set_result(response)

        self.submit(command, on_response, cause)
        return await future
