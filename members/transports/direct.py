"""A transport without a network: every request is a call, as into a coordinator in the same process."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from regroup.members.consumer.effects import Lane, Outgoing
from regroup.members.consumer.inputs import Answered, Unanswered
from regroup.members.transports.base import Reply, as_newest, as_of, default_versions
from regroup.protocol.codec.codec import encode
from regroup.protocol.exceptions import ProtocolError
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message

Call: TypeAlias = Callable[[RequestHeader, Message], Awaitable[Message]]


class CallRefused(ConnectionError):
    """Raised by a callable that wants its caller to see a broken connection. Any other ConnectionError does too."""


class CallTransport:
    """`versions` pins APIs to older versions, to play a client from before a KIP.

    Calls run side by side, also those of one lane: what a parked JoinGroup would hold up on a real connection is not
    held up here.
    """

    def __init__(self, call: Call, *, client_id: str = "regroup", versions: Mapping[int, int] | None = None) -> None:
        self._call = call
        self._client_id = client_id
        self._versions = {**default_versions(), **(versions or {})}
        self._pinned = frozenset(versions or ())
        self._correlation_id = 0
        self._tasks: dict[asyncio.Task[None], Lane] = {}

    def send(self, outgoing: Outgoing, reply: Reply) -> None:
        """Begin the call."""
        task = asyncio.get_running_loop().create_task(self._run(outgoing, reply))
        self._tasks[task] = outgoing.lane
        task.add_done_callback(self._done)

    async def _run(self, outgoing: Outgoing, reply: Reply) -> None:
        key = outgoing.message.api_key
        version = self._versions[key]
        request = as_of(outgoing.message, version)
        self._correlation_id += 1
        header = RequestHeader(key, version, self._correlation_id, self._client_id)
        try:
            if key in self._pinned:
                encode(request, version)
            response = await self._call(header, request)
        except ProtocolError as error:
            reply(Unanswered(outgoing.number, str(error), unsupported=True))
        except ConnectionError as error:
            reply(Unanswered(outgoing.number, str(error)))
        else:
            reply(Answered(outgoing.number, as_newest(request, response, version)))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a call into the coordinator failed", "exception": error, "task": task}
            )

    def hang_up(self) -> None:
        """Nobody waits for the coordinator's answers any more."""
        for task, lane in list(self._tasks.items()):
            if lane is Lane.COORDINATOR:
                task.cancel()

    async def close(self) -> None:
        """Cancel what is still waiting."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for task in tasks:
            await _ended(task)


async def _ended(task: asyncio.Task[None]) -> None:
    try:
        await task
    except asyncio.CancelledError:
        return
