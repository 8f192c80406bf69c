"""The description of an endpoint: its path, its function, its errors; and the emulator on which endpoints act."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_type_hints

import msgspec
from msgspec import Meta

from regroup.classroom.live.documents import LiveDocuments
from regroup.classroom.live.following import FollowedTimelines
from regroup.control.errors import Status
from regroup.control.simulated import MembersOfProcess
from regroup.coordinator.group import MemberId
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.observations import ViewObserved
from regroup.testing.async_emulator import AsyncEmulator

Method: TypeAlias = Literal["GET", "POST"]
MAX_WAIT_S: Final = 600.0
"""The longest wait that a request may ask for, in seconds."""
MAX_ROWS: Final = 10_000
"""The most rows in an answer."""


class NoInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The input of an endpoint that has no fields to fill in."""


class ListInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The largest number of rows that a list in the answer may have."""

    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS, description="The most rows of the answer.")] = MAX_ROWS


class Done(msgspec.Struct, frozen=True):
    """The answer of an endpoint whose action has no result: the action was carried out and its events are durable."""

    done: bool = True


class ControlledEmulator:
    """The emulator that endpoints show and change, with the simulated members and the followed histories of its ports.
    `close` ends the members and leaves the emulator running."""

    def __init__(self, emulator: AsyncEmulator) -> None:
        self.emulator = emulator
        self.members = MembersOfProcess(emulator)
        self.timelines = FollowedTimelines(lambda: emulator.history)
        self.documents = LiveDocuments(self.timelines, self)
        self.changing = asyncio.Lock()
        """Held while the brokers are killed or started again."""
        self.is_read_only = False
        """Whether the port only shows the emulator and refuses to act on it."""
        self.waits = 0
        """How many requests to the port wait for something; streams are included."""

    def at_port(self, *, is_read_only: bool) -> "ControlledEmulator":
        """Make a copy for one HTTP port, on the same emulator: with its own count of waiting requests, and with
        `is_read_only` as given."""
        controlled = copy(self)
        controlled.is_read_only, controlled.waits = is_read_only, 0
        return controlled

    def rows(self) -> Sequence[ExchangeRow]:
        """The recorded exchanges that are in memory, as rows."""
        recorder = self.emulator.recorder
        return recorder.rows() if recorder else ()

    def views_of(self, group: str, member_ids: Collection[MemberId]) -> Sequence[ViewObserved] | None:
        """Which partitions these members have believed they owned; None unless all of them are simulated members of
        this process."""
        return self.members.views_of(group, member_ids)

    async def close(self) -> None:
        """End the simulated members. The emulator is not stopped."""
        await self.members.close()


Handler: TypeAlias = Callable[[ControlledEmulator, Any], Awaitable[Any]]
StreamHandler: TypeAlias = Callable[[ControlledEmulator, Any], AsyncIterator[Any]]


@dataclass(frozen=True, kw_only=True)
class ControlEndpoint:
    """One endpoint: a function that is called over HTTP. The input of a GET is in the query, that of a POST in the JSON
    body."""

    method: Method
    path: str
    handle: Handler | StreamHandler
    refusals: tuple[Status, ...]
    """The statuses that only this endpoint may refuse a request with, besides those of all endpoints."""
    example: dict[str, Any]
    """An example of its input, for the documentation."""
    waits: bool = False
    """Whether a request to it may wait as long as its input says."""
    streams: bool = False
    """Whether it answers with a stream of messages, until the client disconnects."""

    @property
    def input_type(self) -> type[msgspec.Struct]:
        """The type of the endpoint's input, in the query of a GET or in the body of a POST."""
        named: type[msgspec.Struct] = get_type_hints(self.handle)["wanted"]
        return named

    @property
    def answer_type(self) -> Any:
        """The type of the JSON in the answer or, for a stream, in each message."""
        hinted = get_type_hints(self.handle)["return"]
        return get_args(hinted)[0] if self.streams else hinted

    @property
    def description(self) -> str:
        """What the endpoint does: the docstring of its function, in one line."""
        return " ".join((self.handle.__doc__ or "").split())

    @property
    def name(self) -> str:
        """The name of the endpoint for programs that are generated from the OpenAPI document, made from its path:
        `group_expire` for `/group/expire`."""
        return self.path.strip("/").replace("/", "_").replace("-", "_")


def look(path: str, handle: Handler, *refusals: Status, waits: bool = False, **example: Any) -> ControlEndpoint:
    """Make an endpoint for a GET, which changes nothing; `example` is an example of its input."""
    return ControlEndpoint(method="GET", path=path, handle=handle, refusals=refusals, example=example, waits=waits)


def act(path: str, handle: Handler, *refusals: Status, **example: Any) -> ControlEndpoint:
    """Make an endpoint for a POST, which changes something; `example` is an example of its input."""
    return ControlEndpoint(method="POST", path=path, handle=handle, refusals=refusals, example=example)


def stream(path: str, handle: StreamHandler, *refusals: Status, **example: Any) -> ControlEndpoint:
    """Make an endpoint for a GET that changes nothing and answers with a stream of messages."""
    return ControlEndpoint(method="GET", path=path, handle=handle, refusals=refusals, example=example, streams=True)
